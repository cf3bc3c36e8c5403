/** The files of one mirror; `Mirrors` has the whole layout. */
import { ifAbsent } from "@slipway/domain/files/rules/SystemError"
import type { Remote } from "@slipway/domain/source/ports/SourceHost"
import type { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { Counter } from "@slipway/domain/text/Text"
import { namesIn, textIn } from "@slipway/machine/node/IsThere"
import { Effect, type Option, Schema } from "effect"
import { createHash } from "node:crypto"
import { lstat, mkdir, rename, rm } from "node:fs/promises"
import { join } from "node:path"
import { replaceFile } from "../RepositoryLayout.ts"

const Known = Schema.Struct({
  /** The commit itself, when what was asked for is a tag of it. */
  commit: Schema.String,
  /** The size of its tree when it is checked out. */
  bytes: Counter,
  files: Counter,
  /** The commits of its history whose parents were not fetched. */
  shallow: Schema.Array(Schema.String)
})
export type Known = typeof Known.Type
export const KnownFile = Schema.fromJsonString(Known)

/** A readable name, and a digest because the URL decides which objects may be seen. */
export const mirrorName = (repo: RepoName, remote: Remote, depth: number | null): string => {
  const digest = createHash("sha256").update(remote.url).digest("hex").slice(0, 16)
  return `${repo.toLowerCase().replace("/", "+").slice(0, 100)}-${digest}${depth === null ? "" : `-depth-${depth}`}.git`
}

export const knownFile = (mirror: string, sha: string): string => join(mirror, "commits", sha)

/** `None`: it is not there, or not all of it. */
export const readKnown = (mirror: string, sha: string): Effect.Effect<Option.Option<Known>> =>
  Effect.promise(() => textIn(knownFile(mirror, sha), "")).pipe(Effect.map(Schema.decodeOption(KnownFile)))

export const readShallow = async (gitDir: string): Promise<ReadonlyArray<string>> =>
  (await textIn(join(gitDir, "shallow"), "")).split("\n").filter((id) => id !== "")

/** As far as it is not there, or a power failure left it empty. */
export const layOutMirror = async (mirror: string): Promise<void> => {
  await Promise.all(["commits", "objects/pack", "refs/commits"].map((folder) => mkdir(join(mirror, folder), { recursive: true })))
  const files = { HEAD: "ref: refs/heads/none\n", config: "[core]\n\trepositoryformatversion = 0\n\tbare = true\n" }
  await Promise.all(
    Object.entries(files).map(async ([name, content]) => {
      const path = join(mirror, name)
      if (await textIn(path, undefined) !== content) await replaceFile(path, content)
    })
  )
}

/** The orphan of a killed worker may still write to it: then once more. */
export const clear = (folder: string): Promise<void> => rm(folder, { recursive: true, force: true, maxRetries: 5 })

/** Bytes of the files of a folder. */
export const sizeOf = (folder: string): Effect.Effect<number> =>
  Effect.promise(async () => {
    const names = await namesIn(folder)
    const sizes = await Promise.all(names.map((name) => lstat(join(folder, name)).then(({ size }) => size, ifAbsent(0))))
    return sizes.reduce((sum, size) => sum + size, 0)
  })

const packOf = (name: string): string | undefined => /^(pack-[0-9a-f]+)\.\w+$/u.exec(name)?.[1]

export const movePacks = async (from: string, to: string): Promise<void> => {
  const names = (await namesIn(from)).filter((name) => packOf(name) !== undefined)
  // With its index a pack is there for everybody: it comes last.
  const isIndex = (name: string) => name.endsWith(".idx")
  for (const name of [...names.filter((name) => !isIndex(name)), ...names.filter(isIndex)]) await rename(join(from, name), join(to, name))
}

/** Parts of packs that a killed process began to write, to move or to remove. We hold the lock, and do not repack. */
export const clearLeftovers = async (packs: string): Promise<void> => {
  const names = await namesIn(packs)
  const isLeft = (name: string) => {
    const pack = packOf(name)
    return pack === undefined ? /^\.?tmp[-_]/u.test(name) : !names.includes(`${pack}.idx`) || !names.includes(`${pack}.pack`)
  }
  await Promise.all(names.filter(isLeft).map((name) => rm(join(packs, name), { force: true })))
}
