/** Agents whose conversation names the paths that it was written under (docs/decisions/16). */
import { assert } from "@effect/vitest"
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { offlineDemo } from "@slipway/domain/models/schema/ModelCatalogue"
import { Sandboxes } from "@slipway/domain/sandbox/usecases/Sandboxes"
import { Deferred, Effect, Fiber, Option, Queue } from "effect"
import { type FakeAgent, message, pass, principal, running, say, scenario, startWorker, until, woken, type World } from "../Doubles.ts"

const elsewhere = { worker: "worker-2", machine: "machine-2" }
const told = "# What was said before\n\nThe files are as this conversation left them. Go on from it; do not answer it again.\n\n" +
  "## The person\n\nFix the header\n\n## You\n\nIt is fixed."

const answered = Effect.fnUntraced(function*(world: World) {
  const { agent, id } = yield* running(world)
  yield* agent.emit(say("m1", "It is fixed."))
  yield* agent.end({ state: "succeeded" })
  yield* until(id, ({ checkpoint }) => checkpoint === 1)
  return id
})

/** The agent that a message wakes on a machine that has nothing of the sandbox yet. */
const wokenElsewhere = Effect.fnUntraced(function*(world: World, id: SandboxId) {
  yield* startWorker(world, elsewhere)
  const waking = yield* Effect.forkChild(woken(world, id))
  yield* pass("6 minutes")
  return (yield* Fiber.join(waking)).agent
})

const known = ({ options: { instructions, resume } }: FakeAgent) => ({ resume, instructions })

scenario(
  "where the trees have another path, an agent that cannot bear that begins anew and is told what was said",
  (world) =>
    Effect.gen(function*() {
      world.bears = { workspace: false, home: true }
      world.machine("machine-2").path = "/other/trees"
      const first = yield* startWorker(world)
      const id = yield* answered(world)
      first.network = "hang"
      world.sessionId = "native-2"
      const agent = yield* wokenElsewhere(world, id)
      assert.deepStrictEqual(known(agent), { resume: null, instructions: told })
      yield* agent.end({ state: "succeeded" })
      yield* until(id, ({ checkpoint }) => checkpoint === 2)
      yield* pass("6 minutes")
      assert.isTrue(agent.closed)
      // There it goes on with that one from now on.
      assert.deepStrictEqual(known((yield* woken(world, id)).agent), { resume: "native-2", instructions: null })
    })
)

scenario("a worker that is killed before the agent began anew leaves that to the next one", (world) =>
  Effect.gen(function*() {
    world.bears = { workspace: false, home: true }
    world.machine("machine-2").path = "/other/trees"
    const first = yield* startWorker(world)
    const id = yield* answered(world)
    first.network = "hang"
    world.opening = Deferred.makeUnsafe()
    const second = yield* startWorker(world, elsewhere)
    yield* message(id, "Go on")
    yield* pass("6 minutes")
    assert.deepStrictEqual([...world.machine("machine-2").trees], [id])
    assert.strictEqual(world.agents.length, 1)
    second.network = "hang"
    world.opening = undefined
    yield* startWorker(world, { ...elsewhere, worker: "worker-3" })
    yield* pass("6 minutes")
    const agent = world.agents.at(-1)
    assert.deepStrictEqual(agent && known(agent), { resume: null, instructions: told })
  }))

for (const bears of [{ workspace: false, home: true }, { workspace: true, home: true }]) {
  scenario(
    `where the trees have ${bears.workspace ? "another path, an agent that bears that" : "the same path, any agent"} goes on`,
    (world) =>
      Effect.gen(function*() {
        world.bears = bears
        if (bears.workspace) world.machine("machine-2").path = "/other/trees"
        const first = yield* startWorker(world)
        const id = yield* answered(world)
        first.network = "hang"
        assert.deepStrictEqual(known(yield* wokenElsewhere(world, id)), { resume: "native-1", instructions: null })
      })
  )
}

for (const home of [true, false]) {
  scenario(
    `a fork has another home: an agent that ${home ? "bears that goes on" : "cannot bear that is told what was said"}`,
    (world) =>
      Effect.gen(function*() {
        world.bears = { workspace: true, home }
        yield* startWorker(world)
        const id = yield* answered(world)
        const asked = { prompt: "Try it in blue", model: offlineDemo.id, metadata: {} }
        yield* Sandboxes.use((sandboxes) => sandboxes.fork(principal, id, asked, Option.none()))
        const forked = yield* world.nextAgent
        assert.deepStrictEqual(known(forked), home ? { resume: "native-1", instructions: null } : { resume: null, instructions: told })
        assert.strictEqual((yield* Queue.take(forked.prompts)).text, "Try it in blue")
      })
  )
}
