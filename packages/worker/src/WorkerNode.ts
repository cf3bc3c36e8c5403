/**
 * One worker process: leases sandboxes that have work and no worker, up to its capacity, runs a session for each, keeps the
 * leases, enforces time limits and reaps what is left over. Closing its scope ends it gently: nothing is begun any more, turns may
 * end for a while and are then interrupted with reason `worker_shutdown`, everything goes into checkpoints, and the leases are
 * given back so that any other worker goes on at once.
 */
import { Ids } from "@slipway/domain/ids/Ids"
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { observed } from "@slipway/domain/observability/Metrics"
import * as RootSpan from "@slipway/domain/observability/RootSpan"
import { Leases, type Leased, LEASE_RENEWAL_SECONDS, LEASE_SECONDS, ThisMachine, type Worker } from "@slipway/domain/sandbox/ports/Leases"
import { WorkerReadiness } from "@slipway/domain/sandbox/ports/WorkerReadiness"
import { Workers } from "@slipway/domain/sandbox/ports/Workers"
import { workOf } from "@slipway/domain/sandbox/rules/LeaseRules"
import { declare } from "@slipway/domain/sandbox/usecases/SandboxMetrics"
import { Hints, WORK } from "@slipway/domain/store/Hints"
import { Cause, Clock, Duration, Effect, Exit, Fiber, Latch, Layer, Metric, Option, Schedule, Scope, Semaphore } from "effect"
import * as BootBreaker from "./boot/BootBreaker.ts"
import { enforceLimits } from "./jobs/EnforceLimits.ts"
import { purgeEvents } from "./jobs/PurgeEvents.ts"
import { purgeFiles } from "./jobs/PurgeFiles.ts"
import { reapOrphans } from "./jobs/ReapOrphans.ts"
import { releaseReservations } from "./jobs/ReleaseReservations.ts"
import * as SandboxSession from "./SandboxSession.ts"
import { elapsedMillis } from "./shared/Elapsed.ts"
import * as LeasedSandbox from "./shared/LeasedSandbox.ts"
import { MachineLock } from "./shared/MachineLock.ts"
import { Timing } from "./shared/Timing.ts"
import * as Traced from "./shared/Traced.ts"
import * as WorkerCapacity from "./shared/WorkerCapacity.ts"

/** The capacity of one worker. */
export interface Options extends Worker {
  /** Agents at work or booting at once. */
  readonly slots: number
  /** Agent processes alive at once, with those that are warm or wait for a person; not below `slots`. Default: four times as many. */
  readonly agents?: number
  /** Boots at once. Default: as many as `slots`. */
  readonly boots?: number
}

/** Sandboxes at a time for work without an agent, beside the capacity: each takes a process or two and some statements. */
const ERRANDS = 16

interface Session {
  readonly leased: LeasedSandbox.LeasedSandbox
  /** Taken for work without an agent: to release, to publish, to take a checkpoint. */
  readonly isErrand: boolean
  /** The scope of its agents. */
  readonly scope: Scope.Closeable
  /** Ends when the session has ended completely. */
  ended: Fiber.Fiber<unknown>
  /** When the lease ends unless it is renewed, by `elapsedMillis`. */
  validUntil: number
  abandoned: boolean
}

const LEASE_MILLIS = LEASE_SECONDS * 1000
const renewal = Duration.seconds(LEASE_RENEWAL_SECONDS)
/** How long it may take to kill an agent. It must end before the lease does: the next worker starts its own agent at once. */
const KILL_MILLIS = 2000

const sandboxesGauge = Metric.gauge("slipway_worker_sandboxes", { description: "Sandboxes that this worker holds." })

/** A worker that runs. */
interface Node {
  readonly worker: string
  readonly machine: string
  readonly leases: Leases["Service"]
  readonly workers: Workers["Service"]
  readonly trouble: typeof WorkerReadiness["Service"]
  readonly tick: Duration.Duration
  /** How long turns may go on when the worker shuts down. */
  readonly drain: Duration.Duration
  /** How long sessions have to end after that. */
  readonly shutdown: Duration.Duration
  readonly scope: Scope.Scope
  /** Closed after the sessions were asked to end. */
  readonly sessionsScope: Scope.Closeable
  readonly sessions: Set<Session>
  readonly capacity: WorkerCapacity.WorkerCapacity
  readonly breaker: BootBreaker.BootBreaker
  /** The sandboxes that the reaper works on, until it is done with them. */
  readonly reaping: Map<SandboxId, Latch.Latch>
  /** The sandboxes with a session that began since the reaper last looked. */
  readonly begun: Set<SandboxId>
  /** Held while leases are taken. */
  readonly leasing: Semaphore.Semaphore
  isDraining: boolean
}

const lockOf = ({ begun, machine, reaping, sessions }: Node) =>
  MachineLock.of({
    name: machine,
    forUnused: Effect.fnUntraced(function*(find, job) {
      begun.clear()
      for (const id of yield* find) {
        if (begun.has(id) || Array.from(sessions).some(({ leased }) => leased.id === id)) continue
        const done = Latch.makeUnsafe(false)
        reaping.set(id, done)
        yield* Effect.ensuring(
          job(id),
          Effect.suspend(() => {
            reaping.delete(id)
            return done.open
          })
        )
      }
    })
  })

const begin = Effect.fnUntraced(function*(node: Node, taken: Leased, validUntil: number, claim: Traced.Claim) {
  const { begun, breaker, capacity, leases, reaping, sessions, sessionsScope } = node
  const leased = yield* LeasedSandbox.make(taken)
  begun.add(leased.id)
  const before = Array.from(sessions).filter((session) => session.leased.id === leased.id)
  const own = yield* Scope.fork(sessionsScope)
  const work = workOf(taken.sandbox)
  // Reserved at once, so that the next round counts it.
  const reservation = work === "boot" ?
    yield* Scope.provide(capacity.reserve("boot"), own)
    : work === "turn" ?
    yield* Scope.provide(capacity.reserve("agent"), own)
    : null
  const running = Effect.gen(function*() {
    // An earlier session of this worker lost the sandbox: its agent must be gone first.
    yield* Effect.forEach(before, ({ ended }) => Fiber.await(ended))
    yield* reaping.get(leased.id)?.await ?? Effect.void
    const end = yield* SandboxSession.run(leased, { capacity, breaker, reservation, moved: taken.moved }).pipe(
      Scope.provide(own),
      Effect.onExit((exit) => Scope.close(own, exit))
    )
    if (end !== "rested") yield* leases.release(leased.lease, { mayMove: end === "elsewhere" })
  }).pipe(
    Effect.catchTags({
      StaleLease: () => Effect.logWarning("the lease is another worker's"),
      StoreUnavailable: () => Effect.logWarning("the lease could not be given back and runs out by itself")
    }),
    Effect.tapCause((cause) => Cause.hasInterruptsOnly(cause) ? Effect.void : Effect.logError("the session broke", cause)),
    Effect.ignoreCause,
    Effect.ensuring(Effect.sync(() => {
      if (!session.abandoned) sessions.delete(session)
    })),
    Effect.annotateLogs({ sandboxId: leased.id }),
    Traced.session(leased, claim)
  )
  const session: Session = {
    leased,
    isErrand: work === "errand",
    scope: own,
    ended: yield* Effect.forkIn(running, sessionsScope),
    validUntil,
    abandoned: false
  }
  sessions.add(session)
})

/** Kills all processes of a sandbox that another worker may have by now. Writes nothing more. */
const abandon = Effect.fnUntraced(function*({ sessions, sessionsScope }: Node, session: Session) {
  const { ended, leased, scope } = session
  session.abandoned = true
  session.ended = yield* Effect.logWarning("abandoning a sandbox whose lease is lost").pipe(
    // Both at once: a write that hangs must not keep the agent alive.
    Effect.andThen(Effect.all([Scope.close(scope, Exit.void), Fiber.interrupt(ended)], { concurrency: 2 })),
    Effect.ensuring(Effect.sync(() => sessions.delete(session))),
    Effect.annotateLogs({ sandboxId: leased.id }),
    Effect.forkIn(sessionsScope)
  )
})

const renew = ({ leases, sessions, tick }: Node) =>
  Effect.gen(function*() {
    const asked = yield* elapsedMillis
    const open = Array.from(sessions).filter(({ abandoned }) => !abandoned)
    const kept = yield* leases.renew(open.map(({ leased }) => leased.lease))
    for (const session of open) {
      const { fence, sandboxId } = session.leased.lease
      const isKept = kept.some((lease) => lease.sandboxId === sandboxId && lease.fence === fence)
      session.validUntil = isKept ? asked + LEASE_MILLIS : 0
    }
  }).pipe(
    Effect.timeout(renewal),
    Effect.tapError((error) => Effect.logWarning("could not renew the leases", error)),
    Effect.retry(Schedule.spaced(tick))
  )

const watchLeases = Effect.fnUntraced(function*(node: Node) {
  // A lease that is valid now may end before the next round. A lease that is renewed in time is never so short.
  const late = (yield* elapsedMillis) + Math.min(Duration.toMillis(node.tick) + KILL_MILLIS, Duration.toMillis(renewal))
  for (const session of node.sessions) if (session.validUntil <= late && !session.abandoned) yield* abandon(node, session)
})

/** Reports the worker for people who look at it. */
const report = (node: Node) =>
  Effect.flatMap(node.capacity.shares, (shares) => {
    const { isDraining, machine, worker, workers } = node
    return workers.report({ worker, machine, isDraining, ...shares })
  })

const take = (node: Node) =>
  Effect.gen(function*() {
    const { breaker, capacity, leases, machine, scope, sessions, worker } = node
    const free = yield* capacity.free
    const allowed = Math.max(0, (yield* breaker.allowed) - free.booting)
    const errands = Math.max(0, ERRANDS - Array.from(sessions).filter(({ isErrand }) => isErrand).length)
    const asked = yield* elapsedMillis
    const askedAt = yield* Clock.currentTimeMillis
    const taken = yield* leases.take({ worker, machine }, { slots: free.slots, boots: Math.min(free.boots, allowed), errands })
    const given = yield* Clock.currentTimeMillis
    for (const one of taken) yield* begin(node, one, asked + LEASE_MILLIS, { asked: askedAt, given })
    if (taken.length > 0) yield* Effect.forkIn(round("report")(report(node)), scope)
  }).pipe(node.leasing.withPermits(1), round("take"))

/** Ends all sessions and gives their leases back. */
const letGo = Effect.fnUntraced(function*(node: Node) {
  const { leases, leasing, machine, sessions, sessionsScope, trouble } = node
  // Waits for a round that takes leases now, because they must be given back too, and allows no other.
  yield* leasing.take(1)
  node.isDraining = true
  yield* trouble.report(Effect.succeed("The worker is shutting down."))
  const givingUp = yield* leases.drain(machine, true).pipe(
    Effect.catchTag("StoreUnavailable", () => Effect.logWarning("sandboxes at rest wait for this machine until they are held for lost")),
    // The worker's own scope is closed by now and would start nothing.
    Effect.forkIn(sessionsScope)
  )
  const ended = Effect.andThen(
    Effect.forEach(sessions, ({ ended }) => Fiber.await(ended), { concurrency: "unbounded", discard: true }),
    Fiber.await(givingUp)
  )
  yield* Effect.forEach(sessions, ({ leased }) => leased.drain)
  const isEnded = yield* Effect.timeoutOption(ended, node.drain)
  if (Option.isSome(isEnded)) return
  yield* Effect.forEach(sessions, ({ leased }) => leased.detach)
  yield* Effect.timeoutOption(ended, node.shutdown)
})

/** Runs the worker until the scope closes. */
export const start = Effect.fn("WorkerNode.start")(function*({ machine, slots, worker, agents = 4 * slots, boots = slots }: Options) {
  const leases = yield* Leases
  const hints = yield* Hints
  const workers = yield* Workers
  const trouble = yield* WorkerReadiness
  const { drain, purge, reap, shutdown, tick } = yield* Timing
  const scope = yield* Scope.Scope
  const sessionsScope = yield* Scope.fork(scope, "parallel")
  const sessions = new Set<Session>()
  const capacity = yield* WorkerCapacity.make({ slots, agents, boots })
  const breaker = yield* BootBreaker.make
  yield* declare
  yield* observed(sandboxesGauge, () => ({ value: sessions.size }))
  const leasing = yield* Semaphore.make(1)
  const node: Node = {
    worker,
    machine,
    leases,
    workers,
    trouble,
    tick,
    drain,
    shutdown,
    scope,
    sessionsScope,
    sessions,
    capacity,
    breaker,
    reaping: new Map(),
    begun: new Set(),
    leasing,
    isDraining: false
  }
  const here = lockOf(node)

  const every = (interval: Duration.Duration, job: string) => <A, E, R>(self: Effect.Effect<A, E, R>) =>
    self.pipe(round(job), Effect.repeat(Schedule.spaced(interval)), Effect.forkScoped)

  const hinted = yield* hints.watch(WORK)
  yield* LeasedSandbox.untilAvailable(leases.drain(machine, false)).pipe(
    Effect.andThen(Effect.forever(Effect.andThen(take(node), Effect.timeoutOption(hinted, tick)))),
    Effect.provideService(MachineLock, here),
    Effect.forkScoped
  )
  yield* every(renewal, "renew")(renew(node))
  yield* every(tick, "watchLeases")(watchLeases(node))
  yield* every(tick, "enforceLimits")(enforceLimits())
  yield* every(reap, "reapOrphans")(Effect.provideService(reapOrphans(), MachineLock, here))
  yield* every(reap, "releaseReservations")(releaseReservations(machine))
  yield* every(purge, "purgeEvents")(purgeEvents())
  yield* every(reap, "purgeFiles")(purgeFiles())
  // After the last report.
  yield* Effect.addFinalizer(() => Effect.timeoutOption(round("leave")(workers.leave(worker)), shutdown))
  yield* every(renewal, "report")(report(node))
  // Runs before the fibers above end: leases are renewed until they are given back.
  yield* Effect.addFinalizer(() => letGo(node))
})

/** Logs a failure of one round, under a span of its own. The next round is the retry. */
const round = (job: string) => <A, E, R>(self: Effect.Effect<A, E, R>) =>
  self.pipe(
    Effect.tapCause((cause) =>
      Cause.hasInterruptsOnly(cause) ? Effect.void : Effect.logWarning("a round of the worker failed", { job }, cause)
    ),
    Effect.ignoreCause,
    RootSpan.within(`WorkerNode.${job}`)
  )

export const layer = (options: Options) => Layer.effectDiscard(start(options))

/** The worker of this process's machine, which `LocalMachine` or `MemoryMachine` knows. It is the only one on that machine. */
export const layerHere = (capacity: Omit<Options, keyof Worker>) =>
  Layer.effectDiscard(Effect.gen(function*() {
    const { id, isAlone } = yield* ThisMachine
    const ids = yield* Ids
    if (isAlone) yield* Leases.use((leases) => leases.endLeases(id))
    yield* start({ ...capacity, worker: yield* ids.uuid7, machine: id })
  }))
