import { assert } from "@effect/vitest"
import { DateTime, Deferred, Effect, Queue } from "effect"
import { AgentError } from "@slipway/domain/sandbox/AgentRuntime"
import { Sandboxes } from "@slipway/domain/sandbox/Sandboxes"
import type { SandboxId } from "@slipway/domain/sandbox/SandboxId"
import {
  ask, events, eventsOf, find, log, message, pass, principal, publishRequested, running, said, say, scenario, settle, startWorker, tool, until
} from "./Doubles.ts"

const interrupt = (id: SandboxId) => Sandboxes.use((sandboxes) => sandboxes.interrupt(principal, id))
const decide = (id: SandboxId, approvalId: string, decision: "approve" | "deny") =>
  Sandboxes.use((sandboxes) => sandboxes.decideApproval(principal, id, approvalId, decision))

const lastTurn = (id: SandboxId) => Effect.map(eventsOf(id, "turn.completed"), (all) => all.at(-1)?.data)
const ended = (id: SandboxId) => until(id, ({ idleSince }) => idleSince !== null)

scenario("writes a text at most every 250 ms, and its last version before it is completed", (world) =>
  Effect.gen(function*() {
    yield* startWorker(world)
    const { agent, id } = yield* running(world)
    const before = world.commits
    for (let i = 1; i <= 60; i++) {
      yield* agent.emit(say("m1", "x".repeat(i)))
      yield* pass("10 millis")
    }
    yield* agent.emit(say("m1", "the end"), said("m1"))
    yield* settle

    const texts = (yield* log(id)).filter(({ event }) => event.type === "message.updated")
    assert.deepStrictEqual(texts.map(({ at, event }) => [DateTime.toEpochMillis(at), event.type === "message.updated" && event.data.text.length]), [
      [0, 1], [250, 25], [500, 50], [600, 7]
    ])
    assert.strictEqual(world.commits - before, 4)
    const [last, completed] = (yield* events(id)).slice(-2)
    assert.deepStrictEqual(last?.data, { part_id: "m1:text", message_id: "m1", kind: "text", text: "the end" })
    assert.deepStrictEqual(completed?.data, { message_id: "m1", finish: "end_turn" })
    assert.strictEqual(completed?.turn_id, (yield* find(id)).turn?.id)
  }))

scenario("writes what happens together in one transaction, in order", (world) =>
  Effect.gen(function*() {
    yield* startWorker(world)
    const { agent, id } = yield* running(world)
    const before = world.commits
    yield* agent.emit(
      say("m1", "hm", "reasoning"), said("m1"), say("m2", "I edit."), said("m2"), tool("t1", "pending"), tool("t1", "running"), tool("t1", "completed")
    )
    yield* agent.end({ state: "succeeded" })
    const { turn } = yield* ended(id)
    yield* settle
    assert.strictEqual(world.commits - before, 1)
    const written = (yield* events(id)).slice(-8)
    assert.deepStrictEqual(written.map(({ type }) => type), [
      "message.updated", "message.completed", "message.updated", "message.completed", "tool.updated", "tool.updated", "tool.updated", "turn.completed"
    ])
    assert.deepStrictEqual(written[0]?.data, { part_id: "m1:thought", message_id: "m1", kind: "reasoning", text: "hm" })
    assert.deepStrictEqual(written[6]?.data, {
      part_id: "tool:t1", message_id: `turn-tools:${turn?.id}`, call_id: "t1", tool: "edit", status: "completed"
    })
    assert.deepStrictEqual(written[7]?.data, { state: "succeeded" })
  }))

scenario("adds the turn's usage to the sandbox's, at most every 5 s and once before the turn ends", (world) =>
  Effect.gen(function*() {
    yield* startWorker(world)
    const { agent, id } = yield* running(world)
    for (let i = 1; i <= 7; i++) {
      yield* agent.emit({ _tag: "UsageReported", llmRequestCount: i, costMicroUsd: 10 * i })
      yield* pass("1 second")
    }
    yield* agent.end({ state: "succeeded" })
    yield* ended(id)
    yield* message(id, "More")
    yield* Queue.take(agent.prompts)
    yield* agent.emit({ _tag: "UsageReported", llmRequestCount: 1, costMicroUsd: 5 })
    yield* agent.end({ state: "succeeded" })
    yield* ended(id)
    assert.deepStrictEqual((yield* eventsOf(id, "usage.updated")).map(({ data }) => data.usage.llmRequestCount), [5, 7, 8])
    assert.deepStrictEqual((yield* find(id)).usage, { llmRequestCount: 8, costMicroUsd: 75, creditsChargedMicros: 0 })
    assert.deepStrictEqual((yield* events(id)).slice(-2).map(({ type }) => type), ["usage.updated", "turn.completed"])
  }))

scenario("passes on approvals and denials, once each", (world) =>
  Effect.gen(function*() {
    yield* startWorker(world)
    const { agent, id } = yield* running(world, { toolApprovalMode: "prompt" })
    yield* agent.emit(tool("t1", "pending"), ask("t1"), tool("t2", "pending"), ask("t2"))
    const waiting = yield* until(id, ({ approvals }) => approvals.length === 2)
    assert.strictEqual(waiting.turn?.state, "awaiting_approval")

    yield* decide(id, "t2", "deny")
    yield* settle
    assert.deepStrictEqual(agent.decisions, ["t2 deny"])
    yield* decide(id, "t1", "approve")
    yield* pass("3 seconds")
    assert.deepStrictEqual(agent.decisions, ["t2 deny", "t1 approve"])
    assert.strictEqual((yield* find(id)).turn?.state, "running")
  }))

scenario("an approval that nobody decides reaches the agent as denied when it expires", (world) =>
  Effect.gen(function*() {
    yield* startWorker(world)
    const { agent, id } = yield* running(world, { toolApprovalMode: "prompt" })
    yield* agent.emit(ask("t1"))
    yield* until(id, ({ approvals }) => approvals.length === 1)
    yield* pass("31 minutes")
    assert.deepStrictEqual(agent.decisions, ["t1 deny"])
    assert.deepStrictEqual((yield* eventsOf(id, "approval.resolved")).map(({ data }) => data.by), ["timeout"])
  }))

scenario("an interrupt ends a streaming turn, and the agent takes the next one", (world) =>
  Effect.gen(function*() {
    yield* startWorker(world)
    const { agent, id } = yield* running(world)
    yield* agent.emit(say("m1", "Let me"), say("m1", "Let me see"), tool("t1", "running"))
    yield* interrupt(id)
    yield* ended(id)
    assert.strictEqual(agent.interrupts, 1)
    assert.deepStrictEqual(yield* lastTurn(id), { state: "interrupted", reason: "interrupt", initiator: "user" })
    assert.deepStrictEqual((yield* eventsOf(id, "message.updated")).at(-1)?.data.text, "Let me see")
    assert.deepStrictEqual((yield* eventsOf(id, "message.completed")).map(({ data }) => data.finish), ["cancelled"])
    assert.deepStrictEqual((yield* eventsOf(id, "tool.updated")).at(-1)?.data.status, "error")

    yield* message(id, "Try again")
    const { text } = yield* Queue.take(agent.prompts)
    assert.strictEqual(text, "Try again")
    assert.strictEqual(world.agents.length, 1)
  }))

scenario("an interrupt ends a turn that waits for an approval; the agent is not told to go on", (world) =>
  Effect.gen(function*() {
    yield* startWorker(world)
    const { agent, id } = yield* running(world, { toolApprovalMode: "prompt" })
    yield* agent.emit(ask("t1"))
    yield* until(id, ({ approvals }) => approvals.length === 1)
    yield* interrupt(id)
    yield* ended(id)
    assert.deepStrictEqual(yield* lastTurn(id), { state: "interrupted", reason: "interrupt", initiator: "user" })
    assert.deepStrictEqual((yield* eventsOf(id, "approval.resolved")).map(({ data }) => data), [
      { approval_id: "t1", outcome: "denied", by: "interrupt" }
    ])
    assert.deepStrictEqual(agent.decisions, [])
  }))

scenario("an agent that ignores the interrupt is killed after a second and resumed", (world) =>
  Effect.gen(function*() {
    world.hang = true
    yield* startWorker(world)
    const { agent, id } = yield* running(world)
    yield* interrupt(id)
    yield* pass("900 millis")
    assert.isFalse(agent.closed)
    assert.strictEqual((yield* find(id)).turn?.state, "running")

    yield* pass("100 millis")
    const { status } = yield* ended(id)
    assert.isTrue(agent.closed)
    assert.strictEqual(agent.interrupts, 1)
    assert.strictEqual(status, "running")
    assert.deepStrictEqual(yield* lastTurn(id), { state: "interrupted", reason: "interrupt", initiator: "user" })
    yield* world.nextAgent
    assert.deepStrictEqual(world.agents.map(({ options }) => options.resume), [null, "native-1"])
  }))

scenario("a turn whose agent is killed ends when nothing of the agent is left", (world) =>
  Effect.gen(function*() {
    world.hang = true
    yield* startWorker(world)
    const { id } = yield* running(world)
    world.closing = Effect.sleep("2 seconds")
    yield* interrupt(id)
    yield* settle
    yield* pass("2900 millis")
    assert.strictEqual((yield* find(id)).turn?.state, "running")
    yield* pass("100 millis")
    assert.strictEqual((yield* find(id)).turn?.state, "interrupted")
    world.closing = Effect.void
  }))

scenario("an agent that crashes fails its turn as agent_lost and is resumed; the sandbox goes on", (world) =>
  Effect.gen(function*() {
    yield* startWorker(world)
    const { agent, id } = yield* running(world)
    yield* agent.emit(say("m1", "I"), tool("t1", "running"))
    yield* settle
    yield* agent.emit(say("m1", "I was about"))
    yield* agent.crash()
    yield* ended(id)
    assert.deepStrictEqual(yield* lastTurn(id), { state: "failed", reason: "agent_lost", initiator: "provider" })
    assert.deepStrictEqual((yield* eventsOf(id, "message.updated")).at(-1)?.data.text, "I was about")
    assert.deepStrictEqual((yield* eventsOf(id, "message.completed")).map(({ data }) => data.finish), ["error"])
    assert.deepStrictEqual((yield* eventsOf(id, "tool.updated")).at(-1)?.data.status, "error")

    const second = yield* world.nextAgent
    assert.isTrue(agent.closed)
    assert.strictEqual(second.options.resume, "native-1")
    yield* message(id, "Go on")
    assert.strictEqual((yield* Queue.take(second.prompts)).text, "Go on")
    assert.strictEqual((yield* find(id)).status, "running")
  }))

scenario("an agent that goes between two turns is resumed", (world) =>
  Effect.gen(function*() {
    yield* startWorker(world)
    const { agent, id } = yield* running(world)
    yield* agent.end({ state: "succeeded" })
    yield* ended(id)
    yield* agent.crash()
    const second = yield* world.nextAgent
    yield* message(id, "Go on")
    assert.strictEqual((yield* Queue.take(second.prompts)).text, "Go on")
  }))

scenario("an agent that cannot be opened again within five minutes fails the sandbox as agent_lost", (world) =>
  Effect.gen(function*() {
    yield* startWorker(world)
    const { agent, id } = yield* running(world)
    const gone = new AgentError({ runtime: "fake", operation: "open", detail: "it does not start", retryable: true })
    world.openFailures.push(...Array.from({ length: 1000 }, () => gone))
    yield* agent.crash()
    yield* pass("4 minutes")
    assert.strictEqual((yield* find(id)).status, "running")
    yield* pass("2 minutes")
    const sandbox = yield* until(id, ({ status }) => status === "failed")
    assert.strictEqual(sandbox.reason, "agent_lost")
    assert.strictEqual(sandbox.error, "fake: it does not start")
    yield* settle
    assert.deepStrictEqual([...world.boxes, ...world.trees], [])
  }))

scenario("an agent that keeps dying at once is opened ever more rarely, then given up", (world) =>
  Effect.gen(function*() {
    yield* startWorker(world)
    const { agent, id } = yield* running(world)
    yield* agent.crash()
    for (let i = 0; i < 400 && (yield* find(id)).status === "running"; i++) {
      const latest = world.agents.at(-1)
      if (latest !== undefined && !latest.closed) yield* latest.crash()
      yield* pass("1 second")
    }
    assert.strictEqual((yield* find(id)).reason, "agent_lost")
    assert.isBelow(world.agents.length, 30)
  }))

scenario("a turn the agent fails carries its reason", (world) =>
  Effect.gen(function*() {
    yield* startWorker(world)
    const { agent, id } = yield* running(world)
    yield* agent.end({ state: "failed", reason: "the model refused" })
    yield* ended(id)
    assert.deepStrictEqual(yield* lastTurn(id), { state: "failed", reason: "the model refused", initiator: "provider" })
    assert.strictEqual((yield* find(id)).status, "running")
  }))

scenario("a turn that runs out of time fails, its agent is stopped, and what it still says is dropped", (world) =>
  Effect.gen(function*() {
    world.hang = true
    yield* startWorker(world)
    const { agent, id } = yield* running(world)
    const stopped = Effect.andThen(pass("10 minutes"), agent.emit(say("m1", "still here"), said("m1")))
    for (let i = 0; i < 12; i++) yield* stopped
    yield* pass("2 seconds")
    yield* agent.emit(say("m2", "too late"), said("m2"))
    yield* settle
    assert.isTrue(agent.closed)
    assert.deepStrictEqual(yield* lastTurn(id), { state: "failed", reason: "turn_timeout", initiator: "policy" })
    assert.strictEqual((yield* events(id)).at(-1)?.type, "turn.completed")
    yield* world.nextAgent
    assert.strictEqual(world.agents.length, 2)
  }))

scenario("saves a session id that the agent learns during its first turn", (world) =>
  Effect.gen(function*() {
    world.sessionId = null
    yield* startWorker(world)
    const { agent, id } = yield* running(world)
    agent.sessionId = "native-late"
    yield* agent.emit(tool("t1", "running"))
    yield* settle
    yield* agent.crash()
    const second = yield* world.nextAgent
    assert.strictEqual(second.options.resume, "native-late")
    assert.strictEqual((yield* find(id)).status, "running")
  }))

scenario("loses nothing while the store is away", (world) =>
  Effect.gen(function*() {
    const worker = yield* startWorker(world)
    const { agent, id } = yield* running(world)
    worker.network = "fail"
    yield* agent.emit(say("m1", "Hello"), said("m1"), tool("t1", "running"), tool("t1", "completed"))
    yield* pass("10 seconds")
    assert.deepStrictEqual(yield* eventsOf(id, "message.updated"), [])
    worker.network = "ok"
    yield* pass("5 seconds")
    yield* agent.end({ state: "succeeded" })
    yield* ended(id)
    assert.deepStrictEqual((yield* events(id)).slice(-5).map(({ type }) => type), [
      "message.updated", "message.completed", "tool.updated", "tool.updated", "turn.completed"
    ])
  }))

scenario("publishes while a turn runs, without holding it up", (world) =>
  Effect.gen(function*() {
    const push = yield* Deferred.make<void>()
    world.pushing = Deferred.await(push)
    yield* startWorker(world)
    const { agent, id } = yield* running(world)
    yield* publishRequested(id)
    yield* agent.emit(say("m1", "Working"), said("m1"))
    yield* until(id, ({ publications }) => publications.length === 1)
    yield* settle
    assert.strictEqual((yield* eventsOf(id, "message.completed")).length, 1)
    yield* Deferred.succeed(push, undefined)
    const { publications, turn } = yield* until(id, ({ publications }) => publications[0]?.actionState === "idle")
    assert.strictEqual(publications[0]?.number, 1)
    assert.strictEqual(turn?.state, "running")

    yield* publishRequested(id)
    yield* settle
    assert.deepStrictEqual((yield* eventsOf(id, "pull_request.updated")).map(({ data }) => data.action_state), [
      "publishing", "idle", "updating", "idle"
    ])
  }))
