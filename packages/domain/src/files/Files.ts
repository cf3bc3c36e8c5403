/** Read-only access to the working trees of a running sandbox (docs/decisions.md 6). */
import { Context, Effect, Layer, Schema, type Scope } from "effect"
import type { Principal } from "../access/Principal.ts"
import { SandboxNotRunning } from "../sandbox/Command.ts"
import { type SandboxNotFound, SandboxStore } from "../sandbox/SandboxStore.ts"
import { type RepoNotFound, type RepoRequired, selectRepo } from "../sandbox/SelectRepo.ts"
import type { SandboxId } from "../SandboxId.ts"
import { FileProtected, InvalidPath, isProtected, MAX_CONTENT_BYTES, MAX_DOWNLOAD_BYTES, normalizePath } from "../source/FileRules.ts"
import type { RepoName } from "../source/RepoRef.ts"
import { StoreUnavailable } from "../StoreUnavailable.ts"
import type { ChangedFiles, FileStatus, FileTree } from "./FileTree.ts"
import {
  type FileNotFound,
  type FileTooLarge,
  type FileVersion,
  type IsDirectory,
  type NotADirectory,
  OnBehalfOf,
  type OpenedFile,
  type TreeKey,
  TreesUnavailable,
  WorkingTrees
} from "./WorkingTrees.ts"

/** The sandbox runs, but its worker cannot be reached just now. Retrying after a moment may succeed. */
export class AgentDisconnected extends Schema.TaggedError<AgentDisconnected>()("AgentDisconnected", {}) {
  override get message() {
    return "The sandbox's worker cannot be reached just now."
  }
}

/** Reads the trees of a sandbox by the rules of `WorkingTrees`, wherever they lie. */
export interface TreeReader {
  list(key: TreeKey, directory: string): Effect.Effect<
    FileTree,
    AgentDisconnected | FileNotFound | NotADirectory | FileProtected | TreesUnavailable
  >
  changes(key: TreeKey): Effect.Effect<ChangedFiles, AgentDisconnected | FileNotFound | TreesUnavailable>
  /** What breaks off on the way fails the bytes. */
  open(key: TreeKey, path: string, maximumBytes: number): Effect.Effect<
    OpenedFile,
    AgentDisconnected | FileNotFound | IsDirectory | FileProtected | FileTooLarge | TreesUnavailable,
    Scope.Scope
  >
  compare(key: TreeKey, path: string, maximumBytes: number): Effect.Effect<
    { readonly working: FileVersion; readonly head: FileVersion; readonly base: FileVersion },
    AgentDisconnected | FileNotFound | IsDirectory | FileProtected | FileTooLarge | TreesUnavailable
  >
}

/** Port: the way to the trees of a sandbox. Its readers pass the reading rules of `testing/WorkingTreesContract`. */
export class ReachableTrees extends Context.Service<ReachableTrees, {
  /** Fails when no worker is there for the sandbox. A reader is good for one request: the sandbox may move. */
  reach(id: SandboxId): Effect.Effect<TreeReader, AgentDisconnected | StoreUnavailable>
}>()("@slipway/domain/ReachableTrees") {
  /** The trees of this process's own machine. */
  static readonly layerLocal = Layer.effect(
    ReachableTrees,
    Effect.map(WorkingTrees, (trees) =>
      ReachableTrees.of({
        reach: (id) => Effect.flatMap(trees.has(id), (isHere) => isHere ? Effect.succeed(trees) : Effect.fail(new AgentDisconnected()))
      }))
  )
}

/** To those who ask, a disk that refuses is a store that does: what it is, the log says. */
const available = <A, E, R>(self: Effect.Effect<A, E | TreesUnavailable, R>) =>
  Effect.catchIf(
    self,
    (error): error is Extract<E | TreesUnavailable, TreesUnavailable> => error instanceof TreesUnavailable,
    (cause) => Effect.fail(new StoreUnavailable({ cause }))
  )

/** Which file or directory; `repo` may be left out when the sandbox has one repository. */
export interface FileQuery {
  readonly repo: RepoName | undefined
  /** As the client gave it. */
  readonly path: string
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

/** One file as it is (`working`), as last published (`head`), and where the sandbox started (`base`). */
export interface ComparedFile {
  readonly path: string
  readonly repo: RepoName
  /** As the listing of its directory says. */
  readonly status: FileStatus | null
  readonly previousPath: string | null
  readonly working: FileVersion
  readonly head: FileVersion
  readonly base: FileVersion
}

/**
 * The files of a sandbox, for those who may see it. Protected files are refused by name and by what they really are.
 */
export class Files extends Context.Service<Files, {
  /** The immediate entries of one directory; "" is the root. */
  list(by: Principal, id: SandboxId, query: FileQuery): Effect.Effect<FileTree, Refusal | NotADirectory>
  /** All files of one repository that differ from the commit the sandbox started from. */
  changes(by: Principal, id: SandboxId, repo: RepoName | undefined): Effect.Effect<ChangedFiles, Unreachable>
  /** One file's bytes, streamed, with its normalised path. The descriptor is released with the scope. */
  open(by: Principal, id: SandboxId, query: FileQuery): Effect.Effect<
    OpenedFile & { readonly path: string },
    Refusal | IsDirectory | FileTooLarge,
    Scope.Scope
  >
  /** One file as text: now, as last published, and where the sandbox started. One that never was has no versions. */
  compare(by: Principal, id: SandboxId, query: FileQuery): Effect.Effect<ComparedFile, Refusal | IsDirectory | FileTooLarge>
}>()("@slipway/domain/Files") {
  /** Of trees on any machine. */
  static readonly layerReaching = Layer.effect(
    Files,
    Effect.gen(function*() {
      const store = yield* SandboxStore
      const reachable = yield* ReachableTrees

      const reach = Effect.fnUntraced(function*(by: Principal, id: SandboxId, asked: RepoName | undefined) {
        const sandbox = yield* store.find({ grantId: by.grantId, id })
        const repo = yield* Effect.fromResult(selectRepo(sandbox, asked))
        if (sandbox.status !== "running") return yield* new SandboxNotRunning()
        const key: TreeKey = { sandboxId: id, repo }
        return { key, trees: yield* reachable.reach(id) }
      })

      const locate = Effect.fnUntraced(function*(by: Principal, id: SandboxId, query: FileQuery) {
        const path = yield* Effect.fromResult(normalizePath(query.path))
        const reached = yield* reach(by, id, query.repo)
        // By name, before the disk is touched: what is there must not show in the answer.
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
        open: Effect.fn("Files.open")(function*(by, id, query) {
          const { key, path, trees } = yield* locate(by, id, query)
          if (path === "") return yield* new InvalidPath()
          return { ...yield* trees.open(key, path, MAX_DOWNLOAD_BYTES), path }
        }, available),
        compare: Effect.fn("Files.compare")(function*(by, id, query) {
          const { key, path, trees } = yield* locate(by, id, query)
          if (path === "") return yield* new InvalidPath()
          const versions = yield* trees.compare(key, path, MAX_CONTENT_BYTES)
          // A folder that is not there lists nothing. One truth about statuses: what the listing says.
          const listed = yield* trees.list(key, path.includes("/") ? path.slice(0, path.lastIndexOf("/")) : "").pipe(
            Effect.map(({ entries }) => entries.find((entry) => entry.path === path)),
            Effect.catchTags({ FileNotFound: () => Effect.undefined, NotADirectory: () => Effect.undefined }),
            Effect.provideService(OnBehalfOf, by.grantId)
          )
          return { path, repo: key.repo, status: listed?.status ?? null, previousPath: listed?.previousPath ?? null, ...versions }
        }, available)
      })
    })
  )

  /** Of trees on this machine. */
  static readonly layer = Files.layerReaching.pipe(Layer.provide(ReachableTrees.layerLocal))
}
