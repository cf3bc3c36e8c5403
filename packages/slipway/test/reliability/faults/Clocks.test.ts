/** Clocks that jump by an hour, forwards and backwards: of an http process, of a worker, of Postgres. */
import * as Postgres from "@slipway/embedded-postgres/testing/PostgresCluster"
import { Effect } from "effect"
import { chmodSync, readdirSync, writeFileSync } from "node:fs"
import path from "node:path"
import { setTimeout as sleep } from "node:timers/promises"
import { fault, type Found, type Need } from "./Battery.ts"
import * as Checks from "./Checks.ts"
import * as Load from "./Load.ts"
import * as Sandboxes from "./Sandboxes.ts"
import * as Service from "./Service.ts"

const HOUR = 3600
/** Longer than a lease is renewed (10 s). */
const JUMPED_MILLIS = 12_000
/** Every 5 s a process looks at the database's clock. */
const BACK_MILLIS = 7000

/** Debian's package libfaketime has it in the folder of the machine's architecture. */
const library = ["/usr/lib", ...readdirSync("/usr/lib").map((name) => `/usr/lib/${name}`)].flatMap((folder) => {
  try {
    return readdirSync(path.join(folder, "faketime")).filter((name) => name === "libfaketimeMT.so.1").map((name) =>
      path.join(folder, "faketime", name)
    )
  } catch {
    return []
  }
})[0]
const faketime: Need = () => library === undefined ? "libfaketime is not installed" : null

/** A clock for every process with its environment, beside the monotonic clock. */
const clock = (file: string) => {
  const set = (seconds: number) => writeFileSync(file, `${seconds < 0 ? "" : "+"}${seconds}s\n`)
  set(0)
  chmodSync(file, 0o644)
  return {
    set,
    env: { LD_PRELOAD: library ?? "", FAKETIME_TIMESTAMP_FILE: file, FAKETIME_NO_CACHE: "1", FAKETIME_DONT_FAKE_MONOTONIC: "1" }
  }
}

const jumping = (whose: "an http process" | "a worker" | "Postgres", name: string) =>
  fault(
    `the clock of ${whose} jumps by an hour (long)`,
    [faketime],
    Effect.gen(function*() {
      const home = yield* Postgres.home
      const { env, set } = clock(path.join(home.folder, "clock"))
      const data = path.join(home.folder, "cluster")
      yield* Postgres.initialise(home, data)
      const postgres = yield* Postgres.cluster(home, data, {}, whose === "Postgres" ? env : {})
      yield* postgres.start
      const url = `postgres://slipway:clock-canary-9c2e@127.0.0.1:${postgres.port}/postgres`
      const service = yield* Service.make({
        name,
        database: { url, direct: url },
        settings: whose === "an http process" ? env : {},
        ofWorkers: whose === "a worker" ? env : {}
      })
      return yield* Effect.promise(async (): Promise<Found> => {
        const sandboxes = Sandboxes.make(service.urls[0] ?? "", service.key)
        const working = await sandboxes.create("[[say ready]]")
        await sandboxes.turns(working, 1)
        const load = service.load({ name, perSecond: 10, terminate: true })
        const lost: Array<string> = []
        const backMillis: Array<number> = []
        const isUnready: Array<number> = []
        for (const [n, seconds] of [HOUR, -HOUR].entries()) {
          const turn = await sandboxes.send(working, "[[slow 60 100]]")
          await sandboxes.event(working, "turn.started", n + 2)
          set(seconds)
          await sleep(JUMPED_MILLIS)
          isUnready.push((await Load.ask(lost, service.urls[0] ?? "", service.key, "/readyz")).status)
          set(0)
          backMillis.push(await Checks.back(service.urls))
          const ends = await sandboxes.turns(working, n + 2)
          const mine = ends.filter(({ turnId }) => turnId === turn)
          const [end] = mine
          // Leases go by the database's clock: an hour later all of them are over, and the first worker to ask goes on with the sandbox.
          const isTakenOver = whose === "Postgres" && seconds > 0 && end?.reason === "agent_lost"
          if (mine.length !== 1 || end?.state !== "succeeded" && !isTakenOver) {
            lost.push(`the turn under way ended as ${JSON.stringify(mine)}`)
          }
        }
        await load.stop()
        lost.push(...await sandboxes.gaps(working))
        return {
          done: `forwards and backwards, ${JUMPED_MILLIS / 1000} s each; /readyz said ${isUnready.join(" and ")}; ${Service.summary(load)}`,
          lost: [...lost, ...await service.verdict(load)],
          backMillis,
          withinMillis: BACK_MILLIS
        }
      })
    })
  )

jumping("an http process", "clock-http")
jumping("a worker", "clock-worker")
jumping("Postgres", "clock-postgres")
