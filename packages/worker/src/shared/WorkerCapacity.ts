/**
 * The capacity of one worker (docs/decisions/15): agents at work, agents alive, boots at once. When it is full, sandboxes wait
 * in order. A warm agent ends as soon as another sandbox needs its reservation.
 */
import { observed } from "@slipway/domain/observability/Metrics"
import type { WorkerReport } from "@slipway/domain/sandbox/ports/Workers"
import { Deferred, Duration, Effect, Metric, type Scope } from "effect"

/** Each at least 0; `agents` not below `slots`. */
interface Bounds {
  /** Agents at work or booting at once. */
  readonly slots: number
  /** Agent processes alive at once, including those that are warm or wait for a person. */
  readonly agents: number
  /** Boots at once. */
  readonly boots: number
}

/**
 * `queued`: it waits for a slot. `warm`: it waits for a turn. `waiting`: it waits for a person. `leaving`: another sandbox gets its
 * reservation as soon as it is closed.
 */
type State = "queued" | "booting" | "working" | "warm" | "waiting" | "leaving" | "closed"

/** The part of the capacity that one agent takes, from before it starts until its processes are gone. */
export interface SlotReservation {
  /** Waits for capacity. Once it has some, returns at once while the agent works. */
  readonly ready: Effect.Effect<void>
  /** The boot is over. The agent still works. */
  readonly booted: Effect.Effect<void>
  /** The agent waits for a turn. Its slot is free. */
  readonly rest: Effect.Effect<void>
  /** A warm agent has a turn: waits for a slot. `false`: the agent must end instead, because another sandbox waits. */
  readonly work: Effect.Effect<boolean>
  /** The agent waits for a person. Its slot is free. */
  readonly pause: Effect.Effect<void>
  /** The person has answered. The agent resumes at once, even without a free slot. */
  readonly resume: Effect.Effect<void>
  /** Completes when the agent must end for another sandbox. Only a warm agent is asked. */
  readonly wanted: Effect.Effect<void>
  /** The agent has ended or will not start. Closing the scope does the same. */
  readonly close: Effect.Effect<void>
}

export interface WorkerCapacity {
  /** The total and the used amount of each resource. */
  readonly shares: Effect.Effect<Pick<WorkerReport, "slots" | "agents" | "boots">>
  /** The slots and boots that could start now without waiting, at least 0, and the boots under way or waiting. */
  readonly free: Effect.Effect<{ readonly slots: number; readonly boots: number; readonly booting: number }>
  /** Joins the queue at once. `boot`: the sandbox boots first. `agent`: it booted before. */
  reserve(kind: "boot" | "agent"): Effect.Effect<SlotReservation, never, Scope.Scope>
}

/**
 * How long a boot waits behind the first of many boots: about twice the time of a boot that has the processors to itself. A boot
 * that waits for a slow network delays others no longer than this.
 */
const STANDS_BACK = Duration.seconds(1)

interface Entry {
  readonly kind: "boot" | "agent"
  state: State
  /** Whether it counts as one of the `agents`. */
  isAlive: boolean
  /** Whether it waits a moment so that earlier boots have the processors. */
  standsBack: boolean
  ready: Deferred.Deferred<void>
  readonly wanted: Deferred.Deferred<void>
}

const takesSlot = ({ state }: Entry) => state === "booting" || state === "working"

const gauges = {
  slots: Metric.gauge("slipway_worker_slots", { description: "Agents of this worker that may be at work or booting at once." }),
  atWork: Metric.gauge("slipway_worker_agents_at_work", { description: "Agents of this worker that are at work." }),
  warm: Metric.gauge("slipway_worker_agents_warm", { description: "Agents of this worker that wait for a turn." }),
  waiting: Metric.gauge("slipway_worker_agents_waiting", { description: "Agents of this worker that wait for a person." }),
  boots: Metric.gauge("slipway_worker_boots", { description: "Boots of this worker that are under way." }),
  queued: Metric.gauge("slipway_worker_queued", { description: "Sandboxes of this worker that wait for room on it." })
}

/** The agents of one worker that take a part of its capacity or wait for it. */
interface Admissions {
  readonly bounds: Bounds
  /** In the order in which they began to wait, for capacity or for a turn. */
  entries: ReadonlyArray<Entry>
  /** Boots that may be under way before others must wait: one at first, one more after each boot that ends. */
  inFront: number
}

const count = ({ entries }: Admissions, is: (entry: Entry) => boolean) => entries.filter(is).length
const slotsTaken = (state: Admissions) => count(state, takesSlot)
const boots = (state: Admissions) => count(state, (entry) => entry.state === "booting")
const waiting = (state: Admissions) => count(state, (entry) => entry.state === "queued" && entry.kind === "boot" && !entry.isAlive)
const alive = (state: Admissions) => count(state, ({ isAlive }) => isAlive)

/** Admits every waiter that fits. A waiter queues only behind others waiting for the same resource. */
const admit = (state: Admissions) => {
  const { bounds } = state
  const short = { slots: false, agents: false, boots: false }
  let asked = count(state, (entry) => entry.state === "leaving")
  for (const entry of state.entries) {
    if (entry.state !== "queued") continue
    const isBoot = entry.kind === "boot" && !entry.isAlive
    const lacks = {
      slots: short.slots || slotsTaken(state) >= bounds.slots,
      agents: !entry.isAlive && (short.agents || alive(state) >= bounds.agents),
      boots: isBoot && (short.boots || boots(state) >= (entry.standsBack ? state.inFront : bounds.boots))
    }
    if (!lacks.slots && !lacks.agents && !lacks.boots) {
      entry.state = isBoot ? "booting" : "working"
      entry.isAlive = true
      Deferred.doneUnsafe(entry.ready, Effect.void)
      continue
    }
    short.slots ||= lacks.slots
    short.agents ||= lacks.agents
    short.boots ||= lacks.boots
    if (!lacks.agents || lacks.slots || lacks.boots) continue
    // An agent that was asked earlier leaves for this entry.
    if (asked > 0) {
      asked--
      continue
    }
    const idlest = state.entries.find((other) => other.state === "warm")
    if (idlest === undefined) continue
    idlest.state = "leaving"
    Deferred.doneUnsafe(idlest.wanted, Effect.void)
  }
}

/** To be called before the state of the entry changes. */
const leave = (state: Admissions, entry: Entry) => {
  if (entry.state !== "booting") return
  state.inFront = boots(state) === 1 && waiting(state) === 0 ? 1 : Math.min(state.bounds.boots, state.inFront + 1)
}

const move = (state: Admissions, entry: Entry, to: State) =>
  Effect.sync(() => {
    if (entry.state === "leaving" || entry.state === "closed") return
    leave(state, entry)
    entry.state = to
    if (to === "warm" || to === "queued") state.entries = [...state.entries.filter((other) => other !== entry), entry]
    admit(state)
  })

const close = (state: Admissions, entry: Entry) =>
  Effect.sync(() => {
    leave(state, entry)
    entry.state = "closed"
    entry.isAlive = false
    state.entries = state.entries.filter((other) => other !== entry)
    admit(state)
  })

const comeForward = (state: Admissions, entry: Entry) =>
  Effect.sync(() => {
    entry.standsBack = false
    admit(state)
  })

const join = (state: Admissions, kind: Entry["kind"]) =>
  Effect.sync(() => {
    const entry: Entry = {
      kind,
      state: "queued",
      isAlive: false,
      standsBack: true,
      ready: Deferred.makeUnsafe(),
      wanted: Deferred.makeUnsafe()
    }
    state.entries = [...state.entries, entry]
    admit(state)
    return entry
  })

const reservationOf = (state: Admissions, entry: Entry): SlotReservation => ({
  ready: Effect.suspend(() => Deferred.await(entry.ready)),
  booted: Effect.suspend(() => entry.state === "booting" ? move(state, entry, "working") : Effect.void),
  rest: move(state, entry, "warm"),
  work: Effect.suspend(() => {
    if (entry.state === "leaving") return Effect.succeed(false)
    if (entry.state !== "warm") return Effect.succeed(true)
    entry.ready = Deferred.makeUnsafe()
    return move(state, entry, "queued").pipe(
      Effect.andThen(Deferred.await(entry.ready)),
      Effect.onInterrupt(() => move(state, entry, "warm")),
      Effect.as(true)
    )
  }),
  pause: move(state, entry, "waiting"),
  resume: move(state, entry, "working"),
  wanted: Deferred.await(entry.wanted),
  close: close(state, entry)
})

const free = (state: Admissions) => {
  const { bounds } = state
  const queued = count(state, (entry) => entry.state === "queued")
  // Warm agents give way, so only the others count against `agents`.
  const unyielding = count(state, (entry) => entry.isAlive && entry.state !== "warm")
  const booting = boots(state) + waiting(state)
  return {
    booting,
    slots: Math.max(0, Math.min(bounds.slots - slotsTaken(state), bounds.agents - unyielding) - queued),
    boots: Math.max(0, bounds.boots - booting)
  }
}

const observe = Effect.fnUntraced(function*(state: Admissions) {
  yield* observed(gauges.slots, () => ({ value: state.bounds.slots }))
  yield* observed(gauges.atWork, () => ({ value: count(state, (entry) => entry.state === "working") }))
  yield* observed(gauges.warm, () => ({ value: count(state, (entry) => entry.state === "warm") }))
  yield* observed(gauges.waiting, () => ({ value: count(state, (entry) => entry.state === "waiting") }))
  yield* observed(gauges.boots, () => ({ value: boots(state) }))
  yield* observed(gauges.queued, () => ({ value: count(state, (entry) => entry.state === "queued") }))
})

export const make = Effect.fnUntraced(function*(bounds: Bounds) {
  const state: Admissions = { bounds, entries: [], inFront: 1 }
  yield* observe(state)
  const capacity: WorkerCapacity = {
    shares: Effect.sync(() => ({
      slots: { all: bounds.slots, taken: slotsTaken(state) },
      agents: { all: bounds.agents, taken: alive(state) },
      boots: { all: bounds.boots, taken: boots(state) }
    })),
    free: Effect.sync(() => free(state)),
    reserve: (kind) =>
      Effect.map(
        Effect.acquireRelease(join(state, kind), (entry) => close(state, entry)).pipe(
          Effect.tap((entry) =>
            entry.kind === "boot" && entry.state === "queued"
              ? Effect.forkScoped(Effect.delay(comeForward(state, entry), STANDS_BACK))
              : Effect.void
          )
        ),
        (entry) => reservationOf(state, entry)
      )
  }
  return capacity
})
