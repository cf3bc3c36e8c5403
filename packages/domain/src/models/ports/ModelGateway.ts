/**
 * Port: the only way from an agent to its model. The agent gets an address and a token that is valid for its sandbox and session only.
 * The provider's key stays in the gateway, which meters every request, enforces budgets, and ends requests with the session. Checked by
 * `ModelGatewayContract`.
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

/** The agent's access to its model: an address on this machine, and a token that is valid for this sandbox only. */
export interface ModelAccess {
  /** Without a slash at the end; `/v1/chat/completions` and others follow it. */
  readonly baseUrl: string
  readonly token: Redacted.Redacted
  /** The model's name in the agent's requests. */
  readonly model: string
  readonly contextTokens: number
  readonly outputTokens: number
}

/** The gateway cannot serve this model. `retryable`: it may be able to serve it later. */
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
 * The totals of a sandbox since its creation, over all sessions. They never fall. They include an answer before the agent has received
 * all of it.
 */
export interface ModelAccount extends Spent {
  /** Requests of this session that were refused for a budget or for credits. */
  readonly refusals: number
  /** The reason of the last refusal; `null`: no refusal. */
  readonly refusedFor: "budget_exceeded" | "no_credits" | null
  /**
   * Why the provider did not answer the last request, as a sentence that says what to do. Absent: it answered. A new object for each
   * failure.
   */
  readonly trouble?: { readonly message: string }
}

/** A sandbox's access to its model, until its scope closes. */
export interface ModelSession {
  readonly access: ModelAccess
  readonly account: Effect.Effect<ModelAccount>
  /** The present account and each later one. Intermediate accounts may be skipped. */
  readonly accounts: Stream.Stream<ModelAccount>
}

/** Checked by `ModelGatewayContract`. */
export class ModelGateway extends Context.Service<ModelGateway, {
  /**
   * Opens the sandbox's access to the model. Releases what an earlier session of any process left reserved. When the scope closes, the
   * token and all running requests end at once. An ended request is charged for what it received.
   */
  open(options: {
    readonly sandboxId: SandboxId
    readonly grantId: string
    /** The sandbox's own budget, in micro-USD; absent or `null`: it has none. */
    readonly budget?: number | null
    readonly upstream: Upstream
  }): Effect.Effect<ModelSession, ModelGatewayError | StoreUnavailable, Scope.Scope>
  /** Releases the reservations of a sandbox that has ended, and returns its usage. Safe to repeat, also for an unknown sandbox. */
  forget(sandboxId: SandboxId): Effect.Effect<Spent, StoreUnavailable>
}>()("@slipway/domain/ModelGateway") {
}
