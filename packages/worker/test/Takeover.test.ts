import { assert } from "@effect/vitest"
import { Ids } from "@slipway/domain/ids/Ids"
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { Leases } from "@slipway/domain/sandbox/ports/Leases"
import { questionsOf } from "@slipway/domain/sandbox/rules/Question"
import { turnId } from "@slipway/domain/sandbox/rules/Turn"
import { Sandboxes } from "@slipway/domain/sandbox/usecases/Sandboxes"
import { StoreUnavailable } from "@slipway/domain/store/StoreUnavailable"
import { Deferred, type Duration, Effect, Fiber, Queue } from "effect"
import * as LeasedSandbox from "../src/shared/LeasedSandbox.ts"
import {
  ask,
  create,
  events,
  eventsOf,
  find,
  inquire,
  message,
  pass,
  principal,
  publishRequested,
  REPO,
  running,
  say,
  scenario,
  settle,
  startWorker,
  stealLease,
  until,
  woken
} from "./Doubles.ts"

const other = { worker: "worker-2" }

scenario(
  "a sandbox whose worker was never told that it has it is taken again when the lease ends, by the same worker too",
  (world) =>
    Effect.gen(function*() {
      const leases = yield* Leases
      let lost = 0
      const take: typeof leases.take = (by, room) =>
        Effect.flatMap(leases.take(by, room), (leased) => {
          if (leased.length === 0 || lost > 0) return Effect.succeed(leased)
          lost += leased.length
          return Effect.fail(new StoreUnavailable({ cause: "cut" }))
        })
      yield* startWorker(world).pipe(Effect.provideService(Leases, { ...leases, take }))
      const id = yield* create()
      yield* pass("29 seconds")
      assert.deepStrictEqual([lost, world.agents.length], [1, 0])
      yield* pass("3 seconds")
      assert.strictEqual(world.agents.length, 1)
      assert.strictEqual((yield* find(id)).status, "running")
    })
)

scenario(
  "a worker that vanishes is replaced when its lease ends; the running turn fails, the agent is resumed",
  (world) =>
    Effect.gen(function*() {
      const first = yield* startWorker(world)
      const { agent, id } = yield* running(world)
      first.network = "hang"
      yield* startWorker(world, other)
      yield* pass("25 seconds")
      assert.strictEqual(world.agents.length, 1)
      yield* pass("10 seconds")

      assert.deepStrictEqual((yield* eventsOf(id, "turn.completed")).map(({ data }) => data), [
        { state: "failed", reason: "agent_lost", initiator: "provider" }
      ])
      assert.isTrue(agent.closed)
      const second = yield* woken(world, id)
      assert.strictEqual(second.agent.options.resume, "native-1")
      assert.strictEqual(second.text, "Go on")
      assert.strictEqual((yield* find(id)).status, "running")
    })
)

const answersTo = (id: SandboxId) => Effect.map(eventsOf(id, "question.answered"), (all) => all.map(({ data }) => data))
const answered = { answers: { 1: { labels: ["a"] } } }
const answer = (id: SandboxId) => Sandboxes.use((sandboxes) => sandboxes.answerQuestion(principal, id, "q1", answered))

scenario(
  "a question of an agent whose worker vanishes ends with its turn, without an answer, and no other agent hears one",
  (world) =>
    Effect.gen(function*() {
      const first = yield* startWorker(world)
      const { agent, id } = yield* running(world)
      yield* agent.emit(inquire("q1"))
      yield* until(id, (sandbox) => questionsOf(sandbox).length === 1)
      first.network = "hang"
      yield* startWorker(world, other)
      yield* pass("35 seconds")

      assert.deepStrictEqual(yield* answersTo(id), [{ question_id: "q1", by: "turn_end" }])
      assert.deepStrictEqual((yield* eventsOf(id, "turn.completed")).map(({ data }) => data), [
        { state: "failed", reason: "agent_lost", initiator: "provider" }
      ])
      assert.strictEqual((yield* answer(id)).rejection, "question_already_answered")
      const second = yield* woken(world, id)
      yield* settle
      assert.deepStrictEqual(world.agents.map(({ answers }) => answers), [[], []])
      assert.strictEqual(second.text, "Go on")
    })
)

scenario(
  "an answer that comes while the worker is cut off counts, and the agent of the next worker does not hear it",
  (world) =>
    Effect.gen(function*() {
      const first = yield* startWorker(world)
      const { agent, id } = yield* running(world)
      yield* agent.emit(inquire("q1"))
      yield* until(id, (sandbox) => questionsOf(sandbox).length === 1)
      first.network = "hang"
      assert.strictEqual((yield* answer(id)).outcome, "applied")
      yield* startWorker(world, other)
      yield* pass("35 seconds")
      yield* woken(world, id)
      yield* settle
      assert.deepStrictEqual(yield* answersTo(id), [{ question_id: "q1", by: "user", ...answered }])
      assert.deepStrictEqual((yield* eventsOf(id, "turn.completed")).map(({ data }) => data.reason), ["agent_lost"])
      assert.deepStrictEqual(world.agents.map(({ answers }) => answers), [[], []])
    })
)

scenario("a question ends with the agent that asked it", (world) =>
  Effect.gen(function*() {
    yield* startWorker(world)
    const { agent, id } = yield* running(world)
    yield* agent.emit(inquire("q1"))
    yield* until(id, (sandbox) => questionsOf(sandbox).length === 1)
    yield* agent.crash()
    yield* until(id, ({ idleSince }) => idleSince !== null)
    assert.deepStrictEqual(yield* answersTo(id), [{ question_id: "q1", by: "turn_end" }])
    assert.deepStrictEqual((yield* eventsOf(id, "turn.completed")).map(({ data }) => data.reason), ["agent_lost"])
    assert.strictEqual((yield* answer(id)).rejection, "question_already_answered")
  }))

scenario("what a replaced worker still writes changes nothing", (world) =>
  Effect.gen(function*() {
    const first = yield* startWorker(world)
    const { agent, id } = yield* running(world)
    first.network = "hang"
    yield* agent.emit(say("m1", "from the past"))
    yield* startWorker(world, other)
    yield* pass("40 seconds")
    yield* woken(world, id)
    yield* settle
    const before = yield* events(id)
    first.network = "ok"
    yield* pass("20 seconds")
    assert.deepStrictEqual(yield* events(id), before)
    assert.isTrue(agent.closed)
    assert.strictEqual(world.agents.filter(({ closed }) => !closed).length, 1)
  }))

scenario("a worker that finds its lease taken kills its agent at once", (world) =>
  Effect.gen(function*() {
    const first = yield* startWorker(world)
    const { agent, id } = yield* running(world)
    yield* stealLease(id)
    yield* agent.emit(say("m1", "too late"))
    yield* settle
    assert.isTrue(agent.closed)
    assert.deepStrictEqual(yield* eventsOf(id, "message.updated"), [])
    // The new worker owns the box and the trees by now.
    assert.deepStrictEqual([...world.boxes], [id])
    assert.deepStrictEqual(world.stops, [])
    yield* first.shutDown
  }))

scenario("a worker that cannot renew its lease in time kills its agent before the lease ends", (world) =>
  Effect.gen(function*() {
    const first = yield* startWorker(world)
    const { agent, id } = yield* running(world)
    first.network = "fail"
    yield* pass("19 seconds")
    assert.isFalse(agent.closed)
    yield* pass("12 seconds")
    assert.isTrue(agent.closed)

    first.network = "ok"
    yield* pass("5 seconds")
    const again = yield* woken(world, id)
    assert.strictEqual(again.agent.options.resume, "native-1")
    assert.strictEqual((yield* find(id)).status, "running")
  }))

scenario("an agent whose worker is cut off is gone before another worker may start one", (world) =>
  Effect.gen(function*() {
    const first = yield* startWorker(world)
    // Its leases end between two looks at the clock, and the agent takes its time to end.
    yield* pass("300 millis")
    const { agent } = yield* running(world)
    world.closing = Effect.sleep("1900 millis")
    first.network = "hang"
    yield* pass("26 seconds")
    assert.isFalse(agent.closed)
    yield* pass("3900 millis")
    const isClosed = agent.closed
    // However late it is, it ends before the test does.
    yield* pass("3 seconds")
    assert.isTrue(isClosed)
  }))

/** The store answers these calls after so much time. */
const answeredLate = (leases: Leases["Service"], delay: Duration.Input): Leases["Service"] => ({
  ...leases,
  take: (by, room) => Effect.tap(leases.take(by, room), (taken) => taken.length === 0 ? Effect.void : Effect.sleep(delay)),
  renew: (held) => Effect.tap(leases.renew(held), () => Effect.sleep(delay))
})

scenario("a lease counts from when it was asked for, however late the answer came", (world) =>
  Effect.gen(function*() {
    const late = answeredLate(yield* Leases, "9 seconds")
    const first = yield* Effect.provideService(startWorker(world), Leases, late)
    const beginning = yield* Effect.forkChild(running(world))
    yield* pass("9 seconds")
    const { agent } = yield* Fiber.join(beginning)
    first.network = "hang"
    yield* pass("17 seconds")
    assert.isFalse(agent.closed)
    yield* pass("3900 millis")
    assert.isTrue(agent.closed)
  }))

scenario("a renewal counts from when it was asked for, however late the answer came", (world) =>
  Effect.gen(function*() {
    const leases = yield* Leases
    const late = { ...answeredLate(leases, "5 seconds"), take: leases.take }
    const first = yield* Effect.provideService(startWorker(world), Leases, late)
    const { agent } = yield* running(world)
    const seconds = (times: number) => Effect.repeat(pass("1 second"), { times: times - 1 })
    // Asked for after 15 seconds, 10 after the first answer, and answered after 20: the lease ends after 45.
    yield* seconds(21)
    first.network = "hang"
    yield* seconds(20)
    assert.isFalse(agent.closed)
    yield* seconds(3)
    assert.isTrue(agent.closed)
  }))

scenario("a write that never returns does not keep alive the agent of a lost lease", (world) =>
  Effect.gen(function*() {
    const first = yield* startWorker(world)
    const { agent } = yield* running(world)
    first.network = "stuck"
    yield* agent.emit(say("m1", "Hello"))
    yield* pass("31 seconds")
    assert.isTrue(agent.closed)
  }))

scenario("a worker that gets back what it lost waits until its earlier agent is gone", (world) =>
  Effect.gen(function*() {
    const first = yield* startWorker(world)
    const { agent, id } = yield* running(world)
    world.closing = Effect.sleep("20 seconds")
    first.network = "fail"
    yield* pass("31 seconds")
    first.network = "ok"
    yield* pass("15 seconds")
    assert.strictEqual((yield* find(id)).turn?.state, "running")
    yield* pass("10 seconds")
    assert.isTrue(agent.closed)
    assert.strictEqual((yield* find(id)).turn?.state, "failed")
    world.closing = Effect.void
  }))

scenario("a long pause of the store costs nothing while the lease can be renewed in between", (world) =>
  Effect.gen(function*() {
    const first = yield* startWorker(world)
    const { agent, id } = yield* running(world)
    for (let i = 0; i < 4; i++) {
      first.network = "fail"
      yield* pass("15 seconds")
      first.network = "ok"
      yield* pass("5 seconds")
    }
    assert.isFalse(agent.closed)
    assert.strictEqual((yield* find(id)).turn?.state, "running")
  }))

scenario("a boot that its worker did not finish starts again", (world) =>
  Effect.gen(function*() {
    world.opening = yield* Deferred.make<void>()
    const first = yield* startWorker(world)
    const id = yield* create()
    yield* settle
    first.network = "hang"
    yield* startWorker(world, other)
    yield* pass("35 seconds")
    yield* Deferred.succeed(world.opening, undefined)
    yield* until(id, ({ turn }) => turn?.state === "running")
    assert.deepStrictEqual((yield* eventsOf(id, "sandbox.status")).map(({ data }) => data.status), ["queued", "creating", "running"])
    yield* settle
    assert.strictEqual(world.agents.filter(({ closed }) => !closed).length, 1)
  }))

scenario("a pending turn that no agent got is started by the next worker", (world) =>
  Effect.gen(function*() {
    const first = yield* startWorker(world)
    const { agent, id } = yield* running(world)
    yield* agent.end({ state: "succeeded" })
    yield* until(id, ({ idleSince }) => idleSince !== null)
    first.network = "hang"
    yield* message(id, "Are you there?")
    yield* startWorker(world, other)
    yield* pass("35 seconds")
    const second = yield* world.nextAgent
    assert.strictEqual((yield* Queue.take(second.prompts)).text, "Are you there?")
    assert.strictEqual((yield* find(id)).turn?.state, "running")
  }))

scenario("an approval decided while no worker lives does not reach the next agent: its turn has failed", (world) =>
  Effect.gen(function*() {
    const first = yield* startWorker(world)
    const { agent, id } = yield* running(world, { toolApprovalMode: "prompt" })
    yield* agent.emit(ask("t1"))
    yield* until(id, ({ approvals }) => approvals.length === 1)
    first.network = "hang"
    const { outcome } = yield* Sandboxes.use((sandboxes) => sandboxes.decideApproval(principal, id, "t1", { decision: "approve" }))
    assert.strictEqual(outcome, "applied")
    yield* startWorker(world, other)
    yield* pass("35 seconds")
    const sandbox = yield* find(id)
    assert.strictEqual(sandbox.turn?.state, "failed")
    assert.strictEqual(sandbox.status, "running")
    assert.deepStrictEqual(world.agents.flatMap(({ decisions }) => decisions), [])
  }))

scenario("an interrupt and a termination that no worker saw are carried out by the next", (world) =>
  Effect.gen(function*() {
    const first = yield* startWorker(world)
    const { id } = yield* running(world)
    first.network = "hang"
    yield* Sandboxes.use((sandboxes) => sandboxes.terminate(principal, id))
    yield* startWorker(world, other)
    yield* pass("35 seconds")
    const sandbox = yield* find(id)
    assert.strictEqual(sandbox.status, "terminated")
    assert.deepStrictEqual((yield* eventsOf(id, "turn.completed")).map(({ data }) => data), [
      { state: "interrupted", reason: "terminated", initiator: "user" }
    ])
    assert.deepStrictEqual([...world.boxes, ...world.trees], [])
  }))

scenario("another machine takes over only after five minutes, and the sandbox has lost its host", (world) =>
  Effect.gen(function*() {
    const first = yield* startWorker(world)
    const { id } = yield* running(world)
    first.network = "hang"
    yield* startWorker(world, { worker: "worker-2", machine: "machine-2" })
    yield* pass("5 minutes")
    assert.strictEqual((yield* find(id)).status, "running")
    yield* pass("40 seconds")
    const sandbox = yield* find(id)
    assert.strictEqual(sandbox.status, "failed")
    assert.strictEqual(sandbox.reason, "host_lost")
    assert.deepStrictEqual((yield* eventsOf(id, "turn.completed")).map(({ data }) => data.state), ["failed"])
  }))

scenario("a machine that lost its trees has lost the sandbox", (world) =>
  Effect.gen(function*() {
    const first = yield* startWorker(world)
    const { id } = yield* running(world)
    first.network = "hang"
    world.trees.clear()
    yield* startWorker(world, other)
    yield* pass("35 seconds")
    assert.strictEqual((yield* find(id)).reason, "host_lost")
  }))

scenario("a publication that its worker did not finish is carried out by the next", (world) =>
  Effect.gen(function*() {
    world.pushing = Effect.never
    const first = yield* startWorker(world)
    const { id } = yield* running(world)
    yield* publishRequested(id)
    yield* settle
    first.network = "hang"
    world.pushing = Effect.void
    yield* startWorker(world, other)
    yield* pass("35 seconds")
    assert.strictEqual((yield* find(id)).publications[0]?.actionState, "idle")
  }))

scenario("a worker that is shut down ends its turns, stops its agents and gives its leases back", (world) =>
  Effect.gen(function*() {
    const first = yield* startWorker(world)
    const { agent, id } = yield* running(world)
    yield* agent.emit(say("m1", "I was"), say("m1", "I was about to"))
    yield* first.shutDown
    assert.isTrue(agent.closed)
    assert.deepStrictEqual((yield* eventsOf(id, "message.updated")).at(-1)?.data.text, "I was about to")
    assert.deepStrictEqual((yield* eventsOf(id, "turn.completed")).map(({ data }) => data), [
      { state: "interrupted", reason: "worker_shutdown", initiator: "system" }
    ])
    assert.strictEqual((yield* find(id)).status, "running")

    // No time passes: the lease is free.
    yield* startWorker(world, other)
    const second = yield* woken(world, id)
    assert.strictEqual(second.agent.options.resume, "native-1")
    assert.strictEqual(second.text, "Go on")
  }))

scenario("a lease that a worker takes while it is shut down is given back", (world) =>
  Effect.gen(function*() {
    const first = yield* startWorker(world)
    yield* settle
    first.network = "hang"
    const id = yield* create()
    yield* settle
    const stopping = yield* Effect.forkChild(first.shutDown)
    yield* settle
    first.network = "ok"
    yield* Fiber.join(stopping)
    assert.isTrue(world.agents.every(({ closed }) => closed))
    const late = yield* create()
    yield* settle
    assert.strictEqual((yield* find(late)).status, "queued")

    // No time passes: both are free.
    yield* startWorker(world, other)
    yield* until(id, ({ status }) => status === "running")
    yield* until(late, ({ status }) => status === "running")
  }))

scenario("a worker that is shut down kills an agent that ignores it, and leaves a boot to the next", (world) =>
  Effect.gen(function*() {
    world.hang = true
    const first = yield* startWorker(world)
    const { agent, id } = yield* running(world)
    world.opening = yield* Deferred.make<void>()
    const booting = yield* create()
    yield* settle
    const stopping = yield* Effect.forkChild(first.shutDown)
    yield* pass("1 second")
    assert.deepStrictEqual(stopping.pollUnsafe()?._tag, "Success")
    assert.isTrue(agent.closed)
    assert.strictEqual((yield* find(id)).turn?.state, "interrupted")
    assert.strictEqual((yield* find(booting)).status, "creating")

    yield* Deferred.succeed(world.opening, undefined)
    yield* startWorker(world, other)
    yield* until(booting, ({ status }) => status === "running")
  }))

scenario(
  "after a loss of power a sandbox at rest goes on from its checkpoint, not from files that lack something",
  (world) =>
    Effect.gen(function*() {
      const first = yield* startWorker(world)
      const { agent, id } = yield* running(world)
      const { work } = world.machine("machine")
      work.set(id, "whole")
      yield* agent.end({ state: "succeeded" })
      yield* until(id, ({ checkpoint }) => checkpoint === 1)
      yield* pass("10 minutes")
      first.network = "hang"
      work.set(id, "torn")
      world.torn.add(id)
      yield* startWorker(world)
      yield* woken(world, id)
      assert.strictEqual(work.get(id), "whole")
      assert.deepStrictEqual((yield* eventsOf(id, "sandbox.restored")).map(({ data }) => data), [{ checkpoint: 1, cause: "machine_lost" }])
    })
)

scenario("what no checkpoint has stays as a loss of power left it, and is saved", (world) =>
  Effect.gen(function*() {
    const first = yield* startWorker(world)
    const { agent, id } = yield* running(world)
    const { work } = world.machine("machine")
    yield* agent.end({ state: "succeeded" })
    yield* until(id, ({ checkpoint }) => checkpoint === 1)
    yield* message(id, "More")
    yield* Queue.take(agent.prompts)
    first.network = "hang"
    work.set(id, "half of it")
    world.torn.add(id)
    yield* pass("40 seconds")
    yield* startWorker(world)
    yield* until(id, ({ checkpoint }) => checkpoint === 2)
    assert.strictEqual(work.get(id), "half of it")
    assert.deepStrictEqual(yield* eventsOf(id, "sandbox.restored"), [])
  }))

scenario(
  "the files of a first turn that a loss of power broke off stay: there is nothing else to go on from",
  (world) =>
    Effect.gen(function*() {
      const first = yield* startWorker(world)
      const { id } = yield* running(world)
      const { work } = world.machine("machine")
      first.network = "hang"
      work.set(id, "half of it")
      world.torn.add(id)
      yield* pass("40 seconds")
      yield* startWorker(world)
      yield* until(id, ({ checkpoint }) => checkpoint === 1)
      assert.deepStrictEqual([work.get(id), (yield* find(id)).status], ["half of it", "running"])
    })
)

scenario("a boot that a loss of power broke off has its repositories checked out anew", (world) =>
  Effect.gen(function*() {
    world.opening = yield* Deferred.make<void>()
    const first = yield* startWorker(world)
    const id = yield* create()
    yield* settle
    first.network = "hang"
    world.torn.add(id)
    yield* startWorker(world, other)
    yield* pass("35 seconds")
    yield* Deferred.succeed(world.opening, undefined)
    yield* until(id, ({ turn }) => turn?.state === "running")
    assert.deepStrictEqual([world.torn.size, world.clones.length], [0, 2])
  }))

scenario(
  "an agent begins with all its repositories, even if a worker was cut off between making two of them anew",
  (world) =>
    Effect.gen(function*() {
      const id = yield* create({ repos: [{ fullName: REPO }, { fullName: "acme/web" }] })
      const [leased = assert.fail("nothing to lease")] = yield* Leases.use((leases) =>
        leases.take({ worker: "gone", machine: "machine" }, { slots: 1, boots: 1, errands: 1 })
      )
      const held = yield* LeasedSandbox.make(leased)
      yield* held.write([{ _tag: "StartBoot" }, { _tag: "FinishBoot", turnId: turnId(yield* Ids, id, 1) }])
      world.trees.add(id)
      world.clones.push(REPO)
      yield* Leases.use((leases) => leases.release(leased.lease))
      yield* startWorker(world)
      yield* until(id, ({ turn }) => turn?.state === "running")
      assert.deepStrictEqual(world.clones, [REPO, REPO, "acme/web"])
    })
)
