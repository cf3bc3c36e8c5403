import { assert, describe, it } from "@effect/vitest"
import { CheckpointTrees, LocalTrees } from "@slipway/domain/files/ports/RemoteTrees"
import { WorkingTrees } from "@slipway/domain/files/ports/WorkingTrees"
import { MemoryDisk } from "@slipway/domain/memory/files/MemoryDisk"
import { MemoryRepositories } from "@slipway/domain/memory/files/MemoryRepositories"
import * as WorkingTreesMemory from "@slipway/domain/memory/files/WorkingTreesMemory"
import * as SourceHostMemory from "@slipway/domain/memory/source/SourceHostMemory"
import { SourceHost } from "@slipway/domain/source/ports/SourceHost"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { app, freshId, refusal } from "@slipway/testing/contracts/files/TreeFixtures"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"

const Memory = Layer.merge(
  LocalTrees.layer.pipe(Layer.provideMerge(WorkingTreesMemory.layer), Layer.provide(CheckpointTrees.layerNone)),
  SourceHostMemory.layer
).pipe(Layer.provideMerge(Layer.merge(MemoryDisk.layer, MemoryRepositories.layer)))

const started = Effect.gen(function*() {
  const { add } = yield* MemoryRepositories
  add(RepoName.make("acme/app"), {}).commit("main", { "a.txt": "one\n" })
  const key = { sandboxId: freshId(), repo: app }
  const remote = yield* (yield* SourceHost).remote(app, "read")
  yield* (yield* WorkingTrees).prepare(key, { remote, ref: undefined, defaultBranch: "main", repos: [app] })
  const reader = yield* (yield* LocalTrees).own(key.sandboxId)
  if (reader === null) return assert.fail("the trees are not here")
  return { key, reader }
})

describe("LocalTrees", () => {
  it.effect("a file that a tree does not have is not found", () =>
    Effect.gen(function*() {
      const { key, reader } = yield* started
      assert.strictEqual(yield* refusal(reader.open(key, "b.txt", 100)), "FileNotFound")
    }).pipe(Effect.provide(Memory)))

  it.effect("trees that were removed while they were read say nothing about files: the caller retries", () =>
    Effect.gen(function*() {
      const { key, reader } = yield* started
      yield* (yield* WorkingTrees).remove(key.sandboxId)
      const answers = [
        yield* refusal(reader.list(key, "")),
        yield* refusal(reader.changes(key)),
        yield* refusal(reader.open(key, "a.txt", 100)),
        yield* refusal(reader.compare(key, "a.txt", 100)),
        yield* refusal(reader.diff(key, { from: "base", to: "working", maximumBytes: 100 }))
      ]
      assert.deepStrictEqual(answers, Array.from({ length: 5 }, () => "AgentDisconnected"))
    }).pipe(Effect.provide(Memory)))
})
