import { assert, describe, it } from "@effect/vitest"
import type { AgentEvent, AgentSessionOptions } from "@slipway/domain/sandbox/ports/AgentRuntime"
import { finishes } from "@slipway/domain/sandbox/rules/Turn"
import { assertWellFormed } from "@slipway/testing/contracts/sandbox/AgentRuntimeContract"
import { Effect, Exit, Fiber, Redacted, Result, Scope } from "effect"
import { TestClock } from "effect/testing"
import * as AcpSession from "../src/acp/AcpSession.ts"
import type { AcpQuirks } from "../src/Profile.ts"
import { type Frame, make } from "../testing/FakeProcess.ts"
import { options } from "../testing/Session.ts"

const update = (update: object, sessionId = "s1") => ({
  jsonrpc: "2.0",
  method: "session/update",
  params: { sessionId, update }
})
const chunk = (text: string, messageId?: string) =>
  update({
    sessionUpdate: "agent_message_chunk",
    ...(messageId === undefined ? {} : { messageId }),
    content: { type: "text", text }
  })
const thought = (text: string) => update({ sessionUpdate: "agent_thought_chunk", content: { type: "text", text } })
const tool = (status: string, more: object = {}) =>
  update({ sessionUpdate: status === "pending" ? "tool_call" : "tool_call_update", toolCallId: "c1", status, ...more })

const ask = (more: object = {}) => ({
  jsonrpc: "2.0",
  id: "ask-1",
  method: "session/request_permission",
  params: {
    sessionId: "s1",
    toolCall: {
      toolCallId: "c1",
      title: "Write `/sandbox/ws/repo/a.txt`",
      kind: "edit",
      locations: [{ path: "/sandbox/ws/repo/a.txt" }],
      rawInput: { token: "secret" }
    },
    options: [
      { optionId: "1", kind: "allow_always", name: "Always" },
      { optionId: "2", kind: "reject_always", name: "Never" },
      { optionId: "3", kind: "allow_once", name: "Yes" },
      { optionId: "4", kind: "reject_once", name: "No" }
    ],
    ...more
  }
})

const done = (frame: Frame, stopReason = "end_turn") => ({ jsonrpc: "2.0", id: frame.id, result: { stopReason } })

/** An agent that opens session `s1` and then does what `script` says to each further frame. */
const scripted = (script: (frame: Frame, promptFrame: Frame) => ReadonlyArray<object | string>) => {
  let promptFrame: Frame = {}
  return make((frame) => {
    if (frame.method === "initialize") return [{ jsonrpc: "2.0", id: frame.id, result: { protocolVersion: 1 } }]
    if (frame.method === "session/new") return [{ jsonrpc: "2.0", id: frame.id, result: { sessionId: "s1" } }]
    if (frame.method === "session/prompt") promptFrame = frame
    return script(frame, promptFrame)
  })
}

/** Runs one prompt. `onEvent` sees what the session is, too. */
const converse = Effect.fnUntraced(function*(
  script: (frame: Frame, promptFrame: Frame) => ReadonlyArray<object | string>,
  react: (event: AgentEvent, session: Effect.Success<ReturnType<typeof AcpSession.open>>) => Effect.Effect<void> = () => Effect.void,
  overrides: Partial<AgentSessionOptions> = {},
  quirks: AcpQuirks = {}
) {
  const fake = yield* scripted(script)
  const session = yield* AcpSession.open(fake.process, { ...options, ...overrides }, quirks)
  const events: Array<AgentEvent> = []
  const outcome = yield* Effect.result(
    session.prompt({
      turnId: "turn",
      text: "go",
      onEvent: (event) => Effect.suspend(() => (events.push(event), react(event, session)))
    })
  )
  assertWellFormed(events)
  return { fake, session, events, outcome }
}, Effect.scoped)

const decideAll = (decision: "approve" | "deny") => (event: AgentEvent, session: Effect.Success<ReturnType<typeof AcpSession.open>>) =>
  event._tag === "ApprovalRequested" ? session.decide(event.approvalId, decision) : Effect.void

describe("AcpSession", () => {
  it.live("tells the plan of the session, each change once, and not that of another session", () =>
    Effect.gen(function*() {
      const plan = (entries: ReadonlyArray<object>, sessionId?: string) => update({ sessionUpdate: "plan", entries }, sessionId)
      const { events } = yield* converse((frame) =>
        frame.method === "session/prompt"
          ? [
            plan([{ content: "Read it", priority: "high", status: "in_progress" }]),
            plan([{ content: "theirs", priority: "high", status: "in_progress" }], "s2"),
            plan([{ content: "Read it", priority: "low", status: "in_progress" }]),
            plan([{ content: "Read it", priority: "high", status: "completed" }, { content: "Fix it" }]),
            plan([]),
            done(frame)
          ]
          : []
      )
      assert.deepStrictEqual(events.flatMap((event) => event._tag === "PlanUpdated" ? [event.entries] : []), [
        [{ text: "Read it", status: "in_progress" }],
        [{ text: "Read it", status: "completed" }, { text: "Fix it", status: "pending" }],
        []
      ])
    }))

  it.live("finds the call that started a sub-agent by its task", () =>
    Effect.gen(function*() {
      const quirks: AcpQuirks = {
        subAgents: { method: "_x.ai/session_notification", began: "subagent_spawned", ended: "subagent_finished" }
      }
      const about = (sessionUpdate: string, child: string, description: string) => ({
        jsonrpc: "2.0",
        method: "_x.ai/session_notification",
        params: { sessionId: "s1", update: { sessionUpdate, subagent_id: child, child_session_id: child, description } }
      })
      const task = (toolCallId: string, description: string) =>
        update({
          sessionUpdate: "tool_call",
          toolCallId,
          title: description,
          rawInput: { description },
          _meta: { "x.ai/tool": { kind: "task" } }
        })
      const call = (toolCallId: string, sessionId: string) =>
        update({ sessionUpdate: "tool_call", toolCallId, title: toolCallId, kind: "other", status: "completed" }, sessionId)
      const { events } = yield* converse(
        (frame) =>
          frame.method === "session/prompt"
            ? [
              task("a", "one"),
              task("b", "two"),
              about("subagent_spawned", "s-two", "two"),
              about("subagent_spawned", "s-one", "one"),
              about("subagent_spawned", "s-unknown", "three"),
              call("of one", "s-one"),
              call("of two", "s-two"),
              call("of three", "s-unknown"),
              call("own", "s1"),
              ...["s-one", "s-two", "s-unknown"].map((child) => about("subagent_finished", child, "")),
              done(frame)
            ]
            : [],
        undefined,
        {},
        quirks
      )
      const calls = events.flatMap((event) => event._tag === "ToolUpdated" ? [event] : [])
      const titles = new Map(calls.map(({ callId, tool }) => [callId, tool]))
      const parents = Object.fromEntries(calls.map(({ parentCallId, tool }) => [tool, titles.get(parentCallId ?? "") ?? null]))
      assert.deepStrictEqual(parents, { one: null, two: null, "of one": "one", "of two": "two", "of three": null, own: null })
    }))

  it.live("gathers chunks into messages, a text with the thought before it, and begins a new one after a tool", () =>
    Effect.gen(function*() {
      const { events, outcome } = yield* converse((frame) =>
        frame.method === "session/prompt"
          ? [
            thought("a"),
            thought("b"),
            chunk("c"),
            chunk("d"),
            tool("pending", { title: "t" }),
            chunk("e"),
            chunk("f", "m"),
            chunk("g", "n"),
            tool("completed"),
            done(frame)
          ]
          : []
      )
      assert.deepStrictEqual(outcome, Result.succeed({ state: "succeeded" as const }))
      assert.deepStrictEqual(events, [
        { _tag: "MessageUpdated", messageId: "turn:m1", kind: "reasoning", text: "a" },
        { _tag: "MessageUpdated", messageId: "turn:m1", kind: "reasoning", text: "ab" },
        { _tag: "MessageUpdated", messageId: "turn:m1", kind: "text", text: "c" },
        { _tag: "MessageUpdated", messageId: "turn:m1", kind: "text", text: "cd" },
        { _tag: "ToolUpdated", callId: "turn:t1", tool: "t", status: "pending" },
        { _tag: "MessageUpdated", messageId: "turn:m2", kind: "text", text: "e" },
        { _tag: "MessageUpdated", messageId: "turn:m3", kind: "text", text: "f" },
        { _tag: "MessageUpdated", messageId: "turn:m4", kind: "text", text: "g" },
        { _tag: "ToolUpdated", callId: "turn:t1", tool: "t", status: "completed" }
      ])
    }))

  describe("with an agent that tells of its sub-agents", () => {
    const quirks: AcpQuirks = { subAgents: { method: "_sub", began: "began", ended: "ended" } }
    const sub = (sessionUpdate: string, id = "a") => ({
      jsonrpc: "2.0",
      method: "_sub",
      params: { sessionId: "s1", update: { sessionUpdate, subagent_id: id, child_session_id: `${id}-session` } }
    })
    const theirs = (status: string, more: object = {}) =>
      update({ sessionUpdate: status === "pending" ? "tool_call" : "tool_call_update", toolCallId: "theirs", status, ...more }, "a-session")

    it.live("lets them ask as it does, tells what they do, and ends its turn after theirs", () =>
      Effect.gen(function*() {
        const toolCall = { toolCallId: "theirs", kind: "edit", rawInput: { file_path: "/sandbox/ws/repo/a.txt" } }
        const { events, fake, outcome } = yield* converse(
          (frame) =>
            frame.method === "session/prompt"
              ? [
                sub("began"),
                done(frame),
                update({ sessionUpdate: "agent_message_chunk", content: { type: "text", text: "theirs" } }, "a-session"),
                theirs("pending", {
                  title: "Write",
                  kind: "edit",
                  content: [{ type: "diff", path: "/sandbox/ws/repo/a.txt", newText: "a\n" }]
                }),
                update({ sessionUpdate: "tool_call", toolCallId: "c9", title: "a stranger's", status: "pending" }, "s9"),
                ask({ toolCall })
              ]
              : frame.id === "ask-1"
              ? [theirs("completed"), sub("ended")]
              : [],
          decideAll("approve"),
          {},
          quirks
        )
        assert.deepStrictEqual(outcome, Result.succeed({ state: "succeeded" as const }))
        assert.deepStrictEqual(
          events.map((event) =>
            event._tag === "ToolUpdated" ? event.status : event._tag === "ApprovalRequested" ? event.preview : event._tag
          ),
          ["pending", { diff: "--- /dev/null\n+++ repo/a.txt\n@@ -0,0 +1,1 @@\n+a\n" }, "completed"]
        )
        assert.strictEqual(fake.received.filter(({ id, result }) => id === "ask-1" && result !== undefined).length, 1)
      }))

    it.live("is interrupted with them, those too that begin then", () =>
      Effect.gen(function*() {
        const { fake, outcome } = yield* converse(
          (frame, promptFrame) => {
            const about = frame.params?.["sessionId"]
            if (frame.method === "session/prompt") return [sub("began"), chunk("go")]
            if (frame.method !== "session/cancel") return []
            if (about === "a-session") return [sub("began", "b"), sub("ended")]
            return about === "b-session" ? [sub("ended", "b")] : [done(promptFrame, "cancelled")]
          },
          (event, session) => event._tag === "MessageUpdated" ? session.interrupt : Effect.void,
          {},
          quirks
        )
        assert.deepStrictEqual(outcome, Result.succeed({ state: "interrupted" as const }))
        assert.deepStrictEqual(
          fake.received.flatMap(({ method, params }) => method === "session/cancel" ? [params?.["sessionId"]] : []).slice(0, 3),
          ["a-session", "s1", "b-session"]
        )
      }))
  })

  it.live("drops sub-agents, other updates, stray lines and frames that are no message", () =>
    Effect.gen(function*() {
      const { events, outcome } = yield* converse((frame) =>
        frame.method === "session/prompt"
          ? [
            "Listening on nothing\n",
            "\n",
            "42\n",
            { jsonrpc: "2.0" },
            update({ sessionUpdate: "agent_message_chunk", content: { type: "text", text: "sub-agent" } }, "s2"),
            update({ sessionUpdate: "available_commands_update", availableCommands: [] }),
            update({ sessionUpdate: "usage_update", used: 1, size: 2 }),
            { jsonrpc: "2.0", method: "_x.ai/session_notification", params: { sessionId: "s1" } },
            chunk("mine"),
            { jsonrpc: "2.0", id: 999, result: {} },
            done(frame)
          ]
          : []
      )
      assert.isTrue(Result.isSuccess(outcome))
      assert.deepStrictEqual(
        events.flatMap((event) => (event._tag === "MessageUpdated" ? event.text : [])),
        ["mine"]
      )
    }))

  it.live("puts lines and characters together that arrive in pieces", () =>
    Effect.gen(function*() {
      const fake = yield* make(() => [])
      const opening = yield* Effect.forkChild(AcpSession.open(fake.process, options).pipe(Effect.scoped, Effect.result))
      yield* fake.say(
        `{"jsonrpc":"2.0","id":1,"res`,
        `ult":{}}\n{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s1"}}\n`
      )
      assert.isTrue(Result.isSuccess(yield* Fiber.join(opening)))
    }))

  it.live("says why something is denied exactly to agents that read it", () =>
    Effect.gen(function*() {
      for (const quirks of [{}, { denialReason: "slipway/reason" }]) {
        const { fake } = yield* converse(
          (frame, promptFrame) => frame.method === "session/prompt" ? [ask()] : "result" in frame ? [done(promptFrame)] : [],
          (event, session) => event._tag === "ApprovalRequested" ? session.decide(event.approvalId, "deny", "Not there.") : Effect.void,
          {},
          quirks
        )
        assert.deepStrictEqual(fake.received.find(({ id }) => id === "ask-1")?.result, {
          outcome: { outcome: "selected", optionId: "4" },
          ...("denialReason" in quirks ? { _meta: { "slipway/reason": "Not there." } } : {})
        })
      }
    }))

  it.live("chooses options by kind and never for always", () =>
    Effect.gen(function*() {
      for (
        const [decision, optionId] of [
          ["approve", "3"],
          ["deny", "4"]
        ] as const
      ) {
        const { events, fake, outcome } = yield* converse(
          (frame, promptFrame) => frame.method === "session/prompt" ? [ask()] : "result" in frame ? [done(promptFrame)] : [],
          decideAll(decision)
        )
        assert.deepStrictEqual(fake.received.find(({ id }) => id === "ask-1")?.result, {
          outcome: { outcome: "selected", optionId }
        })
        assert.deepStrictEqual(events[1], {
          _tag: "ApprovalRequested",
          approvalId: "turn:t1",
          tool: "Write `repo/a.txt`",
          kind: "edit",
          paths: ["repo/a.txt"],
          // The preview of an edit that does not say what it writes: the call's arguments.
          preview: { command: "{\n  \"token\": \"secret\"\n}" }
        })
        assert.deepStrictEqual(outcome, Result.succeed({ state: "succeeded" as const }))
      }
    }))

  it.live("answers cancelled where only a choice for always is offered", () =>
    Effect.gen(function*() {
      const { fake } = yield* converse(
        (frame, promptFrame) =>
          frame.method === "session/prompt"
            ? [ask({ options: [{ optionId: "1", kind: "allow_always", name: "Always" }] })]
            : "result" in frame
            ? [done(promptFrame)]
            : [],
        decideAll("approve")
      )
      assert.deepStrictEqual(fake.received.find(({ id }) => id === "ask-1")?.result, {
        outcome: { outcome: "cancelled" }
      })
    }))

  it.live("approves by itself in auto mode what an agent still asks", () =>
    Effect.gen(function*() {
      const { events, fake } = yield* converse(
        (frame, promptFrame) => frame.method === "session/prompt" ? [ask()] : "result" in frame ? [done(promptFrame)] : [],
        undefined,
        { toolApprovalMode: "auto" }
      )
      assert.deepStrictEqual(events, [])
      assert.deepStrictEqual(fake.received.find(({ id }) => id === "ask-1")?.result, {
        outcome: { outcome: "selected", optionId: "3" }
      })
    }))

  it.live("counts a turn that an agent cancels because of a denial as succeeded, any other as failed", () =>
    Effect.gen(function*() {
      const denied = yield* converse(
        (frame, promptFrame) => frame.method === "session/prompt" ? [ask()] : "result" in frame ? [done(promptFrame, "cancelled")] : [],
        decideAll("deny")
      )
      assert.deepStrictEqual(denied.outcome, Result.succeed({ state: "succeeded" as const }))
      assert.deepInclude(denied.events.at(-1), { status: "error", error: "denied" })
      for (const stopReason of ["cancelled", "max_tokens", "max_turn_requests", "refusal", "out_of_luck"]) {
        const { outcome } = yield* converse((frame) => frame.method === "session/prompt" ? [chunk("x"), done(frame, stopReason)] : [])
        assert.isTrue(
          Result.isSuccess(outcome) && outcome.success.state === "failed" && outcome.success.reason !== undefined
        )
      }
    }))

  it.live("tells how the last message ended", () =>
    Effect.gen(function*() {
      for (
        const [stopReason, finish] of [
          ["end_turn", "end_turn"],
          ["max_tokens", "max_tokens"],
          ["refusal", "refusal"],
          ["cancelled", "cancelled"],
          ["other", "error"]
        ] as const
      ) {
        const { outcome } = yield* converse((frame) => frame.method === "session/prompt" ? [chunk("x"), done(frame, stopReason)] : [])
        const end = Result.getOrThrow(outcome)
        assert.strictEqual(end.finish ?? finishes[end.state], finish)
      }
    }))

  it.live("refuses what it has not got, in the middle of a turn", () =>
    Effect.gen(function*() {
      const { fake, outcome } = yield* converse((frame, promptFrame) =>
        frame.method === "session/prompt"
          ? [{ jsonrpc: "2.0", id: 0, method: "fs/write_text_file", params: { sessionId: "s1" } }]
          : "error" in frame
          ? [done(promptFrame)]
          : []
      )
      assert.deepInclude(
        fake.received.find(({ id }) => id === 0),
        { error: { code: -32601, message: "method not found: fs/write_text_file" } }
      )
      assert.isTrue(Result.isSuccess(outcome))
    }))

  it.live("resolves approvals before it cancels, and shows an aborted call as an error whatever the agent says", () =>
    Effect.gen(function*() {
      const { events, fake, outcome } = yield* converse(
        (frame, promptFrame) =>
          frame.method === "session/prompt"
            ? [tool("pending"), tool("in_progress"), ask()]
            : frame.method === "session/cancel"
            ? [tool("completed"), done(promptFrame)]
            : [],
        (event, session) => (event._tag === "ApprovalRequested" ? session.interrupt : Effect.void)
      )
      assert.deepStrictEqual(outcome, Result.succeed({ state: "interrupted" as const }))
      assert.deepInclude(events.at(-1), { status: "error", error: "interrupted" })
      const [answer, cancel] = fake.received.slice(-2)
      assert.deepStrictEqual(answer?.result, { outcome: { outcome: "cancelled" } })
      assert.deepInclude(cancel, { method: "session/cancel", params: { sessionId: "s1" } })
    }))

  it.live("never moves a call backwards and closes the ones an agent forgets", () =>
    Effect.gen(function*() {
      const { events } = yield* converse((frame) =>
        frame.method === "session/prompt"
          ? [
            tool("in_progress"),
            tool("pending"),
            tool("odd"),
            tool("in_progress", { title: " later\ntitle " }),
            done(frame)
          ]
          : []
      )
      assert.deepStrictEqual(events, [
        { _tag: "ToolUpdated", callId: "turn:t1", tool: "tool", status: "pending" },
        { _tag: "ToolUpdated", callId: "turn:t1", tool: "tool", status: "running" },
        { _tag: "ToolUpdated", callId: "turn:t1", tool: "later ⏎ title", status: "error", error: "the turn ended first" }
      ])
    }))

  it.live("fails the turn with the agent's own words", () =>
    Effect.gen(function*() {
      for (
        const [error, reason] of [
          [{ code: -32603, message: "Internal error", data: { message: "no credit" } }, "no credit"],
          [{ code: -32603, message: "Internal error", data: "401" }, "401"],
          [{ code: -32603, message: "Internal error", data: { other: 1 } }, "Internal error"]
        ] as const
      ) {
        const { outcome } = yield* converse((frame) =>
          frame.method === "session/prompt" ? [chunk("x"), { jsonrpc: "2.0", id: frame.id, error }] : []
        )
        assert.deepStrictEqual(outcome, Result.succeed({ state: "failed" as const, reason }))
      }
    }))

  it.live("says of a message that is larger than any may be that it was too large", () =>
    Effect.gen(function*() {
      const { outcome } = yield* converse((frame) =>
        frame.method === "session/prompt" ? [chunk("x".repeat(8 * 1024 * 1024)), done(frame)] : []
      )
      assert.deepInclude(Result.isFailure(outcome) ? outcome.failure : outcome, { retryable: false, tooLarge: true })
    }))

  it.live("fails for good when the agent's answer is not ACP, retryably when its output ends", () =>
    Effect.gen(function*() {
      const nonsense = yield* converse((frame) =>
        frame.method === "session/prompt" ? [chunk("x"), { jsonrpc: "2.0", id: frame.id, result: {} }] : []
      )
      assert.isTrue(Result.isFailure(nonsense.outcome) && !nonsense.outcome.failure.retryable)

      const fake = yield* scripted(() => [chunk("x"), tool("pending")])
      const session = yield* AcpSession.open(fake.process, options)
      const events: Array<AgentEvent> = []
      const outcome = yield* Effect.result(
        session.prompt({
          turnId: "turn",
          text: "go",
          onEvent: (event) => Effect.suspend(() => (events.push(event), event._tag === "ToolUpdated" ? fake.end(137) : Effect.void))
        })
      )
      assert.isTrue(Result.isFailure(outcome) && outcome.failure.retryable)
      assert.strictEqual(Result.isFailure(outcome) ? outcome.failure.detail : "", "the agent exited with code 137")
      assertWellFormed(events)
    }).pipe(Effect.scoped))

  it.live("fails for good on a line without end", () =>
    Effect.gen(function*() {
      const { outcome } = yield* converse((frame) =>
        frame.method === "session/prompt" ? Array.from({ length: 17 }, () => "x".repeat(1024 * 1024)) : []
      )
      assert.isTrue(Result.isFailure(outcome) && !outcome.failure.retryable)
    }))

  it.live("reads the next frame only when the event before it was handled", () =>
    Effect.gen(function*() {
      const open: Array<string> = []
      yield* converse(
        (frame) => (frame.method === "session/prompt" ? [chunk("a"), chunk("b"), done(frame)] : []),
        () =>
          Effect.gen(function*() {
            open.push("in")
            yield* Effect.sleep("5 millis")
            open.push("out")
          })
      )
      assert.deepStrictEqual(open, ["in", "out", "in", "out"])
    }))

  it.live("dies with the consumer, not silently, when an event cannot be handled", () =>
    Effect.gen(function*() {
      const exit = yield* Effect.exit(
        converse(
          (frame, promptFrame) =>
            frame.method === "session/prompt"
              ? [chunk("a")]
              : frame.method === "session/cancel"
              ? [done(promptFrame, "cancelled")]
              : [],
          () => Effect.die("the store is gone")
        )
      )
      assert.include(JSON.stringify(exit), "the store is gone")
    }))

  it.live("keeps text that the store can keep", () =>
    Effect.gen(function*() {
      const { events } = yield* converse((frame) =>
        frame.method === "session/prompt" ? [chunk("a\0\ud83d"), chunk("\ude00"), done(frame)] : []
      )
      const texts = events.flatMap((event) => (event._tag === "MessageUpdated" ? event.text : []))
      assert.deepStrictEqual(texts, ["a\uFFFD", "a\uFFFD😀"])
    }))

  it.live("sets the effort with the option of category thought_level, and fails where there is none", () =>
    Effect.gen(function*() {
      const open = (configOptions: ReadonlyArray<object>, reasoningEffort: "high" | null = "high") =>
        Effect.gen(function*() {
          const fake = yield* make(({ id, method }) => [
            { jsonrpc: "2.0", id, result: method === "session/new" ? { sessionId: "s1", configOptions } : {} }
          ])
          const outcome = yield* Effect.result(AcpSession.open(fake.process, { ...options, reasoningEffort }, { noEffort: "default" }))
          return { fake, outcome }
        }).pipe(Effect.scoped)
      const { fake } = yield* open([
        { id: "model", category: "model" },
        { id: "e", category: "thought_level" }
      ])
      assert.deepInclude(fake.received.at(-1), {
        method: "session/set_config_option",
        params: { sessionId: "s1", configId: "e", value: "high" }
      })
      const { outcome } = yield* open([{ id: "model", category: "model" }])
      assert.isTrue(Result.isFailure(outcome) && !outcome.failure.retryable)
      // A model without efforts has no such option, and needs none.
      assert.isTrue(Result.isSuccess((yield* open([{ id: "model", category: "model" }], null)).outcome))
    }))

  /** An agent that says later that it has the tools of its MCP servers. */
  const late = Effect.gen(function*() {
    const fake = yield* make(({ id }) => [{ jsonrpc: "2.0", id, result: { sessionId: "s1" } }])
    const mcp = { access: { baseUrl: "http://127.0.0.1:1/mcp", token: Redacted.make("t") }, servers: ["docs"] }
    const opening = yield* Effect.forkChild(AcpSession.open(fake.process, { ...options, mcp }, { mcpStarted: "_x.ai/mcp_initialized" }))
    yield* Effect.yieldNow.pipe(Effect.repeat({ until: () => fake.received.length === 2 }))
    yield* TestClock.adjust("9 seconds")
    assert.isUndefined(opening.pollUnsafe())
    return { fake, opening }
  })

  it.effect("is open when the agent has the tools of its MCP servers, so that the first prompt has them", () =>
    Effect.gen(function*() {
      const { fake, opening } = yield* late
      yield* fake.say({ jsonrpc: "2.0", method: "_x.ai/mcp_initialized", params: { sessionId: "s1" } })
      yield* Fiber.join(opening)
    }).pipe(Effect.scoped))

  it.effect("is open without them after ten seconds", () =>
    Effect.gen(function*() {
      const { opening } = yield* late
      yield* TestClock.adjust("1 seconds")
      yield* Fiber.join(opening)
    }).pipe(Effect.scoped))

  /** A session whose first prompt was abandoned and has no answer yet. */
  const abandoned = Effect.gen(function*() {
    const fake = yield* scripted(() => [])
    const session = yield* AcpSession.open(fake.process, options)
    const prompt = (events: Array<AgentEvent>) =>
      session.prompt({ turnId: "turn", text: "go", onEvent: (event) => Effect.sync(() => events.push(event)) })
    const sent = (method: string) => fake.received.filter((frame) => frame.method === method)
    const first = yield* Effect.forkChild(prompt([]), { startImmediately: true })
    yield* Fiber.interrupt(first)
    return { fake, session, prompt, sent }
  })

  it.effect("gives a prompt nothing that an abandoned one left behind", () =>
    Effect.gen(function*() {
      const { fake, prompt, sent } = yield* abandoned
      assert.strictEqual(sent("session/cancel").length, 1)
      const events: Array<AgentEvent> = []
      const second = yield* Effect.forkChild(prompt(events), { startImmediately: true })
      yield* fake.say(chunk("stale"), ask(), done(sent("session/prompt")[0] ?? {}, "cancelled"))
      yield* Effect.yieldNow.pipe(Effect.repeat({ until: () => sent("session/prompt").length === 2 }))
      yield* fake.say(chunk("fresh"), done(sent("session/prompt")[1] ?? {}))
      assert.deepStrictEqual(yield* Fiber.join(second), { state: "succeeded" })
      assert.deepStrictEqual(
        events.map(({ _tag }) => _tag),
        ["MessageUpdated"]
      )
    }).pipe(Effect.scoped))

  it.effect("never sends a prompt that was interrupted before its turn came", () =>
    Effect.gen(function*() {
      const { fake, prompt, sent, session } = yield* abandoned
      const second = yield* Effect.forkChild(prompt([]), { startImmediately: true })
      yield* session.interrupt
      yield* fake.say(done(sent("session/prompt")[0] ?? {}, "cancelled"))
      assert.deepStrictEqual(yield* Fiber.join(second), { state: "interrupted" })
      assert.strictEqual(sent("session/prompt").length, 1)
      assert.strictEqual(sent("session/cancel").length, 1)
    }).pipe(Effect.scoped))

  it.effect("fails a prompt whose session is closed around an agent that does not react", () =>
    Effect.gen(function*() {
      const fake = yield* scripted((frame) => (frame.method === "session/prompt" ? [chunk("x")] : []))
      const scope = yield* Scope.make()
      const deaf = { ...fake.process, endInput: Effect.void }
      const session = yield* Scope.provide(AcpSession.open(deaf, options), scope)
      const events: Array<AgentEvent> = []
      const prompt = yield* session
        .prompt({
          turnId: "turn",
          text: "go",
          onEvent: (event) => Effect.sync(() => events.push(event))
        })
        .pipe(Effect.result, Effect.forkChild({ startImmediately: true }))
      const closing = yield* Effect.forkChild(Scope.close(scope, Exit.void), { startImmediately: true })
      yield* TestClock.adjust("10 seconds")
      yield* Fiber.join(closing)
      const outcome = yield* Fiber.join(prompt)
      assert.isTrue(Result.isFailure(outcome) && outcome.failure.retryable)
      assertWellFormed(events)
      assert.isTrue(fake.received.some(({ method }) => method === "session/cancel"))
    }))
})
