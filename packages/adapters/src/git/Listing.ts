/** One directory of a working tree as the interface shows it: what is on disk, merged with what git says of it. */
import { Effect } from "effect"
import { isProtected } from "@slipway/domain/files/FileRules"
import {
  type ChangedFiles, type FileEntry, type FileStatus, type FileTree, MAX_CHANGES, MAX_ENTRIES, type PartialWarning
} from "@slipway/domain/files/FileTree"
import type { RepoName } from "@slipway/domain/source/RepoRef"
import * as Changes from "./Changes.ts"
import { fields, type GitFailed } from "./Git.ts"
import { type HostRepository, run } from "./HostRepository.ts"
import * as SafeTree from "./SafeTree.ts"

/** All changes of a tree, as git in its box says. */
export type Compared = Effect.Effect<Effect.Success<ReturnType<typeof Changes.changes>>, GitFailed>

export const list = Effect.fn("Listing.list")(function*(repository: HostRepository, directory: string, compared: Compared) {
  const [disk, git] = yield* Effect.all([
    // A folder that was deleted shows the files that were in it.
    scan(repository, directory).pipe(Effect.catchTag("FileNotFound", (missing) => Effect.succeed(missing))),
    compare(repository, directory, compared)
  ], { concurrency: 2 })
  const prefix = directory === "" ? "" : `${directory}/`
  const below = summarize(prefix, git.changes, git.nested)
  if ("_tag" in disk && below.size === 0) return yield* disk
  const { entries: present, warnings } = "_tag" in disk ? { entries: [], warnings: [] } : disk

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
  const entries: Array<FileEntry> = []

  for (const { kind, mtimeMs, name, size } of present) {
    const inBase = git.base.get(name)
    const changed = below.get(name) ?? UNCHANGED
    if (kind === "directory") {
      const isRepository = inBase === "commit" || changed.isRepository
      const isNew = inBase !== "tree" && inBase !== "commit" && (changed.isRepository || changed.statuses.size > 0)
      const status = !isNew ? null : changed.isRepository || changed.statuses.has("untracked") ? "untracked" : "added"
      entries.push({ ...entry(name, isRepository ? "submodule" : "directory", status), mtimeMs })
    } else {
      const change = changed.change?.status === "deleted" ? undefined : changed.change
      const shown = !isProtected(prefix + name)
      entries.push({
        ...entry(name, kind, change?.status ?? null),
        ...shown && change !== undefined ? { additions: change.additions, deletions: change.deletions } : {},
        size: shown && kind === "file" ? size : null,
        mtimeMs,
        previousPath: change?.previousPath ?? null
      })
    }
  }
  const names = new Set(present.map(({ name }) => name))
  for (const [name, { change, statuses }] of below) {
    if (names.has(name)) continue
    if (change?.status === "deleted") {
      entries.push({ ...entry(name, change.kind, "deleted"), deletions: isProtected(change.path) ? 0 : change.deletions })
    } else if (statuses.has("deleted")) entries.push(entry(name, "directory", "deleted"))
  }

  const tree: FileTree = {
    directory,
    entries: entries.map((value) => ({ value, name: Buffer.from(value.name), isDirectory: value.kind === "directory" }))
      .sort(byOrder).slice(0, MAX_ENTRIES).map(({ value }) => value),
    partialWarnings: [...new Set([...warnings, ...git.warnings, ...entries.length > MAX_ENTRIES ? ["entries_truncated" as const] : []])].sort(),
    scope: "all"
  }
  return tree
})

/** All changes of the tree. An agent can make one that git gives up on: that has none. */
export const changes = Effect.fn("Listing.changes")(function*(_: RepoName, compared: Compared) {
  const { changes, isTruncated } = yield* compared
  const files = changes.map(({ additions, deletions, path, previousPath, status }) => ({
    name: Buffer.from(path),
    value: { path, status, previousPath, ...isProtected(path) ? { additions: 0, deletions: 0 } : { additions, deletions } }
  })).sort((a, b) => Buffer.compare(a.name, b.name))
  const changed: ChangedFiles = {
    files: files.slice(0, MAX_CHANGES).map(({ value }) => value),
    partialWarnings: isTruncated || files.length > MAX_CHANGES ? ["entries_truncated"] : []
  }
  return changed
}, (self, repo) =>
  Effect.catchTag(self, "GitFailed", (failure) => {
    const unknown: ChangedFiles = { files: [], partialWarnings: ["unreadable_entries"] }
    return Effect.as(Effect.logWarning("git could not compare a working tree", { repo, failure: failure.message }), unknown)
  }))

/** Directories first, then byte order. */
const byOrder = (a: { readonly name: Buffer; readonly isDirectory: boolean }, b: typeof a): number =>
  Number(b.isDirectory) - Number(a.isDirectory) || Buffer.compare(a.name, b.name)

interface Present {
  readonly name: string
  readonly kind: "file" | "directory" | "symlink"
  readonly size: number
  readonly mtimeMs: number
}

const scan = Effect.fnUntraced(function*(repository: HostRepository, directory: string) {
  const path = directory === "" ? repository.folder : `${repository.folder}/${directory}`
  const folder = yield* SafeTree.openFolder(repository.workspace, Buffer.from(path))
  const warnings = new Set<PartialWarning>()
  const all = (yield* SafeTree.names(folder)).filter(({ name }) => name.toString().toLowerCase() !== ".git")
  if (all.length > MAX_ENTRIES) warnings.add("entries_truncated")

  const entries: Array<Present> = []
  for (const { name: bytes } of [...all].sort(byOrder).slice(0, MAX_ENTRIES)) {
    const name = Changes.decodeName(bytes)
    if (name === undefined) {
      warnings.add("invalid_names")
      continue
    }
    const stats = SafeTree.statEntry(folder, bytes)
    if (stats === "gone") continue
    const kind = stats === "unreadable" ? undefined
      : stats.isFile() ? "file"
      : stats.isDirectory() ? "directory"
      : stats.isSymbolicLink() ? "symlink"
      : undefined
    if (stats === "unreadable" || kind === undefined) warnings.add("unreadable_entries")
    else entries.push({ name, kind, size: stats.size, mtimeMs: Math.max(0, Math.floor(stats.mtimeMs)) })
  }
  return { entries, warnings }
}, Effect.scoped)

/** The types of what the directory holds in the base commit, and all changes since. */
const compare = Effect.fnUntraced(
  function*(repository: HostRepository, directory: string, compared: Compared) {
    const [base, { changes, isTruncated, nested }] = yield* Effect.all([
      run(repository, ["ls-tree", "-z", repository.baseSha, ...directory === "" ? [] : ["--", `${directory}/`]]),
      compared
    ], { concurrency: 2 })
    const types = fields(base).map((entry) => {
      const tab = entry.indexOf(0x09)
      const [, name] = SafeTree.split(entry.subarray(tab + 1))
      return [name.toString(), entry.subarray(0, tab).toString().split(" ")[1]] as const
    })
    const warnings: ReadonlyArray<PartialWarning> = isTruncated ? ["entries_truncated"] : []
    return { base: new Map(types), changes, nested, warnings }
  },
  // An agent can make a tree that git gives up on. Its files are there all the same.
  (self, { repo }) =>
    Effect.catchTag(self, "GitFailed", (failure) =>
      Effect.as(Effect.logWarning("git could not compare a working tree", { repo, failure: failure.message }), {
        base: new Map<string, string>(),
        changes: [],
        nested: [],
        warnings: ["unreadable_entries" as const]
      }))
)

interface Summary {
  /** Of the entry itself, if it is a file. */
  readonly change: Changes.Change | undefined
  /** Of the files below it, if it is or was a directory. */
  readonly statuses: ReadonlySet<FileStatus>
  /** Another repository that lies in the tree. */
  readonly isRepository: boolean
}
const UNCHANGED: Summary = { change: undefined, statuses: new Set(), isRepository: false }

/** What changed, by the name of the entry of the directory. */
const summarize = (prefix: string, changes: ReadonlyArray<Changes.Change>, nested: ReadonlyArray<string>): ReadonlyMap<string, Summary> => {
  const summaries = new Map<string, Summary>()
  const add = (path: string, status: FileStatus, own: Partial<Summary>) => {
    if (!path.startsWith(prefix)) return
    const [name = "", ...rest] = path.slice(prefix.length).split("/")
    const summary = summaries.get(name) ?? UNCHANGED
    summaries.set(name, rest.length === 0 ? { ...summary, ...own } : { ...summary, statuses: new Set([...summary.statuses, status]) })
  }
  for (const change of changes) add(change.path, change.status, { change })
  for (const path of nested) add(path, "untracked", { isRepository: true })
  return summaries
}
