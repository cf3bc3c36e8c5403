/** One tree of the memory layer: its files on `MemoryDisk`, and the commit that it started from. */
import {
  type ChangedFile,
  type ChangedFiles,
  type FileEntry,
  type FileStatus,
  type FileTree,
  MAX_CHANGES,
  MAX_ENTRIES
} from "../../src/files/schema/FileTree.ts"
import { isEnvironmentFile, isGitPath, isProtected } from "../../src/source/rules/FileRules.ts"
import * as IgnoreRules from "./IgnoreRules.ts"
import type { MemoryDisk } from "./MemoryDisk.ts"
import { changedLines } from "./MemoryRepositories.ts"

/** Files by path. */
export interface Content {
  readonly files: ReadonlyMap<string, string>
  readonly executables: ReadonlySet<string>
}

/** The changes in git's terms, by present and by deleted names. */
interface Changes {
  readonly tracked: ReadonlyArray<string>
  /** Not in the commit and not ignored. */
  readonly added: ReadonlyArray<string>
  /** Directories that are repositories themselves. */
  readonly nested: ReadonlyArray<string>
}

const utf8 = new TextEncoder()

/** Bytes of the text in UTF-8. */
const sizeOf = (text: string): number => utf8.encode(text).length

/** As in git: a NUL within the first 8,000 bytes means binary. */
export const isBinary = (bytes: Uint8Array): boolean => bytes.subarray(0, 8_000).includes(0)

const ancestors = (path: string): ReadonlyArray<string> => {
  const found: Array<string> = []
  for (let slash = path.indexOf("/"); slash >= 0; slash = path.indexOf("/", slash + 1)) found.push(path.slice(0, slash))
  return found
}

/** The files below a folder of the disk, by relative name. A file has nothing below it. */
export const read = ({ executables, files }: MemoryDisk["Service"], root: string): Content => {
  const prefix = `${root}/`
  const found = new Map<string, string>()
  for (const [path, content] of files) {
    if (path.startsWith(prefix) && !ancestors(path.slice(prefix.length)).some((above) => files.has(prefix + above))) {
      found.set(path.slice(prefix.length), content)
    }
  }
  return {
    files: found,
    executables: new Set(Array.from(executables).flatMap((path) => path.startsWith(prefix) ? [path.slice(prefix.length)] : []))
  }
}

/** Whether there are files below the path. The root always exists. */
export const isDirectory = ({ files }: Content, path: string): boolean => {
  if (path === "") return true
  for (const name of files.keys()) if (name.startsWith(`${path}/`)) return true
  return false
}

const nestedIn = (base: Content, now: Content, isIgnored: IgnoreRules.IsIgnored): ReadonlyArray<string> => {
  const roots = new Set<string>()
  for (const path of now.files.keys()) {
    const root = [...ancestors(path), path].find((above) => above.endsWith("/.git"))?.slice(0, -"/.git".length)
    if (root !== undefined && !isIgnored(root, true) && !base.files.has(root) && !isDirectory(base, root)) roots.add(root)
  }
  return [...roots].filter((root) => !ancestors(root).some((above) => roots.has(above)))
}

const changesOf = (base: Content, now: Content): Changes => {
  const isIgnored = IgnoreRules.make((path) => now.files.get(path))
  const nested = nestedIn(base, now, isIgnored)
  const differs = (path: string) => base.files.get(path) !== now.files.get(path) || base.executables.has(path) !== now.executables.has(path)
  return {
    nested,
    tracked: [...base.files.keys()].filter(differs).sort(),
    added: [...now.files.keys()].filter((path) =>
      !base.files.has(path) && !isGitPath(path) && !ancestors(path).some((above) => nested.includes(above)) && !isIgnored(path, false)
    ).sort()
  }
}

/** The content of a commit of the tree; `null` if it equals the starting commit. A `saved` one includes environment files. */
export const committed = (base: Content, now: Content, kind: "published" | "saved" = "published"): Content | null => {
  const { added, tracked } = changesOf(base, now)
  const allowed = added.filter((path) => kind === "saved" || !isEnvironmentFile(path))
  if (tracked.length + allowed.length === 0) return null
  const [files, executables] = [new Map(base.files), new Set(base.executables)]
  for (const path of [...tracked, ...allowed]) {
    const content = now.files.get(path)
    if (content === undefined) files.delete(path)
    else files.set(path, content)
    if (content !== undefined && now.executables.has(path)) executables.add(path)
    else executables.delete(path)
  }
  return { files, executables }
}

const nameOf = (path: string): string => path.slice(path.lastIndexOf("/") + 1)

/** A new file with the content of a deleted one is a rename, preferably of a file with the same name. */
const described = (
  base: Content,
  now: Content,
  { added, tracked }: Changes,
  published: ReadonlySet<string>
): ReadonlyArray<ChangedFile> => {
  const lines = (before: string, after: string) =>
    [before, after].some((text) => isBinary(utf8.encode(text))) ? { additions: 0, deletions: 0 } : changedLines(before, after)
  const gone = new Set(tracked.filter((path) => !now.files.has(path)))
  const present = added.map((path): ChangedFile => {
    const content = now.files.get(path) ?? ""
    const sources = [...gone].filter((old) => base.files.get(old) === content)
    const previousPath = sources.find((old) => nameOf(old) === nameOf(path)) ?? sources[0] ?? null
    if (previousPath !== null) gone.delete(previousPath)
    return previousPath === null
      ? { path, status: published.has(path) ? "added" : "untracked", previousPath, ...lines("", content) }
      : { path, status: "renamed", previousPath, additions: 0, deletions: 0 }
  })
  const modified = tracked.filter((path) => now.files.has(path)).map((path): ChangedFile => ({
    path,
    status: "modified",
    previousPath: null,
    ...lines(base.files.get(path) ?? "", now.files.get(path) ?? "")
  }))
  const deleted = [...gone].map((path): ChangedFile => ({
    path,
    status: "deleted",
    previousPath: null,
    ...lines(base.files.get(path) ?? "", "")
  }))
  return [...present, ...modified, ...deleted]
}

/** `published`: the files of the last published commit. */
export const changes = (base: Content, now: Content, published: ReadonlySet<string>): ChangedFiles => {
  const files = described(base, now, changesOf(base, now), published).map((change) => ({
    bytes: utf8.encode(change.path),
    change: isProtected(change.path) ? { ...change, additions: 0, deletions: 0 } : change
  })).sort((a, b) => compareBytes(a.bytes, b.bytes))
  return {
    files: files.slice(0, MAX_CHANGES).map(({ change }) => change),
    partialWarnings: files.length > MAX_CHANGES ? ["entries_truncated"] : []
  }
}

/** Present files in byte order, without ignored ones and those of other repositories. */
export const visible = (base: Content, now: Content): ReadonlyArray<{ readonly path: string; readonly bytes: Uint8Array }> => {
  const added = new Set(changesOf(base, now).added)
  return Array.from(now.files).filter(([path]) => base.files.has(path) || added.has(path))
    .map(([path, content]) => ({ path, name: utf8.encode(path), bytes: utf8.encode(content) }))
    .sort((a, b) => compareBytes(a.name, b.name))
}

/** The amount of changes. */
export const counts = (base: Content, now: Content) => {
  const found = described(base, now, changesOf(base, now), new Set())
  return {
    additions: found.reduce((sum, { additions }) => sum + additions, 0),
    deletions: found.reduce((sum, { deletions }) => sum + deletions, 0),
    changedFiles: found.length
  }
}

/** A present or former entry of a directory, by name. */
interface Named {
  /** Present for an existing file. */
  content?: string
  isDirectory?: true
  wasDirectory?: true
  isRepository?: true
  /** The change of the file with that name. */
  change?: ChangedFile
  /** The statuses of all files below. */
  readonly statuses: Set<FileStatus>
}

/** One directory of the tree or of the starting commit; `null`: in neither. `published`: the files of the last published commit. */
export const list = (
  base: Content,
  now: Content,
  published: ReadonlySet<string>,
  directory: string,
  writtenAtMillis: (path: string) => number
): FileTree | null => {
  const prefix = directory === "" ? "" : `${directory}/`
  const names = new Map<string, Named>()
  const at = (path: string): readonly [named: Named, isBelow: boolean] | null => {
    if (!path.startsWith(prefix)) return null
    const [name = "", ...rest] = path.slice(prefix.length).split("/")
    const named = names.get(name) ?? { statuses: new Set() }
    names.set(name, named)
    return [named, rest.length > 0]
  }
  for (const [path, content] of now.files) {
    const found = at(path)
    if (found?.[1] === true) found[0].isDirectory = true
    else if (found !== null) found[0].content = content
  }
  const changes = changesOf(base, now)
  for (const change of described(base, now, changes, published)) {
    const found = at(change.path)
    if (found?.[1] === true) found[0].statuses.add(change.status)
    else if (found !== null) found[0].change = change
  }
  for (const path of changes.nested) {
    const found = at(path)
    if (found?.[1] === true) found[0].statuses.add("untracked")
    else if (found !== null) found[0].isRepository = true
  }
  if (names.size === 0 && directory !== "") return null
  for (const path of base.files.keys()) {
    const found = at(path)
    if (found?.[1] === true) found[0].wasDirectory = true
  }

  const entries = Array.from(names).flatMap(([name, named]): ReadonlyArray<FileEntry> => {
    const { change, content, statuses } = named
    if (name.toLowerCase() === ".git") return []
    const path = prefix + name
    const isShown = !isProtected(path)
    const plain: FileEntry = {
      name,
      path,
      depth: path.split("/").length - 1,
      kind: "file",
      status: null,
      additions: 0,
      deletions: 0,
      size: null,
      mtimeMs: null,
      previousPath: null
    }
    if (named.isDirectory === true) {
      const isRepository = named.isRepository === true
      const isNew = named.wasDirectory !== true && (isRepository || statuses.size > 0)
      const status = !isNew ? null : isRepository || statuses.has("untracked") ? "untracked" : "added"
      return [{ ...plain, kind: isRepository ? "submodule" : "directory", status }]
    }
    if (content !== undefined) {
      return [{
        ...plain,
        status: change?.status ?? null,
        ...isShown && change !== undefined ? { additions: change.additions, deletions: change.deletions } : {},
        size: isShown ? sizeOf(content) : null,
        mtimeMs: writtenAtMillis(path),
        previousPath: change?.previousPath ?? null
      }]
    }
    if (change !== undefined) return [{ ...plain, status: "deleted", deletions: isShown ? change.deletions : 0 }]
    return statuses.has("deleted") ? [{ ...plain, kind: "directory", status: "deleted" }] : []
  })
  const sorted = entries.map((entry) => ({ entry, bytes: utf8.encode(entry.name), isDirectory: entry.kind === "directory" })).sort(byOrder)
  return {
    directory,
    entries: sorted.slice(0, MAX_ENTRIES).map(({ entry }) => entry),
    partialWarnings: entries.length > MAX_ENTRIES ? ["entries_truncated"] : [],
    scope: "all"
  }
}

interface Sortable {
  readonly bytes: Uint8Array
  readonly isDirectory: boolean
}
const byOrder = (a: Sortable, b: Sortable): number =>
  a.isDirectory === b.isDirectory ? compareBytes(a.bytes, b.bytes) : a.isDirectory ? -1 : 1

const compareBytes = (a: Uint8Array, b: Uint8Array): number => {
  const length = Math.min(a.length, b.length)
  for (let i = 0; i < length; i++) if (a[i] !== b[i]) return (a[i] ?? 0) - (b[i] ?? 0)
  return a.length - b.length
}
