/** The limit of a grant's active (not settled) sandboxes. */
import * as Context from "effect/Context"
import * as Schema from "effect/Schema"

/** `null`: no limit. A setting. */
export const MaxActiveSandboxes = Context.Reference<number | null>("@slipway/domain/MaxActiveSandboxes", {
  defaultValue: () => null
})

/** The grant is at its limit of active sandboxes. Nothing was made; a retry succeeds after one of them has ended. */
export class ConcurrencyLimitExceeded
  extends Schema.TaggedError<ConcurrencyLimitExceeded>()("ConcurrencyLimitExceeded", { limit: Schema.Int })
{
  override get message() {
    return `The limit of ${this.limit} active sandboxes is reached. End one or wait until one has ended.`
  }
}
