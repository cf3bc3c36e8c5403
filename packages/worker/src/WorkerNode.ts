/**
 * One worker process: leases sandboxes that have no worker, runs a session for each, keeps the leases, enforces time
 * limits and reaps what is left over. Closing its scope ends it gently: no new sandboxes, turns ended as interrupted
 * with reason `worker_shutdown`, agents stopped, leases given back so that another worker goes on at once.
 */
import { Hints, WORK } from "@slipway/domain/Hints"
import { observed } from "@slipway/domain/Metrics"
import * as RootSpan from "@slipway/domain/RootSpan"
import { declare } from "@slipway/domain/sandbox/Counting"
import { Leases, type Leased, LEASE_RENEWAL_SECONDS, LEASE_SECONDS, type Worker } from "@slipway/domain/sandbox/Leases"
import { Cause, Duration, Effect, Exit, Fiber, Layer, Metric, Schedule, Scope, Semaphore } from "effect"
import { elapsedMillis } from "./Elapsed.ts"
import { enforceLimits } from "./EnforceLimits.ts"
import * as HeldSandbox from "./HeldSandbox.ts"
import { purgeEvents } from "./PurgeEvents.ts"
import { reapOrphans } from "./ReapOrphans.ts"
import * as SandboxSession from "./SandboxSession.ts"
import { Timing } from "./Timing.ts"

export interface Options extends Worker {
  /** Sandboxes this worker holds at most at a time. */
  readonly slots: number
}

/** Ending sandboxes that a worker releases at a time, whatever its slots: each takes a process or two and some statements. */
const ENDING = 16

interface Session {
  readonly held: HeldSandbox.HeldSandbox
  /** It only releases what the sandbox held: it takes no slot. */
  readonly isEnding: boolean
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
const slotsGauge = Metric.gauge("slipway_worker_slots", {
  description: "Sandboxes that this worker holds at most, but for those that are ending."
})

/** Runs the worker until the scope closes. */
export const start = Effect.fn("WorkerNode.start")(function*({ machine, slots, worker }: Options) {
  const leases = yield* Leases
  const hints = yield* Hints
  const { purge, reap, shutdown, tick } = yield* Timing
  const scope = yield* Scope.Scope
  // Closed after the sessions were asked to end.
  const sessionsScope = yield* Scope.fork(scope, "parallel")
  const sessions = new Set<Session>()
  yield* declare
  yield* observed(heldGauge, () => ({ value: sessions.size }))
  yield* observed(slotsGauge, () => ({ value: slots }))

  const begin = Effect.fnUntraced(function*(leased: Leased, validUntil: number) {
    const held = yield* HeldSandbox.make(leased)
    const before = Array.from(sessions).filter((session) => session.held.id === held.id)
    const own = yield* Scope.fork(sessionsScope)
    const running = Effect.gen(function*() {
      // An earlier session of ours lost this sandbox: first its agent must be gone.
      yield* Effect.forEach(before, ({ ended }) => Fiber.await(ended))
      yield* SandboxSession.run(held, leased.elsewhere).pipe(
        Scope.provide(own),
        Effect.onExit((exit) => Scope.close(own, exit))
      )
      yield* leases.release(held.lease)
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
      RootSpan.within("WorkerNode.session")
    )
    const session: Session = {
      held,
      isEnding: leased.sandbox.status === "terminating",
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

  const leasing = yield* Semaphore.make(1)
  const take = Effect.gen(function*() {
    // Ending sandboxes come on top: a full worker must not keep them waiting.
    const ending = Array.from(sessions).filter(({ isEnding }) => isEnding).length
    const room = { live: Math.max(0, slots - (sessions.size - ending)), ending: Math.max(0, ENDING - ending) }
    const asked = yield* elapsedMillis
    for (const leased of yield* leases.take({ worker, machine }, room.live, room.ending)) yield* begin(leased, asked + LEASE_MILLIS)
  }).pipe(leasing.withPermits(1), round("take"))

  const letGo = Effect.gen(function*() {
    // Waits for a taking that is under way, whose leases must be given back too, and allows no other.
    yield* leasing.take(1)
    yield* Effect.forEach(sessions, ({ ended, held }) => Effect.andThen(held.detach, Fiber.await(ended)), { concurrency: "unbounded" })
  })

  const every = (interval: Duration.Duration, job: string) => <A, E, R>(self: Effect.Effect<A, E, R>) =>
    self.pipe(round(job), Effect.repeat(Schedule.spaced(interval)), Effect.forkScoped)

  const hinted = yield* hints.watch(WORK)
  yield* Effect.forkScoped(Effect.forever(Effect.andThen(take, Effect.timeoutOption(hinted, tick))))
  yield* every(renewal, "renew")(renew)
  yield* every(tick, "watchLeases")(watchLeases)
  yield* every(tick, "enforceLimits")(enforceLimits())
  yield* every(reap, "reapOrphans")(reapOrphans())
  yield* every(purge, "purgeEvents")(purgeEvents())
  // Runs before the fibers above end: leases are renewed until they are given back.
  yield* Effect.addFinalizer(() => Effect.timeoutOption(letGo, shutdown))
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
