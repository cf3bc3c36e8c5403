/** Places of blobs for tests: a folder, and an object store. */
import { Blobs } from "@slipway/domain/files/ports/Blobs"
import { keyOf, putBytes } from "@slipway/testing/contracts/files/BlobsContract"
import { Effect, Layer, Redacted, Schedule } from "effect"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import path from "node:path"
import * as BlobsFolder from "../../src/blobs/BlobsFolder.ts"
import * as BlobsS3 from "../../src/blobs/s3/BlobsS3.ts"
import * as S3Address from "../../src/blobs/s3/S3Address.ts"
import type { S3Credentials } from "../../src/blobs/s3/S3Credentials.ts"
import * as S3Server from "../../testing/S3Server.ts"

/** A folder of its own, which goes with the scope. */
export const temporary = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(path.join(tmpdir(), "slipway-blobs-"))),
  (folder) => Effect.sync(() => rmSync(folder, { recursive: true, force: true }))
)

/** Makes a put and a removal, as `slipway doctor` does: later the folder shows that it is mounted. */
export const tried = Effect.gen(function*() {
  const blobs = yield* Blobs
  const key = keyOf("probe", "probe")
  yield* putBytes(key, "probe")
  yield* blobs.remove(key)
})

/** Over a folder of its own that was used before. */
export const folderLayer = Layer.unwrap(Effect.map(temporary, (folder) => {
  const layer = BlobsFolder.layer(folder)
  return Layer.effectDiscard(tried).pipe(Layer.provideMerge(layer))
}))

export const credentials: S3Credentials = {
  accessKeyId: S3Server.ACCESS_KEY,
  secretAccessKey: Redacted.make(S3Server.SECRET_KEY),
  sessionToken: null
}

/** Three attempts more, without pauses. */
export const pauses = Schedule.recurs(3)

export const addressOf = ({ endpoint }: S3Server.S3Server, prefix = "team/blobs") =>
  S3Address.parse(`s3://${S3Server.BUCKET}/${prefix}?endpoint=${endpoint}&region=${S3Server.REGION}`)

export const s3Layer = Layer.unwrap(Effect.map(
  S3Server.make(),
  (server) => BlobsS3.layer({ address: addressOf(server), credentials: Effect.succeed(credentials), pauses })
))
