/**
 * Runs one turn on an open agent: hands it the prompt, records what it does, passes on what people decide, and ends it
 * when they, a time limit or the worker's own shutdown want it to end.
 */
import type { ModelAccount } from "@slipway/domain/models/ports/ModelGateway"
import * as RootSpan from "@slipway/domain/observability/RootSpan"
import type { AgentError, AgentEvent, TurnEnd } from "@slipway/domain/sandbox/ports/AgentRuntime"
import { type BoxLimit, metSince } from "@slipway/domain/sandbox/rules/BoxLimit"
import { steersOf } from "@slipway/domain/sandbox/rules/MessageQueue"
import type { Sandbox } from "@slipway/domain/sandbox/rules/Sandbox"
import type { Initiator } from "@slipway/domain/sandbox/rules/SandboxEvent"
import { isActive, type Turn, type TurnOutcome } from "@slipway/domain/sandbox/rules/Turn"
import * as TurnJournal from "@slipway/domain/sandbox/rules/TurnJournal"
import * as RateLimiter from "@slipway/domain/time/RateLimiter"
import { Context, Duration, Effect, Fiber, Latch, Option, Result, Stream } from "effect"
import { elapsedMillis } from "../shared/Elapsed.ts"
import type { LeasedSandbox, View } from "../shared/LeasedSandbox.ts"
import { Timing } from "../shared/Timing.ts"
import * as Traced from "../shared/Traced.ts"
import { type Agent, rememberSession } from "./Agent.ts"
import * as PlainFiles from "./PlainFiles.ts"

/** Whether events say what tool calls do and write: `preview` and `detail` (docs/decisions/5). Configuration. */
export const ShowToolDetail = Context.Reference<boolean>("@slipway/worker/ShowToolDetail", { defaultValue: () => true })

/** What one turn may have written in a second, so that none keeps the store from others. */
const COMMANDS_PER_SECOND = 1000
const BYTES_PER_SECOND = 1024 * 1024

/** Between two looks at whether the turn's programs met limits of their box: two small files of the kernel. */
const LIMITS_LOOK = Duration.seconds(2)

/** Why a turn is made to end. */
interface Wish {
  /** How the turn then ends, whatever the agent makes of it; absent: interrupted, if the agent obeys. */
  readonly state?: TurnOutcome
  readonly reason: string
  readonly initiator: Initiator
}

/** `null`: the turn may go on. */
const wishOf = ({ detached, sandbox }: View, turn: Turn): Wish | null => {
  const { initiator, reason, status } = sandbox
  if (status !== "running") return { reason: reason ?? "terminated", initiator }
  // Ended without us, by a time limit: what the agent still does counts no more.
  if (sandbox.turn?.id !== turn.id || !isActive(sandbox.turn)) return { reason: "ended", initiator: "policy" }
  if (sandbox.turn.interruptRequested) return { reason: "interrupt", initiator: "user" }
  return detached ? { reason: "worker_shutdown", initiator: "system" } : null
}

/** A budget or the credits refused a request of the agent. */
const tooExpensive = ({ refusedFor }: ModelAccount): Wish => ({
  state: "failed",
  reason: refusedFor ?? "budget_exceeded",
  initiator: "policy"
})

/** `killed`: the agent did not end the turn although it was asked to. */
type Answer = Result.Result<TurnEnd, AgentError> | "killed"

/** `met`: limits of the box that the turn's programs met. */
const endOf = (answer: Answer, wish: Wish | null, met: ReadonlyArray<BoxLimit>): TurnJournal.Ending => {
  if (wish?.state !== undefined) return { ...wish, state: wish.state }
  if (answer === "killed" || Result.isFailure(answer)) {
    if (wish !== null) return { state: "interrupted", ...wish }
    const tooLarge = answer !== "killed" && answer.failure.tooLarge === true
    if (tooLarge) return { state: "failed", tooLarge }
    const [limit] = met
    return {
      state: "failed",
      ...(limit === undefined ? { reason: "agent_lost", initiator: "provider" } : { reason: limit, initiator: "policy" })
    }
  }
  const { state } = answer.success
  if (state === "interrupted" && wish !== null) return { ...wish, state }
  return { ...answer.success, ...(state === "succeeded" ? {} : { initiator: "provider" }) }
}

/** Runs the pending `turn`. The agent can take another prompt afterwards iff it is `alive`. */
export const runTurn = Effect.fn("RunTurn.runTurn")(function*(held: LeasedSandbox, agent: Agent, turn: Turn) {
  const timing = yield* Timing
  const started = yield* held.write([{ _tag: "StartTurn", turnId: turn.id }])
  // Cancelled before the agent got it.
  if (started.turn?.id !== turn.id || started.turn.state !== "running") return "alive"

  const { box: { limitsMet }, model } = agent
  const metBefore = limitsMet === undefined ? null : yield* limitsMet
  const before = model === null ? null : yield* model.account
  const showsDetail = yield* ShowToolDetail
  const spans = yield* Traced.activity
  const confirmPlain = yield* PlainFiles.make(started)
  const began = yield* elapsedMillis
  let journal = TurnJournal.begin({ turnId: turn.id, before: started, intervals: timing, showsDetail }, began)
  // From the beginning: the agent's own numbers are not to be mixed with the gateway's.
  if (before !== null) journal = TurnJournal.meter(journal, before)
  /** Opens when the turn is the agent's: what it is handed or asked before is lost. */
  const begun = Latch.makeUnsafe(false)
  /** Approvals the agent waits for. */
  const waiting = new Set<string>()
  const added = Latch.makeUnsafe(false)
  const written = Latch.makeUnsafe(false)
  const pace = { commands: RateLimiter.make(COMMANDS_PER_SECOND), bytes: RateLimiter.make(BYTES_PER_SECOND) }

  const onEvent = Effect.fnUntraced(function*(told: AgentEvent) {
    const event = yield* confirmPlain(told)
    if (event._tag === "ApprovalRequested") waiting.add(event.approvalId)
    journal = TurnJournal.add(journal, event)
    yield* spans.on(event)
    yield* added.open
    while (TurnJournal.isFull(journal)) {
      yield* written.close
      yield* written.await
    }
  })

  /** One transaction for all that is due; what happens meanwhile goes into the next. */
  const writing = Effect.gen(function*() {
    while (!TurnJournal.isFinished(journal)) {
      const now = yield* elapsedMillis
      const { commands, nextDue, journal: left } = TurnJournal.take(journal, now)
      journal = left
      if (commands.length > 0) {
        const { logBytes } = (yield* held.view).sandbox
        const after = yield* held.write(commands)
        yield* written.open
        yield* pace.commands(commands.length)
        yield* pace.bytes(after.logBytes - logBytes)
        continue
      }
      yield* nextDue === null ? added.await : Effect.timeoutOption(added.await, nextDue - now)
      yield* added.close
    }
  })

  const passOnDecisions = Effect.fnUntraced(function*({ approvals }: Sandbox) {
    const pending = new Set(approvals.map(({ approval_id }) => approval_id))
    const decided = Array.from(waiting).filter((id) => !pending.has(id))
    if (decided.length === 0) return
    // One that is not recorded yet is unknown to the store, and left for the next look.
    for (const { approvalId, outcome, reason } of yield* held.approvals(decided)) {
      if (outcome === null) continue
      yield* agent.session.decide(approvalId, outcome === "approved" ? "approve" : "deny", reason)
      waiting.delete(approvalId)
      yield* spans.decided(approvalId, outcome)
    }
  })

  /**
   * Hands over what waits for this turn's agent, in order, for as long as the turn runs. The agent ignores a message that it was handed
   * before; one that it never takes gets a turn of its own. By itself: an agent that reads nothing more keeps no decision back.
   */
  const steering = Effect.gen(function*() {
    yield* begun.await
    for (;;) {
      const seen = yield* held.view
      for (const message of steersOf(seen.sandbox)) yield* agent.session.steer?.(message) ?? Effect.void
      yield* held.until((next) => next !== seen)
    }
  })

  const metering = model === null ? Effect.void : Stream.runForEach(model.accounts, (account) => {
    journal = TurnJournal.meter(journal, account)
    return added.open
  })
  /** Limits of the box that the turn's programs met so far: each is told once. */
  let met: ReadonlyArray<BoxLimit> = []
  const lookAtLimits = Effect.gen(function*() {
    if (limitsMet === undefined || metBefore === null) return
    const now = metSince(metBefore, yield* limitsMet)
    const newly = now.filter((limit) => !met.includes(limit))
    met = now
    for (const limit of newly) journal = TurnJournal.meet(journal, limit)
    if (newly.length > 0) yield* added.open
  })
  const watching = limitsMet === undefined ? Effect.void : Effect.forever(Effect.andThen(Effect.sleep(LIMITS_LOOK), lookAtLimits))
  const refused = model === null ? Effect.never : model.accounts.pipe(
    Stream.filter(({ refusals }) => refusals > (before?.refusals ?? 0)),
    Stream.runHead,
    Effect.flatMap(Option.match({ onNone: () => Effect.never, onSome: (account) => Effect.succeed(tooExpensive(account)) }))
  )

  let wish: Wish | null = null
  /** Ends when the agent has had its time to end the turn. */
  const attending = Effect.gen(function*() {
    let view = yield* held.view
    while (wish === null) {
      const seen = view
      wish = wishOf(view, turn)
      if (wish !== null) break
      // An agent that does not take them is no reason to let it go on.
      yield* Effect.raceAllFirst([passOnDecisions(view.sandbox), held.until((next) => wishOf(next, turn) !== null), refused])
      yield* rememberSession(held, agent)
      const next = yield* Effect.raceFirst(held.until((next) => next !== seen), refused)
      if ("reason" in next) wish = next
      else view = next
    }
    yield* Fiber.interrupt(steerer)
    yield* Effect.forkChild(Effect.andThen(begun.await, agent.session.interrupt))
    yield* Effect.sleep(timing.interrupt)
    return "killed" as const
  })

  const writer = yield* Effect.forkChild(RootSpan.quiet(writing))
  const meter = yield* Effect.forkChild(metering)
  const watcher = yield* Effect.forkChild(watching)
  const steerer = yield* Effect.forkChild(steering)
  const answer: Answer = yield* Effect.raceAllFirst([
    Effect.result(agent.session.prompt({ turnId: turn.id, text: turn.prompt, onBegin: begun.open, onEvent })),
    attending,
    // Ends before the others only when the lease is lost.
    Effect.andThen(Fiber.join(writer), Effect.never)
  ])
  // First the end of everything the agent runs, then the end of the turn: what people see as ended changes no more.
  if (answer === "killed") yield* agent.close
  if (answer !== "killed" && Result.isFailure(answer)) yield* Effect.logWarning("the agent is gone", answer.failure)
  yield* Fiber.interrupt(meter)
  yield* Fiber.interrupt(watcher)
  yield* Fiber.interrupt(steerer)
  yield* lookAtLimits
  let trouble: ModelAccount["trouble"]
  if (model !== null) {
    const account = yield* model.account
    // Not of an earlier turn.
    trouble = account.trouble === before?.trouble ? undefined : account.trouble
    journal = TurnJournal.meter(journal, account)
    // The agent may have ended the turn before we could.
    if (account.refusals > (before?.refusals ?? 0)) wish ??= tooExpensive(account)
  }
  yield* spans.ended
  const end = endOf(answer, wish, met)
  // The gateway knows better than the agent what is wrong with the provider, and what to do.
  const isTroubled = trouble !== undefined && wish === null && answer !== "killed" && Result.isSuccess(answer) && end.state === "failed"
  journal = TurnJournal.end(journal, isTroubled ? { ...end, reason: trouble?.message ?? "" } : end)
  // The checkpoint that the turn's end asks for has it.
  yield* rememberSession(held, agent)
  yield* added.open
  yield* Fiber.join(writer)
  if (answer === "killed") return "killed"
  return Result.isFailure(answer) ? "lost" : "alive"
})
