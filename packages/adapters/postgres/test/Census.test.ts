/** The cost of counting sandboxes, and of a look-up in a long log, with many rows; and that the count is right. */
import { assert, it } from "@effect/vitest"
import { Ids } from "@slipway/domain/ids/Ids"
import { Maintenance } from "@slipway/domain/sandbox/ports/Maintenance"
import { SandboxStore } from "@slipway/domain/sandbox/ports/SandboxStore"
import { cancelMessage } from "@slipway/domain/sandbox/rules/Command"
import { at, atRest, make } from "@slipway/testing/contracts/sandbox/SandboxStates"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import * as CheckpointsPostgres from "../src/checkpoints/CheckpointsPostgres.ts"
import { rowsRead } from "./RowsRead.ts"
import { stores } from "./Stores.ts"

const layer = stores(CheckpointsPostgres.layer)
const COPIES = 2000

/** Many copies of a sandbox at rest. */
const many = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const { id } = yield* atRest(yield* make())
  yield* sql`
    INSERT INTO sandboxes
    SELECT copy.* FROM sandboxes s, generate_series(1, ${COPIES}) n, jsonb_populate_record(s, jsonb_build_object(
      'id', 'c_' || translate(lpad(n::text, 12, '0'), '0123456789', 'abcdefghij'))) copy
    WHERE s.id = ${id}`
  return id
})

it.live("the census looks at none of those at rest, also when they changed since they were vacuumed", () =>
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const maintenance = yield* Maintenance
    yield* many
    yield* sql`VACUUM ANALYZE sandboxes`
    yield* sql`UPDATE sandboxes SET work = 'turn', work_since = now()`
    yield* sql`UPDATE sandboxes SET work = NULL, work_since = NULL`
    yield* make()
    // The first reader clears dead rows away.
    yield* maintenance.census
    const { result, rows } = yield* rowsRead(maintenance.census, "sandboxes")
    assert.strictEqual(result.resting, COPIES + 1)
    assert.deepStrictEqual(result.live, { queued: 1, creating: 0, running: COPIES + 1, terminating: 0 })
    assert.isBelow(rows, 10)
  }).pipe(Effect.provide(layer)))

it.live("sandboxes at rest are known whatever process writes them: also an earlier version, and many at once", () =>
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const maintenance = yield* Maintenance
    const id = yield* many
    const wrong = Effect.map(
      sql`
        SELECT FROM resting_sandboxes r FULL JOIN (SELECT id FROM sandboxes WHERE status = 'running' AND work IS NULL) s
          ON s.id = r.sandbox_id WHERE s.id IS NULL OR r.sandbox_id IS NULL`,
      (rows) => rows.length
    )
    const resting = Effect.map(maintenance.census, (census) => census.resting)
    const expected = [COPIES + 1, COPIES, COPIES + 1, COPIES, 0]
    const steps = [
      sql`SELECT`,
      // Without what it needs a worker for, which that version did not know.
      sql`UPDATE sandboxes SET turn = jsonb_set(turn, '{state}', '"running"'), last_seq = last_seq + 1 WHERE id = ${id}`,
      sql`UPDATE sandboxes SET turn = jsonb_set(turn, '{state}', '"succeeded"'), last_seq = last_seq + 1 WHERE id = ${id}`,
      sql`UPDATE sandboxes SET status = 'failed', last_seq = last_seq + 1 WHERE id = ${id}`,
      sql`UPDATE sandboxes SET status = 'terminating', work = 'errand', work_since = now() WHERE id <> ${id}`
    ]
    for (const [i, step] of steps.entries()) {
      yield* step
      assert.strictEqual(yield* resting, expected[i])
      assert.strictEqual(yield* wrong, 0)
    }
  }).pipe(Effect.provide(layer)))

it.live("what is looked for in a long log is found by as many rows as it has", () =>
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const store = yield* SandboxStore
    const rested = yield* atRest(yield* make())
    yield* sql`
      INSERT INTO sandbox_events (sandbox_id, seq, at, type, wire)
      SELECT ${rested.id}, 1000 + n, now(), 'message.updated', '{}' FROM generate_series(1, ${COPIES}) n`
    yield* sql`
      INSERT INTO commands (id, sandbox_id, outcome, revision, turn_id, at)
      SELECT gen_random_uuid(), ${rested.id}, 'applied', n, gen_random_uuid(), now() FROM generate_series(1, ${COPIES}) n`
    yield* sql`VACUUM ANALYZE sandbox_events, commands`
    const log = yield* rowsRead(store.checkpointLog(rested.id, 0, 100), "sandbox_events")
    assert.deepStrictEqual([log.result.length, log.rows], [1, 1])
    const cancel = store.command({ grantId: rested.grantId, id: rested.id }, cancelMessage(yield* Ids, yield* (yield* Ids).uuid7), at)
    const refused = yield* rowsRead(Effect.flip(cancel), "commands")
    assert.deepStrictEqual([refused.result._tag, refused.rows], ["MessageNotFound", 0])
  }).pipe(Effect.provide(layer)))
