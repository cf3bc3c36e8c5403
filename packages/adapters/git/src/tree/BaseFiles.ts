/** Files of the commit that a tree started from, as the host's repository has them. */
import type { BaseFile } from "@slipway/domain/files/ports/WorkingTrees"
import { LruCache } from "@slipway/domain/store/LruCache"
import { Effect } from "effect"
import { eachField } from "../Git.ts"
import * as HostRepository from "./HostRepository.ts"

/** Paths that one git is asked for: their bytes stay far below what Linux takes as arguments. */
const AT_ONCE = 100

const entriesOf = Effect.fnUntraced(function*(repository: HostRepository.HostRepository, paths: ReadonlyArray<string>) {
  const output = yield* HostRepository.run(repository, ["ls-tree", "-z", "-l", repository.baseSha, "--", ...paths])
  return Array.from(eachField(output), (entry) => {
    const tab = entry.indexOf(0x09)
    const [mode = "", , blob = "", size = ""] = entry.subarray(0, tab).toString().split(/ +/u)
    return { path: entry.subarray(tab + 1).toString(), isFile: mode.startsWith("100"), blob, size: Number(size) }
  })
})

/** Bytes of a listing: as many as it may have files, with paths of usual length. */
const MAX_LISTING = 2 ** 23
const LISTED_WITHIN = "1 minute"

/** The name as it is, in a pattern. */
const literal = (name: string): string => name.replaceAll(/[*?[\\]/gu, "\\$&")

/** The id of the empty tree, in the hash of the repository. */
const emptyTree = ({ baseSha }: HostRepository.HostRepository): string =>
  baseSha.length === 64
    ? "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321"
    : "4b825dc642cb6eb9a060e54bf8d69288fbee4904"

/** The blobs of plain files with one of these names, by path; `null`: there are too many. */
export const find = Effect.fnUntraced(function*(
  repository: HostRepository.HostRepository,
  names: Iterable<string>,
  maximum: number
) {
  const wanted = Array.from(new Set(names)).filter((name) => name !== "" && !name.includes("/"))
  const found = new Map<string, string>()
  if (wanted.length === 0) return found
  // Listings take no patterns, and all of a large tree would be tens of MiB: what it has beyond the empty tree is the same.
  const output = yield* HostRepository.run(
    repository,
    [
      "diff-tree",
      "-r",
      "-z",
      "--no-renames",
      emptyTree(repository),
      repository.baseSha,
      "--",
      ...wanted.map((name) => `**/${literal(name)}`)
    ],
    { isGlob: true, maximumBytes: MAX_LISTING, timeout: LISTED_WITHIN }
  ).pipe(Effect.catchIf(({ reason }) => reason !== "exit", () => Effect.succeed(null)))
  if (output === null) return null
  // `:000000 100644 <zeros> <id> A`, then the path.
  const listed = eachField(output)
  for (const about of listed) {
    const path = listed.next().value?.toString() ?? ""
    const [, mode = "", , blob = ""] = about.toString().split(" ")
    if (!mode.startsWith("100") || !wanted.includes(path.slice(path.lastIndexOf("/") + 1))) continue
    if (found.size === maximum) return null
    found.set(path, blob)
  }
  return found
}, Effect.orDie)

/** Limits of the cache: a few paths of each recent commit, which every wake of a sandbox reads, and no large files. */
const REMEMBERED = { commits: 128, paths: 8, bytes: 16_384 }

type Files = ReadonlyMap<string, BaseFile>

const isSmall = (files: Files): boolean =>
  Array.from(files.values()).reduce((sum, { content }) => sum + (content?.length ?? 0), 0) <= REMEMBERED.bytes

const readAll = Effect.fnUntraced(function*(
  repository: HostRepository.HostRepository,
  wanted: ReadonlyArray<string>,
  maximumBytes: number
) {
  const files = new Map<string, BaseFile>()
  for (let start = 0; start < wanted.length; start += AT_ONCE) {
    for (const { blob, isFile, path, size } of yield* entriesOf(repository, wanted.slice(start, start + AT_ONCE))) {
      if (!isFile) continue
      const content = size > maximumBytes ? null : yield* HostRepository.run(repository, ["cat-file", "blob", blob], { maximumBytes })
      files.set(path, { blob, content })
    }
  }
  return files
}, Effect.orDie)

/** Reads by path. What is no plain file is left out, and so is what is not there. */
export const reader = () => {
  const remembered = new LruCache<string, Files>(REMEMBERED.commits)
  return Effect.fnUntraced(function*(repository: HostRepository.HostRepository, paths: Iterable<string>, maximumBytes: number) {
    const wanted = Array.from(new Set(paths)).filter((path) => path !== "")
    // A commit is what it is: only who may ask for it can change.
    const key = JSON.stringify([repository.repo, repository.baseSha, maximumBytes, ...wanted])
    const files: Files = remembered.get(key) ?? (yield* readAll(repository, wanted, maximumBytes))
    if (wanted.length <= REMEMBERED.paths && isSmall(files)) remembered.set(key, files)
    return files
  })
}
