/**
 * Fetches agents from the npm registry: the pinned versions, into a folder of their own, with npm's own client. Safe to
 * repeat; what was interrupted is taken up where npm's cache has come to.
 */
import { type ChildProcess, spawn } from "node:child_process"
import { createInterface } from "node:readline"
import { mkdir, readFile, rm, writeFile } from "node:fs/promises"
import path from "node:path"
import { Effect, Schema } from "effect"
import * as Installed from "./Installed.ts"
import type { Profile, Program } from "./Profile.ts"

/** An agent could not be installed. The message says what to do. */
export class InstallFailed extends Schema.TaggedError<InstallFailed>()("InstallFailed", { detail: Schema.String }) {
  override get message() {
    return this.detail
  }
}

/** Lines of npm's complaint that are shown. */
const SHOWN_LINES = 6

interface Ran {
  readonly code: number | null
  /** The end of what it wrote to either output. */
  readonly output: ReadonlyArray<string>
}

const KEPT_LINES = 200

/** Ends with its caller: what an interrupted install leaves is for the next one to go on with. */
const run = (command: string, args: ReadonlyArray<string>, options: { readonly cwd: string; readonly env: NodeJS.ProcessEnv }) =>
  Effect.callback<Ran, NodeJS.ErrnoException>((resume) => {
    const output: Array<string> = []
    const child: ChildProcess = spawn(command, args, { ...options, stdio: ["ignore", "pipe", "pipe"] })
    for (const stream of [child.stdout, child.stderr]) {
      if (stream === null) continue
      createInterface({ input: stream }).on("line", (line) => {
        output.push(line)
        if (output.length > KEPT_LINES) output.shift()
      })
    }
    child.once("error", (error) => resume(Effect.fail(error)))
    child.once("close", (code) => resume(Effect.succeed({ code, output })))
    return Effect.sync(() => child.kill())
  })

const unreachable = /\b(?:ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH|network)\b/u

/** npm's own words, without its decoration. */
const complaint = ({ output }: Ran): string => {
  const said = output.filter((line) => /^npm (?:error|ERR!)/u.test(line) && !line.includes("A complete log"))
  return (said.length > 0 ? said : output).slice(0, SHOWN_LINES).map((line) => line.replace(/^npm (?:error|ERR!)\s*/u, "")).join(" ")
}

const npm = Effect.fnUntraced(function*(folder: string, args: ReadonlyArray<string>, env: Readonly<Record<string, string>>) {
  // From the environment of a script of another package npm would take that package's settings.
  const inherited = Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^npm_(?:config_local_prefix|package|lifecycle)/iu.test(name)))
  const ran = yield* run("npm", args, { cwd: folder, env: { ...inherited, ...env } }).pipe(
    Effect.mapError((error) =>
      new InstallFailed({
        detail: error.code === "ENOENT" ? "npm was not found. Install Node.js with npm and try again." : `npm could not be started (${error.code}).`
      })
    )
  )
  if (ran.code === 0) return
  const said = complaint(ran)
  return yield* new InstallFailed({
    detail: unreachable.test(said)
      ? `the npm registry cannot be reached: ${said} Check the network, or npm's registry and proxy settings, and run this again.`
      : `npm ${args[0]} failed: ${said}`
  })
})

/** What npm needs to treat the folder as a project of its own, whatever folder it lies in. */
const prepare = (folder: string) =>
  Effect.tryPromise({
    try: async () => {
      await mkdir(folder, { recursive: true })
      const manifest = path.join(folder, "package.json")
      const there = await readFile(manifest, "utf8").then((text): unknown => JSON.parse(text), () => null)
      if (there === null) {
        await writeFile(manifest, `${JSON.stringify({ name: "slipway-agents", private: true, description: "Programs that slipway agents install fetched" }, null, 2)}\n`)
      }
    },
    catch: (error) => new InstallFailed({ detail: `${folder} cannot be used (${error instanceof Error && "code" in error ? error.code : error}).` })
  })

/** Starts the program once: a download that does not run on this machine is none. */
const verify = Effect.fnUntraced(function*(name: string, program: Program, folder: string) {
  const command = yield* Installed.binaryOf(folder, program)
  if (command === null) return yield* new InstallFailed({ detail: `${name} was installed without its program: this machine may need another build.` })
  const home = path.join(folder, ".home")
  const ran = yield* run(command, ["--version"], { cwd: folder, env: { PATH: process.env.PATH, HOME: home, TMPDIR: home } }).pipe(
    Effect.mapError((error) => new InstallFailed({ detail: `${command} cannot be started (${error.code}).` }))
  )
  if (ran.code !== 0 || !ran.output.some((line) => line.includes(program.version))) {
    return yield* new InstallFailed({ detail: `${command} does not work here: ${ran.output.slice(0, SHOWN_LINES).join(" ")}` })
  }
})

/**
 * Installs what is not there yet. `progress` hears of each step. Install scripts run only where the program needs them,
 * and write nowhere but into `folder`.
 */
export const install = Effect.fn("Install.install")(function*(options: {
  readonly folder: string
  readonly agents: ReadonlyArray<{ readonly name: string; readonly profile: Profile; readonly program: Program }>
  readonly progress: (step: string) => Effect.Effect<void>
}) {
  const { agents, folder, progress } = options
  yield* prepare(folder)
  const home = path.join(folder, ".home")
  yield* Effect.promise(() => mkdir(home, { recursive: true }))
  const tidy = Effect.promise(() => rm(home, { recursive: true, force: true, maxRetries: 3 }))
  yield* Effect.forEach(agents, Effect.fnUntraced(function*({ name, profile, program }) {
    const version = program.version
    const there = yield* Installed.inspect(name, profile, folder)
    if (there.state === "ready") return yield* progress(`${name} ${version} is there`)
    yield* progress(`${name} ${version}: fetching ${program.package}`)
    yield* npm(folder, ["install", "--save-exact", "--no-audit", "--no-fund", "--ignore-scripts", `${program.package}@${version}`], {})
    if (program.installScript) {
      yield* progress(`${name} ${version}: unpacking`)
      // Where grok's script leaves a second copy and its settings.
      yield* npm(folder, ["rebuild", "--foreground-scripts", program.package], { GROK_HOME: path.join(home, "grok") })
    }
    yield* verify(name, program, folder)
    yield* progress(`${name} ${version} is ready`)
  }), { discard: true }).pipe(Effect.ensuring(tidy))
})
