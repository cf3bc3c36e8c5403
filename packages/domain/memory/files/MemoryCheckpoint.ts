/** The saved trees of `WorkingTreesMemory`: JSON after the SHA-256 of its bytes. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { CheckpointDamaged } from "../../src/files/ports/WorkingTrees.ts"
import { sha256 } from "../../src/ids/Digest.ts"
import { RepoName } from "../../src/source/schema/RepoRef.ts"

const Commit = Schema.Struct({ files: Schema.Record(Schema.String, Schema.String), executables: Schema.Array(Schema.String) })

const Saved = Schema.Struct({
  repo: RepoName,
  baseSha: Schema.String,
  baseRef: Schema.NullOr(Schema.String),
  preparedAt: Schema.Int,
  sha: Schema.String,
  tree: Commit,
  published: Schema.NullOr(Schema.Struct({ sha: Schema.String, commit: Commit })),
  /** Our pushed commits by branch. */
  pushed: Schema.Array(Schema.Struct({ branch: Schema.String, commits: Schema.Array(Schema.String) }))
})
/** One saved tree. */
export type Saved = typeof Saved.Type

const Checkpoint = Schema.fromJsonString(Schema.Array(Saved))

const DIGEST = 64

/** The bytes of saved trees. */
export const encode = (trees: ReadonlyArray<Saved>): Effect.Effect<Uint8Array> =>
  Effect.map(Effect.orDie(Schema.encodeEffect(Checkpoint)(trees)), (json) => {
    const bytes = new TextEncoder().encode(json)
    return new TextEncoder().encode(`${sha256(bytes)}${json}`)
  })

/** The trees of saved bytes. Fails unless the digest matches. */
export const decode = (bytes: Uint8Array): Effect.Effect<ReadonlyArray<Saved>, CheckpointDamaged> => {
  const [digest, json] = [bytes.subarray(0, DIGEST), bytes.subarray(DIGEST)]
  const trees = new TextDecoder().decode(digest) === sha256(json)
    ? Schema.decodeOption(Checkpoint)(new TextDecoder("utf-8", { ignoreBOM: true }).decode(json))
    : Option.none()
  return Effect.mapError(Effect.fromOption(trees), () => new CheckpointDamaged({ detail: "It is not what was saved." }))
}
