import { assert, it } from "@effect/vitest"
import { CheckpointTrees } from "@slipway/domain/files/ports/RemoteTrees"
import { TreesUnavailable, WorkingTrees } from "@slipway/domain/files/ports/WorkingTrees"
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { CheckpointNotFound, Checkpoints } from "@slipway/domain/sandbox/ports/Checkpoints"
import { SandboxHost } from "@slipway/domain/sandbox/ports/SandboxHost"
import { initial, type Sandbox } from "@slipway/domain/sandbox/rules/Sandbox"
import { SourceHost } from "@slipway/domain/source/ports/SourceHost"
import * as IdsNode from "@slipway/machine/node/IdsNode"
import * as CheckpointTreesOnDisk from "@slipway/worker/checkpoint/CheckpointTreesOnDisk"
import { DateTime, Deferred, Effect, Exit, Fiber, Layer, Scope, Stream } from "effect"
import { TestClock } from "effect/testing"
import * as CheckpointFormat from "../../src/checkpoint/CheckpointFormat.ts"

const at = DateTime.makeUnsafe(0)

const sandboxOf = (n: number, grantId = "grant", checkpoint = 1): Sandbox => ({
  ...initial({
    id: SandboxId.make(`c_${"x".repeat(10)}${String.fromCharCode(97 + Math.floor(n / 26), 97 + n % 26)}`),
    grantId,
    createdBy: "x",
    createdAt: at,
    title: "x",
    repos: [{ fullName: "acme/app" }],
    prompt: "x",
    model: "x",
    agentRuntime: "opencode",
    reasoningEffort: null,
    toolApprovalMode: "auto",
    metadata: {},
    origin: null,
    continues: null
  }),
  status: "succeeded",
  checkpoint
})

/** One machine, what it has restored, and what keeps it from restoring more. */
const machine = () => {
  const world = {
    begun: 0,
    bytes: 1,
    there: new Map<SandboxId, string>(),
    stopped: new Array<SandboxId>(),
    damaged: new Set<number>(),
    full: 0,
    gate: Effect.void as Effect.Effect<void>
  }
  const trees = Layer.mock(WorkingTrees, {
    folder: () => "",
    restore: (id, content, sources) =>
      Effect.gen(function*() {
        world.begun++
        if (world.full-- > 0) return yield* new TreesUnavailable({ detail: "full", retryable: true })
        const chunks = yield* Stream.runCollect(content)
        yield* world.gate
        world.there.set(id, new TextDecoder().decode(Buffer.concat(Array.from(chunks))))
        return sources.map(({ repo }) => ({ repo, sha: "1", bytes: world.bytes, baseSha: "0", baseRef: null }))
      }),
    remove: (id) => Effect.sync(() => void world.there.delete(id))
  })
  const checkpoints = Layer.mock(Checkpoints, {
    get: (id, checkpoint) =>
      world.damaged.has(checkpoint)
        ? Stream.fail(new CheckpointNotFound())
        : CheckpointFormat.write({
          // As an earlier version wrote it.
          of: null,
          runtime: "opencode",
          agentSession: null,
          home: Stream.make(new Uint8Array([1])),
          trees: Stream.make(new TextEncoder().encode(`${id} ${checkpoint}`))
        }),
    list: (_, after) =>
      Effect.succeed(
        [1, 2].filter((n) => n > after).map((checkpoint) => ({ checkpoint, turnId: null, createdAt: at, bytes: 1, repos: [] }))
      )
  })
  const layer = CheckpointTreesOnDisk.layer.pipe(Layer.provide([
    trees,
    checkpoints,
    IdsNode.layer,
    Layer.mock(SandboxHost, { isolation: "none", list: Effect.succeed([]), stop: (id) => Effect.sync(() => void world.stopped.push(id)) }),
    Layer.mock(SourceHost, {
      names: ["test"],
      nameOf: () => Effect.succeed("test"),
      remote: () => Effect.succeed({ url: "/x", authorization: null })
    })
  ]))
  return { world, layer }
}

const settle = Effect.forEach(Array.from({ length: 300 }), () => Effect.yieldNow, { discard: true })
const look = (sandbox: Sandbox) => Effect.scoped(CheckpointTrees.use((restored) => restored.find(sandbox)))
const failure = <A, E extends { readonly _tag: string }, R>(self: Effect.Effect<A, E, R>) =>
  Effect.map(Effect.flip(self), ({ _tag }) => _tag)

it.effect("restores once for all who ask, under an id that is no sandbox's and that the reaper knows", () => {
  const { layer, world } = machine()
  return Effect.gen(function*() {
    const sandbox = sandboxOf(0)
    const found = yield* Effect.all(Array.from({ length: 20 }, () => look(sandbox)), { concurrency: "unbounded" })
    assert.strictEqual(new Set(found).size, 1)
    const [id = sandbox.id] = found
    assert.notStrictEqual(id, sandbox.id)
    assert.strictEqual(world.begun, 1)
    assert.strictEqual(world.there.get(id), `${sandbox.id} 1`)
    const restored = yield* CheckpointTrees
    assert.isTrue(restored.has(id))
    assert.isFalse(restored.has(sandbox.id))
    // A later save has another identity.
    assert.notStrictEqual(yield* look(sandboxOf(0, "grant", 2)), id)
  }).pipe(Effect.provide(layer))
})

it.effect("takes the one before where the newest cannot be read, and leaves nothing where none can", () => {
  const { layer, world } = machine()
  return Effect.gen(function*() {
    world.damaged.add(2)
    const sandbox = sandboxOf(0, "grant", 2)
    assert.strictEqual(world.there.get(yield* look(sandbox)), `${sandbox.id} 1`)
    world.damaged.add(1)
    assert.strictEqual(yield* failure(look(sandboxOf(1, "grant", 2))), "AgentDisconnected")
    yield* settle
    assert.deepStrictEqual([world.there.size, world.stopped.length], [1, 1])
    // The next request tries it again.
    world.damaged.clear()
    yield* look(sandboxOf(1, "grant", 2))
  }).pipe(Effect.provide(layer))
})

it.effect("a caller waits at most 10 s, and the started work goes on", () => {
  const { layer, world } = machine()
  return Effect.gen(function*() {
    const open = yield* Deferred.make<void>()
    world.gate = Deferred.await(open)
    const asked = yield* Effect.forkChild(failure(look(sandboxOf(0))))
    yield* settle
    yield* TestClock.adjust("10 seconds")
    assert.strictEqual(yield* Fiber.join(asked), "AgentDisconnected")
    yield* Deferred.succeed(open, undefined)
    yield* look(sandboxOf(0))
    assert.strictEqual(world.begun, 1)
  }).pipe(Effect.provide(layer))
})

it.effect("a grant that looks at many sandboxes at once does not keep others from theirs", () => {
  const { layer, world } = machine()
  return Effect.gen(function*() {
    const open = yield* Deferred.make<void>()
    world.gate = Deferred.await(open)
    const many = yield* Effect.forEach(Array.from({ length: 12 }), (_, n) => Effect.forkChild(Effect.exit(look(sandboxOf(n, "greedy")))))
    yield* settle
    assert.strictEqual(world.begun, 1)
    world.gate = Effect.void
    yield* look(sandboxOf(20, "other"))
    yield* Deferred.succeed(open, undefined)
    const ends = yield* Effect.forEach(many, Fiber.join)
    // Those beyond the eighth come again.
    assert.strictEqual(ends.filter(Exit.isFailure).length, 4)
  }).pipe(Effect.provide(layer))
})

it.effect("keeps no more than there may be, and what is read as long as it is", () => {
  const { layer, world } = machine()
  return Effect.gen(function*() {
    const reading = yield* Scope.make()
    const held = yield* CheckpointTrees.use((restored) => Scope.provide(restored.find(sandboxOf(0)), reading))
    for (let n = 1; n < 20; n++) yield* look(sandboxOf(n))
    yield* settle
    assert.strictEqual(world.there.size, 16)
    assert.isTrue(world.there.has(held))
    world.bytes = CheckpointTreesOnDisk.KEPT_BYTES
    const large = yield* look(sandboxOf(30))
    yield* settle
    // The largest alone is too much with any other.
    assert.deepStrictEqual(Array.from(world.there.keys()), [held])
    assert.isFalse((yield* CheckpointTrees).has(large))
    yield* TestClock.adjust("30 minutes")
    yield* settle
    assert.strictEqual(world.there.size, 1)
    yield* Scope.close(reading, Exit.void)
    yield* TestClock.adjust("2 minutes")
    yield* settle
    assert.strictEqual(world.there.size, 0)
  }).pipe(Effect.provide(layer))
})

it.effect("makes room by removing unread trees when the disk refuses", () => {
  const { layer, world } = machine()
  return Effect.gen(function*() {
    const first = yield* look(sandboxOf(0))
    world.full = 1
    const second = yield* look(sandboxOf(1))
    assert.deepStrictEqual(Array.from(world.there.keys()), [second])
    assert.notStrictEqual(first, second)
  }).pipe(Effect.provide(layer))
})
