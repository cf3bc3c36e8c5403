/**
 * What a worker does first for a sandbox that ran before: it has its trees, its conversation and its box here, whatever became of
 * the machine that had them.
 */
import { WorkingTrees } from "@slipway/domain/files/WorkingTrees"
import type { Leased } from "@slipway/domain/sandbox/Leases"
import { isUnsaved, isUntouched } from "@slipway/domain/sandbox/Leasing"
import { Policy } from "@slipway/domain/sandbox/Policy"
import { type Box, SandboxHost } from "@slipway/domain/sandbox/SandboxHost"
import { isActive } from "@slipway/domain/sandbox/Turn"
import { Duration, Effect, Schedule } from "effect"
import * as Checkpoint from "../checkpoint/Checkpoint.ts"
import * as SetUp from "../setup/SetUp.ts"
import { type HeldSandbox, isLeaving } from "../shared/HeldSandbox.ts"
import { removeHere } from "../shared/ReleaseSandbox.ts"
import * as Agent from "../turn/Agent.ts"
import { clone, withRoom } from "./BootSandbox.ts"

/** Before another try of a machine that cannot have the sandbox: long enough for another one to take it. */
const BEFORE_ANOTHER = Duration.seconds(30)

/** Trees and conversation of a sandbox whose machine is gone, or has them no more. */
const fetch = Effect.fn("Arrival.fetch")(function*(held: HeldSandbox, moved: Leased["moved"]) {
  const { sandbox } = yield* held.view
  const { checkpoint, id, origin, repos } = sandbox
  // What an earlier stay left here is older.
  yield* removeHere(id)
  if (isUntouched(sandbox)) {
    // Nobody has said anything yet, and the session of its agent was in the home that is gone.
    yield* held.saveAgentSession(null)
    yield* Effect.forEach(repos, (repo) => withRoom(clone(held, repo)), { concurrency: "unbounded", discard: true })
    if (moved !== null) yield* held.arrived
  } else if (checkpoint === 0 && origin !== null) {
    yield* withRoom(Checkpoint.restore(held, { cause: "fork", checkpoint: origin.checkpoint, of: origin.sandboxId }))
  } else {
    yield* withRoom(Checkpoint.restore(held, { cause: moved === "drained" ? "machine_drained" : "machine_lost", checkpoint, of: id }))
  }
})

/** Goes back to the checkpoint that a person wants, or the newest before it; where none can be read the sandbox stays as it is. */
const goBack = Effect.fn("Arrival.goBack")(function*(held: HeldSandbox, restoring: number) {
  const host = yield* SandboxHost
  const { id } = held
  // Nothing may run in the trees meanwhile, and the box is to be made on what they are then.
  yield* host.rest(id)
  yield* withRoom(Checkpoint.restore(held, { cause: "command", checkpoint: restoring, of: id })).pipe(
    Effect.catchTag("NoneLeft", ({ damaged, message }) => held.write([{ _tag: "FailRestore", error: message, damaged }]))
  )
})

/**
 * Whether its trees are here, all and whole: whoever made them last may have been cut off between two. What neither a checkpoint nor its
 * source has is gone on with as it is: it is worth more than what a loss of power took.
 */
export const canGoOn = Effect.fnUntraced(function*(held: HeldSandbox) {
  const trees = yield* WorkingTrees
  const { sandbox } = yield* held.view
  if (isUnsaved(sandbox)) return yield* trees.has(held.id)
  return (yield* trees.has(held.id, sandbox.repos.map((repo) => repo.fullName))) && (yield* trees.isWhole(held.id))
})

/**
 * Its box, with everything in place. `left`: it need not run any more, or is lost for good, which is recorded. `elsewhere`: it cannot
 * be had on this machine.
 */
export const arrive = Effect.fn("Arrival.arrive")(function*(held: HeldSandbox, moved: Leased["moved"]) {
  const host = yield* SandboxHost
  const { lost } = yield* Policy
  let isHere = moved === null
  let areNew = false

  const arriving = Effect.gen(function*() {
    // Remembered: a try that was cut off may have made them, and recorded nothing.
    isHere = isHere && (yield* canGoOn(held))
    if (!isHere) {
      yield* SetUp.invalidate(held)
      yield* fetch(held, moved)
      areNew = true
    }
    isHere = true
    const { sandbox: { turn } } = yield* held.view
    // Its agent went with the worker. A pending turn was never handed to an agent: it just starts.
    if (isActive(turn) && turn.state !== "pending") {
      yield* Agent.reportLost(held)
      yield* held.write([{ _tag: "EndTurn", turnId: turn.id, state: "failed", reason: "agent_lost", initiator: "provider" }])
    }
    const { sandbox: { owesCheckpoint, restoring } } = yield* held.view
    if (restoring !== null && !owesCheckpoint) {
      yield* SetUp.invalidate(held)
      yield* goBack(held, restoring)
    }
    const [box, isOwed] = yield* Effect.all([
      host.provision(held.lease),
      areNew ? Effect.succeed(true) : SetUp.wasBrokenOff(held.id)
    ], { concurrency: 2 })
    if (isOwed) yield* SetUp.setUpAgain(held, box)
    return box
  }).pipe(
    Effect.retry({
      while: (error) => "retryable" in error && error.retryable,
      schedule: Schedule.upTo(Schedule.spaced("5 seconds"), { duration: lost })
    }),
    Effect.catchTag(
      "NoneLeft",
      ({ message }) => Effect.as(held.write([{ _tag: "Fail", reason: "host_lost", error: message, retryable: false }]), "left" as const)
    ),
    Effect.catchTag(
      ["CloneFailed", "HostError", "RepoNotAccessible", "SourceHostError", "TreesUnavailable"],
      Effect.fnUntraced(function*({ message }) {
        const { sandbox } = yield* held.view
        yield* Effect.logError("this machine cannot go on with the sandbox", { reason: message })
        if (sandbox.checkpoint === 0 && sandbox.origin === null && !isUntouched(sandbox)) {
          yield* held.write([{ _tag: "Fail", reason: "host_lost", error: message, retryable: false }])
          return "left" as const
        }
        // Another one has something to go on from. Without a box, so without what the agent's own git knows.
        if (isHere) yield* Checkpoint.take(held, null)
        yield* Effect.sleep(BEFORE_ANOTHER)
        return "elsewhere" as const
      })
    )
  )
  const left: Effect.Effect<Box | "left" | "elsewhere"> = Effect.as(held.until(isLeaving), "left" as const)
  return yield* Effect.raceFirst(arriving, left)
})
