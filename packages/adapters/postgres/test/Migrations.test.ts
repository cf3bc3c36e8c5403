/**
 * The effect of migrations on existing rows. `earlier/NNNN.json` has the rows, by table, that the stores wrote when migration NNNN was the
 * newest one.
 */
import { assert, it } from "@effect/vitest"
import { Ids } from "@slipway/domain/ids/Ids"
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { SandboxStore } from "@slipway/domain/sandbox/ports/SandboxStore"
import { sendMessage } from "@slipway/domain/sandbox/rules/Command"
import { turnId } from "@slipway/domain/sandbox/rules/Turn"
import { IdempotencyKey } from "@slipway/domain/sandbox/schema/Idempotency"
import * as TestPostgres from "@slipway/embedded-postgres/testing/TestPostgres"
import * as IdsNode from "@slipway/machine/node/IdsNode"
import { Context, DateTime, Effect, Layer } from "effect"
import { Migrator, SqlClient } from "effect/sql"
import { readFileSync } from "node:fs"
import * as HintsPostgres from "../src/HintsPostgres.ts"
import * as Migrations from "../src/Migrations.ts"
import * as SandboxStorePostgres from "../src/sandbox-store/SandboxStorePostgres.ts"

/** A database as it was when the migration of this number was the newest one, with the rows that were written then. */
const earlier = (number: string) =>
  Layer.effectDiscard(Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const tables: Record<string, unknown> = JSON.parse(readFileSync(new URL(`earlier/${number}.json`, import.meta.url), "utf8"))
    for (const [table, rows] of Object.entries(tables)) {
      yield* sql`INSERT INTO ${sql(table)} SELECT * FROM jsonb_populate_recordset(null::${sql(table)}, ${JSON.stringify(rows)}::jsonb)`
    }
    // They are found for some time only.
    yield* sql`UPDATE idempotency_keys SET created_at = now()`
  })).pipe(Layer.provideMerge(TestPostgres.layer(
    Layer.effectDiscard(
      Migrator.make({})({
        loader: Migrator.fromRecord(
          Object.fromEntries(Object.entries(Migrations.migrations).filter(([name]) => name.slice(0, 4) <= number))
        )
      })
    ),
    number
  )))

it.live("0020: a message that was sent before receipts kept turns is answered with the turn that it started", () =>
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const ids = yield* Ids
    yield* Layer.build(Migrations.layer)
    const kept = yield* sql<{ readonly id: string; readonly turnId: string }>`
      SELECT id, turn_id AS "turnId" FROM commands WHERE turn_id IS NOT NULL ORDER BY sandbox_id, revision`
    // In the one all commands came at the same time, in the other one by one.
    const sandboxes = ["c_aaaaaaaaaaaa", "c_bbbbbbbbbbbb"].map((id) => SandboxId.make(id))
    assert.deepStrictEqual(
      kept,
      sandboxes.flatMap((id) => [2, 3, 4, 5, 6].map((n) => ({ id: ids.derive(`${id}/message/${n}`), turnId: turnId(ids, id, n) })))
    )
    const { command } = Context.get(yield* Layer.build(SandboxStorePostgres.layer), SandboxStore)
    const [grant] = yield* sql<{ readonly id: string }>`SELECT id FROM grants`
    for (const id of sandboxes) {
      for (const n of [2, 3, 5, 6]) {
        const keyed = { key: IdempotencyKey.make(`turn-${n}`), fingerprint: `1:turn-${n}` }
        const again = yield* command({ grantId: grant?.id ?? "", id }, sendMessage(ids, "Again", "user-2"), yield* DateTime.now, keyed)
        assert.deepStrictEqual([again.result.outcome, again.turnId], ["duplicate", turnId(ids, id, n)])
      }
    }
  }).pipe(
    Effect.scoped,
    Effect.provide(HintsPostgres.layer.pipe(Layer.provideMerge(earlier("0019")), Layer.merge(IdsNode.layer)))
  ))
