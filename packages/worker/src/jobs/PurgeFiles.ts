/** Deletes files of prompts, and artifacts, that nothing needs any more, with their bytes (docs/decisions/21, 29 and 32). */
import { ArtifactStore } from "@slipway/domain/files/ports/ArtifactStore"
import { Blobs } from "@slipway/domain/files/ports/Blobs"
import { PromptFiles } from "@slipway/domain/sandbox/ports/PromptFiles"
import { DateTime, Effect, Option } from "effect"

/** Files in one transaction, which waits for the removal of their bytes. */
const FILES = 20

/** Any worker may do it: workers skip files that another worker deletes. */
export const purgeFiles = Effect.fn("PurgeFiles.purgeFiles")(function*() {
  const files = yield* Effect.serviceOption(PromptFiles)
  const artifacts = yield* Effect.serviceOption(ArtifactStore)
  const blobs = yield* Effect.serviceOption(Blobs)
  if (Option.isNone(blobs)) return
  if (Option.isSome(artifacts)) {
    for (let deleted = FILES; deleted === FILES;) deleted = yield* artifacts.value.purge(yield* DateTime.now, FILES, blobs.value.remove)
  }
  if (Option.isNone(files)) return
  const remove = ({ grantId, id, sha256, size }: Parameters<Parameters<typeof files.value.purge>[2]>[0]) =>
    blobs.value.remove({ grantId, holder: id, sha256, size })
  for (let deleted = FILES; deleted === FILES;) deleted = yield* files.value.purge(yield* DateTime.now, FILES, remove)
})
