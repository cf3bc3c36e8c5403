/** The bytes of files, where the settings say. */
import type { BlobKey, Blobs } from "@slipway/domain/files/ports/Blobs"
import * as BlobsFolder from "@slipway/machine/blobs/BlobsFolder"
import * as BlobsS3 from "@slipway/machine/blobs/s3/BlobsS3"
import { urlOf } from "@slipway/machine/blobs/s3/S3Address"
import * as S3Credentials from "@slipway/machine/blobs/s3/S3Credentials"
import { Effect, type Layer, Stream } from "effect"
import { createHash, randomUUID } from "node:crypto"
import type { Settings } from "../../settings/Settings.ts"

/** `undefined`: they are in the database. */
export const layer = ({ blobs }: Pick<Settings, "blobs">): Layer.Layer<Blobs> | undefined => {
  if (blobs.kind === "database") return undefined
  if (blobs.kind === "folder") return BlobsFolder.layer(blobs.folder)
  const { address, credentials } = blobs
  return BlobsS3.layer({
    address,
    credentials: "file" in credentials ? S3Credentials.ofFile(credentials.file) : Effect.succeed(credentials)
  })
}

/** The place for people, without any secret. */
export const nameOf = ({ blobs }: Pick<Settings, "blobs">): string => {
  if (blobs.kind === "database") return "in the database"
  return blobs.kind === "folder" ? `in ${blobs.folder}` : `at ${urlOf(blobs.address, "").replace(/\/$/u, "")}`
}

const utf8 = new TextEncoder()

/** Stores a blob, reads it and removes it. `null`: that works; else what hinders it, for an operator. */
export const problemOf = Effect.fn("BlobPlace.problemOf")(function*(blobs: Blobs["Service"]) {
  const bytes = utf8.encode(`probe ${randomUUID()}`)
  const key: BlobKey = {
    grantId: "probe",
    holder: `doctor-${randomUUID()}`,
    sha256: createHash("sha256").update(bytes).digest("hex"),
    size: bytes.length
  }
  return yield* blobs.put(key, Stream.make(bytes)).pipe(
    Effect.andThen(Stream.runDrain(blobs.get(key))),
    Effect.andThen(blobs.remove(key)),
    Effect.as(null),
    Effect.catch((error) => Effect.succeed("cause" in error && error.cause instanceof Error ? error.cause.message : error.message))
  )
})
