/** Postgres beneath two http processes and a worker: killed, away, silent, frozen, slow, without room, with a disk that fails. */
import * as Postgres from "@slipway/embedded-postgres/testing/PostgresCluster"
import * as SmallDisk from "@slipway/machine/testing/SmallDisk"
import * as SpawnedProgram from "@slipway/machine/testing/SpawnedProgram"
import { Effect, Exit, Scope } from "effect"
import { chownSync } from "node:fs"
import path from "node:path"
import { setTimeout as sleep } from "node:timers/promises"
import { afterAll, beforeAll } from "vitest"
import { chance, fault, type Found, type Need, plant, program, root, ROUNDS } from "./Battery.ts"
import * as Checks from "./Checks.ts"
import * as Line from "./Line.ts"
import * as Sandboxes from "./Sandboxes.ts"
import * as Service from "./Service.ts"

const PASSWORD = "database-canary-7d1f"
/** Longer than anybody waits for an answer. */
const AWAY_MILLIS = ROUNDS > 20 ? 30_000 : 12_000
const PER_SECOND = 25
const disks: Need = () => SmallDisk.isPossible ? null : "no disk can be mounted here"

const rig = Effect.gen(function*() {
  const home = yield* Postgres.home
  const disk = SmallDisk.isPossible ? yield* SmallDisk.make(400, 20_000) : null
  if (disk !== null && home.account !== null) chownSync(disk.path, home.account.uid, home.account.gid)
  const data = path.join(disk?.path ?? home.folder, "cluster")
  yield* Postgres.initialise(home, data)
  const postgres = yield* Postgres.cluster(home, data)
  yield* postgres.start
  const line = yield* Line.make(() => postgres.port)
  const at = (port: number) => `postgres://slipway:${PASSWORD}@127.0.0.1:${port}/postgres`
  const service = yield* Service.make({ name: "database", http: 2, database: { url: at(line.port), direct: at(postgres.port) } })
  return { disk, line, postgres, service }
})
type Rig = Effect.Success<typeof rig>

const scope = Effect.runSync(Scope.make())
let made: Rig
beforeAll(async () => {
  made = await Effect.runPromise(Scope.provide(rig, scope))
})
afterAll(() => Effect.runPromise(Scope.close(scope, Exit.void)))

/** `break_` is over when it completes; what is told of it begins the row. */
const under = (name: string, break_: (rig: Rig) => Promise<string>) =>
  Effect.promise(async (): Promise<Found> => {
    const { service } = made
    const load = service.load({ name, perSecond: PER_SECOND, terminate: true })
    await sleep(1_000)
    const told = await break_(made)
    const backMillis = await Checks.back(service.urls)
    const worked = await turn(made)
    await load.stop()
    return { done: `${told}; ${Service.summary(load)}`, lost: [...worked, ...await service.verdict(load)], backMillis: [backMillis] }
  })

/** The worker is there too: a sandbox that is made now gets its turn. */
const turn = async ({ service: { key, urls } }: Rig): Promise<Array<string>> => {
  const sandboxes = Sandboxes.make(urls[0] ?? "", key)
  const [ended] = await sandboxes.turns(await sandboxes.create("[[say here]]"), 1)
  return ended?.state === "succeeded" ? [] : [`a turn afterwards ended as ${ended?.state}`]
}

const restart = ({ postgres }: Rig) => Effect.runPromise(Effect.andThen(postgres.end("SIGKILL"), postgres.start))

/** The work of a supervisor after a process gave up, or stays in a failed recovery. Reports whether it was needed. */
const revive = async (rig: Rig): Promise<string> => {
  await sleep(500)
  if (await rig.service.rows("SELECT 1").then(() => true, () => false)) return ""
  await restart(rig)
  return ", Postgres gave up and was started again"
}

fault(
  "16 all connections to Postgres are ended, again and again",
  [],
  Effect.suspend(() => {
    const random = chance("ended connections")
    return under("ended", async ({ service }) => {
      let count = 0
      for (let i = 0; i < 10; i++) {
        const ended = await service.rows(
          "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        count += ended.length
        await sleep(random.below(500))
      }
      return `${count} connections ended in 10 rounds`
    })
  })
)

fault(
  "16 Postgres is killed and started again",
  [],
  under("killed", async (rig) => {
    for (let i = 0; i < 3; i++) {
      await restart(rig)
      await sleep(1_000)
    }
    return "kill -9 3 times"
  })
)

fault(
  "16 Postgres is stopped and started 3 s later",
  [],
  under("stopped", async ({ postgres }) => {
    await Effect.runPromise(postgres.end("SIGINT"))
    await sleep(3_000)
    await Effect.runPromise(postgres.start)
    return "a fast shutdown"
  })
)

fault(
  "16 the way to Postgres is a black hole (long)",
  [],
  under("unreachable", async ({ line }) => {
    line.silence()
    await sleep(AWAY_MILLIS)
    line.mend()
    return `nothing was carried for ${AWAY_MILLIS / 1000} s`
  })
)

fault(
  "16 Postgres turns everybody away",
  [],
  under("refused", async ({ line }) => {
    line.refuse()
    await sleep(3_000)
    line.mend()
    return "connections were reset for 3 s"
  })
)

fault(
  "16 Postgres stalls (long)",
  [],
  under("stalled", async ({ postgres }) => {
    await Effect.runPromise(Postgres.signal(postgres, "SIGSTOP"))
    await sleep(AWAY_MILLIS)
    await Effect.runPromise(Postgres.signal(postgres, "SIGCONT"))
    return `all its processes were frozen for ${AWAY_MILLIS / 1000} s`
  })
)

fault(
  "16 Postgres is slow",
  [],
  under("slow", async ({ line }) => {
    line.delay(300)
    await sleep(6_000)
    line.mend()
    return "each message took 300 ms longer in both directions, for 6 s"
  })
)

fault(
  "16 the disk of Postgres is full",
  [root, disks],
  under("full", async (rig) => {
    rig.disk?.spoil("full")
    await sleep(5_000)
    rig.disk?.mend()
    return `no room for 5 s${await revive(rig)}`
  })
)

fault(
  "16 the disk of Postgres fails to sync",
  [root, program("strace")],
  under("eio", async (rig) => {
    const pids = rig.postgres.pids().flatMap((pid) => ["-p", String(pid)])
    const strace = SpawnedProgram.start("strace", ["-f", "-qq", "-e", "trace=fsync,fdatasync", "-e", "inject=fsync,fdatasync:error=EIO",
      ...pids])
    await sleep(5_000)
    await strace.stop("SIGTERM")
    const traced = strace.stderr()
    const failed = traced.split("(INJECTED)").length - 1
    if (failed === 0) throw new Error(`nothing failed: ${traced.slice(0, 300)}`)
    return `${failed} syncs failed with EIO in 5 s${await revive(rig)}`
  })
)

plant(
  "16 a Postgres that loses what it said was committed",
  [],
  Effect.promise(async () => {
    const { service } = made
    const load = service.load({ name: "planted", perSecond: PER_SECOND })
    await sleep(1_000)
    await load.stop()
    await service.rows("UPDATE sandboxes SET title = 'gone' WHERE title = 'planted-7'")
    return { done: "a row was changed beneath it", lost: await service.verdict(load) }
  })
)
