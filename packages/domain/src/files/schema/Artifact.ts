/** Artifacts as they are sent (docs/decisions/32). */
import * as Schema from "effect/Schema"
import { Counter } from "../../text/Text.ts"
import { timestamp } from "../../time/Timestamp.ts"

/** A file that an agent left for people. */
export const Artifact = Schema.Struct({
  name: Schema.String.annotateKey({ description: "Its path below the folder, with `/` between names." }),
  mediaType: Schema.String.annotateKey({
    description: "By its first bytes: PNG, JPEG, GIF, WebP, AVIF, MP4, WebM or `text/plain`; everything else is `application/octet-stream`."
  }),
  size: Counter.annotateKey({ description: "Bytes." }),
  sha256: Schema.String.annotateKey({ description: "SHA-256 of its bytes, in hex." }),
  turnId: Schema.NullOr(Schema.String).annotateKey({ description: "The turn at whose end these bytes were stored." }),
  createdAt: timestamp("When these bytes were stored.")
}).annotate({ identifier: "Artifact" })
export type Artifact = typeof Artifact.Type

/** All artifacts of a sandbox: at most 50. */
export const ArtifactList = Schema.Struct({
  data: Schema.Array(Artifact).annotateKey({ description: "By name. At most 50." }),
  leftOut: Schema.NullOr(Schema.String).annotateKey({
    description: "Why files of the last turn were not stored, a sentence for people; `null`: all were."
  })
}).annotate({ identifier: "ArtifactList" })
export type ArtifactList = typeof ArtifactList.Type
