/** The agent of a sandbox while a worker works for it: there when a turn wants it, warm for a while after, and then gone. */
import { AgentError } from "@slipway/domain/sandbox/AgentRuntime"
import { workOf } from "@slipway/domain/sandbox/Leasing"
import { Policy } from "@slipway/domain/sandbox/Policy"
import type { Box } from "@slipway/domain/sandbox/SandboxHost"
import { Duration, Effect, type Latch, Option, Stream } from "effect"
import { TURN_WAITS } from "../checkpoint/Checkpoint.ts"
import { elapsedMillis } from "../shared/Elapsed.ts"
import { type HeldSandbox, isLeaving, type View } from "../shared/HeldSandbox.ts"
import type { Place, Room } from "../shared/Room.ts"
import { Timing } from "../shared/Timing.ts"
import * as Traced from "../shared/Traced.ts"
import * as Agent from "./Agent.ts"
import { runTurn } from "./RunTurn.ts"

const MAX_PAUSE_MILLIS = 30_000

/** At once for the first try, then ever later. */
const pauseAfter = (count: number) => count === 0 ? Effect.void : Effect.sleep(Math.min(250 * 2 ** count, MAX_PAUSE_MILLIS))

const isPending = ({ sandbox }: View) => sandbox.turn?.state === "pending"
/** What a person wants back, once there is a checkpoint of what is there now. */
const goesBack = ({ sandbox }: View) => sandbox.restoring !== null && !sandbox.owesCheckpoint

/** Until a checkpoint has what is there now or gave way, which it cannot record where the store does not answer. */
const saved = (held: HeldSandbox) =>
  Effect.timeoutOption(held.until((view) => isLeaving(view) || !view.sandbox.owesCheckpoint), Duration.times(TURN_WAITS, 2))

/** Opens the agent, with the conversation so far. `null`: it could not be done in time, or need not be done. */
const open = Effect.fn("KeepAgent.open")(function*(held: HeldSandbox, box: Box) {
  const { lost } = yield* Policy
  const deadline = (yield* elapsedMillis) + Duration.toMillis(lost)
  const { sandbox: { agentRuntime: runtime } } = yield* held.view
  let trouble = new AgentError({ runtime, operation: "open", detail: "it could not be kept running", retryable: true })

  const attempts = Effect.gen(function*() {
    for (let count = 0;; count++) {
      yield* pauseAfter(count)
      const left = deadline - (yield* elapsedMillis)
      if (left <= 0 || !trouble.retryable) {
        // It ends with what it has, so that has to be kept first.
        yield* saved(held)
        yield* held.write([{ _tag: "Fail", reason: "agent_lost", error: trouble.message, retryable: trouble.retryable }])
        return null
      }
      const opened = yield* Agent.open(held, box, yield* held.agentSession).pipe(
        Effect.timeoutOrElse({ duration: left, orElse: () => Effect.fail(trouble) }),
        Effect.catchTag("AgentError", Effect.succeed)
      )
      if (!(opened instanceof AgentError)) return opened
      yield* Effect.logWarning("could not open the agent again", opened)
      trouble = opened
    }
  })
  return yield* Effect.raceFirst(attempts, Effect.as(held.until(isLeaving), null))
})

/** Usage that comes between two turns: what a worker before this one left, or what the agent does unasked. */
const meter = Effect.fnUntraced(function*(held: HeldSandbox, { model }: Agent.Agent) {
  const timing = yield* Timing
  if (model === null) return yield* Effect.never
  yield* Stream.runForEach(model.accounts, (account) => Effect.andThen(Agent.reportUsage(held, account), Effect.sleep(timing.usage)))
  return yield* Effect.never
})

const isWaiting = ({ sandbox }: View) => sandbox.turn?.state === "awaiting_approval"

/** While the agent waits for a person, its slot is somebody else's. */
const lendSlot = (held: HeldSandbox, place: Place) =>
  held.until(isWaiting).pipe(
    Effect.andThen(place.pause),
    Effect.andThen(held.until((view) => !isWaiting(view))),
    Effect.andThen(place.goOn),
    Effect.forever
  )

/** What there is to begin with. */
export interface Start {
  readonly agent: Agent.Agent | null
  /** `null`: nobody has asked for one yet. */
  readonly place: Place | null
}

/**
 * Runs the turns that people ask for, until there is nothing to do for the sandbox and no agent of it is left (`idle`), a checkpoint
 * is wanted back (`back`), or nothing is to be begun any more (`left`). However it ends, no agent is left.
 */
export const keepAgent = Effect.fn("KeepAgent.keepAgent")(function*(
  held: HeldSandbox,
  box: Box,
  { room, start, still }: {
    readonly room: Room
    readonly start: Start
    /** Closed while an agent may be at a turn, be it over by the log or not. */
    readonly still: Latch.Latch
  }
) {
  const { agentIdle } = yield* Timing
  let { agent, place } = start

  const close = Effect.gen(function*() {
    const closing = agent
    agent = null
    if (closing !== null) {
      yield* Agent.rememberSession(held, closing)
      yield* closing.close
    }
    if (place !== null) yield* place.close
    place = null
    if (closing !== null && closing.model !== null) yield* Agent.reportUsage(held, yield* closing.model.account)
  })
  const unlessLeaving = <A, E, R>(self: Effect.Effect<A, E, R>) => Effect.raceFirst(self, Effect.as(held.until(isLeaving), null))

  for (;;) {
    const view = yield* held.view
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
      const isSaved = Option.isSome(yield* saved(held))
      // It waits no longer for a checkpoint: whoever goes on with it takes that first.
      if (isLeaving(yield* held.view)) continue
      const getting = place ?? (yield* room.enter("agent"))
      place = getting
      if (agent === null) {
        yield* unlessLeaving(getting.ready)
        agent = yield* open(held, box)
        if (agent === null) continue
      } else if ((yield* unlessLeaving(getting.work)) !== true) {
        yield* close
        continue
      }
      yield* still.close
      // A publication ended meanwhile, and what it left is being read.
      if (isSaved && (yield* held.view).sandbox.owesCheckpoint) {
        yield* still.open
        continue
      }
      yield* Effect.raceFirst(Traced.turn(held, turn)(runTurn(held, agent, turn)), lendSlot(held, getting)).pipe(
        Effect.flatMap((outcome) => outcome === "alive" ? getting.rest : close),
        Effect.ensuring(still.open)
      )
      continue
    }
    if (agent === null) {
      yield* close
      const next = yield* held.until((next) => isLeaving(next) || isPending(next) || goesBack(next) || workOf(next.sandbox) === null)
      if (!isLeaving(next) && workOf(next.sandbox) === null) return "idle"
      continue
    }
    const why = yield* Effect.raceAllFirst([
      held.until((next) => isLeaving(next) || isPending(next) || goesBack(next)),
      Effect.as(agent.session.exited, "it is gone"),
      Effect.as(Effect.sleep(agentIdle), "nobody needs it"),
      Effect.as(place?.wanted ?? Effect.never, "another sandbox needs its place"),
      meter(held, agent)
    ])
    if (typeof why !== "string") continue
    yield* Effect.logDebug("the agent is stopped until the next turn", { why })
    yield* close
  }
})
