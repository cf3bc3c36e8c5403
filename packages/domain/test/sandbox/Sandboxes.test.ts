import { assert, it } from "@effect/vitest"
import type { Principal } from "@slipway/domain/access/Principal"
import * as HintsMemory from "@slipway/domain/memory/HintsMemory"
import * as IdsMemory from "@slipway/domain/memory/IdsMemory"
import * as SandboxStoreMemory from "@slipway/domain/memory/SandboxStoreMemory"
import { BudgetExceeded } from "@slipway/domain/models/Budget"
import { offlineDemo } from "@slipway/domain/models/ModelCatalogue"
import { Spending, type SpendingRefused } from "@slipway/domain/models/Spending"
import type { CreateSandbox } from "@slipway/domain/sandbox/CreateSandbox"
import { IdempotencyKey } from "@slipway/domain/sandbox/Idempotency"
import { Sandboxes } from "@slipway/domain/sandbox/Sandboxes"
import { RepoNotAccessible, SourceHost } from "@slipway/domain/source/SourceHost"
import { Effect, Layer, Metric, Option } from "effect"

const by: Principal = {
  credential: { _tag: "Key", keyId: "k" },
  grantId: "g",
  organizationId: "o",
  userId: "u",
  scopes: new Set(),
  test: false
}
const wanted: CreateSandbox = {
  repos: [{ fullName: "acme/shop" }],
  prompt: "Go on.",
  model: offlineDemo.id,
  toolApprovalMode: "auto",
  metadata: {}
}
const key = Option.some(IdempotencyKey.make("order-1"))

/** A service that refuses new work as long as it is told to. */
const world = () => {
  const refusals: { spending: SpendingRefused | null; repos: RepoNotAccessible | null } = { spending: null, repos: null }
  const layer = Sandboxes.layer.pipe(
    Layer.provide(Layer.mock(Spending, { creditMicros: () => 0, refusal: () => Effect.sync(() => refusals.spending) })),
    Layer.provide(Layer.mock(SourceHost, { name: "mock", refusal: () => Effect.sync(() => refusals.repos) })),
    Layer.provide(SandboxStoreMemory.layer),
    Layer.provide(Layer.merge(HintsMemory.layer, IdsMemory.layer))
  )
  return { layer, refusals }
}

it.effect("a creation that may not be is refused and leaves its key free; one that was accepted is answered all the same", () => {
  const { layer, refusals } = world()
  return Effect.gen(function*() {
    const sandboxes = yield* Sandboxes
    const reasons = [
      { spending: new BudgetExceeded({ of: "grant", held: false }), repos: null },
      { spending: null, repos: new RepoNotAccessible({ repo: "acme/shop" }) }
    ]
    for (const reason of reasons) {
      Object.assign(refusals, reason)
      for (const named of [Option.none(), key]) {
        assert.strictEqual(yield* Effect.flip(sandboxes.create(by, wanted, named)), reason.spending ?? reason.repos)
      }
    }
    const all = { after: null, limit: 10, status: null, repo: null }
    assert.deepStrictEqual(yield* sandboxes.list(by, all), [])
    Object.assign(refusals, { spending: null, repos: null })
    const { replayed, sandbox } = yield* sandboxes.create(by, wanted, key)
    assert.isFalse(replayed)
    for (const reason of reasons) {
      Object.assign(refusals, reason)
      assert.deepStrictEqual(yield* sandboxes.create(by, wanted, key), { sandbox, replayed: true })
      const changed = yield* Effect.flip(sandboxes.create(by, { ...wanted, prompt: "Something else." }, key))
      assert.strictEqual(changed._tag, "IdempotencyConflict")
    }
    assert.deepStrictEqual(yield* sandboxes.list(by, all), [sandbox])
  }).pipe(Effect.provide(layer))
})

it.effect("counts each sandbox once, however often its creation is repeated", () => {
  const { layer, refusals } = world()
  return Effect.gen(function*() {
    const sandboxes = yield* Sandboxes
    const created = Effect.map(Metric.snapshot, (all) => all.find(({ id }) => id === "slipway_sandboxes_created_total")?.state)
    assert.deepStrictEqual(yield* created, { count: 0, incremental: true })
    for (const named of [key, key, Option.none()]) yield* sandboxes.create(by, wanted, named)
    refusals.spending = new BudgetExceeded({ of: "grant", held: false })
    yield* sandboxes.create(by, wanted, key)
    assert.deepStrictEqual(yield* created, { count: 2, incremental: true })
  }).pipe(Effect.provide(layer), Effect.provideService(Metric.MetricRegistry, new Map()))
})
