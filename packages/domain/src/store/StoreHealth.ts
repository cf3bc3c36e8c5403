/** Why the store refuses writes although it answers reads, such as a full disk. */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"

/** A sentence for people without internal details; `null`: no known problem. Cheap enough for every request. */
export const StoreHealth = Context.Reference<Effect.Effect<string | null>>("@slipway/domain/StoreHealth", {
  defaultValue: () => Effect.succeed(null)
})
