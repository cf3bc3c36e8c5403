/** Reads trees and their differences from the commits they started from. */
import {
  type DiffQuery,
  FileProtected,
  FileTooLarge,
  type FileVersion,
  OnBehalfOf,
  type TreeKey,
  TreesUnavailable,
  type WorkingTrees
} from "@slipway/domain/files/ports/WorkingTrees"
import type { FileSearch } from "@slipway/domain/files/schema/FileSearch"
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { isProtected } from "@slipway/domain/source/rules/FileRules"
import { Effect, Stream } from "effect"
import { createHash } from "node:crypto"
import { readFile } from "node:fs/promises"
import { GitFailed } from "../Git.ts"
import * as FillPointers from "../lfs/FillPointers.ts"
import * as LfsPointer from "../lfs/LfsPointer.ts"
import * as LfsStore from "../lfs/LfsStore.ts"
import * as Push from "../publish/Push.ts"
import * as BaseFiles from "../tree/BaseFiles.ts"
import * as Changes from "../tree/Changes.ts"
import * as HostRepository from "../tree/HostRepository.ts"
import * as Listing from "../tree/Listing.ts"
import * as SearchTree from "../tree/SearchTree.ts"
import { boxGit, find, minded, type OpenTrees } from "./OpenTrees.ts"
import * as TreeDiff from "./TreeDiff.ts"

/** Listings wait so long for their turn, and then are shown without what git says. A checkpoint of a large tree goes before them. */
const WAIT = "15 seconds"
/** Behind a checkpoint of a large tree, or its publication. */
const COMPARISON_WAIT = "1 minute"
/** Listings take some milliseconds each when it is their turn. */
const READING_WAIT = "15 seconds"

type Service = WorkingTrees["Service"]

const compared = (trees: OpenTrees, sandboxId: SandboxId, repository: HostRepository.HostRepository): Listing.Compared =>
  Effect.flatMap(OnBehalfOf, (grant) =>
    trees.turns.comparing(
      repository.gitDir,
      [grant, sandboxId, WAIT],
      Effect.flatMap(Push.published(repository), (published) => Changes.changes(repository, boxGit(trees, sandboxId), published)),
      () => new GitFailed({ command: "diff", reason: "timeout", code: null, stderr: "others are first" })
    ))

export const list = Effect.fn("WorkingTrees.list")(function*(trees: OpenTrees, key: TreeKey, directory: string) {
  if (isProtected(directory)) return yield* new FileProtected()
  const repository = yield* find(trees, key)
  // First what may take long: the rest needs this process for some milliseconds.
  const comparison = yield* Listing.known(repository.repo, compared(trees, key.sandboxId, repository))
  return yield* trees.turns.listing(
    // Another comparison means a request at another time.
    `${repository.gitDir}\0${directory}\0${comparison?.number}`,
    [yield* OnBehalfOf, key.sandboxId, READING_WAIT],
    Listing.list(repository, directory, comparison),
    () => new TreesUnavailable({ detail: "Git did not get its turn: this machine has too much to list just now.", retryable: true })
  )
}, minded)

export const changes = Effect.fn("WorkingTrees.changes")(function*(trees: OpenTrees, key: TreeKey) {
  const repository = yield* find(trees, key)
  return yield* Listing.changes(repository.repo, compared(trees, key.sandboxId, repository))
}, minded)

export const search = Effect.fn("WorkingTrees.search")(function*(trees: OpenTrees, key: TreeKey, wanted: FileSearch) {
  const repository = yield* find(trees, key)
  const comparison = yield* Listing.known(repository.repo, compared(trees, key.sandboxId, repository))
  return yield* trees.turns.turn(yield* OnBehalfOf, key.sandboxId, READING_WAIT)(
    SearchTree.search(repository, comparison, wanted),
    () => new TreesUnavailable({ detail: "The search did not get its turn: this machine has too much to read just now.", retryable: true })
  )
}, minded)

export const open = Effect.fn("WorkingTrees.open")(function*(trees: OpenTrees, key: TreeKey, path: string, maximumBytes: number) {
  if (isProtected(path)) return yield* new FileProtected()
  const { tree } = yield* find(trees, key)
  return yield* tree.openFile(path, maximumBytes)
}, minded)

const workingBytes = Effect.fnUntraced(function*(repository: HostRepository.HostRepository, path: string, maximumBytes: number) {
  const { bytes } = yield* repository.tree.openFile(path, maximumBytes)
  return Buffer.concat(yield* Stream.runCollect(bytes))
}, Effect.scoped)

/** The content that bytes of a commit point to, if it is that of the tree, or in the store. A pointer that the tree has too stays one. */
const contentOf = Effect.fnUntraced(
  function*(repository: HostRepository.HostRepository, bytes: Buffer, working: Buffer | null, maximumBytes: number) {
    const object = LfsPointer.parse(bytes)
    if (object === undefined || working?.equals(bytes) === true) return bytes
    const isWorking = working?.length === object.size && createHash("sha256").update(working).digest("hex") === object.oid
    if (isWorking) return working
    const objects = yield* Effect.promise(() => HostRepository.lenders(repository.gitDir))
    for (const folder of objects) {
      if (!(yield* Effect.promise(() => LfsStore.has(folder, object)))) continue
      if (object.size > maximumBytes) return yield* new FileTooLarge({ maximumBytes })
      return yield* Effect.promise(() => readFile(LfsStore.fileOf(folder, object.oid)))
    }
    return bytes
  }
)

/** `null` unless the commit has a regular file there. Files of Git LFS are compared by their contents. */
const committedVersion = Effect.fnUntraced(
  function*(
    repository: HostRepository.HostRepository,
    commit: string,
    path: string,
    { isLarge, maximumBytes, working }: { readonly isLarge: boolean; readonly maximumBytes: number; readonly working: Buffer | null }
  ) {
    const entry = yield* Effect.orDie(HostRepository.run(repository, ["ls-tree", "-z", "-l", commit, "--", path]))
    const [mode = "", , blob = "", size = ""] = entry.subarray(0, entry.indexOf(0x09)).toString().split(/ +/u)
    if (!mode.startsWith("100")) return null
    if (Number(size) > maximumBytes) return yield* new FileTooLarge({ maximumBytes })
    const bytes = yield* Effect.orDie(HostRepository.run(repository, ["cat-file", "blob", blob]))
    return versionOf(isLarge ? yield* contentOf(repository, bytes, working, maximumBytes) : bytes, commit, commit)
  }
)

export const compare = Effect.fn("WorkingTrees.compare")(function*(trees: OpenTrees, key: TreeKey, path: string, maximumBytes: number) {
  if (isProtected(path)) return yield* new FileProtected()
  const repository = yield* find(trees, key)
  const bytes = yield* workingBytes(repository, path, maximumBytes).pipe(Effect.catchTag("FileNotFound", () => Effect.succeed(null)))
  const isLarge = yield* Effect.promise(() => FillPointers.isUsed(repository.gitDir))
  const reading = { isLarge, maximumBytes, working: bytes }
  const base = yield* committedVersion(repository, repository.baseSha, path, reading)
  const published = yield* Push.published(repository)
  const head = published === undefined ? base : yield* committedVersion(repository, published, path, reading)
  return { working: bytes === null ? null : versionOf(bytes, "working", repository.baseSha), head, base }
}, minded)

export const readBase = Effect.fn("WorkingTrees.readBase")(
  function*(trees: OpenTrees, key: TreeKey, paths: Iterable<string>, { maximumBytes }: Parameters<Service["readBase"]>[2]) {
    return yield* trees.readBaseFiles(yield* find(trees, key), paths, maximumBytes)
  },
  minded
)

export const findBase = Effect.fn("WorkingTrees.findBase")(
  function*(trees: OpenTrees, key: TreeKey, names: Parameters<Service["findBase"]>[1], { maximum }: Parameters<Service["findBase"]>[2]) {
    return yield* BaseFiles.find(yield* find(trees, key), names, maximum)
  },
  minded
)

export const findBaseRef = Effect.fn("WorkingTrees.findBaseRef")(
  function*(trees: OpenTrees, key: TreeKey, { refs, remote }: Parameters<Service["findBaseRef"]>[1]) {
    const { baseSha } = yield* find(trees, key)
    return { baseSha, on: refs.length === 0 ? null : yield* trees.mirrors.findRef(key.repo, remote, baseSha, refs) }
  },
  minded
)

export const diff = Effect.fn("WorkingTrees.diff")(function*(trees: OpenTrees, key: TreeKey, asked: DiffQuery) {
  const repository = yield* find(trees, key)
  return yield* trees.turns.turn(yield* OnBehalfOf, key.sandboxId, COMPARISON_WAIT)(
    TreeDiff.diff(
      repository,
      boxGit(trees, key.sandboxId),
      asked,
      trees.limits.treeBytes,
      trees.learned.objectsOf(repository)
    ),
    () =>
      new TreesUnavailable({
        detail: `Git did not get its turn within ${COMPARISON_WAIT}: this machine has too much to compare just now.`,
        retryable: true
      })
  )
}, minded)

/** As git does: a file with a NUL in its first 8,000 bytes is binary. */
const versionOf = (bytes: Buffer, ref: string, commit: string): FileVersion => {
  const binary = bytes.subarray(0, 8_000).includes(0)
  const content = binary ? null : new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes)
  return { content, hash: blobId(bytes, commit), ref, size: bytes.length, binary }
}

/** As git names the bytes in the repository of a commit: by SHA-1, or by SHA-256, whose names are longer. */
const blobId = (bytes: Buffer, commit: string): string =>
  createHash(commit.length === 40 ? "sha1" : "sha256").update(`blob ${bytes.length}\0`).update(bytes).digest("hex")
