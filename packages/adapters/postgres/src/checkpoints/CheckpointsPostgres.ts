/**
 * `Checkpoints` on Postgres: its tables say which checkpoints there are. Their contents are there too, or in another of the
 * `CheckpointContents`. `SandboxStorePostgres` makes them visible.
 */
import { Blobs } from "@slipway/domain/files/ports/Blobs"
import { Checkpoints, CheckpointNotFound } from "@slipway/domain/sandbox/ports/Checkpoints"
import { StoreUnavailable } from "@slipway/domain/store/StoreUnavailable"
import { type Array, Effect, Layer, Option, Stream } from "effect"
import { SqlClient } from "effect/sql"
import { Reads } from "../sql/Clients.ts"
import { guard } from "../sql/SqlFailure.ts"
import * as CheckpointBlobs from "./CheckpointBlobs.ts"
import * as CheckpointChunks from "./CheckpointChunks.ts"
import type { CheckpointContents } from "./CheckpointContents.ts"
import * as CheckpointFolder from "./CheckpointFolder.ts"
import { decompress } from "./Compression.ts"
import { makePrune } from "./prune.ts"
import { put, type Store } from "./put.ts"
import { checkpointRows } from "./statements/checkpoints.ts"
import { findContent } from "./statements/contents.ts"

/** Over the first of these contents; what earlier settings left in the others is still read and forgotten. */
export const make = Effect.fnUntraced(function*(contents: Array.NonEmptyReadonlyArray<CheckpointContents>) {
  const sql = yield* SqlClient.SqlClient
  const reads = (yield* Reads) ?? sql
  const store: Store = { sql, first: contents[0], contents }
  const find = findContent(sql)
  const page = checkpointRows(reads)

  return Checkpoints.of({
    put: (lease, checkpoint, content, changes) => put(store, lease, checkpoint, content, changes),

    get: (id, checkpoint) =>
      Stream.unwrap(Effect.map(guard(find([id, checkpoint])), ([found]) => {
        if (found === undefined) return Stream.fail(new CheckpointNotFound())
        const { fence, place, size } = found
        const content = contents.find((one) => one.place === place)
        if (content !== undefined) return decompress(content.read({ id: found.id, sandboxId: id, checkpoint, fence }), size)
        // Processes that know that place can read it, and this one when it is told of it.
        const problem = `checkpoints of sandbox ${id} are kept in a ${place} that this process was not told of`
        return Stream.fromEffect(Effect.andThen(Effect.logError(problem), Effect.fail(new StoreUnavailable({ cause: new Error(problem) }))))
      })),

    list: (id, after, limit) => guard(page([id, after, limit])),

    prune: makePrune(store)
  })
})

/** `folder`: absolute, `null`: none. `writes`: where new ones are kept; those in the other places are read and forgotten. */
export interface Places {
  readonly folder: string | null
  readonly writes: CheckpointContents["place"]
}

/** Contents in blobs are known if the caller provides `Blobs`, as `Stores` does. */
export const layerIn = ({ folder, writes }: Places): Layer.Layer<Checkpoints, never, SqlClient.SqlClient> =>
  Layer.effect(
    Checkpoints,
    Effect.gen(function*() {
      const blobs = yield* Effect.serviceOption(Blobs)
      const places = [
        yield* CheckpointChunks.make,
        ...(folder === null ? [] : [CheckpointFolder.make(folder)]),
        ...(Option.isNone(blobs) ? [] : [yield* Effect.provideService(CheckpointBlobs.make, Blobs, blobs.value)])
      ]
      const first = places.find(({ place }) => place === writes)
      if (first === undefined) return yield* Effect.die(new Error(`Checkpoints cannot be kept in ${writes}: it is not provided.`))
      return yield* make([first, ...places.filter((other) => other !== first)])
    })
  )

/** With the bytes in the database too. */
export const layer = layerIn({ folder: null, writes: "database" })
