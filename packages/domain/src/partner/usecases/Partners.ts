/** Use cases of partners: reading the feed. */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type { Principal } from "../../access/schema/Principal.ts"
import type { StoreUnavailable } from "../../store/StoreUnavailable.ts"
import { PartnerStore } from "../ports/PartnerStore.ts"
import type { PartnerEvent } from "../schema/PartnerEvent.ts"

/** A page of a grant's feed, in the order of `sequence`. */
export interface FeedPage {
  readonly events: ReadonlyArray<PartnerEvent>
  /** The next `after`. Save it after all of `events` are processed. */
  readonly nextCursor: number
}

/** Reads for partners. */
export class Partners extends Context.Service<Partners, {
  /** The grant's events after `after`, ascending. An empty page, at or beyond the head, returns `after` as the next cursor. */
  feed(by: Principal, page: { readonly after: number; readonly limit: number }): Effect.Effect<FeedPage, StoreUnavailable>
}>()("@slipway/domain/Partners") {
  static readonly layer = Layer.effect(
    Partners,
    Effect.map(PartnerStore, (store) =>
      Partners.of({
        feed: Effect.fn("Partners.feed")(function*(by, { after, limit }) {
          const events = yield* store.feed(by.grantId, after, limit)
          return { events, nextCursor: events.at(-1)?.sequence ?? after }
        })
      }))
  )
}
