/**
 * Fetches agents from the npm registry: the pinned versions, into a folder of their own, with npm's own client, which knows the
 * registry, its proxy and a cache. Nothing is unpacked or run whose digest is not the pinned one, and no install script at all.
 * Safe to repeat; what was interrupted is taken up where npm's cache has come to.
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

/** Lines of npm's complaint that are shown. */
const SHOWN_LINES = 6

/** How a program ended. */
export interface Ran {
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

const npm = Effect.fnUntraced(function*(folder: string, args: ReadonlyArray<string>) {
  // From the environment of a script of another package npm would take that package's settings.
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

/** The tarball of a package, if it is the pinned one. */
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

/** Unpacks into a folder of its own, which takes the place of what was there when it is whole. */
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

/** How a program is started for the first time: its output, and how it ended. */
export type FirstRun = (command: string, args: ReadonlyArray<string>) => Effect.Effect<Ran, InstallFailed>

/** In no box, as this user: for machines without any. */
export const unboxed = (folder: string): FirstRun => (command, args) => {
  const home = path.join(folder, ".home")
  return Effect.promise(() => mkdir(home, { recursive: true })).pipe(
    Effect.andThen(run(command, args, { cwd: folder, env: { PATH: process.env.PATH, HOME: home, TMPDIR: home } })),
    Effect.mapError((error) => new InstallFailed({ detail: `${command} cannot be started (${error.code}).` })),
    Effect.ensuring(Effect.promise(() => rm(home, { recursive: true, force: true, maxRetries: 3 })))
  )
}

/** Starts the program once: a download that does not run on this machine is none. */
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

/** Installs what is not there yet. `progress` hears of each step. Writes nowhere but into `folder`. */
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
