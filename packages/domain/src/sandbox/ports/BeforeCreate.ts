/** The embedder's own check of each creation, for rules that the service does not know: a plan, an allowed repository. */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { Principal } from "../../access/schema/Principal.ts"
import type { Creation } from "../rules/Sandbox.ts"

/** The check refused the creation. Nothing was made and no idempotency key is bound. The HTTP API answers 403 with this code. */
export class CreationDenied extends Schema.TaggedError<CreationDenied>()("CreationDenied", {
  /** For programs, chosen by the embedder: up to 64 lower-case letters, digits and `_`, such as `plan_expired`. */
  code: Schema.String.check(Schema.isPattern(/^[a-z][a-z0-9_]{0,63}$/u)),
  /** A sentence for people. */
  reason: Schema.String
}) {
  override get message() {
    return this.reason
  }
}

/** The sandbox as it would be created, without its id. `origin`: the checkpoint that a fork starts with; `null`: not a fork. */
export type ProposedCreation = Omit<Creation, "id">

/**
 * Runs once for each new creation and fork, after all checks of the service but those of the store (`ConcurrencyLimitExceeded`,
 * `CheckpointNotFound`). It does not run for a repetition of an accepted request; two equal requests at the same moment may both run
 * it. `null`: every creation is allowed. A setting.
 */
export const BeforeCreate = Context.Reference<
  ((creation: ProposedCreation, by: Principal) => Effect.Effect<void, CreationDenied>) | null
>("@slipway/domain/BeforeCreate", { defaultValue: () => null })
