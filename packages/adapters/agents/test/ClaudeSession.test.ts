import { assert, describe, it } from "@effect/vitest"
import type { AgentEvent, AgentSession } from "@slipway/domain/sandbox/ports/AgentRuntime"
import { Effect, Fiber, Result } from "effect"
import * as ClaudeSession from "../src/claude/ClaudeSession.ts"
import { make } from "../testing/FakeProcess.ts"
import { approving, converse, options, texts } from "../testing/Session.ts"

interface Sent {
  readonly type?: string
  readonly uuid?: string
  readonly request_id?: string
  readonly request?: { readonly subtype?: string }
  readonly response?: { readonly request_id?: string; readonly subtype?: string; readonly response?: object; readonly error?: string }
}
type Script = (frame: Sent) => ReadonlyArray<object>

const granted = ({ request_id }: Sent) => ({ type: "control_response", response: { subtype: "success", request_id, response: {} } })
const init = { type: "system", subtype: "init", session_id: "s1" }
const result = (fields: object = {}) => ({
  type: "result",
  subtype: "success",
  is_error: false,
  stop_reason: "end_turn",
  result: "",
  total_cost_usd: 0.01,
  ...fields
})
const start = (id: string, more: object = {}) => ({ type: "stream_event", event: { type: "message_start", message: { id } }, ...more })
const text = (words: string, more: object = {}, index = 0) => ({
  type: "stream_event",
  event: { type: "content_block_delta", index, delta: { type: "text_delta", text: words } },
  ...more
})
const use = (name: string, input: object, more: object = {}) => ({
  type: "assistant",
  message: { content: [{ type: "text", text: "again" }, { type: "tool_use", id: "u1", name, input }] },
  ...more
})
const used = (is_error: boolean, more: object = {}) => ({
  type: "user",
  message: { content: [{ type: "tool_result", tool_use_id: "u1", is_error }] },
  ...more
})
const ask = (name: string, input: object, request_id = "r1", tool_use_id: string | null = "u1") => ({
  type: "control_request",
  request_id,
  request: { subtype: "can_use_tool", tool_name: name, input, tool_use_id }
})

const agent = (script: Script) =>
  make((frame) => {
    const sent = frame as Sent
    return sent.request?.subtype === "initialize" ? [granted(sent)] : script(sent)
  })

const onPrompt = (...frames: ReadonlyArray<object>): Script => ({ type }) => type === "user" ? frames : []
const sub = { parent_tool_use_id: "u0" }

describe("ClaudeSession", () => {
  it.live("tells of sub-agents what they do, not what they say, and of each message once", () =>
    Effect.gen(function*() {
      const fake = yield* agent(onPrompt(
        init,
        start("m0", sub),
        text("theirs", sub),
        use("Bash", { command: "ls" }, sub),
        used(true, sub),
        start("m1"),
        text("ours"),
        { type: "assistant", message: { content: [{ type: "text", text: "ours" }] } },
        result()
      ))
      const session = yield* ClaudeSession.open(fake.process, options)
      const { events, outcome } = yield* converse(session)
      assert.deepStrictEqual(outcome, Result.succeed({ state: "succeeded" as const }))
      assert.deepStrictEqual(texts(events), ["ours"])
      assert.deepStrictEqual(events.flatMap((event) => event._tag === "ToolUpdated" ? [[event.tool, event.status]] : []), [
        ["ls", "pending"],
        ["ls", "error"]
      ])
      assert.deepStrictEqual(
        events.flatMap((event) => event._tag === "UsageReported" ? [[event.llmRequestCount, event.costMicroUsd]] : []),
        [[1, 0], [1, 10_000]]
      )
      assert.strictEqual(yield* session.sessionId, "s1")
    }).pipe(Effect.scoped))

  it.live("names the call whose sub-agent makes a call, and tells the list of tasks of the agent alone", () =>
    Effect.gen(function*() {
      const call = (id: string, name: string, input: object, more: object = {}) => ({
        type: "assistant",
        message: { content: [{ type: "tool_use", id, name, input }] },
        ...more
      })
      const did = (id: string, content: string, more: object = {}) => ({
        type: "user",
        message: { content: [{ type: "tool_result", tool_use_id: id, content, ...more }] }
      })
      const fake = yield* agent(onPrompt(
        init,
        call("w", "TodoWrite", { todos: [{ content: "Read it", status: "completed" }, { content: "Fix it", status: "in_progress" }] }),
        did("w", "Todos have been modified"),
        call("u0", "Agent", { description: "child" }),
        call("t", "TodoWrite", { todos: [{ content: "theirs", status: "pending" }] }, sub),
        did("t", "Todos have been modified"),
        call("b", "Bash", { command: "ls" }, sub),
        did("b", ""),
        did("u0", ""),
        call("f", "TodoWrite", { todos: [] }),
        did("f", "refused", { is_error: true }),
        call("c1", "TaskCreate", { subject: "First", description: "" }),
        did("c1", "Task #1 created successfully: First"),
        call("c2", "TaskCreate", { subject: "Second", description: "" }),
        did("c2", "Task #2 created successfully: Second"),
        call("c3", "TaskUpdate", { taskId: "1", status: "in_progress" }),
        did("c3", "Updated task #1 status"),
        call("c4", "TaskUpdate", { taskId: "2", status: "deleted" }),
        did("c4", "Updated task #2"),
        call("c5", "TaskUpdate", { taskId: "9", status: "completed" }),
        did("c5", "No such task"),
        result()
      ))
      const session = yield* ClaudeSession.open(fake.process, options)
      const { events } = yield* converse(session)
      assert.deepStrictEqual(events.flatMap((event) => event._tag === "PlanUpdated" ? [event.entries] : []), [
        [{ text: "Read it", status: "completed" }, { text: "Fix it", status: "in_progress" }],
        [{ text: "First", status: "pending" }],
        [{ text: "First", status: "pending" }, { text: "Second", status: "pending" }],
        [{ text: "First", status: "in_progress" }, { text: "Second", status: "pending" }],
        [{ text: "First", status: "in_progress" }]
      ])
      const calls = events.flatMap((event) => event._tag === "ToolUpdated" ? [event] : [])
      const own = calls.find(({ tool }) => tool === "Agent")?.callId
      assert.isDefined(own)
      assert.isTrue(calls.filter(({ tool }) => tool === "ls").every(({ parentCallId }) => parentCallId === own))
      assert.isTrue(calls.filter(({ tool }) => tool === "Agent").every(({ parentCallId }) => parentCallId === undefined))
    }).pipe(Effect.scoped))

  it.live("asks with what the call is about, and answers with the same input", () =>
    Effect.gen(function*() {
      const input = { file_path: "/sandbox/ws/repo/a.txt", content: "what it writes\n" }
      for (const [decision, reason] of [["approve"], ["deny"], ["deny", "Not there."]] as const) {
        const fake = yield* agent(({ response, type }) =>
          type === "user"
            ? [init, start("m1"), use("Write", input), ask("Write", input)]
            : response?.request_id === "r1"
            ? [used(decision === "deny"), result()]
            : []
        )
        const session = yield* ClaudeSession.open(fake.process, options)
        const { events } = yield* converse(session, approving(session, decision, reason))
        assert.deepStrictEqual(events.find(({ _tag }) => _tag === "ApprovalRequested"), {
          _tag: "ApprovalRequested",
          approvalId: "turn:t1",
          tool: "Write repo/a.txt",
          kind: "edit",
          paths: ["repo/a.txt"],
          preview: { diff: "--- repo/a.txt\n+++ repo/a.txt\n@@ -0,0 +1,1 @@\n+what it writes\n" }
        })
        const [answer] = fake.received.flatMap((frame) => (frame as Sent).response ?? [])
        assert.deepStrictEqual(
          answer?.response,
          decision === "approve"
            ? { behavior: "allow", updatedInput: input }
            : { behavior: "deny", message: reason === undefined ? "Denied by the user." : "Denied. Not there." }
        )
        assert.deepStrictEqual(
          events.flatMap((event) => event._tag === "ToolUpdated" ? event.error ?? event.status : []),
          ["pending", decision === "approve" ? "completed" : "denied"]
        )
      }
    }).pipe(Effect.scoped))

  it.live.each([["completed", "completed"], ["failed", "error"]] as const)(
    "takes what a sub-agent was allowed, and of which no result is told, for done when it has %s: %s",
    ([status, expected]) =>
      Effect.gen(function*() {
        const { request, ...asking } = ask("Bash", { command: "ls" })
        const fake = yield* agent(({ response, type }) =>
          type === "user"
            ? [init, start("m1"), { ...asking, request: { ...request, agent_id: "deep" } }]
            : response?.request_id === "r1"
            ? [
              { type: "system", subtype: "task_notification", task_id: "other", status: "completed" },
              { type: "system", subtype: "task_notification", task_id: "deep", status },
              result()
            ]
            : []
        )
        const session = yield* ClaudeSession.open(fake.process, options)
        const { events } = yield* converse(session, approving(session))
        assert.deepStrictEqual(
          events.flatMap((event) => event._tag === "ToolUpdated" ? [event.status] : []),
          ["pending", expected]
        )
      }).pipe(Effect.scoped)
  )

  const questions = [
    { question: "Which?", header: "H", options: [{ label: "A", description: "a" }, { label: "B" }], multiSelect: true },
    { question: "Why?" }
  ]

  it.live.each(
    [
      ["prompt", { 1: { labels: ["B", "A"], text: "or C" } }, {
        behavior: "allow",
        updatedInput: { questions, answers: { "Which?": "B, A, or C" } }
      }],
      ["auto", { 2: { text: "So" } }, { behavior: "allow", updatedInput: { questions, answers: { "Why?": "So" } } }],
      ["auto", null, { behavior: "deny", message: "The person did not answer." }]
    ] as const
  )(
    "asks the person in the mode %s, and passes on %j",
    ([toolApprovalMode, answers, told]) =>
      Effect.gen(function*() {
        const fake = yield* agent(({ response, type }) =>
          type === "user"
            ? [init, start("m1"), use("AskUserQuestion", { questions }), ask("AskUserQuestion", { questions })]
            : response?.request_id === "r1"
            ? [used(answers === null), result()]
            : []
        )
        const session = yield* ClaudeSession.open(fake.process, { ...options, toolApprovalMode })
        const { events } = yield* converse(
          session,
          (event) => event._tag === "QuestionAsked" ? session.answer(event.questionId, answers) : Effect.void
        )
        assert.deepStrictEqual(events.filter(({ _tag }) => _tag === "ApprovalRequested"), [])
        assert.deepStrictEqual(events.flatMap((event) => event._tag === "QuestionAsked" ? [event.questions] : []), [[
          {
            id: "1",
            text: "Which?",
            header: "H",
            options: [{ label: "A", description: "a" }, { label: "B" }],
            multiple: true,
            allows_text: true
          },
          { id: "2", text: "Why?", options: [], multiple: false, allows_text: true }
        ]])
        const [answer] = fake.received.flatMap((frame) => (frame as Sent).response ?? [])
        assert.deepStrictEqual(answer?.response, told)
      }).pipe(Effect.scoped)
  )

  it.live("denies questions that cannot be read or are too many, and asks no person", () =>
    Effect.gen(function*() {
      for (const asked of [{ questions: "x" }, { questions: Array.from({ length: 11 }, () => ({ question: "Which?" })) }]) {
        const fake = yield* agent(({ response, type }) =>
          type === "user"
            ? [init, start("m1"), use("AskUserQuestion", asked), ask("AskUserQuestion", asked)]
            : response?.request_id === "r1"
            ? [used(true), result()]
            : []
        )
        const session = yield* ClaudeSession.open(fake.process, options)
        const { events } = yield* converse(session)
        assert.deepStrictEqual(events.filter(({ _tag }) => _tag === "QuestionAsked"), [])
        const [answer] = fake.received.flatMap((frame) => (frame as Sent).response ?? [])
        assert.deepInclude(answer?.response, { behavior: "deny" })
      }
    }).pipe(Effect.scoped))

  it.live("shows which calls failed, and that they run where no approvals are asked for", () =>
    Effect.gen(function*() {
      const fake = yield* agent(onPrompt(init, start("m1"), use("Bash", { command: "false" }), used(true), result()))
      const session = yield* ClaudeSession.open(fake.process, { ...options, toolApprovalMode: "auto" })
      const { events } = yield* converse(session)
      assert.deepStrictEqual(
        events.flatMap((event) => event._tag === "ToolUpdated" ? [[event.tool, event.status]] : []),
        [["false", "pending"], ["false", "running"], ["false", "error"]]
      )
    }).pipe(Effect.scoped))

  it.live("approves by itself what is asked in auto mode all the same, and refuses what it does not offer", () =>
    Effect.gen(function*() {
      const fake = yield* agent(({ response, type }) =>
        type === "user"
          ? [init, ask("Bash", { command: "ls" }), { type: "control_request", request_id: "r2", request: { subtype: "hook_callback" } }]
          : response?.request_id === "r2"
          ? [result()]
          : []
      )
      const session = yield* ClaudeSession.open(fake.process, { ...options, toolApprovalMode: "auto" })
      const { events } = yield* converse(session)
      assert.deepStrictEqual(events.filter(({ _tag }) => _tag === "ApprovalRequested"), [])
      const answers = fake.received.flatMap((frame) => (frame as Sent).response ?? [])
      assert.deepStrictEqual(answers[0]?.response, { behavior: "allow", updatedInput: { command: "ls" } })
      assert.strictEqual(answers[1]?.subtype, "error")
    }).pipe(Effect.scoped))

  it.live("interrupts again when the turn begins after it was interrupted", () =>
    Effect.gen(function*() {
      let interrupts = 0
      const fake = yield* agent((frame) => {
        if (frame.request?.subtype !== "interrupt") return []
        // The first one comes before there is anything to interrupt.
        return ++interrupts === 1 ? [granted(frame), init] : [granted(frame), result({ subtype: "error_during_execution", is_error: true })]
      })
      const session = yield* ClaudeSession.open(fake.process, options)
      const turn = yield* Effect.forkChild(converse(session))
      yield* Effect.yieldNow
      yield* session.interrupt
      const { outcome } = yield* Effect.timeout(Fiber.join(turn), "5 seconds")
      assert.deepStrictEqual(outcome, Result.succeed({ state: "interrupted" as const }))
      assert.strictEqual(interrupts, 2)
    }).pipe(Effect.scoped))

  it.live("ends a turn that was abandoned before it began, and takes the next prompt", () =>
    Effect.gen(function*() {
      let prompts = 0
      let interrupts = 0
      const fake = yield* agent((frame) => {
        if (frame.type === "user") return ++prompts === 1 ? [] : [init, start("m2"), text("fresh"), result()]
        if (frame.request?.subtype !== "interrupt") return []
        return ++interrupts === 1
          ? [granted(frame), init, text("stale")]
          : [granted(frame), result({ subtype: "error_during_execution", is_error: true })]
      })
      const session = yield* ClaudeSession.open(fake.process, options)
      const turn = yield* Effect.forkChild(converse(session))
      yield* Effect.yieldNow
      yield* Fiber.interrupt(turn)
      const { events, outcome } = yield* Effect.timeout(converse(session, undefined, "turn-2"), "5 seconds")
      assert.deepStrictEqual(outcome, Result.succeed({ state: "succeeded" as const }))
      assert.deepStrictEqual(texts(events), ["fresh"])
      assert.strictEqual(interrupts, 2)
    }).pipe(Effect.scoped))

  it.live("tells why a turn failed, in the agent's words", () =>
    Effect.gen(function*() {
      for (
        const [fields, reason] of [
          [{ is_error: true, result: "API Error: 401" }, "API Error: 401"],
          [{ subtype: "error_during_execution", result: null, errors: ["boom"] }, "boom"],
          [{ subtype: "error_max_turns", result: "" }, "The agent ended the turn for an unknown reason."]
        ] as const
      ) {
        const fake = yield* agent(onPrompt(init, result(fields)))
        const session = yield* ClaudeSession.open(fake.process, options)
        assert.deepStrictEqual((yield* converse(session)).outcome, Result.succeed({ state: "failed" as const, reason }))
      }
    }).pipe(Effect.scoped))

  it.live("counts what a turn cost, not the session, and nothing of what it cannot know", () =>
    Effect.gen(function*() {
      for (const [resume, costs] of [[null, [10_000, 20_000]], ["s1", [0, 20_000]]] as const) {
        let total = 0
        const fake = yield* agent(({ type }) =>
          type === "user" ? [init, start("m1"), result({ total_cost_usd: (total += 1) === 1 ? 0.01 : 0.03 })] : []
        )
        const session = yield* ClaudeSession.open(fake.process, { ...options, resume })
        const turns = [yield* converse(session), yield* converse(session, undefined, "turn-2")]
        assert.deepStrictEqual(turns.map(({ events }) => events.findLast((event) => event._tag === "UsageReported")?.costMicroUsd), [
          ...costs
        ])
      }
    }).pipe(Effect.scoped))

  describe("steered", () => {
    const id = "00000000-0000-5000-8000-000000000001"
    const lifecycle = (state: string, command_uuid = id) => ({ type: "command_lifecycle", command_uuid, state })
    const steering = (session: AgentSession) => (event: AgentEvent) =>
      event._tag === "MessageUpdated" ? session.steer?.({ id, text: "left" }) ?? Effect.void : Effect.void
    const steers = (events: ReadonlyArray<AgentEvent>) => events.flatMap((event) => event._tag === "MessageSteered" ? event.messageId : [])
    /** Answers a prompt with a text, and what steers it as `script` says. */
    const told = (...frames: ReadonlyArray<object>): Script => ({ type, uuid }) =>
      type !== "user" ? [] : uuid === undefined ? [init, start("m1"), text("word")] : frames

    it.live("goes on for as long as claude has turns of its own for what it was not told in time, and counts them all", () =>
      Effect.gen(function*() {
        const fake = yield* agent(told(
          lifecycle("queued"),
          result({ total_cost_usd: 0.01 }),
          lifecycle("started", "somebody-elses"),
          lifecycle("started"),
          init,
          start("m2"),
          text("left"),
          lifecycle("completed"),
          result({ total_cost_usd: 0.03 })
        ))
        const session = yield* ClaudeSession.open(fake.process, options)
        const { events, outcome } = yield* converse(session, steering(session))
        assert.deepStrictEqual(outcome, Result.succeed({ state: "succeeded" as const }))
        assert.deepStrictEqual(steers(events), [id])
        assert.deepStrictEqual(texts(events), ["word", "left"])
        assert.deepInclude(events.findLast(({ _tag }) => _tag === "UsageReported"), { llmRequestCount: 2, costMicroUsd: 30_000 })
      }).pipe(Effect.scoped))

    it.live.each(["cancelled", "discarded", "refused"])(
      "ends with its result when what it was not told is %s",
      (state) =>
        Effect.gen(function*() {
          const fake = yield* agent(told(lifecycle("queued"), result({ stop_reason: "max_tokens" }), lifecycle(state)))
          const session = yield* ClaudeSession.open(fake.process, options)
          const { events, outcome } = yield* converse(session, steering(session))
          assert.deepStrictEqual(outcome, Result.succeed({ state: "succeeded" as const, finish: "max_tokens" as const }))
          assert.deepStrictEqual(steers(events), [])
        }).pipe(Effect.scoped)
    )

    it.live("is interrupted with all that waits, taken back before a denial could end the turn", () =>
      Effect.gen(function*() {
        const fake = yield* agent(({ request, type, uuid }) =>
          request?.subtype === "interrupt"
            ? [lifecycle("cancelled"), result({ subtype: "error_during_execution", is_error: true })]
            : type === "user" && uuid === undefined
            ? [init, start("m1"), text("word"), use("Bash", { command: "ls" }), ask("Bash", { command: "ls" })]
            : []
        )
        const session = yield* ClaudeSession.open(fake.process, options)
        const { events, outcome } = yield* converse(session, (event) =>
          event._tag === "ApprovalRequested" ? session.interrupt : steering(session)(event))
        assert.deepStrictEqual(outcome, Result.succeed({ state: "interrupted" as const }))
        assert.deepStrictEqual(steers(events), [])
        const sent: ReadonlyArray<object> = fake.received.map((frame) =>
          frame as Sent
        ).flatMap(({ request, type }) => request ?? { type })
        assert.deepStrictEqual(sent.slice(2), [
          { type: "user" },
          { subtype: "cancel_async_message", message_uuid: id },
          { type: "control_response" },
          { subtype: "interrupt", cancel_queued: true }
        ])
      }).pipe(Effect.scoped))

    it.live("is told nothing more once its turn is over", () =>
      Effect.gen(function*() {
        const fake = yield* agent(onPrompt(init, start("m1"), result()))
        const session = yield* ClaudeSession.open(fake.process, options)
        yield* converse(session, (event) =>
          event._tag === "UsageReported" && event.costMicroUsd > 0 ? session.steer?.({ id, text: "left" }) ?? Effect.void : Effect.void)
        yield* session.steer?.({ id, text: "left" }) ?? Effect.void
        assert.lengthOf(
          fake.received.map((frame) =>
            frame as Sent
          ).filter(({ type }) => type === "user"),
          1
        )
      }).pipe(Effect.scoped))

    it.live("ends when it is interrupted between claude's turns", () =>
      Effect.gen(function*() {
        const fake = yield* agent(({ request, type, uuid }) =>
          request?.subtype === "interrupt"
            ? [lifecycle("cancelled")]
            : type !== "user"
            ? []
            : uuid === undefined
            ? [init, start("m1"), text("word")]
            : [lifecycle("queued"), result()]
        )
        const session = yield* ClaudeSession.open(fake.process, options)
        const { outcome } = yield* converse(session, (event) =>
          event._tag === "UsageReported" && event.costMicroUsd > 0 ? session.interrupt : steering(session)(event))
        assert.deepStrictEqual(outcome, Result.succeed({ state: "interrupted" as const }))
      }).pipe(Effect.scoped))
  })
})
