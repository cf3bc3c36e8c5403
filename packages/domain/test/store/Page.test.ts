import { assert, it } from "@effect/vitest"
import { mayBeCut, PAGE_BYTES, pageOf } from "@slipway/domain/store/Page"

const bytesOf = (bytes: number) => bytes

it("a page has as many items as asked for, unless its bytes end it, and at least one", () => {
  assert.deepStrictEqual(pageOf([1, 2, 3], 2, bytesOf), [1, 2])
  assert.deepStrictEqual(pageOf([], 2, bytesOf), [])
  assert.deepStrictEqual(pageOf([10 * PAGE_BYTES, 1], 2, bytesOf), [10 * PAGE_BYTES])
  assert.deepStrictEqual(pageOf([PAGE_BYTES - 1, 5, 1], 9, bytesOf), [PAGE_BYTES - 1, 5])
  assert.deepStrictEqual(pageOf([PAGE_BYTES, 5], 9, bytesOf), [PAGE_BYTES])
})

it("a reader recognizes pages that the byte limit may have ended, and few others", () => {
  for (const item of [1000, 50_000, PAGE_BYTES / 3]) {
    const all = Array.from({ length: 2000 }, () => item)
    assert.isTrue(mayBeCut(pageOf(all, 2000, bytesOf), bytesOf))
  }
  assert.isFalse(mayBeCut([1, 2, 3], bytesOf))
})
