/** A Postgres of the test's own, from the binaries of the embedded one, which can be killed, frozen and started again. */
import { Effect } from "effect"
import { type ChildProcess, spawn } from "node:child_process"
import {
  appendFileSync,
  chmodSync,
  chownSync,
  closeSync,
  existsSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync
} from "node:fs"
import { connect } from "node:net"
import { tmpdir } from "node:os"
import path from "node:path"
import { setTimeout as sleep } from "node:timers/promises"
import * as PostgresBinaries from "../src/PostgresBinaries.ts"
import * as ServerAccount from "../src/ServerAccount.ts"
import { environment, run } from "../src/SystemProcess.ts"
import { freePort } from "./FreePort.ts"

const SETTINGS = {
  listen_addresses: "127.0.0.1",
  unix_socket_directories: "",
  max_connections: "200",
  shared_buffers: "64MB",
  // The test fills the disk with files, not with logs of a minute.
  max_wal_size: "64MB",
  min_wal_size: "32MB"
}

/** A folder that the server's account may pass, and who that is; `null`: the account of this process. */
export const home = Effect.gen(function*() {
  const account = process.getuid?.() === 0 ? yield* ServerAccount.find() : null
  const folder = yield* Effect.acquireRelease(
    Effect.sync(() => mkdtempSync(path.join(tmpdir(), "slipway-postgres-"))),
    (made) => Effect.sync(() => rmSync(made, { recursive: true, force: true, maxRetries: 50, retryDelay: 100 }))
  )
  chmodSync(folder, 0o755)
  if (account !== null) chownSync(folder, account.uid, account.gid)
  return { folder, account }
})
export type Home = Effect.Success<typeof home>

export const binariesFor = Effect.fnUntraced(function*({ account, folder }: Home) {
  return yield* PostgresBinaries.prepare({ native: yield* PostgresBinaries.locate, account, copies: folder })
})

/** Waits until the server listens there. Fails if the server ends instead. */
const accepts = (port: number, server: ChildProcess, log: string): Effect.Effect<void> =>
  Effect.callback<boolean>((resume) => {
    const socket = connect(port, "127.0.0.1", () => {
      socket.destroy()
      resume(Effect.succeed(true))
    })
    socket.on("error", () => resume(Effect.succeed(false)))
  }).pipe(Effect.flatMap((isThere) =>
    isThere
      ? Effect.void
      : server.exitCode === null && server.signalCode === null
      ? Effect.delay(accepts(port, server, log), "20 millis")
      : Effect.die(new Error(`Postgres did not start: ${readFileSync(log, "utf8").slice(-1_000)}`))
  ))

export interface Cluster {
  readonly port: number
  readonly process: () => ChildProcess | null
  /** Completes when it listens, which is before it takes everybody. */
  readonly start: Effect.Effect<void>
  /** Sends a signal to the server and waits for its end: `SIGINT` is a fast shutdown; all of it has ended then. */
  readonly end: (signal: "SIGINT" | "SIGKILL") => Effect.Effect<void>
  /** All its processes, the server first. */
  readonly pids: () => ReadonlyArray<number>
  readonly log: () => string
}

/** Makes the files of a database at `data`, which may be on a disk of the test. */
export const initialise = Effect.fnUntraced(function*(at: Home, data: string) {
  const { initdb } = yield* binariesFor(at)
  const { complaint, succeeded } = yield* run(initdb, ["-D", data, "-U", "slipway", "--auth=trust", "--encoding=UTF8", "--locale=C"], {
    account: at.account,
    cwd: at.folder
  })
  if (!succeeded) return yield* Effect.die(new Error(complaint))
})

/** Not started yet; ends with the scope. `env`: what it has beside the ordinary. */
export const cluster = Effect.fnUntraced(function*(
  at: Home,
  data: string,
  settings: Readonly<Record<string, string>> = {},
  env: Readonly<Record<string, string>> = {}
) {
  const { account, folder } = at
  const binaries = yield* binariesFor(at)
  const port = yield* freePort
  const log = path.join(folder, `${path.basename(data)}.log`)
  appendFileSync(log, "")
  let child: ChildProcess | null = null
  let exited: Promise<void> = Promise.resolve()
  const end = (signal: "SIGINT" | "SIGKILL") =>
    Effect.promise(async () => {
      const all = made.pids()
      child?.kill("SIGCONT")
      child?.kill(signal)
      await exited
      // Those that the server left behind end by themselves, and no other server takes its files before.
      while (all.some((pid) => existsSync(`/proc/${pid}`))) await sleep(5)
    })
  yield* Effect.addFinalizer(() => end("SIGKILL"))
  const pids = () => child?.pid === undefined || child.exitCode !== null ? [] : [child.pid, ...childrenOf(child.pid)]
  const made: Cluster = {
    port,
    process: () => child,
    start: Effect.gen(function*() {
      const file = openSync(log, "a")
      const options = Object.entries({ ...SETTINGS, ...settings }).flatMap(([name, value]) => ["-c", `${name}=${value}`])
      const started = spawn(binaries.postgres, ["-D", data, "-p", String(port), ...options], {
        ...account === null ? {} : { uid: account.uid, gid: account.gid },
        cwd: data,
        env: { ...environment, ...env },
        stdio: ["ignore", file, file]
      })
      closeSync(file)
      child = started
      exited = new Promise<void>((resolve) => started.once("exit", () => resolve()))
      yield* accepts(port, started, log)
    }),
    end,
    pids,
    log: () => readFileSync(log, "utf8")
  }
  return made
})

const childrenOf = (parent: number): ReadonlyArray<number> =>
  readdirSync("/proc").filter((name) => /^\d+$/u.test(name)).flatMap((pid) => {
    try {
      // The name, in parentheses, may have anything in it.
      const [, ppid] = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ").at(-1)?.split(" ") ?? []
      return Number(ppid) === parent ? [Number(pid)] : []
    } catch {
      return []
    }
  })

/** To each of its processes, which are stopped or go on together. */
export const signal = ({ pids }: Cluster, name: "SIGSTOP" | "SIGCONT") =>
  Effect.sync(() => {
    for (const pid of pids()) {
      try {
        process.kill(pid, name)
      } catch {
        // It ended meanwhile.
      }
    }
  })
