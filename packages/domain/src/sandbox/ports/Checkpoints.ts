/**
 * Port: the content of checkpoints (docs/decisions/16), from which another machine can continue a sandbox. The log lists the
 * checkpoints; this port stores their bytes. Checked by `CheckpointsContract`.
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

/** Bytes of one checkpoint before storage (docs/decisions/16). */
export const MAX_CHECKPOINT_BYTES = 256 * 2 ** 20

/** The number of newest checkpoints that are kept for a live sandbox. A settled sandbox keeps the last (docs/decisions/16). */
export const KEPT_CHECKPOINTS = 20

/** The content exceeds {@link MAX_CHECKPOINT_BYTES}. A retry does not help until the sandbox has less data. */
export class CheckpointTooLarge extends Data.TaggedError("CheckpointTooLarge") {
  override get message() {
    return "The checkpoint is too large."
  }
}

/** A checkpoint in the log whose bytes are stored. */
export interface Checkpoint {
  /** 1, 2, …: rising within the sandbox. */
  readonly checkpoint: number
  /** The newest turn that had ended; `null`: no turn had. */
  readonly turnId: Uuid | null
  readonly createdAt: DateTime.Utc
  /** Stored bytes; the content may be compressed. */
  readonly bytes: number
  readonly repos: ReadonlyArray<CheckpointRepo>
}

/** Bytes of the large fields of a checkpoint, for the limits of pages. */
export const bytesOf = ({ repos }: Checkpoint): number => repos.reduce((bytes, { repo, sha }) => bytes + repo.length + sha.length, 0)

/**
 * The sandboxes whose checkpoints `Checkpoints.prune` may delete because of this change: the sandbox, and the one whose checkpoint it
 * started with. Deletion by age is not included.
 */
export const letGo = ({ before, sandbox }: { readonly before: Sandbox; readonly sandbox: Sandbox }): ReadonlyArray<SandboxId> => {
  const { checkpoint, id, origin, restoring } = sandbox
  const ends = isSettled(sandbox.status) && !isSettled(before.status)
  const moves = checkpoint > KEPT_CHECKPOINTS && (checkpoint !== before.checkpoint || restoring !== before.restoring)
  const frees = before.checkpoint === 0 && (ends || checkpoint > 0)
  return [...(ends || moves ? [id] : []), ...(origin !== null && frees ? [origin.sandboxId] : [])]
}

/** Checked by `CheckpointsContract`. After `StoreUnavailable`, retrying helps and is safe. */
export class Checkpoints extends Context.Service<Checkpoints, {
  /**
   * Stores the content of the sandbox's next checkpoint and returns the number of stored bytes. It becomes visible when
   * `sandbox.checkpoint` with that number is recorded under the same lease; then only the last put of that lease counts. A failed or
   * interrupted put leaves nothing. Memory holds only parts of `content`. `changes`: the amount of changes in it, for lists
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
   * The bytes as they were put. Fails at the beginning, or in the middle if they are deleted or found damaged. A stream that ends
   * without an error is complete. The caller has checked access to the sandbox.
   */
  get(id: SandboxId, checkpoint: number): Stream.Stream<Uint8Array, CheckpointNotFound | StoreUnavailable>
  /** Checkpoints with a number greater than `after`, ascending; none of a deleted sandbox. The caller has checked access to the sandbox. */
  list(id: SandboxId, after: number, limit: number): Effect.Effect<ReadonlyArray<Checkpoint>, StoreUnavailable>
  /**
   * Deletes for up to `limit` sandboxes: all but the newest {@link KEPT_CHECKPOINTS} of a live one, all but the last of a settled one,
   * everything of a sandbox that settled at `endedBefore` or earlier, and puts that can never be recorded. Kept are the checkpoint to
   * be restored, and the start of a live fork without an own checkpoint, also of a deleted sandbox. `own`: other times than `endedBefore`
   * for the sandboxes of these grants. Returns the number of sandboxes examined; fewer than `limit` means done. The time
   * depends on the deleted data, not on all data.
   */
  prune(endedBefore: DateTime.Utc, limit: number, own?: ReadonlyMap<string, DateTime.Utc>): Effect.Effect<number, StoreUnavailable>
}>()("@slipway/domain/Checkpoints") {
}
