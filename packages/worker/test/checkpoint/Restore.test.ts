/** Sandboxes that go back to a checkpoint because a person wants it (docs/decisions/16). */
import { assert } from "@effect/vitest"
import { CloneFailed } from "@slipway/domain/files/ports/WorkingTrees"
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { Checkpoints } from "@slipway/domain/sandbox/ports/Checkpoints"
import { HostError } from "@slipway/domain/sandbox/ports/SandboxHost"
import { Sandboxes } from "@slipway/domain/sandbox/usecases/Sandboxes"
import { Effect, Queue, Stream } from "effect"
import { eventsOf, find, message, pass, principal, REPO, running, scenario, startWorker, until, woken, type World } from "../Doubles.ts"

const goBack = (id: SandboxId, checkpoint: number) => Sandboxes.use((sandboxes) => sandboxes.restore(principal, id, checkpoint))
const restored = (id: SandboxId) => Effect.map(eventsOf(id, "sandbox.restored"), (all) => all.map(({ data }) => data))

/** Files of more than one frame of an archive. */
const treesOf = (name: string) => name.padEnd(150_000, ".")
const nameOf = (trees: string | undefined) => trees?.replace(/\.+$/u, "")

/** Two turns with a checkpoint each: `one` and `two` are what files, conversation and the agent's id of it say. */
const twice = Effect.fnUntraced(function*(world: World) {
  const { agent, id } = yield* running(world)
  const { homes, work } = world.machine("machine")
  const end = Effect.fnUntraced(function*(n: number, name: string) {
    work.set(id, treesOf(name))
    homes.set(id, name)
    agent.sessionId = name
    yield* agent.end({ state: "succeeded" })
    yield* until(id, ({ checkpoint }) => checkpoint === n)
  })
  yield* end(1, "one")
  yield* message(id, "More")
  yield* Queue.take(agent.prompts)
  yield* end(2, "two")
  return id
})

/** The state that a machine has of the sandbox, and with which the next agent goes on. */
const next = Effect.fnUntraced(function*(world: World, id: SandboxId, machine = "machine") {
  const { homes, work } = world.machine(machine)
  const seen = { files: nameOf(work.get(id)), home: homes.get(id) }
  const { agent: { options } } = yield* woken(world, id)
  return { ...seen, resume: options.resume, told: options.instructions }
})

/** The store gives other bytes of these checkpoints. */
const damaging = (numbers: ReadonlyArray<number>, damage: (bytes: Uint8Array<ArrayBuffer>) => Uint8Array) =>
  Effect.map(Checkpoints, (checkpoints) =>
    Checkpoints.of({
      ...checkpoints,
      get: (of, number) =>
        !numbers.includes(number)
          ? checkpoints.get(of, number)
          : Stream.unwrap(
            Effect.map(
              Stream.runCollect(checkpoints.get(of, number)),
              (chunks) => Stream.make(damage(new Uint8Array(chunks.flatMap((chunk) => [...chunk]))))
            )
          )
    }))
const cut = (bytes: Uint8Array) => bytes.slice(0, -20)

for (const [when, passes] of [["its agent is warm", "1 second"], ["it is at rest", "10 minutes"]] as const) {
  scenario(
    `a sandbox goes back while ${when}: the next turn has the files and the conversation of the checkpoint`,
    (world) =>
      Effect.gen(function*() {
        yield* startWorker(world)
        const id = yield* twice(world)
        yield* pass(passes)
        assert.strictEqual((yield* goBack(id, 1)).outcome, "applied")
        yield* until(id, ({ checkpoint, restoring }) => restoring === null && checkpoint === 3)
        assert.isTrue(world.agents[0]?.closed)
        assert.deepStrictEqual(yield* restored(id), [{ checkpoint: 1, cause: "command" }])
        assert.deepStrictEqual(yield* next(world, id), { files: "one", home: "one", resume: "one", told: null })
        assert.strictEqual((yield* find(id)).turn?.n, 3)
      })
  )
}

scenario("what is there is in a checkpoint of its own before a sandbox goes back", (world) =>
  Effect.gen(function*() {
    yield* startWorker(world)
    const id = yield* twice(world)
    world.saving = Effect.sleep("5 seconds")
    yield* message(id, "Still more")
    const [agent] = world.agents
    if (agent === undefined) return assert.fail("there is an agent")
    yield* Queue.take(agent.prompts)
    world.machine("machine").work.set(id, "three")
    yield* agent.end({ state: "succeeded" })
    yield* until(id, ({ turn }) => turn?.n === 3 && turn.state === "succeeded")
    yield* goBack(id, 1)
    yield* pass("1 second")
    assert.strictEqual(world.machine("machine").work.get(id), "three")
    yield* pass("20 seconds")
    const all = [...(yield* eventsOf(id, "sandbox.checkpoint")), ...(yield* eventsOf(id, "sandbox.restored"))]
    assert.deepStrictEqual(all.map(({ data }) => data.checkpoint), [1, 2, 3, 4, 1])
    yield* goBack(id, 3)
    yield* pass("20 seconds")
    assert.strictEqual(world.machine("machine").work.get(id), "three")
  }))

for (
  const [what, damage] of [
    ["are cut", cut],
    ["have another bit in their trees", (bytes: Uint8Array) => bytes.map((byte, i) => i === bytes.length - 30 ? byte ^ 1 : byte)]
  ] as const
) {
  scenario(
    `where all that is wanted back and all before it ${what}, everything stays, and the log says that nothing was restored`,
    (world) =>
      Effect.gen(function*() {
        yield* startWorker(world).pipe(Effect.provideServiceEffect(Checkpoints, damaging([1, 2], damage)))
        const id = yield* twice(world)
        const before = yield* find(id)
        yield* goBack(id, 2)
        const after = yield* until(id, ({ restoring, restores }) => restoring === null && restores === 1)
        const [event, ...more] = yield* restored(id)
        assert.deepStrictEqual([event?.cause, event?.checkpoint, event?.damaged, more.length], ["command", undefined, [2, 1], 0])
        assert.match(event?.error ?? "", /cannot be restored: It is (?:cut|changed)\./u)
        assert.deepStrictEqual([after.owesCheckpoint, after.checkpoint, after.turn], [false, 2, before.turn])
        assert.deepStrictEqual(yield* next(world, id), { files: "two", home: "two", resume: "two", told: null })
      })
  )
}

scenario(
  "where the source has the commits no more that a checkpoint starts from, the agent is told what was said instead",
  (world) =>
    Effect.gen(function*() {
      yield* startWorker(world)
      const id = yield* twice(world)
      const gone = new CloneFailed({ repo: REPO, detail: "it is gone", retryable: false })
      world.restoreFailures.push(gone)
      yield* goBack(id, 1)
      yield* until(id, ({ restoring, restores }) => restoring === null && restores === 1)
      assert.deepStrictEqual((yield* restored(id)).map(({ checkpoint, damaged }) => [checkpoint, damaged]), [[undefined, [1]]])
      const { files, resume, told } = yield* next(world, id)
      assert.deepStrictEqual([files, resume], ["two", null])
      assert.include(told ?? "", "## The person\n\nMore")
    })
)

scenario(
  "an agent without its session is told what was said up to the checkpoint that the sandbox went back to",
  (world) =>
    Effect.gen(function*() {
      yield* startWorker(world)
      const home = new HostError({ operation: "read", detail: "it is too much", retryable: false })
      world.readingHome = Effect.fail(home)
      const id = yield* twice(world)
      yield* goBack(id, 1)
      yield* until(id, ({ checkpoint, restoring }) => restoring === null && checkpoint === 3)
      const said = (told: string | null) => (told ?? "").split(/\n\n## (?:The person|You)\n\n/u).slice(1)
      const { agent } = yield* woken(world, id)
      assert.isNull(agent.options.resume)
      assert.deepStrictEqual(said(agent.options.instructions), ["Fix the header"])
      world.machine("machine").work.set(id, "four")
      yield* agent.end({ state: "succeeded" })
      yield* until(id, ({ checkpoint }) => checkpoint === 4)
      yield* goBack(id, 2)
      yield* until(id, ({ checkpoint, restoring }) => restoring === null && checkpoint === 5)
      // Forward again: what was undone once is there, what came after is not.
      assert.deepStrictEqual(said((yield* woken(world, id)).agent.options.instructions), ["Fix the header", "More"])
    })
)

scenario("a checkpoint that cannot be read is passed over for the one before it", (world) =>
  Effect.gen(function*() {
    yield* startWorker(world).pipe(Effect.provideServiceEffect(Checkpoints, damaging([2], cut)))
    const id = yield* twice(world)
    yield* goBack(id, 2)
    yield* until(id, ({ checkpoint, restoring }) => restoring === null && checkpoint === 3)
    assert.deepStrictEqual(yield* restored(id), [{ checkpoint: 1, cause: "command", damaged: [2] }])
    assert.deepStrictEqual(yield* next(world, id), { files: "one", home: "one", resume: "one", told: null })
  }))

for (
  const [whether, numbers, expected, files] of [
    ["goes back there", [], [{ checkpoint: 2, cause: "machine_lost" }, { checkpoint: 1, cause: "command" }], "one"],
    ["is not lost if that cannot be read", [1], [{ checkpoint: 2, cause: "machine_lost" }, { checkpoint: undefined, cause: "command" }],
      "two"]
  ] as const
) {
  scenario(
    `a sandbox whose machine is gone before it went back goes on elsewhere from its newest checkpoint, and ${whether}`,
    (world) =>
      Effect.gen(function*() {
        const first = yield* startWorker(world)
        const id = yield* twice(world)
        yield* pass("10 minutes")
        first.network = "hang"
        yield* goBack(id, 1)
        const elsewhere = { worker: "worker-2", machine: "machine-2" }
        yield* startWorker(world, elsewhere).pipe(Effect.provideServiceEffect(Checkpoints, damaging(numbers, cut)))
        yield* pass("7 minutes")
        assert.deepStrictEqual((yield* restored(id)).map(({ cause, checkpoint }) => ({ checkpoint, cause })), [...expected])
        assert.strictEqual((yield* find(id)).status, "running")
        assert.deepStrictEqual(yield* next(world, id, "machine-2"), { files, home: files, resume: files, told: null })
      })
  )
}
