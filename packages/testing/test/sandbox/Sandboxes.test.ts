import { assert, it } from "@effect/vitest"
import type { Principal } from "@slipway/domain/access/schema/Principal"
import { Ids } from "@slipway/domain/ids/Ids"
import * as IdsMemory from "@slipway/domain/memory/ids/IdsMemory"
import * as SandboxStoreMemory from "@slipway/domain/memory/sandbox/SandboxStoreMemory"
import * as HintsMemory from "@slipway/domain/memory/store/HintsMemory"
import { Spending, type SpendingRefused } from "@slipway/domain/models/ports/Spending"
import { BudgetExceeded } from "@slipway/domain/models/rules/Budget"
import { offlineDemo } from "@slipway/domain/models/schema/ModelCatalogue"
import { BeforeCreate, CreationDenied } from "@slipway/domain/sandbox/ports/BeforeCreate"
import { SandboxIdTaken, SandboxStore } from "@slipway/domain/sandbox/ports/SandboxStore"
import { IdempotencyKey } from "@slipway/domain/sandbox/schema/Idempotency"
import type { CreateSandbox, ForkSandbox } from "@slipway/domain/sandbox/usecases/CreateSandbox"
import { Sandboxes } from "@slipway/domain/sandbox/usecases/Sandboxes"
import { RepoNotAccessible, SourceHost } from "@slipway/domain/source/ports/SourceHost"
import { checkpointed, settle } from "@slipway/testing/contracts/sandbox/ForksContract"
import { make, StoreFixture } from "@slipway/testing/contracts/sandbox/SandboxStates"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Metric from "effect/Metric"
import * as Option from "effect/Option"

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
const goOn: ForkSandbox = { prompt: "Go on.", metadata: {} }
const key = Option.some(IdempotencyKey.make("order-1"))
/** The operator's limit of a sandbox, in micro-USD. */
const LIMIT = 5_000_000

const Fixture = Layer.unwrap(Effect.map(Ids, (ids) => Layer.mock(StoreFixture)({ grant: ids.uuid7 })))

/** A service that refuses new work as long as it is told to. */
const world = (beforeCreate: (typeof BeforeCreate)["Service"] = null) => {
  const refusals: { spending: SpendingRefused | null; repos: RepoNotAccessible | null } = { spending: null, repos: null }
  const layer = Sandboxes.layer.pipe(
    Layer.provide(Layer.succeed(BeforeCreate, beforeCreate)),
    Layer.provide(
      Layer.mock(Spending, { sandboxLimit: LIMIT, creditMicros: () => 0, refusal: () => Effect.sync(() => refusals.spending) })
    ),
    Layer.provide(
      Layer.mock(SourceHost, { names: ["mock"], nameOf: () => Effect.succeed("mock"), refusal: () => Effect.sync(() => refusals.repos) })
    ),
    Layer.provideMerge(SandboxStoreMemory.layer),
    Layer.provideMerge(Fixture),
    Layer.provideMerge(Layer.merge(HintsMemory.layer, IdsMemory.layer))
  )
  return { layer, refusals }
}

it.effect("a forbidden creation is refused and leaves its key free; an accepted creation is still answered", () => {
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

it.effect("the embedder's check runs once for each new creation and fork; its refusal leaves the key free", () => {
  const asked: Array<readonly [title: string, forkOf: string | null, userId: string]> = []
  const denied = new CreationDenied({ code: "plan_expired", reason: "The plan has expired." })
  let isDenied = true
  const { layer, refusals } = world((proposed, { userId }) =>
    Effect.suspend(() => {
      assert.notProperty(proposed, "id")
      asked.push([proposed.title, proposed.origin?.sandboxId ?? null, userId])
      return isDenied ? Effect.fail(denied) : Effect.void
    })
  )
  return Effect.gen(function*() {
    const sandboxes = yield* Sandboxes
    const questions = () => asked.splice(0)
    const of = yield* checkpointed(1, by.grantId)
    const create = sandboxes.create(by, wanted, key)
    const fork = sandboxes.fork(by, of.id, { ...goOn, title: "Otherwise" }, key)
    refusals.spending = new BudgetExceeded({ of: "grant", held: false })
    for (const error of [Effect.flip(create), Effect.flip(fork)]) assert.strictEqual(yield* error, refusals.spending)
    assert.deepStrictEqual(questions(), [])
    refusals.spending = null
    for (const error of [Effect.flip(create), Effect.flip(fork)]) assert.strictEqual(yield* error, denied)
    assert.deepStrictEqual(questions(), [["Go on.", null, "u"], ["Otherwise", of.id, "u"]])
    assert.lengthOf(yield* sandboxes.list(by, { after: null, limit: 10, status: null, repo: null }), 1)
    isDenied = false
    const [{ sandbox }, { sandbox: forked }] = [yield* create, yield* fork]
    assert.lengthOf(questions(), 2)
    isDenied = true
    assert.deepStrictEqual([yield* create, yield* fork], [{ sandbox, replayed: true }, { sandbox: forked, replayed: true }])
    const changed = yield* Effect.flip(sandboxes.create(by, { ...wanted, prompt: "Something else." }, key))
    assert.strictEqual(changed._tag, "IdempotencyConflict")
    assert.deepStrictEqual(questions(), [])
  }).pipe(Effect.provide(layer))
})

it.effect("the embedder's check is not repeated when an id is taken", () => {
  let asked = 0
  const { layer } = world(() => Effect.sync(() => void asked++))
  return Effect.gen(function*() {
    const store = yield* SandboxStore
    let attempts = 0
    const taken = SandboxStore.of({
      ...store,
      create: (request) => ++attempts < 4 ? Effect.fail(new SandboxIdTaken()) : store.create(request)
    })
    const { replayed } = yield* Sandboxes.use((sandboxes) => sandboxes.create(by, wanted, key)).pipe(
      Effect.provide(Layer.fresh(Sandboxes.layer)),
      Effect.provideService(BeforeCreate, () => Effect.sync(() => void asked++)),
      Effect.provideService(SandboxStore, taken)
    )
    assert.deepStrictEqual([replayed, attempts, asked], [false, 4, 1])
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

it.effect("forks the newest checkpoint unless another one is named, also of an ended sandbox", () => {
  const { layer } = world()
  return Effect.gen(function*() {
    const sandboxes = yield* Sandboxes
    const store = yield* SandboxStore
    const sandbox = yield* checkpointed(2, by.grantId)
    const origins = Effect.fnUntraced(function*() {
      const made = yield* Effect.forEach(
        [{}, { checkpoint: 1 }],
        (more) => sandboxes.fork(by, sandbox.id, { ...goOn, ...more }, Option.none())
      )
      return made.map(({ sandbox: { origin } }) => origin)
    })
    const both = [{ sandboxId: sandbox.id, checkpoint: 2 }, { sandboxId: sandbox.id, checkpoint: 1 }]
    assert.deepStrictEqual(yield* origins(), both)
    yield* settle(sandbox)
    assert.deepStrictEqual(yield* origins(), both)
    for (const checkpoint of [0, 3, Number.MAX_SAFE_INTEGER]) {
      const refused = yield* Effect.flip(sandboxes.fork(by, sandbox.id, { ...goOn, checkpoint }, Option.none()))
      assert.strictEqual(refused._tag, "CheckpointNotFound")
    }
    const foreign = yield* Effect.flip(sandboxes.fork({ ...by, grantId: "other" }, sandbox.id, goOn, Option.none()))
    assert.strictEqual(foreign._tag, "SandboxNotFound")
    const young = yield* make({ grantId: by.grantId })
    assert.strictEqual((yield* Effect.flip(sandboxes.fork(by, young.id, goOn, Option.none())))._tag, "NoCheckpoint")
    assert.strictEqual((yield* store.find({ grantId: by.grantId, id: sandbox.id })).status, "failed")
  }).pipe(Effect.provide(layer))
})

it.effect("a fork is refused as a creation is, and answered all the same when it was accepted before", () => {
  const { layer, refusals } = world()
  return Effect.gen(function*() {
    const sandboxes = yield* Sandboxes
    const sandbox = yield* checkpointed(1, by.grantId)
    const fork = (request: Partial<ForkSandbox> = {}) => sandboxes.fork(by, sandbox.id, { ...goOn, ...request }, key)
    const reasons = [
      { spending: new BudgetExceeded({ of: "grant", held: false }), repos: null },
      { spending: null, repos: new RepoNotAccessible({ repo: "acme/shop" }) }
    ]
    for (const reason of reasons) {
      Object.assign(refusals, reason)
      assert.strictEqual(yield* Effect.flip(fork()), reason.spending ?? reason.repos)
    }
    Object.assign(refusals, { spending: null, repos: null })
    assert.strictEqual((yield* Effect.flip(fork({ model: "unknown" })))._tag, "InvalidModel")
    const { replayed, sandbox: made } = yield* fork()
    assert.isFalse(replayed)
    for (const reason of [...reasons, { spending: null, repos: null }]) {
      Object.assign(refusals, reason)
      assert.deepStrictEqual(yield* fork(), { sandbox: made, replayed: true })
      assert.strictEqual((yield* Effect.flip(fork({ checkpoint: 1 })))._tag, "IdempotencyConflict")
    }
    // The key is the fork's: a creation under it is another request.
    assert.isFalse((yield* sandboxes.create(by, wanted, key)).replayed)
  }).pipe(Effect.provide(layer))
})

it.effect("a budget of its own is at most the operator's; one above it is refused and leaves the key free", () => {
  const { layer } = world()
  return Effect.gen(function*() {
    const sandboxes = yield* Sandboxes
    const refused = yield* Effect.flip(sandboxes.create(by, { ...wanted, budgetMicroUsd: LIMIT + 1 }, key))
    assert.deepInclude(refused, { _tag: "BudgetTooLarge", limit: LIMIT })
    const { sandbox } = yield* sandboxes.create(by, { ...wanted, budgetMicroUsd: LIMIT }, key)
    assert.strictEqual(sandbox.budgetMicroUsd, LIMIT)
    assert.isNull((yield* sandboxes.create(by, wanted)).sandbox.budgetMicroUsd)
    // A budget is part of the request that a key is bound to, and so are variables.
    for (const more of [{}, { budgetMicroUsd: 1 }, { budgetMicroUsd: LIMIT + 1 }, { budgetMicroUsd: LIMIT, environment: { A: "" } }]) {
      assert.strictEqual((yield* Effect.flip(sandboxes.create(by, { ...wanted, ...more }, key)))._tag, "IdempotencyConflict")
    }
  }).pipe(Effect.provide(layer))
})

it.effect("a service without accounts takes no budget, because nothing would enforce it", () =>
  Effect.gen(function*() {
    const sandboxes = yield* Sandboxes
    const refused = yield* Effect.flip(sandboxes.create(by, { ...wanted, budgetMicroUsd: 1 }))
    assert.deepInclude(refused, { _tag: "BudgetTooLarge", limit: null })
  }).pipe(Effect.provide(Sandboxes.layer.pipe(
    Layer.provideMerge(SandboxStoreMemory.layer),
    Layer.provideMerge(Layer.merge(HintsMemory.layer, IdsMemory.layer))
  ))))

it.effect("a fork keeps budget and variables, and a limit that was lowered since lowers its budget", () => {
  const { layer } = world()
  return Effect.gen(function*() {
    const sandboxes = yield* Sandboxes
    const forkOf = Effect.fnUntraced(function*(budgetMicroUsd: number | null) {
      const of = yield* checkpointed(1, by.grantId, { budgetMicroUsd, environment: { REGION: "eu" } })
      const { sandbox } = yield* sandboxes.fork(by, of.id, goOn)
      assert.deepStrictEqual(sandbox.environment, { REGION: "eu" })
      return sandbox.budgetMicroUsd
    })
    assert.strictEqual(yield* forkOf(LIMIT - 1), LIMIT - 1)
    assert.strictEqual(yield* forkOf(LIMIT + 1), LIMIT)
    assert.isNull(yield* forkOf(null))
  }).pipe(Effect.provide(layer))
})

it.effect("goes back to a checkpoint that is kept, and to no other", () => {
  const { layer } = world()
  return Effect.gen(function*() {
    const sandboxes = yield* Sandboxes
    const sandbox = yield* checkpointed(1, by.grantId)
    for (const n of [0, 2]) assert.strictEqual((yield* Effect.flip(sandboxes.restore(by, sandbox.id, n)))._tag, "CheckpointNotFound")
    const foreign = yield* Effect.flip(sandboxes.restore({ ...by, grantId: "other" }, sandbox.id, 1))
    assert.strictEqual(foreign._tag, "SandboxNotFound")
    const results = yield* Effect.all(Array.from({ length: 4 }, () => sandboxes.restore(by, sandbox.id, 1)), { concurrency: "unbounded" })
    assert.deepStrictEqual(results.map(({ outcome }) => outcome).toSorted(), ["applied", "duplicate", "duplicate", "duplicate"])
    assert.strictEqual((yield* sandboxes.get(by, sandbox.id)).restoring, 1)
  }).pipe(Effect.provide(layer))
})
