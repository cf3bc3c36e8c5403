/** Ports: access to the trees of a sandbox on any machine, and to trees and commits that only a checkpoint has. */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import type { SandboxId } from "../../ids/SandboxId.ts"
import type { CheckpointNotFound } from "../../sandbox/ports/Checkpoints.ts"
import type { Sandbox } from "../../sandbox/rules/Sandbox.ts"
import type { StoreUnavailable } from "../../store/StoreUnavailable.ts"
import type { FileSearch, FoundFiles } from "../schema/FileSearch.ts"
import type { ChangedFiles, FileTree } from "../schema/FileTree.ts"
import {
  type DiffQuery,
  FileNotFound,
  type FileProtected,
  type FileTooLarge,
  type FileVersion,
  type IsDirectory,
  type NotADirectory,
  type OpenedFile,
  type TreeKey,
  type TreesUnavailable,
  UnknownCommit,
  WorkingTrees
} from "./WorkingTrees.ts"

/** The sandbox's files exist, but no machine that has them can be reached now. Retrying after a moment may succeed. */
export class AgentDisconnected extends Schema.TaggedError<AgentDisconnected>()("AgentDisconnected", {}) {
  override get message() {
    return "The sandbox's worker cannot be reached just now."
  }
}

/** Reads the trees of a sandbox by the rules of `WorkingTrees`, from any machine. */
export interface TreeReader {
  list(key: TreeKey, directory: string): Effect.Effect<
    FileTree,
    AgentDisconnected | FileNotFound | NotADirectory | FileProtected | TreesUnavailable
  >
  changes(key: TreeKey): Effect.Effect<ChangedFiles, AgentDisconnected | FileNotFound | TreesUnavailable>
  search(key: TreeKey, search: FileSearch): Effect.Effect<FoundFiles, AgentDisconnected | FileNotFound | TreesUnavailable>
  /** A connection that breaks fails the stream of bytes. */
  open(key: TreeKey, path: string, maximumBytes: number): Effect.Effect<
    OpenedFile,
    AgentDisconnected | FileNotFound | IsDirectory | FileProtected | FileTooLarge | TreesUnavailable,
    Scope.Scope
  >
  compare(key: TreeKey, path: string, maximumBytes: number): Effect.Effect<
    { readonly working: FileVersion; readonly head: FileVersion; readonly base: FileVersion },
    AgentDisconnected | FileNotFound | IsDirectory | FileProtected | FileTooLarge | TreesUnavailable
  >
  /** Also knows the commits of the sandbox's checkpoints. `CheckpointNotFound`: a checkpoint can no longer be read. */
  diff(key: TreeKey, asked: DiffQuery): Effect.Effect<
    Uint8Array,
    AgentDisconnected | CheckpointNotFound | FileNotFound | FileTooLarge | TreesUnavailable | UnknownCommit
  >
}

/** Port: read-only trees on this machine that were made from checkpoints. Their ids differ from those of sandboxes' own trees. */
export class CheckpointTrees extends Context.Service<CheckpointTrees, {
  /**
   * Makes the trees of the sandbox's newest readable checkpoint, and returns their id for `WorkingTrees`. They stay until the scope
   * closes. A caller waits up to 10 s; the work goes on for later callers.
   */
  find(sandbox: Sandbox): Effect.Effect<SandboxId, AgentDisconnected, Scope.Scope>
  /**
   * Adds commits to those that `tree` can be compared with, from the checkpoints of the sandbox `of`. `UnknownCommit`: no checkpoint
   * has the commit. `CheckpointNotFound`: the checkpoint that has it cannot be read. A caller waits as for `find`.
   */
  learn(of: SandboxId, tree: TreeKey, commits: ReadonlyArray<string>): Effect.Effect<
    void,
    AgentDisconnected | CheckpointNotFound | TreesUnavailable | UnknownCommit
  >
  /** Whether trees of this port have the id or will have it. The reaper must not remove them. */
  has(id: SandboxId): boolean
}>()("@slipway/domain/CheckpointTrees") {
  /** For a process without checkpoints: trees on other machines cannot be read. */
  static readonly layerNone = Layer.succeed(CheckpointTrees, {
    find: () => new AgentDisconnected(),
    learn: (_of, _tree, commits) => new UnknownCommit({ commits }),
    has: () => false
  })
}

/** The trees that can be read on this machine. */
export class LocalTrees extends Context.Service<LocalTrees, {
  /** The sandbox's own trees; `null`: they are missing or incomplete on this machine. */
  own(id: SandboxId): Effect.Effect<TreeReader | null>
  /** The trees of the sandbox's newest checkpoint. Fails if there is no checkpoint. */
  restored(sandbox: Sandbox): Effect.Effect<TreeReader, AgentDisconnected>
}>()("@slipway/domain/LocalTrees") {
  static readonly layer = Layer.effect(
    LocalTrees,
    Effect.gen(function*() {
      const trees = yield* WorkingTrees
      const restored = yield* CheckpointTrees
      /** After a move, the trees of a sandbox know only its newest checkpoint, so other commits are added when asked for. */
      const diff = (of: SandboxId, here: TreeKey, asked: DiffQuery) =>
        Effect.catchTag(
          trees.diff(here, asked),
          "UnknownCommit",
          ({ commits }) => Effect.andThen(restored.learn(of, here, commits), trees.diff(here, asked))
        )
      const readerOf = (sandbox: Sandbox): TreeReader => {
        const find = ({ repo }: TreeKey) => Effect.map(restored.find(sandbox), (sandboxId): TreeKey => ({ sandboxId, repo }))
        return {
          list: (key, directory) => Effect.scoped(Effect.flatMap(find(key), (here) => trees.list(here, directory))),
          changes: (key) => Effect.scoped(Effect.flatMap(find(key), (here) => trees.changes(here))),
          search: (key, search) => Effect.scoped(Effect.flatMap(find(key), (here) => trees.search(here, search))),
          open: (key, path, maximumBytes) => Effect.flatMap(find(key), (here) => trees.open(here, path, maximumBytes)),
          compare: (key, path, maximumBytes) => Effect.scoped(Effect.flatMap(find(key), (here) => trees.compare(here, path, maximumBytes))),
          diff: (key, asked) => Effect.scoped(Effect.flatMap(find(key), (here) => diff(sandbox.id, here, asked)))
        }
      }
      const ownReader = (id: SandboxId): TreeReader => {
        // A sandbox that restores a checkpoint, or moves, has no trees for a moment. That must not be answered as a missing file.
        const whileHere = <A, E extends { readonly _tag: string }, R>(read: Effect.Effect<A, E | FileNotFound, R>) =>
          Effect.catchIf(
            read,
            (error) => error instanceof FileNotFound,
            (missing) => Effect.flatMap(trees.has(id), (isHere) => Effect.fail(isHere ? missing : new AgentDisconnected()))
          )
        return {
          list: (key, directory) => whileHere(trees.list(key, directory)),
          changes: (key) => whileHere(trees.changes(key)),
          search: (key, search) => whileHere(trees.search(key, search)),
          open: (key, path, maximumBytes) => whileHere(trees.open(key, path, maximumBytes)),
          compare: (key, path, maximumBytes) => whileHere(trees.compare(key, path, maximumBytes)),
          diff: (key, asked) => whileHere(diff(id, key, asked))
        }
      }
      return LocalTrees.of({
        own: (id) =>
          Effect.map(Effect.all([trees.has(id), trees.isWhole(id)]), ([isHere, isWhole]) => isHere && isWhole ? ownReader(id) : null),
        restored: (sandbox) => sandbox.checkpoint === 0 ? new AgentDisconnected() : Effect.succeed(readerOf(sandbox))
      })
    })
  )
}

/** Port: the way to the trees of a sandbox. Its readers pass the reading rules of `WorkingTreesContract`. */
export class RemoteTrees extends Context.Service<RemoteTrees, {
  /**
   * The trees of a running sandbox on its machine. The last checkpoint, if that machine is gone or the sandbox has ended. Fails if
   * neither can be reached. Use a reader for one request only, because the sandbox may move.
   */
  reach(sandbox: Sandbox): Effect.Effect<TreeReader, AgentDisconnected | StoreUnavailable>
}>()("@slipway/domain/RemoteTrees") {
  /** The trees of this process's own machine, for a service with one machine. */
  static readonly layerLocal = Layer.effect(
    RemoteTrees,
    Effect.map(LocalTrees, (here) =>
      RemoteTrees.of({
        reach: Effect.fnUntraced(function*(sandbox) {
          return (sandbox.status === "running" ? yield* here.own(sandbox.id) : null) ?? (yield* here.restored(sandbox))
        })
      }))
  )
}
