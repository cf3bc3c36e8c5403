import { inspect } from "node:util"
import { assert, it } from "@effect/vitest"
import { DateTime, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import * as IdsNode from "@slipway/adapters/node/IdsNode"
import * as AuditLogPostgres from "@slipway/adapters/postgres/AuditLogPostgres"
import * as MemberStorePostgres from "@slipway/adapters/postgres/MemberStorePostgres"
import * as Migrations from "@slipway/adapters/postgres/Migrations"
import * as TestPostgres from "@slipway/adapters/testing/TestPostgres"
import { AuditLog } from "@slipway/domain/access/AuditLog"
import { MemberStore } from "@slipway/domain/access/MemberStore"
import { suite } from "@slipway/domain/testing/AuditLogContract"

const layer = MemberStorePostgres.layer.pipe(
  Layer.provideMerge(AuditLogPostgres.layer),
  Layer.provideMerge(IdsNode.layer),
  Layer.provideMerge(TestPostgres.layer(Migrations.layer))
)

suite("postgres", layer)

it.layer(layer)("the table of the audit log", (it) => {
  const at = DateTime.makeUnsafe("2026-11-21T02:41:00.123Z")

  it.effect("takes no change of what was appended", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const log = yield* AuditLog
      yield* log.append([{ action: "user.approved", at, subjects: {} }])
      const before = yield* log.list({ since: null, limit: 10 })
      for (const change of [sql`UPDATE audit_log SET action = 'x'`, sql`DELETE FROM audit_log`, sql`TRUNCATE audit_log`]) {
        assert.include(inspect(yield* Effect.flip(change), { depth: null }), "audit_log is append only")
      }
      assert.deepStrictEqual(yield* log.list({ since: null, limit: 10 }), before)
    }))

  it.effect("has no entry of what was not committed", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const log = yield* AuditLog
      const members = yield* MemberStore
      const { organizationId } = yield* members.owner
      const before = yield* log.list({ since: null, limit: 10 })
      yield* Effect.flip(sql.withTransaction(Effect.andThen(members.suspend(organizationId, true, at), Effect.fail("no"))))
      assert.deepStrictEqual(yield* log.list({ since: null, limit: 10 }), before)
    }))
})
