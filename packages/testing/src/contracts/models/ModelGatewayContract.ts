/**
 * The rules that every `ModelGateway` must keep. An adapter proves itself by running this suite against its layer; a rule that is missing
 * here is not part of the port. Fresh ids make it repeatable on one database.
 */
import { Ids } from "@slipway/domain/ids/Ids"
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { ModelGateway, type ModelAccess } from "@slipway/domain/models/ports/ModelGateway"
import { Spending } from "@slipway/domain/models/ports/Spending"
import type { Tokens } from "@slipway/domain/models/rules/Budget"
import { noTokenCounts } from "@slipway/domain/models/rules/Usage"
import type { Upstream } from "@slipway/domain/models/schema/ModelCatalogue"
import { PartnerStore } from "@slipway/domain/partner/ports/PartnerStore"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import type * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { assert } from "../../suite/Assert.ts"
import { defineLive, type Writer } from "../../suite/Suite.ts"

/** Operations that a test needs and the port lacks; the adapter under test provides them. */
export class GatewayFixture extends Context.Service<GatewayFixture, {
  /** A new sandbox of a new grant. */
  readonly sandbox: Effect.Effect<{ readonly sandboxId: SandboxId; readonly grantId: string }>
  /** A model with 10, 1, 20 and 30 micro-USD a token of input, cached input, cache write and output. */
  readonly upstream: Upstream
  /** Sends a request as an agent does; it is answered with these tokens once `answered` completes. */
  ask(access: ModelAccess, tokens: Tokens, answered?: Effect.Effect<void>): Effect.Effect<"served" | "unauthorized" | "over_budget" | "cut">
  /** Sends a request that the provider refuses, so that the operator must act. */
  fail(access: ModelAccess): Effect.Effect<void>
  /** Completes when the provider has a request that is not answered yet. */
  readonly asked: Effect.Effect<void>
}>()("@slipway/testing/GatewayFixture") {}

/** Prices of the models in the suite; micro-USD per million tokens. */
export const PRICES = { input: 10_000_000, cachedInput: 1_000_000, cacheWrite: 20_000_000, output: 30_000_000 }

const tokens: Tokens = { input: 100, cachedInput: 40, cacheWrite: 0, output: 7 }
const COST = 60 * 10 + 40 + 7 * 30

const opened = Effect.fnUntraced(function*(where?: { readonly sandboxId: SandboxId; readonly grantId: string; readonly budget?: number }) {
  const { sandbox, upstream } = yield* GatewayFixture
  const scope = yield* Scope.fork(yield* Effect.scope)
  const of = where ?? (yield* sandbox)
  const session = yield* (yield* ModelGateway).open({ ...of, upstream }).pipe(Scope.provide(scope))
  return { ...session, of, close: Scope.close(scope, Exit.void) }
})

const sessions = (it: Writer<ModelGateway | GatewayFixture | Spending | Ids>) => {
  it.effect("serves the agent and counts what its answers took", () =>
    Effect.gen(function*() {
      const { ask, upstream } = yield* GatewayFixture
      const { access, account, of } = yield* opened()
      assert.deepStrictEqual(
        [access.model, access.contextTokens, access.outputTokens],
        [upstream.model, upstream.contextTokens, upstream.outputTokens]
      )
      assert.notMatch(access.baseUrl, /\/$/u)
      for (const _ of [1, 2]) assert.strictEqual(yield* ask(access, tokens), "served")
      assert.deepStrictEqual(yield* account, {
        usage: { llmRequestCount: 2, costMicroUsd: 2 * COST, creditsChargedMicros: 0 },
        tokens: { input: 200, cachedInput: 80, output: 14 },
        refusals: 0,
        refusedFor: null
      })
      const spending = yield* Spending
      // The ledger may be a moment behind the account, not longer than the session.
      assert.isAtMost((yield* spending.of(of.grantId)).spent, 2 * COST)
    }).pipe(Effect.scoped))

  it.effect("tells every listener of each change of the account", () =>
    Effect.gen(function*() {
      const { ask } = yield* GatewayFixture
      const { access, accounts } = yield* opened()
      const seen = yield* accounts.pipe(
        Stream.map(({ usage }) => usage.costMicroUsd),
        Stream.takeUntil((cost) => cost === COST),
        Stream.runCollect,
        Effect.forkChild
      )
      yield* ask(access, tokens)
      assert.deepStrictEqual((yield* Fiber.join(seen)).at(-1), COST)
    }).pipe(Effect.scoped))

  it.effect("refuses a token that is wrong, empty, of an ended session or altered", () =>
    Effect.gen(function*() {
      const { ask } = yield* GatewayFixture
      const ended = yield* opened()
      yield* ended.close
      const { access } = yield* opened()
      const token = Redacted.value(access.token)
      for (const wrong of [Redacted.value(ended.access.token), "", token.slice(1), `${token}0`, token.toUpperCase() + "x"]) {
        assert.strictEqual(yield* ask({ ...access, token: Redacted.make(wrong) }, tokens), "unauthorized", wrong)
      }
      assert.strictEqual(yield* ask(access, tokens), "served")
    }).pipe(Effect.scoped))

  it.effect("every session has a token of its own, of at least 256 bits", () =>
    Effect.gen(function*() {
      const one = yield* opened()
      const two = yield* opened(one.of)
      const [a, b] = [one, two].map(({ access }) => Redacted.value(access.token))
      assert.notStrictEqual(a, b)
      assert.match(a ?? "", /^[0-9A-Za-z_-]{43,}$/u)
    }).pipe(Effect.scoped))

  it.effect("cuts a request that is under way when the session ends, and charges it", () =>
    Effect.gen(function*() {
      const { ask, asked } = yield* GatewayFixture
      const { access, close, of } = yield* opened()
      const asking = yield* Effect.forkChild(ask(access, tokens, Effect.never))
      yield* asked
      yield* close
      assert.strictEqual(yield* Fiber.join(asking), "cut")
      const spending = yield* Spending
      assert.strictEqual((yield* spending.release(of.sandboxId)).usage.llmRequestCount, 1)
      assert.deepStrictEqual((yield* spending.of(of.grantId)).reserved, 0)
    }).pipe(Effect.scoped))

  it.effect("goes on counting where the session before it ended", () =>
    Effect.gen(function*() {
      const { ask } = yield* GatewayFixture
      const first = yield* opened()
      yield* ask(first.access, tokens)
      yield* first.close
      const second = yield* opened(first.of)
      assert.strictEqual((yield* second.account).usage.costMicroUsd, COST)
      yield* ask(second.access, tokens)
      const { tokens: both, usage } = yield* second.account
      assert.deepStrictEqual(usage, { llmRequestCount: 2, costMicroUsd: 2 * COST, creditsChargedMicros: 0 })
      assert.deepStrictEqual(both, { input: 200, cachedInput: 80, output: 14 })
    }).pipe(Effect.scoped))
}

const budgetsAndUsage = (it: Writer<ModelGateway | GatewayFixture | Spending | Ids>) => {
  it.effect("refuses what the grant's budget does not allow, and says so", () =>
    Effect.gen(function*() {
      const { ask } = yield* GatewayFixture
      const { access, account, of } = yield* opened()
      const spending = yield* Spending
      yield* spending.setBudget(of.grantId, 1)
      assert.strictEqual(yield* ask(access, tokens), "over_budget")
      assert.deepStrictEqual(yield* account, {
        usage: { llmRequestCount: 0, costMicroUsd: 0, creditsChargedMicros: 0 },
        tokens: noTokenCounts,
        refusals: 1,
        refusedFor: "budget_exceeded"
      })
      yield* spending.setBudget(of.grantId, null)
      assert.strictEqual(yield* ask(access, tokens), "served")
      const { refusals, refusedFor } = yield* account
      assert.deepStrictEqual([refusals, refusedFor], [1, "budget_exceeded"])
    }).pipe(Effect.scoped))

  it.effect("refuses what the sandbox's own budget does not allow, also in a later session", () =>
    Effect.gen(function*() {
      const { ask, sandbox } = yield* GatewayFixture
      const of = yield* sandbox
      // More than a gateway reserves for a request.
      const first = yield* opened({ ...of, budget: 1_000_000_000 })
      assert.strictEqual(yield* ask(first.access, tokens), "served")
      yield* first.close
      const { access, account } = yield* opened({ ...of, budget: COST })
      assert.strictEqual(yield* ask(access, tokens), "over_budget")
      const { refusals, refusedFor } = yield* account
      assert.deepStrictEqual([refusals, refusedFor], [1, "budget_exceeded"])
      // It is the sandbox's alone.
      assert.strictEqual(yield* ask((yield* opened()).access, tokens), "served")
    }).pipe(Effect.scoped))

  it.effect("says what is wrong with the provider until it answers again, a new one each time", () =>
    Effect.gen(function*() {
      const { ask, fail } = yield* GatewayFixture
      const { access, account } = yield* opened()
      const trouble = Effect.map(account, ({ trouble }) => trouble)
      assert.isUndefined(yield* trouble)
      yield* fail(access)
      const first = yield* trouble
      assert.isNotEmpty(first?.message)
      yield* fail(access)
      const second = yield* trouble
      assert.isNotEmpty(second?.message)
      assert.notStrictEqual(second, first)
      assert.strictEqual(yield* ask(access, tokens), "served")
      assert.isFalse("trouble" in (yield* account))
    }).pipe(Effect.scoped))

  it.effect("says what a sandbox used that is forgotten, however often, and gives back what it has reserved", () =>
    Effect.gen(function*() {
      const spending = yield* Spending
      const gateway = yield* ModelGateway
      const { ask, asked } = yield* GatewayFixture
      const served = yield* opened()
      yield* ask(served.access, tokens)
      yield* served.close
      const { of, ...lost } = yield* opened(served.of)
      const answered = yield* Deferred.make<void>()
      const asking = yield* Effect.forkChild(ask(lost.access, tokens, Deferred.await(answered)))
      yield* asked
      assert.isAbove((yield* spending.of(of.grantId)).reserved, 0)
      for (const _ of [1, 2]) {
        assert.deepStrictEqual(yield* gateway.forget(of.sandboxId), {
          usage: { llmRequestCount: 1, costMicroUsd: COST, creditsChargedMicros: 0 },
          tokens: { input: 100, cachedInput: 40, output: 7 }
        })
        assert.strictEqual((yield* spending.of(of.grantId)).reserved, 0)
      }
      yield* Deferred.succeed(answered, undefined)
      yield* Fiber.join(asking)
    }).pipe(Effect.scoped))

  it.effect("gives back what a lost session has reserved, when the sandbox is opened again or forgotten", () =>
    Effect.gen(function*() {
      const spending = yield* Spending
      const gateway = yield* ModelGateway
      const { ask, asked, sandbox } = yield* GatewayFixture
      const of = yield* sandbox
      const lost = yield* opened(of)
      const answered = yield* Deferred.make<void>()
      const asking = yield* Effect.forkChild(ask(lost.access, tokens, Deferred.await(answered)))
      yield* asked
      assert.isAbove((yield* spending.of(of.grantId)).reserved, 0)
      yield* opened(of)
      assert.strictEqual((yield* spending.of(of.grantId)).reserved, 0)
      assert.strictEqual((yield* gateway.forget(of.sandboxId)).usage.costMicroUsd, 0)
      yield* Deferred.succeed(answered, undefined)
      yield* Fiber.join(asking)
    }).pipe(Effect.scoped))
}

/** For every gateway. */
export const suite = (name: string, layer: Layer.Layer<ModelGateway | GatewayFixture | Spending | Ids, unknown>) =>
  defineLive(`ModelGateway (${name})`, layer, (it) => {
    sessions(it)
    budgetsAndUsage(it)
  })

/**
 * Credits, for a gateway on a ledger with a `CreditPrice` of 10, and on the `PartnerStore` that it draws on. The grants of
 * its fixture are organizations by themselves.
 */
export const credited = (name: string, layer: Layer.Layer<ModelGateway | GatewayFixture | PartnerStore | Ids, unknown>) =>
  defineLive(`ModelGateway on credits (${name})`, layer, (it) => {
    it.effect("refuses requests without credits, says so, and counts what the others take of them", () =>
      Effect.gen(function*() {
        const { ask } = yield* GatewayFixture
        const store = yield* PartnerStore
        const { access, account, of } = yield* opened()
        assert.strictEqual(yield* ask(access, tokens), "over_budget")
        const usage = { llmRequestCount: 0, costMicroUsd: 0, creditsChargedMicros: 0 }
        assert.deepStrictEqual(yield* account, { usage, tokens: noTokenCounts, refusals: 1, refusedFor: "no_credits" })
        const claimId = yield* Ids.use((ids) => ids.uuid7)
        yield* store.createClaim({ claimId, grantId: of.grantId, leadId: "lead", variant: "a", creditAmount: 1_000_000 })
        yield* store.claim(claimId, { recipientId: "user_1", organizationId: of.grantId })
        for (const _ of [1, 2]) assert.strictEqual(yield* ask(access, tokens), "served")
        assert.deepStrictEqual((yield* account).usage, {
          llmRequestCount: 2,
          costMicroUsd: 2 * COST,
          creditsChargedMicros: 2 * COST * 100_000
        })
        const balance = 1_000_000 - 2 * COST / 10
        // The ledger may be a moment behind the account, not longer than the session.
        while ((yield* store.credits(of.grantId)).balance !== balance) yield* Effect.sleep("10 millis")
        const next = yield* opened(of)
        assert.strictEqual((yield* next.account).usage.creditsChargedMicros, 2 * COST * 100_000)
      }).pipe(Effect.scoped))
  })
