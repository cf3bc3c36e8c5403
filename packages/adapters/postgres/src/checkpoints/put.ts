/** Storing the content of a checkpoint. */
import { type Lease, StaleLease } from "@slipway/domain/sandbox/ports/Leases"
import type { ChangeCounts } from "@slipway/domain/source/schema/ChangeCounts"
import { Effect, Sink, Stream } from "effect"
import type { SqlClient } from "effect/sql"
import { guard } from "../sql/SqlFailure.ts"
import type { CheckpointContents } from "./CheckpointContents.ts"
import { bounded, compress, inPieces } from "./Compression.ts"
import { finishContent, finishWithPiece, insertContent } from "./statements/contents.ts"

const begin = ({ first, sql }: Store, lease: Lease, checkpoint: number) =>
  Effect.flatMap(
    guard(insertContent(sql, lease, checkpoint, first)),
    ([row]) =>
      row === undefined
        ? Effect.fail(new StaleLease())
        : Effect.succeed({ id: Number(row.id), sandboxId: lease.sandboxId, checkpoint, fence: lease.fence })
  )

/** Fails with `StaleLease` when the statement wrote no row. */
const current = <E, R>(rows: Effect.Effect<ReadonlyArray<unknown>, E, R>) =>
  Effect.flatMap(guard(rows), ({ length }) => length === 0 ? Effect.fail(new StaleLease()) : Effect.void)

/** Dependencies of the functions of this store. */
export interface Store {
  readonly sql: SqlClient.SqlClient
  /** Where new contents are kept. */
  readonly first: CheckpointContents
  /** All places that contents may be in. */
  readonly contents: ReadonlyArray<CheckpointContents>
}

/** The number of bytes stored. The put that began last wins, so a put begins before it reads any content. */
export const put = Effect.fn("Checkpoints.put")(
  function*<E, R>(
    store: Store,
    lease: Lease,
    checkpoint: number,
    content: Stream.Stream<Uint8Array, E, R>,
    changes: ReadonlyArray<ChangeCounts> | undefined
  ) {
    const { first, sql } = store
    let [size, bytes] = [0, 0]
    const pieces = inPieces(compress(bounded(content, (told) => {
      size = told
    }))).pipe(Stream.tap((piece) => Effect.sync(() => void (bytes += piece.length))))
    const key = yield* begin(store, lease, checkpoint)
    const storing = Effect.gen(function*() {
      const [head, rest] = yield* Stream.peel(pieces, Sink.take(2))
      const [only] = head
      if (first.place === "database" && only !== undefined && head.length === 1) {
        return yield* current(finishWithPiece(sql, key.id, only, { size, changes }))
      }
      yield* first.write(key, Stream.concat(Stream.fromIterable(head), rest))
      yield* current(finishContent(sql, key.id, { size, bytes, changes }))
    })
    return yield* storing.pipe(
      // Its row stays and says that the last put stored nothing. Pruning removes what cannot be removed now.
      Effect.onError(() => Effect.ignore(first.remove(key))),
      Effect.map(() => bytes)
    )
  },
  Effect.scoped
)
