import { assert, it } from "@effect/vitest"
import { mayBeCut, nextPage, PAGE_BYTES, PageLimit, pageOf, readPage } from "@slipway/domain/store/Page"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"

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

it("half of the byte limit may be its end, because stores measure a little differently", () => {
  assert.strictEqual(PAGE_BYTES, 786_432)
  assert.isTrue(mayBeCut([PAGE_BYTES / 2], bytesOf))
  assert.isFalse(mayBeCut([PAGE_BYTES / 2 - 1], bytesOf))
})

it("a page is asked for after a position, with one item at least", () => {
  assert.deepStrictEqual([0, 0.5, 1, Number.MAX_SAFE_INTEGER].map(Schema.is(PageLimit)), [false, false, true, true])
  assert.deepStrictEqual(readPage({ after: 0, limit: 1 }), Result.succeed({ after: 0, limit: 1 }))
  for (const [given, field] of [[{ limit: 1 }, "after"], [{ after: 0 }, "limit"], [null, "page"]] as const) {
    const refused = readPage(given)
    assert.strictEqual(Result.isFailure(refused) && refused.failure.field, field)
  }
})

interface Item {
  readonly bytes: number
  readonly i: number
}

/** Reads pages of these sizes from a store with its own byte limit; `asked`: what the store was asked for. */
const paging = (sizes: ReadonlyArray<number>, limit: number) => {
  const items = sizes.map((bytes, i): Item => ({ bytes, i }))
  const asked: Array<readonly [after: number | null, limit: number]> = []
  return Effect.map(
    nextPage<Item, never, never>(limit, ({ bytes }) => bytes, (after, most) => {
      asked.push([after?.i ?? null, most])
      return Effect.succeed(pageOf(items.slice(after === null ? 0 : after.i + 1), most, ({ bytes }) => bytes))
    }),
    ({ more, page }) => ({ page: page.map(({ i }) => i), more: more === null ? null : more.i, asked })
  )
}
const large = PAGE_BYTES

it.effect.each<readonly [string, ReadonlyArray<number>, object]>([
  ["no item", [], { page: [], more: null, asked: [[null, 3]] }],
  ["fewer items than asked for", [1], { page: [0], more: null, asked: [[null, 3]] }],
  ["as many as asked for, which are all", [1, 1], { page: [0, 1], more: null, asked: [[null, 3]] }],
  ["as many as asked for, and one more", [1, 1, 1], { page: [0, 1], more: 1, asked: [[null, 3]] }],
  ["those before the byte limit, and more", [large, 1], { page: [0], more: 0, asked: [[null, 3], [0, 1]] }],
  ["those before the byte limit, and no more", [1, large], { page: [0, 1], more: null, asked: [[null, 3], [1, 1]] }]
])("a page has %s, and says whether more follow", ([, sizes, found]) =>
  Effect.gen(function*() {
    assert.deepStrictEqual<object>(yield* paging(sizes, 2), found)
  }))
