import { assert, describe, it } from "@effect/vitest"
import type { AgentEvent, AgentSession, AgentSessionOptions } from "@slipway/domain/sandbox/ports/AgentRuntime"
import { Effect, Fiber, Result } from "effect"
import * as CodexSession from "../src/codex/CodexSession.ts"
import { type Frame, make } from "../testing/FakeProcess.ts"
import { approving, converse, options, texts } from "../testing/Session.ts"

type Script = (frame: Frame) => ReadonlyArray<object>

const notify = (method: string, params: object, threadId = "t1") => ({ method, params: { threadId, ...params } })
const delta = (text: string, threadId?: string) => notify("item/agentMessage/delta", { itemId: "m1", delta: text }, threadId)
const item = (method: "started" | "completed", fields: object, threadId?: string) =>
  notify(
    `item/${method}`,
    { item: { id: "c1", type: "commandExecution", command: "bash -lc ls", status: "inProgress", ...fields } },
    threadId
  )
const ask = (id: number, more: object = {}) => ({
  id,
  method: "item/commandExecution/requestApproval",
  params: { threadId: "t1", itemId: "c1", command: "bash -lc ls", ...more }
})
const completed = (status = "completed", error: object | null = null, id = "turn1", threadId?: string) =>
  notify("turn/completed", { turn: { id, status, error } }, threadId)

/** The turn `turn-<thread>` of a sub-agent. */
const began = (thread: string) => notify("turn/started", { turn: { id: `turn-${thread}` } }, thread)

/** An agent with the thread `t1` and the turn `turn1`, which answers `turn/start` with what `script` says. */
const agent = (script: Script) =>
  make((frame) => {
    const answer = (result: object) => [{ id: frame.id, result }]
    if (frame.method === "initialize") return answer({})
    if (frame.method === "thread/start" || frame.method === "thread/resume") return answer({ thread: { id: "t1" } })
    if (frame.method === "turn/start") return [...answer({ turn: { id: "turn1" } }), ...script(frame)]
    return script(frame)
  })

const run = Effect.fnUntraced(function*(
  script: Script,
  more: Partial<AgentSessionOptions> = {},
  react: (session: AgentSession) => (event: AgentEvent) => Effect.Effect<void> = approving
) {
  const fake = yield* agent(script)
  const session = yield* CodexSession.open(fake.process, { ...options, ...more })
  return { fake, session, ...(yield* converse(session, react(session))) }
}, Effect.scoped)

const onStart = (...frames: ReadonlyArray<object>): Script => ({ method }) => method === "turn/start" ? frames : []
const answersOf = (received: ReadonlyArray<Frame>, id: number) => received.filter((frame) => frame.id === id && frame.method === undefined)

describe("CodexSession", () => {
  it.live("tells of sub-agents what they do, not what they say, and lets them ask", () =>
    Effect.gen(function*() {
      const { events, fake, outcome } = yield* run(({ id, method }) =>
        method === "turn/start"
          ? [
            began("t2"),
            delta("theirs", "t2"),
            item("started", { command: "theirs" }, "t2"),
            item("started", { command: "ours" }),
            ask(77, { threadId: "t2" }),
            completed("failed", { message: "of another turn" }, "turn0"),
            delta("ours"),
            completed()
          ]
          : id === 77
          ? [item("completed", { command: "theirs", status: "completed" }, "t2"),
            completed("failed", { message: "theirs" }, "turn-t2", "t2")]
          : []
      )
      assert.deepStrictEqual(outcome, Result.succeed({ state: "succeeded" as const }))
      assert.deepStrictEqual(texts(events), ["ours"])
      assert.deepStrictEqual(
        events.flatMap((event) =>
          event._tag === "ToolUpdated" ? [[event.tool, event.status]] : event._tag === "ApprovalRequested" ? [[event.tool, "asks"]] : []
        ),
        // Two calls, though both threads call theirs the same. The agent's own is never ended by the fake.
        [["theirs", "pending"], ["ours", "pending"], ["bash -lc ls", "asks"], ["theirs", "completed"], ["ours", "error"]]
      )
      assert.deepStrictEqual(answersOf(fake.received, 77), [{ id: 77, result: { decision: "accept" } }])
    }))

  it.live("tells the plan of the agent, and not that of a sub-agent", () =>
    Effect.gen(function*() {
      const plan = (steps: ReadonlyArray<object>, threadId?: string) =>
        notify("turn/plan/updated", { turnId: "turn1", explanation: null, plan: steps }, threadId)
      const { events } = yield* run(onStart(
        plan([{ step: "Read it", status: "inProgress" }, { step: "Fix it", status: "pending" }]),
        began("t2"),
        plan([{ step: "theirs", status: "pending" }], "t2"),
        plan([{ step: "Read it", status: "inProgress" }, { step: "Fix it", status: "pending" }]),
        plan([{ step: "Read it", status: "completed" }, { step: "Fix it", status: "unheard of" }]),
        notify("turn/plan/updated", { turnId: "turn1", plan: "odd" }),
        completed("completed", null, "turn-t2", "t2"),
        completed()
      ))
      assert.deepStrictEqual(events.flatMap((event) => event._tag === "PlanUpdated" ? [event.entries] : []), [
        [{ text: "Read it", status: "in_progress" }, { text: "Fix it", status: "pending" }],
        [{ text: "Read it", status: "completed" }, { text: "Fix it", status: "pending" }]
      ])
    }))

  it.live("names the call that started a sub-agent for each of its calls, at any depth", () =>
    Effect.gen(function*() {
      const spawn = (id: string, thread: string, threadId?: string) =>
        item(
          "completed",
          { id, type: "collabAgentToolCall", command: null, tool: "spawnAgent", status: "completed", receiverThreadIds: [thread] },
          threadId
        )
      const { events } = yield* run(onStart(
        spawn("outer", "t2"),
        began("t2"),
        item("started", { command: "theirs" }, "t2"),
        item("completed", { command: "theirs", status: "completed" }, "t2"),
        spawn("inner", "t3", "t2"),
        began("t3"),
        item("completed", { command: "inmost", status: "completed" }, "t3"),
        // Another call to a sub-agent does not adopt what it does.
        item("completed", {
          id: "again",
          type: "collabAgentToolCall",
          command: null,
          tool: "wait",
          status: "completed",
          receiverThreadIds: ["t2"]
        }),
        item("completed", { id: "c2", command: "later", status: "completed" }, "t2"),
        item("completed", { command: "ours", status: "completed" }),
        completed("completed", null, "turn-t3", "t3"),
        completed("completed", null, "turn-t2", "t2"),
        completed()
      ))
      const calls = events.flatMap((event) => event._tag === "ToolUpdated" ? [event] : [])
      const parentOf = (tool: string) => {
        const parent = calls.findLast((call) => call.tool === tool)?.parentCallId
        return parent === undefined ? null : calls.filter(({ tool }) => tool === "spawnAgent").findIndex(({ callId }) => callId === parent)
      }
      const spawns = [...new Set(calls.filter(({ tool }) => tool === "spawnAgent").map(({ callId }) => callId))]
      assert.lengthOf(spawns, 2)
      assert.strictEqual(calls.findLast(({ tool }) => tool === "theirs")?.parentCallId, spawns[0])
      assert.strictEqual(calls.findLast(({ tool }) => tool === "later")?.parentCallId, spawns[0])
      assert.strictEqual(calls.findLast(({ tool }) => tool === "inmost")?.parentCallId, spawns[1])
      assert.isNull(parentOf("ours"))
    }))

  describe("with sub-agents", () => {
    const spawned = (id: string, thread = "t2") =>
      item("completed", { id, type: "collabAgentToolCall", tool: "spawnAgent", status: "completed", receiverThreadIds: [thread] })
    const reads = (received: ReadonlyArray<Frame>) =>
      received.flatMap(({ method, params }) => method === "thread/read" ? [params?.["threadId"]] : [])

    /** Runs a turn that says `first`, then each of `later` once the one before was handled, and checks that it ends with the last. */
    const endsWith = (first: ReadonlyArray<object>, ...later: ReadonlyArray<object>) =>
      Effect.gen(function*() {
        const fake = yield* agent(onStart(...first))
        const session = yield* CodexSession.open(fake.process, options)
        const turn = yield* Effect.forkChild(converse(session, approving(session)))
        for (const frame of later) {
          // The frame before is handled once the agent has an answer to this.
          yield* fake.say({ id: 900, method: "item/tool/requestUserInput", params: {} })
          while (!fake.received.some(({ error, id }) => id === 900 && error !== undefined)) yield* Effect.yieldNow
          fake.received.splice(fake.received.findIndex(({ id }) => id === 900), 1)
          assert.isUndefined(turn.pollUnsafe())
          yield* fake.say(frame)
        }
        const { outcome } = yield* Effect.timeout(Fiber.join(turn), "5 seconds")
        return { outcome, received: fake.received }
      }).pipe(Effect.scoped)

    it.live("lasts until the last of them has ended its turn", () =>
      Effect.gen(function*() {
        const { outcome } = yield* endsWith(
          [spawned("a"), began("t2"), completed()],
          began("t3"),
          completed("completed", null, "turn-t2", "t2"),
          completed("failed", { message: "theirs" }, "turn-t3", "t3")
        )
        assert.deepStrictEqual(outcome, Result.succeed({ state: "succeeded" as const }))
      }))

    it.live("waits for an agent that has work and has not begun, and not for an agent that never will", () =>
      Effect.gen(function*() {
        const fake = yield* agent((frame) =>
          frame.method === "turn/start"
            ? [spawned("a", "t2"), spawned("b", "t3"), completed()]
            : frame.method === "thread/read"
            ? frame.params?.["threadId"] === "t2"
              ? [{ id: frame.id, result: { thread: { status: { type: "active" } } } }, began("t2"),
                completed("completed", null, "turn-t2", "t2")]
              : [{ id: frame.id, error: { code: -32600, message: "no such thread" } }]
            : []
        )
        const session = yield* CodexSession.open(fake.process, options)
        const { outcome } = yield* Effect.timeout(converse(session), "5 seconds")
        assert.deepStrictEqual(outcome, Result.succeed({ state: "succeeded" as const }))
        assert.deepStrictEqual(reads(fake.received), ["t2", "t3"])
      }).pipe(Effect.scoped))

    it.live("does not wait for one whose turn was over before it was told of", () =>
      Effect.gen(function*() {
        const fake = yield* agent((frame) =>
          frame.method === "turn/start"
            ? [began("t2"), completed("completed", null, "turn-t2", "t2"), spawned("a"), completed()]
            : frame.method === "thread/read"
            ? [{ id: frame.id, result: { thread: { status: { type: "idle" } } } }]
            : []
        )
        const session = yield* CodexSession.open(fake.process, options)
        const { outcome } = yield* Effect.timeout(converse(session), "5 seconds")
        assert.deepStrictEqual(outcome, Result.succeed({ state: "succeeded" as const }))
      }).pipe(Effect.scoped))

    it.live.each(["interrupted", "failed"])(
      "ends them when its own turn was %s, those too that begin then",
      (status) =>
        Effect.gen(function*() {
          const fake = yield* agent((frame) => {
            const thread = frame.params?.["threadId"]
            if (frame.method === "turn/start") return [began("t2"), completed(status, { message: "m" })]
            if (frame.method !== "turn/interrupt" || thread === "t1") return []
            const end = completed("interrupted", null, `turn-${String(thread)}`, String(thread))
            return thread === "t2" ? [began("t3"), end] : [end]
          })
          const session = yield* CodexSession.open(fake.process, options)
          const { outcome } = yield* Effect.timeout(converse(session), "5 seconds")
          assert.isTrue(Result.isSuccess(outcome) && outcome.success.state === "failed")
          assert.deepStrictEqual(
            fake.received.flatMap(({ method, params }) => method === "turn/interrupt" ? [[params?.["threadId"], params?.["turnId"]]] : []),
            [["t2", "turn-t2"], ["t3", "turn-t3"]]
          )
          assert.includeDeepMembers(
            fake.received.flatMap(({ method, params }) => method === "thread/backgroundTerminals/clean" ? [params] : []),
            [{ threadId: "t2" }, { threadId: "t3" }]
          )
        }).pipe(Effect.scoped)
    )

    it.live("is broken by an agent that starts more than the maximum", () =>
      Effect.gen(function*() {
        const { outcome } = yield* run(onStart(...Array.from({ length: 300 }, (_, i) => began(`s${i}`))))
        assert.isTrue(Result.isFailure(outcome) && outcome.failure.detail.includes("more than 256 sub-agents"))
      }))
  })

  it.live("denies what asks for a folder for the rest of the session", () =>
    Effect.gen(function*() {
      const { events, fake } = yield* run(({ id, method }) =>
        method === "turn/start"
          ? [
            item("started", { type: "fileChange", changes: [{ path: "/sandbox/ws/a", kind: { type: "add" }, diff: "a" }] }),
            { id: 51, method: "item/fileChange/requestApproval", params: { threadId: "t1", itemId: "c1", grantRoot: "/sandbox" } }
          ]
          : id === 51
          ? [completed()]
          : []
      )
      assert.deepStrictEqual(events.filter(({ _tag }) => _tag === "ApprovalRequested"), [])
      assert.deepStrictEqual(answersOf(fake.received, 51), [{ id: 51, result: { decision: "decline" } }])
    }))

  describe("when it asks the person", () => {
    const asking = (questions: ReadonlyArray<object>): Script => ({ id, method }) =>
      method === "turn/start"
        ? [{ id: 51, method: "item/tool/requestUserInput", params: { threadId: "t1", turnId: "turn1", itemId: "c1", questions } }]
        : id === 51
        ? [completed()]
        : []
    const which = { id: "which", header: "H", question: "Which?", isOther: false, options: [{ label: "A", description: "a" }] }
    const why = { id: "why", header: "", question: "Why?", isOther: true, options: null }

    it.live.each(
      [
        [{ 1: { labels: ["A"] }, 2: { text: "So" } }, { which: ["A"], why: ["So"] }],
        [{ 2: { text: "So" } }, { which: ["(No person answered this question.)"], why: ["So"] }],
        [null, { which: ["(No person answered this question.)"], why: ["(No person answered this question.)"] }]
      ] as const
    )("shows its questions, and passes on %j", ([answers, told]) =>
      Effect.gen(function*() {
        const { events, fake } = yield* run(
          asking([which, why]),
          {},
          (session) => (event) => event._tag === "QuestionAsked" ? session.answer(event.questionId, answers) : Effect.void
        )
        assert.deepStrictEqual(events.flatMap((event) => event._tag === "QuestionAsked" ? [event.questions] : []), [[
          {
            id: "1",
            text: "Which?",
            header: "H",
            options: [{ label: "A", description: "a" }],
            multiple: false,
            allows_text: false
          },
          { id: "2", text: "Why?", header: "", options: [], multiple: false, allows_text: true }
        ]])
        assert.deepStrictEqual(answersOf(fake.received, 51), [{
          id: 51,
          result: { answers: Object.fromEntries(Object.entries(told).map(([id, answers]) => [id, { answers }])) }
        }])
      }))

    it.live("asks no person for a secret", () =>
      Effect.gen(function*() {
        const { events, fake } = yield* run(asking([{ ...which, isSecret: true }]))
        assert.deepStrictEqual(events.filter(({ _tag }) => _tag === "QuestionAsked"), [])
        assert.include(JSON.stringify(answersOf(fake.received, 51)), "Secrets cannot be asked for here.")
      }))
  })

  it.live("asks about one call as often as the agent does, each time under a name of its own", () =>
    Effect.gen(function*() {
      const { events, fake } = yield* run(({ id, method }) =>
        method === "turn/start"
          ? [item("started", {}), ask(51)]
          : id === 51
          ? [ask(52, { networkApprovalContext: { host: "example.org" } })]
          : id === 52
          ? [notify("serverRequest/resolved", { requestId: 52 }), item("completed", { status: "completed" }), completed()]
          : []
      )
      assert.deepStrictEqual(
        events.flatMap((event) => event._tag === "ApprovalRequested" ? [[event.approvalId, event.kind]] : []),
        [["turn:t1", "command"], ["turn:t1:2", "network"]]
      )
      assert.deepStrictEqual(events.flatMap((event) => event._tag === "ToolUpdated" ? event.status : []), ["pending", "running",
        "completed"])
      for (const id of [51, 52]) assert.deepStrictEqual(answersOf(fake.received, id), [{ id, result: { decision: "accept" } }])
    }))

  it.live("answers a denial with the word that the protocol has for it: a reason steers the turn instead", () =>
    Effect.gen(function*() {
      const fake = yield* agent(({ id, method }) =>
        method === "turn/start"
          ? [item("started", {}), ask(51)]
          : id === 51
          ? [item("completed", { status: "declined" }), completed()]
          : []
      )
      const session = yield* CodexSession.open(fake.process, options)
      yield* converse(session, (event) =>
        event._tag === "ApprovalRequested" ? session.decide(event.approvalId, "deny", "Not there.") : Effect.void)
      assert.deepStrictEqual(answersOf(fake.received, 51), [{ id: 51, result: { decision: "decline" } }])
    }).pipe(Effect.scoped))

  it.live("offers no logins or tools of its own", () =>
    Effect.gen(function*() {
      const { fake } = yield* run(({ id, method }) =>
        method === "turn/start"
          ? [{ id: 90, method: "item/tool/call", params: { threadId: "t1", itemId: "c1" } }]
          : id === 90
          ? [completed()]
          : []
      )
      const [answer] = answersOf(fake.received, 90)
      assert.deepInclude(answer?.error, { code: -32601 })
    }))

  it.live("interrupts as soon as the turn has a name, and again when that was too early", () =>
    Effect.gen(function*() {
      let refused = false
      const fake = yield* agent((frame) => {
        if (frame.method !== "turn/interrupt") return []
        if (refused) return [{ id: frame.id, result: {} }, completed("interrupted")]
        refused = true
        return [{ id: frame.id, error: { code: -32600, message: "no active turn" } }, notify("turn/started", { turn: { id: "turn1" } })]
      })
      const session = yield* CodexSession.open(fake.process, options)
      const turn = yield* Effect.forkChild(converse(session))
      yield* Effect.yieldNow
      yield* session.interrupt
      const { outcome } = yield* Effect.timeout(Fiber.join(turn), "5 seconds")
      assert.deepStrictEqual(outcome, Result.succeed({ state: "interrupted" as const }))
      assert.deepStrictEqual(fake.received.flatMap(({ method, params }) => method === "turn/interrupt" ? [params] : []), [
        { threadId: "t1", turnId: "turn1" },
        { threadId: "t1", turnId: "turn1" }
      ])
    }).pipe(Effect.scoped))

  it.live("lets an interrupt that came too late for its turn not touch the next one", () =>
    Effect.gen(function*() {
      let late: Frame["id"]
      const fake = yield* agent(({ id, method }) => {
        if (method === "turn/interrupt") {
          late = id
          return [completed("interrupted")]
        }
        if (method !== "turn/start") return []
        return late === undefined
          ? [item("started", {}), ask(51)]
          : [{ id: late, error: { code: -32600, message: "no active turn" } }, notify("turn/started", { turn: { id: "turn1" } }),
            delta("next"), completed()]
      })
      const session = yield* CodexSession.open(fake.process, options)
      const first = yield* converse(session, ({ _tag }) => _tag === "ApprovalRequested" ? session.interrupt : Effect.void)
      assert.deepStrictEqual(first.outcome, Result.succeed({ state: "interrupted" as const }))
      assert.deepStrictEqual((yield* converse(session)).outcome, Result.succeed({ state: "succeeded" as const }))
      assert.strictEqual(fake.received.filter(({ method }) => method === "turn/interrupt").length, 1)
    }).pipe(Effect.scoped))

  it.live("answers each question once, whatever is decided later", () =>
    Effect.gen(function*() {
      const fake = yield* agent(({ id, method }) =>
        method === "turn/start"
          ? [item("started", {}), ask(51)]
          : method === "turn/interrupt"
          ? [{ id, result: {} }, completed("interrupted")]
          : []
      )
      const session = yield* CodexSession.open(fake.process, options)
      yield* converse(session, (event) =>
        event._tag === "ApprovalRequested"
          ? Effect.andThen(
            session.interrupt,
            Effect.andThen(session.decide(event.approvalId, "approve"), session.decide(event.approvalId, "deny"))
          )
          : Effect.void)
      assert.deepStrictEqual(answersOf(fake.received, 51), [{ id: 51, result: { decision: "cancel" } }])
    }).pipe(Effect.scoped))

  it.live("ends the commands that an interrupted turn leaves behind", () =>
    Effect.gen(function*() {
      const fake = yield* agent(({ id, method }) =>
        method === "turn/start" ? [item("started", {})] : method === "turn/interrupt" ? [{ id, result: {} }, completed("interrupted")] : []
      )
      const session = yield* CodexSession.open(fake.process, { ...options, toolApprovalMode: "auto" })
      const { events } = yield* converse(session, ({ _tag }) => _tag === "ToolUpdated" ? session.interrupt : Effect.void)
      assert.deepStrictEqual(events.flatMap((event) => event._tag === "ToolUpdated" ? event.error ?? event.status : []), ["pending",
        "running", "interrupted"])
      assert.deepInclude(fake.received.find(({ method }) => method === "thread/backgroundTerminals/clean"), { params: { threadId: "t1" } })
    }).pipe(Effect.scoped))

  it.live("tells why a turn failed, in the agent's words", () =>
    Effect.gen(function*() {
      const refused = (status: string, error: object | null) => Effect.map(run(onStart(completed(status, error))), ({ outcome }) => outcome)
      assert.deepStrictEqual(
        yield* refused("failed", { message: "401 no\0pe" }),
        Result.succeed({ state: "failed" as const, reason: "401 nope" })
      )
      assert.deepStrictEqual(
        yield* refused("interrupted", null),
        Result.succeed({ state: "failed" as const, reason: "The agent cancelled the turn by itself.", finish: "cancelled" as const })
      )
      assert.isTrue(Result.isSuccess(yield* refused("failed", null)))
      const fake = yield* make((frame) =>
        frame.method === "turn/start"
          ? [{ id: frame.id, error: { code: 1, message: "no" } }]
          : [{ id: frame.id, result: { thread: { id: "t1" } } }]
      )
      const session = yield* CodexSession.open(fake.process, options)
      assert.deepStrictEqual((yield* converse(session)).outcome, Result.succeed({ state: "failed" as const, reason: "no" }))
    }).pipe(Effect.scoped))

  it.live("has a session to go on with from the first turn on", () =>
    Effect.gen(function*() {
      const fake = yield* agent(onStart(completed()))
      const session = yield* CodexSession.open(fake.process, options)
      assert.isNull(yield* session.sessionId)
      yield* converse(session)
      assert.strictEqual(yield* session.sessionId, "t1")
      const resumed = yield* CodexSession.open((yield* agent(() => [])).process, { ...options, resume: "t1" })
      assert.strictEqual(yield* resumed.sessionId, "t1")
    }).pipe(Effect.scoped))

  describe("steered", () => {
    const id = "00000000-0000-5000-8000-000000000001"
    const shown = (clientId: string | null, threadId?: string) => item("started", { type: "userMessage", id: "u1", clientId }, threadId)
    const steers = (events: ReadonlyArray<AgentEvent>) => events.flatMap((event) => event._tag === "MessageSteered" ? event.messageId : [])
    /** Answers `turn/start` with a piece of a message, and what steers the turn as `script` says. */
    const steered = Effect.fnUntraced(function*(script: Script) {
      const fake = yield* agent((frame) => frame.method === "turn/start" ? [delta("word")] : script(frame))
      const session = yield* CodexSession.open(fake.process, options)
      const told = yield* converse(
        session,
        ({ _tag }) => _tag === "MessageUpdated" ? session.steer?.({ id, text: "left" }) ?? Effect.void : Effect.void
      )
      return { fake, ...told }
    }, Effect.scoped)

    it.live("has taken what it shows as a message of the turn, not what it only let wait", () =>
      Effect.gen(function*() {
        const { events, fake } = yield* steered(({ id: request, method }) =>
          method === "turn/steer"
            ? [{ id: request, result: { turnId: "turn1" } }, shown(null), shown("somebody-elses"), shown(id, "t2"), shown(id), shown(id),
              completed()]
            : []
        )
        assert.deepStrictEqual(steers(events), [id])
        assert.deepInclude(fake.received.find(({ method }) => method === "turn/steer"), {
          params: {
            threadId: "t1",
            expectedTurnId: "turn1",
            clientUserMessageId: id,
            input: [{ type: "text", text: "left", text_elements: [] }]
          }
        })
        const { events: waited } = yield* steered(({ id: request, method }) =>
          method === "turn/steer" ? [{ id: request, result: { turnId: "turn1" } }, completed()] : []
        )
        assert.deepStrictEqual(steers(waited), [])
      }))

    it.live("ends its turn as ever when it refuses to be", () =>
      Effect.gen(function*() {
        const { events, outcome } = yield* steered(({ id: request, method }) =>
          method === "turn/steer" ? [{ id: request, error: { code: -32600, message: "no active turn to steer" } }, completed()] : []
        )
        assert.deepStrictEqual(outcome, Result.succeed({ state: "succeeded" as const }))
        assert.deepStrictEqual(steers(events), [])
      }))

    it.live("is told behind its prompt what came before the turn had a name", () =>
      Effect.gen(function*() {
        let start: Frame["id"]
        const fake = yield* make((frame) => {
          if (frame.method === "thread/start") return [{ id: frame.id, result: { thread: { id: "t1" } } }]
          if (frame.method === "turn/start") start = frame.id
          if (frame.method === "turn/steer") return [shown(id), completed()]
          return frame.method === "initialize" ? [{ id: frame.id, result: {} }] : []
        })
        const session = yield* CodexSession.open(fake.process, options)
        const turn = yield* Effect.forkChild(converse(session), { startImmediately: true })
        yield* session.steer?.({ id, text: "left" }) ?? Effect.void
        assert.deepStrictEqual(fake.received.filter(({ method }) => method === "turn/steer"), [])
        yield* fake.say({ id: start, result: { turn: { id: "turn1" } } })
        assert.deepStrictEqual(steers((yield* Effect.timeout(Fiber.join(turn), "5 seconds")).events), [id])
      }).pipe(Effect.scoped))
  })
})
