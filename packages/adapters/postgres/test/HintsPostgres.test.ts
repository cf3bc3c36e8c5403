import { PgClient } from "@effect/sql-pg"
import { assert, describe, it } from "@effect/vitest"
import { Access } from "@slipway/domain/access/usecases/Access"
import * as HintsMemory from "@slipway/domain/memory/store/HintsMemory"
import { SandboxStore } from "@slipway/domain/sandbox/ports/SandboxStore"
import type { SandboxEvent } from "@slipway/domain/sandbox/rules/SandboxEvent"
import * as HandleEvents from "@slipway/domain/sandbox/usecases/HandleEvents"
import { Hints, WORK } from "@slipway/domain/store/Hints"
import * as TestPostgres from "@slipway/embedded-postgres/testing/TestPostgres"
import * as IdsNode from "@slipway/machine/node/IdsNode"
import { suite } from "@slipway/testing/contracts/store/HintsContract"
import { creation } from "@slipway/testing/histories/Histories"
import { register } from "@slipway/testing/runners/Vitest"
import { Context, Effect, Fiber, Layer, Queue, Redacted, Result, Schedule } from "effect"
import { SqlClient } from "effect/sql"
import * as AccessStorePostgres from "../src/access-store/AccessStorePostgres.ts"
import * as HintsPostgres from "../src/HintsPostgres.ts"
import * as MaintenancePostgres from "../src/maintenance/MaintenancePostgres.ts"
import * as Migrations from "../src/Migrations.ts"
import * as SandboxStorePostgres from "../src/sandbox-store/SandboxStorePostgres.ts"
import { database } from "./Stores.ts"

register(suite("postgres", HintsPostgres.layer.pipe(Layer.provideMerge(database()))))

/** The hints of another process on the same database. */
const processOn = (url: string) =>
  Effect.map(
    Layer.build(Layer.fresh(HintsPostgres.layer.pipe(Layer.provide(PgClient.layer({ url: Redacted.make(url) }))))),
    (context) => Context.get(context, Hints)
  )

describe("hints between processes", () => {
  it.live("reach the watchers of every other process, topic by topic", () =>
    Effect.gen(function*() {
      const url = yield* TestPostgres.database(Migrations.layer)
      const [one, two, three] = [yield* processOn(url), yield* processOn(url), yield* processOn(url)]
      const watchers = yield* Effect.forEach([one, two, three], (hints) => hints.watch("topic"))
      const silent = yield* Effect.forkChild(yield* two.watch("silent"), { startImmediately: true })
      // A process hears what is said after its LISTEN, and nothing tells us when that is: say it until all have heard.
      yield* Effect.raceFirst(
        Effect.all(watchers, { concurrency: "unbounded" }),
        Effect.repeat(one.publish(["other", "topic"]), Schedule.spaced("20 millis"))
      )
      assert.isUndefined(silent.pollUnsafe())
      // Now everybody listens: one hint each way is enough.
      for (const speaker of [two, three]) {
        const heard = yield* Effect.forEach([one, two, three], (hints) => hints.watch("second"))
        yield* speaker.publish(["second"])
        yield* Effect.all(heard, { concurrency: "unbounded" })
      }
      assert.isUndefined(silent.pollUnsafe())
      yield* two.publish(["silent"])
      yield* Fiber.join(silent)
    }))

  it.live("more topics than fit into one notification all arrive", () =>
    Effect.gen(function*() {
      const url = yield* TestPostgres.database(Migrations.layer)
      const [one, two] = [yield* processOn(url), yield* processOn(url)]
      const topics = Array.from({ length: 400 }, (_, i) => `topic-${i}-${"x".repeat(30)}`)
      const watchers = yield* Effect.forEach(topics, (topic) => two.watch(topic))
      const ready = yield* two.watch("ready")
      yield* Effect.raceFirst(ready, Effect.repeat(one.publish(["ready"]), Schedule.spaced("20 millis")))
      yield* one.publish(topics)
      yield* Effect.all(watchers, { concurrency: "unbounded" })
    }))
})

describe("a lost hint", () => {
  it.live(
    "is made up for once the connection is back: a handler of events in another process handles what it missed",
    () =>
      Effect.gen(function*() {
        const { grant } = yield* (yield* Access).createGrant("silent")
        const store = yield* SandboxStore
        const { sandbox: { id } } = yield* store.create({ creation: { ...creation, grantId: grant.id }, keyed: null })
        const handled = yield* Queue.unbounded<string>()
        const saved = new Map<string, number>()
        yield* Layer.build(
          HandleEvents.layer({
            cursor: { load: () => Effect.succeed(saved), save: (id, position) => Effect.sync(() => saved.set(id, position)) },
            handle: (event) => Queue.offer(handled, event.id)
          }).pipe(Layer.provide(MaintenancePostgres.layer))
        )
        assert.strictEqual(yield* Queue.take(handled), "1")
        yield* store.change(id, "policy", () => Result.succeed([event]), creation.createdAt)
        const sql = yield* SqlClient.SqlClient
        const cut = sql`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND datname = current_database()`
        yield* Effect.repeat(cut, { until: (rows) => rows.length > 0 })
        // Sooner than it looks without a hint.
        assert.strictEqual(yield* Effect.timeout(Queue.take(handled), "28 seconds"), "2")
      }).pipe(Effect.provide(layer))
  )

  /** Writes sandboxes without hints. */
  const Silent = Layer.mergeAll(SandboxStorePostgres.layer, Access.layer).pipe(
    Layer.provide(AccessStorePostgres.layer),
    Layer.provide(Layer.mergeAll(HintsMemory.layer, IdsNode.layer))
  )
  const layer = Layer.mergeAll(HintsPostgres.layer, Silent).pipe(Layer.provideMerge(database()))

  const event: SandboxEvent = { type: "sandbox.boot", data: { stage: "clone", ms: 1 } }

  it.live("costs a moment: a watcher of a sandbox notices every change of it", () =>
    Effect.gen(function*() {
      const store = yield* SandboxStore
      const hints = yield* Hints
      const { grant } = yield* (yield* Access).createGrant("silent")
      const { sandbox } = yield* store.create({ creation: { ...creation, grantId: grant.id }, keyed: null })
      const changed = yield* hints.watch(sandbox.id)
      // Changes before the first look are unknown, so it counts as a change.
      yield* changed
      for (let i = 0; i < 2; i++) {
        yield* store.change(sandbox.id, "policy", () => Result.succeed([event]), creation.createdAt)
        yield* changed
      }
      // Without another change there is nothing to notice: the work topic, looked at by every tick, is told twice first.
      const idle = yield* Effect.forkChild(changed, { startImmediately: true })
      const work = yield* hints.watch(WORK)
      yield* work
      yield* work
      assert.isUndefined(idle.pollUnsafe())
    }).pipe(Effect.provide(layer)))
})
