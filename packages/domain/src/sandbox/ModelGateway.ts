/**
 * Port: the only way from an agent to its model. The agent gets an address and a token that is good for its sandbox and
 * session alone; the provider's key stays with the gateway, which counts what every request takes, keeps to the budgets
 * and is cut when the session ends. Checked by `testing/ModelGatewayContract`.
 */
import { Context, Deferred, Effect, Exit, Layer, Redacted, Schema, type Scope, type Stream, SubscriptionRef } from "effect"
import { Ids } from "../Ids.ts"
import type { ModelAccess } from "./AgentRuntime.ts"
import { costOf, type Tokens } from "./Budget.ts"
import type { Upstream } from "./ModelCatalogue.ts"
import type { SandboxId } from "./SandboxId.ts"
import type { StoreUnavailable } from "./SandboxStore.ts"
import { codeOf, Spending } from "./Spending.ts"
import { addUsage, type Usage } from "./Usage.ts"

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

/** What a sandbox's requests came to. */
export interface ModelAccount {
  /** Since the sandbox's creation, in whatever session. Grows only; an answer is in it before the agent has all of it. */
  readonly usage: Usage
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
  forget(sandboxId: SandboxId): Effect.Effect<Usage, StoreUnavailable>
}>()("@slipway/domain/ModelGateway") {
  /** A gateway without a network, for tests and for embedding: `MemoryModel` sends the requests and gives the answers. */
  static readonly layerMemory = Layer.effectContext(
    Effect.gen(function*() {
      const ids = yield* Ids
      const spending = yield* Spending
      const sessions = new Map<string, Open>()

      const gateway = ModelGateway.of({
        open: Effect.fn("ModelGateway.open")(function*({ grantId, sandboxId, upstream }) {
          const token = yield* ids.random("0123456789abcdef", 64)
          const usage = yield* spending.release(sandboxId)
          const session: Open = {
            sandboxId,
            grantId,
            upstream,
            cut: yield* Deferred.make<void>(),
            account: yield* SubscriptionRef.make<ModelAccount>({ usage, refusals: 0, refusedFor: null })
          }
          yield* Effect.acquireRelease(
            Effect.sync(() => sessions.set(token, session)),
            () => Effect.andThen(Effect.sync(() => sessions.delete(token)), Deferred.done(session.cut, Exit.void))
          )
          return {
            access: {
              baseUrl: "http://model.memory",
              token: Redacted.make(token),
              model: upstream.model,
              contextTokens: upstream.contextTokens,
              outputTokens: upstream.outputTokens
            },
            account: SubscriptionRef.get(session.account),
            accounts: SubscriptionRef.changes(session.account)
          }
        }),
        forget: spending.release
      })

      const model = MemoryModel.of({
        ask: Effect.fn("MemoryModel.ask")(function*({ token }, tokens, answered = Effect.void) {
          const session = sessions.get(Redacted.value(token))
          if (session === undefined) return "unauthorized"
          const { account, cut, grantId, sandboxId, upstream } = session
          const call = { id: yield* ids.uuid7, sandboxId, grantId }
          const cost = costOf(upstream.prices, tokens)
          const reserved = yield* Effect.result(spending.reserve(call, cost))
          if (reserved._tag === "Failure") {
            const { failure } = reserved
            if (failure._tag === "StoreUnavailable") return yield* failure
            yield* SubscriptionRef.update(
              account,
              ({ refusals, usage }) => ({ usage, refusals: refusals + 1, refusedFor: codeOf(failure) })
            )
            return "over_budget"
          }
          const served = yield* Effect.raceFirst(Effect.as(answered, true), Effect.as(Deferred.await(cut), false))
          yield* spending.charge(call, cost)
          yield* SubscriptionRef.update(account, ({ trouble: _trouble, ...now }) => ({
            ...now,
            usage: addUsage(now.usage, { llmRequestCount: 1, costMicroUsd: cost, creditsChargedMicros: spending.creditMicros(cost) })
          }))
          return served ? "served" : "cut"
        }),
        fail: ({ token }, trouble) =>
          Effect.suspend(() => {
            const session = sessions.get(Redacted.value(token))
            return session === undefined
              ? Effect.void
              : SubscriptionRef.update(session.account, (now) => ({ ...now, trouble: { message: trouble } }))
          })
      })
      return Context.make(ModelGateway, gateway).pipe(Context.add(MemoryModel, model))
    })
  )
}

interface Open {
  readonly sandboxId: SandboxId
  readonly grantId: string
  readonly upstream: Upstream
  readonly cut: Deferred.Deferred<void>
  readonly account: SubscriptionRef.SubscriptionRef<ModelAccount>
}

/** The agent's and the provider's side of {@link ModelGateway.layerMemory}. */
export class MemoryModel extends Context.Service<MemoryModel, {
  /** Sends one request and answers it with these tokens, once `answered` completes. */
  ask(access: ModelAccess, tokens: Tokens, answered?: Effect.Effect<void>): Effect.Effect<
    "served" | "unauthorized" | "over_budget" | "cut",
    StoreUnavailable
  >
  /** Sends one request that the provider does not answer. */
  fail(access: ModelAccess, trouble: string): Effect.Effect<void>
}>()("@slipway/domain/MemoryModel") {}
