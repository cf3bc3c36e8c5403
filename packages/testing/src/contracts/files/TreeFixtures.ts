/** Repositories, trees and agents for the contract suites of `WorkingTrees`. */
import { type MergeStep, type TreeKey, WorkingTrees } from "@slipway/domain/files/ports/WorkingTrees"
import type { FileEntry } from "@slipway/domain/files/schema/FileTree"
import { sha1, sha256 } from "@slipway/domain/ids/Digest"
import { ID_ALPHABET, SandboxId } from "@slipway/domain/ids/SandboxId"
import type { Remote } from "@slipway/domain/source/ports/SourceHost"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { assert } from "../../suite/Assert.ts"

type Files = Readonly<Record<string, string | Uint8Array>>

/** A repository somewhere outside, to be cloned and pushed to. */
export interface SourceRepository {
  readonly remote: Remote
  /** Commits on top of `branch`, making it when it is new. `null` deletes a file. */
  commit(branch: string, changes: Readonly<Record<string, string | Uint8Array | null>>): Effect.Effect<string>
  /** An annotated tag. An existing tag is moved. */
  tag(name: string, sha: string): Effect.Effect<void>
  deleteBranch(branch: string): Effect.Effect<void>
  /** Makes a branch point to a commit that is there, whatever it pointed to before. */
  setBranch(branch: string, sha: string): Effect.Effect<void>
  /** A commit and those it goes on from, first parents alone, the newest first. */
  history(ref: string): Effect.Effect<ReadonlyArray<string>>
  /** The commit a branch points to. */
  tip(branch: string): Effect.Effect<string | null>
  /** The files of a commit: links as `-> target`, executables with a leading `*`. */
  files(ref: string): Effect.Effect<Readonly<Record<string, string>>>
}

/** Operations that `trees` needs and the port lacks. Paths are below the workspace of a sandbox. */
export interface Fixture<R> {
  /** A new repository, removed with the scope. Without files it is empty, else they are the first commit of `main`. */
  source(files?: Files): Effect.Effect<SourceRepository, unknown, Scope.Scope | R>
  /** Where the agent's hands find the trees of a sandbox. */
  workspace(sandboxId: SandboxId): Effect.Effect<string, never, R>
  /** The hands of the agent in its tree. `write` makes the folders it needs; `remove` takes what is below, too. */
  readonly agent: {
    write(path: string, content: string | Uint8Array): Effect.Effect<void, never, R>
    append(path: string, content: string): Effect.Effect<void, never, R>
    truncate(path: string): Effect.Effect<void, never, R>
    makeExecutable(path: string): Effect.Effect<void, never, R>
    remove(path: string): Effect.Effect<void, never, R>
    rename(from: string, to: string): Effect.Effect<void, never, R>
    /** Makes the folder a repository of its own, with a commit if `path` holds files. */
    initRepository(path: string): Effect.Effect<void, never, R>
  }
}

/** Operations that `onDisk` needs in addition. */
export interface DiskFixture<R> extends Fixture<R> {
  readonly agent: Fixture<R>["agent"] & {
    symlink(path: string, target: string): Effect.Effect<void, never, R>
    hardLink(path: string, of: string): Effect.Effect<void, never, R>
    fifo(path: string): Effect.Effect<void, never, R>
  }
}

export const freshId = () =>
  SandboxId.make(`c_${Array.from({ length: 12 }, () => ID_ALPHABET[Math.floor(Math.random() * ID_ALPHABET.length)]).join("")}`)

export const app = RepoName.make("acme/app")
export const author = { name: "Slipway", email: "slipway@example.com" }
export const lines = (count: number, word = "line") => Array.from({ length: count }, (_, i) => `${word} ${i}\n`).join("")
export const fileOf = (entries: ReadonlyArray<FileEntry>, name: string) => {
  const entry = entries.find((candidate) => candidate.name === name)
  if (entry === undefined) assert.fail(`${name} is not listed`)
  return entry
}

export const options = (source: SourceRepository, ref?: string) => ({ remote: source.remote, ref, defaultBranch: "main", repos: [app] })

/** As git names the content in a repository whose commits are named like `sha`. */
export const blobId = (content: string, sha: string) => {
  const bytes = new TextEncoder().encode(content)
  const blob = Uint8Array.from([...new TextEncoder().encode(`blob ${bytes.length}\0`), ...bytes])
  return sha.length === 40 ? sha1(blob) : sha256(blob)
}

/** The tag of what it fails with. */
export const refusal = <A, E extends { readonly _tag: string }, R>(self: Effect.Effect<A, E, R>) =>
  Effect.map(Effect.result(Effect.scoped(self)), (result) => Result.isFailure(result) ? result.failure._tag : "nothing")

/** A prepared tree of the repository; deleted with the scope. */
export const treeOf = Effect.fnUntraced(function*<R>(fixture: Fixture<R>, source: SourceRepository) {
  const trees = yield* WorkingTrees
  const key: TreeKey = { sandboxId: freshId(), repo: app }
  const base = yield* Effect.acquireRelease(trees.prepare(key, options(source)), () => Effect.orDie(trees.remove(key.sandboxId)))
  const root = `${yield* fixture.workspace(key.sandboxId)}/${trees.folder(app, [app])}`
  return {
    trees,
    source,
    key,
    base,
    at: (path: string) => `${root}/${path}`,
    list: (directory = "") => Effect.map(trees.list(key, directory), ({ entries }) => entries),
    changes: () => trees.changes(key),
    search: (text: string, ignoreCase = false) => trees.search(key, { text, ignoreCase }),
    read: (path: string, maximumBytes = 1e6) =>
      Effect.scoped(Effect.flatMap(trees.open(key, path, maximumBytes), ({ bytes }) => Stream.mkString(Stream.decodeText(bytes)))),
    /** Its size and pieces. */
    pieces: Effect.fnUntraced(function*(path: string) {
      const { bytes, size } = yield* trees.open(key, path, 1e6)
      return { size, chunks: yield* Stream.runCollect(bytes) }
    }, Effect.scoped),
    /** As a worker publishes: on what was pushed before. `pushed`: what is recorded of that. */
    publish: Effect.fnUntraced(function*(
      headRef = "slipway/x",
      { merges = [], pushed = null }: { readonly pushed?: string | null; readonly merges?: ReadonlyArray<MergeStep> } = {}
    ) {
      const { remote } = source
      const { head } = yield* trees.branches(key, { remote, headRef, pushed, branches: [], author })
      const { sha } = yield* trees.snapshot(key, { message: "Title", author, since: { head, merges, remote } })
      yield* trees.push(key, { sha, headRef, remote, expected: head, isMerged: merges.length > 0 })
      return sha
    }),
    /** Where the branch is, for a publication. */
    branch: (headRef = "slipway/x", pushed: string | null = null) =>
      trees.branches(key, { remote: source.remote, headRef, pushed, branches: ["main", "missing"], author })
  }
})

/** The tree of a new repository that has these files. */
export const preparing = <R>(fixture: Fixture<R>) => (files: Files) =>
  Effect.flatMap(fixture.source(files), (source) => treeOf(fixture, source))
