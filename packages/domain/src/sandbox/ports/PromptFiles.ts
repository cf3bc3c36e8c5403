/** Port: the uploaded files of grants, and the sandboxes that use them (docs/decisions/21). Checked by `PromptFilesContract`. */
import * as Context from "effect/Context"
import type * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import type * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { SandboxId } from "../../ids/SandboxId.ts"
import type { StoreUnavailable } from "../../store/StoreUnavailable.ts"
import type { PromptFile } from "../schema/PromptFile.ts"

const MEBIBYTE = 1024 * 1024

/** Bytes of the unused files of a grant. */
export const MAX_UNUSED_BYTES = 200 * MEBIBYTE
/** The time until an unused file is deleted. */
export const UNUSED_FOR = Duration.hours(24)
/** Files of one sandbox. */
export const MAX_SANDBOX_FILES = 50
/** Bytes of the files of one sandbox together. */
export const MAX_SANDBOX_BYTES = 200 * MEBIBYTE
/** A use by a sandbox that does not exist ends after this time: its creation failed. */
export const CREATED_WITHIN = Duration.hours(1)

/** The grant has no such file, or it was deleted. */
export class PromptFileNotFound extends Schema.TaggedError<PromptFileNotFound>()("PromptFileNotFound", { id: Schema.String }) {
  override get message() {
    return `No such file: ${this.id}.`
  }
}

/** The unused files of the grant would have too many bytes. A retry helps after some were used or have expired. */
export class TooManyUnusedFiles extends Schema.TaggedError<TooManyUnusedFiles>()("TooManyUnusedFiles", {}) {
  override get message() {
    return `Files that no prompt uses may have ${MAX_UNUSED_BYTES / MEBIBYTE} MiB together. Use them, or wait until they expire.`
  }
}

/** The sandbox would have too many files, or too many bytes of them. A retry does not help. */
export class TooManyFiles extends Schema.TaggedError<TooManyFiles>()("TooManyFiles", {}) {
  override get message() {
    return `A sandbox may have ${MAX_SANDBOX_FILES} files with ${MAX_SANDBOX_BYTES / MEBIBYTE} MiB together.`
  }
}

/** An uploaded file and its grant. */
export interface StoredFile extends Omit<PromptFile, "object" | "expiresAt"> {
  readonly grantId: string
  /** A sandbox has used it. */
  readonly isUsed: boolean
}

/** A file whose bytes are to be deleted. */
export type LeftFile = Pick<StoredFile, "grantId" | "id" | "sha256" | "size">

/** After `StoreUnavailable`, retrying helps and is safe. */
export class PromptFiles extends Context.Service<PromptFiles, {
  /**
   * Records that the bytes of a file are about to be stored. The file cannot be found yet, but it counts for its grant. The limit of unused
   * bytes holds also among concurrent uploads.
   */
  begin(file: Omit<StoredFile, "isUsed">): Effect.Effect<void, StoreUnavailable | TooManyUnusedFiles>
  /** The bytes are stored: from now on the file is found. */
  complete(key: { readonly grantId: string; readonly id: string }): Effect.Effect<void, StoreUnavailable>
  /** Forgets a file that was begun and is not complete. Its bytes are deleted already. */
  discard(key: { readonly grantId: string; readonly id: string }): Effect.Effect<void, StoreUnavailable>
  /** Bytes of the grant's unused files. */
  unusedBytes(grantId: string, now: DateTime.Utc): Effect.Effect<number, StoreUnavailable>
  /** The file: an unused one for {@link UNUSED_FOR}, a used one for as long as a sandbox uses it. */
  find(key: { readonly grantId: string; readonly id: string }, now: DateTime.Utc): Effect.Effect<
    StoredFile,
    PromptFileNotFound | StoreUnavailable
  >
  /**
   * Adds the files to those of the sandbox, which need not exist yet, and returns them in the given order. `added`: those that it did
   * not use before. All or none: `PromptFileNotFound` names the first missing one.
   */
  use(
    sandbox: { readonly grantId: string; readonly id: SandboxId },
    ids: ReadonlyArray<string>,
    now: DateTime.Utc
  ): Effect.Effect<
    { readonly files: ReadonlyArray<StoredFile>; readonly added: ReadonlyArray<string> },
    PromptFileNotFound | StoreUnavailable | TooManyFiles
  >
  /** The files of the sandbox in the order in which they were added; none of a deleted sandbox. */
  ofSandbox(id: SandboxId): Effect.Effect<ReadonlyArray<StoredFile>, StoreUnavailable>
  /** Takes files back from the sandbox that `use` added in vain. A file without another use is unused again. */
  release(id: SandboxId, ids: ReadonlyArray<string>): Effect.Effect<void, StoreUnavailable>
  /**
   * Deletes up to `limit` files: unused ones after {@link UNUSED_FOR}, and those whose sandboxes were deleted, have no events any more,
   * or do not exist after {@link CREATED_WITHIN}. `remove` deletes the bytes of each. If it fails, the files stay and are tried again.
   * Returns the number of files. Files that another process deletes are skipped.
   */
  purge<E>(now: DateTime.Utc, limit: number, remove: (file: LeftFile) => Effect.Effect<void, E>): Effect.Effect<
    number,
    E | StoreUnavailable
  >
}>()("@slipway/domain/PromptFiles") {
}
