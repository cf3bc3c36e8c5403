/**
 * `Checkpoints` on Postgres: which there are is in its tables, what they hold there too or in another of the `CheckpointContents`.
 * `SandboxStorePostgres` makes them visible.
 */
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { Checkpoints, CheckpointNotFound, KEPT_CHECKPOINTS } from "@slipway/domain/sandbox/ports/Checkpoints"
import { type Lease, StaleLease } from "@slipway/domain/sandbox/ports/Leases"
import { CheckpointRepo } from "@slipway/domain/sandbox/schema/SandboxEvent"
import type { ChangeCounts } from "@slipway/domain/source/schema/ChangeCounts"
import { StoreUnavailable } from "@slipway/domain/store/StoreUnavailable"
import { type Array, DateTime, Effect, Layer, Schema, Sink, Stream } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import { Reads } from "../Database.ts"
import { Instant } from "../sql/Instant.ts"
import { Int8 } from "../sql/Int8.ts"
import { guard } from "../sql/SqlFailure.ts"
import { textArray } from "../sql/TextArray.ts"
import * as CheckpointChunks from "./CheckpointChunks.ts"
import type { CheckpointContents, ContentKey } from "./CheckpointContents.ts"
import * as CheckpointFolder from "./CheckpointFolder.ts"
import { bounded, compress, decompress, inPieces } from "./Compression.ts"

/** Contents looked at in one statement when they are forgotten. */
const PAGE = 100

/** A put whose lease was taken away may write for so long, by the database's clock: a worker gives one up after a minute. */
const LATE_SECONDS = 3600

const jsonOf = (changes: ReadonlyArray<ChangeCounts> | undefined) => changes === undefined ? null : JSON.stringify(changes)

/** Over the first of these contents; what earlier settings left in the others is still read and forgotten. */
export const make = Effect.fnUntraced(function*(contents: Array.NonEmptyReadonlyArray<CheckpointContents>) {
  const sql = yield* SqlClient.SqlClient
  const reads = (yield* Reads) ?? sql
  const [first] = contents
  const in_ = (place: string) => contents.find((content) => content.place === place)
  const places = textArray(contents.map(({ place }) => place))

  const begin = ({ fence, sandboxId }: Lease, checkpoint: number) =>
    Effect.flatMap(
      guard(sql<{ readonly id: bigint }>`
        INSERT INTO checkpoint_contents (sandbox_id, checkpoint, fence, place)
        SELECT id, ${checkpoint}, fence, ${first.place} FROM sandboxes WHERE id = ${sandboxId} AND fence = ${fence} RETURNING id`),
      ([row]) => row === undefined ? Effect.fail(new StaleLease()) : Effect.succeed({ id: Number(row.id), sandboxId, checkpoint, fence })
    )

  const finish = ({ id }: ContentKey, size: number, bytes: number, changes: ReadonlyArray<ChangeCounts> | undefined) =>
    Effect.flatMap(
      guard(sql`
        UPDATE checkpoint_contents c SET size = ${size}, bytes = ${bytes}, changes = ${jsonOf(changes)}::jsonb FROM sandboxes s
        WHERE c.id = ${id} AND s.id = c.sandbox_id AND s.fence = c.fence RETURNING 1`),
      (rows) => rows.length === 0 ? Effect.fail(new StaleLease()) : Effect.void
    )

  /** The only piece in the database, and `finish`, in one statement: each commit waits for the disk. */
  const finishWith = (
    { id }: ContentKey,
    data: Uint8Array,
    { changes, size }: { readonly size: number; readonly changes: ReadonlyArray<ChangeCounts> | undefined }
  ) =>
    Effect.flatMap(
      guard(sql`
        WITH finished AS (
          UPDATE checkpoint_contents c SET size = ${size}, bytes = ${data.length}, changes = ${jsonOf(changes)}::jsonb FROM sandboxes s
          WHERE c.id = ${id} AND s.id = c.sandbox_id AND s.fence = c.fence RETURNING c.id
        )
        INSERT INTO checkpoint_chunks (content, n, data) SELECT id, 0, ${data} FROM finished RETURNING 1`),
      (rows) => rows.length === 0 ? Effect.fail(new StaleLease()) : Effect.void
    )

  const find = SqlSchema.findAll({
    Request: Schema.Tuple([SandboxId, Schema.Int]),
    Result: Schema.Struct({ id: Int8, fence: Int8, place: Schema.String, size: Int8 }),
    execute: ([id, checkpoint]) =>
      sql`
      SELECT c.id, c.fence, c.place, c.size FROM checkpoints k JOIN checkpoint_contents c ON c.id = k.content
      WHERE k.sandbox_id = ${id} AND k.checkpoint = ${checkpoint}`
  })

  const page = SqlSchema.findAll({
    Request: Schema.Tuple([SandboxId, Schema.Int, Schema.Int]),
    Result: Schema.Struct({
      checkpoint: Schema.Int,
      turnId: Schema.NullOr(Schema.String),
      createdAt: Instant,
      bytes: Int8,
      repos: Schema.Array(CheckpointRepo)
    }),
    execute: ([id, after, limit]) =>
      reads`
      SELECT checkpoint, turn_id AS "turnId", created_at AS "createdAt", bytes, repos FROM checkpoints
      WHERE sandbox_id = ${id} AND checkpoint > ${after} ORDER BY checkpoint LIMIT ${limit}`
  })

  const isSettled = sql.literal("s.status IN ('succeeded', 'failed', 'terminated')")

  /** Of a checkpoint `k` and its sandbox `s`. */
  const isForgotten = (endedBefore: DateTime.Utc) =>
    sql`(
    CASE WHEN ${isSettled} THEN k.checkpoint < s.checkpoint OR s.status_at <= ${DateTime.formatIso(endedBefore)}::timestamptz
      ELSE k.checkpoint <= s.checkpoint - ${KEPT_CHECKPOINTS} AND k.checkpoint IS DISTINCT FROM s.restoring END
    AND NOT EXISTS (
      SELECT FROM sandboxes f
      WHERE f.origin ->> 'sandboxId' = k.sandbox_id AND (f.origin ->> 'checkpoint')::integer = k.checkpoint AND f.checkpoint = 0
        AND f.status IN ('queued', 'creating', 'running', 'terminating')
    ))`

  /** Of a content `c` and its sandbox `s`: no put that goes on can use it, and no event makes it visible. */
  const isLeftover = sql`(
    NOT c.seen AND c.place = ANY(${places}::text[]) AND c.due_at <= now()
    AND (c.fence < s.fence OR c.checkpoint <= s.checkpoint OR ${isSettled} OR EXISTS (
      SELECT FROM checkpoint_contents l
      WHERE l.sandbox_id = c.sandbox_id AND l.checkpoint = c.checkpoint AND l.fence = c.fence AND l.id > c.id
    )))`

  /**
   * Forgets the checkpoints of up to `limit` sandboxes that are marked, and says of which. Their rows are locked before anything is
   * looked at: they change no more, nor do their marks, but for a fork's, which is waited for. Another one looks at others.
   */
  const forget = (endedBefore: DateTime.Utc, limit: number) =>
    sql.withTransaction(Effect.gen(function*() {
      const before = sql`${DateTime.formatIso(endedBefore)}::timestamptz`
      const rows = yield* sql<{ readonly id: SandboxId }>`
        SELECT s.id FROM checkpoint_marks m JOIN sandboxes s ON s.id = m.sandbox_id WHERE m.due_at <= ${before}
        ORDER BY m.due_at LIMIT ${limit} FOR NO KEY UPDATE OF s SKIP LOCKED`
      if (rows.length === 0) return []
      const ids = rows.map(({ id }) => id)
      const these = sql`ANY(${textArray(ids)}::text[])`
      yield* sql`DELETE FROM checkpoint_marks WHERE sandbox_id = ${these}`
      const ofThese = sql`k.sandbox_id = ${these} AND s.id = k.sandbox_id AND ${isForgotten(endedBefore)}`
      // A fork that is being recorded holds what it starts with. Only a second statement sees it when it is there.
      yield* sql`SELECT FROM checkpoints k, sandboxes s WHERE ${ofThese} ORDER BY k.sandbox_id, k.checkpoint FOR UPDATE OF k`
      yield* sql`DELETE FROM checkpoints k USING sandboxes s WHERE ${ofThese}`
      yield* sql`
        INSERT INTO checkpoint_marks (sandbox_id, due_at)
        SELECT s.id, s.status_at FROM sandboxes s
        WHERE s.id = ${these} AND ${isSettled} AND s.status_at > ${before}
          AND EXISTS (SELECT FROM checkpoints k WHERE k.sandbox_id = s.id)
        ON CONFLICT (sandbox_id) DO NOTHING`
      return ids
    }))

  const withLeftovers = (limit: number) =>
    Effect.map(
      sql<{ readonly id: SandboxId }>`
        SELECT DISTINCT id FROM (
          SELECT s.id FROM checkpoint_contents c JOIN sandboxes s ON s.id = c.sandbox_id WHERE ${isLeftover} LIMIT ${limit}
        ) found`,
      (rows) => rows.map(({ id }) => id)
    )

  const leftovers = SqlSchema.findAll({
    Request: Schema.Array(SandboxId),
    Result: Schema.Struct({
      id: Int8,
      sandboxId: SandboxId,
      checkpoint: Schema.Int,
      fence: Int8,
      place: Schema.String,
      /** Its put was not through, and may still write. */
      mayReturn: Schema.Boolean
    }),
    execute: (ids) =>
      sql`
      SELECT c.id, c.sandbox_id AS "sandboxId", c.checkpoint, c.fence, c.place,
        c.size IS NULL AND c.due_at = '-infinity' AS "mayReturn"
      FROM checkpoint_contents c JOIN sandboxes s ON s.id = c.sandbox_id
      WHERE s.id = ANY(${textArray(ids)}::text[]) AND ${isLeftover} ORDER BY c.id LIMIT ${PAGE}`
  })

  /** A row goes after its bytes: whatever is stored is found by it, also what a put stores that is killed late. */
  const remove = Effect.fnUntraced(function*(ids: ReadonlyArray<SandboxId>) {
    for (let found = PAGE; found === PAGE;) {
      const keys = yield* guard(leftovers(ids))
      for (const { mayReturn, place, ...key } of keys) {
        yield* in_(place)?.remove(key) ?? Effect.void
        yield* guard(
          mayReturn
            ? sql`UPDATE checkpoint_contents SET due_at = now() + make_interval(secs => ${LATE_SECONDS}) WHERE id = ${key.id}`
            : sql`DELETE FROM checkpoint_contents WHERE id = ${key.id}`
        )
      }
      found = keys.length
    }
  })

  return Checkpoints.of({
    put: Effect.fn("Checkpoints.put")(function*(lease, checkpoint, content, changes) {
      let [size, bytes] = [0, 0]
      const pieces = inPieces(compress(bounded(content, (told) => {
        size = told
      }))).pipe(Stream.tap((piece) => Effect.sync(() => void (bytes += piece.length))))
      // Of two puts the one that began last counts, so it has begun before any content is read.
      const key = yield* begin(lease, checkpoint)
      const storing = Effect.gen(function*() {
        const [head, rest] = yield* Stream.peel(pieces, Sink.take(2))
        const [only] = head
        if (first.place === "database" && only !== undefined && head.length === 1) return yield* finishWith(key, only, { size, changes })
        yield* first.write(key, Stream.concat(Stream.fromIterable(head), rest))
        yield* finish(key, size, bytes, changes)
      })
      return yield* storing.pipe(
        // Its row stays and says that the last put stored nothing. What cannot be removed now is when checkpoints are pruned.
        Effect.onError(() => Effect.ignore(first.remove(key))),
        Effect.map(() => bytes)
      )
    }, Effect.scoped),

    get: (id, checkpoint) =>
      Stream.unwrap(Effect.map(guard(find([id, checkpoint])), ([found]) => {
        if (found === undefined) return Stream.fail(new CheckpointNotFound())
        const { fence, place, size } = found
        const content = in_(place)
        if (content !== undefined) return decompress(content.read({ id: found.id, sandboxId: id, checkpoint, fence }), size)
        // Processes that know that place can read it, and this one when it is told of it.
        const problem = `checkpoints of sandbox ${id} are kept in a ${place} that this process was not told of`
        return Stream.fromEffect(Effect.andThen(Effect.logError(problem), Effect.fail(new StoreUnavailable({ cause: new Error(problem) }))))
      })),

    list: (id, after, limit) => guard(page([id, after, limit])),

    prune: Effect.fn("Checkpoints.prune")(function*(endedBefore, limit) {
      let found: ReadonlyArray<SandboxId> = yield* guard(forget(endedBefore, limit))
      const looked = new Set<SandboxId>()
      do {
        yield* remove(found)
        for (const id of found) looked.add(id)
        found = looked.size < limit ? yield* guard(withLeftovers(limit - looked.size)) : []
      } while (found.length > 0)
      return looked.size
    })
  })
})

/** `folder`: absolute, `null`: none. `writes`: where new ones are kept; those in the other place are read and forgotten. */
export interface Places {
  readonly folder: string | null
  readonly writes: CheckpointContents["place"]
}

export const layerIn = ({ folder, writes }: Places): Layer.Layer<Checkpoints, never, SqlClient.SqlClient> =>
  Layer.effect(
    Checkpoints,
    Effect.flatMap(CheckpointChunks.make, (database) => {
      if (folder === null) return make([database])
      const files = CheckpointFolder.make(folder)
      return make(writes === "folder" ? [files, database] : [database, files])
    })
  )

/** With the bytes in the database too. */
export const layer = layerIn({ folder: null, writes: "database" })
