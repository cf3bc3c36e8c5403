/**
 * Checkpoints of a leased sandbox (docs/decisions.md 16): everything of it that is on its machine alone goes into one, and any
 * machine makes the sandbox from one again.
 */
import { CannotSave, CheckpointDamaged, CloneFailed, OnBehalfOf, WorkingTrees } from "@slipway/domain/files/WorkingTrees"
import { ModelCatalogue } from "@slipway/domain/models/ModelCatalogue"
import { AgentRuntime } from "@slipway/domain/sandbox/AgentRuntime"
import { CheckpointNotFound, Checkpoints, KEPT_CHECKPOINTS, MAX_CHECKPOINT_BYTES } from "@slipway/domain/sandbox/Checkpoints"
import type { RestoreCause } from "@slipway/domain/sandbox/SandboxEvent"
import { type Box, HomeDamaged, SandboxHost } from "@slipway/domain/sandbox/SandboxHost"
import { workedTurns } from "@slipway/domain/sandbox/SystemCommand"
import { isActive } from "@slipway/domain/sandbox/Turn"
import type { SandboxId } from "@slipway/domain/SandboxId"
import type { RepoRef } from "@slipway/domain/source/RepoRef"
import { SourceHost } from "@slipway/domain/source/SourceHost"
import { Duration, Effect, Schedule, Schema } from "effect"
import * as AgentHistory from "../publish/AgentHistory.ts"
import { elapsedMillis } from "../shared/Elapsed.ts"
import { type LeasedSandbox, untilAvailable } from "../shared/LeasedSandbox.ts"
import * as CheckpointFormat from "./CheckpointFormat.ts"

/** What one may take where nobody waits for it. */
const PATIENCE = Duration.minutes(10)

/** What one may take once a person wants the sandbox back at an earlier one, or its worker is to let go of it. */
export const HURRY = Duration.seconds(60)

/** What the agent's next turn waits for one. */
const TURN_WAITS = Duration.seconds(10)

/** Of checkpoints in one look: those that are kept, and some that are about to go. */
const LOOK = 2 * KEPT_CHECKPOINTS

class TookTooLong extends Schema.TaggedError<TookTooLong>()("TookTooLong", {
  seconds: Schema.Int,
  /** Whether it gave way to a turn. */
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
const tooLong = (held: LeasedSandbox) =>
  Effect.raceFirst(
    after(PATIENCE, false),
    Effect.andThen(held.until(({ draining, sandbox }) => draining || sandbox.restoring !== null), after(HURRY, false))
  )

/** Fails when a turn has waited long enough, be it for an attempt or for a store that does not answer. */
const turnWaits = (held: LeasedSandbox) =>
  Effect.andThen(held.until(({ sandbox: { turn } }) => isActive(turn) && turn.startedAt === null), after(TURN_WAITS, true))

/** Of the model with this id in the catalogue. */
export const profileOf = Effect.fnUntraced(function*(model: string) {
  const { models } = yield* ModelCatalogue
  return models.find(({ id }) => id === model)?.profile
})

/**
 * Takes the checkpoint that is owed, or that could not be taken before, and records it, or why there is none. Nothing otherwise.
 * Waits for a store that does not answer. `box`: where the agent's own commits are read; `null`: they are left out. No turn may run.
 */
export const take = Effect.fn("checkpoint")(function*(held: LeasedSandbox, box: Box | null) {
  const trees = yield* WorkingTrees
  const host = yield* SandboxHost
  const runtime = yield* AgentRuntime
  const checkpoints = yield* Checkpoints
  const { sandbox } = yield* held.view
  if (!sandbox.owesCheckpoint && !sandbox.pinned) return
  const { agentRuntime, checkpoint: before, grantId, model } = sandbox
  const names = sandbox.repos.map(({ fullName }) => fullName)
  const repos = names.map((repo) => box === null ? { repo } : { repo, history: AgentHistory.read(box, trees.folder(repo, names)) })
  const profile = yield* profileOf(model)
  const files = profile === undefined ? [] : runtime.conversationFiles(profile)
  const number = before + 1

  const attempt = Effect.fnUntraced(function*(withHome: boolean) {
    const began = yield* elapsedMillis
    const saved = yield* trees.save(held.id, repos, { maximumBytes: MAX_CHECKPOINT_BYTES }).pipe(
      Effect.provideService(OnBehalfOf, grantId),
      Effect.retry({
        while: (error) => "retryable" in error && error.retryable,
        times: 2,
        schedule: Schedule.spaced("1 second")
      }),
      Effect.catchTag("FileNotFound", () => new CannotSave({ repo: names.join(", "), detail: "The files are gone.", retryable: false }))
    )
    const content = CheckpointFormat.write({
      of: { sandboxId: held.id, grantId, checkpoint: number },
      runtime: agentRuntime,
      agentSession: withHome ? yield* held.agentSession : null,
      home: withHome ? host.readHome(held.id, files, { maximumBytes: MAX_CHECKPOINT_BYTES }) : null,
      trees: saved.content
    })
    const bytes = yield* checkpoints.put(held.lease, number, content, saved.changes)
    return { checkpoint: number, bytes, ms: (yield* elapsedMillis) - began, repos: saved.repos }
  }, Effect.scoped)

  const data = yield* attempt(files.length > 0).pipe(
    // What the agent did is worth more than what it said.
    Effect.catchTag(["HomeTooLarge", "HostError"], (error) =>
      Effect.andThen(
        Effect.logWarning("the conversation cannot be read: the checkpoint is taken without it", { reason: error.message }),
        attempt(false)
      )),
    Effect.raceFirst(tooLong(held)),
    untilAvailable,
    Effect.raceFirst(turnWaits(held)),
    Effect.catchTag(
      ["CannotSave", "CheckpointTooLarge", "HomeTooLarge", "HostError", "TookTooLong", "TreesUnavailable"],
      (error) => Effect.as(Effect.logWarning("no checkpoint could be taken", { reason: error.message }), { error: error.message })
    )
  )
  yield* held.write([{ _tag: "RecordCheckpoint", data, workedTurns: workedTurns(sandbox) }])
})

/** Which checkpoint, of whom. */
interface Wanted {
  readonly of: SandboxId
  readonly checkpoint: number
  readonly cause: RestoreCause
}

/** None of them could be read, or the source has the commits no longer that they go on from. Retrying does not help. */
export class NoneLeft extends Schema.TaggedError<NoneLeft>()("NoneLeft", {
  detail: Schema.String,
  /** Those that were tried, newest first. */
  damaged: Schema.Array(Schema.Int)
}) {
  override get message() {
    return `The sandbox's checkpoint cannot be restored: ${this.detail}`
  }
}

/** Where the commits are that trees of these repositories start from. */
export const sourcesOf = Effect.fnUntraced(function*(repos: ReadonlyArray<RepoRef>) {
  const source = yield* SourceHost
  return yield* Effect.forEach(
    repos,
    ({ fullName }) => Effect.map(source.remote(fullName, "read"), (remote) => ({ repo: fullName, remote })),
    { concurrency: "unbounded" }
  )
})

/** The checkpoint, and those before it that may be there still, newest first. Waits for a store that does not answer. */
export const upTo = Effect.fnUntraced(function*(of: SandboxId, checkpoint: number) {
  const checkpoints = yield* Checkpoints
  const known = yield* untilAvailable(checkpoints.list(of, Math.max(0, checkpoint - LOOK), LOOK))
  return [checkpoint, ...known.map((one) => one.checkpoint).filter((number) => number < checkpoint).reverse()]
})

type Unreadable = CheckpointFormat.CheckpointFormatError | CheckpointDamaged | CheckpointNotFound | CloneFailed | HomeDamaged

/**
 * Does `attempt` with one checkpoint after the other, until one of them can be read, and says which could not. Waits for a store that
 * does not answer. Trouble of this machine or of the source is passed on.
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
  // The source has the commits no longer that it goes on from.
  error instanceof CloneFailed && !error.retryable

/**
 * Makes trees and conversation those of the checkpoint, or of the newest one before it that can be read, and records it. For a
 * sandbox of which nothing runs. Waits for a store that does not answer. Trouble of this machine or of the source is passed on.
 * `NoneLeft`: all is as it was.
 */
export const restore = Effect.fn("checkpoint restore")(function*(held: LeasedSandbox, { cause, checkpoint, of }: Wanted) {
  const trees = yield* WorkingTrees
  const host = yield* SandboxHost
  const checkpoints = yield* Checkpoints
  const { sandbox: { agentRuntime, grantId, repos, status } } = yield* held.view
  const sources = yield* sourcesOf(repos)

  const attempt = Effect.fnUntraced(function*(number: number) {
    // Here is something to lose: its home is left alone until all of the bytes are known to be whole.
    // A fork is of the grant of the sandbox that it comes from.
    const asked: CheckpointFormat.Asked = { sandboxId: of, grantId, checkpoint: number }
    if (cause === "command") yield* Effect.scoped(CheckpointFormat.check(checkpoints.get(of, number), asked))
    const { header, home, trees: content } = yield* CheckpointFormat.read(checkpoints.get(of, number), asked)
    const goesOn = header.hasHome && header.runtime === agentRuntime
    // First: trees that are there say that all of it is.
    if (goesOn) yield* host.writeHome(held.id, home)
    yield* trees.restore(held.id, content, sources, cause === "fork" ? { forget: "publication" } : {}).pipe(
      Effect.provideService(OnBehalfOf, grantId),
      // The conversation in the home is not that of the trees.
      Effect.tapError(() => goesOn ? held.saveAgentSession(null) : Effect.void)
    )
    return goesOn ? header.agentSession : null
  }, Effect.scoped)

  // A person forks this one, and is told where it cannot be read. A sandbox that runs goes on from as much as there is.
  const candidates = status === "creating" ? [checkpoint] : yield* upTo(of, checkpoint)
  const restored = yield* firstWhole(of, candidates, attempt)
  const { damaged } = restored
  yield* held.saveAgentSession(restored.made)
  yield* held.write([{
    _tag: "RecordRestore",
    data: { checkpoint: restored.checkpoint, cause, ...(damaged.length === 0 ? {} : { damaged }) }
  }])
})
