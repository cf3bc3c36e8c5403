/** Many sandboxes that end at once, on Postgres: work for other sandboxes meanwhile must not slow down. No clock is turned here. */
import { assert, it } from "@effect/vitest"
import { Access } from "@slipway/domain/access/usecases/Access"
import { Maintenance } from "@slipway/domain/sandbox/ports/Maintenance"
import { SandboxStore } from "@slipway/domain/sandbox/ports/SandboxStore"
import { Policy } from "@slipway/domain/sandbox/rules/Policy"
import { decide } from "@slipway/domain/sandbox/rules/SystemCommand"
import { Sandboxes } from "@slipway/domain/sandbox/usecases/Sandboxes"
import * as TestPostgres from "@slipway/embedded-postgres/testing/TestPostgres"
import * as IdsNode from "@slipway/machine/node/IdsNode"
import * as AccessStorePostgres from "@slipway/postgres/access-store/AccessStorePostgres"
import * as CheckpointsPostgres from "@slipway/postgres/checkpoints/CheckpointsPostgres"
import * as Database from "@slipway/postgres/Database"
import * as HintsPostgres from "@slipway/postgres/HintsPostgres"
import * as LeasesPostgres from "@slipway/postgres/leases/LeasesPostgres"
import * as MaintenancePostgres from "@slipway/postgres/maintenance/MaintenancePostgres"
import * as Migrations from "@slipway/postgres/Migrations"
import * as SandboxStorePostgres from "@slipway/postgres/sandbox-store/SandboxStorePostgres"
import * as SetupsPostgres from "@slipway/postgres/setups/SetupsPostgres"
import { AnswerMillis } from "@slipway/postgres/sql/SqlFailure"
import * as WorkersPostgres from "@slipway/postgres/workers/WorkersPostgres"
import { DateTime, Deferred, Effect, Layer, Redacted } from "effect"
import { create, layerOn, principal, running, startWorker, World } from "./Doubles.ts"

const Stores = Layer.mergeAll(
  SandboxStorePostgres.layer,
  LeasesPostgres.layer,
  MaintenancePostgres.layer,
  SetupsPostgres.layer,
  WorkersPostgres.layer,
  CheckpointsPostgres.layer,
  Access.layer
).pipe(
  Layer.provideMerge(AccessStorePostgres.layer),
  Layer.provideMerge(Layer.merge(HintsPostgres.layer, IdsNode.layer)),
  Layer.provideMerge(
    Layer.unwrap(Effect.map(TestPostgres.database(Migrations.layer), (url) => Database.layer({ url: Redacted.make(url) })))
  ),
  // A busy machine is no silent database.
  Layer.provideMerge(Layer.succeed(AnswerMillis, 300_000))
)

const QUEUED = 800
const BOOTING = 200

it.live("a thousand sandboxes of one grant that are terminated at once cost no other one its agent", () => {
  const world = new World()
  return Effect.gen(function*() {
    const access = yield* Access
    const store = yield* SandboxStore
    const maintenance = yield* Maintenance
    const sandboxes = yield* Sandboxes
    const limits = yield* Policy
    const [many, few] = [(yield* access.createGrant("many")).grant.id, (yield* access.createGrant("few")).grant.id]
    const slots = 4
    yield* startWorker(world, { slots })
    const others = yield* Effect.forEach([1, 2, 3, 4], () => running(world, {}, undefined, few))
    // Every slot is taken, so these wait.
    const made = yield* Effect.forEach(Array.from({ length: QUEUED + BOOTING }), () => create({}, undefined, many), { concurrency: 8 })
    const booting = made.slice(0, BOOTING)
    yield* Effect.forEach(
      booting,
      (id) =>
        Effect.flatMap(
          DateTime.now,
          (now) => store.change(id, "policy", (sandbox) => decide(sandbox, { _tag: "StartBoot" }, { limits, now }), now)
        ),
      { concurrency: 8 }
    )

    let stopping = 0
    let most = 0
    const full = yield* Deferred.make<void>()
    // The first ones wait until as many as may are at it, and a while for one more that may not.
    world.stopping = Effect.acquireUseRelease(
      Effect.sync(() => most = Math.max(most, ++stopping)),
      () =>
        Effect.suspend(() => stopping < 16 ? Deferred.await(full) : Deferred.succeed(full, undefined)).pipe(
          Effect.andThen(Effect.repeat(Effect.yieldNow, { times: 100 }))
        ),
      () => Effect.sync(() => stopping--)
    )
    yield* Effect.forEach(made, (id) => sandboxes.terminate({ ...principal, grantId: many }, id), { concurrency: 50 })
    for (;;) {
      const { live } = yield* maintenance.census
      if (live.terminating + live.queued === 0) break
    }

    assert.isAtMost(most, 16, "released at a time")
    assert.sameMembers([...new Set(world.stops)], booting, "only what was begun is released")
    assert.strictEqual(world.agents.length, slots)
    for (const { agent, id } of others) {
      assert.isFalse(agent.closed)
      const { status, turn } = yield* store.find({ grantId: few, id })
      assert.deepStrictEqual([status, turn?.state], ["running", "running"])
    }
  }).pipe(Effect.provide(layerOn(world, Stores)), Effect.scoped)
})
