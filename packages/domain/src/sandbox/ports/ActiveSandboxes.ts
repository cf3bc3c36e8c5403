/** How many sandboxes of a grant may be active (not settled) at once. */
import * as Context from "effect/Context"
import * as Schema from "effect/Schema"

/** `null`: any number. Configuration. */
export const MaxActiveSandboxes = Context.Reference<number | null>("@slipway/domain/MaxActiveSandboxes", {
  defaultValue: () => null
})

/** The grant has as many active sandboxes as it may. Nothing was made; the same call succeeds once one of them has ended. */
export class ConcurrencyLimitExceeded
  extends Schema.TaggedError<ConcurrencyLimitExceeded>()("ConcurrencyLimitExceeded", { limit: Schema.Int })
{
  override get message() {
    return `The limit of ${this.limit} active sandboxes is reached. End one or wait until one has ended.`
  }
}
