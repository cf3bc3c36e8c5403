/**
 * Port: what a checkpoint holds (docs/decisions/16): the bytes from which another machine goes on with a sandbox. The log
 * says which checkpoints there are; this keeps what is in them. Checked by `CheckpointsContract`.
 */
import * as Context from "effect/Context"
import * as Data from "effect/Data"
import type * as DateTime from "effect/DateTime"
import type * as Effect from "effect/Effect"
import type * as Stream from "effect/Stream"
import type { Uuid } from "../../ids/Ids.ts"
import type { SandboxId } from "../../ids/SandboxId.ts"
import type { ChangeCounts } from "../../source/schema/ChangeCounts.ts"
import type { StoreUnavailable } from "../../store/StoreUnavailable.ts"
import type { CheckpointNotFound } from "../rules/Command.ts"
import { isSettled, type Sandbox } from "../rules/Sandbox.ts"
import type { CheckpointRepo } from "../rules/SandboxEvent.ts"
import type { Lease, StaleLease } from "./Leases.ts"

export { CheckpointNotFound } from "../rules/Command.ts"

/** Bytes of one checkpoint as they are put, at most (docs/decisions/16). */
export const MAX_CHECKPOINT_BYTES = 256 * 2 ** 20

/** How many of a live sandbox are kept, the newest; of a finished one the last is (docs/decisions/16). */
export const KEPT_CHECKPOINTS = 20

/** It has more than {@link MAX_CHECKPOINT_BYTES}. Trying again does not help until the sandbox holds less. */
export class CheckpointTooLarge extends Data.TaggedError("CheckpointTooLarge") {
  override get message() {
    return "The checkpoint is too large."
  }
}

/** One that the log tells of and of which the bytes are kept. */
export interface Checkpoint {
  /** 1, 2, …: rises within the sandbox. */
  readonly checkpoint: number
  /** The newest turn that had ended; `null`: there was none. */
  readonly turnId: Uuid | null
  readonly createdAt: DateTime.Utc
  /** How many are stored: what is put may be compressed. */
  readonly bytes: number
  readonly repos: ReadonlyArray<CheckpointRepo>
}

/** Bytes of what of one can be large: what its pages are measured by. */
export const bytesOf = ({ repos }: Checkpoint): number => repos.reduce((bytes, { repo, sha }) => bytes + repo.length + sha.length, 0)

/**
 * Sandboxes of which `Checkpoints.prune` may forget what it kept before this change, if time is not what it goes by: the sandbox, and
 * the one whose checkpoint it started with.
 */
export const letGo = ({ before, sandbox }: { readonly before: Sandbox; readonly sandbox: Sandbox }): ReadonlyArray<SandboxId> => {
  const { checkpoint, id, origin, restoring } = sandbox
  const ends = isSettled(sandbox.status) && !isSettled(before.status)
  const moves = checkpoint > KEPT_CHECKPOINTS && (checkpoint !== before.checkpoint || restoring !== before.restoring)
  const frees = before.checkpoint === 0 && (ends || checkpoint > 0)
  return [...(ends || moves ? [id] : []), ...(origin !== null && frees ? [origin.sandboxId] : [])]
}

/** Checked by `CheckpointsContract`. `StoreUnavailable`: retrying helps, and is safe everywhere. */
export class Checkpoints extends Context.Service<Checkpoints, {
  /**
   * Stores the content of the sandbox's next checkpoint and answers how many bytes are stored. It is not visible until
   * `sandbox.checkpoint` with that number is recorded under the same lease, and then only the last put of that lease counts. Nothing
   * is kept of a put that failed or was cut off. `content` is never whole in memory. `changes`: how much differs in it, for lists
   * (`SandboxDashboard.changes`).
   */
  put<E, R>(
    lease: Lease,
    checkpoint: number,
    content: Stream.Stream<Uint8Array, E, R>,
    changes?: ReadonlyArray<ChangeCounts>
  ): Effect.Effect<
    number,
    E | CheckpointTooLarge | StaleLease | StoreUnavailable,
    R
  >
  /**
   * The bytes as they were put. Fails when it begins, or in the middle if they are removed meanwhile or turn out to be damaged: a
   * stream that ends had all of them. The caller has checked whose sandbox it is.
   */
  get(id: SandboxId, checkpoint: number): Stream.Stream<Uint8Array, CheckpointNotFound | StoreUnavailable>
  /** Those with a number greater than `after`, ascending. The caller has checked whose sandbox it is. */
  list(id: SandboxId, after: number, limit: number): Effect.Effect<ReadonlyArray<Checkpoint>, StoreUnavailable>
  /**
   * Forgets, for up to `limit` sandboxes: what is older than the newest {@link KEPT_CHECKPOINTS} of a live one, all but the last of
   * a settled one, all of one that settled at `endedBefore` or earlier, and what puts left that can never be recorded. What a
   * sandbox is to go back to stays, and what a live fork starts with that has no checkpoint of its own yet. Says at how many it
   * looked: fewer than `limit`, nothing is left to do. Takes time by what it forgets, not by what there is.
   */
  prune(endedBefore: DateTime.Utc, limit: number): Effect.Effect<number, StoreUnavailable>
}>()("@slipway/domain/Checkpoints") {
}
