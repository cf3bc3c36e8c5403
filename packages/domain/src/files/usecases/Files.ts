/**
 * Read-only access to the working trees of a sandbox: the present trees, or those of the last checkpoint (docs/decisions/6).
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import type { Principal } from "../../access/schema/Principal.ts"
import type { SandboxId } from "../../ids/SandboxId.ts"
import { CheckpointNotFound, Checkpoints } from "../../sandbox/ports/Checkpoints.ts"
import { type SandboxNotFound, SandboxStore } from "../../sandbox/ports/SandboxStore.ts"
import { SandboxNotRunning } from "../../sandbox/rules/Command.ts"
import { hasTrees, type Sandbox } from "../../sandbox/rules/Sandbox.ts"
import { type RepoNotFound, type RepoRequired, selectRepo } from "../../sandbox/rules/SelectRepo.ts"
import {
  InvalidPath,
  isProtected,
  MAX_CONTENT_BYTES,
  MAX_DIFF_BYTES,
  MAX_DOWNLOAD_BYTES,
  normalizePath
} from "../../source/rules/FileRules.ts"
import { sameRepo } from "../../source/schema/Naming.ts"
import type { RepoName } from "../../source/schema/RepoRef.ts"
import { StoreUnavailable } from "../../store/StoreUnavailable.ts"
import { AgentDisconnected, RemoteTrees, CheckpointTrees, LocalTrees } from "../ports/RemoteTrees.ts"
import {
  type FileNotFound,
  FileProtected,
  type FileTooLarge,
  type FileVersion,
  type IsDirectory,
  type NotADirectory,
  OnBehalfOf,
  type OpenedFile,
  type TreeKey,
  TreesUnavailable
} from "../ports/WorkingTrees.ts"
import type { FileSearch, FoundFiles } from "../schema/FileSearch.ts"
import type { ChangedFiles, FileStatus, FileTree } from "../schema/FileTree.ts"

/** Reports a failure of git or of the disk as `StoreUnavailable` with its text. */
const available = <A, E, R>(self: Effect.Effect<A, E | TreesUnavailable, R>) =>
  Effect.catchIf(
    self,
    (error): error is Extract<E | TreesUnavailable, TreesUnavailable> => error instanceof TreesUnavailable,
    (cause) => Effect.fail(new StoreUnavailable({ cause, detail: cause.detail }))
  )

/** Downloads may have any size, so they need the trees of a running sandbox. */
const isRunning = ({ status }: Sandbox): boolean => status === "running"

/** A file or directory. `repo` may be absent if the sandbox has one repository. */
export interface FileQuery {
  readonly repo: RepoName | undefined
  /** As the client sent it. */
  readonly path: string
}

/** A checkpoint by its number, the tree now (`working`), or the tree that the sandbox started from (`base`). */
export type Compared = number | "base" | "working"

/** The two versions of one repository's tree to compare. */
export interface ComparedTrees {
  readonly repo: RepoName | undefined
  readonly from: Compared
  readonly to: Compared
  /** A file or folder, as the client sent it; absent: the whole tree. */
  readonly path: string | undefined
  /** Include binary contents, so that `git apply` accepts the patch. */
  readonly isWhole?: boolean
}

type Unreachable =
  | AgentDisconnected
  | FileNotFound
  | RepoNotFound
  | RepoRequired
  | SandboxNotFound
  | SandboxNotRunning
  | StoreUnavailable
type Refusal = FileProtected | InvalidPath | Unreachable

/** One file now (`working`), as last published (`head`), and as the sandbox found it (`base`). */
export interface ComparedFile {
  readonly path: string
  readonly repo: RepoName
  /** As in the listing of its directory. */
  readonly status: FileStatus | null
  readonly previousPath: string | null
  readonly working: FileVersion
  readonly head: FileVersion
  readonly base: FileVersion
}

/**
 * The files of a running sandbox, or of a sandbox that succeeded or failed, for callers who may see it. Protected files are refused by
 * their name and by their real type.
 */
export class Files extends Context.Service<Files, {
  /** The immediate entries of one directory; "" is the root. */
  list(by: Principal, id: SandboxId, query: FileQuery): Effect.Effect<FileTree, Refusal | NotADirectory>
  /** All files of one repository that differ from the commit the sandbox started from. */
  changes(by: Principal, id: SandboxId, repo: RepoName | undefined): Effect.Effect<ChangedFiles, Unreachable>
  /** Searches the tree of one repository. */
  search(by: Principal, id: SandboxId, repo: RepoName | undefined, search: FileSearch): Effect.Effect<FoundFiles, Unreachable>
  /** Streams one file of a running sandbox, and returns its normalised path. The descriptor is released with the scope. */
  open(by: Principal, id: SandboxId, query: FileQuery): Effect.Effect<
    OpenedFile & { readonly path: string },
    Refusal | IsDirectory | FileTooLarge,
    Scope.Scope
  >
  /** One file as text: now, as last published, and as the sandbox found it. A file that never existed has no versions. */
  compare(by: Principal, id: SandboxId, query: FileQuery): Effect.Effect<ComparedFile, Refusal | IsDirectory | FileTooLarge>
  /**
   * The differences as a patch of at most `MAX_DIFF_BYTES`. Protected files are named in comments, without content. For a sandbox that
   * succeeded or failed, `working` is its last checkpoint.
   */
  diff(by: Principal, id: SandboxId, asked: ComparedTrees): Effect.Effect<
    Uint8Array,
    CheckpointNotFound | FileTooLarge | InvalidPath | Unreachable
  >
}>()("@slipway/domain/Files") {
  /** For trees on any machine. Without `Checkpoints`, comparisons with checkpoints fail. */
  static readonly layerReaching = Layer.effect(
    Files,
    Effect.gen(function*() {
      const store = yield* SandboxStore
      const reachable = yield* RemoteTrees
      const checkpoints = yield* Effect.serviceOption(Checkpoints)

      /** The commit that a checkpoint saved for a tree. */
      const savedAs = Effect.fnUntraced(function*({ repo, sandboxId }: TreeKey, checkpoint: number) {
        if (Option.isNone(checkpoints) || checkpoint < 1) return yield* new CheckpointNotFound()
        const [found] = yield* checkpoints.value.list(sandboxId, checkpoint - 1, 1)
        const saved = found?.checkpoint === checkpoint ? found.repos.find((saved) => sameRepo(saved.repo, repo)) : undefined
        return saved === undefined ? yield* new CheckpointNotFound() : saved.sha
      })

      const reach = Effect.fnUntraced(function*(by: Principal, id: SandboxId, asked: RepoName | undefined, may = hasTrees) {
        const sandbox = yield* store.find({ grantId: by.grantId, id })
        const repo = yield* Effect.fromResult(selectRepo(sandbox, asked))
        if (!may(sandbox)) return yield* new SandboxNotRunning()
        const key: TreeKey = { sandboxId: id, repo }
        return { key, trees: yield* reachable.reach(sandbox) }
      })

      const locate = Effect.fnUntraced(function*(by: Principal, id: SandboxId, query: FileQuery, may = hasTrees) {
        const path = yield* Effect.fromResult(normalizePath(query.path))
        const reached = yield* reach(by, id, query.repo, may)
        // Check the name before the disk: the answer must not reveal whether the file exists.
        if (isProtected(path)) return yield* new FileProtected()
        return { ...reached, path }
      })

      return Files.of({
        list: Effect.fn("Files.list")(function*(by, id, query) {
          const { key, path, trees } = yield* locate(by, id, query)
          return yield* Effect.provideService(trees.list(key, path), OnBehalfOf, by.grantId)
        }, available),
        changes: Effect.fn("Files.changes")(function*(by, id, repo) {
          const { key, trees } = yield* reach(by, id, repo)
          return yield* Effect.provideService(trees.changes(key), OnBehalfOf, by.grantId)
        }, available),
        search: Effect.fn("Files.search")(function*(by, id, repo, search) {
          const { key, trees } = yield* reach(by, id, repo)
          return yield* Effect.provideService(trees.search(key, search), OnBehalfOf, by.grantId)
        }, available),
        open: Effect.fn("Files.open")(function*(by, id, query) {
          const { key, path, trees } = yield* locate(by, id, query, isRunning)
          if (path === "") return yield* new InvalidPath()
          return { ...yield* Effect.provideService(trees.open(key, path, MAX_DOWNLOAD_BYTES), OnBehalfOf, by.grantId), path }
        }, available),
        compare: Effect.fn("Files.compare")(function*(by, id, query) {
          const { key, path, trees } = yield* locate(by, id, query)
          if (path === "") return yield* new InvalidPath()
          const versions = yield* Effect.provideService(trees.compare(key, path, MAX_CONTENT_BYTES), OnBehalfOf, by.grantId)
          // A missing folder lists nothing. The listing is the only source of statuses.
          const listed = yield* trees.list(key, path.includes("/") ? path.slice(0, path.lastIndexOf("/")) : "").pipe(
            Effect.map(({ entries }) => entries.find((entry) => entry.path === path)),
            Effect.catchTags({ FileNotFound: () => Effect.undefined, NotADirectory: () => Effect.undefined }),
            Effect.provideService(OnBehalfOf, by.grantId)
          )
          return { path, repo: key.repo, status: listed?.status ?? null, previousPath: listed?.previousPath ?? null, ...versions }
        }, available),
        diff: Effect.fn("Files.diff")(function*(by, id, asked) {
          const path = asked.path === undefined ? "" : yield* Effect.fromResult(normalizePath(asked.path))
          const sandbox = yield* store.find({ grantId: by.grantId, id })
          const key: TreeKey = { sandboxId: id, repo: yield* Effect.fromResult(selectRepo(sandbox, asked.repo)) }
          if (!hasTrees(sandbox)) return yield* new SandboxNotRunning()
          const [from, to] = yield* Effect.forEach(
            [asked.from, asked.to] as const,
            (version) => typeof version === "number" ? savedAs(key, version) : Effect.succeed(version)
          )
          const trees = yield* reachable.reach(sandbox)
          const query = {
            from: from!,
            to: to!,
            maximumBytes: MAX_DIFF_BYTES,
            isWhole: asked.isWhole ?? false,
            ...(path === "" ? {} : { path })
          }
          return yield* trees.diff(key, query).pipe(
            // The commit was just forgotten, or the machine does not know checkpoints.
            Effect.catchTag("UnknownCommit", () => Effect.fail(new AgentDisconnected())),
            Effect.provideService(OnBehalfOf, by.grantId)
          )
        }, available)
      })
    })
  )

  /** For trees on this machine only. Checkpoints are not available. */
  static readonly layer = Files.layerReaching.pipe(
    Layer.provide(RemoteTrees.layerLocal),
    Layer.provide(LocalTrees.layer),
    Layer.provide(CheckpointTrees.layerNone)
  )
}
