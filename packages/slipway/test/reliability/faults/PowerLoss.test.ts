/** The machine of a service with the database in its data folder, the shipped default, loses its power while people work. */
import { EmbeddedPostgres } from "@slipway/embedded-postgres/EmbeddedPostgres"
import { Context, Effect, Exit, Layer, Scope } from "effect"
import { randomUUID } from "node:crypto"
import { mkdirSync, writeFileSync } from "node:fs"
import path from "node:path"
import { setTimeout as sleep } from "node:timers/promises"
import { folder, freePort, processesOf, repository, run, serve, until } from "../../commands/SlipwayProcess.ts"
import { chance, fault, type Found, plant, ROUNDS } from "./Battery.ts"
import * as Checks from "./Checks.ts"
import * as Load from "./Load.ts"
import * as LostPower from "./LostPower.ts"
import * as Sandboxes from "./Sandboxes.ts"
import * as Service from "./Service.ts"

const CUTS = Math.ceil(ROUNDS / 5)
/** A start, with the database's recovery. */
const START_MILLIS = 30_000
const DISK_MIB = 600
const anotherStart = path.join(import.meta.dirname, "AnotherStart.mjs")

/** As soon as nothing of what ran there has a file open. */
const on = (disk: LostPower.Disk) => Effect.andThen(until(processesOf(disk.path), (left) => left.length === 0), Effect.sync(disk.restore))

fault(
  "power is lost under a service with the database in its data folder",
  [LostPower.works],
  Effect.gen(function*() {
    const random = chance("power cuts")
    const disk = yield* LostPower.make(DISK_MIB)
    const dataDir = path.join(disk.path, "data")
    mkdirSync(dataDir)
    const elsewhere = yield* folder
    const settings = {
      XDG_STATE_HOME: elsewhere,
      SLIPWAY_ISOLATION: "none",
      SLIPWAY_PORT: String(yield* freePort),
      SLIPWAY_WORKER_SLOTS: "2",
      SLIPWAY_RATE_LIMIT_PER_USER: "1000000",
      SLIPWAY_RATE_LIMIT_PER_GRANT: "1000000"
    }
    const bootId = path.join(elsewhere, "boot-id")
    const started = Effect.suspend(() => {
      writeFileSync(bootId, `${randomUUID()}\n`)
      return serve(dataDir, { ...settings, BOOT_ID_FILE: bootId }, anotherStart)
    })
    let server = yield* started
    yield* run(dataDir, ["repos", "add", "acme/shop", repository(elsewhere)], settings)
    const key = server.key ?? ""
    const { url } = server
    const sandboxes = Sandboxes.make(url, key)
    const lost: Array<string> = []
    const kept: Array<string> = []
    const backMillis: Array<number> = []
    const load = Load.start({ urls: [url], key, name: "power", perSecond: 30, terminate: true })
    for (let i = 1; i <= CUTS; i++) {
      yield* Effect.promise(async () => {
        const id = await sandboxes.create(`[[write path=kept.txt content=kept-${i}]]`)
        await sandboxes.turns(id, 1)
        await sandboxes.event(id, "sandbox.checkpoint")
        kept.push(id)
        await sleep(random.below(1_500))
        disk.cut()
      })
      yield* server.stop("SIGKILL")
      yield* on(disk)
      const began = performance.now()
      server = yield* started
      yield* Effect.promise(() => Checks.back([url]))
      backMillis.push(performance.now() - began)
    }
    return yield* Effect.promise(async (): Promise<Found> => {
      await load.stop()
      lost.push(...load.wrong, ...await Checks.answered([url], key, load, 1_000))
      for (const [i, id] of kept.entries()) {
        const wanted = `kept-${i + 1}\n`
        // Trees are not synced, checkpoints are in the database: what is read and what its agent goes on with is what the checkpoint has.
        for (const turn of [1, 2]) {
          if (turn === 2) await sandboxes.send(id, "[[say on]]")
          const ends = await sandboxes.turns(id, turn)
          if (ends.at(-1)?.state !== "succeeded") lost.push(`${id}: its turn ${turn} ended as ${ends.at(-1)?.state}`)
          const read = await sandboxes.file(id, "kept.txt")
          if (read !== wanted) {
            lost.push(`${id}: after turn ${turn} its file has ${JSON.stringify(read)}, and not ${JSON.stringify(wanted)}`)
          }
        }
      }
      return {
        done: `cut ${CUTS} times, and what ${kept.length} sandboxes had saved is there; ${Service.summary(load)}`,
        lost,
        backMillis,
        withinMillis: START_MILLIS
      }
    })
  })
)

plant(
  "power is lost under a database that does not sync",
  [LostPower.works],
  Effect.gen(function*() {
    const disk = yield* LostPower.make(DISK_MIB)
    const dataDir = yield* folder
    const database = Effect.gen(function*() {
      const scope = yield* Scope.make()
      const { connection } = Context.get(
        yield* Scope.provide(Layer.build(EmbeddedPostgres.layer({ dataDir: disk.path, durable: false })), scope),
        EmbeddedPostgres
      )
      const where = new URLSearchParams({ host: path.dirname(connection.path), user: connection.username })
      return { url: `postgres:///${connection.database}?${where}`, end: Scope.close(scope, Exit.void) }
    })
    const port = String(yield* freePort)
    const started = Effect.gen(function*() {
      const { end, url } = yield* database
      const server = yield* serve(dataDir, { DATABASE_URL: url, SLIPWAY_PORT: port, SLIPWAY_SECRETS_KEY_FILE: `${dataDir}/secrets.key` })
      return { end, server, url }
    })
    const first = yield* started
    yield* run(dataDir, ["repos", "add", "acme/shop", repository(dataDir)], { DATABASE_URL: first.url })
    const key = first.server.key ?? ""
    const load = Load.start({ urls: [first.server.url], key, name: "planted", perSecond: 30 })
    yield* Effect.promise(async () => {
      await sleep(2_000)
      disk.cut()
    })
    yield* first.server.stop("SIGKILL")
    yield* first.end
    yield* on(disk)
    const second = yield* Effect.exit(started)
    if (Exit.isFailure(second)) return { done: Service.summary(load), lost: ["the database does not start any more"] }
    const lost = yield* Effect.promise(async () => {
      await load.stop()
      return await Checks.answered([second.value.server.url], key, load)
    })
    yield* second.value.server.stop("SIGKILL")
    yield* second.value.end
    return { done: Service.summary(load), lost }
  })
)
