/** Starts the agent of a leased sandbox when a turn needs it, keeps it warm for a while after the turn, then ends it. */
import { AgentError } from "@slipway/domain/sandbox/ports/AgentRuntime"
import type { Box } from "@slipway/domain/sandbox/ports/SandboxHost"
import { workOf } from "@slipway/domain/sandbox/rules/LeaseRules"
import { Policy } from "@slipway/domain/sandbox/rules/Policy"
import { isAwaiting } from "@slipway/domain/sandbox/rules/Turn"
import { Duration, Effect, type Latch, Stream } from "effect"
import { elapsedMillis } from "../shared/Elapsed.ts"
import { type LeasedSandbox, isLeaving, type View } from "../shared/LeasedSandbox.ts"
import { Timing } from "../shared/Timing.ts"
import * as Traced from "../shared/Traced.ts"
import type { SlotReservation, WorkerCapacity } from "../shared/WorkerCapacity.ts"
import { unused } from "../terminal/OfferTerminals.ts"
import * as Agent from "./Agent.ts"
import { runTurn } from "./RunTurn.ts"

const MAX_PAUSE_MILLIS = 30_000

/** The first try starts at once; each later try waits longer. */
const pauseAfter = (count: number) => count === 0 ? Effect.void : Effect.sleep(Math.min(250 * 2 ** count, MAX_PAUSE_MILLIS))

const isPending = ({ sandbox }: View) => sandbox.turn?.state === "pending"
/** A person asked to go back to a checkpoint, and the present state is saved. */
const goesBack = ({ sandbox }: View) => sandbox.restoring !== null && !sandbox.owesCheckpoint

/** Waits until the owed checkpoint is taken, or has given way and its event says so. */
const saved = (leased: LeasedSandbox) => leased.until((view) => isLeaving(view) || !view.sandbox.owesCheckpoint)

/** Opens the agent with the conversation so far. `null`: it failed for too long, or the sandbox is leaving. */
const open = Effect.fn("AgentLifecycle.open")(function*(leased: LeasedSandbox, box: Box) {
  const { lost } = yield* Policy
  const deadline = (yield* elapsedMillis) + Duration.toMillis(lost)
  const { sandbox: { agentRuntime: runtime } } = yield* leased.view
  let trouble = new AgentError({ runtime, operation: "open", detail: "it could not be kept running", retryable: true })

  const attempts = Effect.gen(function*() {
    for (let count = 0;; count++) {
      yield* pauseAfter(count)
      const left = deadline - (yield* elapsedMillis)
      if (left <= 0 || !trouble.retryable) {
        // The sandbox fails with its present state, so save that state first.
        yield* saved(leased)
        yield* leased.write([{ _tag: "Fail", reason: "agent_lost", error: trouble.message, retryable: trouble.retryable }])
        return null
      }
      const opened = yield* Agent.open(leased, box, yield* leased.agentSession).pipe(
        Effect.timeoutOrElse({ duration: left, orElse: () => Effect.fail(trouble) }),
        Effect.catchTag("AgentError", Effect.succeed)
      )
      if (!(opened instanceof AgentError)) return opened
      yield* Effect.logWarning("could not open the agent again", opened)
      trouble = opened
    }
  })
  return yield* Effect.raceFirst(attempts, Effect.as(leased.until(isLeaving), null))
})

/** Reports usage between two turns: left by an earlier worker, or caused by the agent outside a turn. */
const meter = Effect.fnUntraced(function*(leased: LeasedSandbox, { model }: Agent.Agent) {
  const timing = yield* Timing
  if (model === null) return yield* Effect.never
  yield* Stream.runForEach(model.accounts, (account) => Effect.andThen(Agent.reportUsage(leased, account), Effect.sleep(timing.usage)))
  return yield* Effect.never
})

const isWaiting = ({ sandbox: { turn } }: View) => turn !== null && isAwaiting(turn.state)

/** Frees the slot while the agent waits for a person. */
const lendSlot = (leased: LeasedSandbox, reservation: SlotReservation) =>
  leased.until(isWaiting).pipe(
    Effect.andThen(reservation.pause),
    Effect.andThen(leased.until((view) => !isWaiting(view))),
    Effect.andThen(reservation.resume),
    Effect.forever
  )

/** The agent and the reservation that a boot left. */
export interface Start {
  readonly agent: Agent.Agent | null
  /** `null`: not requested yet. */
  readonly reservation: SlotReservation | null
}

/**
 * Runs the turns that people ask for. Ends when the sandbox needs no work and has no agent (`idle`), when a person goes back to a
 * checkpoint (`back`), or when nothing may begin any more (`left`). The agent has ended in all three cases.
 */
export const run = Effect.fn("AgentLifecycle.run")(function*(
  leased: LeasedSandbox,
  box: Box,
  { capacity, start, still }: {
    readonly capacity: WorkerCapacity
    readonly start: Start
    /** Closed while an agent may still work on a turn, even if the log says that the turn is over. */
    readonly still: Latch.Latch
  }
) {
  const { agentIdle } = yield* Timing
  let { agent, reservation } = start

  const close = Effect.gen(function*() {
    const closing = agent
    agent = null
    if (closing !== null) {
      yield* Agent.rememberSession(leased, closing)
      yield* closing.close
    }
    if (reservation !== null) yield* reservation.close
    reservation = null
    if (closing !== null && closing.model !== null) yield* Agent.reportUsage(leased, yield* closing.model.account)
  })
  const unlessLeaving = <A, E, R>(self: Effect.Effect<A, E, R>) => Effect.raceFirst(self, Effect.as(leased.until(isLeaving), null))

  for (;;) {
    const view = yield* leased.view
    if (isLeaving(view)) {
      yield* close
      return "left"
    }
    if (goesBack(view)) {
      yield* close
      return "back"
    }
    const { turn } = view.sandbox
    if (turn !== null && isPending(view)) {
      yield* saved(leased)
      // The checkpoint is not awaited any more: the next session takes it first.
      if (isLeaving(yield* leased.view)) continue
      const reserved = reservation ?? (yield* capacity.reserve("agent"))
      reservation = reserved
      if (agent === null) {
        yield* unlessLeaving(reserved.ready)
        agent = yield* open(leased, box)
        if (agent === null) continue
      } else if ((yield* unlessLeaving(reserved.work)) !== true) {
        yield* close
        continue
      }
      yield* still.close
      // A publication ended meanwhile, and its checkpoint is being taken.
      if ((yield* leased.view).sandbox.owesCheckpoint) {
        yield* still.open
        continue
      }
      yield* Effect.raceFirst(Traced.turn(leased, turn)(runTurn(leased, agent, turn)), lendSlot(leased, reserved)).pipe(
        Effect.flatMap((outcome) => outcome === "alive" ? reserved.rest : close),
        Effect.ensuring(still.open)
      )
      continue
    }
    if (agent === null) {
      yield* close
      const next = yield* leased.until((next) => isLeaving(next) || isPending(next) || goesBack(next) || workOf(next.sandbox) === null)
      if (!isLeaving(next) && workOf(next.sandbox) === null) return "idle"
      continue
    }
    const why = yield* Effect.raceAllFirst([
      leased.until((next) => isLeaving(next) || isPending(next) || goesBack(next)),
      Effect.as(agent.session.exited, "it is gone"),
      Effect.as(Effect.andThen(Effect.sleep(agentIdle), unused(leased, agentIdle)), "it is unused"),
      Effect.as(reservation?.wanted ?? Effect.never, "another sandbox needs its place"),
      meter(leased, agent)
    ])
    if (typeof why !== "string") continue
    yield* Effect.logDebug("the agent is stopped until the next turn", { why })
    yield* close
  }
})
