/**
 * The common part of drivers for every protocol. Prompts run one at a time. Each frame is handled before the next is read. Approvals
 * wait for their decision, questions for their answer. An interrupt closes everything before the agent gets it.
 */
import { Redaction, Redactor } from "@slipway/domain/environment/redaction/Redaction"
import {
  AgentError,
  type AgentEvent,
  type AgentSession,
  type AgentSessionOptions,
  type Finish,
  type PromptImage,
  type TurnEnd
} from "@slipway/domain/sandbox/ports/AgentRuntime"
import type { BoxProcess } from "@slipway/domain/sandbox/ports/SandboxHost"
import { type Answer, type Answers, PENDING_QUESTIONS, type Question, refusalOf } from "@slipway/domain/sandbox/rules/Question"
import { finishes } from "@slipway/domain/sandbox/rules/Turn"
import { visible } from "@slipway/domain/text/EscapeInvisible"
import { Duration, Effect, Option, Redacted, type Scope, Semaphore } from "effect"
import type { OutputEnded } from "./stdio/JsonLines.ts"
import * as TurnEvents from "./TurnEvents.ts"

/** A cold start of the slowest agent takes 3.5 s, twice that in a cold home, and a minute with a dozen others on two cores. */
const START_WITHIN = Duration.minutes(3)
/** Time limits of a graceful end (docs/decisions/2.2). After them the box kills the agent. */
const INTERRUPT_WITHIN = Duration.seconds(1)
const EXIT_WITHIN = Duration.seconds(2)

export type Decision = "approve" | "deny" | "cancel"

/** The end of a turn as the agent reports it. */
export interface Ended {
  /** The end of the last message. */
  readonly finish: Finish
  /** Why the turn failed, as a sentence; absent: it succeeded. */
  readonly failure?: string
  /** The agent broke the protocol. It cannot be used any more, and a new process would do the same. */
  readonly broken?: string
}

/** The protocol of an open session. `Approval` is the data that the protocol needs to answer one. */
interface Protocol<Approval> {
  readonly sessionId: Effect.Effect<string | null>
  /** Sends a prompt. Its results arrive through `next`, the end as {@link Conversation.ended}. */
  send(text: string, images: ReadonlyArray<PromptImage>): Effect.Effect<void>
  /** Reads one frame and handles it. */
  readonly next: Effect.Effect<void, OutputEnded>
  /** Asks the agent to end the running turn. */
  readonly cancel: Effect.Effect<void>
  /** Adds a text to the running turn; {@link Conversation.took} when the agent has it. Absent: the protocol does not support it. */
  steer?(id: string, text: string, images: ReadonlyArray<PromptImage>): Effect.Effect<void>
  /** `cancel`: the turn ends without a decision. `reason`: why it is denied, by a person or by us; some protocols cannot send it. */
  answer(approval: Approval, decision: Decision, reason?: string): Effect.Effect<void>
}

/** A prompt that the agent has and has not ended. */
export interface LiveTurn {
  readonly events: TurnEvents.TurnEvents
  readonly interrupted: boolean
  /** A call of it was denied. */
  readonly denied: boolean
  readonly emit: (events: ReadonlyArray<AgentEvent>) => Effect.Effect<void>
}

/**
 * Tells the agent what a person answered: an entry for each of its questions, `null` for one without an answer; `null`: no person answered.
 * `why`: a sentence for the agent if it may not ask this.
 */
export type AnswerTelling = (answers: ReadonlyArray<Answer | null> | null, why?: string) => Effect.Effect<void>

const NOT_ANSWERED = "(No person answered this question.)"

/** The answer to a question as texts. Without an answer it is a sentence that says so, for protocols that know no refusal. */
export const textsOf = (answer: Answer | null, why?: string): ReadonlyArray<string> =>
  answer === null
    ? [why === undefined ? NOT_ANSWERED : `${NOT_ANSWERED} ${why}`]
    : [...answer.labels ?? [], ...(answer.text === undefined ? [] : [answer.text])]

interface OpenQuestion {
  /** As the agent asked them. */
  readonly asked: ReadonlyArray<Question>
  /** As people see them. */
  readonly shown: ReadonlyArray<Question>
  readonly tell: AnswerTelling
}

interface Turn<Approval> extends LiveTurn {
  readonly questions: Map<string, OpenQuestion>
  /** Questions asked so far. */
  asked: number
  readonly approvals: Map<string, { readonly nativeCallId: string; readonly approval: Approval }>
  /** Its steering texts in order: `taken` by the agent, or not yet. */
  readonly steers: Map<string, { readonly text: string; readonly images: ReadonlyArray<PromptImage>; taken: boolean }>
  /** False before the prompt is sent: earlier frames do not belong to it, and a cancel would be ignored. */
  sent: boolean
  interrupted: boolean
  denied: boolean
  ended: Ended | null
}

export interface Conversation<Approval> {
  fail(operation: AgentError["operation"], detail: string, retryable: boolean): AgentError
  /** Makes a protocol step's error for an output that has ended. */
  gone(operation: AgentError["operation"]): (ended: OutputEnded) => Effect.Effect<never, AgentError>
  /** Begins the session. Fails after a timeout. */
  starting<A>(start: Effect.Effect<A, AgentError>): Effect.Effect<A, AgentError>
  /** `null`: arriving frames belong to no running turn. */
  readonly live: () => LiveTurn | null
  /** The agent waits for a decision about the call with its id `nativeCallId`. */
  ask(nativeCallId: string, report: TurnEvents.ToolReport, approval: Approval): Effect.Effect<void>
  /** The agent asks a person. Ids of its questions may be any texts. */
  inquire(questions: ReadonlyArray<Question>, tell: AnswerTelling): Effect.Effect<void>
  /** Denies the agent's request at once, for this reason. */
  refuse(nativeCallId: string, report: TurnEvents.ToolReport, approval: Approval, why: string): Effect.Effect<void>
  /** The agent has this text of `steer`. Unknown ids change nothing. */
  took(id: string): Effect.Effect<void>
  /** The agent ended the last turn. */
  ended(ended: Ended): void
  /** Whether the agent has not ended its last turn, even if that was abandoned. */
  readonly owes: () => boolean
  /** The session over `protocol`. When the scope closes, the agent is asked to end. */
  session(protocol: Protocol<Approval>): Effect.Effect<AgentSession, never, Scope.Scope>
}

const describeExit = ({ code, signal }: Effect.Success<BoxProcess["exited"]>) =>
  signal === null ? `the agent exited with code ${code}` : `the agent was ended by ${signal}`

/** The most approvals of one agent that wait for a person. Each is stored with the sandbox, including its preview. */
const MAX_WAITING = 16

/** The state of a conversation. */
interface State<Approval> {
  readonly process: BoxProcess
  readonly options: AgentSessionOptions
  readonly redacted: (text: string) => string
  /** The folders of the repositories. */
  readonly folders: ReadonlyArray<string>
  /** Held while the agent's output is read. */
  readonly reading: Semaphore.Semaphore
  turn: Turn<Approval> | null
  protocol: Protocol<Approval> | null
  /** The agent has a prompt and has not ended it. */
  owed: boolean
}

const failed = (
  { options }: Pick<State<never>, "options">,
  operation: AgentError["operation"],
  detail: string,
  retryable: boolean
) => new AgentError({ runtime: options.profile, operation, detail, retryable })

const gone = ({ options, process }: Pick<State<never>, "options" | "process">, operation: AgentError["operation"]) =>
  Effect.fnUntraced(function*({ reason }: OutputEnded) {
    if (reason === "line too long") {
      const detail = "the agent sent a message that is larger than any may be"
      return yield* new AgentError({ runtime: options.profile, operation, detail, retryable: false, tooLarge: true })
    }
    // The output usually ends just before the process does.
    const exit = yield* Effect.timeoutOption(process.exited, EXIT_WITHIN)
    yield* Effect.logWarning("agent ended", {
      profile: options.profile,
      sandboxId: options.box.sandboxId,
      // Always redacted, because the agent may print its secrets.
      stderr: (yield* Redaction).redact(yield* process.stderrTail)
    })
    return yield* failed(
      { options },
      operation,
      Option.match(exit, { onNone: () => "the agent closed its output", onSome: describeExit }),
      true
    )
  })

/** Reads until the agent has ended every prompt. */
const settle = <Approval>(state: State<Approval>, given: Protocol<Approval>) =>
  Effect.whileLoop({ while: () => state.owed, body: () => given.next, step: () => {} })

const interrupt = <Approval>(state: State<Approval>, given: Protocol<Approval>) =>
  Effect.suspend(() => {
    const { turn } = state
    if (turn === null || turn.interrupted) return Effect.void
    turn.interrupted = true
    turn.events.interrupt()
    const open = [...turn.approvals.values()]
    const questions = [...turn.questions.values()]
    turn.approvals.clear()
    turn.questions.clear()
    // Before the cancel, so that no request stays open and no aborted call is shown as completed.
    return Effect.all([
      Effect.forEach(open, ({ approval }) => given.answer(approval, "cancel"), { discard: true }),
      Effect.forEach(questions, ({ tell }) => tell(null), { discard: true }),
      turn.sent ? given.cancel : Effect.void
    ], { discard: true })
  })

const begin = <Approval>(
  { folders, redacted }: State<Approval>,
  { onEvent, turnId }: Parameters<AgentSession["prompt"]>[0]
): Turn<Approval> => ({
  events: TurnEvents.make(turnId, redacted, folders),
  emit: (events) => Effect.forEach(events, onEvent, { discard: true }),
  approvals: new Map(),
  questions: new Map(),
  asked: 0,
  steers: new Map(),
  sent: false,
  interrupted: false,
  denied: false,
  ended: null
})

/** The end of a turn that the agent has ended. */
const endOf = Effect.fnUntraced(function*<Approval>({ redacted }: State<Approval>, current: Turn<Approval>) {
  const { failure, finish } = current.ended ?? { finish: "end_turn" as const }
  yield* current.emit(current.events.end(current.interrupted ? "cancelled" : finish))
  if (current.interrupted) return { state: "interrupted" } satisfies TurnEnd
  const end: TurnEnd = failure === undefined ? { state: "succeeded" } : { state: "failed", reason: redacted(failure) }
  return finish === finishes[end.state] ? end : { ...end, finish }
})

const promptOf = <Approval>(state: State<Approval>, given: Protocol<Approval>) =>
  Effect.fn("AgentSession.prompt")(
    function*(asked: Parameters<AgentSession["prompt"]>[0]) {
      const { images = [], onBegin = Effect.void, text } = asked
      const current = (state.turn = begin(state, asked))
      yield* onBegin
      // Frames of an abandoned prompt belong to no turn.
      yield* settle(state, given).pipe(Effect.catch(gone(state, "prompt")))
      if (current.interrupted) return { state: "interrupted" } satisfies TurnEnd
      state.owed = true
      yield* given.send(text, images)
      current.sent = true
      if (current.interrupted) yield* given.cancel
      else for (const [id, { images, text }] of current.steers) yield* given.steer?.(id, text, images) ?? Effect.void

      return yield* Effect.whileLoop({ while: () => current.ended === null, body: () => given.next, step: () => {} }).pipe(
        Effect.catch(gone(state, "prompt")),
        Effect.andThen(
          Effect.suspend(() =>
            current.ended?.broken === undefined ? Effect.void : Effect.fail(failed(state, "prompt", current.ended.broken, false))
          )
        ),
        Effect.matchEffect({
          onSuccess: () => endOf(state, current),
          onFailure: (error) =>
            Effect.andThen(current.emit(current.events.end(current.interrupted ? "cancelled" : "error")), Effect.fail(error))
        }),
        // No result of this turn can be reported any more, so the agent need not finish it.
        Effect.onError(() => (current.interrupted ? Effect.void : given.cancel))
      )
    },
    Effect.ensuring(
      Effect.sync(() => {
        state.turn = null
      })
    ),
    state.reading.withPermit
  )

const decide = <Approval>(
  { turn }: State<Approval>,
  given: Protocol<Approval>,
  approvalId: string,
  decision: "approve" | "deny",
  reason?: string
) => {
  const open = turn?.approvals.get(approvalId)
  if (turn === null || open === undefined) return Effect.void
  turn.approvals.delete(approvalId)
  if (decision === "deny") {
    turn.denied = true
    turn.events.deny(open.nativeCallId)
  }
  return given.answer(open.approval, decision, reason)
}

const answer = <Approval>({ turn }: State<Approval>, questionId: string, answers: Answers | null) => {
  const open = turn?.questions.get(questionId)
  if (turn === null || open === undefined) return Effect.void
  turn.questions.delete(questionId)
  if (answers === null) return open.tell(null)
  return open.tell(open.shown.map(({ id, options }, index): Answer | null => {
    const given = answers[id]
    if (given === undefined) return null
    // People may see a label differently from how the agent wrote it.
    const labels = given.labels?.map((label) => open.asked[index]?.options[options.findIndex((one) => one.label === label)]?.label ?? label)
    return { ...given, ...(labels === undefined ? {} : { labels }) }
  }))
}

const steerBy =
  <Approval>(state: State<Approval>, protocolSteer: NonNullable<Protocol<Approval>["steer"]>): NonNullable<AgentSession["steer"]> =>
  ({ id, images = [], text }) =>
    Effect.suspend(() => {
      const { turn } = state
      if (turn === null || turn.interrupted || turn.ended !== null || turn.steers.has(id)) return Effect.void
      turn.steers.set(id, { text, images, taken: false })
      // A text that comes before the prompt is sent goes right behind it.
      return turn.sent ? protocolSteer(id, text, images) : Effect.void
    })

/** Asks the agent to end, and waits for a short time. */
const sayGoodbye = Effect.fnUntraced(function*<Approval>(state: State<Approval>, given: Protocol<Approval>) {
  yield* interrupt(state, given).pipe(
    Effect.andThen(state.reading.withPermit(settle(state, given))),
    Effect.ignore,
    Effect.interruptible,
    Effect.timeoutOption(INTERRUPT_WITHIN)
  )
  yield* state.process.endInput
  yield* Effect.timeoutOption(Effect.interruptible(state.process.exited), EXIT_WITHIN)
})

const session = Effect.fnUntraced(function*<Approval>(state: State<Approval>, given: Protocol<Approval>) {
  state.protocol = given
  yield* Effect.addFinalizer(() => sayGoodbye(state, given))
  return {
    sessionId: given.sessionId,
    prompt: promptOf(state, given),
    decide: (approvalId, decision, reason) => Effect.suspend(() => decide(state, given, approvalId, decision, reason)),
    answer: (questionId, answers) => Effect.suspend(() => answer(state, questionId, answers)),
    interrupt: interrupt(state, given),
    ...(given.steer === undefined ? {} : { steer: steerBy(state, given.steer) }),
    exited: Effect.map(state.process.exited, describeExit)
  } satisfies AgentSession
})

const refuse = <Approval>(
  { protocol, turn }: State<Approval>,
  nativeCallId: string,
  report: TurnEvents.ToolReport,
  approval: Approval,
  why: string
) => {
  if (protocol === null) return Effect.void
  if (turn === null || !turn.sent || turn.interrupted) return protocol.answer(approval, "cancel")
  turn.denied = true
  const { events } = turn.events.refuse(nativeCallId, report, why)
  return Effect.andThen(turn.emit(events), protocol.answer(approval, "deny", why))
}

const ask = <Approval>(state: State<Approval>, nativeCallId: string, report: TurnEvents.ToolReport, approval: Approval) => {
  const { options, protocol, turn } = state
  if (protocol === null) return Effect.void
  if (turn === null || !turn.sent || turn.interrupted) return protocol.answer(approval, "cancel")
  // Some runtimes ask although they were told not to.
  if (options.toolApprovalMode === "auto") return protocol.answer(approval, "approve")
  if (turn.approvals.size >= MAX_WAITING) {
    return refuse(state, nativeCallId, report, approval, `More than ${MAX_WAITING} calls would wait for a person at once.`)
  }
  const asked = turn.events.ask(nativeCallId, report)
  if ("refused" in asked) {
    turn.denied = true
    return Effect.andThen(turn.emit(asked.events), protocol.answer(approval, "deny", asked.refused))
  }
  turn.approvals.set(asked.approvalId, { nativeCallId, approval })
  return turn.emit(asked.events)
}

const inquire = <Approval>({ redacted, turn }: State<Approval>, asked: ReadonlyArray<Question>, tell: AnswerTelling) => {
  if (turn === null || !turn.sent || turn.interrupted) return tell(null)
  const clean = (text: string) => visible(redacted(text))
  const shown = asked.map(({ allows_text, header, multiple, options, text }, index): Question => ({
    id: String(index + 1),
    text: clean(text),
    ...(header === undefined ? {} : { header: clean(header) }),
    options: options.map(({ description, label }) => ({
      label: clean(label),
      ...(description === undefined ? {} : { description: clean(description) })
    })),
    multiple,
    allows_text
  }))
  const refused = turn.questions.size >= PENDING_QUESTIONS
    ? `${PENDING_QUESTIONS} requests wait already.`
    // By its ids the agent tells answers apart: some agents use the texts.
    : new Set(asked.map(({ id }) => id)).size < asked.length
    ? "The questions of a request must differ."
    : refusalOf(shown)
  if (refused !== null) return tell(null, refused)
  const questionId = `${turn.events.turnId}:q${++turn.asked}`
  turn.questions.set(questionId, { asked, shown, tell })
  return turn.emit([{ _tag: "QuestionAsked", questionId, questions: shown }])
}

const took = <Approval>({ turn }: State<Approval>, id: string) => {
  const steered = turn?.steers.get(id)
  if (turn === null || steered === undefined || steered.taken) return Effect.void
  steered.taken = true
  return turn.emit([{ _tag: "MessageSteered", messageId: id }])
}

export const make = Effect.fnUntraced(function*<Approval>(process: BoxProcess, options: AgentSessionOptions) {
  const known = yield* Redaction
  // The agent's only secret.
  const own = new Redactor()
  if (options.access !== null) own.learn(Redacted.value(options.access.token))
  const state: State<Approval> = {
    process,
    options,
    redacted: (text) => own.redactValues(known.redactValues(text)),
    folders: options.repositories.map(({ folder }) => folder),
    reading: Semaphore.makeUnsafe(1),
    turn: null,
    protocol: null,
    owed: false
  }
  const fail: Conversation<Approval>["fail"] = (operation, detail, retryable) => failed(state, operation, detail, retryable)
  const conversation: Conversation<Approval> = {
    fail,
    gone: (operation) => gone(state, operation),
    starting: (start) =>
      Effect.timeoutOrElse(start, {
        duration: START_WITHIN,
        orElse: () => Effect.fail(fail("open", "the agent did not get ready in time", true))
      }),
    live: () => (state.turn !== null && state.turn.sent ? state.turn : null),
    ask: (nativeCallId, report, approval) => Effect.suspend(() => ask(state, nativeCallId, report, approval)),
    inquire: (questions, tell) => Effect.suspend(() => inquire(state, questions, tell)),
    refuse: (nativeCallId, report, approval, why) => Effect.suspend(() => refuse(state, nativeCallId, report, approval, why)),
    took: (id) => Effect.suspend(() => took(state, id)),
    ended: (ended) => {
      state.owed = false
      if (state.turn !== null && state.turn.sent) state.turn.ended = ended
    },
    owes: () => state.owed,
    session: (protocol) => session(state, protocol)
  }
  return conversation
})
