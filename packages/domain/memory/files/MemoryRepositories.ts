/** Repositories of one process, shared by the memory layers in place of git. */
import * as Context from "effect/Context"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { digest } from "../../src/ids/Digest.ts"
import type { RepoName } from "../../src/source/schema/RepoRef.ts"

/** Text by path, relative to the repository. */
export type Files = Readonly<Record<string, string>>
/** `null` deletes a file. */
export type Changes = Readonly<Record<string, string | null>>

/** All files of a commit. */
export interface MemoryCommit {
  readonly parents: ReadonlyArray<string>
  readonly files: Files
  /** The executable ones among the files. */
  readonly executables?: ReadonlySet<string>
  /** Other distinguishing data: message, author, time. */
  readonly note?: string
}

/** The message and author of a commit. */
export interface Note {
  readonly message: string
  readonly author: { readonly name: string; readonly email: string }
  readonly seconds: number
}

/** A {@link MemoryCommit.note} with a message and an author. */
export const writeNote = ({ author, message, seconds }: Note): string => JSON.stringify([message, author.name, author.email, seconds])

const decodeNote = Schema.decodeUnknownOption(
  Schema.fromJsonString(Schema.Tuple([Schema.String, Schema.String, Schema.String, Schema.Int]))
)

/** Empty for a commit without a message. */
export const readNote = ({ note = "" }: MemoryCommit): Note => {
  const [message, name, email, seconds] = Option.getOrElse(decodeNote(note), () => ["", "", "", 0] as const)
  return { message, author: { name, email }, seconds }
}

/** A hash of the whole commit. */
export const shaOf = ({ executables = new Set(), files, note = "", parents }: MemoryCommit): string => {
  const entries = Object.entries(files).sort(([a], [b]) => a < b ? -1 : 1)
  return digest(JSON.stringify([parents, entries, entries.flatMap(([path]) => executables.has(path) ? [path] : []), note])).slice(0, 40)
}

/** A repository with its branches and tags by name, and commits by sha. */
export class MemoryRepository {
  readonly commits = new Map<string, MemoryCommit>()
  readonly branches = new Map<string, string>()
  /** Branches that may not be pushed to. */
  readonly protectedBranches = new Set<string>()
  readonly tags = new Map<string, string>()
  readonly fullName: RepoName
  readonly defaultBranch: string

  constructor(fullName: RepoName, defaultBranch: string, files: Files) {
    this.fullName = fullName
    this.defaultBranch = defaultBranch
    this.branches.set(defaultBranch, this.add({ parents: [], files }))
  }

  /** Adds a commit without a branch. */
  add(commit: MemoryCommit): string {
    const executables = new Set(Array.from(commit.executables ?? []).filter((path) => Object.hasOwn(commit.files, path)))
    const sha = shaOf({ ...commit, executables })
    this.commits.set(sha, { ...commit, executables })
    return sha
  }

  filesOf(sha: string | undefined): Files {
    return this.commits.get(sha ?? "")?.files ?? {}
  }

  executablesOf(sha: string | undefined): ReadonlySet<string> {
    return this.commits.get(sha ?? "")?.executables ?? new Set()
  }

  /** Commits on top of `branch`. A new branch starts from the default branch. Returns the commit. */
  commit(branch: string, changes: Changes, note?: Note): string {
    const parent = this.branches.get(branch) ?? this.branches.get(this.defaultBranch) ?? ""
    const files = { ...this.filesOf(parent), ...changes }
    const kept = Object.entries(files).flatMap(([path, content]) => content === null ? [] : [[path, content] as const])
    const sha = this.add({
      parents: [parent],
      files: Object.fromEntries(kept),
      executables: this.executablesOf(parent),
      ...(note === undefined ? {} : { note: writeNote(note) })
    })
    this.branches.set(branch, sha)
    return sha
  }

  /** Merges by a merge commit. The changes of `head` since it left `base` win. */
  merge(head: string, base: string): string {
    const [ours, theirs] = [this.branches.get(base) ?? "", this.branches.get(head) ?? ""]
    const before = this.filesOf(this.mergeBase(ours, theirs))
    const after = this.filesOf(theirs)
    const [wasExecutable, isExecutable] = [this.executablesOf(this.mergeBase(ours, theirs)), this.executablesOf(theirs)]
    const files = new Map(Object.entries(this.filesOf(ours)))
    const executables = new Set(this.executablesOf(ours))
    for (const path of new Set([...Object.keys(before), ...Object.keys(after)])) {
      const content = after[path]
      if (content === undefined && before[path] !== undefined) files.delete(path)
      else if (content !== undefined && content !== before[path]) files.set(path, content)
      if (isExecutable.has(path) && !wasExecutable.has(path)) executables.add(path)
      else if (!isExecutable.has(path) && wasExecutable.has(path)) executables.delete(path)
    }
    const sha = this.add({ parents: [ours, theirs], files: Object.fromEntries(files), executables })
    this.branches.set(base, sha)
    return sha
  }

  /** The commit and its ancestors, nearest first. */
  history(sha: string): ReadonlyArray<string> {
    const seen = new Set([sha])
    for (const next of seen) for (const parent of this.commits.get(next)?.parents ?? []) seen.add(parent)
    return [...seen]
  }

  mergeBase(a: string, b: string): string | undefined {
    const known = new Set(this.history(a))
    return this.history(b).find((sha) => known.has(sha))
  }
}

const ADDRESS = "file:///memory/"

/** The repositories that the memory layers of `SourceHost` and `WorkingTrees` share. */
export class MemoryRepositories extends Context.Service<MemoryRepositories, {
  /** Ignores case. */
  find(fullName: RepoName): MemoryRepository | undefined
  /** In the order of their creation. */
  names(): ReadonlyArray<RepoName>
  /** Finds a repository by its address from `SourceHostMemory.layer`. */
  at(url: string): MemoryRepository | undefined
  /** Makes a repository with `files` as the first commit. */
  add(fullName: RepoName, files: Files, defaultBranch?: string): MemoryRepository
}>()("@slipway/domain/MemoryRepositories") {
  static readonly layer = Layer.sync(MemoryRepositories, () => {
    const repositories = new Map<string, MemoryRepository>()
    return MemoryRepositories.of({
      find: (fullName) => repositories.get(fullName.toLowerCase()),
      names: () => Array.from(repositories.values(), ({ fullName }) => fullName),
      at: (url) => url.startsWith(ADDRESS) ? repositories.get(url.slice(ADDRESS.length).toLowerCase()) : undefined,
      add: (fullName, files, defaultBranch = "main") => {
        const repository = new MemoryRepository(fullName, defaultBranch, files)
        repositories.set(fullName.toLowerCase(), repository)
        return repository
      }
    })
  })
}

/** The numbers of added and deleted lines, by a longest common subsequence. */
export const changedLines = (before: string, after: string): { readonly additions: number; readonly deletions: number } => {
  const [a, b] = [before, after].map((text) => text === "" ? [] : text.replace(/\n$/u, "").split("\n")) as [Array<string>, Array<string>]
  let row = new Array<number>(b.length + 1).fill(0)
  for (const line of a) {
    const next = [0]
    for (const [j, other] of b.entries()) next.push(line === other ? (row[j] ?? 0) + 1 : Math.max(row[j + 1] ?? 0, next[j] ?? 0))
    row = next
  }
  const common = row[b.length] ?? 0
  return { additions: b.length - common, deletions: a.length - common }
}
