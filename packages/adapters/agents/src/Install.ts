/**
 * Fetches the pinned versions of agents from the npm registry into a separate folder. It uses npm's client, which has the registry,
 * proxy and cache settings. Packages with another digest are neither unpacked nor run, and install scripts never run. Safe to repeat;
 * after an interruption npm's cache saves the finished downloads.
 */
import { Effect, Schema } from "effect"
import { type ChildProcess, spawn } from "node:child_process"
import { createHash } from "node:crypto"
import { createReadStream, createWriteStream } from "node:fs"
import { mkdir, readdir, rename, rm } from "node:fs/promises"
import path from "node:path"
import { createInterface } from "node:readline"
import { pipeline } from "node:stream/promises"
import { createBrotliDecompress } from "node:zlib"
import type { Pin } from "./AgentVersions.ts"
import * as Installed from "./Installed.ts"
import type { Profile, Program } from "./Profile.ts"

/** An agent could not be installed. The message says what to do. */
export class InstallFailed extends Schema.TaggedError<InstallFailed>()("InstallFailed", { detail: Schema.String }) {
  override get message() {
    return this.detail
  }
}

/** Lines of npm's error output that are shown. */
const SHOWN_LINES = 6

/** The result of a program. */
export interface Ran {
  readonly code: number | null
  /** The last lines of its standard output and standard error. */
  readonly output: ReadonlyArray<string>
}

const KEPT_LINES = 200

/** The program ends with its caller. The next install continues an interrupted one. */
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

/** npm's error text without decoration. */
const complaint = ({ output }: Ran): string => {
  const said = output.filter((line) => /^npm (?:error|ERR!)/u.test(line) && !line.includes("A complete log"))
  return (said.length > 0 ? said : output).slice(0, SHOWN_LINES).map((line) => line.replace(/^npm (?:error|ERR!)\s*/u, "")).join(" ")
}

const npm = Effect.fnUntraced(function*(folder: string, args: ReadonlyArray<string>) {
  // In a script of another package, npm would use that package's settings from the environment.
  const inherited = Object.fromEntries(
    Object.entries(process.env).filter(([name]) => !/^npm_(?:config_local_prefix|package|lifecycle)/iu.test(name))
  )
  const ran = yield* run("npm", args, { cwd: folder, env: inherited }).pipe(
    Effect.mapError((error) =>
      new InstallFailed({
        detail: error.code === "ENOENT"
          ? "npm was not found. Install Node.js with npm and try again."
          : `npm could not be started (${error.code}).`
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

const digestOf = async (file: string) => {
  const hash = createHash("sha512")
  await pipeline(createReadStream(file), hash)
  return `sha512-${hash.digest("base64")}`
}

const unusable = (folder: string) => (error: unknown) =>
  new InstallFailed({ detail: `${folder} cannot be used (${error instanceof Error && "code" in error ? error.code : error}).` })

/** Fetches the tarball of a package and checks its digest. */
const fetch = Effect.fnUntraced(function*(folder: string, { integrity, spec }: Pin) {
  yield* Effect.tryPromise({ try: () => mkdir(folder, { recursive: true }), catch: unusable(folder) })
  yield* npm(folder, ["pack", spec, "--ignore-scripts", "--pack-destination", folder])
  const [file] = yield* Effect.promise(async () => (await readdir(folder)).filter((name) => name.endsWith(".tgz")))
  if (file === undefined) return yield* new InstallFailed({ detail: `npm pack gave no package for ${spec}.` })
  const tarball = path.join(folder, file)
  if ((yield* Effect.promise(() => digestOf(tarball))) !== integrity) {
    return yield* new InstallFailed({
      detail: `What the registry gives for ${spec} is not what Slipway was tried with: its SHA-512 is another one. ` +
        "Nothing of it was unpacked or run."
    })
  }
  return tarball
})

/** Unpacks into a new folder, which replaces the old one when it is complete. */
const unpack = Effect.fnUntraced(function*(tarball: string, target: string) {
  const made = `${target}.new`
  yield* Effect.tryPromise({
    try: async () => {
      await rm(made, { recursive: true, force: true })
      await mkdir(made, { recursive: true })
    },
    catch: unusable(made)
  })
  const ran = yield* run("tar", ["-xzf", tarball, "-C", made, "--strip-components=1", "--no-same-owner"], {
    cwd: made,
    env: { PATH: process.env.PATH }
  }).pipe(
    Effect.mapError((error) => new InstallFailed({ detail: `tar could not be started (${error.code}).` }))
  )
  if (ran.code !== 0) {
    return yield* new InstallFailed({ detail: `${tarball} could not be unpacked: ${ran.output.slice(0, SHOWN_LINES).join(" ")}` })
  }
  yield* Effect.promise(async () => {
    await rm(target, { recursive: true, force: true })
    await rename(made, target)
  })
})

const decompress = (from: string, to: string) =>
  Effect.tryPromise({
    try: async () => {
      await pipeline(createReadStream(from), createBrotliDecompress(), createWriteStream(`${to}.new`, { mode: 0o755 }))
      await rename(`${to}.new`, to)
    },
    catch: unusable(from)
  })

/** Starts a program for the first time: its output and result. */
export type FirstRun = (command: string, args: ReadonlyArray<string>) => Effect.Effect<Ran, InstallFailed>

/** Without a box, as this user, for machines that have no boxes. */
export const unboxed = (folder: string): FirstRun => (command, args) => {
  const home = path.join(folder, ".home")
  return Effect.promise(() => mkdir(home, { recursive: true })).pipe(
    Effect.andThen(run(command, args, { cwd: folder, env: { PATH: process.env.PATH, HOME: home, TMPDIR: home } })),
    Effect.mapError((error) => new InstallFailed({ detail: `${command} cannot be started (${error.code}).` })),
    Effect.ensuring(Effect.promise(() => rm(home, { recursive: true, force: true, maxRetries: 3 })))
  )
}

/** Starts the program once: a download that does not run on this machine is not installed. */
const verify = Effect.fnUntraced(function*(name: string, program: Program, folder: string, firstRun: FirstRun) {
  const command = yield* Installed.binaryOf(folder, program)
  if (command === null) {
    return yield* new InstallFailed({ detail: `${name} was installed without its program: this machine may need another build.` })
  }
  const ran = yield* firstRun(command, ["--version"])
  if (ran.code !== 0 || !ran.output.some((line) => line.includes(program.version))) {
    return yield* new InstallFailed({ detail: `${command} does not work here: ${ran.output.slice(0, SHOWN_LINES).join(" ")}` })
  }
})

/** Installs missing agents. `progress` gets each step. Writes only into `folder`. */
export const install = Effect.fn("Install.install")(function*(options: {
  readonly folder: string
  readonly agents: ReadonlyArray<{ readonly name: string; readonly profile: Profile; readonly program: Program }>
  readonly firstRun: FirstRun
  readonly progress: (step: string) => Effect.Effect<void>
}) {
  const { agents, firstRun, folder, progress } = options
  const platform = Installed.thisPlatform()
  yield* Effect.forEach(
    agents,
    Effect.fnUntraced(function*({ name, profile, program }) {
      const { version } = program
      const there = yield* Installed.inspect(name, profile, folder)
      if (there.state === "ready") return yield* progress(`${name} ${version} is there`)
      const pins = program.pins(platform)
      if (pins.length === 0) return yield* new InstallFailed({ detail: there.reason })
      const downloads = path.join(folder, ".downloads")
      yield* Effect.gen(function*() {
        const tarballs = yield* Effect.forEach(
          pins,
          (pin, i) => Effect.andThen(progress(`${name} ${version}: fetching ${pin.spec}`), fetch(path.join(downloads, String(i)), pin))
        )
        yield* progress(`${name} ${version}: unpacking`)
        yield* Effect.forEach(pins, ({ folder: target }, i) => unpack(tarballs[i] ?? "", path.join(folder, "node_modules", target)))
        const [binary] = program.binaries(platform)
        if (program.compressed !== undefined && binary !== undefined) {
          yield* decompress(path.join(folder, "node_modules", program.compressed(platform)), path.join(folder, "node_modules", binary))
        }
        yield* verify(name, program, folder, firstRun)
      }).pipe(Effect.ensuring(Effect.promise(() => rm(downloads, { recursive: true, force: true, maxRetries: 3 }))))
      yield* progress(`${name} ${version} is ready`)
    }),
    { discard: true }
  )
})
