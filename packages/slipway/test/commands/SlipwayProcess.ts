/** The `slipway` command as a person runs it: a process of its own. */
import { EmbeddedPostgres } from "@slipway/embedded-postgres/EmbeddedPostgres"
import type { GitHubServer } from "@slipway/github/testing/GitHubServer"
import * as Mounts from "@slipway/machine/testing/Mounts"
import * as SpawnedProgram from "@slipway/machine/testing/SpawnedProgram"
import { ConfigProvider, Console, Effect, Layer, type Scope, Semaphore } from "effect"
import { execFileSync } from "node:child_process"
import { existsSync, mkdirSync, writeFileSync } from "node:fs"
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import path from "node:path"
import { format } from "node:util"
import { exitCodeOf, run as slipway } from "../../src/Run.ts"
import { command, environment, type Options, type Settings, start } from "../../testing/ServiceProcess.ts"

export { freePort } from "@slipway/embedded-postgres/testing/FreePort"
export { command, environment }

/** Until the scope closes. */
export const folderIn = (parent: string) =>
  Effect.acquireRelease(
    Effect.promise(() => mkdtemp(path.join(parent, "slipway-cli-"))),
    (made) =>
      Effect.promise(() => {
        // As a killed server leaves it.
        Mounts.unmount(made)
        // Its Postgres needs a moment to end.
        return rm(made, { recursive: true, force: true, maxRetries: 50, retryDelay: 100 })
      })
  )

export const folder = folderIn(tmpdir())

/** Settings of a server that is this GitHub App; its key is a file in `folder`. */
export const gitHubApp = (folder: string, { apiUrl, app }: Pick<GitHubServer, "apiUrl" | "app">) => {
  const keyFile = path.join(folder, "app.pem")
  writeFileSync(keyFile, app.privateKey, { mode: 0o600 })
  return { SLIPWAY_GITHUB_APP_ID: String(app.appId), SLIPWAY_GITHUB_PRIVATE_KEY_FILE: keyFile, SLIPWAY_GITHUB_API_URL: apiUrl }
}

/** A git repository with one commit of one file, in a folder of that name. */
export const repository = (inside: string, name = "shop") => {
  const at = path.join(inside, name)
  mkdirSync(at)
  writeFileSync(path.join(at, "README.md"), "shop\n")
  const git = (...args: ReadonlyArray<string>) =>
    execFileSync("git", ["-c", "user.name=Ada", "-c", "user.email=ada@shop.invalid", ...args], { cwd: at, stdio: "pipe" })
  git("init", "--quiet", "--initial-branch=main")
  git("add", "--all")
  git("commit", "--quiet", "--message", "Start")
  return at
}

export interface Ended {
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
}

/** Runs a command to its end, as it comes: in `at`, or else in the data folder. `input`: all that comes on its standard input. */
export const runIn = (
  dataDir: string,
  args: ReadonlyArray<string>,
  settings: Readonly<Record<string, string | undefined>> = {},
  { at = dataDir, input, nodeArgs = [], program = command }: {
    readonly program?: string
    readonly at?: string
    readonly input?: string | Uint8Array
    readonly nodeArgs?: ReadonlyArray<string>
  } = {}
) =>
  SpawnedProgram.run(process.execPath, [...nodeArgs, program, ...args], {
    env: { ...environment(dataDir, {}), ...settings },
    cwd: at,
    ...(input === undefined ? {} : { input })
  })

const ADMINISTRATION = new Set(["audit", "grants", "keys", "members", "orgs", "partners", "pulls", "repos", "secrets", "setup",
  "sign-in-link", "users", "webhooks"])

/** The output of the first start of a service: administrative commands do not make it. */
const database = (dataDir: string) =>
  existsSync(path.join(dataDir, "postgres/cluster"))
    ? Effect.void
    : Effect.scoped(Effect.orDie(Layer.build(EmbeddedPostgres.layer({ dataDir }))))

const one = Semaphore.makeUnsafe(1)

/**
 * Runs a command to its end in this process, as if it were its own, one at a time: to load a process of its own takes longer
 * than most commands. Only for what it says by the console.
 */
export const runHere = (
  dataDir: string,
  args: ReadonlyArray<string>,
  settings: Readonly<Record<string, string | undefined>> = {},
  { at = dataDir }: { readonly at?: string } = {}
) =>
  one.withPermit(Effect.promise(async (): Promise<Ended> => {
    const [stdout, stderr]: [Array<string>, Array<string>] = [[], []]
    const to = (lines: Array<string>) => (...values: ReadonlyArray<unknown>) => void lines.push(`${format(...values)}\n`)
    const env: Record<string, string> = {}
    for (const [name, value] of Object.entries({ ...environment(dataDir, {}), ...settings })) if (value !== undefined) env[name] = value
    const outer = { env: process.env, folder: process.cwd() }
    process.env = env
    process.chdir(at)
    try {
      const exit = await Effect.runPromiseExit(
        slipway(args).pipe(
          Effect.provideService(Console.Console, { ...console, log: to(stdout), error: to(stderr) }),
          Effect.provideService(ConfigProvider.ConfigProvider, ConfigProvider.fromEnv({ env }))
        )
      )
      return { code: exitCodeOf(exit), stdout: stdout.join(""), stderr: stderr.join("") }
    } finally {
      process.env = outer.env
      process.chdir(outer.folder)
    }
  }))

/** Commands that print only by the console. */
const QUIET = new Set(["audit", "automations", "grants", "keys", "members", "models", "orgs", "partners", "repos", "secrets", "setup",
  "sign-in-link", "users", "webhooks"])

/** Runs a command to its end, on a data folder that a service had before. */
export const run = (
  dataDir: string,
  args: ReadonlyArray<string>,
  settings: Readonly<Record<string, string>> = {},
  nodeArgs: ReadonlyArray<string> = []
) =>
  Effect.andThen(
    ADMINISTRATION.has(args[0] ?? "") && settings["DATABASE_URL"] === undefined
      ? database(settings["SLIPWAY_DATA_DIR"] ?? dataDir)
      : Effect.void,
    QUIET.has(args[0] ?? "") && nodeArgs.length === 0 ? runHere(dataDir, args, settings) : runIn(dataDir, args, settings, { nodeArgs })
  )

export interface Server {
  readonly pid: number
  readonly url: string
  /** The key it printed, if it did. */
  readonly key: string | undefined
  readonly output: () => string
  /** The part of its output on standard error. */
  readonly logs: () => string
  /** Completes when it has ended, by whatever cause. */
  readonly ended: Effect.Effect<{ readonly code: number | null; readonly signal: NodeJS.Signals | null }>
  /** Sends the signal and waits for its end. */
  readonly stop: (signal: NodeJS.Signals) => Effect.Effect<{ readonly code: number | null; readonly signal: NodeJS.Signals | null }>
}

/** Starts a service that is killed with the scope, and waits until it is ready. */
export const serviceOf = (options: Options) =>
  Effect.acquireRelease(Effect.promise(() => start(options)), ({ kill }) => Effect.promise(kill))

/** Starts `slipway serve` and waits until it has said where it is. Killed with the scope if it still runs. `program`: another release's. */
export const serve = (dataDir: string, settings: Settings = {}, program = command): Effect.Effect<Server, never, Scope.Scope> =>
  Effect.map(serviceOf({ dataDir, env: environment(dataDir, settings), program }), ({ ended, key, output, pid, stderr, stop, url }) => ({
    pid,
    url,
    key,
    output,
    logs: stderr,
    ended: Effect.promise(() => ended),
    stop: (signal) => Effect.promise(() => stop(signal))
  }))

export interface Worker {
  readonly pid: number
  readonly output: () => string
  readonly kill: Effect.Effect<unknown>
  /** Its exit code. */
  readonly stop: Effect.Effect<number | null>
}

/** A process that only works for sandboxes. Killed with the scope. */
export const worker = (
  dataDir: string,
  databaseUrl: string,
  settings: Settings = {},
  more: Partial<Options> = {}
): Effect.Effect<Worker, never, Scope.Scope> =>
  Effect.map(
    serviceOf({
      dataDir,
      env: environment(dataDir, {
        DATABASE_URL: databaseUrl,
        SLIPWAY_ROLE: "worker",
        SLIPWAY_PUBLIC_URL: "https://slipway.example.com",
        ...settings
      }),
      ...more
    }),
    ({ output, pid, stop }) => ({
      pid,
      output,
      kill: Effect.promise(() => stop("SIGKILL")),
      stop: Effect.promise(async () => (await stop("SIGTERM")).code)
    })
  )

/** Processes whose command line or environment names the folder. */
export const processesOf = (named: string) => Effect.sync(() => SpawnedProgram.processesOf(named))

/** Waits until `look` gives what `wanted` accepts; the test's own time limit is the bound. */
export const until = <A, E, R>(look: Effect.Effect<A, E, R>, wanted: (value: A) => boolean): Effect.Effect<A, E, R> =>
  Effect.flatMap(look, (value) => wanted(value) ? Effect.succeed(value) : Effect.delay(until(look, wanted), "20 millis"))
