/**
 * The trees of sandboxes as this process reaches them: folders of its own machine (`local`), or of another one, through the runner
 * there (`machine`). Whatever is told of a tree is what its agent made of it.
 */
import type {
  CloneFailed,
  FileNotFound,
  FileProtected,
  FileTooLarge,
  IsDirectory,
  NotADirectory,
  OpenedFile,
  TreesUnavailable
} from "@slipway/domain/files/ports/WorkingTrees"
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { Data, type Effect, type Scope } from "effect"
import type { GitFailed } from "../Git.ts"
import type { Making } from "./HostRepository.ts"

/** An entry of a folder itself: links are not followed. */
export interface Entry {
  /** A character for each byte: names need not be text. */
  readonly latin1: string
  /** `null`: it is nothing of these, or may not be looked at. */
  readonly kind: "file" | "directory" | "symlink" | null
  /** Bytes. */
  readonly size: number
  /** Whole milliseconds since the epoch, never before it. */
  readonly mtimeMs: number
}

/** A path at which a tree differs. */
export interface Change {
  readonly path: Buffer
  /** Whether a folder there is another repository, whose commit is what differs. */
  readonly mayBeRepository: boolean
}

export interface CopyLimits {
  /** The most bytes of all copies together. */
  readonly maximumBytes: number
  /** A file beyond the limit fails, or is told by a few bytes that are no text. */
  readonly beyond: "fail" | "stand-in"
}

/** The copies would be larger than they may be. */
export class CopyTooLarge extends Data.TaggedError("CopyTooLarge") {}

/** One tree. Paths are below its folder, normalised; behind no link is anything read. */
export interface Tree {
  /** A plain file with one name. Closed with the scope. */
  openFile(path: string, maximumBytes: number): Effect.Effect<
    OpenedFile,
    FileNotFound | IsDirectory | FileProtected | FileTooLarge | TreesUnavailable,
    Scope.Scope
  >
  /** The first `most` of a folder in the order of `FolderNames`, without `.git`. */
  listFolder(path: string, most: number): Effect.Effect<
    { readonly entries: ReadonlyArray<Entry>; readonly isCut: boolean },
    FileNotFound | NotADirectory | FileProtected | TreesUnavailable
  >
  /**
   * Copies what is at these paths to a folder of ours, so that git can have its bytes without a look at the tree. Answers the paths of
   * what it copied, and those where nothing is: the rest could not be read. Absent where trees are in machines of their own.
   */
  readonly copy?: (changes: ReadonlyArray<Change>, place: string, limits: CopyLimits) => Effect.Effect<
    { readonly copied: ReadonlyArray<Buffer>; readonly gone: ReadonlyArray<Buffer> },
    CopyTooLarge
  >
  readonly inBox: {
    /** The repository that git in the box gets. It is never the agent's `.git`. */
    readonly gitDir: string
    /** Whether that is a repository that the box has to itself, and may have written to. */
    readonly isOwn: boolean
  }
}

/** The first content of a tree. */
export interface Checkout {
  /** The commit that its files are of. */
  readonly sha: string
  /** The last commit of the agent's repository: differences from it are uncommitted. */
  readonly committed: string
  /** The content of `HEAD` in the agent's repository. */
  readonly head: string
  /** Its commits by the full names of refs. */
  readonly refs: ReadonlyMap<string, string>
}

/** A submodule to be checked out. */
export interface Module {
  /** From the top of the tree. */
  readonly path: string
  /** The name of the folder with the host's repository of it, in `modules` of that of the tree. */
  readonly name: string
  readonly sha: string
  /** The folder with its objects on this machine. */
  readonly objects: string
  /** Commits whose parents were not fetched. */
  readonly shallow: ReadonlyArray<string>
}

/** Where trees are, and how they come to be there. Every call is safe to repeat. */
export interface TreePlace {
  /** The tree in this folder of the sandbox's workspace, whose repository is in `gitDir`. */
  treeOf(sandboxId: SandboxId, folder: string, gitDir: string): Tree
  /** Checks out on a site of its own, where the repository has the commits already. */
  checkOut(making: Making, checkout: Checkout): Effect.Effect<void, GitFailed | CloneFailed | TreesUnavailable>
  /** Fills the folder of a submodule in a tree that was checked out on its site. Absent: folders of submodules stay empty here. */
  readonly checkOutModule?: (making: Making, module: Module) => Effect.Effect<void, GitFailed | CloneFailed | TreesUnavailable>
  /** Where a tree is on its site, and where its box shows the mirror's objects. Absent: pointers of Git LFS stay pointers here. */
  readonly onSite?: (making: Making) => { readonly tree: string; readonly objectsInBox: string }
  /** Moves what was made in the place of what is there. The repository comes last: with it the tree is there. */
  put(making: Making): Effect.Effect<void, TreesUnavailable>
  /** Deletes what is left of a site. Never fails. */
  leave(making: Making): Effect.Effect<void>
  /** Whether the trees of these repositories, which this process has, are still there. Fails where that may be told later. */
  isThere(sandboxId: SandboxId, gitDirs: ReadonlyArray<string>): Effect.Effect<boolean, TreesUnavailable>
  /** As the port says. */
  isWhole(sandboxId: SandboxId): Effect.Effect<boolean>
  /** They were made anew, saved as they are, or removed. */
  settle(sandboxId: SandboxId): Effect.Effect<void>
  /** Deletes all trees of the sandbox. */
  remove(sandboxId: SandboxId): Effect.Effect<void, TreesUnavailable>
  /** Whether it is the disk of this sandbox alone that refused something. */
  isOwnDisk(sandboxId: SandboxId, defect: unknown): Effect.Effect<boolean>
}
