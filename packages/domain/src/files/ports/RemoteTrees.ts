/** Ports: the way to the trees of a sandbox, wherever they are, and what of them only a checkpoint has. */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import type { SandboxId } from "../../ids/SandboxId.ts"
import type { CheckpointNotFound } from "../../sandbox/ports/Checkpoints.ts"
import type { Sandbox } from "../../sandbox/rules/Sandbox.ts"
import type { StoreUnavailable } from "../../store/StoreUnavailable.ts"
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

/** The sandbox's files are there, but nobody who has them can be reached just now. Retrying after a moment may succeed. */
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
  /** Knows the commits of the sandbox's checkpoints too. `CheckpointNotFound`: one of them cannot be read any more. */
  diff(key: TreeKey, asked: DiffQuery): Effect.Effect<
    Uint8Array,
    AgentDisconnected | CheckpointNotFound | FileNotFound | FileTooLarge | TreesUnavailable | UnknownCommit
  >
}

/**
 * Port: trees on this machine that were made of checkpoints, to be read alone. They have ids of their own, so that nobody takes
 * them for those that a sandbox works in.
 */
export class CheckpointTrees extends Context.Service<CheckpointTrees, {
  /**
   * The id by which `WorkingTrees` has the trees of the sandbox's newest checkpoint that can be read; they stay until the scope
   * closes. Whoever asks waits up to 10 s; they go on being made after that, for those who ask again.
   */
  find(sandbox: Sandbox): Effect.Effect<SandboxId, AgentDisconnected, Scope.Scope>
  /**
   * Adds commits to those that a tree of this machine is compared with, from the checkpoints of the sandbox `of` that have them.
   * `UnknownCommit`: none has. `CheckpointNotFound`: what has one cannot be read. Whoever asks waits as for `find`.
   */
  learn(of: SandboxId, tree: TreeKey, commits: ReadonlyArray<string>): Effect.Effect<
    void,
    AgentDisconnected | CheckpointNotFound | TreesUnavailable | UnknownCommit
  >
  /** Whether such trees have this id, or are about to: whoever clears up leaves them alone. */
  has(id: SandboxId): boolean
}>()("@slipway/domain/CheckpointTrees") {
  /** Of nothing: what is not on this machine cannot be read. */
  static readonly layerNone = Layer.succeed(CheckpointTrees, {
    find: () => new AgentDisconnected(),
    learn: (_of, _tree, commits) => new UnknownCommit({ commits }),
    has: () => false
  })
}

/** The trees that can be read on this machine. */
export class LocalTrees extends Context.Service<LocalTrees, {
  /** The sandbox's own; `null`: they are not here, or not whole. */
  own(id: SandboxId): Effect.Effect<TreeReader | null>
  /** As its newest checkpoint has them. Fails when it has none. */
  restored(sandbox: Sandbox): Effect.Effect<TreeReader, AgentDisconnected>
}>()("@slipway/domain/LocalTrees") {
  static readonly layer = Layer.effect(
    LocalTrees,
    Effect.gen(function*() {
      const trees = yield* WorkingTrees
      const restored = yield* CheckpointTrees
      /** A sandbox that moved has trees that know its newest checkpoint alone. */
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
          open: (key, path, maximumBytes) => Effect.flatMap(find(key), (here) => trees.open(here, path, maximumBytes)),
          compare: (key, path, maximumBytes) => Effect.scoped(Effect.flatMap(find(key), (here) => trees.compare(here, path, maximumBytes))),
          diff: (key, asked) => Effect.scoped(Effect.flatMap(find(key), (here) => diff(sandbox.id, here, asked)))
        }
      }
      const ownReader = (id: SandboxId): TreeReader => {
        // A sandbox that goes back to a checkpoint, or moves, has no trees for a moment. That is no answer about a file.
        const whileHere = <A, E extends { readonly _tag: string }, R>(read: Effect.Effect<A, E | FileNotFound, R>) =>
          Effect.catchIf(
            read,
            (error) => error instanceof FileNotFound,
            (missing) => Effect.flatMap(trees.has(id), (isHere) => Effect.fail(isHere ? missing : new AgentDisconnected()))
          )
        return {
          list: (key, directory) => whileHere(trees.list(key, directory)),
          changes: (key) => whileHere(trees.changes(key)),
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
   * Those of a running sandbox where they are; where that machine is gone, and of one that is over, as the last checkpoint has
   * them. Fails when nobody is there who has them. A reader is good for one request: the sandbox may move.
   */
  reach(sandbox: Sandbox): Effect.Effect<TreeReader, AgentDisconnected | StoreUnavailable>
}>()("@slipway/domain/RemoteTrees") {
  /** The trees of this process's own machine, where there is no other. */
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
