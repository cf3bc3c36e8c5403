/** The cost of pruning checkpoints and events with many rows, and beside other work. */
import { assert, it } from "@effect/vitest"
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { Checkpoints, KEPT_CHECKPOINTS } from "@slipway/domain/sandbox/ports/Checkpoints"
import { Maintenance } from "@slipway/domain/sandbox/ports/Maintenance"
import { SandboxStore } from "@slipway/domain/sandbox/ports/SandboxStore"
import type { StoreUnavailable } from "@slipway/domain/store/StoreUnavailable"
import * as CheckpointsContract from "@slipway/testing/contracts/sandbox/CheckpointsContract"
import * as ForksContract from "@slipway/testing/contracts/sandbox/ForksContract"
import { at, drive, make } from "@slipway/testing/contracts/sandbox/SandboxStates"
import { DateTime, Deferred, Effect, Fiber } from "effect"
import { SqlClient } from "effect/sql"
import * as CheckpointsPostgres from "../src/checkpoints/CheckpointsPostgres.ts"
import { rowsRead } from "./RowsRead.ts"
import { stores } from "./Stores.ts"

const layer = stores(CheckpointsPostgres.layer)
const longAgo = DateTime.subtract(at, { days: 400 })

/** As many more of the sandbox with as many checkpoints as are kept; every second one of them is over. */
const multiply = Effect.fnUntraced(function*(id: SandboxId, count: number) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    INSERT INTO sandboxes
    SELECT copy.* FROM sandboxes s, generate_series(1, ${count}) n, jsonb_populate_record(s, jsonb_build_object(
      'id', 'c_' || translate(lpad(n::text, 12, '0'), '0123456789', 'abcdefghij'), 'checkpoint', ${KEPT_CHECKPOINTS},
      'status', CASE WHEN n % 2 = 0 THEN 'running' ELSE 'failed' END)) copy
    WHERE s.id = ${id}`
  yield* sql`
    INSERT INTO checkpoint_contents (sandbox_id, checkpoint, fence, place, size, bytes)
    SELECT s.id, n, s.fence, 'database', 1, 1 FROM sandboxes s, generate_series(1, ${KEPT_CHECKPOINTS}) n WHERE s.id <> ${id}`
  yield* sql`
    INSERT INTO checkpoints (sandbox_id, checkpoint, content, created_at, bytes, repos)
    SELECT c.sandbox_id, c.checkpoint, c.id, now(), 1, '[]' FROM checkpoint_contents c JOIN sandboxes s ON s.id = c.sandbox_id
    WHERE s.id <> ${id} AND (s.status = 'running' OR c.checkpoint = ${KEPT_CHECKPOINTS})`
  yield* sql`DELETE FROM checkpoint_contents WHERE NOT seen`
  yield* sql`
    INSERT INTO checkpoint_marks (sandbox_id, due_at) SELECT id, status_at FROM sandboxes WHERE status = 'failed' AND id <> ${id}`
  for (const table of ["sandboxes", "checkpoints", "checkpoint_contents", "checkpoint_marks"]) yield* sql`ANALYZE ${sql(table)}`
  const [row] = yield* sql<{ readonly count: bigint }>`SELECT count(*) FROM checkpoints`
  return Number(row?.count ?? 0)
})

it.live("pruning looks at what it forgets, however much there is", () =>
  Effect.gen(function*() {
    const checkpoints = yield* Checkpoints
    const { lease, sandbox } = yield* CheckpointsContract.worked()
    assert.isAbove(yield* multiply(sandbox.id, 2000), 20_000)
    const look = rowsRead(checkpoints.prune(longAgo, 20))
    const idle = yield* look
    assert.strictEqual(idle.result, 0)
    assert.isBelow(idle.rows, 20)
    const many = Array.from({ length: KEPT_CHECKPOINTS + 2 }, (_, i) => i + 1)
    yield* CheckpointsContract.take(sandbox, lease, many)
    yield* CheckpointsContract.putText(lease, many.length + 1, "left")
    yield* CheckpointsContract.takenOver(sandbox.id)
    const busy = yield* look
    assert.strictEqual(busy.result, 1)
    assert.isBelow(busy.rows, 500)
    assert.deepStrictEqual(yield* CheckpointsContract.numbers(sandbox.id), many.slice(2))
    assert.deepInclude(yield* look, { result: 0 })
  }).pipe(Effect.provide(layer)))

it.live("several processes that prune at once share what there is to do, and leave alone what another is at", () =>
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const checkpoints = yield* Checkpoints
    const sandboxes = yield* Effect.forEach(Array.from({ length: 12 }), () => ForksContract.checkpointed(3))
    for (const sandbox of sandboxes) yield* ForksContract.settle(sandbox)
    const [locked, go] = [yield* Deferred.make<void>(), yield* Deferred.make<void>()]
    const other = yield* Effect.forkChild(sql.withTransaction(Effect.gen(function*() {
      yield* sql`SELECT FROM sandboxes WHERE id = ${sandboxes[0]!.id} FOR UPDATE`
      yield* Deferred.succeed(locked, undefined)
      yield* Deferred.await(go)
    })))
    yield* Deferred.await(locked)
    const all = (limit: number): Effect.Effect<number, StoreUnavailable> =>
      Effect.flatMap(
        checkpoints.prune(longAgo, limit),
        (found) => found === 0 ? Effect.succeed(0) : Effect.map(all(limit), (n) => n + found)
      )
    yield* Effect.forEach([1, 2, 5, 100], all, { concurrency: "unbounded" })
    const kept = Effect.map(
      sql<{ readonly sandbox: string; readonly checkpoint: number }>`
        SELECT sandbox_id AS sandbox, checkpoint FROM checkpoint_contents WHERE seen ORDER BY id`,
      (rows) => rows.map(({ checkpoint, sandbox }) => [sandbox, checkpoint])
    )
    assert.deepStrictEqual(yield* kept, sandboxes.flatMap(({ id }, i) => (i === 0 ? [1, 2, 3] : [3]).map((n) => [id, n])))
    yield* Deferred.succeed(go, undefined)
    yield* Fiber.join(other)
    assert.strictEqual(yield* all(100), 1)
    assert.deepStrictEqual(yield* kept, sandboxes.map(({ id }) => [id, 3]))
  }).pipe(Effect.provide(layer)))

it.live("long logs are forgotten in slices, each of which stays forgotten, and the short one behind them too", () =>
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const maintenance = yield* Maintenance
    const store = yield* SandboxStore
    const fail = { _tag: "Fail", reason: "boot_failed", error: "No.", retryable: false } as const
    const ended = Effect.gen(function*() {
      return yield* drive(yield* make(), [{ _tag: "StartBoot" }, fail])
    })
    const [many, large, short] = [yield* ended, yield* ended, yield* ended]
    const EVENTS = 25_000
    const grow = (id: SandboxId, count: number, wire: string, earlier: number) =>
      Effect.andThen(
        sql`INSERT INTO sandbox_events (sandbox_id, seq, at, type, wire)
          SELECT ${id}, 100 + n, now(), 'message.updated', ${wire} FROM generate_series(1, ${count}) n`,
        sql`UPDATE sandboxes SET last_seq = 100 + ${count}, status_at = status_at - ${earlier} * interval '1 minute' WHERE id = ${id}`
      )
    yield* grow(many.id, EVENTS, "{}", 2)
    yield* grow(large.id, 50, JSON.stringify("x".repeat(1024 * 1024)), 1)
    const kept = Effect.map(
      sql<{ readonly events: bigint }>`SELECT count(*) AS events FROM sandbox_events`,
      ([row]) => Number(row?.events)
    )
    const slices: Array<number> = []
    let sandboxes = 0
    for (let more = true; more;) {
      const before = yield* kept
      const purged = yield* maintenance.purgeEvents(at, 20)
      slices.push(before - (yield* kept))
      sandboxes += purged.sandboxes
      more = purged.more
      if (slices.length === 1) assert.isAbove(yield* store.purged(many.id), 5000)
    }
    assert.isAtMost(Math.max(...slices), 10_000)
    assert.isAtLeast(slices.length, 5)
    assert.deepStrictEqual([sandboxes, yield* kept], [3, 0])
    for (const [id, last] of [[many.id, 100 + EVENTS], [large.id, 150], [short.id, short.lastSeq]] as const) {
      assert.strictEqual(yield* store.purged(id), last)
    }
  }).pipe(Effect.provide(layer)))
