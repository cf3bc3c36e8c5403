/**
 * Port: the working trees of the sandboxes of this machine's workers, wherever their boxes are. The agent can change a tree while we
 * read it, so its links and its `.git` are never trusted. Checked by `WorkingTreesContract`.
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
import type { FileSearch, FoundFiles } from "../schema/FileSearch.ts"
import type { ChangedFiles, FileTree } from "../schema/FileTree.ts"

/** The file does not exist, or the sandbox has no such tree on this machine. */
export class FileNotFound extends Schema.TaggedError<FileNotFound>()("FileNotFound", {}) {
  override get message() {
    return "No such file or directory."
  }
}
/** The name is protected, or the file is not a plain file with one name (link, device, FIFO, hard link). */
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
/** The file is larger than the caller allows. Retrying does not help. */
export class FileTooLarge extends Schema.TaggedError<FileTooLarge>()("FileTooLarge", { maximumBytes: Schema.Int }) {
  override get message() {
    return `The file is larger than ${this.maximumBytes} bytes.`
  }
}

/** The repository could not be fetched, or the commit does not exist. `retryable`: a retry may help. */
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

/** The disk of this machine's trees is full, read-only or broken. `retryable`: the call may succeed after space is freed. */
export class TreesUnavailable extends Schema.TaggedError<TreesUnavailable>()("TreesUnavailable", {
  /** Sentences for people: the problem and the remedy. They contain no path. */
  detail: Schema.String,
  retryable: Schema.Boolean
}) {
  override get message() {
    return this.detail
  }
}

/** The other side refused a push, a push did not arrive, or a push was too large to try. */
export class PushFailed extends Schema.TaggedError<PushFailed>()("PushFailed", {
  repo: Schema.String,
  detail: Schema.String,
  retryable: Schema.Boolean
}) {
  override get message() {
    return `could not push to ${this.repo}: ${this.detail}`
  }
}

/** Characters of all file names in {@link MergeConflict} together. */
const MAX_CONFLICT_CHARACTERS = 1_000

/** Another person or program moved or made the branch of the publication. Nothing was pushed. Retrying helps after that is settled. */
export class BranchMoved extends Schema.TaggedError<BranchMoved>()("BranchMoved", {
  repo: Schema.String,
  branch: Schema.String
}) {
  override get message() {
    return `the branch ${this.branch} of ${this.repo} is not where Slipway left it, and nothing was pushed. ` +
      "Merge or close its pull request, or set the branch back to what was published, then publish again."
  }
}

/** The changes of the tree conflict with the newest commit of the base branch. Nothing was pushed. */
export class MergeConflict extends Schema.TaggedError<MergeConflict>()("MergeConflict", {
  repo: Schema.String,
  /** In git's order. */
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

/** The tree has no changes since its last publication, or none since the commit it started from. */
export class NoChanges extends Schema.TaggedError<NoChanges>()("NoChanges", { repo: Schema.String }) {
  override get message() {
    return "no sandbox changes to publish"
  }
}

/** A tree cannot be saved: it is too large, saving took too long, or git failed. */
export class CannotSave extends Schema.TaggedError<CannotSave>()("CannotSave", {
  repo: Schema.String,
  /** A sentence for people. */
  detail: Schema.String,
  /** A retry may help although the tree stays unchanged. */
  retryable: Schema.Boolean
}) {
  override get message() {
    return `could not save ${this.repo}: ${this.detail}`
  }
}

/** The content differs from what was saved: truncated, altered, or made by another program. Retrying does not help. */
export class CheckpointDamaged extends Schema.TaggedError<CheckpointDamaged>()("CheckpointDamaged", {
  /** A sentence for people. */
  detail: Schema.String
}) {
  override get message() {
    return `the checkpoint cannot be restored: ${this.detail}`
  }
}

/** The tree does not have these commits. The checkpoints that have them can add them (`learn`, `restore`). */
export class UnknownCommit extends Schema.TaggedError<UnknownCommit>()("UnknownCommit", {
  /** As they were requested, each once. */
  commits: Schema.Array(Schema.String)
}) {
  override get message() {
    return "no such commit here"
  }
}

/** One repository's tree in a sandbox. `repo` is spelled as in the sandbox. */
export interface TreeKey {
  readonly sandboxId: SandboxId
  readonly repo: RepoName
}

/** The grant for which trees are read or committed. A machine's git is shared fairly between grants. */
export const OnBehalfOf = Context.Reference<string>("@slipway/domain/OnBehalfOf", { defaultValue: () => "" })

/** An open file. Its bytes can be read once. */
export interface OpenedFile {
  /** Bytes, by `fstat` of the open descriptor. */
  readonly size: number
  /** Exactly `size` bytes. Bytes added later are left out. If the file shrinks, the stream fails, so that the connection is aborted. */
  readonly bytes: Stream.Stream<Uint8Array, FileNotFound>
}

/** One side of a comparison; `null` if the file does not exist. */
export type FileVersion = {
  /** `null` for a binary file. */
  readonly content: string | null
  /** The git blob id of these bytes, in hex. */
  readonly hash: string
  /** `working`, or the id of the commit that contains the version. */
  readonly ref: string
  /** Bytes. */
  readonly size: number
  readonly binary: boolean
} | null

/** A file of the commit that a tree started from. */
export interface BaseFile {
  /** The git blob id, in hex. */
  readonly blob: string
  /** `null`: the file is larger than requested. */
  readonly content: Uint8Array | null
}

/** The tree now (`working`), as the sandbox found it (`base`), or a saved commit by its full id. */
export type TreeVersion = "working" | "base" | (string & {})

/** The two versions of a tree to compare. */
export interface DiffQuery {
  readonly from: TreeVersion
  readonly to: TreeVersion
  /** A normalised file or folder; absent: the whole tree. */
  readonly path?: string
  /** Include binary contents, so that `git apply` accepts the patch. Absent: binary files are only named. */
  readonly isWhole?: boolean
  /** Bytes of the largest patch. */
  readonly maximumBytes: number
}

/**
 * Decides whether a tree may have the files of a submodule, by its absolute address. The address is a text of the repository, and so
 * untrusted. A text of the answer says why not, as a sentence for people.
 */
export type FindSubmodule = (address: string) => Effect.Effect<{ readonly repo: RepoName; readonly remote: Remote } | string>

/** A submodule whose folder stays empty. */
export interface EmptySubmodule {
  /** From the top of the tree; at most 500 characters. */
  readonly path: string
  /** A sentence for people, at most 500 characters. */
  readonly reason: string
}

/** A file of which the tree has only the pointer of Git LFS. */
export interface LfsMissing {
  /** From the top of the tree; at most 500 characters. */
  readonly path: string
  /** A sentence for people, at most 500 characters. */
  readonly reason: string
}

/** Settings of a commit. */
export interface SnapshotOptions {
  readonly message: string
  /** The last paragraph of the message of every commit of ours, such as `Co-authored-by: …`. */
  readonly trailer?: string
  readonly author: { readonly name: string; readonly email: string }
  /**
   * The commits of the agent's own git beyond `baseSha`, written on the agent's side and therefore untrusted. The bytes are the id of
   * the newest commit, a line feed, and a pack of all objects that `baseSha` lacks. Without commits the stream is empty.
   */
  readonly history?: (baseSha: string) => Stream.Stream<Uint8Array>
  /** Absent: the commit that the tree started from, with nothing pushed yet. */
  readonly since?: Since
  /**
   * Submodules of which the agent chose another commit are published as it chose, if that commit exists in a repository that this finds.
   * Absent: as they were.
   */
  readonly submodule?: FindSubmodule
}

/**
 * One three-way merge on the way from the tree to the branch: the changes of the tree since `ancestor`, merged with the commit `onto`.
 * There is one step for each earlier pull request that was merged or closed.
 */
export interface MergeStep {
  /** A commit of the base branch. */
  readonly onto: string
  /** The commit that was published when the pull request before was merged; `null`: the commit that the tree started from. */
  readonly ancestor: string | null
}

/** The starting point of a commit. */
export interface Since {
  /** The commit last pushed to the branch; `null`: no commit was pushed. */
  readonly head: string | null
  /** The merges from the tree to the content of the branch, in order. Empty: the content is the tree. */
  readonly merges: ReadonlyArray<MergeStep>
  /** The source of commits that are missing here. */
  readonly remote: Remote
}

/** The branches that a publication asks about. */
export interface BranchQuery {
  readonly remote: Remote
  /** The branch of the publication. */
  readonly headRef: string
  /** The commit last recorded as pushed to it; `null`: no commit is recorded. */
  readonly pushed: string | null
  /** Other branches, whose newest commits are requested. */
  readonly branches: ReadonlyArray<string>
  /** The author of snapshots. Author and time identify pushed commits that could not be recorded. */
  readonly author: SnapshotOptions["author"]
  readonly history?: SnapshotOptions["history"]
}

/** The answer to {@link BranchQuery}. */
export interface BranchesFound {
  /** The commit that Slipway last pushed to the branch; `null`: the branch does not exist. */
  readonly head: string | null
  /** Slipway pushed to the branch, and the branch was deleted since. */
  readonly isGone: boolean
  /** The newest commit below `head` that no snapshot or agent made; `null` without a head. */
  readonly root: string | null
  /** The newest commits of the other branches. Missing branches are left out. */
  readonly tips: ReadonlyMap<string, string>
}

/** The newest commits of branches at the source, for the agent's own git. */
export interface NewestCommits {
  /** Missing branches are left out. */
  readonly tips: ReadonlyMap<string, string>
  /** Commits whose parents were not fetched; empty when the history is whole. */
  readonly shallow: ReadonlyArray<string>
  /** A git pack of all objects of these commits that the commit lacks that the tree started from. It can be read once. */
  readonly pack: Stream.Stream<Uint8Array, PushFailed>
}

/** A tree to be saved. */
export interface SaveOptions {
  readonly repo: RepoName
  /** As in {@link SnapshotOptions}. */
  readonly history?: SnapshotOptions["history"]
}

/** Bytes that the trees of a sandbox may have when they are saved. */
export const MAXIMUM_SAVED_BYTES = 268_435_456

/** The saved trees of a sandbox. */
export interface SavedTrees {
  /** In the requested order. `sha` depends only on the tree and on the agent's own commits. */
  readonly repos: ReadonlyArray<{ readonly repo: RepoName; readonly sha: string }>
  /** Counts of those trees that git can count in a few seconds. A file renamed without a change has no changed lines. */
  readonly changes: ReadonlyArray<ChangeCounts>
  /** The content for `restore`. It can be read repeatedly until the scope closes. */
  readonly content: Stream.Stream<Uint8Array>
}

/** A tree that was restored. */
export interface RestoredTree {
  readonly repo: RepoName
  /** The saved commit. */
  readonly sha: string
  /** Bytes of all files of that commit. */
  readonly bytes: number
  /** As in the result of `prepare`. */
  readonly baseSha: string
  readonly baseRef: string | null
}

/** Checked by `WorkingTreesContract`. */
export class WorkingTrees extends Context.Service<WorkingTrees, {
  /**
   * A repository's folder below the workspace of a box: its name, unless two repositories of the sandbox share the name. Folders never
   * collide.
   */
  folder(repo: RepoName, repos: ReadonlyArray<RepoName>): string
  /**
   * Makes the tree at `ref` (absent: `defaultBranch`), or returns the existing tree. A call repeated after a crash at any point is
   * safe.
   */
  prepare(key: TreeKey, source: {
    readonly remote: Remote
    readonly ref: string | undefined
    readonly defaultBranch: string
    readonly repos: ReadonlyArray<RepoName>
    /** Submodules are checked out where it finds them. Absent: all stay empty. */
    readonly submodule?: FindSubmodule
  }): Effect.Effect<{
    readonly baseSha: string
    /** The branch whose tip it is; `null` for a tag or a commit. */
    readonly baseRef: string | null
    /** Folders of submodules that stay empty: at most 32. Absent if there are none. */
    readonly submodules?: ReadonlyArray<string>
    /** The same with their reasons. Absent also for trees that an earlier version made. */
    readonly emptySubmodules?: ReadonlyArray<EmptySubmodule>
    /** The number of files of which the tree has only the pointers of Git LFS. Absent if there are none. */
    readonly lfsPointers?: number
    /** Some of these files with their reasons: at most 32. Absent also for trees that an earlier version made. */
    readonly lfsMissing?: ReadonlyArray<LfsMissing>
  }, CloneFailed | TreesUnavailable>
  /**
   * The immediate entries of one directory. `directory` is normalised. Git in the sandbox's box reports changes. If it fails or takes
   * too long, entries have no status and the warning is `unreadable_entries`.
   */
  list(key: TreeKey, directory: string): Effect.Effect<FileTree, FileNotFound | NotADirectory | FileProtected | TreesUnavailable>
  /** All files that differ from the commit the sandbox started from: the first `MAX_CHANGES`. */
  changes(key: TreeKey): Effect.Effect<ChangedFiles, FileNotFound | TreesUnavailable>
  /**
   * Files whose path or content has the text, as far as the bounds of `FileSearch` allow. Binary, protected and ignored files, links and
   * repositories in the tree are left out. Contents are read like those of `open`.
   */
  search(key: TreeKey, search: FileSearch): Effect.Effect<FoundFiles, FileNotFound | TreesUnavailable>
  /** Opens one file for streaming. `path` is normalised. The descriptor is released with the scope. */
  open(key: TreeKey, path: string, maximumBytes: number): Effect.Effect<
    OpenedFile,
    FileNotFound | IsDirectory | FileProtected | FileTooLarge | TreesUnavailable,
    Scope.Scope
  >
  /**
   * The file in the tree (`working`), in the commit published last (`head`) and in the commit the sandbox started from (`base`).
   * `FileNotFound`: the tree is not on this machine.
   */
  compare(key: TreeKey, path: string, maximumBytes: number): Effect.Effect<
    { readonly working: FileVersion; readonly head: FileVersion; readonly base: FileVersion },
    FileNotFound | IsDirectory | FileProtected | FileTooLarge | TreesUnavailable
  >
  /**
   * The plain files at these normalised paths in the commit that the tree started from. Protected files are included, because only the
   * service itself uses this. Links and folders are left out. Nothing that the agent can write is read. `FileNotFound`: the tree is not
   * on this machine.
   */
  readBase(key: TreeKey, paths: Iterable<string>, options: { readonly maximumBytes: number }): Effect.Effect<
    ReadonlyMap<string, BaseFile>,
    FileNotFound | TreesUnavailable
  >
  /**
   * The plain files with one of these names in any folder of the commit that the tree started from: git blob ids in hex, by path.
   * `null`: more than `maximum` files, or too many to search. Nothing that the agent can write is read. `FileNotFound`: the tree is not
   * on this machine.
   */
  findBase(key: TreeKey, names: Iterable<string>, options: { readonly maximum: number }): Effect.Effect<
    ReadonlyMap<string, string> | null,
    FileNotFound | TreesUnavailable
  >
  /**
   * The commit that the tree started from, and one of `refs` whose history at the source contains it now; `null`: no such ref. A ref is
   * the short name of a branch or a tag, or a folder of them, such as `release/*`. If several refs match, the answer is the ref
   * that was checked first, which can be a later one of the list. `CloneFailed`: the source could not be asked. `FileNotFound`: the tree is
   * not on this machine.
   */
  findBaseRef(key: TreeKey, asked: { readonly remote: Remote; readonly refs: ReadonlyArray<string> }): Effect.Effect<
    { readonly baseSha: string; readonly on: string | null },
    CloneFailed | FileNotFound | TreesUnavailable
  >
  /**
   * The differences as a git patch without colour, with `a/` and `b/`. Binary files are only named. The last entries name changed
   * protected files without their content. Ignored files and new repositories within the tree are left out. `FileTooLarge`: the patch
   * is too large.
   */
  diff(key: TreeKey, asked: DiffQuery): Effect.Effect<Uint8Array, FileNotFound | FileTooLarge | TreesUnavailable | UnknownCommit>
  /**
   * The state of the publication's branch, and whether Slipway pushed its newest commit. That is decided by the record, then by what
   * this tree remembers, then by the form of the commits. `BranchMoved`: another person or program moved the branch.
   */
  branches(key: TreeKey, query: BranchQuery): Effect.Effect<BranchesFound, BranchMoved | FileNotFound | PushFailed>
  /**
   * The newest commits of these branches at the source. Neither the tree nor the agent's git changes. `PushFailed`: the source could not
   * be asked, or its commits could not be fetched.
   */
  newest(key: TreeKey, query: { readonly remote: Remote; readonly branches: ReadonlyArray<string> }): Effect.Effect<
    NewestCommits,
    FileNotFound | PushFailed
  >
  /**
   * Commits the tree on top of `since`, and never replaces a pushed commit. Equal trees with equal options give the same commit.
   * Ignored files, new environment files and repositories within the tree are left out.
   *
   * The agent's own commits are kept if they continue the starting commit, or a pushed commit that the agent made, and contain none of
   * those files. Then the new commit has only the rest of the changes. Otherwise there is one commit, which lists the subjects of the
   * agent's commits.
   *
   * Without changes the result is `since.head`, or `NoChanges` if that is `null`. `PushFailed`: the tree is too large to push, or git
   * cannot commit it.
   */
  snapshot(key: TreeKey, commit: SnapshotOptions): Effect.Effect<{
    readonly sha: string
    /** The branch that the tree started from; `null` for a tag or a commit. */
    readonly baseRef: string | null
    /**
     * Folders of submodules with work that is left out: files that their commit does not have, or a commit that does not exist where it
     * came from. At most 32; absent if there are none.
     */
    readonly submodules?: ReadonlyArray<string>
    /**
     * Changed files that are left out: the tree's own `.gitattributes` gives them to Git LFS, and its server does not take their contents.
     * At most 32; absent if there are none.
     */
    readonly lfs?: ReadonlyArray<string>
    /** Why they are left out, as a sentence for people; if the reasons differ, one of them. Absent without such files. */
    readonly lfsReason?: string
    /**
     * Subjects of the agent's commits that this publication takes over or stands for, oldest first, as the agent wrote them: one line
     * of at most 200 characters each. The newest 20, after an ellipsis if there are more. Absent without commits.
     */
    readonly subjects?: ReadonlyArray<string>
  }, FileNotFound | MergeConflict | NoChanges | PushFailed>
  /**
   * Adds `sha`, a descendant of `expected`, to `headRef`. Without `expected` the branch must be new. Nothing is ever replaced:
   * `BranchMoved` if the branch points elsewhere. Pushing a commit that is already there succeeds.
   */
  push(key: TreeKey, options: {
    readonly sha: string
    readonly headRef: string
    readonly remote: Remote
    readonly expected?: string | null
    /** The commit contains commits of the base branch that the tree did not start from. Checkpoints leave them out. */
    readonly isMerged?: boolean
  }): Effect.Effect<void, BranchMoved | PushFailed>
  /**
   * Saves the trees as they are: changed and new files, including environment files; the agent's own commits and its branch; the last
   * published commit. Ignored files, empty folders and repositories within a tree are left out. Limits: one minute, and `maximumBytes`
   * of packed data (default `MAXIMUM_SAVED_BYTES`).
   */
  save(sandboxId: SandboxId, repos: ReadonlyArray<SaveOptions>, options?: { readonly maximumBytes?: number }): Effect.Effect<
    SavedTrees,
    CannotSave | FileNotFound | TreesUnavailable,
    Scope.Scope
  >
  /**
   * Makes the trees as they were saved, and replaces existing ones. No process of the sandbox may run meanwhile; a box gets the trees
   * when it is provisioned. Uncommitted work stays uncommitted; files get new times. The source is only read, and only if this machine
   * lacks the commit that a tree started from. `CloneFailed`: the source lacks it too. Submodules are checked out anew, as in `prepare`.
   *
   * After any error the old trees are unchanged. Only if the disk fails or the process ends during the replacement, there are no trees
   * (`has`) until it is repeated.
   *
   * The content is untrusted and may come from another sandbox. `sources` lists its repositories, each once. `forget`: drop the record
   * of its last publications, which belong to that other sandbox. The trees' own record of pushes is kept.
   */
  restore<E = never, R = never>(
    sandboxId: SandboxId,
    content: Stream.Stream<Uint8Array, E, R>,
    sources: ReadonlyArray<{ readonly repo: RepoName; readonly remote: Remote; readonly submodule?: FindSubmodule }>,
    options?: { readonly forget?: "publication" }
  ): Effect.Effect<ReadonlyArray<RestoredTree>, CheckpointDamaged | CloneFailed | TreesUnavailable | E, R>
  /**
   * Adds the commits of saved content to those that `diff` knows, until the trees are removed or space is freed. The trees and the
   * sandbox's box do not change. Safe to repeat. The content is untrusted. It must be of these trees and continue the commits that they
   * started from, otherwise `CheckpointDamaged`. `FileNotFound`: some of its trees are not on this machine.
   */
  learn<E = never, R = never>(sandboxId: SandboxId, content: Stream.Stream<Uint8Array, E, R>): Effect.Effect<
    void,
    CheckpointDamaged | FileNotFound | TreesUnavailable | E,
    R
  >
  /** Whether the sandbox has trees on this machine, among them all of `repos`. */
  has(sandboxId: SandboxId, repos?: ReadonlyArray<RepoName>): Effect.Effect<boolean>
  /**
   * `false`: the machine lost power or its kernel stopped since the trees were written. Data that had not reached the disk is missing
   * in them, until they are saved, restored or removed.
   */
  isWhole(sandboxId: SandboxId): Effect.Effect<boolean>
  /** Deletes every tree of the sandbox. Safe to repeat. */
  remove(sandboxId: SandboxId): Effect.Effect<void, TreesUnavailable>
  /** Sandboxes with trees on this machine, for the reaper. */
  readonly sandboxes: Effect.Effect<ReadonlyArray<SandboxId>>
  /** Deletes data that no tree needs and that can be fetched again, of any age. Trees stay unchanged. Safe at any moment. */
  readonly makeRoom: Effect.Effect<void, TreesUnavailable>
}>()("@slipway/domain/WorkingTrees") {
}
