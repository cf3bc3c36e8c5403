/**
 * Resumes a sandbox that ran before: brings its trees, its conversation and its box to this machine, also when the machine that
 * had them is lost.
 */
import { WorkingTrees } from "@slipway/domain/files/ports/WorkingTrees"
import type { Leased } from "@slipway/domain/sandbox/ports/Leases"
import { type Box, SandboxHost } from "@slipway/domain/sandbox/ports/SandboxHost"
import { isUnsaved, isUntouched } from "@slipway/domain/sandbox/rules/LeaseRules"
import { Policy } from "@slipway/domain/sandbox/rules/Policy"
import { isActive } from "@slipway/domain/sandbox/rules/Turn"
import { Duration, Effect, Schedule } from "effect"
import * as Checkpoint from "../checkpoint/Checkpoint.ts"
import * as RunSetup from "../setup/RunSetup.ts"
import { type LeasedSandbox, isLeaving } from "../shared/LeasedSandbox.ts"
import { removeHere } from "../shared/ReleaseSandbox.ts"
import * as Agent from "../turn/Agent.ts"
import { clone, withRoom } from "./BootSandbox.ts"

/** The pause before this machine tries again: long enough for another machine to take the sandbox. */
const BEFORE_ANOTHER = Duration.seconds(30)

/** Restores trees and conversation of a sandbox whose machine is gone or no longer has them. */
const fetch = Effect.fn("ResumeSandbox.fetch")(function*(leased: LeasedSandbox, moved: Leased["moved"]) {
  const { sandbox } = yield* leased.view
  const { checkpoint, id, origin, repos } = sandbox
  // Anything left here by an earlier session is older.
  yield* removeHere(id)
  if (isUntouched(sandbox)) {
    // There is no conversation yet, and the agent's session was in the lost home.
    yield* leased.saveAgentSession(null)
    yield* Effect.forEach(repos, (repo) => withRoom(clone(leased, repo)), { concurrency: "unbounded", discard: true })
    if (moved !== null) yield* leased.arrived
  } else if (checkpoint === 0 && origin !== null) {
    yield* withRoom(Checkpoint.restore(leased, { cause: "fork", checkpoint: origin.checkpoint, of: origin.sandboxId }))
  } else {
    yield* withRoom(Checkpoint.restore(leased, { cause: moved === "drained" ? "machine_drained" : "machine_lost", checkpoint, of: id }))
  }
})

/** Goes back to the requested checkpoint, or to the newest readable one before it. Otherwise the sandbox stays as it is. */
const goBack = Effect.fn("ResumeSandbox.goBack")(function*(leased: LeasedSandbox, restoring: number) {
  const host = yield* SandboxHost
  const { id } = leased
  // Nothing may run in the trees meanwhile, and the box must be made on the restored trees.
  yield* host.rest(id)
  yield* withRoom(Checkpoint.restore(leased, { cause: "command", checkpoint: restoring, of: id })).pipe(
    Effect.catchTag("NoneLeft", ({ damaged, message }) => leased.write([{ _tag: "FailRestore", error: message, damaged }]))
  )
})

/**
 * Whether all its trees are here and whole: the process that made them may have been killed between two of them. Work that is in no
 * checkpoint is used as it is, because it is worth more than the parts that a loss of power took.
 */
export const canResume = Effect.fnUntraced(function*(leased: LeasedSandbox) {
  const trees = yield* WorkingTrees
  const { sandbox } = yield* leased.view
  if (isUnsaved(sandbox)) return yield* trees.has(leased.id)
  return (yield* trees.has(leased.id, sandbox.repos.map((repo) => repo.fullName))) && (yield* trees.isWhole(leased.id))
})

/**
 * The sandbox's box, with everything in place. `left`: the sandbox need not run any more, or is lost for good, which is recorded.
 * `elsewhere`: it cannot run on this machine.
 */
export const resume = Effect.fn("ResumeSandbox.resume")(function*(leased: LeasedSandbox, moved: Leased["moved"]) {
  const host = yield* SandboxHost
  const { lost } = yield* Policy
  let isHere = moved === null
  let areNew = false

  const resuming = Effect.gen(function*() {
    // Kept across retries: an interrupted try may have made the trees without recording it.
    isHere = isHere && (yield* canResume(leased))
    if (!isHere) {
      yield* RunSetup.invalidate(leased)
      yield* fetch(leased, moved)
      areNew = true
    }
    isHere = true
    const { sandbox: { turn } } = yield* leased.view
    // The agent ended with its worker. A pending turn was not handed to an agent yet, so it starts normally.
    if (isActive(turn) && turn.state !== "pending") {
      yield* Agent.reportLost(leased)
      yield* leased.write([{ _tag: "EndTurn", turnId: turn.id, state: "failed", reason: "agent_lost", initiator: "provider" }])
    }
    const { sandbox: { owesCheckpoint, restoring } } = yield* leased.view
    if (restoring !== null && !owesCheckpoint) {
      yield* RunSetup.invalidate(leased)
      yield* goBack(leased, restoring)
    }
    const [box, isOwed] = yield* Effect.all([
      host.provision(leased.lease),
      areNew ? Effect.succeed(true) : RunSetup.wasInterrupted(leased.id)
    ], { concurrency: 2 })
    if (isOwed) yield* RunSetup.runAgain(leased, box)
    return box
  }).pipe(
    Effect.retry({
      while: (error) => "retryable" in error && error.retryable,
      schedule: Schedule.upTo(Schedule.spaced("5 seconds"), { duration: lost })
    }),
    Effect.catchTag(
      "NoneLeft",
      ({ message }) => Effect.as(leased.write([{ _tag: "Fail", reason: "host_lost", error: message, retryable: false }]), "left" as const)
    ),
    Effect.catchTag(
      ["CloneFailed", "HostError", "RepoNotAccessible", "SourceHostError", "TreesUnavailable"],
      Effect.fnUntraced(function*({ message }) {
        const { sandbox } = yield* leased.view
        yield* Effect.logError("this machine cannot go on with the sandbox", { reason: message })
        if (sandbox.checkpoint === 0 && sandbox.origin === null && !isUntouched(sandbox)) {
          yield* leased.write([{ _tag: "Fail", reason: "host_lost", error: message, retryable: false }])
          return "left" as const
        }
        // Gives another machine a checkpoint to resume from. There is no box, so the agent's own commits are left out.
        if (isHere) yield* Checkpoint.take(leased, null)
        yield* Effect.sleep(BEFORE_ANOTHER)
        return "elsewhere" as const
      })
    )
  )
  const left: Effect.Effect<Box | "left" | "elsewhere"> = Effect.as(leased.until(isLeaving), "left" as const)
  return yield* Effect.raceFirst(resuming, left)
})
