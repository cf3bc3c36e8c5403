/** Where the bytes of checkpoints are. The database says which there are and whose: `CheckpointsPostgres`. */
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import type { CheckpointNotFound } from "@slipway/domain/sandbox/ports/Checkpoints"
import type { StaleLease } from "@slipway/domain/sandbox/ports/Leases"
import type { StoreUnavailable } from "@slipway/domain/store/StoreUnavailable"
import type { Effect, Stream } from "effect"

/** The contents that one put stored. `id`: of the row in `checkpoint_contents`, which exists before the first byte and after the last. */
export interface ContentKey {
  readonly id: number
  readonly sandboxId: SandboxId
  readonly checkpoint: number
  /** The fence of the lease that the put named. */
  readonly fence: number
}

export interface CheckpointContents {
  /** As the database calls it. */
  readonly place: "database" | "folder" | "blobs"
  /** Stores all of the pieces, durably when it succeeds. What it leaves when it does not is for `remove`. */
  write<E, R>(key: ContentKey, pieces: Stream.Stream<Uint8Array, E, R>): Effect.Effect<void, E | StaleLease | StoreUnavailable, R>
  /** The pieces in order. May end early if they are removed meanwhile, so the caller compares the size. */
  read(key: ContentKey): Stream.Stream<Uint8Array, CheckpointNotFound | StoreUnavailable>
  /** Safe to do twice, and of what was never written. */
  remove(key: ContentKey): Effect.Effect<void, StoreUnavailable>
}
