/**
 * The rules that every `AgentRuntime` must keep. Prompts are scripts of the offline agent (docs/decisions/14), which the fake model of the
 * other runtimes understands too. Runs real agents on the real clock.
 */
import type { ModelAccess } from "@slipway/domain/models/ports/ModelGateway"
import { profileTakesImages } from "@slipway/domain/models/rules/Images"
import { profileSteers } from "@slipway/domain/models/rules/Steering"
import {
  type AgentEvent,
  AgentRuntime,
  type AgentSession,
  type AgentSessionOptions,
  type TurnEnd
} from "@slipway/domain/sandbox/ports/AgentRuntime"
import type { Box } from "@slipway/domain/sandbox/ports/SandboxHost"
import { refusalOf } from "@slipway/domain/sandbox/rules/Question"
import { PLAN_ENTRIES, PLAN_TEXT } from "@slipway/domain/sandbox/rules/ToolCall"
import type { RepoName } from "@slipway/domain/source/schema/RepoRef"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import type * as Layer from "effect/Layer"
import * as Result from "effect/Result"
import * as Scope from "effect/Scope"
import { assert } from "../../suite/Assert.ts"
import { defineLive, type Writer } from "../../suite/Suite.ts"
import { eventually } from "./SandboxHostContract.ts"

/** One sandbox with one repository, which is an empty folder unless the runtime wants more. */
export interface Sandbox {
  readonly box: Box
  readonly repositories: ReadonlyArray<{ readonly name: RepoName; readonly folder: string }>
  /** Content of a file of the first repository, null when it is not there. */
  read(path: string): Effect.Effect<string | null>
  /** How many processes of the machine have `text` in their command line. */
  running(text: string): Effect.Effect<number>
  /** Kills the agent from outside, as the machine does when it runs out of memory. */
  readonly killAgent: Effect.Effect<void>
  /** How the agent reaches its model; absent: it needs none. */
  readonly access?: ModelAccess
  /** The requests to its model so far, oldest first, without requests that the agent makes on its own account. */
  readonly asked?: Effect.Effect<ReadonlyArray<AskedModel>>
}

/** A request as the model sees it. */
export interface AskedModel {
  readonly model: string
  readonly effort: string | null
  /** All of it, as JSON. */
  readonly body: string
  /** `aborted`: the agent left before the answer was whole. */
  readonly state: "answering" | "answered" | "aborted"
}

/** Operations that the suite needs and the port lacks. */
export interface Fixture<R> {
  /** The prompt by which the agent shows {@link PLAN}. Absent: the directive of the offline agent. */
  readonly plan?: string
  readonly profile: string
  readonly model: string
  /** In what runtimes with a model may differ. */
  readonly traits?: {
    /** The effect of a denial: the model is told and goes on, or the turn ends. */
    readonly afterDenial: "goes on" | "ends the turn"
    /** Whether the requests of a turn are counted. */
    readonly countsRequests: boolean
    /** Whether it can ask a person; absent: only the offline agent can. */
    readonly asks?: boolean
  }
  /** A new sandbox, gone with the scope. */
  readonly sandbox: Effect.Effect<Sandbox, unknown, Scope.Scope | R>
  /**
   * The same sandbox on another machine, with a home in which is what these files are here, and nothing else. `null`: its paths
   * would be others there, which this agent does not bear.
   */
  readonly moved:
    | ((sandbox: Sandbox, files: ReadonlyArray<string>) => Effect.Effect<
      {
        readonly sandbox: Sandbox
        /** That machine's. */
        readonly runtime: AgentRuntime["Service"]
      },
      unknown,
      Scope.Scope | R
    >)
    | null
}

/** Watches one prompt from several fibers. */
const watch = (session: AgentSession, turnId: string, text: string, onBegin: Effect.Effect<void> = Effect.void) =>
  Effect.gen(function*() {
    const events: Array<AgentEvent> = []
    const waiting: Array<{
      readonly holds: (event: AgentEvent) => boolean
      readonly seen: Deferred.Deferred<AgentEvent>
    }> = []
    let inside = 0
    const fiber = yield* session
      .prompt({
        turnId,
        text,
        onBegin,
        onEvent: (event) =>
          Effect.gen(function*() {
            assert.strictEqual(++inside, 1, "one event at a time")
            yield* Effect.yieldNow
            events.push(event)
            for (const { holds, seen } of waiting) if (holds(event)) yield* Deferred.succeed(seen, event)
            inside--
          })
      })
      .pipe(Effect.forkChild)
    return {
      events,
      fiber,
      end: Fiber.join(fiber),
      /** The first event that fits, now or later. */
      until: <E extends AgentEvent>(holds: (event: AgentEvent) => event is E): Effect.Effect<E> =>
        Effect.suspend(() => {
          const past = events.find(holds)
          if (past !== undefined) return Effect.succeed(past)
          const seen = Deferred.makeUnsafe<AgentEvent>()
          waiting.push({ holds, seen })
          return Effect.map(Deferred.await(seen), (event) => event as E)
        }).pipe(
          Effect.timeoutOrElse({
            duration: "20 seconds",
            orElse: () => Effect.die(new Error(`never came; seen ${JSON.stringify(events)}`))
          })
        )
    }
  })

const isApproval = (event: AgentEvent): event is Extract<AgentEvent, { _tag: "ApprovalRequested" }> => event._tag === "ApprovalRequested"
const isQuestion = (event: AgentEvent): event is Extract<AgentEvent, { _tag: "QuestionAsked" }> => event._tag === "QuestionAsked"
const isMessage = (event: AgentEvent): event is Extract<AgentEvent, { _tag: "MessageUpdated" }> => event._tag === "MessageUpdated"
const isRunning = (event: AgentEvent): event is Extract<AgentEvent, { _tag: "ToolUpdated" }> =>
  event._tag === "ToolUpdated" && event.status === "running"

/** The last text of each message of a kind, in order. */
const texts = (events: ReadonlyArray<AgentEvent>, kind: "text" | "reasoning") => {
  const last = new Map<string, string>()
  for (const event of events) {
    if (event._tag === "MessageUpdated" && event.kind === kind) last.set(event.messageId, event.text.trim())
  }
  return [...last.values()]
}
const said = (events: ReadonlyArray<AgentEvent>) => texts(events, "text").join("\n")

/** Ids of the messages, in the order they began. */
const messagesOf = (events: ReadonlyArray<AgentEvent>) => [...new Set(events.filter(isMessage).map(({ messageId }) => messageId))]

/** Last status of each tool call, in the order the calls began. */
const toolEnds = (events: ReadonlyArray<AgentEvent>) => {
  const last = new Map<string, string>()
  for (const event of events) if (event._tag === "ToolUpdated") last.set(event.callId, event.status)
  return [...last.values()]
}

/** The steering messages that the agent took, in order. */
const steersOf = (events: ReadonlyArray<AgentEvent>) => events.flatMap((event) => event._tag === "MessageSteered" ? event.messageId : [])
const steer = (session: AgentSession, id: string, text: string) =>
  session.steer?.({ id, text }) ?? Effect.die(new Error("cannot be steered"))

/** The plan of {@link Fixture.plan}. */
export const PLAN = [
  { text: "Read it", status: "completed" },
  { text: "Fix it", status: "in_progress" },
  { text: "Test it", status: "pending" }
] as const

const RANKS = { pending: 0, running: 1, completed: 2, error: 2 }

/** Rules for the events of every turn, however it went. */
export const assertWellFormed = (events: ReadonlyArray<AgentEvent>) => {
  const parts = new Map<string, { readonly messageId: string; readonly text: string }>()
  /** The part that goes on. */
  let current: string | null = null
  const tools = new Map<string, number>()
  const parents = new Map<string, string>()
  const approvals = new Set<string>()
  const questions = new Set<string>()
  const steered = new Set<string>()
  for (const event of events) {
    switch (event._tag) {
      case "MessageUpdated": {
        const part = `${event.messageId}:${event.kind}`
        const before = parts.get(part)
        if (before === undefined) {
          const last = [...parts.values()].at(-1)
          const isKnown = [...parts.values()].some(({ messageId }) => messageId === event.messageId)
          assert.isTrue(
            !isKnown || event.kind === "text" && last?.messageId === event.messageId && current !== null,
            "a message is a thought, a text, or a text right after its thought"
          )
        } else assert.strictEqual(current, part, `${part} goes on after the next part began`)
        assert.isTrue(event.text.startsWith(before?.text ?? ""), "a text holds all that came before")
        parts.set(part, { messageId: event.messageId, text: event.text })
        current = part
        break
      }
      case "ToolUpdated": {
        const before = tools.get(event.callId)
        if (before === undefined) {
          assert.strictEqual(event.status, "pending", "a call begins as pending")
          current = null
        }
        assert.isAbove(RANKS[event.status], before ?? -1, `${event.callId} only moves forward`)
        if (event.parentCallId !== undefined) {
          const order = [...tools.keys()]
          const [own, parent] = [order.indexOf(event.callId), order.indexOf(event.parentCallId)]
          assert.isTrue(parent >= 0 && (own < 0 || parent < own), `${event.parentCallId} is an earlier call than ${event.callId}`)
          assert.strictEqual(parents.get(event.callId) ?? event.parentCallId, event.parentCallId, "a parent never changes")
          parents.set(event.callId, event.parentCallId)
        }
        tools.set(event.callId, RANKS[event.status])
        break
      }
      case "ApprovalRequested":
        assert.isFalse(approvals.has(event.approvalId), "an approval is asked for once")
        // A call that is asked about again carries a suffix.
        assert.isTrue(
          [...tools.keys()].some((callId) => `${event.approvalId}:`.startsWith(`${callId}:`)),
          "an approval is named after its call"
        )
        approvals.add(event.approvalId)
        break
      case "QuestionAsked":
        assert.isFalse(questions.has(event.questionId), "a question is asked once")
        assert.isNull(refusalOf(event.questions), "a question keeps the bounds")
        questions.add(event.questionId)
        break
      case "MessageSteered":
        assert.isFalse(steered.has(event.messageId), "a text is taken once")
        steered.add(event.messageId)
        break
      case "PlanUpdated":
        assert.isAtMost(event.entries.length, PLAN_ENTRIES)
        for (const { text } of event.entries) assert.isTrue(text !== "" && text.length <= PLAN_TEXT && !text.includes("\n"), text)
        break
      case "UsageReported":
        break
    }
  }
  for (const [callId, rank] of tools) assert.strictEqual(rank, 2, `${callId} ends before the turn`)
}

let sequence = 0
/** Any id will do: turns are told apart by it, nothing else. */
const freshTurn = () => `00000000-0000-5000-8000-${String(++sequence).padStart(12, "0")}`

const succeeded: TurnEnd = { state: "succeeded" }
const interrupted: TurnEnd = { state: "interrupted" }

const using = <R>(fixture: Fixture<R>) => {
  const open = Effect.fnUntraced(function*(sandbox: Sandbox, options: Partial<AgentSessionOptions> = {}) {
    const { box, repositories } = sandbox
    return yield* (yield* AgentRuntime).open({
      box,
      repositories,
      profile: fixture.profile,
      model: fixture.model,
      access: sandbox.access ?? null,
      instructions: null,
      reasoningEffort: null,
      toolApprovalMode: "auto",
      resume: null,
      ...options
    })
  })

  const begin = Effect.fnUntraced(function*(toolApprovalMode: "auto" | "prompt") {
    const sandbox = yield* fixture.sandbox
    const session = yield* open(sandbox, { toolApprovalMode })
    return { sandbox, session }
  })

  /** Runs a prompt to its end, answering every approval the same way. */
  const prompt = Effect.fnUntraced(function*(
    session: AgentSession,
    text: string,
    decision: "approve" | "deny" = "approve",
    reason?: string
  ) {
    const events: Array<AgentEvent> = []
    const end = yield* session.prompt({
      turnId: freshTurn(),
      text,
      onEvent: (event) =>
        Effect.suspend(() => {
          events.push(event)
          return event._tag === "ApprovalRequested" ? session.decide(event.approvalId, decision, reason) : Effect.void
        })
    })
    assertWellFormed(events)
    return { events, end }
  })
  return { open, begin, prompt }
}

/** All of the suite: for agents that have processes and run commands. */
export const suite = <R>(name: string, layer: Layer.Layer<AgentRuntime | R, unknown>, fixture: Fixture<R>) => [
  sessions(name, layer, fixture),
  commands(name, layer, fixture)
]

/** Shared by the rules below. */
const sessionHelpersOf = <R>(fixture: Fixture<R>) => {
  const { begin, open, prompt } = using(fixture)
  const { moved } = fixture
  return { begin, open, prompt, moved }
}

const turns = <R>(it: Writer<AgentRuntime | R>, fixture: Fixture<R>, { begin, prompt }: ReturnType<typeof sessionHelpersOf<R>>) => {
  it.effect("tells text and reasoning of one answer apart, in one message", () =>
    Effect.gen(function*() {
      const { session } = yield* begin("auto")
      const { end, events } = yield* prompt(session, "[[think let me see]] [[say hello there]]")
      assert.deepStrictEqual(end, succeeded)
      assert.deepStrictEqual(texts(events, "reasoning"), ["let me see"])
      assert.deepStrictEqual(texts(events, "text"), ["hello there"])
      assert.strictEqual(messagesOf(events).length, 1)
      const next = yield* prompt(session, "[[think first]] [[say one]] [[think second]] [[say two]]")
      assert.isAtMost(messagesOf(next.events).length, 2)
      assert.notInclude(messagesOf(next.events), messagesOf(events)[0])
    }))

  it.effect("lets each update of a streamed message replace the one before", () =>
    Effect.gen(function*() {
      const { session } = yield* begin("auto")
      const { events } = yield* prompt(session, "[[slow 20 1]]")
      assert.isAbove(events.filter(isMessage).length, 1)
      assert.strictEqual(new Set(events.filter(isMessage).map(({ messageId }) => messageId)).size, 1)
      assert.strictEqual(said(events).split(/\s+/u).length, 20)
    }))

  it.effect("edits files without asking in auto mode", () =>
    Effect.gen(function*() {
      const { sandbox, session } = yield* begin("auto")
      const { end, events } = yield* prompt(session, "[[write path=docs/a.txt content=one two]] [[say done]]")
      assert.deepStrictEqual(end, succeeded)
      assert.deepStrictEqual(events.filter(isApproval), [])
      assert.deepStrictEqual(toolEnds(events), ["completed"])
      assert.strictEqual(yield* sandbox.read("docs/a.txt"), "one two\n")
      assert.include(said(events), "done")
    }))

  it.effect("asks before each edit in prompt mode, and goes on when approved", () =>
    Effect.gen(function*() {
      const { sandbox, session } = yield* begin("prompt")
      const { end, events } = yield* prompt(session, "[[write path=a.txt content=one]] [[write path=b.txt content=two]] [[say done]]")
      assert.deepStrictEqual(end, succeeded)
      const [edit, other] = events.filter(isApproval)
      assert.strictEqual(edit?.kind, "edit")
      assert.deepStrictEqual(edit?.paths, [`${sandbox.repositories[0]?.folder}/a.txt`])
      assert.deepStrictEqual(other?.paths, [`${sandbox.repositories[0]?.folder}/b.txt`])
      assert.match(edit?.preview?.diff ?? "", /^\+one$/mu, "what will be written")
      assert.match(other?.preview?.diff ?? "", /^\+two$/mu)
      assert.deepStrictEqual(toolEnds(events), ["completed", "completed"])
      assert.strictEqual(yield* sandbox.read("a.txt"), "one\n")
      assert.strictEqual(yield* sandbox.read("b.txt"), "two\n")
    }))

  it.effect("does nothing of a call before its approval is decided", () =>
    Effect.gen(function*() {
      const { sandbox, session } = yield* begin("prompt")
      const turn = yield* watch(session, freshTurn(), "[[write path=a.txt content=one]]")
      const { approvalId } = yield* turn.until(isApproval)
      assert.strictEqual(yield* sandbox.read("a.txt"), null)
      yield* session.decide("someone-elses", "deny")
      yield* session.decide(approvalId, "approve")
      yield* session.decide(approvalId, "deny")
      assert.deepStrictEqual(yield* turn.end, succeeded)
      assert.strictEqual(yield* sandbox.read("a.txt"), "one\n")
    }))

  it.effect("does not do what was denied, ends that call in an error, and takes the next prompt", () =>
    Effect.gen(function*() {
      const { sandbox, session } = yield* begin("prompt")
      const { end, events } = yield* prompt(session, "[[write path=a.txt content=one]] [[say after]]", "deny")
      assert.deepStrictEqual(end, succeeded)
      assert.deepStrictEqual(toolEnds(events), ["error"])
      assert.strictEqual(yield* sandbox.read("a.txt"), null)
      const next = yield* prompt(session, "[[say still here]]")
      assert.include(said(next.events), "still here")
    }))

  // The model's reaction is not fixed.
  if (fixture.profile === "offline") {
    it.effect("says why it was denied, as it was told", () =>
      Effect.gen(function*() {
        const { session } = yield* begin("prompt")
        const { events } = yield* prompt(session, "[[write path=a.txt content=one]]", "deny", "Not 'there': elsewhere — là.")
        const told = "I was not allowed to do this, so I left it: Write a.txt. I was told: Not 'there': elsewhere — là."
        assert.strictEqual(said(events), told)
      }))
  }
}

const questions = <R>(it: Writer<AgentRuntime | R>, fixture: Fixture<R>, { begin, prompt }: ReturnType<typeof sessionHelpersOf<R>>) => {
  if (!(fixture.traits?.asks ?? fixture.profile === "offline")) return
  const script = "[[ask Which one? | First | Second]] [[say after]]"

  it.effect.each(["auto", "prompt"] as const)(
    "asks a person in the mode %s, and hears the first answer alone",
    (mode) =>
      Effect.gen(function*() {
        const { session } = yield* begin(mode)
        const turn = yield* watch(session, freshTurn(), script)
        const { questionId, questions } = yield* turn.until(isQuestion)
        const [question] = questions
        assert.include(question?.text, "Which one?")
        assert.deepStrictEqual(question?.options.map(({ label }) => label), ["First", "Second"])
        const id = question?.id ?? ""
        yield* session.answer("someone-elses", { [id]: { labels: ["First"] } })
        yield* session.answer(questionId, { [id]: { labels: ["Second"] } })
        yield* session.answer(questionId, { [id]: { labels: ["First"] } })
        assert.deepStrictEqual(yield* turn.end, succeeded)
        assertWellFormed(turn.events)
        assert.include(said(turn.events), "Second")
        assert.notInclude(said(turn.events), "First")
      })
  )

  it.effect("hears what a person writes, and that there is no answer", () =>
    Effect.gen(function*() {
      const { session } = yield* begin("auto")
      const asking = Effect.fnUntraced(function*(answer: string | null) {
        const turn = yield* watch(session, freshTurn(), script)
        const { questionId, questions: [question] } = yield* turn.until(isQuestion)
        yield* session.answer(questionId, answer === null ? null : { [question?.id ?? ""]: { text: answer } })
        assert.deepStrictEqual(yield* turn.end, succeeded)
        assertWellFormed(turn.events)
        return said(turn.events)
      })
      assert.include(yield* asking("The third – là."), "The third – là.")
      const unanswered = yield* asking(null)
      assert.notInclude(unanswered, "First")
      assert.match(unanswered, /n[o']t answer|no person answered/iu)
    }))

  it.effect("ends a turn that is interrupted during a question, and takes the next prompt", () =>
    Effect.gen(function*() {
      const { session } = yield* begin("auto")
      const turn = yield* watch(session, freshTurn(), script)
      const { questionId, questions: [question] } = yield* turn.until(isQuestion)
      yield* session.interrupt
      yield* session.answer(questionId, { [question?.id ?? ""]: { labels: ["Second"] } })
      assert.deepStrictEqual(yield* turn.end, interrupted)
      assertWellFormed(turn.events)
      assert.notInclude(said(turn.events), "Second")
      const next = yield* prompt(session, "[[say still here]]")
      assert.include(said(next.events), "still here")
    }))
}

const steering = <R>(it: Writer<AgentRuntime | R>, fixture: Fixture<R>, { begin, prompt }: ReturnType<typeof sessionHelpersOf<R>>) => {
  if (!profileSteers(fixture.profile)) {
    it.effect("cannot be steered", () =>
      Effect.gen(function*() {
        assert.isUndefined((yield* begin("auto")).session.steer)
      }))
  } else {
    it.effect("takes what it is steered with while a call waits for a person, once and in order", () =>
      Effect.gen(function*() {
        const { sandbox, session } = yield* begin("prompt")
        const turn = yield* watch(session, freshTurn(), "[[write path=a.txt content=one]] [[say after]]")
        const { approvalId } = yield* turn.until(isApproval)
        const [first, second] = [freshTurn(), freshTurn()]
        yield* steer(session, first, "[[say to the left]]")
        yield* steer(session, second, "[[say to the right]]")
        yield* steer(session, first, "[[say to the left]]")
        assert.deepStrictEqual(steersOf(turn.events), [])
        yield* session.decide(approvalId, "approve")
        assert.deepStrictEqual(yield* turn.end, succeeded)
        assertWellFormed(turn.events)
        assert.deepStrictEqual(steersOf(turn.events), [first, second])
        // A model answers the last of what it is told at once.
        assert.include(said(turn.events), "to the right")
        assert.strictEqual(yield* sandbox.read("a.txt"), "one\n")
        const { events } = yield* prompt(session, "[[recall]]")
        assert.strictEqual(said(events).split("to the left").length, 2, "it was told once")
      }))

    it.effect("takes what it is steered with while it answers, in the same turn", () =>
      Effect.gen(function*() {
        const { session } = yield* begin("auto")
        const answerOf = Effect.fnUntraced(function*(words: number) {
          const turn = yield* watch(session, freshTurn(), `[[slow ${words} 100]]`)
          yield* turn.until(isMessage)
          const id = freshTurn()
          yield* steer(session, id, `[[say to the left of ${words}]]`)
          assert.deepStrictEqual(yield* turn.end, succeeded)
          assertWellFormed(turn.events)
          return { events: turn.events, id, words }
        })
        // The agent may be through with an answer before the text is there, and then takes nothing: a longer one gives it time.
        let turn = yield* answerOf(10)
        for (const words of [40, 160]) {
          if (steersOf(turn.events).length > 0) break
          assert.notInclude(said(turn.events), "to the left")
          turn = yield* answerOf(words)
        }
        assert.deepStrictEqual(steersOf(turn.events), [turn.id])
        assert.include(said(turn.events), `to the left of ${turn.words}`)
        const { events } = yield* prompt(session, "[[recall]]")
        assert.strictEqual(said(events).split("to the left").length, 2, "it is part of the conversation, and no other text is")
      }))

    it.effect("takes what comes as soon as the turn begins", () =>
      Effect.gen(function*() {
        const { session } = yield* begin("prompt")
        const id = freshTurn()
        const steering = steer(session, id, "[[say to the left]]")
        const turn = yield* watch(session, freshTurn(), "[[write path=a.txt content=one]] [[say after]]", steering)
        // The agent may take the text before its first call; the text is then no longer part of its script.
        const approving = yield* Effect.forkChild(
          Effect.flatMap(turn.until(isApproval), ({ approvalId }) => session.decide(approvalId, "approve"))
        )
        assert.deepStrictEqual(yield* turn.end, succeeded)
        yield* Fiber.interrupt(approving)
        assert.deepStrictEqual(steersOf(turn.events), [id])
        assert.include(said(turn.events), "to the left")
      }))

    it.effect("does not remember what the turn was interrupted without", () =>
      Effect.gen(function*() {
        const { session } = yield* begin("prompt")
        const turn = yield* watch(session, freshTurn(), "[[write path=a.txt content=one]] [[say after]]")
        yield* turn.until(isApproval)
        yield* steer(session, freshTurn(), "[[say to the left]]")
        yield* session.interrupt
        assert.deepStrictEqual(yield* turn.end, interrupted)
        yield* steer(session, freshTurn(), "[[say to the right]]")
        assert.deepStrictEqual(steersOf(turn.events), [])
        const next = yield* prompt(session, "[[say next]]")
        assert.deepStrictEqual(steersOf(next.events), [])
        assert.strictEqual(said(next.events), "next")
        const { events } = yield* prompt(session, "[[recall]]")
        assert.notInclude(said(events), "to the")
      }))
  }
}

/** Plans, and the calls of sub-agents. */
const plans = <R>(it: Writer<AgentRuntime | R>, fixture: Fixture<R>, { begin, prompt }: ReturnType<typeof sessionHelpersOf<R>>) => {
  if (fixture.traits === undefined || fixture.plan !== undefined) {
    it.effect("tells the whole plan of a turn", () =>
      Effect.gen(function*() {
        const { session } = yield* begin("auto")
        const { end, events } = yield* prompt(session, fixture.plan ?? "[[plan + Read it; > Fix it; - Test it]] [[say done]]")
        assert.deepStrictEqual(end, succeeded)
        const plans = events.flatMap((event) => event._tag === "PlanUpdated" ? [event.entries] : [])
        assert.deepStrictEqual(plans.at(-1), PLAN)
      }))
  }

  if (fixture.traits === undefined) {
    it.effect("tells each change of a plan, and bounds and shows its texts", () =>
      Effect.gen(function*() {
        const { session } = yield* begin("auto")
        const long = "x".repeat(2 * PLAN_TEXT)
        const many = Array.from({ length: PLAN_ENTRIES + 1 }, (_, i) => `- step ${i}`).join("; ")
        const { events } = yield* prompt(session, `[[plan > a‮b; - ${long}]] [[plan + done]] [[plan ${many}]] [[plan]]`)
        assertWellFormed(events)
        const plans = events.flatMap((event) => event._tag === "PlanUpdated" ? [event.entries] : [])
        assert.deepStrictEqual(plans.map((entries) => entries.length), [2, 1, PLAN_ENTRIES, 0])
        assert.notInclude(plans[0]?.[0]?.text, "‮")
        assert.strictEqual(plans[0]?.[1]?.text.length, PLAN_TEXT)
        assert.deepStrictEqual(plans[1], [{ text: "done", status: "completed" }])
      }))

    it.effect("names the call of the sub-agent that makes a call, at any depth", () =>
      Effect.gen(function*() {
        const { session } = yield* begin("prompt")
        const { end, events } = yield* prompt(
          session,
          "[[write path=a.txt content=1]] [[delegate outer]] [[write path=b.txt content=2]] [[delegate inner]] " +
            "[[write path=c.txt content=3]] [[back]] [[write path=d.txt content=4]] [[back]] [[write path=e.txt content=5]]"
        )
        assert.deepStrictEqual(end, succeeded)
        assertWellFormed(events)
        const titles = new Map(events.flatMap((event) => event._tag === "ToolUpdated" ? [[event.callId, event.tool] as const] : []))
        const parents = new Map(
          events.flatMap((event) =>
            event._tag === "ToolUpdated"
              ? [[event.tool, event.parentCallId === undefined ? null : titles.get(event.parentCallId)] as const]
              : []
          )
        )
        assert.deepStrictEqual(Object.fromEntries(parents), {
          "Write a.txt": null,
          outer: null,
          "Write b.txt": "outer",
          inner: "outer",
          "Write c.txt": "inner",
          "Write d.txt": "outer",
          "Write e.txt": null
        })
        // Sub-agents need no approval, their calls do.
        assert.lengthOf(events.filter(isApproval), 5)
      }))
  }
}

const interrupts = <R>(it: Writer<AgentRuntime | R>, { begin, prompt }: ReturnType<typeof sessionHelpersOf<R>>) => {
  it.effect("takes follow-up prompts in the same process, with new ids for everything", () =>
    Effect.gen(function*() {
      const { session } = yield* begin("prompt")
      const script = "[[say one]] [[write path=a.txt content=one]] [[say two]]"
      const first = yield* prompt(session, script)
      const second = yield* prompt(session, script)
      const ids = (events: ReadonlyArray<AgentEvent>) =>
        new Set(
          events.flatMap((event) => event._tag === "MessageUpdated" ? event.messageId : event._tag === "ToolUpdated" ? event.callId : [])
        )
      assert.isAbove(ids(first.events).size, 1)
      assert.strictEqual(
        new Set([...ids(first.events), ...ids(second.events)]).size,
        ids(first.events).size + ids(second.events).size
      )
    }))

  it.effect("interrupts a streaming answer", () =>
    Effect.gen(function*() {
      const { session } = yield* begin("auto")
      const turn = yield* watch(session, freshTurn(), "[[slow 5000 20]]")
      yield* turn.until(isMessage)
      yield* session.interrupt
      assert.deepStrictEqual(yield* turn.end, interrupted)
      assertWellFormed(turn.events)
    }))

  it.effect("interrupts while an approval is pending: nothing is done and nothing stays open", () =>
    Effect.gen(function*() {
      const { sandbox, session } = yield* begin("prompt")
      const turn = yield* watch(session, freshTurn(), "[[write path=a.txt content=one]] [[say done]]")
      const { approvalId } = yield* turn.until(isApproval)
      yield* session.interrupt
      assert.deepStrictEqual(yield* turn.end, interrupted)
      assertWellFormed(turn.events)
      assert.deepStrictEqual(toolEnds(turn.events), ["error"])
      yield* session.decide(approvalId, "approve")
      assert.include(said((yield* prompt(session, "[[say next]]")).events), "next")
      assert.strictEqual(yield* sandbox.read("a.txt"), null)
    }))

  it.effect("interrupts an agent that says nothing", () =>
    Effect.gen(function*() {
      const { session } = yield* begin("auto")
      const turn = yield* watch(session, freshTurn(), "[[say before]] [[hang]] [[say after]]")
      yield* turn.until(isMessage)
      yield* session.interrupt
      yield* session.interrupt
      assert.deepStrictEqual(yield* turn.end, interrupted)
      assert.notInclude(said(turn.events), "after")
    }))

  it.effect("interrupts a turn that has hardly begun", () =>
    Effect.gen(function*() {
      const { session } = yield* begin("auto")
      const turn = yield* watch(session, freshTurn(), "[[hang]]")
      // The first ones may come too early to be about this turn.
      const end = yield* Effect.raceFirst(
        turn.end,
        Effect.forever(Effect.andThen(session.interrupt, Effect.yieldNow))
      )
      assert.deepStrictEqual(end, interrupted)
      assertWellFormed(turn.events)
    }))

  it.effect("does nothing on an interrupt without a turn", () =>
    Effect.gen(function*() {
      const { session } = yield* begin("auto")
      yield* session.interrupt
      assert.deepStrictEqual((yield* prompt(session, "[[say hello]]")).end, succeeded)
      yield* session.interrupt
      assert.deepStrictEqual((yield* prompt(session, "[[say hello]]")).end, succeeded)
    }))

  it.effect("reports nothing after a turn has ended", () =>
    Effect.gen(function*() {
      const { session } = yield* begin("auto")
      const turn = yield* watch(session, freshTurn(), "[[slow 5000 5]]")
      yield* turn.until(isMessage)
      yield* session.interrupt
      yield* turn.end
      const count = turn.events.length
      yield* prompt(session, "[[slow 10 5]]")
      assert.strictEqual(turn.events.length, count)
    }))
}

const failures = <R>(
  it: Writer<AgentRuntime | R>,
  fixture: Fixture<R>,
  { begin, open, prompt, moved }: ReturnType<typeof sessionHelpersOf<R>>
) => {
  it.effect("fails the turn, not the session, when the model fails", () =>
    Effect.gen(function*() {
      const { session } = yield* begin("auto")
      const { end } = yield* prompt(session, "[[error 401]]")
      assert.strictEqual(end.state, "failed")
      assert.isString(end.reason)
      assert.deepStrictEqual((yield* prompt(session, "[[say again]]")).end, succeeded)
    }))

  it.effect("fails retryably, with everything closed, when the agent dies during a turn", () =>
    Effect.gen(function*() {
      const { sandbox, session } = yield* begin("prompt")
      const turn = yield* watch(session, freshTurn(), "[[say before]] [[write path=a.txt content=one]]")
      yield* turn.until(isApproval)
      yield* sandbox.killAgent
      const outcome = yield* Effect.result(turn.end)
      assert.isTrue(Result.isFailure(outcome) && outcome.failure.retryable && outcome.failure.operation === "prompt")
      assertWellFormed(turn.events)
      assert.isNotEmpty(yield* session.exited)
      const after = yield* Effect.result(
        session.prompt({ turnId: freshTurn(), text: "[[say hello]]", onEvent: () => Effect.void })
      )
      assert.isTrue(Result.isFailure(after) && after.failure.retryable)
    }))

  it.effect("goes on with a session in a new process", () =>
    Effect.gen(function*() {
      const sandbox = yield* fixture.sandbox
      const sessionId = yield* Effect.scoped(
        Effect.gen(function*() {
          const session = yield* open(sandbox)
          yield* prompt(session, "[[say the word is XYZZY]]")
          return yield* session.sessionId
        })
      )
      assert.isNotNull(sessionId)
      const session = yield* open(sandbox, { resume: sessionId })
      assert.strictEqual(yield* session.sessionId, sessionId)
      assert.include(said((yield* prompt(session, "[[recall]]")).events), "XYZZY")
    }))

  if (moved !== null) {
    it.effect("goes on with a session on another machine, which has the files that it names of its home and no others", () =>
      Effect.gen(function*() {
        const { conversationFiles } = yield* AgentRuntime
        const sandbox = yield* fixture.sandbox
        let sessionId: string | null = null
        const messages: Array<string> = []
        for (const word of ["XYZZY", "PLUGH"]) {
          sessionId = yield* Effect.scoped(
            Effect.gen(function*() {
              const session = yield* open(sandbox, { resume: sessionId })
              messages.push(...messagesOf((yield* prompt(session, `[[say the word is ${word}]]`)).events))
              return yield* session.sessionId
            })
          )
        }
        const there = yield* moved(sandbox, conversationFiles(fixture.profile))
        for (const later of ["[[say the word is PLOVER]]", "[[recall]]"]) {
          yield* Effect.scoped(Effect.gen(function*() {
            const session = yield* open(there.sandbox, { resume: sessionId })
            assert.strictEqual(yield* session.sessionId, sessionId)
            const { end, events } = yield* prompt(session, later)
            assert.deepStrictEqual(end, succeeded)
            messages.push(...messagesOf(events))
            if (later === "[[recall]]") { for (const known of ["XYZZY", "PLUGH", "PLOVER"]) assert.include(said(events), known) }
          })).pipe(Effect.provideService(AgentRuntime, there.runtime))
        }
        assert.strictEqual(new Set(messages).size, messages.length, "ids are the sandbox's, not the machine's")
      }))
  }

  it.effect("names files of no profile that is not there", () =>
    Effect.gen(function*() {
      const { bearsOtherPaths, conversationFiles } = yield* AgentRuntime
      assert.isNotEmpty(conversationFiles(fixture.profile))
      for (const profile of ["no-such-runtime", "toString"]) {
        assert.deepStrictEqual(conversationFiles(profile), [])
        assert.deepStrictEqual(bearsOtherPaths(profile), { workspace: false, home: false })
      }
    }))
}

const resumedSessions = <R>(
  it: Writer<AgentRuntime | R>,
  fixture: Fixture<R>,
  { open, prompt }: ReturnType<typeof sessionHelpersOf<R>>
) => {
  it.effect("goes on with a session whose process died", () =>
    Effect.gen(function*() {
      const sandbox = yield* fixture.sandbox
      const sessionId = yield* Effect.scoped(
        Effect.gen(function*() {
          const session = yield* open(sandbox)
          yield* prompt(session, "[[say the word is XYZZY]]")
          yield* sandbox.killAgent
          yield* session.exited
          return yield* session.sessionId
        })
      )
      const session = yield* open(sandbox, { resume: sessionId })
      assert.include(said((yield* prompt(session, "[[recall]]")).events), "XYZZY")
    }))

  it.effect("goes on with a session whose process died in the middle of a turn", () =>
    Effect.gen(function*() {
      const sandbox = yield* fixture.sandbox
      const sessionId = yield* Effect.scoped(
        Effect.gen(function*() {
          const session = yield* open(sandbox)
          yield* prompt(session, "[[say the word is XYZZY]]")
          const turn = yield* watch(session, freshTurn(), "[[say before]] [[hang]]")
          yield* turn.until(isMessage)
          yield* sandbox.killAgent
          yield* Effect.result(turn.end)
          return yield* session.sessionId
        })
      )
      const session = yield* open(sandbox, { resume: sessionId })
      assert.include(said((yield* prompt(session, "[[recall]]")).events), "XYZZY")
    }))

  it.effect("goes on, or begins anew, where no prompt came before the process ended", () =>
    Effect.gen(function*() {
      const sandbox = yield* fixture.sandbox
      const sessionId = yield* Effect.scoped(Effect.flatMap(open(sandbox), (session) => session.sessionId))
      const session = yield* open(sandbox, { resume: sessionId })
      assert.deepStrictEqual((yield* prompt(session, "[[say hello]]")).end, succeeded)
    }))

  it.effect("refuses for good to resume a session that never was", () =>
    Effect.gen(function*() {
      const sandbox = yield* fixture.sandbox
      const outcome = yield* Effect.result(open(sandbox, { resume: "00000000-0000-4000-8000-000000000000" }))
      assert.isTrue(Result.isFailure(outcome) && !outcome.failure.retryable && outcome.failure.operation === "open")
    }))

  it.effect("takes a reasoning effort the model offers", () =>
    Effect.gen(function*() {
      const sandbox = yield* fixture.sandbox
      const session = yield* open(sandbox, { reasoningEffort: "high" })
      assert.deepStrictEqual((yield* prompt(session, "[[say hello]]")).end, succeeded)
    }))

  it.effect("refuses for good a profile that is not there", () =>
    Effect.gen(function*() {
      const sandbox = yield* fixture.sandbox
      for (const profile of ["no-such-runtime", "toString"]) {
        const outcome = yield* Effect.result(open(sandbox, { profile }))
        assert.isTrue(Result.isFailure(outcome) && !outcome.failure.retryable)
      }
    }))

  it.effect.each(["[[hang]]", "[[slow 5000 20]]"])(
    "ends the agent and its turn when the scope closes during %s",
    (script) =>
      Effect.gen(function*() {
        const sandbox = yield* fixture.sandbox
        const scope = yield* Scope.make()
        const session = yield* Scope.provide(open(sandbox), scope)
        const turn = yield* watch(session, freshTurn(), `[[say before]] ${script}`)
        yield* turn.until(isMessage)
        yield* Scope.close(scope, Exit.void)
        assert.isNotEmpty(yield* session.exited)
        // The polite part of the end interrupts the turn; either way the prompt does not wait for ever.
        const outcome = yield* Effect.result(turn.end)
        assert.isTrue(Result.isFailure(outcome) || outcome.success.state === "interrupted")
        assertWellFormed(turn.events)
      })
  )
}

/** A PNG of 16 by 16 pixels. */
const PICTURE =
  "iVBORw0KGgoAAAANSUhEUgAAABAAAAAQCAIAAACQkWg2AAABlklEQVR42hXRURVEIQhFUSMYgQhGMAIRiGCEE8EIRiACEYhABCLMG7/ZrMt1jMEcyGAN9kAHNjgDBnfwBj" +
  "6IQQ5q0IMxJnMikzXZE53Y5EyY3Mmb+CQmOalJzw8IUxBhCVtQwYQjIFzhCS6EkEIJLR9YzIUs1mIvdGGLs2BxF2/hi1jkoha9PrCZG9mszd7oxjZnw+Zu3sY3sclNbXp/" +
  "QJmKKEvZiiqmHAXlKk9xJZRUSmn9gDENMZaxDTXMOAbGNZ7hRhhplNH2gcM8yGEd9kEPdjgHDvfwDn6IQx7q0OcD/wK/Sr4jv9hfkG/1N/x/Fx44BCQU9Pc94zIvclmXfd" +
  "GLXc79j9/Lu/glLnmpS98PPOZDHuuxH/qwx3n/5ffxHv6IRz7q0e8DznTEWc521DHn+D/KdZ7jTjjplNP+gWAGEqxgBxpYcOIf/AYv8CCCDCro+EAyE0lWshNNLDn5P/Mm" +
  "L/Ekkkwq6fxAMQspVrELLaw49S/lFq/wIoosquj6QDMbaVazG22sOf2v8Dav8SaabKrp5geIAnAQC3NfwAAAAABJRU5ErkJggg=="

/** Bytes of a small PNG. */
export const pictureBytes = Uint8Array.from(atob(PICTURE), (letter) => letter.charCodeAt(0))

/** Writes a file into the box. */
const put = Effect.fnUntraced(function*(box: Box, folder: string, name: string, bytes: Uint8Array) {
  const args = ["-c", `mkdir -p "$1" && cat > "$1/$2"`, "sh", folder, name]
  const process = yield* box.spawn({ command: "/bin/sh", args, env: {} })
  yield* process.write(bytes)
  yield* process.endInput
  assert.strictEqual((yield* process.exited).code, 0)
}, Effect.scoped)

const images = <R>(it: Writer<AgentRuntime | R>, fixture: Fixture<R>, { begin }: ReturnType<typeof sessionHelpersOf<R>>) => {
  const takes = profileTakesImages(fixture.profile)
  it.effect(takes ? "gives its model the images of a prompt" : "takes a prompt with images without them", () =>
    Effect.gen(function*() {
      const { sandbox, session } = yield* begin("auto")
      const { asked, box } = sandbox
      const folder = `${box.home}/files`
      if (asked !== undefined) yield* put(box, folder, "a picture.png", pictureBytes)
      const events: Array<AgentEvent> = []
      const end = yield* session.prompt({
        turnId: freshTurn(),
        text: asked === undefined ? "[[images]]" : "[[say seen]]",
        images: [{ mediaType: "image/png", data: pictureBytes, path: `${folder}/a picture.png` }],
        onEvent: (event) => Effect.sync(() => void events.push(event))
      })
      assert.deepStrictEqual(end, succeeded)
      assertWellFormed(events)
      if (asked === undefined) return assert.include(said(events), `image/png of ${pictureBytes.length} bytes`)
      const bodies = (yield* asked).map(({ body }) => body).join("\n")
      assert.strictEqual(bodies.includes(PICTURE), takes, bodies.slice(0, 4000))
    }))
}

const abandonedPrompts = <R>(it: Writer<AgentRuntime | R>, { begin, prompt }: ReturnType<typeof sessionHelpersOf<R>>) => {
  it.effect("takes another prompt after one was abandoned, without its events", () =>
    Effect.gen(function*() {
      const { session } = yield* begin("auto")
      const turn = yield* watch(session, freshTurn(), "[[slow 5000 5]]")
      yield* turn.until(isMessage)
      yield* Fiber.interrupt(turn.fiber)
      const { end, events } = yield* prompt(session, "[[say fresh]]")
      assert.deepStrictEqual(end, succeeded)
      assert.deepStrictEqual(texts(events, "text"), ["fresh"])
    }))
}

/** The part that every agent can be held to. It runs no commands. */
export const sessions = <R>(name: string, layer: Layer.Layer<AgentRuntime | R, unknown>, fixture: Fixture<R>) =>
  defineLive(`AgentRuntime (${name})`, layer, (it) => {
    const helpers = sessionHelpersOf(fixture)
    turns(it, fixture, helpers)
    questions(it, fixture, helpers)
    steering(it, fixture, helpers)
    images(it, fixture, helpers)
    plans(it, fixture, helpers)
    interrupts(it, helpers)
    failures(it, fixture, helpers)
    resumedSessions(it, fixture, helpers)
    abandonedPrompts(it, helpers)
  })

const commands = <R>(name: string, layer: Layer.Layer<AgentRuntime | R, unknown>, fixture: Fixture<R>) =>
  defineLive(`AgentRuntime with commands (${name})`, layer, (it) => {
    const { begin, open, prompt } = using(fixture)

    it.effect("edits files and runs commands without asking in auto mode", () =>
      Effect.gen(function*() {
        const { sandbox, session } = yield* begin("auto")
        const { end, events } = yield* prompt(
          session,
          "[[write path=docs/a.txt content=one two]] [[shell echo three > b.txt]] [[say done]]"
        )
        assert.deepStrictEqual(end, succeeded)
        assert.deepStrictEqual(events.filter(isApproval), [])
        assert.deepStrictEqual(toolEnds(events), ["completed", "completed"])
        assert.strictEqual(yield* sandbox.read("docs/a.txt"), "one two\n")
        assert.strictEqual(yield* sandbox.read("b.txt"), "three\n")
        assert.include(said(events), "done")
      }))

    it.effect("asks before each edit and command in prompt mode, and goes on when approved", () =>
      Effect.gen(function*() {
        const { sandbox, session } = yield* begin("prompt")
        const { end, events } = yield* prompt(
          session,
          "[[write path=a.txt content=one]] [[shell echo two > b.txt]] [[say done]]"
        )
        assert.deepStrictEqual(end, succeeded)
        const [edit, command] = events.filter(isApproval)
        assert.strictEqual(edit?.kind, "edit")
        assert.deepStrictEqual(edit?.paths, [`${sandbox.repositories[0]?.folder}/a.txt`])
        assert.include(command?.preview?.command, "echo two > b.txt")
        assert.strictEqual(command?.kind, "command")
        assert.include(command?.tool, "echo two > b.txt")
        assert.deepStrictEqual(toolEnds(events), ["completed", "completed"])
        assert.strictEqual(yield* sandbox.read("a.txt"), "one\n")
        assert.strictEqual(yield* sandbox.read("b.txt"), "two\n")
      }))

    it.effect("shows the whole of a command before it runs, and then what it wrote", () =>
      Effect.gen(function*() {
        const { session } = yield* begin("prompt")
        const long = `echo ${"x".repeat(300)} > b.txt`
        const { events } = yield* prompt(session, `[[shell ${long} # first\necho written]] [[say done]]`)
        const [command] = events.filter(isApproval)
        const shown = command?.preview?.command ?? ""
        assert.include(shown, `${long} # first\necho written`)
        const last = events.findLast((event) => event._tag === "ToolUpdated")
        assert.include(last?._tag === "ToolUpdated" ? last.detail?.command : "", "echo written")
        assert.include(last?._tag === "ToolUpdated" ? last.detail?.output : "", "written")
      }))

    it.effect("interrupts a running command and ends it with its children", () =>
      Effect.gen(function*() {
        const { sandbox, session } = yield* begin("auto")
        const seconds = `${10_000 + sequence}.${Math.floor(Math.random() * 1e9)}1`
        const turn = yield* watch(session, freshTurn(), `[[shell sleep ${seconds} & sleep ${seconds}]] [[say no]]`)
        yield* turn.until(isRunning)
        // The shell with both numbers in it, and the two it started.
        yield* eventually(sandbox.running(seconds), (count) => count >= 3)
        yield* session.interrupt
        assert.deepStrictEqual(yield* turn.end, interrupted)
        assertWellFormed(turn.events)
        assert.deepStrictEqual(toolEnds(turn.events), ["error"])
        assert.notInclude(said(turn.events), "no")
        yield* eventually(sandbox.running(seconds), (count) => count === 0)
        assert.include(said((yield* prompt(session, "[[say next]]")).events), "next")
      }))

    it.effect("leaves no process when the scope closes while a command runs", () =>
      Effect.gen(function*() {
        const sandbox = yield* fixture.sandbox
        const seconds = `${20_000 + sequence}.${Math.floor(Math.random() * 1e9)}1`
        const scope = yield* Scope.make()
        const session = yield* Scope.provide(open(sandbox), scope)
        const turn = yield* watch(session, freshTurn(), `[[say before]] [[shell sleep ${seconds}]]`)
        yield* turn.until(isMessage)
        yield* eventually(sandbox.running(seconds), (count) => count > 0)
        yield* Scope.close(scope, Exit.void)
        assert.isNotEmpty(yield* session.exited)
        assert.strictEqual(yield* sandbox.running(seconds), 0)
        // The polite part of the end interrupts the turn; either way the prompt does not wait for ever.
        const outcome = yield* Effect.result(turn.end)
        assert.isTrue(Result.isFailure(outcome) || outcome.success.state === "interrupted")
        assertWellFormed(turn.events)
      }))
  })

/** For agents that use a model: what it hears of them, and what they make of its failures. */
export const models = <R>(name: string, layer: Layer.Layer<AgentRuntime | R, unknown>, fixture: Fixture<R>) =>
  defineLive(`AgentRuntime with a model (${name})`, layer, (it) => {
    const { begin, open, prompt } = using(fixture)
    const { afterDenial, countsRequests } = fixture.traits ?? { afterDenial: "goes on", countsRequests: true }
    const asked = ({ asked }: Sandbox) => asked ?? Effect.succeed([])

    it.effect("asks for the model and with the effort it was given", () =>
      Effect.gen(function*() {
        const sandbox = yield* fixture.sandbox
        const session = yield* open(sandbox, { reasoningEffort: "high" })
        yield* prompt(session, "[[write path=a.txt content=one]] [[say hello]]")
        const requests = yield* asked(sandbox)
        assert.deepStrictEqual(requests.map(({ effort }) => effort), ["high", "high"])
        for (const { model } of requests) assert.strictEqual(model, sandbox.access?.model)
      }))

    it.effect("tells the model what the repositories ask of it, in a later process too", () =>
      Effect.gen(function*() {
        const sandbox = yield* fixture.sandbox
        const instructions = `# Wishes\n\nMARK-7F3: say "hällo" to $HOME and \`id\`.\n`
        const mark = JSON.stringify(`MARK-7F3: say "hällo" to $HOME and \`id\`.`).slice(1, -1)
        const sessionId = yield* Effect.scoped(Effect.gen(function*() {
          const session = yield* open(sandbox, { instructions })
          yield* prompt(session, "[[say hello]]")
          return yield* session.sessionId
        }))
        yield* prompt(yield* open(sandbox, { instructions, resume: sessionId }), "[[say again]]")
        const requests = yield* asked(sandbox)
        assert.strictEqual(requests.length, 2)
        for (const { body } of requests) assert.include(body, mark)
      }))

    if (countsRequests) {
      it.effect("counts the requests of each turn", () =>
        Effect.gen(function*() {
          const { sandbox, session } = yield* begin("auto")
          const counts: Array<number> = []
          for (const script of ["[[write path=a.txt content=one]] [[say done]]", "[[say once]]"]) {
            const { events } = yield* prompt(session, script)
            counts.push(events.reduce((count, event) => event._tag === "UsageReported" ? event.llmRequestCount : count, 0))
          }
          assert.deepStrictEqual(counts, [2, 1])
          assert.strictEqual((yield* asked(sandbox)).length, 3)
        }))
    }

    it.effect(
      afterDenial === "goes on" ? "tells the model of a denial, and goes on" : "ends the turn at a denial",
      () =>
        Effect.gen(function*() {
          const { sandbox, session } = yield* begin("prompt")
          const { end, events } = yield* prompt(session, "[[write path=a.txt content=one]] [[say after]]", "deny")
          assert.deepStrictEqual(end, succeeded)
          assert.strictEqual(said(events).includes("after"), afterDenial === "goes on")
          assert.strictEqual((yield* asked(sandbox)).length, afterDenial === "goes on" ? 2 : 1)
        })
    )

    it.effect.each(["[[hang]]", "[[say before]] [[hang]]", "[[slow 5000 20]]"])(
      "leaves the model when interrupted during %s",
      (script) =>
        Effect.gen(function*() {
          const { sandbox, session } = yield* begin("auto")
          const turn = yield* watch(session, freshTurn(), script)
          yield* eventually(asked(sandbox), (requests) => requests.length === 1, "30 seconds")
          yield* session.interrupt
          assert.deepStrictEqual(yield* turn.end, interrupted)
          yield* eventually(asked(sandbox), ([request]) => request?.state === "aborted")
          assert.deepStrictEqual((yield* prompt(session, "[[say next]]")).end, succeeded)
        })
    )

    it.effect("fails the turn with a reason when nothing answers at the model's address", () =>
      Effect.gen(function*() {
        const sandbox = yield* fixture.sandbox
        const { access } = sandbox
        // Port 1 has no listener.
        const session = yield* open(sandbox, { access: access === undefined ? null : { ...access, baseUrl: "http://127.0.0.1:1" } })
        const { end } = yield* prompt(session, "[[say hello]]")
        assert.strictEqual(end.state, "failed")
        assert.isNotEmpty(end.reason)
      }))

    it.effect.each([401, 429, 500])(
      "fails the turn with a reason when the model answers %s, and takes the next prompt",
      (status) =>
        Effect.gen(function*() {
          const { session } = yield* begin("auto")
          const { end } = yield* prompt(session, `[[error ${status}]]`)
          assert.strictEqual(end.state, "failed")
          assert.isNotEmpty(end.reason)
          assert.deepStrictEqual((yield* prompt(session, "[[say again]]")).end, succeeded)
        })
    )
  })
