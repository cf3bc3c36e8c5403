/**
 * Port: the working trees of the sandboxes on this machine. The agent owns what is in them while we read, so nothing
 * in a tree is trusted: not its links, not its `.git`. Checked by `testing/WorkingTreesContract`.
 */
import { Context, type Effect, Schema, type Scope, type Stream } from "effect"
import type { SandboxId } from "../SandboxId.ts"
import { type FileProtected } from "../source/FileRules.ts"
import { type RepoName } from "../source/RepoRef.ts"
import type { Remote } from "../source/SourceHost.ts"
import type { ChangedFiles, FileTree } from "./FileTree.ts"

/** Nothing is there, or the sandbox has no such tree on this machine. */
export class FileNotFound extends Schema.TaggedError<FileNotFound>()("FileNotFound", {}) {
  override get message() {
    return "No such file or directory."
  }
}
/** Retrying does not help. */
export class IsDirectory extends Schema.TaggedError<IsDirectory>()("IsDirectory", {}) {
  override get message() {
    return "The path is a directory."
  }
}
/** Retrying does not help. */
export class NotADirectory extends Schema.TaggedError<NotADirectory>()("NotADirectory", {}) {
  override get message() {
    return "The path is not a directory."
  }
}
/** Larger than the caller allows. Retrying does not help. */
export class FileTooLarge extends Schema.TaggedError<FileTooLarge>()("FileTooLarge", { maximumBytes: Schema.Int }) {
  override get message() {
    return `The file is larger than ${this.maximumBytes} bytes.`
  }
}

/** The repository could not be fetched or the commit does not exist. `retryable`: trying again may help. */
export class CloneFailed extends Schema.TaggedError<CloneFailed>()("CloneFailed", {
  repo: Schema.String,
  /** A sentence for people, free of secrets. */
  detail: Schema.String,
  retryable: Schema.Boolean
}) {
  override get message() {
    return `could not clone ${this.repo}: ${this.detail}`
  }
}

/** The disk of this machine's trees is full, read-only or broken. `retryable`: it may succeed once room is made. */
export class TreesUnavailable extends Schema.TaggedError<TreesUnavailable>()("TreesUnavailable", {
  /** Sentences for people: what it is and what to do. They name no path. */
  detail: Schema.String,
  retryable: Schema.Boolean
}) {
  override get message() {
    return this.detail
  }
}

/** A push was refused by the other side, did not arrive, or was too large to try. */
export class PushFailed extends Schema.TaggedError<PushFailed>()("PushFailed", {
  repo: Schema.String,
  detail: Schema.String,
  retryable: Schema.Boolean
}) {
  override get message() {
    return `could not push to ${this.repo}: ${this.detail}`
  }
}

/** The tree holds nothing beyond the commit it started from. */
export class NoChanges extends Schema.TaggedError<NoChanges>()("NoChanges", { repo: Schema.String }) {
  override get message() {
    return "no sandbox changes to publish"
  }
}

/** One repository's tree within a sandbox. `repo` is spelled as the sandbox spells it. */
export interface TreeKey {
  readonly sandboxId: SandboxId
  readonly repo: RepoName
}

/** The grant for which trees are read or committed: a machine's git is shared out fairly between grants. */
export const OnBehalfOf = Context.Reference<string>("@slipway/domain/OnBehalfOf", { defaultValue: () => "" })

/** An open file. Its bytes can be read once. */
export interface OpenedFile {
  /** Bytes, by `fstat` of the open descriptor. */
  readonly size: number
  /** Exactly `size` bytes: growth is cut; a shortfall fails the stream, so that the connection is aborted. */
  readonly bytes: Stream.Stream<Uint8Array, FileNotFound>
}

/** One side of a comparison: `null` when the file is not there. */
export type FileVersion = {
  /** `null` when it is binary. */
  readonly content: string | null
  /** The id git gives a blob of these bytes, hex. */
  readonly hash: string
  /** `working`, or the commit that holds it. */
  readonly ref: string
  /** Bytes. */
  readonly size: number
  readonly binary: boolean
} | null

/** How a tree is committed. */
export interface SnapshotOptions {
  readonly message: string
  readonly author: { readonly name: string; readonly email: string }
  /**
   * What the agent's own git has beyond the commit the tree started from, as written on the agent's side: nothing of it is
   * trusted. The id of its newest commit and a line feed, then a pack of all objects that `baseSha` lacks; empty without any.
   */
  readonly history?: (baseSha: string) => Stream.Stream<Uint8Array>
}

/** Checked by `testing/WorkingTreesContract`. */
export class WorkingTrees extends Context.Service<WorkingTrees, {
  /** The host folder that holds all trees of a sandbox: what a box shows as its workspace. */
  workspace(sandboxId: SandboxId): string
  /** A repository's folder below the workspace: its name, unless two of the sandbox share it. Folders never collide. */
  folder(repo: RepoName, repos: ReadonlyArray<RepoName>): string
  /** Makes the tree at `ref` (absent: `defaultBranch`), or returns the one that is there. Safe to repeat after a crash at any point. */
  prepare(key: TreeKey, source: {
    readonly remote: Remote
    readonly ref: string | undefined
    readonly defaultBranch: string
    readonly repos: ReadonlyArray<RepoName>
  }): Effect.Effect<{
    readonly baseSha: string
    /** The branch it is the tip of; `null` when a tag or a commit was asked for. */
    readonly baseRef: string | null
  }, CloneFailed | TreesUnavailable>
  /**
   * The immediate entries of one directory. `directory` is normalised. What differs is said by git in the sandbox's box;
   * where that cannot tell, or not in time, entries come without it and with the warning `unreadable_entries`.
   */
  list(key: TreeKey, directory: string): Effect.Effect<FileTree, FileNotFound | NotADirectory | FileProtected | TreesUnavailable>
  /** All files that differ from the commit the sandbox started from: the first `MAX_CHANGES`. */
  changes(key: TreeKey): Effect.Effect<ChangedFiles, FileNotFound | TreesUnavailable>
  /** Opens one file for streaming. `path` is normalised. The descriptor is released with the scope. */
  open(key: TreeKey, path: string, maximumBytes: number): Effect.Effect<
    OpenedFile,
    FileNotFound | IsDirectory | FileProtected | FileTooLarge | TreesUnavailable,
    Scope.Scope
  >
  /**
   * The file in the tree (`working`), in the commit published last (`head`) and in the commit the sandbox started from (`base`).
   * `FileNotFound`: there is no such tree here.
   */
  compare(key: TreeKey, path: string, maximumBytes: number): Effect.Effect<
    { readonly working: FileVersion; readonly head: FileVersion; readonly base: FileVersion },
    FileNotFound | IsDirectory | FileProtected | FileTooLarge | TreesUnavailable
  >
  /**
   * Commits the tree as it is, on the commit it started from. Equal trees with equal options give the same commit.
   * Ignored files, new environment files and repositories within the tree are left out. The agent's own commits are kept
   * where they go on from that commit and hold none of these: then only what is beyond them is committed. `PushFailed`:
   * there is more than could be pushed, or the tree is such that git cannot commit it.
   */
  snapshot(key: TreeKey, commit: SnapshotOptions): Effect.Effect<{
    readonly sha: string
    /** The branch the tree started from; `null` when it started from a tag or a commit. */
    readonly baseRef: string | null
  }, NoChanges | FileNotFound | PushFailed>
  /** Pushes `sha` to `headRef`, replacing only what we pushed there before. Pushing what is already there succeeds. */
  push(key: TreeKey, options: { readonly sha: string; readonly headRef: string; readonly remote: Remote }): Effect.Effect<void, PushFailed>
  /** Whether the sandbox has trees on this machine. */
  has(sandboxId: SandboxId): Effect.Effect<boolean>
  /** Deletes every tree of the sandbox. Safe to repeat. */
  remove(sandboxId: SandboxId): Effect.Effect<void, TreesUnavailable>
  /** Sandboxes with trees on this machine, for the reaper. */
  readonly sandboxes: Effect.Effect<ReadonlyArray<SandboxId>>
  /** Deletes what no tree needs and what can be had again, whatever its age. Trees stay as they are. Safe at any moment. */
  readonly makeRoom: Effect.Effect<void, TreesUnavailable>
}>()("@slipway/domain/WorkingTrees") {
}
