/** What a partner may read. */
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
  /** Save it once all of `events` are processed: it is the next `after`. */
  readonly nextCursor: number
}

/** What a partner may read. */
export class Partners extends Context.Service<Partners, {
  /** The grant's events after `after`, ascending. An empty page, at the head or beyond it, gives `after` back. */
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
