/** The processes of one service on one Postgres: those that answer requests, and workers, each with a folder for its machine. */
import { EmbeddedPostgres } from "@slipway/embedded-postgres/EmbeddedPostgres"
import { freePort } from "@slipway/embedded-postgres/testing/FreePort"
import * as Mounts from "@slipway/machine/testing/Mounts"
import * as SpawnedProgram from "@slipway/machine/testing/SpawnedProgram"
import { Context, Effect, Layer } from "effect"
import { execFile } from "node:child_process"
import { randomBytes } from "node:crypto"
import { createWriteStream, mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import path from "node:path"
import { setTimeout as sleep } from "node:timers/promises"
import { promisify } from "node:util"
import * as ServiceProcess from "./ServiceProcess.ts"

/** How long a process may take to be ready on a machine that does everything else at the same time. */
const START_SECONDS = 90
/** How long a process may take to leave: running turns have 8 s, their checkpoints up to 90. */
const LEAVE_MILLIS = 120_000

export interface Service {
  readonly home: string
  readonly databaseUrl: string
  /** Runs a command to its end, for what it prints. */
  readonly command: (...args: ReadonlyArray<string>) => Promise<string>
  /** `settings`: its own, beside those of all. `descriptors`: how many files and sockets it may open, as `ulimit -n` has it. */
  readonly http: (name: string, settings?: Settings, descriptors?: number) => Promise<Process>
  readonly worker: (name: string, settings?: Settings) => Promise<Process>
}

type Settings = ServiceProcess.Settings

export interface Process {
  readonly name: string
  /** Where it answers requests; of a worker empty. */
  readonly url: string
  readonly pid: () => number
  readonly isUp: () => boolean
  /** Each unexpected end or failed start: its exit code or signal. */
  readonly ends: ReadonlyArray<string>
  /** Ends it at once, without a word to it. */
  readonly kill: () => Promise<void>
  /** Asks it to leave, and waits; dies unless it ends by itself with code 0. */
  readonly stop: () => Promise<void>
  readonly start: () => Promise<void>
  readonly freeze: () => void
  readonly thaw: () => void
  /** All of its machine is gone: processes and disk. It starts on another. */
  readonly lose: () => Promise<void>
}

const until = async (what: string, millis: number, look: () => boolean) => {
  for (const end = Date.now() + millis; !look();) {
    if (Date.now() > end) throw new Error(`${what}: not within ${millis / 1000} s`)
    await sleep(50)
  }
}

const deleteFolder = (folder: string) => {
  // As a killed service leaves it.
  Mounts.unmount(folder)
  rmSync(folder, { recursive: true, force: true, maxRetries: 50, retryDelay: 100 })
}

/** The address of a Postgres of its own, which keeps what it acknowledged, with its data in the folder. */
export const ownDatabase = Effect.fnUntraced(function*(dataDir: string) {
  mkdirSync(dataDir, { recursive: true })
  const { connection } = Context.get(yield* Layer.build(EmbeddedPostgres.layer({ dataDir })), EmbeddedPostgres)
  return `postgres:///${connection.database}?${new URLSearchParams({ host: path.dirname(connection.path), user: connection.username })}`
})

/** A folder for services; removed with the scope, with the mounts that a killed service leaves in it. */
export const serviceFolder = (prefix: string) =>
  Effect.acquireRelease(
    Effect.sync(() => mkdtempSync(path.join(realpathSync(tmpdir()), prefix))),
    (folder) => Effect.sync(() => deleteFolder(folder))
  )

/**
 * On a Postgres of its own that keeps what it acknowledged, or on that of `elsewhere`. Logs of all processes go to `logs`. All of it
 * ends with the scope.
 */
export const make = (logs: string, settings: Settings, elsewhere?: string) =>
  Effect.gen(function*() {
    const home = yield* serviceFolder("slipway-soak-")
    mkdirSync(logs, { recursive: true })
    // Beside the folders of the machines, whose processes are counted.
    const databaseUrl = elsewhere ?? (yield* ownDatabase(path.join(home, "database")))
    const secrets = path.join(home, "secrets.key")
    writeFileSync(secrets, `${randomBytes(32).toString("base64")}\n`, { mode: 0o600 })
    const running = new Set<SpawnedProgram.SpawnedProgram>()
    yield* Effect.addFinalizer(() => Effect.promise(() => Promise.all(Array.from(running, ({ kill }) => kill()))))
    const environment = (dataDir: string) => ({
      PATH: process.env["PATH"],
      TMPDIR: tmpdir(),
      XDG_STATE_HOME: path.join(home, "state"),
      DATABASE_URL: databaseUrl,
      SLIPWAY_DATA_DIR: dataDir,
      SLIPWAY_SECRETS_KEY_FILE: secrets,
      SLIPWAY_PUBLIC_URL: "https://slipway.test",
      SLIPWAY_LOG_FORMAT: "json",
      ...settings
    })

    const process_ = async (name: string, role: "http" | "worker", own: Settings, descriptors?: number): Promise<Process> => {
      const through = descriptors === undefined ? [] : ["/bin/sh", "-c", `ulimit -n ${descriptors}; exec "$@"`, "sh"]
      const port = role === "http" ? await Effect.runPromise(freePort) : 0
      let machine = 0
      let child: SpawnedProgram.SpawnedProgram | null = null
      let exited: Promise<number | null> = Promise.resolve(0)
      let up = false
      let asked = false
      const ends: Array<string> = []
      const folder = () => path.join(home, "machines", `${name}-${machine}`)
      const log = createWriteStream(path.join(logs, `${name}.log`), { flags: "a" })

      /** Whether it is up; it may have been killed while it started, and is then started again by the fault that killed it. */
      const tryToStart = async () => {
        const dataDir = folder()
        mkdirSync(dataDir, { recursive: true })
        const env = { ...environment(dataDir), SLIPWAY_ROLE: role, SLIPWAY_PORT: `${port}`, ...own }
        const started = ServiceProcess.spawn({ dataDir, env, through })
        child = started
        asked = false
        running.add(started)
        started.child.stderr.pipe(log, { end: false })
        exited = started.ended.then(({ code, signal }) => {
          if (!asked && up) ends.push(signal ?? String(code))
          up = false
          running.delete(started)
          return code
        })
        try {
          await ServiceProcess.ready(started, START_SECONDS)
          up = started.isRunning()
        } catch (error) {
          if (started.isRunning()) throw error
        }
      }
      /** Like any supervisor: a process that finds no database ends, and is started again. */
      const start = async () => {
        for (const end = Date.now() + START_SECONDS * 1000;;) {
          await tryToStart()
          if (up || asked || Date.now() > end) return
          await sleep(1000)
        }
      }
      const end = async (signal: NodeJS.Signals) => {
        asked = true
        child?.child.kill("SIGCONT")
        child?.child.kill(signal)
        return await exited
      }
      await start()
      if (!up) throw new Error(`${name} ended early: see its log`)
      return {
        name,
        url: role === "http" ? `http://127.0.0.1:${port}` : "",
        pid: () => child?.pid ?? 0,
        isUp: () => up,
        ends,
        kill: async () => void await end("SIGKILL"),
        stop: async () => {
          const late = sleep(LEAVE_MILLIS, "late" as const, { ref: false })
          const code = await Promise.race([end("SIGTERM"), late])
          if (code !== 0) throw new Error(`${name} was asked to leave: ${code === "late" ? "it stays" : `it ended with ${code}`}`)
        },
        start,
        freeze: () => void child?.child.kill("SIGSTOP"),
        thaw: () => void child?.child.kill("SIGCONT"),
        lose: async () => {
          await end("SIGKILL")
          // Boxes end with their worker, a moment later.
          await until(`the end of what ran on ${folder()}`, 30_000, () => SpawnedProgram.processesOf(folder()).length === 0)
          deleteFolder(folder())
          machine++
        }
      }
    }

    const service: Service = {
      home,
      databaseUrl,
      command: async (...args) => {
        const at = path.join(home, "commands")
        mkdirSync(at, { recursive: true })
        return (await promisify(execFile)(process.execPath, [ServiceProcess.command, ...args], { env: environment(at), cwd: at })).stdout
      },
      http: (name, own = {}, descriptors) => process_(name, "http", own, descriptors),
      worker: (name, own = {}) => process_(name, "worker", own)
    }
    return service
  })
