import { assert, it } from "@effect/vitest"
import { Access } from "@slipway/domain/access/usecases/Access"
import { Ids } from "@slipway/domain/ids/Ids"
import { ID_ALPHABET, SandboxId } from "@slipway/domain/ids/SandboxId"
import * as IdsMemory from "@slipway/domain/memory/ids/IdsMemory"
import * as SandboxStoreMemory from "@slipway/domain/memory/sandbox/SandboxStoreMemory"
import * as HintsMemory from "@slipway/domain/memory/store/HintsMemory"
import { type Due, Maintenance } from "@slipway/domain/sandbox/ports/Maintenance"
import { SandboxNotFound, SandboxStore } from "@slipway/domain/sandbox/ports/SandboxStore"
import { Policy } from "@slipway/domain/sandbox/rules/Policy"
import * as TestPostgres from "@slipway/embedded-postgres/testing/TestPostgres"
import * as IdsNode from "@slipway/machine/node/IdsNode"
import * as AccessStorePostgres from "@slipway/postgres/access-store/AccessStorePostgres"
import * as HintsPostgres from "@slipway/postgres/HintsPostgres"
import * as MaintenancePostgres from "@slipway/postgres/maintenance/MaintenancePostgres"
import * as Migrations from "@slipway/postgres/Migrations"
import * as SandboxStorePostgres from "@slipway/postgres/sandbox-store/SandboxStorePostgres"
import { creation } from "@slipway/testing/histories/Histories"
import { DateTime, Duration, Effect, Layer } from "effect"
import { enforceLimits } from "../../src/jobs/EnforceLimits.ts"

const create = Effect.fnUntraced(function*(grantId: string, createdAt: DateTime.Utc) {
  const id = SandboxId.make(`c_${yield* (yield* Ids).random(ID_ALPHABET, 12)}`)
  yield* (yield* SandboxStore).create({ creation: { ...creation, id, grantId, createdAt }, keyed: null })
  return id
})

const memory = SandboxStoreMemory.layer.pipe(Layer.provideMerge(Layer.merge(HintsMemory.layer, IdsMemory.layer)))

/** Sandboxes in one page. */
const PAGE = 100

it.effect("a round ends, though what the store calls due never changes", () =>
  Effect.gen(function*() {
    const now = yield* DateTime.now
    const maintenance = yield* Maintenance
    const young = yield* Effect.replicateEffect(create("grant", now), PAGE)
    const asked = { due: 0, revoked: 0 }
    yield* enforceLimits().pipe(Effect.provideService(Maintenance, {
      ...maintenance,
      // Ends by itself at some time, so that a round without an end is seen.
      due: () => Effect.sync(() => ({ now, ids: ++asked.due > 5 ? [] : young, last: { at: now, id: young[0]! } })),
      ofRevokedGrants: () => Effect.sync(() => ++asked.revoked > 5 ? [] : young.map(() => creation.id))
    }))
    assert.deepStrictEqual(asked, { due: 1, revoked: 1 })
  }).pipe(Effect.provide(memory)))

it.effect("a page of sandboxes that no limit can be applied to does not keep the limits from those behind it", () =>
  Effect.gen(function*() {
    const now = yield* DateTime.now
    const store = yield* SandboxStore
    const old = yield* Effect.replicateEffect(create("grant", DateTime.subtract(now, { days: 2 })), PAGE + 5)
    const { ids, last } = yield* (yield* Maintenance).due(PAGE)
    yield* enforceLimits().pipe(Effect.provideService(SandboxStore, {
      ...store,
      change: (id, by, decide, at) => ids.includes(id) ? Effect.fail(new SandboxNotFound()) : store.change(id, by, decide, at)
    }))
    assert.lengthOf(ids, PAGE)
    const left = yield* (yield* Maintenance).due(2 * PAGE)
    assert.sameMembers([...left.ids], [...ids])
    assert.deepStrictEqual(left.last, last as Due)
    assert.isTrue(old.every((id) => ids.includes(id) || !left.ids.includes(id)))
  }).pipe(Effect.provide(memory)))

const postgres = Layer.merge(SandboxStorePostgres.layer, MaintenancePostgres.layer)
const database = Access.layer.pipe(
  Layer.provideMerge(AccessStorePostgres.layer),
  Layer.provideMerge(Layer.merge(HintsPostgres.layer, IdsNode.layer)),
  Layer.provideMerge(TestPostgres.layer(Migrations.layer))
)

it.live(
  "a limit that was raised ends nothing, and keeps no other limit from being applied; a lowered one ends what rests",
  () =>
    Effect.gen(function*() {
      const limits = yield* Policy
      /** A process with this queue limit. */
      const under = (queue: Duration.Duration) => <A, E, R>(use: Effect.Effect<A, E, R>) =>
        Effect.provide(use, Layer.fresh(postgres).pipe(Layer.provideMerge(Layer.succeed(Policy, { ...limits, queue }))))
      const now = yield* DateTime.now
      const { grant } = yield* (yield* Access).createGrant("grant")
      const statuses = Effect.map(
        Effect.orDie(SandboxStore.use((store) => store.list(grant.id, { after: null, limit: 1000, repo: null, status: null }))),
        (all) => all.map(({ status }) => status)
      )
      yield* under(Duration.minutes(1))(Effect.replicateEffect(create(grant.id, DateTime.subtract(now, { hours: 2 })), PAGE))
      yield* under(Duration.hours(24))(Effect.gen(function*() {
        const over = yield* create(grant.id, DateTime.subtract(now, { hours: 25 }))
        yield* enforceLimits()
        assert.strictEqual((yield* (yield* SandboxStore).find({ grantId: grant.id, id: over })).status, "failed")
        assert.lengthOf((yield* statuses).filter((status) => status === "queued"), PAGE)
      }))
      yield* under(Duration.hours(1))(Effect.andThen(
        enforceLimits(),
        Effect.map(statuses, (all) => assert.deepStrictEqual([...new Set(all)], ["failed"]))
      ))
    }).pipe(Effect.provide(database))
)
