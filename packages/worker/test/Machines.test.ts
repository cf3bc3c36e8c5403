/** Sandboxes that outlive their machine. */
import { assert } from "@effect/vitest"
import { CannotSave, TreesUnavailable } from "@slipway/domain/files/ports/WorkingTrees"
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { Checkpoints } from "@slipway/domain/sandbox/ports/Checkpoints"
import { HostError } from "@slipway/domain/sandbox/ports/SandboxHost"
import { SandboxStore } from "@slipway/domain/sandbox/ports/SandboxStore"
import { Policy } from "@slipway/domain/sandbox/rules/Policy"
import { decide } from "@slipway/domain/sandbox/rules/SystemCommand"
import { Sandboxes } from "@slipway/domain/sandbox/usecases/Sandboxes"
import { StoreUnavailable } from "@slipway/domain/store/StoreUnavailable"
import { DateTime, Deferred, Effect, Fiber, Queue, Result, Stream } from "effect"
import {
  create,
  eventsOf,
  type FakeAgent,
  find,
  message,
  pass,
  principal,
  publishRequested,
  running,
  scenario,
  settle,
  startWorker,
  until,
  woken,
  type World
} from "./Doubles.ts"

const elsewhere = { worker: "worker-2", machine: "machine-2" }
const restored = (id: SandboxId) => Effect.map(eventsOf(id, "sandbox.restored"), (all) => all.map(({ data }) => data))

/** A sandbox with one turn done, of which there is a checkpoint. */
const worked = Effect.fnUntraced(function*(world: World) {
  const { agent, id } = yield* running(world)
  world.machine("machine").work.set(id, "one")
  world.machine("machine").homes.set(id, "said one")
  yield* agent.end({ state: "succeeded" })
  yield* until(id, ({ checkpoint }) => checkpoint === 1)
  return { agent, id }
})

/** The next turn of an agent that is warm. */
const again = Effect.fnUntraced(function*(agent: FakeAgent, id: SandboxId) {
  yield* message(id, "More")
  yield* Queue.take(agent.prompts)
})

scenario(
  "a sandbox at rest whose machine is gone goes on elsewhere with its trees and its conversation",
  (world) =>
    Effect.gen(function*() {
      const first = yield* startWorker(world)
      const { id } = yield* worked(world)
      yield* pass("6 minutes")
      first.network = "hang"
      yield* startWorker(world, elsewhere)
      const waking = yield* Effect.forkChild(woken(world, id))
      yield* pass("6 minutes")
      assert.strictEqual((yield* Fiber.join(waking)).text, "Go on")
      assert.strictEqual(world.machine("machine-2").work.get(id), "one")
      assert.strictEqual(world.machine("machine-2").homes.get(id), "said one")
      assert.strictEqual(world.agents.at(-1)?.options.resume, "native-1")
      assert.deepStrictEqual(yield* restored(id), [{ checkpoint: 1, cause: "machine_lost" }])

      // The machine comes back, and gives up what it has.
      first.network = "ok"
      yield* pass("2 minutes")
      assert.deepStrictEqual([...world.machine("machine").trees], [])
      assert.deepStrictEqual([...world.machine("machine-2").trees], [id])
    })
)

scenario(
  "a machine that comes back empty tells that it went back to a checkpoint, however many tries that takes",
  (world) =>
    Effect.gen(function*() {
      yield* startWorker(world)
      const { id } = yield* worked(world)
      yield* pass("6 minutes")
      world.machine("machine").trees.delete(id)
      for (let n = 0; n < 4; n++) world.restoreAnswers.push(new TreesUnavailable({ detail: "The answer is lost.", retryable: true }))
      const waking = yield* Effect.forkChild(woken(world, id))
      yield* pass("1 minute")
      assert.strictEqual((yield* Fiber.join(waking)).text, "Go on")
      assert.deepStrictEqual(world.restoreAnswers, [])
      assert.deepStrictEqual(yield* restored(id), [{ checkpoint: 1, cause: "machine_lost" }])
    })
)

scenario(
  "a checkpoint without a conversation is gone on from with none, also by a worker that has nothing but the store's word for it",
  (world) =>
    Effect.gen(function*() {
      world.readingHome = Effect.fail(new HostError({ operation: "read", detail: "it is gone", retryable: false }))
      const first = yield* startWorker(world)
      const { id } = yield* worked(world)
      yield* pass("6 minutes")
      first.network = "hang"
      const second = yield* startWorker(world, elsewhere)
      world.opening = Deferred.makeUnsafe()
      yield* message(id, "Go on")
      yield* pass("6 minutes")
      assert.deepStrictEqual(yield* restored(id), [{ checkpoint: 1, cause: "machine_lost" }])
      // Before any agent had begun a conversation here.
      second.network = "hang"
      world.opening = undefined
      yield* startWorker(world, { ...elsewhere, worker: "worker-3" })
      yield* pass("1 minute")
      assert.deepStrictEqual(world.agents.map(({ options }) => options.resume), [null, null])
    })
)

scenario("a turn that ran on a machine that is gone has failed, and the sandbox goes on from before it", (world) =>
  Effect.gen(function*() {
    const first = yield* startWorker(world)
    const { id } = yield* worked(world)
    yield* woken(world, id).pipe(Effect.timeoutOption("1 second"), Effect.forkChild)
    yield* until(id, ({ turn }) => turn?.n === 2 && turn.state === "running")
    world.machine("machine").work.set(id, "two, half done")
    first.network = "hang"
    yield* startWorker(world, elsewhere)
    yield* pass("6 minutes")
    assert.deepStrictEqual((yield* eventsOf(id, "turn.completed")).at(-1)?.data, {
      state: "failed",
      reason: "machine_lost",
      initiator: "provider"
    })
    const { turn } = yield* find(id)
    assert.deepStrictEqual(yield* restored(id), [{ checkpoint: 1, cause: "machine_lost", lost_turn: turn?.id ?? "" }])
    assert.strictEqual(world.machine("machine-2").work.get(id), "one")
  }))

scenario("a machine that is asked to end leaves everything in checkpoints, and others go on at once", (world) =>
  Effect.gen(function*() {
    const first = yield* startWorker(world)
    const { id } = yield* worked(world)
    const other = yield* running(world)
    world.machine("machine").work.set(other.id, "half done")
    yield* first.shutDown
    assert.deepStrictEqual((yield* eventsOf(other.id, "turn.completed")).map(({ data }) => data.reason), ["worker_shutdown"])
    assert.strictEqual((yield* find(other.id)).checkpoint, 1)
    yield* startWorker(world, elsewhere)
    yield* woken(world, id)
    yield* woken(world, other.id)
    assert.strictEqual(world.machine("machine-2").work.get(other.id), "half done")
    assert.deepStrictEqual([yield* restored(id), yield* restored(other.id)], [
      [{ checkpoint: 1, cause: "machine_drained" }],
      [{ checkpoint: 1, cause: "machine_drained" }]
    ])
  }))

scenario(
  "a sandbox that is terminated while its checkpoint is taken has that one, and no other is begun",
  (world) =>
    Effect.gen(function*() {
      yield* startWorker(world)
      const { agent, id } = yield* running(world)
      let begun = 0
      world.saving = Effect.suspend(() => {
        begun++
        return Effect.sleep("5 seconds")
      })
      yield* agent.end({ state: "succeeded" })
      yield* pass("2 seconds")
      yield* Sandboxes.use((sandboxes) => sandboxes.terminate(principal, id))
      yield* pass("2 seconds")
      assert.strictEqual((yield* find(id)).status, "terminating")
      assert.isTrue(agent.closed)
      yield* pass("2 seconds")
      yield* settle
      assert.deepInclude(yield* find(id), { status: "terminated", checkpoint: 1 })
      assert.strictEqual(begun, 1)
    })
)

scenario("a worker that is stopped waits for a checkpoint as long as one may take", (world) =>
  Effect.gen(function*() {
    const first = yield* startWorker(world)
    const { id } = yield* running(world)
    world.machine("machine").work.set(id, "half done")
    world.saving = Effect.sleep("59 seconds")
    const stopping = yield* Effect.forkChild(first.shutDown)
    yield* pass("58 seconds")
    assert.strictEqual((yield* find(id)).checkpoint, 0)
    yield* pass("5 seconds")
    yield* Fiber.join(stopping)
    assert.strictEqual((yield* find(id)).checkpoint, 1)
    yield* startWorker(world, elsewhere)
    world.saving = Effect.void
    yield* woken(world, id)
    assert.strictEqual(world.machine("machine-2").work.get(id), "half done")
  }))

scenario(
  "what a worker could not save before it had to end stays with its machine, which goes on with it when it is back",
  (world) =>
    Effect.gen(function*() {
      const first = yield* startWorker(world, { shutdown: "10 seconds" })
      const { agent, id } = yield* worked(world)
      yield* again(agent, id)
      world.machine("machine").work.set(id, "two")
      world.saving = Effect.never
      yield* agent.end({ state: "succeeded" })
      yield* until(id, ({ turn }) => turn?.n === 2 && turn.state === "succeeded")
      const stopping = yield* Effect.forkChild(first.shutDown)
      yield* pass("11 seconds")
      yield* Fiber.join(stopping)
      assert.strictEqual((yield* find(id)).checkpoint, 1)

      world.saving = Effect.void
      yield* startWorker(world, elsewhere)
      yield* pass("2 minutes")
      assert.deepStrictEqual([...world.machine("machine-2").trees], [])
      yield* startWorker(world, { worker: "worker-3" })
      yield* pass("5 seconds")
      assert.deepStrictEqual([(yield* find(id)).checkpoint, yield* restored(id)], [2, []])
      assert.strictEqual(world.machine("machine").work.get(id), "two")
    })
)

scenario(
  "a machine that is asked to end while nothing of it is held gives up what rests there, and others go on at once",
  (world) =>
    Effect.gen(function*() {
      const first = yield* startWorker(world)
      const { id } = yield* worked(world)
      yield* pass("6 minutes")
      yield* first.shutDown
      yield* startWorker(world, elsewhere)
      yield* woken(world, id)
      assert.deepStrictEqual(yield* restored(id), [{ checkpoint: 1, cause: "machine_drained" }])
    })
)

scenario(
  "a worker that dies as it takes what another machine had leaves nothing that the next one there takes for the files",
  (world) =>
    Effect.gen(function*() {
      const first = yield* startWorker(world)
      const { id } = yield* worked(world)
      first.network = "hang"
      // The trees are of an earlier stay.
      const other = world.machine("machine-2")
      other.trees.add(id)
      other.work.set(id, "older")
      const checkpoints = yield* Checkpoints
      const second = yield* startWorker(world, elsewhere).pipe(
        Effect.provideService(Checkpoints, Checkpoints.of({ ...checkpoints, get: () => Stream.never }))
      )
      second.network = "ok"
      yield* Effect.forkChild(message(id, "Go on"))
      yield* pass("5 minutes")
      yield* pass("1 minute")
      assert.deepStrictEqual(yield* restored(id), [])
      // Its restoring went no further, but what the host left says otherwise.
      second.network = "hang"
      other.trees.add(id)
      other.work.set(id, "older")
      yield* startWorker(world, { worker: "worker-3", machine: "machine-2" })
      yield* pass("1 minute")
      assert.strictEqual((yield* find(id)).turn?.state, "running")
      assert.deepStrictEqual(yield* restored(id), [{ checkpoint: 1, cause: "machine_lost" }])
      assert.strictEqual(other.work.get(id), "one")
    })
)

scenario("a turn may end while its worker waits for it, and nothing is begun meanwhile", (world) =>
  Effect.gen(function*() {
    const first = yield* startWorker(world, { drain: "8 seconds" })
    const { agent, id } = yield* running(world)
    const stopping = yield* Effect.forkChild(first.shutDown)
    yield* pass("5 seconds")
    assert.strictEqual((yield* find(id)).turn?.state, "running")
    const late = yield* create()
    yield* agent.end({ state: "succeeded" })
    yield* Fiber.join(stopping)
    assert.strictEqual((yield* find(id)).turn?.state, "succeeded")
    assert.strictEqual((yield* find(id)).checkpoint, 1)
    assert.strictEqual((yield* find(late)).status, "queued")
  }))

scenario(
  "a store that is down while a checkpoint is taken costs nothing: it is taken when it is there again",
  (world) =>
    Effect.gen(function*() {
      const worker = yield* startWorker(world)
      const { agent, id } = yield* running(world)
      world.saving = Effect.sync(() => void (worker.network = "fail"))
      yield* agent.end({ state: "succeeded" })
      yield* until(id, ({ turn }) => turn?.state === "succeeded")
      yield* pass("10 seconds")
      assert.strictEqual((yield* find(id)).checkpoint, 0)
      world.saving = Effect.void
      worker.network = "ok"
      yield* pass("10 seconds")
      assert.strictEqual((yield* find(id)).checkpoint, 1)
    })
)

scenario("a tree that cannot be saved is told, and the sandbox works on", (world) =>
  Effect.gen(function*() {
    yield* startWorker(world)
    const { agent, id } = yield* running(world)
    world.saving = Effect.sleep("11 minutes")
    yield* agent.end({ state: "succeeded" })
    yield* pass("30 seconds")
    yield* message(id, "More")
    yield* pass("11 seconds")
    yield* Queue.take(agent.prompts)
    world.saving = Effect.fail(new CannotSave({ repo: "acme/site", detail: "it is too large", retryable: false }))
    yield* agent.end({ state: "succeeded" })
    yield* until(id, ({ owesCheckpoint, turn }) => turn?.n === 2 && turn.state === "succeeded" && !owesCheckpoint)
    assert.deepStrictEqual((yield* eventsOf(id, "sandbox.checkpoint")).map(({ data }) => data.error), [
      "The checkpoint gave way to a turn that waited 10 seconds for it. It is tried again when that turn ends.",
      "could not save acme/site: it is too large"
    ])
  }))

scenario("a checkpoint takes as long as it needs while no caller waits for it", (world) =>
  Effect.gen(function*() {
    yield* startWorker(world)
    const { agent, id } = yield* running(world)
    world.saving = Effect.sleep("2 minutes")
    yield* agent.end({ state: "succeeded" })
    yield* pass("110 seconds")
    assert.strictEqual((yield* find(id)).checkpoint, 0)
    yield* pass("15 seconds")
    assert.strictEqual((yield* find(id)).checkpoint, 1)
    assert.deepStrictEqual((yield* eventsOf(id, "sandbox.checkpoint")).map(({ data }) => data.error), [undefined])
  }))

scenario(
  "a checkpoint gives way to a turn that waited for it, says so, and is tried again when that turn ends",
  (world) =>
    Effect.gen(function*() {
      yield* startWorker(world)
      const { agent, id } = yield* running(world)
      world.saving = Effect.sleep("2 minutes")
      yield* agent.end({ state: "succeeded" })
      yield* pass("30 seconds")
      yield* message(id, "Go on")
      yield* pass("9 seconds")
      assert.strictEqual((yield* find(id)).turn?.state, "pending")
      yield* pass("2 seconds")
      assert.strictEqual((yield* find(id)).turn?.state, "running")
      assert.isTrue((yield* find(id)).pinned)
      world.saving = Effect.void
      yield* agent.end({ state: "succeeded" })
      yield* until(id, ({ checkpoint }) => checkpoint === 1)
      assert.deepStrictEqual((yield* eventsOf(id, "sandbox.checkpoint")).map(({ data }) => data.error), [
        "The checkpoint gave way to a turn that waited 10 seconds for it. It is tried again when that turn ends.",
        undefined
      ])
    })
)

/** A sandbox with one checkpoint, and a turn after it that is in none. */
const pinned = Effect.fnUntraced(function*(world: World) {
  const { agent, id } = yield* worked(world)
  yield* until(id, ({ owesCheckpoint }) => !owesCheckpoint)
  yield* again(agent, id)
  world.machine("machine").work.set(id, "two")
  world.saving = Effect.fail(new CannotSave({ repo: "acme/site", detail: "it is too large", retryable: false }))
  yield* agent.end({ state: "succeeded" })
  yield* until(id, (sandbox) => sandbox.pinned)
  return { agent, id }
})
const errors = (id: SandboxId) => Effect.map(eventsOf(id, "sandbox.checkpoint"), (all) => all.map(({ data }) => data.error))

scenario(
  "what could not go into a checkpoint stays with its machine when that is drained, and goes on when that is back",
  (world) =>
    Effect.gen(function*() {
      const first = yield* startWorker(world)
      const { id } = yield* pinned(world)
      // At rest: no worker holds it.
      yield* pass("6 minutes")
      yield* first.shutDown
      yield* startWorker(world, elsewhere)
      yield* message(id, "Go on")
      yield* pass("4 minutes")
      assert.strictEqual((yield* find(id)).turn?.state, "pending")
      yield* startWorker(world, { worker: "worker-3" })
      const next = yield* world.nextAgent
      assert.strictEqual((yield* Queue.take(next.prompts)).text, "Go on")
      assert.strictEqual(world.machine("machine").work.get(id), "two")
      assert.deepStrictEqual([...world.machine("machine-2").trees], [])
      assert.deepStrictEqual(yield* restored(id), [])
    })
)

scenario(
  "what could not go into a checkpoint is lost with a machine that does not come back, and the log says so",
  (world) =>
    Effect.gen(function*() {
      const first = yield* startWorker(world)
      const { id } = yield* pinned(world)
      yield* first.shutDown
      yield* startWorker(world, elsewhere)
      yield* Effect.forkChild(woken(world, id))
      yield* pass("6 minutes")
      assert.strictEqual(world.machine("machine-2").work.get(id), "one")
      assert.deepStrictEqual(yield* restored(id), [{ checkpoint: 1, cause: "machine_lost" }])
    })
)

scenario("what could not go into a checkpoint goes into one at a drain, if it can by then", (world) =>
  Effect.gen(function*() {
    const first = yield* startWorker(world)
    const { id } = yield* pinned(world)
    world.saving = Effect.void
    yield* first.shutDown
    assert.strictEqual((yield* find(id)).checkpoint, 2)
    yield* startWorker(world, elsewhere)
    yield* woken(world, id)
    assert.strictEqual(world.machine("machine-2").work.get(id), "two")
    assert.deepStrictEqual(yield* restored(id), [{ checkpoint: 2, cause: "machine_drained" }])
  }))

scenario(
  "what could not go into a checkpoint is tried again when the sandbox comes to rest, and once only",
  (world) =>
    Effect.gen(function*() {
      yield* startWorker(world)
      const { id } = yield* pinned(world)
      yield* pass("10 minutes")
      assert.deepStrictEqual((yield* errors(id)).slice(1).map((error) => error !== undefined), [true, true])
      world.saving = Effect.void
      const { agent } = yield* woken(world, id)
      yield* agent.end({ state: "succeeded" })
      yield* until(id, (sandbox) => !sandbox.pinned && sandbox.checkpoint === 2)
    })
)

for (
  const [name, damage] of [
    ["cut", (bytes: Uint8Array) => bytes.slice(0, -20)],
    ["changed", (bytes: Uint8Array) => bytes.map((byte, i) => i === bytes.length - 30 ? byte ^ 1 : byte)]
  ] as const
) {
  scenario(`a checkpoint that is ${name} is passed over for the one before, and the log says so`, (world) =>
    Effect.gen(function*() {
      const first = yield* startWorker(world)
      const { agent, id } = yield* worked(world)
      yield* until(id, ({ owesCheckpoint }) => !owesCheckpoint)
      yield* again(agent, id)
      world.machine("machine").work.set(id, "two")
      yield* agent.end({ state: "succeeded" })
      yield* until(id, ({ checkpoint }) => checkpoint === 2)
      first.network = "hang"
      const checkpoints = yield* Checkpoints
      const damaged = Checkpoints.of({
        ...checkpoints,
        get: (of, number) => {
          if (number !== 2) return checkpoints.get(of, number)
          return Stream.unwrap(Effect.map(Stream.runCollect(checkpoints.get(of, number)), (chunks) =>
            Stream.make(damage(new Uint8Array(chunks.flatMap((chunk) => [...chunk]))))))
        }
      })
      yield* startWorker(world, elsewhere).pipe(Effect.provideService(Checkpoints, damaged))
      yield* Effect.forkChild(woken(world, id))
      yield* pass("6 minutes")
      assert.deepStrictEqual(yield* restored(id), [{ checkpoint: 1, cause: "machine_lost", damaged: [2] }])
      assert.strictEqual(world.machine("machine-2").work.get(id), "one")
    }))
}

/** The store gives out the bytes of `instead` as those of the checkpoint. */
const swapped = (instead: { readonly id: SandboxId; readonly checkpoint: number }, id: SandboxId, checkpoint: number) =>
  Effect.map(Checkpoints, (checkpoints) =>
    Checkpoints.of({
      ...checkpoints,
      get: (of, number) =>
        of === id && number === checkpoint ? checkpoints.get(instead.id, instead.checkpoint) : checkpoints.get(of, number)
    }))

for (const which of ["another sandbox's", "an earlier one of its own"] as const) {
  scenario(`bytes that are ${which} are passed over for the checkpoint before, and the log says so`, (world) =>
    Effect.gen(function*() {
      const first = yield* startWorker(world)
      const other = yield* worked(world)
      yield* until(other.id, ({ owesCheckpoint }) => !owesCheckpoint)
      const { agent, id } = yield* worked(world)
      yield* until(id, ({ owesCheckpoint }) => !owesCheckpoint)
      yield* again(agent, id)
      world.machine("machine").work.set(id, "two")
      yield* agent.end({ state: "succeeded" })
      yield* until(id, ({ checkpoint }) => checkpoint === 2)
      first.network = "hang"
      const instead = which === "another sandbox's" ? { id: other.id, checkpoint: 1 } : { id, checkpoint: 1 }
      yield* startWorker(world, elsewhere).pipe(Effect.provideServiceEffect(Checkpoints, swapped(instead, id, 2)))
      yield* Effect.forkChild(woken(world, id))
      yield* pass("6 minutes")
      assert.deepStrictEqual(yield* restored(id), [{ checkpoint: 1, cause: "machine_lost", damaged: [2] }])
      assert.strictEqual(world.machine("machine-2").work.get(id), "one")
    }))
}

scenario(
  "a machine lost before an agent took the first turn costs nothing: the sandbox is cloned again",
  (world) =>
    Effect.gen(function*() {
      const first = yield* startWorker(world)
      const id = yield* create()
      yield* until(id, ({ status }) => status === "creating" || status === "running")
      const store = yield* SandboxStore
      const limits = yield* Policy
      const now = yield* DateTime.now
      first.network = "hang"
      yield* store.change(
        id,
        "policy",
        (sandbox) =>
          sandbox.status === "running" ? Result.succeed([]) : decide(sandbox, { _tag: "FinishBoot", turnId: "turn-1" }, { limits, now }),
        now
      )
      assert.isNull((yield* find(id)).turn?.startedAt)
      world.agents.length = 0
      yield* startWorker(world, elsewhere)
      yield* pass("6 minutes")
      assert.strictEqual((yield* find(id)).turn?.state, "running")
      assert.deepStrictEqual([...world.machine("machine-2").trees], [id])
      assert.deepStrictEqual(yield* restored(id), [])
    })
)

scenario("a publication whose machine is gone is carried out from the checkpoint", (world) =>
  Effect.gen(function*() {
    const first = yield* startWorker(world)
    const { id } = yield* worked(world)
    first.network = "hang"
    yield* publishRequested(id)
    yield* startWorker(world, elsewhere)
    yield* pass("6 minutes")
    assert.strictEqual((yield* find(id)).publications[0]?.actionState, "idle")
    assert.strictEqual(world.agents.length, 1)
  }))

scenario(
  "a sandbox that is over is published by any machine at once, from its last checkpoint: nothing was lost, and no restore is told",
  (world) =>
    Effect.gen(function*() {
      const first = yield* startWorker(world)
      const { id } = yield* worked(world)
      yield* until(id, ({ owesCheckpoint }) => !owesCheckpoint)
      yield* pass("31 minutes")
      assert.strictEqual((yield* find(id)).status, "succeeded")
      yield* settle
      assert.deepStrictEqual([...world.machine("machine").trees], [])
      first.network = "hang"
      yield* startWorker(world, elsewhere)
      let pushed: string | undefined
      world.pushing = Effect.sync(() => void (pushed = world.machine("machine-2").work.get(id)))
      yield* publishRequested(id)
      yield* pass("2 seconds")
      const { publications, status } = yield* find(id)
      assert.deepStrictEqual([publications[0]?.actionState, publications[0]?.error, status], ["idle", null, "succeeded"])
      assert.strictEqual(pushed, "one")
      assert.deepStrictEqual(yield* restored(id), [])
      yield* settle
      assert.deepStrictEqual([...world.machine("machine-2").trees], [])
    })
)

scenario(
  "a machine that ends while nothing can be stored keeps what it has for itself, and does not wait for ever",
  (world) =>
    Effect.gen(function*() {
      const checkpoints = yield* Checkpoints
      const put = () => Effect.fail(new StoreUnavailable({ cause: "down" }))
      const first = yield* startWorker(world).pipe(Effect.provideService(Checkpoints, Checkpoints.of({ ...checkpoints, put })))
      const { id } = yield* running(world)
      world.machine("machine").work.set(id, "half done")
      const ending = yield* Effect.forkChild(first.shutDown)
      yield* pass("2 minutes")
      yield* Fiber.join(ending)
      assert.deepStrictEqual((yield* eventsOf(id, "turn.completed")).map(({ data }) => data.reason), ["worker_shutdown"])
      assert.deepStrictEqual([(yield* find(id)).checkpoint, (yield* find(id)).owesCheckpoint], [0, true])
      yield* startWorker(world, elsewhere)
      yield* pass("2 minutes")
      assert.deepStrictEqual([...world.machine("machine-2").trees], [])
      assert.strictEqual((yield* find(id)).status, "running")
      // Its own one comes back, and nothing is lost.
      yield* startWorker(world)
      yield* pass("5 seconds")
      assert.deepStrictEqual([(yield* find(id)).checkpoint, yield* restored(id)], [1, []])
      assert.strictEqual(world.machine("machine").work.get(id), "half done")
    })
)
