/**
 * The timeline of an issue or pull request: comments, reviews and labels with their authors. Comments on lines of code are hidden in it
 * although they count for its pages, and its total is that of the page. So a page with few entries, or none, need not be the last one.
 */
import { onStatus } from "@slipway/rest-host/RestApi"
import { DateTime, Effect, Schema } from "effect"
import { type ForgejoApi, PER_PAGE, type Place } from "./ForgejoApi.ts"
import * as News from "./News.ts"

const Entries = Schema.NullOr(Schema.Array(News.Entry))

/** A page with as many entries may be full: no server is known to give fewer. */
const MAYBE_FULL = 10
/** Empty pages before which there may be hidden entries: a review has fewer than a hundred comments on lines. */
const MAXIMUM_EMPTY = 2
const MAXIMUM_PAGES = 20

/** The instant as the API takes it, with whole seconds. */
export const secondsOf = (at: DateTime.Utc): string => DateTime.formatIso(DateTime.startOf(at, "second")).replace(/\.\d+Z$/u, "Z")

/** A page of the entries that changed since, oldest first, without older entries. A deleted issue has no entries. */
export const page = (api: ForgejoApi, place: Place, number: number, since: string, at: number) =>
  api.get(place, `/issues/${number}/timeline`, Entries, { since, limit: PER_PAGE, page: at }).pipe(
    Effect.map((entries) => {
      const found = entries ?? []
      const isLast = at >= MAXIMUM_PAGES || (found.length === 0 ? at >= MAXIMUM_EMPTY : found.length < MAYBE_FULL)
      const isNew = ({ created_at }: News.Entry) => DateTime.isGreaterThanOrEqualTo(News.instantOf(created_at), News.instantOf(since))
      return { entries: found.filter(isNew), isLast }
    }),
    onStatus(404, () => api.absent(place, Effect.succeed({ entries: [], isLast: true })))
  )

/** All entries since then. */
export const all = Effect.fnUntraced(function*(api: ForgejoApi, place: Place, number: number, since: string) {
  const found: Array<News.Entry> = []
  for (let at = 1;; at++) {
    const { entries, isLast } = yield* page(api, place, number, since, at)
    found.push(...entries)
    if (isLast) return found
  }
})
