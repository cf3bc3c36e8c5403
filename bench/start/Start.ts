/**
 * The time from `npm start` to the first 200 of `/readyz` on an existing data folder, and the memory of the idle server. Beside it:
 * `HandServer.ts`, Node and `pg` on a copy of the same cluster, by `npm start` as well. Both start the same Postgres with the same
 * settings; code is compiled already on both sides. Ours answers when the schema was looked at and its routes stand; boxes are probed
 * meanwhile, and the worker begins after that. Where `npm run bundle` left a built server in `dist/slipway`, it is measured too, by an `npm
 * start` of its own. Alone: `npm run bench -- start --quick`.
 */
import { freePort } from "@slipway/embedded-postgres/testing/FreePort"
import * as SpawnedProgram from "@slipway/machine/testing/SpawnedProgram"
import { Effect } from "effect"
import { execFileSync } from "node:child_process"
import { existsSync, mkdirSync, readFileSync, readlinkSync, statSync, writeFileSync } from "node:fs"
import { request } from "node:http"
import { tmpdir } from "node:os"
import path from "node:path"
import { setTimeout as sleep } from "node:timers/promises"
import * as Checkout from "../fleet/Checkout.ts"
import * as Interruptible from "../Interruptible.ts"
import type { Measurement } from "../Measurement.ts"
import type { Options } from "../Rows.ts"
import * as Waiting from "../Waiting.ts"

const checkout = path.resolve(import.meta.dirname, "../..")
const LONGEST = 60
/** MB, of the idle server process as it is installed: sources are compiled and stripped of types in it. */
const MOST_MEMORY = 120

const isReady = (port: number): Promise<true | undefined> =>
  new Promise((resolve) => {
    const asked = request({ host: "127.0.0.1", port, path: "/readyz" }, (reply) => {
      reply.resume()
      resolve(reply.statusCode === 200 ? true : undefined)
    })
    asked.on("error", () => resolve(undefined))
    asked.end()
  })

/** Where `npm start` is run, and with what. */
interface Start {
  readonly cwd: string
  readonly env: Readonly<Record<string, string>>
  readonly port: number
}

/** The process that npm started. */
const childOf = (pid: number): number => Number(readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim().split(" ")[0])

const commandLineOf = (pid: number) => readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0").slice(0, -1)

const running = new Set<SpawnedProgram.SpawnedProgram>()

/** `use` is given the server's process, as soon as it is ready. It is stopped afterwards. */
const serving = async <A>({ cwd, env, port }: Start, use: (pid: number, readyMillis: number) => Promise<A>): Promise<A> => {
  const began = performance.now()
  const npm = SpawnedProgram.start("npm", ["start", "--silent"], {
    cwd,
    env: { PATH: process.env["PATH"], HOME: process.env["HOME"], TMPDIR: tmpdir(), npm_config_update_notifier: "false", ...env }
  })
  running.add(npm)
  await Checkout.until("the first 200", LONGEST, async () => {
    if (!npm.isRunning()) throw new Error(`npm start ended: ${npm.stderr()}`)
    return isReady(port)
  }, 4)
  const took = performance.now() - began
  const pid = childOf(npm.pid)
  try {
    return await use(pid, took)
  } finally {
    process.kill(pid, "SIGTERM")
    await Waiting.within(60, () => "the end of npm start", npm.ended)
    running.delete(npm)
  }
}

/** MB of the process alone, at its calmest in some seconds, when what a start leaves behind had its time to go. */
const idle = async (pid: number, quick: boolean) => {
  await sleep(quick ? 5000 : 15_000)
  let resident = Number.POSITIVE_INFINITY
  for (let i = 0; i < 5; i++) {
    await sleep(1000)
    resident = Math.min(resident, Checkout.residentOf(pid) / 1024)
  }
  return resident
}

/** The command line of the service's Postgres server, and the user of its process. */
const postgresOf = (cluster: string) => {
  const pid = Number(readFileSync(path.join(cluster, "postmaster.pid"), "utf8").split("\n")[0])
  return { program: readlinkSync(`/proc/${pid}/exe`), args: commandLineOf(pid).slice(1) }
}

/** Without what names the service. */
const argumentsByHand = (args: ReadonlyArray<string>, cluster: string): ReadonlyArray<string> => {
  const kept: Array<string> = ["-D", "."]
  for (let i = 0; i < args.length; i++) {
    const [name, value = ""] = (args[i + 1] ?? "").split("=")
    if (args[i] !== "-c" || name?.startsWith("slipway.") === true) continue
    kept.push("-c", name === "unix_socket_directories" ? `${name}=${cluster}` : `${name}=${value}`)
  }
  return kept
}

interface Sample {
  readonly ready: number
  readonly memory: number | null
}

const measureAll = Effect.fnUntraced(function*(options: Options) {
  const home = yield* Checkout.temporaryFolder
  yield* Effect.addFinalizer(() =>
    Effect.promise(async () => {
      for (const npm of running) {
        if (!npm.isRunning()) continue
        process.kill(childOf(npm.pid) || npm.pid, "SIGTERM")
        await Waiting.within(60, () => "the end of npm start", npm.ended)
      }
    })
  )
  const port = yield* freePort
  const bin = path.join(checkout, "node_modules/.bin")
  const env = {
    PATH: `${bin}:${process.env["PATH"]}`,
    SLIPWAY_DATA_DIR: path.join(home, "data"),
    SLIPWAY_PORT: String(port),
    XDG_STATE_HOME: path.join(home, "state")
  }
  const bundle = path.join(checkout, "dist/slipway/bin/slipway.js")
  const built = path.join(home, "built")
  mkdirSync(built)
  writeFileSync(path.join(built, "package.json"), JSON.stringify({ private: true, scripts: { start: `exec node ${bundle} serve` } }))
  const sources: ReadonlyArray<{ readonly id: string; readonly name: string; readonly cwd: string }> = [
    { id: "start", name: "npm start", cwd: checkout },
    ...existsSync(bundle) ? [{ id: "start-bundle", name: "npm start of the bundle", cwd: built }] : []
  ]
  const wanted = sources.filter(({ id }) => options.only.has(id) || options.only.has(`${id}-memory`))
  for (const id of ["start-bundle", "start-bundle-memory"]) {
    if (options.only.has(id) && !existsSync(bundle)) options.skip(id, `there is no ${bundle}. Run: npm run bundle`)
  }
  return yield* Effect.promise(async () => {
    const rounds = options.quick ? 3 : 9
    const data = path.join(home, "data")
    mkdirSync(data)
    // Its first start makes the data folder; the second one compiles nothing any more.
    const { args, program } = await serving({ cwd: checkout, env, port }, async () => postgresOf(path.join(data, "postgres/cluster")))
    const hand = path.join(home, "hand")
    const cluster = path.join(hand, "cluster")
    mkdirSync(hand)
    execFileSync("cp", ["--archive", path.join(data, "postgres/cluster"), cluster])
    const { gid, uid } = statSync(cluster)
    const account = process.getuid?.() === 0 ? { uid, gid } : null
    // Postgres runs as another user there.
    if (account !== null) execFileSync("chmod", ["o+x", home])
    const server = path.join(import.meta.dirname, "HandServer.ts")
    writeFileSync(
      path.join(hand, "package.json"),
      JSON.stringify({ private: true, scripts: { start: `exec node ${server} "$(cat ${path.join(hand, "settings.json")})"` } })
    )
    const handPort = await Effect.runPromise(freePort)
    writeFileSync(
      path.join(hand, "settings.json"),
      JSON.stringify({
        cacheDirectory: path.join(hand, "compiled"),
        postgres: [program, ...argumentsByHand(args, cluster)],
        cluster,
        account,
        user: "slipway_service",
        database: "slipway",
        port: handPort
      })
    )
    const byHand = { cwd: hand, env: { PATH: env.PATH }, port: handPort }
    const sample = async (start: Start, last: boolean): Promise<Sample> =>
      serving(start, async (pid, ready) => ({ ready, memory: last ? await idle(pid, options.quick) : null }))
    const rows: Array<Measurement> = []
    for (const { cwd, id, name } of wanted) {
      const mine: Array<Sample> = []
      const theirs: Array<Sample> = []
      for (let round = -1; round < rounds; round++) {
        if (round === 0) options.say(`${id}, ${rounds} rounds`)
        const sides = [
          async () => void mine.push(await sample({ cwd, env, port }, round >= rounds - 2)),
          async () => void theirs.push(await sample(byHand, round >= rounds - 2))
        ]
        for (const side of round % 2 === 0 ? sides : sides.toReversed()) await side()
      }
      const readies = (samples: ReadonlyArray<Sample>) => samples.slice(1).map(({ ready }) => ready)
      const memories = (samples: ReadonlyArray<Sample>) => samples.flatMap(({ memory }) => memory ?? [])
      const HAND = "node and pg by hand"
      const isBuilt = id === "start-bundle"
      rows.push({
        id,
        what: `${name} to the first 200 of /readyz, on a data folder that is there`,
        unit: "ms",
        better: "lower",
        ours: { name: "slipway", samples: readies(mine) },
        theirs: { name: HAND, samples: readies(theirs) },
        // At most twice theirs, as it is installed.
        reach: isBuilt ? { times: 0.5 } : {},
        notes: { "fastest, ms": Math.round(Math.min(...readies(mine))), "fastest by hand, ms": Math.round(Math.min(...readies(theirs))) }
      }, {
        id: `${id}-memory`,
        what: `resident memory of the idle server process after ${name}`,
        unit: "MB",
        better: "lower",
        ours: { name: "slipway", samples: memories(mine) },
        theirs: { name: HAND, samples: memories(theirs) },
        reach: isBuilt ? { most: MOST_MEMORY } : {}
      })
    }
    return rows.filter(({ id }) => options.only.has(id))
  })
}, Effect.scoped)

export const measure = (options: Options): Promise<ReadonlyArray<Measurement>> => Interruptible.run(measureAll(options))
