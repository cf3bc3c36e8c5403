/**
 * Runs one turn on an open agent: sends the prompt, records the agent's events, passes on decisions of people, and ends the turn
 * when a person, a time limit or the worker's shutdown requires it.
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
import * as AgentMcp from "./AgentMcp.ts"
import * as PlainFiles from "./PlainFiles.ts"

/** Whether events have `preview` and `detail` of tool calls (docs/decisions/5). Configuration. */
export const ShowToolDetail = Context.Reference<boolean>("@slipway/worker/ShowToolDetail", { defaultValue: () => true })

/** The most that one turn may write in a second, so that no turn blocks the store for others. */
const COMMANDS_PER_SECOND = 1000
const BYTES_PER_SECOND = 1024 * 1024

/** How often the turn's box is checked for limits that its programs met: two small files of the kernel. */
const LIMITS_LOOK = Duration.seconds(2)

/** Why a turn must end. */
interface Wish {
  /** The final state, whatever the agent answers; absent: interrupted, if the agent obeys. */
  readonly state?: TurnOutcome
  readonly reason: string
  readonly initiator: Initiator
}

/** `null`: the turn may go on. */
const wishOf = ({ detached, sandbox }: View, turn: Turn): Wish | null => {
  const { initiator, reason, status } = sandbox
  if (status !== "running") return { reason: reason ?? "terminated", initiator }
  // A time limit ended it: the agent's further work does not count.
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

/** A turn that runs. */
interface Running {
  readonly leased: LeasedSandbox
  readonly agent: Agent
  readonly turn: Turn
  readonly spans: Effect.Success<typeof Traced.activity>
  readonly confirmPlain: Effect.Success<ReturnType<typeof PlainFiles.make>>
  /** How often limits of the box were met before the turn; `null`: the box does not count it. */
  readonly metBefore: Parameters<typeof metSince>[0] | null
  /** The model account before the turn; `null`: the agent uses no model. */
  readonly before: ModelAccount | null
  readonly pace: { readonly commands: (amount: number) => Effect.Effect<void>; readonly bytes: (amount: number) => Effect.Effect<void> }
  /** Opens when the agent has the turn: texts and requests that it gets earlier are lost. */
  readonly begun: Latch.Latch
  /** Approvals the agent waits for. */
  readonly waiting: Set<string>
  /** Opens when the journal has something new. */
  readonly added: Latch.Latch
  /** Opens after a write. */
  readonly written: Latch.Latch
  journal: TurnJournal.TurnJournal
  /** Limits of the box that the turn's programs met so far: each is reported once. */
  met: ReadonlyArray<BoxLimit>
  wish: Wish | null
}

const onEvent = Effect.fnUntraced(function*(running: Running, told: AgentEvent) {
  const { added, confirmPlain, spans, waiting, written } = running
  const event = yield* confirmPlain(told)
  if (event._tag === "ApprovalRequested") waiting.add(event.approvalId)
  running.journal = TurnJournal.add(running.journal, event)
  yield* spans.on(event)
  yield* added.open
  while (TurnJournal.isFull(running.journal)) {
    yield* written.close
    yield* written.await
  }
})

/** Writes everything that is due in one transaction. Events that come meanwhile go into the next. */
const writing = Effect.fnUntraced(function*(running: Running) {
  const { added, leased, pace, written } = running
  while (!TurnJournal.isFinished(running.journal)) {
    const now = yield* elapsedMillis
    const { commands, nextDue, journal: left } = TurnJournal.take(running.journal, now)
    running.journal = left
    if (commands.length > 0) {
      const { logBytes } = (yield* leased.view).sandbox
      const after = yield* leased.write(commands)
      yield* written.open
      yield* pace.commands(commands.length)
      yield* pace.bytes(after.logBytes - logBytes)
      continue
    }
    yield* nextDue === null ? added.await : Effect.timeoutOption(added.await, nextDue - now)
    yield* added.close
  }
})

const passOnDecisions = Effect.fnUntraced(function*({ agent, leased, spans, waiting }: Running, { approvals }: Sandbox) {
  const pending = new Set(approvals.map(({ approval_id }) => approval_id))
  const decided = Array.from(waiting).filter((id) => !pending.has(id))
  if (decided.length === 0) return
  // The store does not know an approval that is not recorded yet: the next round passes it on.
  for (const { approvalId, outcome, reason } of yield* leased.approvals(decided)) {
    if (outcome === null) continue
    const decision = outcome === "approved" ? "approve" : "deny"
    yield* AgentMcp.isAsked(approvalId)
      ? agent.mcp?.decide(approvalId, decision, reason) ?? Effect.void
      : agent.session.decide(approvalId, decision, reason)
    waiting.delete(approvalId)
    yield* spans.decided(approvalId, outcome)
  }
})

/**
 * Hands over the messages that wait for this turn's agent, in order, for as long as the turn runs. The agent ignores a message that it
 * got before; a message that it never takes gets a turn of its own. A fiber of its own, so that an agent that reads nothing more does
 * not delay decisions.
 */
const steering = Effect.fnUntraced(function*({ agent, begun, leased }: Running) {
  yield* begun.await
  for (;;) {
    const seen = yield* leased.view
    for (const message of steersOf(seen.sandbox)) yield* agent.session.steer?.(message) ?? Effect.void
    yield* leased.until((next) => next !== seen)
  }
})

const metering = (running: Running) => {
  const { added, agent: { model } } = running
  return model === null ? Effect.void : Stream.runForEach(model.accounts, (account) => {
    running.journal = TurnJournal.meter(running.journal, account)
    return added.open
  })
}

const lookAtLimits = Effect.fnUntraced(function*(running: Running) {
  const { added, agent: { box: { limitsMet } }, metBefore } = running
  if (limitsMet === undefined || metBefore === null) return
  const now = metSince(metBefore, yield* limitsMet)
  const newly = now.filter((limit) => !running.met.includes(limit))
  running.met = now
  for (const limit of newly) running.journal = TurnJournal.meet(running.journal, limit)
  if (newly.length > 0) yield* added.open
})

const watching = (running: Running) =>
  running.agent.box.limitsMet === undefined
    ? Effect.void
    : Effect.forever(Effect.andThen(Effect.sleep(LIMITS_LOOK), lookAtLimits(running)))

/** Completes when a budget or the credits refuse a request of the agent. */
const refused = ({ agent: { model }, before }: Running) =>
  model === null ? Effect.never : model.accounts.pipe(
    Stream.filter(({ refusals }) => refusals > (before?.refusals ?? 0)),
    Stream.runHead,
    Effect.flatMap(Option.match({ onNone: () => Effect.never, onSome: (account) => Effect.succeed(tooExpensive(account)) }))
  )

/** Passes on decisions until the turn must end. Ends when the agent has had its time to end the turn. */
const attending = Effect.fnUntraced(function*(running: Running, steerer: Fiber.Fiber<unknown>, interruptWithin: Duration.Duration) {
  const { agent, begun, leased, turn } = running
  let view = yield* leased.view
  while (running.wish === null) {
    const seen = view
    running.wish = wishOf(view, turn)
    if (running.wish !== null) break
    // An agent that does not take decisions must end all the same.
    yield* Effect.raceAllFirst([
      passOnDecisions(running, view.sandbox),
      leased.until((next) => wishOf(next, turn) !== null),
      refused(running)
    ])
    yield* rememberSession(leased, agent)
    const next = yield* Effect.raceFirst(leased.until((next) => next !== seen), refused(running))
    if ("reason" in next) running.wish = next
    else view = next
  }
  yield* Fiber.interrupt(steerer)
  yield* Effect.forkChild(Effect.andThen(begun.await, agent.session.interrupt))
  yield* Effect.sleep(interruptWithin)
  return "killed" as const
})

/** Records the usage of the turn. Returns the provider's error, if it is of this turn. */
const settleAccount = Effect.fnUntraced(function*(running: Running) {
  const { agent: { model }, before } = running
  if (model === null) return undefined
  const account = yield* model.account
  running.journal = TurnJournal.meter(running.journal, account)
  // The agent may have ended the turn before we could.
  if (account.refusals > (before?.refusals ?? 0)) running.wish ??= tooExpensive(account)
  // The error of an earlier turn is not reported again.
  return account.trouble === before?.trouble ? undefined : account.trouble
})

const begin = Effect.fnUntraced(function*(leased: LeasedSandbox, agent: Agent, turn: Turn, started: Sandbox) {
  const { box: { limitsMet }, model } = agent
  const metBefore = limitsMet === undefined ? null : yield* limitsMet
  const before = model === null ? null : yield* model.account
  const showsDetail = yield* ShowToolDetail
  const spans = yield* Traced.activity
  const confirmPlain = yield* PlainFiles.make(started)
  const journal = TurnJournal.begin({ turnId: turn.id, before: started, intervals: yield* Timing, showsDetail }, yield* elapsedMillis)
  const running: Running = {
    leased,
    agent,
    turn,
    spans,
    confirmPlain,
    metBefore,
    before,
    pace: { commands: RateLimiter.make(COMMANDS_PER_SECOND), bytes: RateLimiter.make(BYTES_PER_SECOND) },
    begun: Latch.makeUnsafe(false),
    waiting: new Set(),
    added: Latch.makeUnsafe(false),
    written: Latch.makeUnsafe(false),
    // Metered from the beginning, so that the agent's own numbers are not mixed with the gateway's.
    journal: before === null ? journal : TurnJournal.meter(journal, before),
    met: [],
    wish: null
  }
  return running
})

/** Runs the pending `turn`. The agent can take another prompt afterwards iff it is `alive`. */
export const runTurn = Effect.fn("RunTurn.runTurn")(function*(leased: LeasedSandbox, agent: Agent, turn: Turn) {
  const timing = yield* Timing
  const started = yield* leased.write([{ _tag: "StartTurn", turnId: turn.id }])
  // Cancelled before the agent got it.
  if (started.turn?.id !== turn.id || started.turn.state !== "running") return "alive"

  const running = yield* begin(leased, agent, turn, started)
  const { added, begun, spans } = running
  const writer = yield* Effect.forkChild(RootSpan.quiet(writing(running)))
  const meter = yield* Effect.forkChild(metering(running))
  const watcher = yield* Effect.forkChild(watching(running))
  const steerer = yield* Effect.forkChild(steering(running))
  const attendant = yield* Effect.forkChild(AgentMcp.attend(agent.mcp, (told) => onEvent(running, told)), { startImmediately: true })
  const answer: Answer = yield* Effect.raceAllFirst([
    Effect.result(agent.session.prompt({
      turnId: turn.id,
      text: turn.prompt,
      onBegin: begun.open,
      onEvent: (told) => onEvent(running, told)
    })),
    attending(running, steerer, timing.interrupt),
    // Ends before the others only when the lease is lost.
    Effect.andThen(Fiber.join(writer), Effect.never)
  ])
  // All processes of the agent end before the turn: files that people see as its result change no more.
  if (answer === "killed") yield* agent.close
  if (answer !== "killed" && Result.isFailure(answer)) yield* Effect.logWarning("the agent is gone", answer.failure)
  yield* Fiber.interrupt(meter)
  yield* Fiber.interrupt(watcher)
  yield* Fiber.interrupt(attendant)
  yield* Fiber.interrupt(steerer)
  yield* lookAtLimits(running)
  const trouble = yield* settleAccount(running)
  yield* spans.ended
  const { met, wish } = running
  const end = endOf(answer, wish, met)
  // The gateway knows better than the agent what is wrong with the provider, and what to do.
  const isTroubled = trouble !== undefined && wish === null && answer !== "killed" && Result.isSuccess(answer) && end.state === "failed"
  running.journal = TurnJournal.end(running.journal, isTroubled ? { ...end, reason: trouble.message } : end)
  // The checkpoint that the turn's end asks for has it.
  yield* rememberSession(leased, agent)
  yield* added.open
  yield* Fiber.join(writer)
  if (answer === "killed") return "killed"
  return Result.isFailure(answer) ? "lost" : "alive"
})
