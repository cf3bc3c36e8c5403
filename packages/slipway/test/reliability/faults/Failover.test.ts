/** Two processes of the service on one Postgres, whose primary is killed while they work: its standby takes its place. */
import { assert } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import { folder, repository, run, serve, until } from "../../commands/SlipwayProcess.ts"
import { fault } from "./Battery.ts"
import * as Clients from "./Clients.ts"
import * as Replicas from "./Replicas.ts"

fault(
  "16 failing over: the primary Postgres is killed, its standby takes its place",
  [],
  Effect.gen(function*() {
    const dataDir = yield* folder
    const replicas = yield* Replicas.make
    const settings = { DATABASE_URL: replicas.url, SLIPWAY_SECRETS_KEY_FILE: `${dataDir}/secrets.key` }
    const added = yield* run(dataDir, ["repos", "add", "acme/shop", repository(dataDir)], settings)
    assert.strictEqual(added.code, 0, added.stderr)
    const all = yield* serve(dataDir, settings)
    const more = yield* serve(dataDir, { ...settings, SLIPWAY_ROLE: "http", SLIPWAY_PUBLIC_URL: all.url })
    const key = all.key ?? ""
    assert.notStrictEqual(key, "")

    const running = yield* Clients.create(all.url, key, "[[say one]] [[hang]]")
    const speaks = Clients.types(all.url, key, running)
    yield* until(speaks, (types) => types.includes("message.updated"))

    const acknowledged = Clients.nothing()
    const clients = yield* Effect.forkChild(
      Effect.forEach([all, more, all, more], ({ url }) => Clients.work(() => url, key, acknowledged), { concurrency: 4 })
    )
    yield* until(Effect.sync(() => acknowledged.terminated.size), (size) => size >= 10)
    yield* replicas.failOver
    const since = performance.now()
    const before = acknowledged.terminated.size
    yield* until(Effect.sync(() => acknowledged.terminated.size), (size) => size > before)
    const back = performance.now() - since
    yield* until(Effect.sync(() => acknowledged.terminated.size), (size) => size >= before + 10)
    yield* Fiber.interrupt(clients)

    const lost = (yield* Effect.forEach([all, more], ({ url }) => Clients.lost(url, key, acknowledged))).flat()
    assert.notInclude(yield* speaks, "turn.completed")
    yield* Clients.interrupt(all.url, key, running)
    yield* until(speaks, (types) => types.includes("turn.completed"))
    const [creations, terminations] = [acknowledged.created.size, acknowledged.terminated.size]
    return {
      done: `killed under two processes; ${creations} creations, ${terminations} terminations acknowledged, a turn went on`,
      lost,
      backMillis: [back]
    }
  })
)
