import { assert, it } from "@effect/vitest"
import { AuditLog } from "@slipway/domain/access/ports/AuditLog"
import { MemberStore } from "@slipway/domain/access/ports/MemberStore"
import * as IdsNode from "@slipway/machine/node/IdsNode"
import { suite } from "@slipway/testing/contracts/access/AuditLogContract"
import { register } from "@slipway/testing/runners/Vitest"
import { DateTime, Deferred, Effect, Fiber, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { inspect } from "node:util"
import * as AuditLogPostgres from "../src/audit-log/AuditLogPostgres.ts"
import * as MemberStorePostgres from "../src/member-store/MemberStorePostgres.ts"
import { database } from "./Stores.ts"

const layer = MemberStorePostgres.layer.pipe(
  Layer.provideMerge(AuditLogPostgres.layer),
  Layer.provideMerge(IdsNode.layer),
  Layer.provideMerge(database())
)

register(suite("postgres", layer))

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

  it.effect("a follower gets entries that are committed late, even if appended before it began, and nothing that was rolled back", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const log = yield* AuditLog
      const append = (name: string) => log.append([{ action: "user.approved", at, subjects: { name } }])
      /** Appends, and ends the transaction when it is told to. */
      const open = Effect.fnUntraced(function*(name: string, end: Effect.Effect<void, string>) {
        const [appended, ending] = [yield* Deferred.make<void>(), yield* Deferred.make<void>()]
        const fiber = yield* Effect.forkChild(Effect.exit(sql.withTransaction(
          append(name).pipe(
            Effect.andThen(Deferred.succeed(appended, undefined)),
            Effect.andThen(Deferred.await(ending)),
            Effect.andThen(end)
          )
        )))
        yield* Deferred.await(appended)
        return Effect.andThen(Deferred.succeed(ending, undefined), Fiber.await(fiber))
      })
      const earlier = yield* open("earlier", Effect.void)
      yield* append("before")
      const news = yield* log.follow
      const names = Effect.map(news, (entries) => entries.map(({ subjects }) => subjects["name"]))
      const late = yield* open("late", Effect.void)
      const broken = yield* open("broken", Effect.fail("no"))
      yield* append("one")
      assert.deepStrictEqual(yield* names, ["one"])
      assert.deepStrictEqual(yield* names, [])
      yield* earlier
      assert.deepStrictEqual(yield* names, ["earlier"])
      yield* append("two")
      assert.deepStrictEqual(yield* names, ["two"])
      yield* broken
      yield* late
      yield* append("three")
      assert.deepStrictEqual(yield* names, ["late", "three"])
      assert.deepStrictEqual(yield* names, [])
      assert.deepStrictEqual(yield* names, [])
    }))

  it.effect("a follower gets each entry of many writers once", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const log = yield* AuditLog
      const news = yield* log.follow
      const written = Array.from({ length: 200 }, (_, i) => `many ${i}`)
      const writing = yield* Effect.forkChild(Effect.forEach(written, (name, i) =>
        sql.withTransaction(Effect.andThen(
          log.append([{ action: "user.approved", at, subjects: { name } }]),
          // Some stay open a little longer than others.
          sql`SELECT pg_sleep(${(i % 5) / 500})`
        )), { concurrency: 6, discard: true }))
      const told: Array<string | undefined> = []
      const look = Effect.map(news, (entries) => void told.push(...entries.map(({ subjects }) => subjects["name"])))
      while (writing.pollUnsafe() === undefined) yield* look
      yield* Fiber.join(writing)
      yield* look
      assert.deepStrictEqual(told.toSorted(), written.toSorted())
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
