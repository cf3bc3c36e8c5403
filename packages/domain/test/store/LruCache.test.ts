import { assert, it } from "@effect/vitest"
import { LruCache } from "@slipway/domain/store/LruCache"

it("forgets what was used longest ago", () => {
  const cache = new LruCache<string, number>(2)
  cache.set("a", 1)
  cache.set("b", 2)
  assert.strictEqual(cache.get("a"), 1)
  cache.set("c", 3)
  assert.deepStrictEqual(["a", "b", "c"].map((key) => cache.get(key)), [1, undefined, 3])
  // Only looking at what is there is no use of it.
  assert.isTrue(cache.has("a"))
  cache.set("d", 4)
  assert.deepStrictEqual(["a", "c", "d"].map((key) => cache.has(key)), [false, true, true])
})

it("keeps no more than its weight, whatever is replaced or removed", () => {
  const cache = new LruCache<string, string>(10, (value, key) => key.length + value.length)
  cache.set("a", "1234")
  cache.set("b", "1234")
  assert.strictEqual(cache.size, 2)
  cache.set("a", "12345")
  assert.deepStrictEqual([cache.get("a"), cache.get("b")], ["12345", undefined])
  cache.delete("a")
  cache.delete("a")
  cache.set("c", "123456789")
  assert.strictEqual(cache.get("c"), "123456789")
  // A value that does not fit at all takes the place of its key alone.
  cache.set("d", "1234567890")
  assert.deepStrictEqual([cache.get("c"), cache.get("d")], ["123456789", undefined])
  cache.set("c", "1234567890")
  assert.strictEqual(cache.size, 0)
  cache.set("e", "1")
  cache.clear()
  cache.set("f", "123456789")
  assert.deepStrictEqual([cache.get("e"), cache.get("f")], [undefined, "123456789"])
  cache.set("g", "")
  assert.deepStrictEqual([cache.get("f"), cache.get("g")], [undefined, ""])
})
