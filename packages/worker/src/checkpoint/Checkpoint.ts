/**
 * Takes and restores checkpoints of a leased sandbox (docs/decisions/16). A checkpoint has everything that only the sandbox's
 * machine has, so any machine can restore the sandbox from it.
 */
import { CannotSave, CheckpointDamaged, CloneFailed, OnBehalfOf, WorkingTrees } from "@slipway/domain/files/ports/WorkingTrees"
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { ModelCatalogue } from "@slipway/domain/models/schema/ModelCatalogue"
import { AgentRuntime } from "@slipway/domain/sandbox/ports/AgentRuntime"
import { CheckpointNotFound, Checkpoints, KEPT_CHECKPOINTS, MAX_CHECKPOINT_BYTES } from "@slipway/domain/sandbox/ports/Checkpoints"
import { type Box, HomeDamaged, SandboxHost } from "@slipway/domain/sandbox/ports/SandboxHost"
import type { RestoreCause } from "@slipway/domain/sandbox/rules/SandboxEvent"
import { workedTurns } from "@slipway/domain/sandbox/rules/SystemCommand"
import { isActive } from "@slipway/domain/sandbox/rules/Turn"
import { SourceHost } from "@slipway/domain/source/ports/SourceHost"
import type { RepoRef } from "@slipway/domain/source/schema/RepoRef"
import { Duration, Effect, Schedule, Schema } from "effect"
import * as AgentHistory from "../publish/AgentHistory.ts"
import { elapsedMillis } from "../shared/Elapsed.ts"
import { findSubmodule } from "../shared/FindSubmodule.ts"
import { type LeasedSandbox, untilAvailable } from "../shared/LeasedSandbox.ts"
import * as CheckpointFormat from "./CheckpointFormat.ts"
import { collect } from "./CollectArtifacts.ts"

/** The time limit of a checkpoint that no one waits for. */
const PATIENCE = Duration.minutes(10)

/** The time limit once a person goes back to an earlier checkpoint, or the worker must release the sandbox. */
export const HURRY = Duration.seconds(60)

/** How long the next turn waits for a checkpoint. */
const TURN_WAITS = Duration.seconds(10)

/** Checkpoints listed at once: those that are kept, and some that are about to be deleted. */
const LOOK = 2 * KEPT_CHECKPOINTS

class TookTooLong extends Schema.TaggedError<TookTooLong>()("TookTooLong", {
  seconds: Schema.Int,
  /** Whether the checkpoint gave way to a turn. */
  forTurn: Schema.Boolean
}) {
  override get message() {
    return this.forTurn
      ? `The checkpoint gave way to a turn that waited ${this.seconds} seconds for it. It is tried again when that turn ends.`
      : `The checkpoint could not be taken within ${this.seconds} seconds.`
  }
}

const after = (duration: Duration.Duration, forTurn: boolean) =>
  Effect.andThen(Effect.sleep(duration), new TookTooLong({ seconds: Duration.toSeconds(duration), forTurn }))

/** Fails when one attempt has taken too long. */
const tooLong = (leased: LeasedSandbox) =>
  Effect.raceFirst(
    after(PATIENCE, false),
    Effect.andThen(leased.until(({ draining, sandbox }) => draining || sandbox.restoring !== null), after(HURRY, false))
  )

/** Fails when a turn has waited long enough, for an attempt or for a store that does not answer. */
const turnWaits = (leased: LeasedSandbox) =>
  Effect.andThen(leased.until(({ sandbox: { turn } }) => isActive(turn) && turn.startedAt === null), after(TURN_WAITS, true))

/** The agent profile of a model in the catalogue; `undefined`: unknown model. */
export const profileOf = Effect.fnUntraced(function*(model: string) {
  const { models } = yield* ModelCatalogue
  return models.find(({ id }) => id === model)?.profile
})

/** Stores the artifacts of the ended turn, within the time that its checkpoint may take. Never fails because of them. */
export const collectArtifacts = (leased: LeasedSandbox) => collect(leased, Effect.raceFirst(tooLong(leased), turnWaits(leased)))

/**
 * Takes the checkpoint that is owed or that failed before, and records it or the error. Does nothing if none is owed. No turn may run.
 * Waits for a store that does not answer. `box`: the box to read the agent's own commits in; `null`: they are left out.
 */
export const take = Effect.fn("checkpoint")(function*(leased: LeasedSandbox, box: Box | null) {
  const trees = yield* WorkingTrees
  const host = yield* SandboxHost
  const runtime = yield* AgentRuntime
  const checkpoints = yield* Checkpoints
  const { sandbox } = yield* leased.view
  if (!sandbox.owesCheckpoint && !sandbox.pinned) return
  const { agentRuntime, checkpoint: before, grantId, model } = sandbox
  const names = sandbox.repos.map(({ fullName }) => fullName)
  const repos = names.map((repo) => box === null ? { repo } : { repo, history: AgentHistory.read(box, trees.folder(repo, names)) })
  const profile = yield* profileOf(model)
  const files = profile === undefined ? [] : runtime.conversationFiles(profile)
  const number = before + 1

  const attempt = Effect.fnUntraced(function*(withHome: boolean) {
    const began = yield* elapsedMillis
    const saved = yield* trees.save(leased.id, repos, { maximumBytes: MAX_CHECKPOINT_BYTES }).pipe(
      Effect.provideService(OnBehalfOf, grantId),
      Effect.retry({
        while: (error) => "retryable" in error && error.retryable,
        times: 2,
        schedule: Schedule.spaced("1 second")
      }),
      Effect.catchTag("FileNotFound", () => new CannotSave({ repo: names.join(", "), detail: "The files are gone.", retryable: false }))
    )
    const content = CheckpointFormat.write({
      of: { sandboxId: leased.id, grantId, checkpoint: number },
      runtime: agentRuntime,
      agentSession: withHome ? yield* leased.agentSession : null,
      home: withHome ? host.readHome(leased.id, files, { maximumBytes: MAX_CHECKPOINT_BYTES }) : null,
      trees: saved.content
    })
    const bytes = yield* checkpoints.put(leased.lease, number, content, saved.changes)
    return { checkpoint: number, bytes, ms: (yield* elapsedMillis) - began, repos: saved.repos }
  }, Effect.scoped)

  const data = yield* attempt(files.length > 0).pipe(
    // The agent's work is worth more than its conversation.
    Effect.catchTag(["HomeTooLarge", "HostError"], (error) =>
      Effect.andThen(
        Effect.logWarning("the conversation cannot be read: the checkpoint is taken without it", { reason: error.message }),
        attempt(false)
      )),
    Effect.raceFirst(tooLong(leased)),
    untilAvailable,
    Effect.raceFirst(turnWaits(leased)),
    Effect.catchTag(
      ["CannotSave", "CheckpointTooLarge", "HomeTooLarge", "HostError", "TookTooLong", "TreesUnavailable"],
      (error) => Effect.as(Effect.logWarning("no checkpoint could be taken", { reason: error.message }), { error: error.message })
    )
  )
  yield* leased.write([{ _tag: "RecordCheckpoint", data, workedTurns: workedTurns(sandbox) }])
})

/** The checkpoint to restore. */
interface Wanted {
  readonly of: SandboxId
  readonly checkpoint: number
  readonly cause: RestoreCause
}

/** No checkpoint could be read, or the source host no longer has their base commits. Retrying does not help. */
export class NoneLeft extends Schema.TaggedError<NoneLeft>()("NoneLeft", {
  detail: Schema.String,
  /** The checkpoints that were tried, newest first. */
  damaged: Schema.Array(Schema.Int)
}) {
  override get message() {
    return `The sandbox's checkpoint cannot be restored: ${this.detail}`
  }
}

/** The remotes with the base commits of these repositories. */
export const sourcesOf = Effect.fnUntraced(function*(repos: ReadonlyArray<RepoRef>) {
  const source = yield* SourceHost
  const submodule = yield* findSubmodule(repos)
  return yield* Effect.forEach(
    repos,
    ({ fullName }) => Effect.map(source.remote(fullName, "read"), (remote) => ({ repo: fullName, remote, submodule })),
    { concurrency: "unbounded" }
  )
})

/** The checkpoint and the earlier ones that may still exist, newest first. Waits for a store that does not answer. */
export const upTo = Effect.fnUntraced(function*(of: SandboxId, checkpoint: number) {
  const checkpoints = yield* Checkpoints
  const known = yield* untilAvailable(checkpoints.list(of, Math.max(0, checkpoint - LOOK), LOOK))
  return [checkpoint, ...known.map((one) => one.checkpoint).filter((number) => number < checkpoint).reverse()]
})

type Unreadable = CheckpointFormat.CheckpointFormatError | CheckpointDamaged | CheckpointNotFound | CloneFailed | HomeDamaged

/**
 * Calls `attempt` with one checkpoint after the other until one can be read; `damaged` lists the others. Waits for a store that does
 * not answer. Errors of this machine or of the source host are passed on.
 */
export const firstWhole = Effect.fnUntraced(function*<A, E, R>(
  of: SandboxId,
  candidates: ReadonlyArray<number>,
  attempt: (checkpoint: number) => Effect.Effect<A, E | Unreadable, R>
) {
  const damaged: Array<number> = []
  let detail = "There is no checkpoint."
  for (const checkpoint of candidates) {
    const tried = yield* attempt(checkpoint).pipe(
      untilAvailable,
      Effect.map((made) => ({ made })),
      Effect.catchIf(isUnreadable, (error) => {
        damaged.push(checkpoint)
        detail = error.message
        return Effect.as(Effect.logError("a checkpoint cannot be restored", { of, checkpoint, reason: detail }), null)
      })
    )
    if (tried !== null) return { checkpoint, damaged, made: tried.made }
  }
  return yield* new NoneLeft({ detail, damaged })
})

const isUnreadable = <E>(error: E | Unreadable): error is Unreadable =>
  error instanceof CheckpointFormat.CheckpointFormatError || error instanceof CheckpointDamaged || error instanceof CheckpointNotFound ||
  error instanceof HomeDamaged ||
  // The source host no longer has the base commits.
  error instanceof CloneFailed && !error.retryable

/**
 * Restores trees and conversation from the checkpoint, or from the newest readable one before it, and records it. Nothing of the
 * sandbox may run. Waits for a store that does not answer. Errors of this machine or of the source host are passed on.
 * `NoneLeft`: nothing was changed.
 */
export const restore = Effect.fn("checkpoint restore")(function*(leased: LeasedSandbox, { cause, checkpoint, of }: Wanted) {
  const trees = yield* WorkingTrees
  const host = yield* SandboxHost
  const checkpoints = yield* Checkpoints
  const { sandbox: { agentRuntime, grantId, repos, status } } = yield* leased.view
  const sources = yield* sourcesOf(repos)

  const attempt = Effect.fnUntraced(function*(number: number) {
    // The home has work in it, so it stays as it is until the whole checkpoint is known to be good.
    // A fork has the grant of its origin.
    const asked: CheckpointFormat.Asked = { sandboxId: of, grantId, checkpoint: number }
    if (cause === "command") yield* Effect.scoped(CheckpointFormat.check(checkpoints.get(of, number), asked))
    const { header, home, trees: content } = yield* CheckpointFormat.read(checkpoints.get(of, number), asked)
    const goesOn = header.hasHome && header.runtime === agentRuntime
    // The home first: the presence of the trees means that everything is restored.
    if (goesOn) yield* host.writeHome(leased.id, home)
    yield* trees.restore(leased.id, content, sources, cause === "fork" ? { forget: "publication" } : {}).pipe(
      Effect.provideService(OnBehalfOf, grantId),
      // The conversation in the home does not belong to the trees.
      Effect.tapError(() => goesOn ? leased.saveAgentSession(null) : Effect.void)
    )
    return goesOn ? header.agentSession : null
  }, Effect.scoped)

  // A fork needs exactly this checkpoint, and the person gets the error. A running sandbox resumes from the newest readable one.
  const candidates = status === "creating" ? [checkpoint] : yield* upTo(of, checkpoint)
  const restored = yield* firstWhole(of, candidates, attempt)
  const { damaged } = restored
  yield* leased.saveAgentSession(restored.made)
  yield* leased.write([{
    _tag: "RecordRestore",
    data: { checkpoint: restored.checkpoint, cause, ...(damaged.length === 0 ? {} : { damaged }) }
  }])
})
