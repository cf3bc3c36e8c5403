/**
 * The capacity of one worker (docs/decisions/15): agents at work, agents alive, boots at once. When it is full, sandboxes wait
 * in order. A warm agent ends as soon as another sandbox needs its reservation.
 */
import { observed } from "@slipway/domain/observability/Metrics"
import type { Boots } from "@slipway/domain/sandbox/ports/BootsHere"
import type { WorkerReport } from "@slipway/domain/sandbox/ports/Workers"
import { Deferred, Duration, Effect, Metric, type Scope } from "effect"

/** Each at least 0; `agents` not below `slots`. */
export interface Bounds {
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
  /** The boots under way, so that other work can leave the processors to the first one. */
  readonly boots: () => Boots
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

export const make = Effect.fnUntraced(function*(bounds: Bounds) {
  /** In the order in which they began to wait, for capacity or for a turn. */
  let entries: ReadonlyArray<Entry> = []
  const count = (is: (entry: Entry) => boolean) => entries.filter(is).length
  const slotsTaken = () => count(takesSlot)
  const boots = () => count(({ state }) => state === "booting")
  const waiting = () => count(({ isAlive, kind, state }) => state === "queued" && kind === "boot" && !isAlive)
  const alive = () => count(({ isAlive }) => isAlive)
  /** Boots that may be under way before others must wait: one at first, one more after each boot that ends. */
  let inFront = 1

  /** Admits every waiter that fits. A waiter queues only behind others waiting for the same resource. */
  const admit = () => {
    const short = { slots: false, agents: false, boots: false }
    let asked = count(({ state }) => state === "leaving")
    for (const entry of entries) {
      if (entry.state !== "queued") continue
      const isBoot = entry.kind === "boot" && !entry.isAlive
      const lacks = {
        slots: short.slots || slotsTaken() >= bounds.slots,
        agents: !entry.isAlive && (short.agents || alive() >= bounds.agents),
        boots: isBoot && (short.boots || boots() >= (entry.standsBack ? inFront : bounds.boots))
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
      const idlest = entries.find(({ state }) => state === "warm")
      if (idlest === undefined) continue
      idlest.state = "leaving"
      Deferred.doneUnsafe(idlest.wanted, Effect.void)
    }
  }

  /** To be called before the state of the entry changes. */
  const leave = ({ state }: Entry) => {
    if (state === "booting") inFront = boots() === 1 && waiting() === 0 ? 1 : Math.min(bounds.boots, inFront + 1)
  }

  const move = (entry: Entry, to: State) =>
    Effect.sync(() => {
      if (entry.state === "leaving" || entry.state === "closed") return
      leave(entry)
      entry.state = to
      if (to === "warm" || to === "queued") entries = [...entries.filter((other) => other !== entry), entry]
      admit()
    })

  const close = (entry: Entry) =>
    Effect.sync(() => {
      leave(entry)
      entry.state = "closed"
      entry.isAlive = false
      entries = entries.filter((other) => other !== entry)
      admit()
    })

  const comeForward = (entry: Entry) =>
    Effect.sync(() => {
      entry.standsBack = false
      admit()
    })

  yield* observed(gauges.slots, () => ({ value: bounds.slots }))
  yield* observed(gauges.atWork, () => ({ value: count(({ state }) => state === "working") }))
  yield* observed(gauges.warm, () => ({ value: count(({ state }) => state === "warm") }))
  yield* observed(gauges.waiting, () => ({ value: count(({ state }) => state === "waiting") }))
  yield* observed(gauges.boots, () => ({ value: boots() }))
  yield* observed(gauges.queued, () => ({ value: count(({ state }) => state === "queued") }))

  const capacity: WorkerCapacity = {
    shares: Effect.sync(() => ({
      slots: { all: bounds.slots, taken: slotsTaken() },
      agents: { all: bounds.agents, taken: alive() },
      boots: { all: bounds.boots, taken: boots() }
    })),
    free: Effect.sync(() => {
      const queued = count(({ state }) => state === "queued")
      // Warm agents give way, so only the others count against `agents`.
      const unyielding = count(({ isAlive, state }) => isAlive && state !== "warm")
      const booting = boots() + waiting()
      return {
        booting,
        slots: Math.max(0, Math.min(bounds.slots - slotsTaken(), bounds.agents - unyielding) - queued),
        boots: Math.max(0, bounds.boots - booting)
      }
    }),
    boots: () => inFront > 1 || boots() > 1 ? "more" : boots() === 1 ? "first" : "none",
    reserve: (kind) =>
      Effect.map(
        Effect.acquireRelease(
          Effect.sync(() => {
            const entry: Entry = {
              kind,
              state: "queued",
              isAlive: false,
              standsBack: true,
              ready: Deferred.makeUnsafe(),
              wanted: Deferred.makeUnsafe()
            }
            entries = [...entries, entry]
            admit()
            return entry
          }),
          close
        ).pipe(Effect.tap((entry) =>
          entry.kind === "boot" && entry.state === "queued" ? Effect.forkScoped(Effect.delay(comeForward(entry), STANDS_BACK)) : Effect.void
        )),
        (entry): SlotReservation => ({
          ready: Effect.suspend(() =>
            Deferred.await(entry.ready)
          ),
          booted: Effect.suspend(() => entry.state === "booting" ? move(entry, "working") : Effect.void),
          rest: move(entry, "warm"),
          work: Effect.suspend(() => {
            if (entry.state === "leaving") return Effect.succeed(false)
            if (entry.state !== "warm") return Effect.succeed(true)
            entry.ready = Deferred.makeUnsafe()
            return move(entry, "queued").pipe(
              Effect.andThen(Deferred.await(entry.ready)),
              Effect.onInterrupt(() => move(entry, "warm")),
              Effect.as(true)
            )
          }),
          pause: move(entry, "waiting"),
          resume: move(entry, "working"),
          wanted: Deferred.await(entry.wanted),
          close: close(entry)
        })
      )
  }
  return capacity
})
