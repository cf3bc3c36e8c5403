/** The processes of one service on one Postgres: those that answer requests, and workers, each with a folder for its machine. */
import { EmbeddedPostgres } from "@slipway/embedded-postgres/EmbeddedPostgres"
import * as Mounts from "@slipway/machine/testing/Mounts"
import { Context, Effect, Layer } from "effect"
import { type ChildProcess, execFile, spawn } from "node:child_process"
import { randomBytes } from "node:crypto"
import { createWriteStream, mkdirSync, mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs"
import { createServer } from "node:net"
import { tmpdir } from "node:os"
import path from "node:path"
import { setTimeout as sleep } from "node:timers/promises"
import { promisify } from "node:util"

const program = path.resolve(import.meta.dirname, "../../packages/slipway/bin/slipway.js")

/** So long a process may take to say that it is there, on a machine that does everything else meanwhile. */
const START_MILLIS = 90_000
/** So long one may take to leave: turns that run have 8 s, their checkpoints up to 90. */
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

type Settings = Readonly<Record<string, string>>

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

const freePort = () =>
  new Promise<number>((resolve) => {
    const server = createServer()
    server.listen(0, "127.0.0.1", () => {
      const address = server.address()
      server.close(() => resolve(typeof address === "object" && address !== null ? address.port : 0))
    })
  })

/** Processes whose command line or environment names the folder, zombies apart. */
export const processesOf = (folder: string): ReadonlyArray<string> =>
  readdirSync("/proc").filter((name) => /^\d+$/u.test(name) && Number(name) !== process.pid).flatMap((pid) => {
    const read = (file: string) => {
      try {
        return readFileSync(`/proc/${pid}/${file}`, "utf8")
      } catch {
        return ""
      }
    }
    const state = /^State:\s+(\S)/mu.exec(read("status"))?.[1]
    if (state === undefined || state === "Z") return []
    return (read("cmdline") + read("environ")).includes(folder) ? [`${pid} ${read("comm").trim()}`] : []
  })

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

const ownDatabase = Effect.fnUntraced(function*(home: string) {
  // Beside the folders of the machines, whose processes are counted.
  const database = path.join(home, "database")
  mkdirSync(database)
  const { connection } = Context.get(yield* Layer.build(EmbeddedPostgres.layer({ dataDir: database })), EmbeddedPostgres)
  return `postgres:///${connection.database}?${new URLSearchParams({ host: path.dirname(connection.path), user: connection.username })}`
})

/**
 * On a Postgres of its own that keeps what it acknowledged, or on that of `elsewhere`. Logs of all processes go to `logs`. All of it
 * ends with the scope.
 */
export const make = (logs: string, settings: Settings, elsewhere?: string) =>
  Effect.gen(function*() {
    const home = yield* Effect.acquireRelease(
      Effect.sync(() => mkdtempSync(path.join(realpathSync(tmpdir()), "slipway-soak-"))),
      (folder) => Effect.sync(() => deleteFolder(folder))
    )
    mkdirSync(logs, { recursive: true })
    const databaseUrl = elsewhere ?? (yield* ownDatabase(home))
    const secrets = path.join(home, "secrets.key")
    writeFileSync(secrets, `${randomBytes(32).toString("base64")}\n`, { mode: 0o600 })
    const children = new Set<ChildProcess>()
    yield* Effect.addFinalizer(() =>
      Effect.promise(() =>
        Promise.all(Array.from(children, (child) => {
          const exited = new Promise((end) => child.once("exit", end))
          child.kill("SIGKILL")
          return exited
        }))
      )
    )
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
      const limit = descriptors === undefined ? [] : ["/bin/sh", "-c", `ulimit -n ${descriptors}; exec "$@"`, "sh"]
      const [file = "", ...args] = [...limit, process.execPath, program, "serve"]
      const port = role === "http" ? await freePort() : 0
      let machine = 0
      let child: ChildProcess | null = null
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
        const started = spawn(file, args, {
          cwd: dataDir,
          env: { ...environment(dataDir), SLIPWAY_ROLE: role, SLIPWAY_PORT: `${port}`, ...own },
          stdio: ["ignore", "pipe", "pipe"]
        })
        child = started
        asked = false
        children.add(started)
        let said = ""
        let ended = false
        exited = new Promise((end) =>
          started.once("exit", (code, signal) => {
            ended = true
            if (!asked && up) ends.push(signal ?? String(code))
            up = false
            children.delete(started)
            end(code)
          })
        )
        started.stderr.pipe(log, { end: false })
        started.stdout.on("data", (chunk: Buffer) => said += chunk.toString())
        const isThere = role === "http" ? /^Slipway +http/mu : /^Slipway +worker/mu
        await until(`the start of ${name}`, START_MILLIS, () => ended || isThere.test(said))
        up = !ended
      }
      /** Like any supervisor: a process that finds no database ends, and is started again. */
      const start = async () => {
        for (const end = Date.now() + START_MILLIS;;) {
          await tryToStart()
          if (up || asked || Date.now() > end) return
          await sleep(1000)
        }
      }
      const end = async (signal: NodeJS.Signals) => {
        asked = true
        child?.kill("SIGCONT")
        child?.kill(signal)
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
        freeze: () => void child?.kill("SIGSTOP"),
        thaw: () => void child?.kill("SIGCONT"),
        lose: async () => {
          await end("SIGKILL")
          // Boxes end with their worker, a moment later.
          await until(`the end of what ran on ${folder()}`, 30_000, () => processesOf(folder()).length === 0)
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
        return (await promisify(execFile)(process.execPath, [program, ...args], { env: environment(at), cwd: at })).stdout
      },
      http: (name, own = {}, descriptors) => process_(name, "http", own, descriptors),
      worker: (name, own = {}) => process_(name, "worker", own)
    }
    return service
  })
