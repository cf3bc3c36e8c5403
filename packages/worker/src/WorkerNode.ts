/**
 * One worker process: leases sandboxes that have work and no worker, up to its capacity, runs a session for each, keeps the
 * leases, enforces time limits and reaps what is left over. Closing its scope ends it gently: nothing is begun any more, turns may
 * end for a while and are then interrupted with reason `worker_shutdown`, everything goes into checkpoints, and the leases are
 * given back so that any other worker goes on at once.
 */
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { observed } from "@slipway/domain/observability/Metrics"
import * as RootSpan from "@slipway/domain/observability/RootSpan"
import { BootsHere } from "@slipway/domain/sandbox/ports/BootsHere"
import { Leases, type Leased, LEASE_RENEWAL_SECONDS, LEASE_SECONDS, type Worker } from "@slipway/domain/sandbox/ports/Leases"
import { WorkerReadiness } from "@slipway/domain/sandbox/ports/WorkerReadiness"
import { Workers } from "@slipway/domain/sandbox/ports/Workers"
import { workOf } from "@slipway/domain/sandbox/rules/LeaseRules"
import { declare } from "@slipway/domain/sandbox/usecases/SandboxMetrics"
import { Hints, WORK } from "@slipway/domain/store/Hints"
import { Cause, Clock, Duration, Effect, Exit, Fiber, Latch, Layer, Metric, Option, Schedule, Scope, Semaphore } from "effect"
import * as BootBreaker from "./boot/BootBreaker.ts"
import { enforceLimits } from "./jobs/EnforceLimits.ts"
import { purgeEvents } from "./jobs/PurgeEvents.ts"
import { reapOrphans } from "./jobs/ReapOrphans.ts"
import { releaseReservations } from "./jobs/ReleaseReservations.ts"
import * as SandboxSession from "./SandboxSession.ts"
import { elapsedMillis } from "./shared/Elapsed.ts"
import * as LeasedSandbox from "./shared/LeasedSandbox.ts"
import { MachineLock } from "./shared/MachineLock.ts"
import { Timing } from "./shared/Timing.ts"
import * as Traced from "./shared/Traced.ts"
import * as WorkerCapacity from "./shared/WorkerCapacity.ts"

/** What one worker may take on. */
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
  readonly held: LeasedSandbox.LeasedSandbox
  /** It was taken for what needs no agent: to release, to publish, to take a checkpoint. */
  readonly isErrand: boolean
  /** Agents live in it. */
  readonly scope: Scope.Closeable
  /** Ends when nothing of the session runs any more. */
  ended: Fiber.Fiber<unknown>
  /** When the lease ends unless it is renewed, by `elapsedMillis`. */
  validUntil: number
  abandoned: boolean
}

const LEASE_MILLIS = LEASE_SECONDS * 1000
const renewal = Duration.seconds(LEASE_RENEWAL_SECONDS)
/** What it may take to kill an agent. It must be gone when the lease ends: the next worker starts its own at once. */
const KILL_MILLIS = 2000

const heldGauge = Metric.gauge("slipway_worker_sandboxes", { description: "Sandboxes that this worker holds." })

/** Runs the worker until the scope closes. */
export const start = Effect.fn("WorkerNode.start")(function*({ machine, slots, worker, agents = 4 * slots, boots = slots }: Options) {
  const leases = yield* Leases
  const hints = yield* Hints
  const workers = yield* Workers
  const trouble = yield* WorkerReadiness
  const { drain, purge, reap, shutdown, tick } = yield* Timing
  const scope = yield* Scope.Scope
  // Closed after the sessions were asked to end.
  const sessionsScope = yield* Scope.fork(scope, "parallel")
  const sessions = new Set<Session>()
  const capacity = yield* WorkerCapacity.make({ slots, agents, boots })
  ;(yield* BootsHere).report(capacity.boots)
  const breaker = yield* BootBreaker.make
  yield* declare
  yield* observed(heldGauge, () => ({ value: sessions.size }))

  /** What the reaper is at, until it is through with it. */
  const reaping = new Map<SandboxId, Latch.Latch>()
  /** Those of which a session began since the reaper last looked. */
  const begun = new Set<SandboxId>()
  const here = MachineLock.of({
    name: machine,
    forUnused: Effect.fnUntraced(function*(find, job) {
      begun.clear()
      for (const id of yield* find) {
        if (begun.has(id) || Array.from(sessions).some(({ held }) => held.id === id)) continue
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

  const begin = Effect.fnUntraced(function*(leased: Leased, validUntil: number, claim: Traced.Claim) {
    const held = yield* LeasedSandbox.make(leased)
    begun.add(held.id)
    const before = Array.from(sessions).filter((session) => session.held.id === held.id)
    const own = yield* Scope.fork(sessionsScope)
    const work = workOf(leased.sandbox)
    // At once, so that the next look counts it.
    const reservation = work === "boot" ?
      yield* Scope.provide(capacity.reserve("boot"), own)
      : work === "turn" ?
      yield* Scope.provide(capacity.reserve("agent"), own)
      : null
    const running = Effect.gen(function*() {
      // An earlier session of ours lost this sandbox: first its agent must be gone.
      yield* Effect.forEach(before, ({ ended }) => Fiber.await(ended))
      yield* reaping.get(held.id)?.await ?? Effect.void
      const end = yield* SandboxSession.run(held, { capacity, breaker, reservation, moved: leased.moved }).pipe(
        Scope.provide(own),
        Effect.onExit((exit) => Scope.close(own, exit))
      )
      if (end !== "rested") yield* leases.release(held.lease, { mayMove: end === "elsewhere" })
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
      Effect.annotateLogs({ sandboxId: held.id }),
      Traced.session(held, claim)
    )
    const session: Session = {
      held,
      isErrand: work === "errand",
      scope: own,
      ended: yield* Effect.forkIn(running, sessionsScope),
      validUntil,
      abandoned: false
    }
    sessions.add(session)
  })

  /** Kills what runs for a sandbox that may be another worker's by now. Nothing more is written. */
  const abandon = Effect.fnUntraced(function*(session: Session) {
    const { ended, held, scope } = session
    session.abandoned = true
    session.ended = yield* Effect.logWarning("abandoning a sandbox whose lease is lost").pipe(
      // Both at once: a write that hangs must not keep the agent alive.
      Effect.andThen(Effect.all([Scope.close(scope, Exit.void), Fiber.interrupt(ended)], { concurrency: 2 })),
      Effect.ensuring(Effect.sync(() => sessions.delete(session))),
      Effect.annotateLogs({ sandboxId: held.id }),
      Effect.forkIn(sessionsScope)
    )
  })

  const renew = Effect.gen(function*() {
    const asked = yield* elapsedMillis
    const open = Array.from(sessions).filter(({ abandoned }) => !abandoned)
    const kept = yield* leases.renew(open.map(({ held }) => held.lease))
    for (const session of open) {
      const { fence, sandboxId } = session.held.lease
      const isKept = kept.some((lease) => lease.sandboxId === sandboxId && lease.fence === fence)
      session.validUntil = isKept ? asked + LEASE_MILLIS : 0
    }
  }).pipe(
    Effect.timeout(renewal),
    Effect.tapError((error) => Effect.logWarning("could not renew the leases", error)),
    Effect.retry(Schedule.spaced(tick))
  )

  const watchLeases = Effect.gen(function*() {
    // One that is still good now may not be at the next look. A lease that is renewed in time is never so short.
    const late = (yield* elapsedMillis) + Math.min(Duration.toMillis(tick) + KILL_MILLIS, Duration.toMillis(renewal))
    for (const session of sessions) if (session.validUntil <= late && !session.abandoned) yield* abandon(session)
  })

  let isDraining = false
  /** For people who look. */
  const report = Effect.flatMap(capacity.shares, (shares) => workers.report({ worker, machine, isDraining, ...shares }))

  const leasing = yield* Semaphore.make(1)
  const take = Effect.gen(function*() {
    const free = yield* capacity.free
    const allowed = Math.max(0, (yield* breaker.allowed) - free.booting)
    const errands = Math.max(0, ERRANDS - Array.from(sessions).filter(({ isErrand }) => isErrand).length)
    const asked = yield* elapsedMillis
    const askedAt = yield* Clock.currentTimeMillis
    const leased = yield* leases.take({ worker, machine }, { slots: free.slots, boots: Math.min(free.boots, allowed), errands })
    const given = yield* Clock.currentTimeMillis
    for (const one of leased) yield* begin(one, asked + LEASE_MILLIS, { asked: askedAt, given })
    if (leased.length > 0) yield* Effect.forkIn(round("report")(report), scope)
  }).pipe(leasing.withPermits(1), round("take"))

  const letGo = Effect.gen(function*() {
    // Waits for a taking that is under way, whose leases must be given back too, and allows no other.
    yield* leasing.take(1)
    isDraining = true
    yield* trouble.report(Effect.succeed("The worker is shutting down."))
    const givingUp = yield* leases.drain(machine, true).pipe(
      Effect.catchTag("StoreUnavailable", () => Effect.logWarning("sandboxes at rest wait for this machine until they are held for lost")),
      // The worker's own is closed by now: it would begin nothing.
      Effect.forkIn(sessionsScope)
    )
    const ended = Effect.andThen(
      Effect.forEach(sessions, ({ ended }) => Fiber.await(ended), { concurrency: "unbounded", discard: true }),
      Fiber.await(givingUp)
    )
    yield* Effect.forEach(sessions, ({ held }) => held.drain)
    const isEnded = yield* Effect.timeoutOption(ended, drain)
    if (Option.isSome(isEnded)) return
    yield* Effect.forEach(sessions, ({ held }) => held.detach)
    yield* Effect.timeoutOption(ended, shutdown)
  })

  const every = (interval: Duration.Duration, job: string) => <A, E, R>(self: Effect.Effect<A, E, R>) =>
    self.pipe(round(job), Effect.repeat(Schedule.spaced(interval)), Effect.forkScoped)

  const hinted = yield* hints.watch(WORK)
  yield* LeasedSandbox.untilAvailable(leases.drain(machine, false)).pipe(
    Effect.andThen(Effect.forever(Effect.andThen(take, Effect.timeoutOption(hinted, tick)))),
    Effect.provideService(MachineLock, here),
    Effect.forkScoped
  )
  yield* every(renewal, "renew")(renew)
  yield* every(tick, "watchLeases")(watchLeases)
  yield* every(tick, "enforceLimits")(enforceLimits())
  yield* every(reap, "reapOrphans")(Effect.provideService(reapOrphans(), MachineLock, here))
  yield* every(reap, "releaseReservations")(releaseReservations(machine))
  yield* every(purge, "purgeEvents")(purgeEvents())
  // After the last report.
  yield* Effect.addFinalizer(() => Effect.timeoutOption(round("leave")(workers.leave(worker)), shutdown))
  yield* every(renewal, "report")(report)
  // Runs before the fibers above end: leases are renewed until they are given back.
  yield* Effect.addFinalizer(() => letGo)
})

/** Trouble of one round is logged, under a span of its own; the next round is the retry. */
const round = (job: string) => <A, E, R>(self: Effect.Effect<A, E, R>) =>
  self.pipe(
    Effect.tapCause((cause) =>
      Cause.hasInterruptsOnly(cause) ? Effect.void : Effect.logWarning("a round of the worker failed", { job }, cause)
    ),
    Effect.ignoreCause,
    RootSpan.within(`WorkerNode.${job}`)
  )

export const layer = (options: Options) => Layer.effectDiscard(start(options))
