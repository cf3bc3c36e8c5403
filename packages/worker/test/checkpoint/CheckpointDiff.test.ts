/** Differences between the checkpoints of a sandbox whose trees on this machine have only the newest one. */
import { assert, it } from "@effect/vitest"
import type { Principal } from "@slipway/domain/access/schema/Principal"
import { RemoteTrees, LocalTrees } from "@slipway/domain/files/ports/RemoteTrees"
import { TreesUnavailable, WorkingTrees } from "@slipway/domain/files/ports/WorkingTrees"
import { type Compared, Files } from "@slipway/domain/files/usecases/Files"
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { MemoryDisk, workspaceOf } from "@slipway/domain/memory/files/MemoryDisk"
import { MemoryRepositories } from "@slipway/domain/memory/files/MemoryRepositories"
import * as WorkingTreesMemory from "@slipway/domain/memory/files/WorkingTreesMemory"
import * as SourceHostMemory from "@slipway/domain/memory/source/SourceHostMemory"
import { type Checkpoint, CheckpointNotFound, Checkpoints } from "@slipway/domain/sandbox/ports/Checkpoints"
import { SandboxHost } from "@slipway/domain/sandbox/ports/SandboxHost"
import { SandboxStore } from "@slipway/domain/sandbox/ports/SandboxStore"
import { initial, type Sandbox } from "@slipway/domain/sandbox/rules/Sandbox"
import { SourceHost } from "@slipway/domain/source/ports/SourceHost"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import * as IdsNode from "@slipway/machine/node/IdsNode"
import * as CheckpointTreesOnDisk from "@slipway/worker/checkpoint/CheckpointTreesOnDisk"
import { DateTime, Deferred, Effect, Fiber, Layer, Result, Stream } from "effect"
import { TestClock } from "effect/testing"
import * as CheckpointFormat from "../../src/checkpoint/CheckpointFormat.ts"

const id = SandboxId.make("c_aaaaaaaaaaaa")
const repo = RepoName.make("acme/app")
const at = DateTime.makeUnsafe(0)

const sandbox: Sandbox = {
  ...initial({
    id,
    grantId: "grant",
    createdBy: "x",
    createdAt: at,
    title: "x",
    repos: [{ fullName: repo }],
    prompt: "x",
    model: "x",
    agentRuntime: "opencode",
    reasoningEffort: null,
    toolApprovalMode: "auto",
    metadata: {},
    origin: null,
    continues: null
  }),
  status: "running"
}

const by: Principal = {
  credential: { _tag: "Key", keyId: "x" },
  grantId: "grant",
  organizationId: "x",
  userId: "x",
  scopes: new Set(["sandboxes"]),
  test: false
}

interface Kept extends Checkpoint {
  readonly content: Uint8Array
}

/** A machine, and a sandbox that has checkpoints. */
const machine = () => {
  const world = {
    sandbox,
    kept: new Array<Kept>(),
    damaged: new Set<number>(),
    /** Checkpoints that were read, in order. */
    read: new Array<number>(),
    gate: Effect.void as Effect.Effect<void>,
    full: 0
  }
  const checkpoints = Layer.mock(Checkpoints, {
    get: (id, number) =>
      Stream.unwrap(Effect.gen(function*() {
        world.read.push(number)
        yield* world.gate
        const found = world.kept.find(({ checkpoint }) => checkpoint === number)
        if (found === undefined || world.damaged.has(number)) return yield* new CheckpointNotFound()
        return CheckpointFormat.write({
          of: { sandboxId: id, grantId: "grant", checkpoint: number },
          runtime: "opencode",
          agentSession: null,
          home: null,
          trees: Stream.make(found.content)
        })
      })),
    list: (_, after, limit) => Effect.succeed(world.kept.filter(({ checkpoint }) => checkpoint > after).slice(0, limit))
  })
  const trees = Layer.effect(
    WorkingTrees,
    Effect.map(WorkingTrees, (trees) =>
      WorkingTrees.of({
        ...trees,
        learn: (of, content) =>
          Effect.suspend(() =>
            world.full-- > 0 ? Effect.fail(new TreesUnavailable({ detail: "full", retryable: true })) : trees.learn(of, content)
          )
      }))
  ).pipe(Layer.provide(WorkingTreesMemory.layer))
  const layer = Files.layerReaching.pipe(
    Layer.provide(RemoteTrees.layerLocal),
    Layer.provide(LocalTrees.layer),
    Layer.provide(CheckpointTreesOnDisk.layer),
    Layer.provideMerge(Layer.mergeAll(
      trees,
      checkpoints,
      SourceHostMemory.layer,
      IdsNode.layer,
      Layer.mock(SandboxHost, { isolation: "none", list: Effect.succeed([]), stop: () => Effect.void }),
      Layer.mock(SandboxStore, { find: () => Effect.sync(() => world.sandbox) })
    )),
    Layer.provideMerge(Layer.merge(MemoryDisk.layer, MemoryRepositories.layer))
  )
  return { world, layer }
}

const write = (content: string) =>
  Effect.gen(function*() {
    const root = `${workspaceOf(id)}/app`
    const { files } = yield* MemoryDisk
    files.set(`${root}/v`, content)
  })

/** A sandbox that took a checkpoint of each of these, and has `working` now. */
const worked = Effect.fnUntraced(function*(world: ReturnType<typeof machine>["world"], versions: ReadonlyArray<string>, working: string) {
  const { add } = yield* MemoryRepositories
  add(repo, {}).commit("main", { v: "base\n" })
  const trees = yield* WorkingTrees
  const remote = yield* (yield* SourceHost).remote(repo, "read")
  yield* trees.prepare({ sandboxId: id, repo }, { remote, ref: undefined, defaultBranch: "main", repos: [repo] })
  for (const [i, version] of versions.entries()) {
    yield* write(version)
    const { content, repos } = yield* trees.save(id, [{ repo }])
    const bytes = Uint8Array.from(Buffer.concat(yield* Stream.runCollect(content)))
    world.kept.push({ checkpoint: i + 1, turnId: null, createdAt: at, bytes: bytes.length, repos, content: bytes })
  }
  yield* write(working)
  world.sandbox = { ...sandbox, checkpoint: versions.length }
  const newest = Stream.make(world.kept.at(-1)?.content ?? new Uint8Array())
  return {
    /** Its machine is gone, and this one goes on with it. */
    move: Effect.andThen(trees.remove(id), trees.restore(id, newest, [{ repo, remote }])),
    /** No worker works for it any more. */
    finish: Effect.andThen(trees.remove(id), Effect.sync(() => (world.sandbox = { ...world.sandbox, status: "succeeded" })))
  }
}, Effect.scoped)

/** The difference, or the tag of the error. */
const diff = (from: Compared, to: Compared, grantId = "grant") =>
  Files.use((files) => files.diff({ ...by, grantId }, id, { repo: undefined, from, to, path: undefined })).pipe(
    Effect.map((patch) => new TextDecoder().decode(patch)),
    Effect.result,
    Effect.map(Result.match({ onSuccess: (patch) => patch, onFailure: ({ _tag }) => _tag }))
  )
const settle = Effect.forEach(Array.from({ length: 300 }), () => Effect.yieldNow, { discard: true })

const VERSIONS: ReadonlyArray<Compared> = ["base", 1, 2, 3, "working"]
const all = Effect.forEach(VERSIONS, (from) => Effect.forEach(VERSIONS, (to) => diff(from, to)))

it.effect("tells between all that are listed what it told before its machine was gone, and reads each checkpoint once", () => {
  const { layer, world } = machine()
  return Effect.gen(function*() {
    const { move } = yield* worked(world, ["1\n", "2\n", "3\n"], "4\n")
    const before = yield* all
    assert.include(before[1]?.[3], "-1\n+3\n")
    assert.deepStrictEqual(world.read, [])
    yield* move
    yield* write("4\n")
    assert.deepStrictEqual(yield* all, before)
    assert.deepStrictEqual(world.read.toSorted(), [1, 2])
  }).pipe(Effect.provide(layer))
})

it.effect("tells it of a finished sandbox too, of which only checkpoints are left", () => {
  const { layer, world } = machine()
  return Effect.gen(function*() {
    const { finish } = yield* worked(world, ["1\n", "2\n", "3\n"], "3\n")
    const before = yield* all
    yield* finish
    assert.deepStrictEqual(yield* all, before)
    assert.deepStrictEqual(world.read.toSorted(), [1, 2, 3])
  }).pipe(Effect.provide(layer))
})

it.effect("an unreadable checkpoint is missing, unless another checkpoint has the same content; the others are there", () => {
  const { layer, world } = machine()
  return Effect.gen(function*() {
    const { move } = yield* worked(world, ["1\n", "2\n", "2\n", "4\n"], "4\n")
    yield* move
    world.damaged.add(1).add(3)
    assert.strictEqual(yield* diff(1, 4), "CheckpointNotFound")
    assert.strictEqual(yield* diff(2, 1), "CheckpointNotFound")
    assert.include(yield* diff(3, 4), "-2\n+4\n")
    assert.include(yield* diff("base", 2), "-base\n+2\n")
    // The next request tries it again.
    world.damaged.clear()
    assert.include(yield* diff(1, 4), "-1\n+4\n")
  }).pipe(Effect.provide(layer))
})

it.effect("a caller waits at most 10 s for two of them, and the started work goes on", () => {
  const { layer, world } = machine()
  return Effect.gen(function*() {
    const { move } = yield* worked(world, ["1\n", "2\n", "3\n"], "3\n")
    yield* move
    const open = yield* Deferred.make<void>()
    world.gate = Deferred.await(open)
    const asked = yield* Effect.forEach([1, 2], () => Effect.forkChild(diff(1, 2)))
    yield* settle
    yield* TestClock.adjust("10 seconds")
    assert.deepStrictEqual(yield* Effect.forEach(asked, Fiber.join), ["AgentDisconnected", "AgentDisconnected"])
    yield* Deferred.succeed(open, undefined)
    yield* settle
    assert.include(yield* diff(1, 2), "-1\n+2\n")
    assert.deepStrictEqual(world.read, [1, 2])
  }).pipe(Effect.provide(layer))
})

it.effect("callers that ask for very many wait for one another, and keep no other caller from its own", () => {
  const { layer, world } = machine()
  return Effect.gen(function*() {
    const { move } = yield* worked(world, Array.from({ length: 12 }, (_, n) => `${n + 1}\n`), "12\n")
    yield* move
    const open = yield* Deferred.make<void>()
    world.gate = Deferred.await(open)
    const many = yield* Effect.forEach(Array.from({ length: 10 }, (_, n) => n + 1), (n) => Effect.forkChild(diff(n, "working", "greedy")))
    yield* settle
    assert.strictEqual(world.read.length, 1)
    world.gate = Effect.void
    assert.include(yield* diff(11, 12, "other"), "-11\n+12\n")
    yield* Deferred.succeed(open, undefined)
    const answers = yield* Effect.forEach(many, Fiber.join)
    // Those beyond the eighth come again.
    assert.strictEqual(answers.filter((answer) => answer === "AgentDisconnected").length, 2)
  }).pipe(Effect.provide(layer))
})

it.effect("makes room by removing unread trees when the disk refuses, and says when it still does", () => {
  const { layer, world } = machine()
  return Effect.gen(function*() {
    const { move } = yield* worked(world, ["1\n", "2\n"], "2\n")
    yield* move
    world.full = 2
    assert.strictEqual(yield* diff(1, 2), "StoreUnavailable")
    world.full = 1
    assert.include(yield* diff(1, 2), "-1\n+2\n")
  }).pipe(Effect.provide(layer))
})
