/** One directory of a working tree as the interface shows it: what is on disk, merged with what git says of it. */
import {
  type ChangedFile,
  type ChangedFiles,
  type FileEntry,
  type FileStatus,
  type FileTree,
  MAX_CHANGES,
  MAX_ENTRIES,
  type PartialWarning
} from "@slipway/domain/files/schema/FileTree"
import { isProtected } from "@slipway/domain/source/rules/FileRules"
import type { RepoName } from "@slipway/domain/source/schema/RepoRef"
import * as DescriptorWalk from "@slipway/machine/node/DescriptorWalk"
import { FirstInOrder } from "@slipway/machine/node/FirstInOrder"
import * as FolderNames from "@slipway/machine/node/FolderNames"
import { Effect } from "effect"
import { eachField, type GitFailed } from "../Git.ts"
import { inPieces } from "../InPieces.ts"
import * as Changes from "./Changes.ts"
import { type HostRepository, run } from "./HostRepository.ts"

export type Comparison = Effect.Success<ReturnType<typeof Changes.changes>>

/** All changes of a tree, as git in its box says. */
export type Compared = Effect.Effect<Comparison, GitFailed>

/** An agent can make a tree that git gives up on: of that nothing is known. */
export const known = <A>(repo: RepoName, said: Effect.Effect<A, GitFailed>): Effect.Effect<A | undefined> =>
  Effect.catchTag(
    said,
    "GitFailed",
    (failure) => Effect.as(Effect.logWarning("git could not compare a working tree", { repo, failure: failure.message }), undefined)
  )

/** Files are there although git gave up on their tree. */
const UNREADABLE: ReadonlyArray<PartialWarning> = ["unreadable_entries"]

const SLASH = 0x2f

/** The directory as it is now, with the changes of a `comparison` before. */
export const list = Effect.fn("Listing.list")(function*(repository: HostRepository, directory: string, comparison: Comparison | undefined) {
  const [disk, base] = yield* Effect.all([
    // A folder that was deleted shows the files that were in it.
    scan(repository, directory).pipe(Effect.catchTag("FileNotFound", (missing) => Effect.succeed(missing))),
    comparison === undefined ? Effect.undefined : known(repository.repo, kindsInBase(repository, directory))
  ], { concurrency: 2 })
  const prefix = directory === "" ? "" : `${directory}/`
  const below = comparison === undefined || base === undefined ? new Map<string, Summary>() : yield* summarize(prefix, comparison)
  if ("_tag" in disk && below.size === 0) return yield* disk
  const { entries: present, warnings } = "_tag" in disk ? { entries: [], warnings: [] } : disk
  const told = base === undefined ? UNREADABLE : comparison?.isTruncated === true ? ["entries_truncated" as const] : []

  const entry = (name: string, kind: FileEntry["kind"], status: FileStatus | null): FileEntry => ({
    name,
    path: prefix + name,
    depth: (prefix + name).split("/").length - 1,
    kind,
    status,
    additions: 0,
    deletions: 0,
    size: null,
    mtimeMs: null,
    previousPath: null
  })
  const entries = new FirstInOrder<Named<FileEntry>>(MAX_ENTRIES, FolderNames.byOrder)
  const add = (value: FileEntry) =>
    entries.add({ value, latin1: Buffer.from(value.name).toString("latin1"), isDirectory: value.kind === "directory" })

  yield* inPieces(present, ({ kind, mtimeMs, name, size }) => {
    const inBase = base?.get(name)
    const changed = below.get(name) ?? UNCHANGED
    if (kind === "directory") {
      const isRepository = inBase === "commit" || changed.isRepository
      const isNew = inBase !== "tree" && inBase !== "commit" && (changed.isRepository || changed.statuses.size > 0)
      const status = !isNew ? null : changed.isRepository || changed.statuses.has("untracked") ? "untracked" : "added"
      add({ ...entry(name, isRepository ? "submodule" : "directory", status), mtimeMs })
    } else {
      const change = changed.change?.status === "deleted" ? undefined : changed.change
      const shown = !isProtected(prefix + name)
      add({
        ...entry(name, kind, change?.status ?? null),
        ...shown && change !== undefined ? { additions: change.additions, deletions: change.deletions } : {},
        size: shown && kind === "file" ? size : null,
        mtimeMs,
        previousPath: change?.previousPath ?? null
      })
    }
  })
  const hidden = comparison !== undefined && isUnnamedIn(prefix, comparison) ? ["invalid_names" as const] : []
  const names = new Set(present.map(({ name }) => name))
  yield* inPieces(below, ([name, { change, statuses }]) => {
    if (names.has(name)) return
    if (change?.status === "deleted") {
      add({ ...entry(name, change.kind, "deleted"), deletions: isProtected(change.path) ? 0 : change.deletions })
    } else if (statuses.has("deleted")) add(entry(name, "directory", "deleted"))
  })

  const shown = entries.take()
  const tree: FileTree = {
    directory,
    entries: shown.map(({ value }) => value),
    partialWarnings: [...new Set([...warnings, ...told, ...hidden, ...entries.isCut ? ["entries_truncated" as const] : []])].sort(),
    scope: "all"
  }
  return tree
})

/** All changes of the tree, in order. */
export const changes = Effect.fn("Listing.changes")(function*(repo: RepoName, compared: Compared) {
  const comparison = yield* known(repo, compared)
  const files = new FirstInOrder<Named<ChangedFile>>(MAX_CHANGES, FolderNames.byOrder)
  yield* inPieces(comparison?.changes ?? [], ({ additions, deletions, path, previousPath, status }) => {
    files.add({
      latin1: Buffer.from(path).toString("latin1"),
      isDirectory: false,
      value: { path, status, previousPath, ...isProtected(path) ? { additions: 0, deletions: 0 } : { additions, deletions } }
    })
  })
  const changed: ChangedFiles = {
    files: files.take().map(({ value }) => value),
    partialWarnings: comparison === undefined ? UNREADABLE : [
      ...comparison.isTruncated || files.isCut ? ["entries_truncated" as const] : [],
      ...comparison.unnamed.length > 0 ? ["invalid_names" as const] : []
    ]
  }
  return changed
})

interface Named<A> extends FolderNames.Name {
  readonly value: A
}

interface Present {
  readonly name: string
  readonly kind: "file" | "directory" | "symlink"
  readonly size: number
  readonly mtimeMs: number
}

const scan = Effect.fnUntraced(function*({ tree }: HostRepository, directory: string) {
  const warnings = new Set<PartialWarning>()
  const { entries: found, isCut } = yield* tree.listFolder(directory, MAX_ENTRIES)
  if (isCut) warnings.add("entries_truncated")

  const entries: Array<Present> = []
  yield* inPieces(found, ({ kind, latin1, mtimeMs, size }) => {
    const name = Changes.decodeName(Buffer.from(latin1, "latin1"))
    if (name === undefined) warnings.add("invalid_names")
    else if (kind === null) warnings.add("unreadable_entries")
    else entries.push({ name, kind, size, mtimeMs })
  })
  return { entries, warnings }
})

/** The types of what the directory holds in the base commit, by name. */
const kindsInBase = Effect.fnUntraced(function*(repository: HostRepository, directory: string) {
  const said = yield* run(repository, ["ls-tree", "-z", repository.baseSha, ...directory === "" ? [] : ["--", `${directory}/`]])
  const kinds = new Map<string, string | undefined>()
  yield* inPieces(eachField(said), (entry) => {
    const tab = entry.indexOf(0x09)
    const [, name] = DescriptorWalk.split(entry.subarray(tab + 1))
    kinds.set(name.toString(), entry.subarray(0, tab).toString().split(" ")[1])
  })
  return kinds
})

interface Summary {
  /** The change of the entry itself, if it is a file. */
  readonly change: Changes.Change | undefined
  /** The changes of files below it, if it is or was a directory. */
  readonly statuses: ReadonlySet<FileStatus>
  /** Another repository that lies in the tree. */
  readonly isRepository: boolean
}
const UNCHANGED: Summary = { change: undefined, statuses: new Set(), isRepository: false }

/** Whether an entry of the directory itself has a name that is no text: also a deleted one, which the disk does not show. */
const isUnnamedIn = (prefix: string, { unnamed }: Comparison): boolean => {
  const start = Buffer.from(prefix)
  return unnamed.some((path) => {
    if (path.subarray(0, start.length).compare(start) !== 0) return false
    const rest = path.subarray(start.length)
    const end = rest.indexOf(SLASH)
    return Changes.decodeName(end < 0 ? rest : rest.subarray(0, end)) === undefined
  })
}

/** Changes by the name of the entry of the directory. */
const summarize = Effect.fnUntraced(function*(prefix: string, { changes, nested }: Comparison) {
  const summaries = new Map<string, Summary>()
  const add = (path: string, status: FileStatus, own: Partial<Summary>) => {
    if (!path.startsWith(prefix)) return
    const slash = path.indexOf("/", prefix.length)
    const name = slash < 0 ? path.slice(prefix.length) : path.slice(prefix.length, slash)
    const summary = summaries.get(name) ?? UNCHANGED
    if (slash < 0) summaries.set(name, { ...summary, ...own })
    else if (!summary.statuses.has(status)) summaries.set(name, { ...summary, statuses: new Set([...summary.statuses, status]) })
  }
  yield* inPieces(changes, (change) => add(change.path, change.status, { change }))
  yield* inPieces(nested, (path) => add(path, "untracked", { isRepository: true }))
  return summaries
})
