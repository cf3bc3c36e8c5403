/**
 * Port: the working trees of the sandboxes of this machine's workers, wherever their boxes are. The agent owns what is in them while
 * we read, so nothing in a tree is trusted: not its links, not its `.git`. Checked by `WorkingTreesContract`.
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import type * as Stream from "effect/Stream"
import type { SandboxId } from "../../ids/SandboxId.ts"
import type { Remote } from "../../source/ports/SourceHost.ts"
import type { ChangeCounts } from "../../source/schema/ChangeCounts.ts"
import type { RepoName } from "../../source/schema/RepoRef.ts"
import { visible } from "../../text/EscapeInvisible.ts"
import type { ChangedFiles, FileTree } from "../schema/FileTree.ts"

/** Nothing is there, or the sandbox has no such tree on this machine. */
export class FileNotFound extends Schema.TaggedError<FileNotFound>()("FileNotFound", {}) {
  override get message() {
    return "No such file or directory."
  }
}
/** The name is protected, or what is there is no plain file with one name (link, device, FIFO, hard link). */
export class FileProtected extends Schema.TaggedError<FileProtected>()("FileProtected", {}) {
  override get message() {
    return "This file is protected and cannot be read."
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

/** Characters of the names of files in {@link MergeConflict}, all together. */
const MAX_CONFLICT_CHARACTERS = 1_000

/** Somebody moved or made the branch that a publication goes to. Nothing was pushed. Retrying helps once that is settled. */
export class BranchMoved extends Schema.TaggedError<BranchMoved>()("BranchMoved", {
  repo: Schema.String,
  branch: Schema.String
}) {
  override get message() {
    return `the branch ${this.branch} of ${this.repo} is not where Slipway left it, and nothing was pushed. ` +
      "Merge or close its pull request, or set the branch back to what was published, then publish again."
  }
}

/** What the tree changes cannot be merged with the newest commit of the base branch. Nothing was pushed. */
export class MergeConflict extends Schema.TaggedError<MergeConflict>()("MergeConflict", {
  repo: Schema.String,
  /** In the order of git. */
  files: Schema.Array(Schema.String)
}) {
  override get message() {
    const shown: Array<string> = []
    let left = MAX_CONFLICT_CHARACTERS
    for (const file of this.files.map(visible)) {
      left -= file.length
      if (left < 0) break
      shown.push(file)
    }
    const others = this.files.length - shown.length
    return `the changes conflict with the base branch of ${this.repo}, and nothing was pushed. ` +
      "Change these files so that they fit, or start a sandbox from the newest commit: " +
      `${shown.join(", ")}${others === 0 ? "" : `${shown.length === 0 ? "" : " and "}${others} more`}`
  }
}

/** The tree holds nothing that is not published already, or nothing beyond the commit it started from. */
export class NoChanges extends Schema.TaggedError<NoChanges>()("NoChanges", { repo: Schema.String }) {
  override get message() {
    return "no sandbox changes to publish"
  }
}

/** A tree cannot be saved: it is larger than it may be, takes longer than it may, or git gives up on it. */
export class CannotSave extends Schema.TaggedError<CannotSave>()("CannotSave", {
  repo: Schema.String,
  /** A sentence for people. */
  detail: Schema.String,
  /** Trying again may help, though the tree stays as it is. */
  retryable: Schema.Boolean
}) {
  override get message() {
    return `could not save ${this.repo}: ${this.detail}`
  }
}

/** Not what was saved: cut, changed on the way, or made by somebody else. Retrying does not help. */
export class CheckpointDamaged extends Schema.TaggedError<CheckpointDamaged>()("CheckpointDamaged", {
  /** A sentence for people. */
  detail: Schema.String
}) {
  override get message() {
    return `the checkpoint cannot be restored: ${this.detail}`
  }
}

/** No commits of these ids are here. What they were saved in brings them (`learn`, `restore`). */
export class UnknownCommit extends Schema.TaggedError<UnknownCommit>()("UnknownCommit", {
  /** As they were asked for, each once. */
  commits: Schema.Array(Schema.String)
}) {
  override get message() {
    return "no such commit here"
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

/** A file of the commit that a tree started from. */
export interface BaseFile {
  /** The id of git's blob, hex. */
  readonly blob: string
  /** `null`: it is larger than was asked for. */
  readonly content: Uint8Array | null
}

/** The tree as it is, as it was where the sandbox started, or a commit by its full id: one that was saved. */
export type TreeVersion = "working" | "base" | (string & {})

/** Which two versions of a tree are compared. */
export interface DiffQuery {
  readonly from: TreeVersion
  readonly to: TreeVersion
  /** A file or a folder, normalised. Left out: the whole tree. */
  readonly path?: string
  /** With the contents of binary files, so that `git apply` takes it. Left out: it says that they differ. */
  readonly isWhole?: boolean
  /** Of the patch. */
  readonly maximumBytes: number
}

/** How a tree is committed. */
export interface SnapshotOptions {
  readonly message: string
  readonly author: { readonly name: string; readonly email: string }
  /**
   * What the agent's own git has beyond the commit the tree started from, as written on the agent's side: nothing of it is
   * trusted. The id of its newest commit and a line feed, then a pack of all objects that `baseSha` lacks; empty without any.
   */
  readonly history?: (baseSha: string) => Stream.Stream<Uint8Array>
  /** Left out: the commit the tree started from, with nothing pushed yet. */
  readonly since?: Since
}

/**
 * One three-way merge between a tree and what is pushed: of what the tree has beyond `ancestor` with the commit `onto`. There is one
 * for each pull request that was merged or closed before.
 */
export interface MergeStep {
  /** A commit of the base branch. */
  readonly onto: string
  /** What was published of the tree when the pull request before was merged; `null`: the commit the tree started from. */
  readonly ancestor: string | null
}

/** What a commit of a tree goes on from. */
export interface Since {
  /** The commit that was pushed to its branch last; `null`: none was. */
  readonly head: string | null
  /** From the tree to what is pushed to that branch, in order. Empty: that is the tree. */
  readonly merges: ReadonlyArray<MergeStep>
  /** Where commits of these that are not here are fetched. */
  readonly remote: Remote
}

/** Which branches of a remote a publication needs to know. */
export interface BranchQuery {
  readonly remote: Remote
  /** The branch it goes to. */
  readonly headRef: string
  /** The commit that is recorded as pushed to it last; `null`: none is. */
  readonly pushed: string | null
  /** Others, whose newest commits are asked for. */
  readonly branches: ReadonlyArray<string>
  /** As snapshots are committed: by it, and by their time, commits are known that were pushed where nobody could record it. */
  readonly author: SnapshotOptions["author"]
  readonly history?: SnapshotOptions["history"]
}

/** What {@link BranchQuery} asks for. */
export interface BranchesFound {
  /** What Slipway pushed to the branch last; `null`: nothing is there. */
  readonly head: string | null
  /** Something was pushed there, and somebody deleted the branch since. */
  readonly isGone: boolean
  /** The newest commit below `head` that no snapshot or agent made; `null` without a head. */
  readonly root: string | null
  /** Branches that are missing are left out. */
  readonly tips: ReadonlyMap<string, string>
}

/** A tree to be saved. */
export interface SaveOptions {
  readonly repo: RepoName
  /** As in {@link SnapshotOptions}. */
  readonly history?: SnapshotOptions["history"]
}

/** Bytes that the trees of a sandbox may have when they are saved. */
export const MAXIMUM_SAVED_BYTES = 268_435_456

/** The trees of a sandbox as they were. */
export interface SavedTrees {
  /** In the order they were asked for. `sha` is decided by the tree and by the agent's own commits, by nothing else. */
  readonly repos: ReadonlyArray<{ readonly repo: RepoName; readonly sha: string }>
  /** Of those of them where git can count in a few seconds. Renamed files whose content is the same have no lines that differ. */
  readonly changes: ReadonlyArray<ChangeCounts>
  /** For `restore`. Can be read as often as needed until the scope closes. */
  readonly content: Stream.Stream<Uint8Array>
}

/** A tree that was restored. */
export interface RestoredTree {
  readonly repo: RepoName
  /** As it was saved. */
  readonly sha: string
  /** Of the files of that commit together. */
  readonly bytes: number
  /** As `prepare` says. */
  readonly baseSha: string
  readonly baseRef: string | null
}

/** Checked by `WorkingTreesContract`. */
export class WorkingTrees extends Context.Service<WorkingTrees, {
  /** A repository's folder below the workspace of a box: its name, unless two of the sandbox share it. Folders never collide. */
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
    /** Folders of submodules, which are empty: at most 32 of them; left out without any. */
    readonly submodules?: ReadonlyArray<string>
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
   * The plain files that the commit has at these paths, normalised, which the tree started from: for the service itself, protected
   * ones too. Links and folders are left out. Nothing that the agent may write is looked at. `FileNotFound`: there is no such tree here.
   */
  readBase(key: TreeKey, paths: Iterable<string>, options: { readonly maximumBytes: number }): Effect.Effect<
    ReadonlyMap<string, BaseFile>,
    FileNotFound | TreesUnavailable
  >
  /**
   * The plain files with one of these names, in whatever folder of the commit that the tree started from: ids of git's blobs, hex, by
   * path. `null`: they are more than `maximum`, or too much to look for. Nothing that the agent may write is looked at.
   * `FileNotFound`: there is no such tree here.
   */
  findBase(key: TreeKey, names: Iterable<string>, options: { readonly maximum: number }): Effect.Effect<
    ReadonlyMap<string, string> | null,
    FileNotFound | TreesUnavailable
  >
  /**
   * The commit that the tree started from, and one of `refs` that has it in its history at the source now; `null`: none has. A ref is the
   * short name of a branch or a tag, or all below a folder: `release/*`. Where more than one has it, the answer is the first of those that
   * were found, not always the first of all. `CloneFailed`: the source could not be asked. `FileNotFound`: there is no such tree here.
   */
  findBaseRef(key: TreeKey, asked: { readonly remote: Remote; readonly refs: ReadonlyArray<string> }): Effect.Effect<
    { readonly baseSha: string; readonly on: string | null },
    CloneFailed | FileNotFound | TreesUnavailable
  >
  /**
   * What differs, as a patch in the form of git: without colour, with `a/` and `b/`, binary files only named. The last entries
   * name protected files that differ, and show nothing of them. Ignored files and new repositories within the tree are in no version.
   * `FileTooLarge`: the patch is.
   */
  diff(key: TreeKey, asked: DiffQuery): Effect.Effect<Uint8Array, FileNotFound | FileTooLarge | TreesUnavailable | UnknownCommit>
  /**
   * Where the branch of a publication is, and whether Slipway left it there: as recorded, as this tree remembers, or by what its
   * commits are like, in that order. `BranchMoved`: somebody else moved it.
   */
  branches(key: TreeKey, query: BranchQuery): Effect.Effect<BranchesFound, BranchMoved | FileNotFound | PushFailed>
  /**
   * Commits the tree as it is, on what it goes on from (`since`), and never replaces a commit that was pushed. Equal trees with equal
   * options give the same commit. Ignored files, new environment files and repositories within the tree are left out. The agent's own
   * commits are kept where they go on from the commit the tree started from, or from a pushed one that is the agent's, and hold none of
   * these: then only what is beyond them is committed. Else it is one commit, which names the subjects of the agent's since. With
   * nothing to commit it is `since.head`; without that, `NoChanges`. `PushFailed`: there is more than could be pushed, or the tree is
   * such that git cannot commit it.
   */
  snapshot(key: TreeKey, commit: SnapshotOptions): Effect.Effect<{
    readonly sha: string
    /** The branch the tree started from; `null` when it started from a tag or a commit. */
    readonly baseRef: string | null
    /** Folders of submodules in which there are files, which are left out too: at most 32 of them; left out without any. */
    readonly submodules?: ReadonlyArray<string>
  }, FileNotFound | MergeConflict | NoChanges | PushFailed>
  /**
   * Adds `sha`, which goes on from `expected`, to `headRef`; without `expected` the branch must be new. Nothing is ever replaced:
   * `BranchMoved` where the branch is elsewhere. Pushing what is already there succeeds.
   */
  push(key: TreeKey, options: {
    readonly sha: string
    readonly headRef: string
    readonly remote: Remote
    readonly expected?: string | null
    /** It has commits of the base branch that the tree did not start from: checkpoints of the tree leave them out. */
    readonly isMerged?: boolean
  }): Effect.Effect<void, BranchMoved | PushFailed>
  /**
   * Saves trees as they are, with all that they have beyond the commit they started from: changed and new files, those of the
   * environment too; the agent's own commits and its branch; what was published last. Ignored files, empty folders and
   * repositories within the tree are left out. Takes at most a minute, and `maximumBytes` packed; default
   * `MAXIMUM_SAVED_BYTES`.
   */
  save(sandboxId: SandboxId, repos: ReadonlyArray<SaveOptions>, options?: { readonly maximumBytes?: number }): Effect.Effect<
    SavedTrees,
    CannotSave | FileNotFound | TreesUnavailable,
    Scope.Scope
  >
  /**
   * Makes the trees as they were saved, in place of those that are there. Nothing of the sandbox may run meanwhile: to a box
   * they are given when it is provisioned. Work that was not committed is not committed; times of files are new. The source is
   * only read: only where this machine does not have the commit that a tree started from. `CloneFailed`: nor has the source
   * any more. Whatever it fails with, the trees are as they were before; only where the disk refuses while they are replaced, or
   * the process ends, there are none (`has`) until it is done again.
   *
   * The content may be of another sandbox, and is not trusted. `sources` name its repositories, each once.
   * `forget`: what was published last stays with the sandbox it is of. What these trees remember of what they pushed is kept.
   */
  restore<E = never, R = never>(
    sandboxId: SandboxId,
    content: Stream.Stream<Uint8Array, E, R>,
    sources: ReadonlyArray<{ readonly repo: RepoName; readonly remote: Remote }>,
    options?: { readonly forget?: "publication" }
  ): Effect.Effect<ReadonlyArray<RestoredTree>, CheckpointDamaged | CloneFailed | TreesUnavailable | E, R>
  /**
   * Adds the commits of what was saved to those that `diff` knows, until the trees go or room is made. The trees stay as they are, and
   * neither the sandbox's box nor its disk has them. Safe to repeat. The content is not trusted; it is of these trees and goes on from
   * the commits that they started from, else `CheckpointDamaged`. `FileNotFound`: not all of its trees are here.
   */
  learn<E = never, R = never>(sandboxId: SandboxId, content: Stream.Stream<Uint8Array, E, R>): Effect.Effect<
    void,
    CheckpointDamaged | FileNotFound | TreesUnavailable | E,
    R
  >
  /** Whether the sandbox has trees on this machine, and among them all of `repos`. */
  has(sandboxId: SandboxId, repos?: ReadonlyArray<RepoName>): Effect.Effect<boolean>
  /**
   * `false`: the machine lost its power or its kernel since they were written, and what was not on its disk by then is missing in
   * them, until they are saved as they are, restored or removed.
   */
  isWhole(sandboxId: SandboxId): Effect.Effect<boolean>
  /** Deletes every tree of the sandbox. Safe to repeat. */
  remove(sandboxId: SandboxId): Effect.Effect<void, TreesUnavailable>
  /** Sandboxes with trees on this machine, for the reaper. */
  readonly sandboxes: Effect.Effect<ReadonlyArray<SandboxId>>
  /** Deletes what no tree needs and what can be had again, whatever its age. Trees stay as they are. Safe at any moment. */
  readonly makeRoom: Effect.Effect<void, TreesUnavailable>
}>()("@slipway/domain/WorkingTrees") {
}
