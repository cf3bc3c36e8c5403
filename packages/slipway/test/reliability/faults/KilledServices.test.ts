/** A service with its own database that is killed at any moment, while it starts or while it works, and started again. */
import { assert } from "@effect/vitest"
import { Effect } from "effect"
import { setTimeout as pause } from "node:timers/promises"
import { environment, spawn } from "../../../testing/ServiceProcess.ts"
import { folder, processesOf, repository, run, serve, until } from "../../commands/SlipwayProcess.ts"
import { fault, ROUNDS } from "./Battery.ts"
import * as Clients from "./Clients.ts"

/** Starting takes two seconds or so. */
const LONGEST_LIFE_MILLIS = 6000

/** `SIGKILL` after so long, whatever it is doing. `at`: where it listens, as long as it does. */
const lived = (dataDir: string, millis: number, at: (url: string) => void) =>
  Effect.promise(async () => {
    const service = spawn({ dataDir, env: environment(dataDir, {}) })
    service.child.stdout.on("data", () => {
      const url = /^Slipway +(http:\S+)/mu.exec(service.stdout())?.[1]
      if (url !== undefined) at(url)
    })
    await pause(millis)
    await service.stop("SIGKILL")
    at("")
    return service.stdout() !== ""
  })

fault(
  "killed at any moment of its life, with the database in its data folder",
  [],
  Effect.gen(function*() {
    const dataDir = yield* folder
    const first = yield* serve(dataDir)
    const key = first.key ?? ""
    assert.notStrictEqual(key, "")
    const added = yield* run(dataDir, ["repos", "add", "acme/shop", repository(dataDir)])
    assert.strictEqual(added.code, 0, added.stderr)
    yield* first.stop("SIGKILL")

    const acknowledged = Clients.nothing()
    let url = ""
    let up = 0
    yield* Effect.forEach([1, 2, 3], () => Clients.work(() => url === "" ? "http://127.0.0.1:1" : url, key, acknowledged), {
      concurrency: 3
    }).pipe(
      Effect.raceFirst(Effect.gen(function*() {
        for (let round = 0; round < ROUNDS; round++) {
          // Spread over its whole life, and not at the same moments in each run.
          const millis = Math.round((round + Math.random()) / ROUNDS * LONGEST_LIFE_MILLIS)
          if (yield* lived(dataDir, millis, (at) => url = at)) up++
        }
      }))
    )
    const last = yield* serve(dataDir)
    const lost = yield* Clients.lost(last.url, key, acknowledged)
    assert.isAbove(acknowledged.created.size, 0)
    assert.isAbove(acknowledged.terminated.size, 0)
    assert.deepStrictEqual(yield* last.stop("SIGTERM"), { code: 0, signal: null })
    // Neither agents nor databases of those that were killed go on.
    assert.deepStrictEqual(yield* until(processesOf(dataDir), (left) => left.length === 0), [])
    const [creations, terminations] = [acknowledged.created.size, acknowledged.terminated.size]
    return {
      done: `killed ${ROUNDS} times, ${up} of them after it was up; ${creations} creations, ${terminations} terminations acknowledged`,
      lost
    }
  })
)
