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

interface Conversation<Approval> {
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

export const make = Effect.fnUntraced(function*<Approval>(process: BoxProcess, options: AgentSessionOptions) {
  const known = yield* Redaction
  // The one secret that the agent has.
  const own = new Redactor()
  if (options.access !== null) own.learn(Redacted.value(options.access.token))
  const redacted = (text: string) => own.redactValues(known.redactValues(text))

  const folders = options.repositories.map(({ folder }) => folder)

  /** Held by the reader of the agent. */
  const reading = Semaphore.makeUnsafe(1)
  let turn: Turn<Approval> | null = null
  let protocol: Protocol<Approval> | null = null
  /** The agent was sent a prompt and has not said that it is through with it. */
  let owed = false

  const live = () => (turn !== null && turn.sent ? turn : null)

  const fail = (operation: AgentError["operation"], detail: string, retryable: boolean) =>
    new AgentError({ runtime: options.profile, operation, detail, retryable })

  const gone = (operation: AgentError["operation"]) =>
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
        // Whoever reads it: an agent says there what it was given.
        stderr: (yield* Redaction).redact(yield* process.stderrTail)
      })
      return yield* fail(
        operation,
        Option.match(exit, { onNone: () => "the agent closed its output", onSome: describeExit }),
        true
      )
    })

  const session = Effect.fnUntraced(function*(given: Protocol<Approval>) {
    protocol = given
    const settle = Effect.whileLoop({ while: () => owed, body: () => given.next, step: () => {} })

    const interrupt = Effect.suspend(() => {
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

    const prompt = Effect.fn("AgentSession.prompt")(
      function*({ onBegin = Effect.void, onEvent, text, turnId }: Parameters<AgentSession["prompt"]>[0]) {
        const current: Turn<Approval> = (turn = {
          events: TurnEvents.make(turnId, redacted, folders),
          emit: (events) => Effect.forEach(events, onEvent, { discard: true }),
          approvals: new Map(),
          steers: new Map(),
          sent: false,
          interrupted: false,
          denied: false,
          ended: null
        })
        yield* onBegin
        // What an abandoned prompt left unread belongs to no turn.
        yield* settle.pipe(Effect.catch(gone("prompt")))
        if (current.interrupted) return { state: "interrupted" } satisfies TurnEnd
        owed = true
        yield* given.send(text)
        current.sent = true
        if (current.interrupted) yield* given.cancel
        else for (const [id, { text }] of current.steers) yield* given.steer?.(id, text) ?? Effect.void

        return yield* Effect.whileLoop({ while: () => current.ended === null, body: () => given.next, step: () => {} }).pipe(
          Effect.catch(gone("prompt")),
          Effect.andThen(
            Effect.suspend(() =>
              current.ended?.broken === undefined ? Effect.void : Effect.fail(fail("prompt", current.ended.broken, false))
            )
          ),
          Effect.matchEffect({
            onSuccess: Effect.fnUntraced(function*() {
              const { failure, finish } = current.ended ?? { finish: "end_turn" as const }
              yield* current.emit(current.events.end(current.interrupted ? "cancelled" : finish))
              if (current.interrupted) return { state: "interrupted" } satisfies TurnEnd
              const end: TurnEnd = failure === undefined ? { state: "succeeded" } : { state: "failed", reason: redacted(failure) }
              return finish === finishes[end.state] ? end : { ...end, finish }
            }),
            onFailure: (error) =>
              Effect.andThen(current.emit(current.events.end(current.interrupted ? "cancelled" : "error")), Effect.fail(error))
          }),
          // Nobody will hear of this turn any more: not worth going on with.
          Effect.onError(() => (current.interrupted ? Effect.void : given.cancel))
        )
      },
      Effect.ensuring(
        Effect.sync(() => {
          turn = null
        })
      ),
      reading.withPermit
    )

    const decide = (approvalId: string, decision: "approve" | "deny", reason?: string) =>
      Effect.suspend(() => {
        const open = turn?.approvals.get(approvalId)
        if (turn === null || open === undefined) return Effect.void
        turn.approvals.delete(approvalId)
        if (decision === "deny") {
          turn.denied = true
          turn.events.deny(open.nativeCallId)
        }
        return given.answer(open.approval, decision, reason)
      })

    const steerBy = (protocolSteer: NonNullable<typeof given.steer>): NonNullable<AgentSession["steer"]> => ({ id, text }) =>
      Effect.suspend(() => {
        if (turn === null || turn.interrupted || turn.ended !== null || turn.steers.has(id)) return Effect.void
        turn.steers.set(id, { text, taken: false })
        // One that comes before the prompt is on its way goes right behind it.
        return turn.sent ? protocolSteer(id, text) : Effect.void
      })

    yield* Effect.addFinalizer(() =>
      Effect.gen(function*() {
        yield* interrupt.pipe(
          Effect.andThen(reading.withPermit(settle)),
          Effect.ignore,
          Effect.interruptible,
          Effect.timeoutOption(INTERRUPT_WITHIN)
        )
        yield* process.endInput
        yield* Effect.timeoutOption(Effect.interruptible(process.exited), EXIT_WITHIN)
      })
    )

    return {
      sessionId: given.sessionId,
      prompt,
      decide,
      interrupt,
      ...(given.steer === undefined ? {} : { steer: steerBy(given.steer) }),
      exited: Effect.map(process.exited, describeExit)
    } satisfies AgentSession
  })

  const refuse = (nativeCallId: string, report: TurnEvents.ToolReport, approval: Approval, why: string) =>
    Effect.suspend(() => {
      if (protocol === null) return Effect.void
      if (turn === null || !turn.sent || turn.interrupted) return protocol.answer(approval, "cancel")
      turn.denied = true
      const { events } = turn.events.refuse(nativeCallId, report, why)
      return Effect.andThen(turn.emit(events), protocol.answer(approval, "deny", why))
    })

  const conversation: Conversation<Approval> = {
    fail,
    gone,
    starting: (start) =>
      Effect.timeoutOrElse(start, {
        duration: START_WITHIN,
        orElse: () => Effect.fail(fail("open", "the agent did not get ready in time", true))
      }),
    live,
    ask: (nativeCallId, report, approval) =>
      Effect.suspend(() => {
        if (protocol === null) return Effect.void
        if (turn === null || !turn.sent || turn.interrupted) return protocol.answer(approval, "cancel")
        // Some runtimes ask although they were told not to.
        if (options.toolApprovalMode === "auto") return protocol.answer(approval, "approve")
        if (turn.approvals.size >= MAX_WAITING) {
          return refuse(nativeCallId, report, approval, `More than ${MAX_WAITING} calls would wait for a person at once.`)
        }
        const asked = turn.events.ask(nativeCallId, report)
        if ("refused" in asked) {
          turn.denied = true
          return Effect.andThen(turn.emit(asked.events), protocol.answer(approval, "deny", asked.refused))
        }
        turn.approvals.set(asked.approvalId, { nativeCallId, approval })
        return turn.emit(asked.events)
      }),
    refuse,
    took: (id) =>
      Effect.suspend(() => {
        const steered = turn?.steers.get(id)
        if (turn === null || steered === undefined || steered.taken) return Effect.void
        steered.taken = true
        return turn.emit([{ _tag: "MessageSteered", messageId: id }])
      }),
    ended: (ended) => {
      owed = false
      if (turn !== null && turn.sent) turn.ended = ended
    },
    owes: () => owed,
    session
  }
  return conversation
})
