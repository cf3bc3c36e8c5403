import { assert, it } from "@effect/vitest"
import { MaxActiveSandboxes } from "@slipway/domain/sandbox/ports/ActiveSandboxes"
import { Checkpoints } from "@slipway/domain/sandbox/ports/Checkpoints"
import { Leases } from "@slipway/domain/sandbox/ports/Leases"
import { Maintenance } from "@slipway/domain/sandbox/ports/Maintenance"
import { SandboxDashboard } from "@slipway/domain/sandbox/ports/SandboxDashboard"
import { held } from "@slipway/machine/testing/HeldMemory"
import * as FeedbackWatchesContract from "@slipway/testing/contracts/publishing/FeedbackWatchesContract"
import * as ArtifactStoreContract from "@slipway/testing/contracts/sandbox/ArtifactStoreContract"
import * as CheckpointsContract from "@slipway/testing/contracts/sandbox/CheckpointsContract"
import * as DeletionContract from "@slipway/testing/contracts/sandbox/DeletionContract"
import * as ForksContract from "@slipway/testing/contracts/sandbox/ForksContract"
import * as LeasesContract from "@slipway/testing/contracts/sandbox/LeasesContract"
import * as MaintenanceContract from "@slipway/testing/contracts/sandbox/MaintenanceContract"
import * as PromptFilesContract from "@slipway/testing/contracts/sandbox/PromptFilesContract"
import * as SandboxDashboardContract from "@slipway/testing/contracts/sandbox/SandboxDashboardContract"
import { at, make, running, StoreFixture } from "@slipway/testing/contracts/sandbox/SandboxStates"
import { limited, MAX_ACTIVE, suite } from "@slipway/testing/contracts/sandbox/SandboxStoreContract"
import * as SetupsContract from "@slipway/testing/contracts/sandbox/SetupsContract"
import * as WorkersContract from "@slipway/testing/contracts/sandbox/WorkersContract"
import { register } from "@slipway/testing/runners/Vitest"
import { Clock, DateTime, Deferred, Effect, Fiber, Layer, Schedule } from "effect"
import { SqlClient } from "effect/sql"
import * as CheckpointsPostgres from "../src/checkpoints/CheckpointsPostgres.ts"
import { HITS } from "../src/sandbox-dashboard/statements/list.ts"
import { stores } from "./Stores.ts"

const layer = stores(CheckpointsPostgres.layer)

const ageing = Layer.effect(
  WorkersContract.WorkersFixture,
  Effect.map(SqlClient.SqlClient, (sql) => ({
    age: (seconds) => Effect.orDie(Effect.asVoid(sql`UPDATE worker_rooms SET seen_at = seen_at - make_interval(secs => ${seconds})`))
  }))
)

register(suite("postgres", layer))
register(LeasesContract.suite("postgres", layer))
register(MaintenanceContract.suite("postgres", layer))
register(SandboxDashboardContract.suite("postgres", layer))
register(WorkersContract.suite("postgres", Layer.provideMerge(ageing, layer)))
register(CheckpointsContract.suite("postgres", layer))
register(ForksContract.suite("postgres", layer))
register(DeletionContract.suite("postgres", layer))
register(SetupsContract.suite("postgres", layer))
register(FeedbackWatchesContract.suite("postgres", layer))
register(PromptFilesContract.suite("postgres", layer))
register(ArtifactStoreContract.suite("postgres", layer))
register(CheckpointsContract.streaming("postgres", layer, held))
register(limited("postgres", layer.pipe(Layer.provide(Layer.succeed(MaxActiveSandboxes, MAX_ACTIVE)))))

it.live("finds the newest sandboxes by a word of more texts than the index gives to a search", () =>
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const grantId = yield* (yield* StoreFixture).grant
    const dashboard = yield* SandboxDashboard
    const oldest = yield* make({ grantId, title: "oldest", prompt: "hello" })
    yield* sql`
      INSERT INTO search_texts (sandbox_id, seq, words)
      SELECT ${oldest.id}, n, array_to_tsvector(search_words(${grantId}::uuid, 'frequent')) FROM generate_series(1, ${HITS}::int) n`
    yield* make({ grantId, title: "without", prompt: "hello", createdAt: DateTime.add(at, { seconds: 1 }) })
    yield* make({ grantId, title: "newest", prompt: "frequent", createdAt: DateTime.add(at, { seconds: 2 }) })
    const found = yield* dashboard.list(grantId, { after: null, limit: 10, attention: null, repo: null, search: "frequent" })
    assert.deepStrictEqual(found.map(({ title }) => title), ["newest", "oldest"])
  }).pipe(Effect.provide(layer)))

it.live("gives what was given back at once, though the database's clock went back by an hour since", () =>
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const leases = yield* Leases
    const by = { worker: "a worker", machine: "a machine" }
    const room = { slots: 100, boots: 100, errands: 100 }
    const { sandbox } = yield* running
    const given = Effect.map(leases.take(by, room), (taken) => taken.filter(({ lease }) => lease.sandboxId === sandbox.id))
    const [first] = yield* given
    assert.isDefined(first)
    // As rows look to a clock that is behind the one they were written by.
    const backwards = sql`UPDATE sandboxes SET lease_until = lease_until + interval '1 hour' WHERE id = ${sandbox.id}`
    yield* backwards
    assert.lengthOf(yield* given, 0, "it is held")
    yield* leases.release(first.lease)
    yield* backwards
    assert.lengthOf(yield* given, 1)
  }).pipe(Effect.provide(layer)))

it.live("judges what is due by the database's clock, whatever that of the process says", () =>
  Effect.gen(function*() {
    const maintenance = yield* Maintenance
    const own = yield* Clock.Clock
    for (const days of [-400, 400]) {
      const millis = () => own.currentTimeMillisUnsafe() + days * 86_400_000
      const [{ now: due }, now] = yield* Effect.all([maintenance.due(1), maintenance.now]).pipe(
        Effect.provideService(
          Clock.Clock,
          Object.assign(Object.create(own), { currentTimeMillisUnsafe: millis, currentTimeMillis: Effect.sync(millis) })
        )
      )
      for (const told of [due, now]) assert.isBelow(Math.abs(told.epochMilliseconds - Date.now()), 60_000)
    }
  }).pipe(Effect.provide(layer)))

it.live(
  "pruning waits for a fork that is being recorded, and leaves what it starts with",
  () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const checkpoints = yield* Checkpoints
      const sandbox = yield* ForksContract.checkpointed(2)
      yield* ForksContract.settle(sandbox)
      const [recorded, go] = [yield* Deferred.make<void>(), yield* Deferred.make<void>()]
      const forking = yield* Effect.forkChild(sql.withTransaction(Effect.gen(function*() {
        yield* ForksContract.forkOf(sandbox, 1)
        yield* Deferred.succeed(recorded, undefined)
        yield* Deferred.await(go)
      })))
      yield* Deferred.await(recorded)
      const pruning = yield* Effect.forkChild(checkpoints.prune(DateTime.subtract(at, { days: 400 }), 100))
      yield* sql`SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`.pipe(
        Effect.filterOrFail((waiting) => waiting.length > 0),
        Effect.retry(Schedule.spaced("5 millis"))
      )
      yield* Deferred.succeed(go, undefined)
      yield* Fiber.join(forking)
      yield* Fiber.join(pruning)
      assert.deepStrictEqual((yield* checkpoints.list(sandbox.id, 0, 10)).map(({ checkpoint }) => checkpoint), [1, 2])
    }).pipe(Effect.provide(layer))
)
