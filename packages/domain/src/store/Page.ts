/** Pages of lists are bounded by bytes as well as by count: a hundred items may each be large. */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { reader } from "../text/InvalidRequest.ts"
import { Counter } from "../text/Text.ts"

/**
 * A page takes no further item once it has this many bytes. With the largest text of an event, 256 KiB, as its last item a
 * page has 1 MiB: what a process may hold for each of a few hundred readers.
 */
export const PAGE_BYTES = 768 * 1024

/** The most items of a page. */
export const PageLimit = Schema.Int.check(
  Schema.isBetween({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER }, { expected: "a whole number from 1" })
)

/** What a caller wants of a log: up to `limit` items after the position `after`. */
export const readPage = reader(Schema.Struct({ after: Counter, limit: PageLimit }), "page")

/** The first `limit` of the items at most, and no further one after {@link PAGE_BYTES}; at least one, if there is one. */
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
 * A page of a list, and its last item when others follow it. `read` gives up to so many items after one, or from where the
 * page begins.
 */
export const nextPage = Effect.fnUntraced(function*<A, E, R>(
  limit: number,
  bytesOf: (item: A) => number,
  read: (after: A | null, limit: number) => Effect.Effect<ReadonlyArray<A>, E, R>
) {
  // One more than asked for tells whether there is a next page, unless bytes may have ended this one.
  const found = yield* read(null, limit + 1)
  const page = found.slice(0, limit)
  const last = page.at(-1)
  if (last === undefined) return { page, more: null }
  const follows = found.length > limit || mayBeCut(found, bytesOf) && (yield* read(last, 1)).length > 0
  return { page, more: follows ? last : null }
})

/**
 * Whether a page of fewer items than were asked for may have ended because of its bytes, and others follow. A page of half
 * as many counts too: what stores measure differs a little from what callers do.
 */
export const mayBeCut = <A>(page: ReadonlyArray<A>, bytesOf: (item: A) => number): boolean => {
  let bytes = 0
  for (const item of page) bytes += bytesOf(item)
  return bytes >= PAGE_BYTES / 2
}
