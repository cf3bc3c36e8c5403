/**
 * Port: the only way from an agent to its model. The agent gets an address and a token that is good for its sandbox and
 * session alone; the provider's key stays with the gateway, which counts what every request takes, keeps to the budgets
 * and is cut when the session ends. Checked by `ModelGatewayContract`.
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import type * as Stream from "effect/Stream"
import type { SandboxId } from "../../ids/SandboxId.ts"
import type { StoreUnavailable } from "../../store/StoreUnavailable.ts"
import type { Spent } from "../rules/Usage.ts"
import type { Upstream } from "../schema/ModelCatalogue.ts"

/** What an agent is told of its model: an address on this machine and a token that is good for this sandbox alone. */
export interface ModelAccess {
  /** Without a slash at its end; `/v1/chat/completions` and its like follow. */
  readonly baseUrl: string
  readonly token: Redacted.Redacted
  /** The model as the agent must name it. */
  readonly model: string
  readonly contextTokens: number
  readonly outputTokens: number
}

/** The gateway cannot serve this model. `retryable`: it may be able to later. */
export class ModelGatewayError extends Schema.TaggedError<ModelGatewayError>()("ModelGatewayError", {
  /** A sentence for people, free of secrets. */
  detail: Schema.String,
  retryable: Schema.Boolean
}) {
  override get message() {
    return this.detail
  }
}

/**
 * What a sandbox's requests came to: usage and tokens since its creation, in whatever session. They grow only; an answer is in them
 * before the agent has all of it.
 */
export interface ModelAccount extends Spent {
  /** Requests of this session that a budget or the credits refused. */
  readonly refusals: number
  /** Why the last of them was; `null`: there was none. */
  readonly refusedFor: "budget_exceeded" | "no_credits" | null
  /** Why the provider did not answer the last request, a sentence that says what to do; absent: it did. A new one each time. */
  readonly trouble?: { readonly message: string }
}

/** A sandbox's way to its model, until the scope it was opened in closes. */
export interface ModelSession {
  readonly access: ModelAccess
  readonly account: Effect.Effect<ModelAccount>
  /** The present account and each later one; ones between may be left out. */
  readonly accounts: Stream.Stream<ModelAccount>
}

export class ModelGateway extends Context.Service<ModelGateway, {
  /**
   * Opens the sandbox's way to the model and gives back what an earlier session, of this process or another, has left
   * reserved. With the scope end the token, at once, and every request under way, which is charged for what it got so far.
   */
  open(options: {
    readonly sandboxId: SandboxId
    readonly grantId: string
    readonly upstream: Upstream
  }): Effect.Effect<ModelSession, ModelGatewayError | StoreUnavailable, Scope.Scope>
  /** Gives back what is reserved for a sandbox that is over. Says what it has used. Safe to repeat; an unknown sandbox is fine. */
  forget(sandboxId: SandboxId): Effect.Effect<Spent, StoreUnavailable>
}>()("@slipway/domain/ModelGateway") {
}
