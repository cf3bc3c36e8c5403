/**
 * A worker's session of one sandbox while it holds the lease: it reads the state and makes reality agree with it, from
 * boot to release. No job is kept beside the state, so a worker that takes over begins here too.
 */
import { WorkingTrees } from "@slipway/domain/files/ports/WorkingTrees"
import * as RootSpan from "@slipway/domain/observability/RootSpan"
import type { Leased } from "@slipway/domain/sandbox/ports/Leases"
import { Leases, StaleLease } from "@slipway/domain/sandbox/ports/Leases"
import { type Box, SandboxHost } from "@slipway/domain/sandbox/ports/SandboxHost"
import { isAtWork, isUnsaved, workOf } from "@slipway/domain/sandbox/rules/LeaseRules"
import { publicationOf, type Sandbox } from "@slipway/domain/sandbox/rules/Sandbox"
import { live as liveStatuses } from "@slipway/domain/sandbox/rules/Transition"
import { isUnderWay } from "@slipway/domain/source/rules/PullState"
import type { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { Effect, Exit, Fiber, Latch, Option, Schedule, Scope } from "effect"
import type { BootBreaker } from "./boot/BootBreaker.ts"
import { boot } from "./boot/BootSandbox.ts"
import { canResume, resume } from "./boot/ResumeSandbox.ts"
import * as Checkpoint from "./checkpoint/Checkpoint.ts"
import * as AgentHistory from "./publish/AgentHistory.ts"
import { publishChanges } from "./publish/PublishChanges.ts"
import { syncing } from "./publish/SyncBranches.ts"
import { type LeasedSandbox, isLeaving, untilAvailable, type View } from "./shared/LeasedSandbox.ts"
import { cleanUp, release, removeHere } from "./shared/ReleaseSandbox.ts"
import { Timing } from "./shared/Timing.ts"
import type { SlotReservation, WorkerCapacity } from "./shared/WorkerCapacity.ts"
import { offering } from "./terminal/OfferTerminals.ts"
import * as AgentLifecycle from "./turn/AgentLifecycle.ts"

/** The worker's resources for one sandbox. */
interface Resources {
  readonly capacity: WorkerCapacity
  readonly breaker: BootBreaker
  /** The reservation for its first agent; `null`: its work needs no agent. */
  readonly reservation: SlotReservation | null
  readonly moved: Leased["moved"]
}

const carryOut = Effect.fnUntraced(function*(leased: LeasedSandbox, box: Box | null, sandbox: Sandbox, repo: RepoName) {
  const trees = yield* WorkingTrees
  const folder = trees.folder(repo, sandbox.repos.map(({ fullName }) => fullName))
  yield* publishChanges(leased.lease, sandbox, repo, box === null ? undefined : AgentHistory.read(box, folder)).pipe(
    untilAvailable,
    // It was deleted: the lease is gone with it.
    Effect.catchTag("SandboxNotFound", () => Effect.fail(new StaleLease())),
    Effect.flatMap(leased.observe)
  )
})

/** Publishes a repository whenever that is asked for, beside the turns. */
const publishing = (leased: LeasedSandbox, box: Box, repo: RepoName) =>
  leased.until(({ sandbox }) => isUnderWay(publicationOf(sandbox, repo))).pipe(
    Effect.flatMap(({ sandbox }) => carryOut(leased, box, sandbox, repo)),
    Effect.forever
  )

/** Stores the artifacts of an ended turn, then takes the checkpoint that is owed: an interruption between the two repeats both. */
const save = (leased: LeasedSandbox, box: Box | null) => Effect.andThen(Checkpoint.collectArtifacts(leased), Checkpoint.take(leased, box))

/**
 * Takes checkpoints as they are owed, beside everything but turns. `still`: open while no agent is at a turn. `taken`: while no
 * checkpoint is being taken.
 */
const saving = (leased: LeasedSandbox, box: Box, still: Latch.Latch, taken: Latch.Latch) =>
  leased.until((view) => !isLeaving(view) && view.sandbox.owesCheckpoint && !isAtWork(view.sandbox)).pipe(
    // A time limit ends a turn before its agent hears of it.
    Effect.andThen(still.await),
    Effect.andThen(taken.close),
    Effect.andThen(
      Effect.ensuring(
        Effect.raceFirst(save(leased, box), Effect.asVoid(leased.until(({ sandbox }) => isAtWork(sandbox)))),
        taken.open
      )
    ),
    Effect.forever
  )

const isOver = ({ status }: Sandbox) => status !== "running" && status !== "terminating"
const isNeeded = (view: View) => isLeaving(view) || workOf(view.sandbox) !== null

/** From where an earlier worker or a boot left it until there is nothing to do, or nothing is to be begun any more. */
const serve = Effect.fn("SandboxSession.serve")(
  function*(leased: LeasedSandbox, capacity: WorkerCapacity, box: Box, start: AgentLifecycle.Start) {
    const { sandbox: { repos } } = yield* leased.view
    const [still, taken] = [Latch.makeUnsafe(true), Latch.makeUnsafe(true)]
    const saver = yield* Effect.forkChild(saving(leased, box, still, taken))
    const end = yield* Effect.raceAllFirst([
      AgentLifecycle.run(leased, box, { capacity, start, still }),
      Fiber.join(saver),
      ...repos.map(({ fullName }) => publishing(leased, box, fullName)),
      syncing(leased, box),
      offering(leased, box)
    ])
    // A checkpoint that is interrupted here would have to be taken again.
    if (end === "left") {
      yield* Effect.raceFirst(
        taken.await,
        Effect.asVoid(leased.until(({ detached, sandbox }) => detached || isOver(sandbox)))
      )
    }
    yield* Fiber.interrupt(saver)
    // Saves everything before the machine is given up.
    if (end === "left" && (yield* leased.view).sandbox.status === "running") yield* save(leased, box)
    // Its obstacle may be gone, and no caller waits for it now.
    if (end === "idle") yield* Effect.raceFirst(save(leased, box), Effect.asVoid(leased.until(isNeeded)))
    return end
  }
)

/** Puts a sandbox that is not needed to rest and gives its lease back. `false`: it is needed again. */
const rest = Effect.fn("SandboxSession.rest")(function*(leased: LeasedSandbox) {
  const host = yield* SandboxHost
  const leases = yield* Leases
  // Before the lease: the next worker makes the box again.
  yield* Effect.catchTag(host.rest(leased.id), "HostError", (error) => Effect.logError("a box could not be put to rest", error))
  const isAtRest = yield* untilAvailable(leases.rest(leased.lease))
  // A new request is visible here a moment later than in the store: until then the answer stays the same.
  if (!isAtRest) yield* Effect.timeoutOption(leased.until(isNeeded), (yield* Timing).tick)
  return isAtRest
})

/** Whether this machine has all files of the sandbox. */
interface Whereabouts {
  moved: Leased["moved"]
}

const live = Effect.fn("SandboxSession.live")(
  function*(leased: LeasedSandbox, { breaker, reservation, capacity }: Resources, where: Whereabouts) {
    let start: AgentLifecycle.Start = { agent: null, reservation }
    if (reservation !== null) {
      yield* Effect.raceFirst(
        reservation.ready,
        leased.until(({ draining, sandbox }) => draining || !liveStatuses.includes(sandbox.status))
      )
    }
    if ((yield* leased.view).draining) return "left"
    if ((yield* leased.view).sandbox.status !== "running") {
      const booted = yield* boot(leased, breaker)
      if (booted === null) return "left"
      if (booted === "elsewhere") return booted
      if (where.moved !== null) yield* leased.arrived
      where.moved = null
      if (reservation !== null) yield* reservation.booted
      if ((yield* serve(leased, capacity, booted.box, { agent: booted.agent, reservation })) === "left") return "left"
      if (yield* rest(leased)) return "rested"
      start = { agent: null, reservation: null }
    }
    for (;;) {
      const box = yield* resume(leased, where.moved)
      if (box === "left" || box === "elsewhere") return box
      where.moved = null
      const end = yield* serve(leased, capacity, box, start)
      start = { agent: null, reservation: null }
      if (end === "left") return end
      if (end === "idle" && (yield* rest(leased))) return "rested"
    }
  }
)

/** The last thing before what a sandbox left on this machine is deleted: one attempt to keep it. */
const keep = Effect.fn("SandboxSession.keep")(function*(leased: LeasedSandbox, { moved }: Whereabouts) {
  const host = yield* SandboxHost
  const trees = yield* WorkingTrees
  const { sandbox: { initiator, reason, turn } } = yield* leased.view
  if (moved !== null || turn === null || !(yield* trees.has(leased.id))) return
  if (isAtWork((yield* leased.view).sandbox)) {
    yield* leased.write([{ _tag: "EndTurn", turnId: turn.id, state: "interrupted", reason: reason ?? "terminated", initiator }])
  }
  const { owesCheckpoint, pinned } = (yield* leased.view).sandbox
  if (!owesCheckpoint && !pinned) return
  const box = yield* Effect.option(host.provision(leased.lease))
  yield* Effect.raceFirst(
    Effect.timeoutOption(save(leased, Option.getOrNull(box)), Checkpoint.HURRY),
    leased.until(({ detached, sandbox }) => detached || sandbox.status !== "terminating")
  )
})

/** Publishes a sandbox that is over, from its last checkpoint. */
const publishLast = Effect.fn("SandboxSession.publishLast")(function*(leased: LeasedSandbox, { moved }: Whereabouts) {
  const host = yield* SandboxHost
  const { sandbox } = yield* leased.view
  const fetching = Effect.gen(function*() {
    if (moved === null && (yield* canResume(leased))) return
    yield* removeHere(leased.id)
    yield* Checkpoint.restore(leased, { cause: "machine_lost", checkpoint: sandbox.checkpoint, of: leased.id })
  })
  // Without its trees the publication fails, and says so.
  yield* fetching.pipe(
    Effect.retry({ times: 3, while: (error) => "retryable" in error && error.retryable, schedule: Schedule.spaced("2 seconds") }),
    Effect.catchTags(
      { StaleLease: (error) => Effect.fail(error) },
      (error) => Effect.logError("its trees cannot be had", { reason: error.message })
    )
  )
  const box = yield* Effect.option(host.provision(leased.lease))
  const wanted = sandbox.repos.filter(({ fullName }) => isUnderWay(publicationOf(sandbox, fullName)))
  yield* Effect.forEach(wanted, ({ fullName }) => carryOut(leased, Option.getOrNull(box), sandbox, fullName), { discard: true })
})

/**
 * Works for the sandbox until it is at rest, is over, or is to be let go of. Agents belong to the scope, so closing it kills
 * them. `StaleLease`: the sandbox is another worker's by now.
 */
export const run = Effect.fn("SandboxSession.run")(function*(leased: LeasedSandbox, resources: Resources) {
  const scope = yield* Scope.Scope
  yield* Effect.forkIn(RootSpan.quiet(Scope.provide(leased.follow, scope)), scope)
  const where: Whereabouts = { moved: resources.moved }
  for (;;) {
    const { detached, draining, sandbox } = yield* leased.view
    const { status } = sandbox
    if (detached || draining && status !== "terminating") return isUnsaved(sandbox) ? "left" : "elsewhere"
    switch (status) {
      case "queued":
      case "creating":
      case "running": {
        const agents = yield* Scope.fork(scope)
        const end = yield* live(leased, resources, where).pipe(Scope.provide(agents), Effect.onExit(() => Scope.close(agents, Exit.void)))
        if (end !== "left") return end
        break
      }
      case "terminating":
        yield* keep(leased, where)
        yield* release(leased)
        break
      default: {
        if (sandbox.publications.some(isUnderWay)) yield* publishLast(leased, where)
        yield* cleanUp(leased)
        // A finished sandbox may have been terminated meanwhile.
        const now = yield* leased.view
        if (now.sandbox.status === status && !now.sandbox.publications.some(isUnderWay)) return "left"
      }
    }
  }
})
