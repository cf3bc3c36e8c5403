/** `ArtifactStore` on Postgres. */
import { ArtifactStore } from "@slipway/domain/files/ports/ArtifactStore"
import { StaleLease } from "@slipway/domain/sandbox/ports/Leases"
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { guard } from "../sql/SqlFailure.ts"
import * as statements from "./statements.ts"

export const layer = Layer.effect(
  ArtifactStore,
  Effect.map(SqlClient.SqlClient, (sql) =>
    ArtifactStore.of({
      begin: Effect.fn("ArtifactStore.begin")(function*(lease, piece, now) {
        const [row] = yield* statements.insertPiece(sql, lease, piece, now)
        return row ?? (yield* new StaleLease())
      }, guard),
      save: Effect.fn("ArtifactStore.save")(function*(lease, saved) {
        const holders = saved.artifacts.flatMap(({ pieces }) => pieces.map(({ holder }) => holder))
        yield* sql.withTransaction(Effect.gen(function*() {
          if ((yield* statements.upsertList(sql, lease, saved)).length === 0) return yield* new StaleLease()
          yield* statements.markUsed(sql, lease.sandboxId, holders)
        }))
      }, guard),
      find: Effect.fn("ArtifactStore.find")(function*(id) {
        const [list] = yield* statements.selectList(sql, id)
        return list ?? { artifacts: [], leftOut: null }
      }, guard),
      purge: <E>(
        now: Parameters<ArtifactStore["Service"]["purge"]>[0],
        limit: number,
        remove: Parameters<typeof ArtifactStore.Service.purge<E>>[2]
      ) =>
        sql.withTransaction(Effect.gen(function*() {
          yield* statements.deleteLists(sql)
          const left = yield* statements.deleteLeft(sql, now, limit)
          // The transaction is rolled back if a removal fails, so the rest is tried again.
          yield* Effect.forEach(left, remove, { discard: true })
          return left.length
        })).pipe(Effect.withSpan("ArtifactStore.purge"), guard)
    }))
)
