/** Pages of lists, limited by count and by bytes, because each of a hundred items may be large. */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { reader } from "../text/InvalidRequest.ts"
import { Counter } from "../text/Text.ts"

/**
 * A page gets no further item once it has this many bytes. With the largest text of an event, 256 KiB, as its last item a page has 1
 * MiB. A process can hold that for each of a few hundred readers.
 */
export const PAGE_BYTES = 768 * 1024

/** The number of items of a page. */
export const PageLimit = Schema.Int.check(
  Schema.isBetween({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER }, { expected: "a whole number from 1" })
)

/** Decodes a request for a page of a log: up to `limit` items after the position `after`. */
export const readPage = reader(Schema.Struct({ after: Counter, limit: PageLimit }), "page")

/** At most the first `limit` items, and no further item after {@link PAGE_BYTES}; at least one if there is any. */
export const pageOf = <A>(items: Iterable<A>, limit: number, bytesOf: (item: A) => number): Array<A> => {
  const page: Array<A> = []
  let bytes = 0
  for (const item of items) {
    if (page.length >= limit || bytes >= PAGE_BYTES) break
    page.push(item)
    bytes += bytesOf(item)
  }
  return page
}

/**
 * A page of a list, and its last item if more items follow. `read` returns up to the given number of items after an item, or from the
 * beginning.
 */
export const nextPage = Effect.fnUntraced(function*<A, E, R>(
  limit: number,
  bytesOf: (item: A) => number,
  read: (after: A | null, limit: number) => Effect.Effect<ReadonlyArray<A>, E, R>
) {
  // One item more than requested shows whether there is a next page, unless the byte limit may have ended this one.
  const found = yield* read(null, limit + 1)
  const page = found.slice(0, limit)
  const last = page.at(-1)
  if (last === undefined) return { page, more: null }
  const follows = found.length > limit || mayBeCut(found, bytesOf) && (yield* read(last, 1)).length > 0
  return { page, more: follows ? last : null }
})

/**
 * Whether a page with fewer items than requested may have been ended by the byte limit. Half of the limit counts too, because stores
 * measure sizes a little differently.
 */
export const mayBeCut = <A>(page: ReadonlyArray<A>, bytesOf: (item: A) => number): boolean => {
  let bytes = 0
  for (const item of page) bytes += bytesOf(item)
  return bytes >= PAGE_BYTES / 2
}
