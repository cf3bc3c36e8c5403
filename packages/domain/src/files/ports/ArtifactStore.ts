/** Port: the artifacts of sandboxes, and the pieces with their bytes (docs/decisions/32). Checked by `ArtifactStoreContract`. */
import * as Context from "effect/Context"
import type * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import type * as Effect from "effect/Effect"
import type { SandboxId } from "../../ids/SandboxId.ts"
import type { Lease, StaleLease } from "../../sandbox/ports/Leases.ts"
import type { StoreUnavailable } from "../../store/StoreUnavailable.ts"
import type { Artifact } from "../schema/Artifact.ts"

/** Bytes of a piece: a blob of `Blobs`. Only the last piece of a file is smaller. */
export const MAX_PIECE_BYTES = 8 * 1024 * 1024

/** A piece that no artifact has is deleted after this time. It is far more than a collection may take. */
export const UNUSED_PIECE_FOR = Duration.hours(1)

/** The key of a blob without its grant. Equal bytes of one sandbox are one piece. */
export interface ArtifactPiece {
  readonly holder: string
  readonly sha256: string
  readonly size: number
}

/** An artifact with its pieces in order. */
export interface StoredArtifact extends Artifact {
  readonly pieces: ReadonlyArray<ArtifactPiece>
}

/** The artifacts of a sandbox. */
export interface StoredArtifacts {
  /** By name. */
  readonly artifacts: ReadonlyArray<StoredArtifact>
  /** Why files of the last collection were left out; `null`: all were stored. */
  readonly leftOut: string | null
}

/** A piece whose bytes are to be deleted. */
export interface LeftPiece extends ArtifactPiece {
  readonly grantId: string
}

/** After `StoreUnavailable`, retrying helps and is safe. */
export class ArtifactStore extends Context.Service<ArtifactStore, {
  /**
   * Records that the bytes of a piece are about to be stored, and returns its holder: `piece.holder`, or that of the same bytes if the
   * sandbox has them. `isStored`: the bytes are stored already. From now on the piece is not purged for {@link UNUSED_PIECE_FOR}.
   */
  begin(lease: Lease, piece: ArtifactPiece, now: DateTime.Utc): Effect.Effect<
    { readonly holder: string; readonly isStored: boolean },
    StaleLease | StoreUnavailable
  >
  /** Replaces the artifacts of the sandbox. The bytes of all their pieces are stored. Pieces that no artifact has any more are purged. */
  save(lease: Lease, artifacts: StoredArtifacts): Effect.Effect<void, StaleLease | StoreUnavailable>
  /** None for a sandbox that is unknown or deleted. */
  find(id: SandboxId): Effect.Effect<StoredArtifacts, StoreUnavailable>
  /**
   * Deletes up to `limit` pieces: unused ones after {@link UNUSED_PIECE_FOR}, and those of sandboxes that were deleted or have no events
   * any more, with the artifacts. `remove` deletes the bytes of each. If it fails, the pieces stay and are tried again. Returns the
   * number of pieces. Pieces that another process deletes are skipped.
   */
  purge<E>(now: DateTime.Utc, limit: number, remove: (piece: LeftPiece) => Effect.Effect<void, E>): Effect.Effect<
    number,
    E | StoreUnavailable
  >
}>()("@slipway/domain/ArtifactStore") {
}
