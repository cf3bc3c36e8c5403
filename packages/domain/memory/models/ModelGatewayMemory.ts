/** `ModelGateway` in memory: for tests and for embedding without a database. State dies with the layer. */
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as SubscriptionRef from "effect/SubscriptionRef"
import { Ids } from "../../src/ids/Ids.ts"
import type { SandboxId } from "../../src/ids/SandboxId.ts"
import { type ModelAccess, type ModelAccount, ModelGateway } from "../../src/models/ports/ModelGateway.ts"
import { codeOf, Spending } from "../../src/models/ports/Spending.ts"
import { costOf, countsOf, type Tokens } from "../../src/models/rules/Budget.ts"
import { addTokenCounts, addUsage } from "../../src/models/rules/Usage.ts"
import type { Upstream } from "../../src/models/schema/ModelCatalogue.ts"
import type { StoreUnavailable } from "../../src/store/StoreUnavailable.ts"

/** A gateway without a network, for tests and for embedding: `MemoryModel` sends the requests and gives the answers. */
export const layer = Layer.effectContext(
  Effect.gen(function*() {
    const ids = yield* Ids
    const spending = yield* Spending
    const sessions = new Map<string, Open>()

    const gateway = ModelGateway.of({
      open: Effect.fn("ModelGateway.open")(function*({ budget = null, grantId, sandboxId, upstream }) {
        const token = yield* ids.random("0123456789abcdef", 64)
        const spent = yield* spending.release(sandboxId)
        const session: Open = {
          sandboxId,
          grantId,
          budget,
          upstream,
          cut: yield* Deferred.make<void>(),
          account: yield* SubscriptionRef.make<ModelAccount>({ ...spent, refusals: 0, refusedFor: null })
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
        const { account, budget, cut, grantId, sandboxId, upstream } = session
        const call = { id: yield* ids.uuid7, sandboxId, grantId, budget }
        const cost = costOf(upstream.prices, tokens)
        const reserved = yield* Effect.result(spending.reserve(call, cost))
        if (reserved._tag === "Failure") {
          const { failure } = reserved
          if (failure._tag === "StoreUnavailable") return yield* failure
          yield* SubscriptionRef.update(
            account,
            ({ refusals, tokens, usage }) => ({ usage, tokens, refusals: refusals + 1, refusedFor: codeOf(failure) })
          )
          return "over_budget"
        }
        const served = yield* Effect.raceFirst(Effect.as(answered, true), Effect.as(Deferred.await(cut), false))
        const counts = countsOf(tokens)
        yield* spending.charge(call, cost, counts)
        yield* SubscriptionRef.update(account, ({ trouble: _trouble, ...now }) => ({
          ...now,
          usage: addUsage(now.usage, { llmRequestCount: 1, costMicroUsd: cost, creditsChargedMicros: spending.creditMicros(cost) }),
          tokens: addTokenCounts(now.tokens, counts)
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

interface Open {
  readonly sandboxId: SandboxId
  readonly grantId: string
  readonly budget: number | null
  readonly upstream: Upstream
  readonly cut: Deferred.Deferred<void>
  readonly account: SubscriptionRef.SubscriptionRef<ModelAccount>
}

/** The agent's and the provider's side of {@link layer}. */
export class MemoryModel extends Context.Service<MemoryModel, {
  /** Sends one request and answers it with these tokens, once `answered` completes. */
  ask(access: ModelAccess, tokens: Tokens, answered?: Effect.Effect<void>): Effect.Effect<
    "served" | "unauthorized" | "over_budget" | "cut",
    StoreUnavailable
  >
  /** Sends one request that the provider does not answer. */
  fail(access: ModelAccess, trouble: string): Effect.Effect<void>
}>()("@slipway/domain/MemoryModel") {}
