/** What keeps the store from taking writes while it still answers reads: a full disk, above all. */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"

/** A sentence for people; `null`: nothing that is known. Nothing internal, and cheap: it may be asked as often as anybody likes. */
export const StoreTrouble = Context.Reference<Effect.Effect<string | null>>("@slipway/domain/StoreTrouble", {
  defaultValue: () => Effect.succeed(null)
})
