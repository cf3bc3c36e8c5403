import { assert } from "@effect/vitest"
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { AgentError } from "@slipway/domain/sandbox/ports/AgentRuntime"
import type { ApprovalDecision } from "@slipway/domain/sandbox/rules/Approval"
import { PENDING_APPROVALS } from "@slipway/domain/sandbox/rules/OutputLimit"
import { type QuestionReply, questionsOf } from "@slipway/domain/sandbox/rules/Question"
import { Sandboxes } from "@slipway/domain/sandbox/usecases/Sandboxes"
import { ShowToolDetail } from "@slipway/worker/turn/RunTurn"
import { DateTime, Deferred, Effect, Queue } from "effect"
import {
  ask,
  askPlain,
  events,
  eventsOf,
  eventsOfWork,
  find,
  inquire,
  log,
  message,
  pass,
  principal,
  publishRequested,
  running,
  say,
  scenario,
  settle,
  startWorker,
  tool,
  until,
  woken
} from "../Doubles.ts"

const interrupt = (id: SandboxId) => Sandboxes.use((sandboxes) => sandboxes.interrupt(principal, id))
const decide = (id: SandboxId, approvalId: string, decision: "approve" | "deny") =>
  Sandboxes.use((sandboxes) => sandboxes.decideApproval(principal, id, approvalId, { decision }))

const lastTurn = (id: SandboxId) => Effect.map(eventsOf(id, "turn.completed"), (all) => all.at(-1)?.data)
const ended = (id: SandboxId) => until(id, ({ idleSince }) => idleSince !== null)

scenario("writes a text at most every 250 ms, and its last version before anything of the next part", (world) =>
  Effect.gen(function*() {
    yield* startWorker(world)
    const { agent, id } = yield* running(world)
    const before = world.commits
    for (let i = 1; i <= 60; i++) {
      yield* agent.emit(say("m1", "x".repeat(i)))
      yield* pass("10 millis")
    }
    yield* agent.emit(say("m1", "the end"), tool("t1", "pending"))
    yield* settle

    const texts = (yield* log(id)).filter(({ event }) => event.type === "message.updated")
    assert.deepStrictEqual(
      texts.map(({ at, event }) => [DateTime.toEpochMillis(at), event.type === "message.updated" && event.data.text.length]),
      [
        [0, 1],
        [250, 25],
        [500, 50],
        [600, 7]
      ]
    )
    assert.strictEqual(world.commits - before, 4)
    const [last, next] = (yield* events(id)).slice(-2)
    assert.deepStrictEqual(last?.data, { part_id: "m1:text", message_id: "m1", kind: "text", text: "the end" })
    assert.strictEqual(last?.turn_id, (yield* find(id)).turn?.id)
    assert.strictEqual(next?.type, "tool.updated")
  }))

scenario("completes the turn's last message when the turn ends, and no other", (world) =>
  Effect.gen(function*() {
    yield* startWorker(world)
    const { agent, id } = yield* running(world)
    yield* agent.emit(say("m1", "hm", "reasoning"), say("m1", "I edit."), tool("t1", "pending"), tool("t1", "completed"), say("m2", "Done"))
    yield* settle
    yield* agent.emit(say("m2", "Done."))
    yield* pass("10 seconds")
    assert.deepStrictEqual(yield* eventsOf(id, "message.completed"), [])
    yield* agent.end({ state: "succeeded" })
    const { turn } = yield* ended(id)
    assert.deepStrictEqual((yield* eventsOfWork(id)).slice(-2).map(({ data, type }) => [type, data]), [
      ["message.completed", { message_id: "m2", finish: "end_turn" }],
      ["turn.completed", { state: "succeeded" }]
    ])
    assert.deepStrictEqual((yield* eventsOf(id, "message.completed")).map(({ data }) => data.message_id), ["m2"])
    const messages = yield* Sandboxes.use((sandboxes) => sandboxes.messages(principal, id, { after: 0, limit: 10 }))
    assert.deepStrictEqual(messages.map(({ id, text }) => [id, text]), [[turn?.id, turn?.prompt], ["m1", "I edit."], ["m2", "Done."]])
  }))

scenario("tells how the agent says that the last message ended", (world) =>
  Effect.gen(function*() {
    yield* startWorker(world)
    const { agent, id } = yield* running(world)
    yield* agent.emit(say("m1", "As an"))
    yield* agent.end({ state: "failed", reason: "The model refused to go on.", finish: "refusal" })
    yield* ended(id)
    assert.deepStrictEqual((yield* eventsOf(id, "message.completed")).map(({ data }) => data.finish), ["refusal"])
    assert.deepStrictEqual(yield* lastTurn(id), { state: "failed", reason: "The model refused to go on.", initiator: "provider" })
  }))

scenario("writes what happens together in one transaction, in order", (world) =>
  Effect.gen(function*() {
    yield* startWorker(world)
    const { agent, id } = yield* running(world)
    const before = world.commits
    yield* agent.emit(
      say("m1", "hm", "reasoning"),
      say("m1", "I edit."),
      tool("t1", "pending"),
      tool("t1", "running"),
      tool("t1", "completed")
    )
    yield* agent.end({ state: "succeeded" })
    const { turn } = yield* ended(id)
    yield* settle
    // The other one tells of the checkpoint.
    assert.strictEqual(world.commits - before, 2)
    const written = (yield* eventsOfWork(id)).slice(-7)
    assert.deepStrictEqual(written.map(({ type }) => type), [
      "message.updated",
      "message.updated",
      "tool.updated",
      "tool.updated",
      "tool.updated",
      "message.completed",
      "turn.completed"
    ])
    assert.deepStrictEqual(written[0]?.data, { part_id: "m1:thought", message_id: "m1", kind: "reasoning", text: "hm" })
    assert.deepStrictEqual(written[1]?.data, { part_id: "m1:text", message_id: "m1", kind: "text", text: "I edit." })
    assert.deepStrictEqual(written[4]?.data, {
      part_id: "tool:t1",
      message_id: `turn-tools:${turn?.id}`,
      call_id: "t1",
      tool: "edit",
      status: "completed"
    })
    assert.deepStrictEqual(written[6]?.data, { state: "succeeded" })
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
    assert.deepStrictEqual((yield* eventsOfWork(id)).slice(-2).map(({ type }) => type), ["usage.updated", "turn.completed"])
  }))

for (const shows of [true, false]) {
  scenario(
    `${shows ? "tells" : "does not tell, where that is not wanted,"} what tool calls do and write`,
    (world) =>
      Effect.gen(function*() {
        yield* Effect.provideService(startWorker(world), ShowToolDetail, shows)
        const { agent, id } = yield* running(world, { toolApprovalMode: "prompt" })
        const detail = { command: "ls", output: "a" }
        const preview = { command: "ls" }
        yield* agent.emit(
          { _tag: "ToolUpdated", callId: "t1", tool: "ls", status: "running", detail },
          { _tag: "ApprovalRequested", approvalId: "t1", tool: "ls", kind: "command", preview }
        )
        yield* agent.end({ state: "succeeded" })
        yield* ended(id)
        // Calls that the turn's end closes keep their content.
        assert.deepStrictEqual(
          (yield* eventsOf(id, "tool.updated")).map((event) => event.data.detail),
          shows ? [detail, detail] : [undefined, undefined]
        )
        assert.deepStrictEqual((yield* eventsOf(id, "approval.requested")).map(({ data }) => data.preview), [shows ? preview : undefined])
      })
  )
}

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

scenario(
  "hands each answer to the agent once, and tells it of a dismissal and of time that passed without an answer",
  (world) =>
    Effect.gen(function*() {
      yield* startWorker(world)
      const { agent, id } = yield* running(world)
      const reply = (questionId: string, given: QuestionReply) =>
        Sandboxes.use((sandboxes) => sandboxes.answerQuestion(principal, id, questionId, given))
      yield* agent.emit(inquire("q1"), inquire("q2"), inquire("q3"))
      const waiting = yield* until(id, (sandbox) => questionsOf(sandbox).length === 3)
      assert.strictEqual(waiting.turn?.state, "awaiting_answer")

      yield* reply("q2", { answers: { 1: { labels: ["b"] } } })
      yield* settle
      assert.deepStrictEqual(agent.answers, [["q2", { 1: { labels: ["b"] } }]])
      const late = yield* reply("q2", { answers: { 1: { labels: ["a"] } } })
      assert.strictEqual(late.rejection, "question_already_answered")
      yield* reply("q1", { dismiss: true })
      yield* settle
      yield* pass("31 minutes")
      assert.deepStrictEqual(agent.answers, [["q2", { 1: { labels: ["b"] } }], ["q1", null], ["q3", null]])
      assert.strictEqual((yield* find(id)).turn?.state, "running")
      assert.deepStrictEqual((yield* eventsOf(id, "question.answered")).map(({ data }) => data.by), ["user", "user", "timeout"])
    })
)

scenario("does not hand an answer over in a turn that is interrupted, and leaves no question open", (world) =>
  Effect.gen(function*() {
    yield* startWorker(world)
    const { agent, id } = yield* running(world)
    yield* agent.emit(inquire("q1"))
    yield* until(id, (sandbox) => questionsOf(sandbox).length === 1)
    yield* Sandboxes.use((sandboxes) => sandboxes.interrupt(principal, id))
    yield* ended(id)
    assert.isTrue(agent.answers.every(([, answers]) => answers === null))
    assert.deepStrictEqual((yield* eventsOf(id, "question.answered")).map(({ data }) => data.by), ["interrupt"])
  }))

scenario("tells the agent why it is denied, and goes on by itself with what was approved for the turn", (world) =>
  Effect.gen(function*() {
    yield* startWorker(world)
    const { agent, id } = yield* running(world, { toolApprovalMode: "prompt" })
    const given = (approvalId: string, decision: ApprovalDecision) =>
      Sandboxes.use((sandboxes) => sandboxes.decideApproval(principal, id, approvalId, decision))
    yield* agent.emit(tool("t1", "pending"), ask("t1"))
    yield* until(id, ({ approvals }) => approvals.length === 1)
    yield* given("t1", { decision: "deny", reason: "Not there." })
    yield* settle
    assert.deepStrictEqual(agent.decisions, ["t1 deny Not there."])

    const [repo] = (yield* find(id)).repos
    const file = (path: string) => `${repo?.fullName.replace("/", "-")}/${path}`
    world.files.set(`${repo?.fullName}/a`, "a")
    yield* agent.emit(tool("t2", "pending"), askPlain("t2", file("a")))
    yield* until(id, ({ approvals }) => approvals.length === 1)
    yield* given("t2", { decision: "approve", scope: "turn" })
    yield* agent.emit(tool("t3", "pending"), askPlain("t3", file("a"), file("new")))
    yield* settle
    assert.deepStrictEqual(agent.decisions, ["t1 deny Not there.", "t2 approve", "t3 approve"])
    assert.deepStrictEqual((yield* eventsOf(id, "approval.resolved")).map(({ data }) => data.by), ["user", "user", "policy"])
    const { approvals, turn, waiting } = yield* find(id)
    assert.deepStrictEqual([approvals, turn?.state, waiting], [[], "running", []])
  }))

scenario("asks about each edit of what is no plain file on the disk, whatever its name", (world) =>
  Effect.gen(function*() {
    yield* startWorker(world)
    const { agent, id } = yield* running(world, { toolApprovalMode: "prompt" })
    const [repo] = (yield* find(id)).repos
    const file = (path: string) => `${repo?.fullName.replace("/", "-")}/${path}`
    world.files.set(`${repo?.fullName}/a`, "a")
    world.links.add(`${repo?.fullName}/link`)
    yield* agent.emit(askPlain("t1", file("a")))
    yield* until(id, ({ approvals }) => approvals.length === 1)
    yield* Sandboxes.use((sandboxes) => sandboxes.decideApproval(principal, id, "t1", { decision: "approve", scope: "turn" }))
    yield* agent.emit(askPlain("t2", file("a"), file("link")), askPlain("t3", "elsewhere/a"), ask("t4"), askPlain("t5", file("a")))
    yield* settle
    const { approvals } = yield* find(id)
    assert.deepStrictEqual(approvals.map(({ approval_id, plain }) => [approval_id, plain]), [
      ["t2", undefined],
      ["t3", undefined],
      ["t4", undefined]
    ])
    assert.deepStrictEqual(agent.decisions, ["t1 approve", "t5 approve"])
  }))

scenario("an undecided approval reaches the agent as denied when it expires", (world) =>
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
    yield* woken(world, id)
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

    const second = yield* woken(world, id)
    assert.isTrue(agent.closed)
    assert.strictEqual(second.agent.options.resume, "native-1")
    assert.strictEqual(second.text, "Go on")
    assert.strictEqual((yield* find(id)).status, "running")
  }))

scenario(
  "a limit of the box is told once in its turn, while the turn goes on, and not what was met before it",
  (world) =>
    Effect.gen(function*() {
      world.limitsMet = { outOfMemory: 3, tooManyProcesses: 5 }
      yield* startWorker(world)
      const { agent, id } = yield* running(world)
      yield* pass("10 seconds")
      assert.deepStrictEqual(yield* eventsOf(id, "sandbox.error"), [])
      for (let refused = 6; refused < 9; refused++) {
        world.limitsMet = { outOfMemory: 3, tooManyProcesses: refused }
        yield* pass("10 seconds")
      }
      const told = yield* eventsOf(id, "sandbox.error")
      assert.deepStrictEqual(told.map(({ data }) => [data.code, data.retryable]), [["too_many_processes", true]])
      assert.strictEqual(told[0]?.turn_id, (yield* find(id)).turn?.id)
      yield* agent.end({ state: "succeeded" })
      yield* ended(id)
      assert.deepStrictEqual(yield* lastTurn(id), { state: "succeeded" })
    })
)

scenario("an agent that ran out of memory fails its turn as that, told before the turn's end", (world) =>
  Effect.gen(function*() {
    world.limitsMet = { outOfMemory: 0, tooManyProcesses: 0 }
    yield* startWorker(world)
    const { agent, id } = yield* running(world)
    yield* agent.emit(say("m1", "I build"))
    world.limitsMet = { outOfMemory: 1, tooManyProcesses: 0 }
    yield* agent.crash()
    yield* ended(id)
    assert.deepStrictEqual((yield* events(id)).slice(-3).map(({ data, type }) => [type, "code" in data ? data.code : undefined]), [
      ["sandbox.error", "out_of_memory"],
      ["message.completed", undefined],
      ["turn.completed", undefined]
    ])
    assert.deepStrictEqual(yield* lastTurn(id), { state: "failed", reason: "out_of_memory", initiator: "policy" })
    assert.strictEqual((yield* woken(world, id)).text, "Go on")
  }))

scenario("an agent that goes between two turns is resumed", (world) =>
  Effect.gen(function*() {
    yield* startWorker(world)
    const { agent, id } = yield* running(world)
    yield* agent.end({ state: "succeeded" })
    yield* ended(id)
    yield* agent.crash()
    yield* settle
    assert.isTrue(agent.closed)
    assert.strictEqual((yield* woken(world, id)).text, "Go on")
  }))

scenario("an agent that cannot be opened again within five minutes fails the sandbox as agent_lost", (world) =>
  Effect.gen(function*() {
    yield* startWorker(world)
    const { agent, id } = yield* running(world)
    const gone = new AgentError({ runtime: "fake", operation: "open", detail: "it does not start", retryable: true })
    world.openFailures.push(...Array.from({ length: 1000 }, () => gone))
    yield* agent.crash()
    yield* ended(id)
    yield* message(id, "Go on")
    yield* pass("4 minutes")
    assert.strictEqual((yield* find(id)).status, "running")
    yield* pass("2 minutes")
    const sandbox = yield* until(id, ({ status }) => status === "failed")
    assert.strictEqual(sandbox.reason, "agent_lost")
    assert.strictEqual(sandbox.error, "fake: it does not start")
    yield* settle
    assert.deepStrictEqual([...world.boxes, ...world.trees], [])
  }))

scenario("an agent that dies in every turn costs each its turn, and no more", (world) =>
  Effect.gen(function*() {
    yield* startWorker(world)
    const { agent, id } = yield* running(world)
    yield* agent.crash()
    yield* ended(id)
    for (let i = 0; i < 5; i++) {
      const { agent } = yield* woken(world, id)
      yield* until(id, ({ turn }) => turn?.state === "running")
      yield* agent.crash()
      yield* ended(id)
      yield* pass("10 minutes")
    }
    assert.strictEqual((yield* find(id)).status, "running")
    assert.strictEqual(world.agents.length, 6)
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
    const stopped = Effect.andThen(pass("10 minutes"), agent.emit(say("m1", "still here")))
    for (let i = 0; i < 12; i++) yield* stopped
    yield* pass("2 seconds")
    yield* agent.emit(say("m2", "too late"))
    yield* settle
    assert.isTrue(agent.closed)
    assert.deepStrictEqual(yield* lastTurn(id), { state: "failed", reason: "turn_timeout", initiator: "policy" })
    assert.strictEqual((yield* eventsOfWork(id)).at(-1)?.type, "turn.completed")
    yield* woken(world, id)
    assert.strictEqual(world.agents.length, 2)
  }))

scenario(
  "a turn that runs out of time has its checkpoint once its agent is gone, which may work on till then",
  (world) =>
    Effect.gen(function*() {
      world.hang = true
      yield* startWorker(world)
      const { agent, id } = yield* running(world)
      const gone: Array<boolean> = []
      world.saving = Effect.sync(() => void gone.push(agent.closed))
      for (let i = 0; i < 12; i++) yield* Effect.andThen(pass("10 minutes"), agent.emit(say("m1", "still here")))
      yield* pass("2 seconds")
      assert.strictEqual((yield* find(id)).checkpoint, 1)
      assert.deepStrictEqual(gone, [true])
    })
)

scenario("an agent that does not take a decision is stopped when the turn is to end", (world) =>
  Effect.gen(function*() {
    world.deciding = Effect.never
    yield* startWorker(world)
    const { agent, id } = yield* running(world, { toolApprovalMode: "prompt" })
    yield* agent.emit(ask("t1"))
    yield* until(id, ({ approvals }) => approvals.length === 1)
    yield* decide(id, "t1", "approve")
    yield* interrupt(id)
    yield* pass("2 seconds")
    assert.strictEqual(agent.interrupts, 1)
    assert.deepStrictEqual(yield* lastTurn(id), { state: "interrupted", reason: "interrupt", initiator: "user" })
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
    yield* ended(id)
    const second = yield* woken(world, id)
    assert.strictEqual(second.agent.options.resume, "native-late")
    assert.strictEqual((yield* find(id)).status, "running")
  }))

scenario("loses nothing while the store is away", (world) =>
  Effect.gen(function*() {
    const worker = yield* startWorker(world)
    const { agent, id } = yield* running(world)
    worker.network = "fail"
    yield* agent.emit(say("m1", "Hello"), tool("t1", "running"), tool("t1", "completed"))
    yield* pass("10 seconds")
    assert.deepStrictEqual(yield* eventsOf(id, "message.updated"), [])
    worker.network = "ok"
    yield* pass("5 seconds")
    yield* agent.end({ state: "succeeded" })
    yield* ended(id)
    assert.deepStrictEqual((yield* eventsOfWork(id)).slice(-5).map(({ type }) => type), [
      "message.updated",
      "tool.updated",
      "tool.updated",
      "message.completed",
      "turn.completed"
    ])
  }))

scenario("publishes while a turn runs, without holding it up", (world) =>
  Effect.gen(function*() {
    const push = yield* Deferred.make<void>()
    world.pushing = Deferred.await(push)
    yield* startWorker(world)
    const { agent, id } = yield* running(world)
    yield* publishRequested(id)
    yield* agent.emit(say("m1", "Working"))
    yield* until(id, ({ publications }) => publications.length === 1)
    yield* settle
    assert.strictEqual((yield* eventsOf(id, "message.updated")).length, 1)
    yield* Deferred.succeed(push, undefined)
    const { publications, turn } = yield* until(id, ({ publications }) => publications[0]?.actionState === "idle")
    assert.strictEqual(publications[0]?.number, 1)
    assert.strictEqual(turn?.state, "running")

    yield* publishRequested(id)
    yield* until(id, ({ publications }) => publications[0]?.actionState === "idle")
    assert.deepStrictEqual((yield* eventsOf(id, "pull_request.updated")).map(({ data }) => data.action_state), [
      "publishing",
      "idle",
      "updating",
      "idle"
    ])
  }))

scenario("a text that grows and grows is written ever more seldom: 16 KiB a second at most", (world) =>
  Effect.gen(function*() {
    yield* startWorker(world)
    const { agent, id } = yield* running(world)
    const before = (yield* find(id)).logBytes
    for (let i = 1; i <= 240; i++) {
      yield* agent.emit(say("m1", "x".repeat(i * 500)))
      yield* pass("250 millis")
    }
    const seconds = 60
    const { logBytes } = yield* find(id)
    assert.isTrue(logBytes - before < 20 * 1024 * seconds, String(logBytes - before))
    yield* agent.emit(say("m1", "the end"), tool("t1", "pending"))
    yield* settle
    assert.strictEqual((yield* eventsOf(id, "message.updated")).at(-1)?.data.text, "the end")
  }))

scenario("an agent that writes without end is held to 1,000 events a second", (world) =>
  Effect.gen(function*() {
    yield* startWorker(world)
    const { agent, id } = yield* running(world)
    let told = 0
    const written: Array<number> = []
    const start = (yield* find(id)).lastSeq
    yield* Effect.forkChild(Effect.repeat(Effect.suspend(() => agent.emit(tool(`t${told++}`, "completed"))), { times: 2499 }))
    for (let second = 1; second <= 4; second++) {
      // All that is to be had in this second.
      for (let before = -1; before !== told;) {
        before = told
        yield* Effect.repeat(settle, { times: 10 })
      }
      written.push((yield* find(id)).lastSeq - start)
      yield* pass("1 second")
    }
    // A started batch is finished, and waited for afterwards.
    assert.isTrue(written.every((events, i) => events <= 1000 * (i + 1) + 100), String(written))
    assert.strictEqual(written.at(-1), 2500)
  }))

scenario(
  "a turn whose agent sends a message larger than any is read fails, and the next one has another agent",
  (world) =>
    Effect.gen(function*() {
      yield* startWorker(world)
      const { agent, id } = yield* running(world)
      yield* agent.emit(tool("t1", "running"))
      yield* agent.fail(new AgentError({ runtime: "fake", operation: "prompt", detail: "too large", retryable: false, tooLarge: true }))
      const { error, status } = yield* ended(id)
      assert.deepStrictEqual([status, error], ["running", "The agent sent a message that is too large, so the turn was ended."])
      assert.deepStrictEqual(yield* lastTurn(id), { state: "failed", reason: "output_limit", initiator: "policy" })
      assert.deepInclude((yield* eventsOf(id, "tool.updated")).at(-1)?.data, { status: "error", error: "the turn ended first" })
      assert.strictEqual((yield* woken(world, id)).text, "Go on")
      assert.isTrue(agent.closed)
    })
)

scenario(
  "a turn that goes beyond a limit fails, its agent is stopped, and what it still says is dropped",
  (world) =>
    Effect.gen(function*() {
      yield* startWorker(world)
      world.hang = true
      const { agent, id } = yield* running(world, { toolApprovalMode: "prompt" })
      for (let i = 0; i <= PENDING_APPROVALS; i++) yield* agent.emit(ask(`t${i}`))
      const { approvals, error, turn } = yield* ended(id)
      assert.deepStrictEqual([approvals, turn?.state], [[], "failed"])
      assert.include(error ?? "", "too much at once")
      assert.deepStrictEqual(yield* lastTurn(id), { state: "failed", reason: "output_limit", initiator: "policy" })
      yield* agent.emit(say("m1", "more"))
      yield* pass("3 seconds")
      assert.isTrue(agent.closed)
      assert.deepStrictEqual(yield* eventsOf(id, "message.updated"), [])
    })
)
