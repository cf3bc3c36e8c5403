/** Why the store takes no writes although it answers reads, such as a full disk. */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"

/** A sentence for people, with nothing internal; `null`: no known problem. Cheap: it may be asked at any rate. */
export const StoreHealth = Context.Reference<Effect.Effect<string | null>>("@slipway/domain/StoreHealth", {
  defaultValue: () => Effect.succeed(null)
})
