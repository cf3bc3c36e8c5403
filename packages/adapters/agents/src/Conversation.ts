/**
 * What every driver does the same way, whatever the protocol: prompts run one at a time, each frame is handled before
 * the next is read, approvals wait for their decision, an interrupt closes everything before the agent hears of it.
 */
import { Redaction, Redactor } from "@slipway/domain/environment/redaction/Redaction"
import {
  AgentError,
  type AgentEvent,
  type AgentSession,
  type AgentSessionOptions,
  type Finish,
  type TurnEnd
} from "@slipway/domain/sandbox/ports/AgentRuntime"
import type { BoxProcess } from "@slipway/domain/sandbox/ports/SandboxHost"
import { finishes } from "@slipway/domain/sandbox/rules/Turn"
import { Duration, Effect, Option, Redacted, type Scope, Semaphore } from "effect"
import type { OutputEnded } from "./stdio/JsonLines.ts"
import * as TurnEvents from "./TurnEvents.ts"

/** A cold start of the slowest agent takes 3.5 s, twice that in a cold home, and a minute beside a dozen others on two cores. */
const START_WITHIN = Duration.minutes(3)
/** Times of the polite part of the end (docs/decisions/2.2); what is left after them is the box's to kill. */
const INTERRUPT_WITHIN = Duration.seconds(1)
const EXIT_WITHIN = Duration.seconds(2)

export type Decision = "approve" | "deny" | "cancel"

/** How the agent says that a turn ended. */
export interface Ended {
  /** Of the last message. */
  readonly finish: Finish
  /** Why the turn failed, a sentence; absent: it succeeded. */
  readonly failure?: string
  /** The agent broke the protocol: it is of no further use, and a new one will do the same. */
  readonly broken?: string
}

/** The protocol's part, for a session that is open. `Approval` is what the protocol needs to answer one. */
interface Protocol<Approval> {
  readonly sessionId: Effect.Effect<string | null>
  /** Sends a prompt. What comes of it arrives through `next`, the end as {@link Conversation.ended}. */
  send(text: string): Effect.Effect<void>
  /** Reads one frame and handles it. */
  readonly next: Effect.Effect<void, OutputEnded>
  /** Asks the agent to end the turn it was sent. */
  readonly cancel: Effect.Effect<void>
  /**
   * Hands a text to the turn it was sent, which has not ended; {@link Conversation.took} when the agent has it. Absent: the protocol
   * has no room for it.
   */
  steer?(id: string, text: string): Effect.Effect<void>
  /** `cancel`: nobody decided, the turn ends. `reason`: why it is denied, by a person or by us; not every protocol has room for it. */
  answer(approval: Approval, decision: Decision, reason?: string): Effect.Effect<void>
}

/** A prompt the agent has been sent and has not ended. */
export interface LiveTurn {
  readonly events: TurnEvents.TurnEvents
  readonly interrupted: boolean
  /** Something was denied in it. */
  readonly denied: boolean
  readonly emit: (events: ReadonlyArray<AgentEvent>) => Effect.Effect<void>
}

interface Turn<Approval> extends LiveTurn {
  readonly approvals: Map<string, { readonly nativeCallId: string; readonly approval: Approval }>
  /** What it was steered with: `taken` by the agent, or not yet. In order. */
  readonly steers: Map<string, { readonly text: string; taken: boolean }>
  /** False before the prompt is on its way: what arrives until then is not about it, and a cancel would be ignored. */
  sent: boolean
  interrupted: boolean
  denied: boolean
  ended: Ended | null
}

export interface Conversation<Approval> {
  fail(operation: AgentError["operation"], detail: string, retryable: boolean): AgentError
  /** For a protocol step that found the output at its end. */
  gone(operation: AgentError["operation"]): (ended: OutputEnded) => Effect.Effect<never, AgentError>
  /** Begins the session: fails when it takes too long. */
  starting<A>(start: Effect.Effect<A, AgentError>): Effect.Effect<A, AgentError>
  /** `null`: what arrives is about no turn that anybody watches. */
  readonly live: () => LiveTurn | null
  /** The agent waits for a decision about the call it names `nativeCallId`. */
  ask(nativeCallId: string, report: TurnEvents.ToolReport, approval: Approval): Effect.Effect<void>
  /** What the agent asks for is denied at once, for this reason. */
  refuse(nativeCallId: string, report: TurnEvents.ToolReport, approval: Approval, why: string): Effect.Effect<void>
  /** The agent has this text of `steer`. One that nobody waits for changes nothing. */
  took(id: string): Effect.Effect<void>
  /** The agent ended the turn it was sent last. */
  ended(ended: Ended): void
  /** Whether a turn that was sent has not ended, watched or not. */
  readonly owes: () => boolean
  /** The session over `protocol`. It says good-bye to the agent when the scope closes. */
  session(protocol: Protocol<Approval>): Effect.Effect<AgentSession, never, Scope.Scope>
}

const describeExit = ({ code, signal }: Effect.Success<BoxProcess["exited"]>) =>
  signal === null ? `the agent exited with code ${code}` : `the agent was ended by ${signal}`

/** What one agent can have waiting for a person at once: each is kept with the sandbox, preview included. */
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
  /** The agent was sent a prompt and has not ended it. */
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
      // Redacted whatever the agent wrote there: it may repeat its secrets.
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
    turn.approvals.clear()
    // Before the cancel, so that no approval stays open and no aborted call is shown as completed.
    return Effect.andThen(
      Effect.forEach(open, ({ approval }) => given.answer(approval, "cancel"), { discard: true }),
      turn.sent ? given.cancel : Effect.void
    )
  })

const begin = <Approval>(
  { folders, redacted }: State<Approval>,
  { onEvent, turnId }: Parameters<AgentSession["prompt"]>[0]
): Turn<Approval> => ({
  events: TurnEvents.make(turnId, redacted, folders),
  emit: (events) => Effect.forEach(events, onEvent, { discard: true }),
  approvals: new Map(),
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
      const { onBegin = Effect.void, text } = asked
      const current = (state.turn = begin(state, asked))
      yield* onBegin
      // Frames of an abandoned prompt belong to no turn.
      yield* settle(state, given).pipe(Effect.catch(gone(state, "prompt")))
      if (current.interrupted) return { state: "interrupted" } satisfies TurnEnd
      state.owed = true
      yield* given.send(text)
      current.sent = true
      if (current.interrupted) yield* given.cancel
      else for (const [id, { text }] of current.steers) yield* given.steer?.(id, text) ?? Effect.void

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

const steerBy =
  <Approval>(state: State<Approval>, protocolSteer: NonNullable<Protocol<Approval>["steer"]>): NonNullable<AgentSession["steer"]> =>
  ({ id, text }) =>
    Effect.suspend(() => {
      const { turn } = state
      if (turn === null || turn.interrupted || turn.ended !== null || turn.steers.has(id)) return Effect.void
      turn.steers.set(id, { text, taken: false })
      // A text that comes before the prompt is sent goes right behind it.
      return turn.sent ? protocolSteer(id, text) : Effect.void
    })

/** Asks the agent to end, and waits a short time for it. */
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
