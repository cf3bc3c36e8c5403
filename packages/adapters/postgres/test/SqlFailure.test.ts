import { assert, layer } from "@effect/vitest"
import { StoreUnavailable } from "@slipway/domain/store/StoreUnavailable"
import * as TestPostgres from "@slipway/embedded-postgres/testing/TestPostgres"
import { Cause, Effect, Exit, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { guard } from "../src/sql/SqlFailure.ts"

/** The error that a caller of a port gets when the server answers with this SQLSTATE. */
const told = Effect.fnUntraced(function*(code: string) {
  const sql = yield* SqlClient.SqlClient
  const exit = yield* Effect.exit(guard(sql.unsafe(`DO $$ BEGIN RAISE EXCEPTION 'planted' USING ERRCODE = '${code}'; END $$`)))
  return Exit.isFailure(exit) && Cause.squash(exit.cause) instanceof StoreUnavailable
    ? "unavailable"
    : Exit.isFailure(exit) && Cause.hasDies(exit.cause)
    ? "defect"
    : "neither"
})

layer(TestPostgres.layer(Layer.empty))("a statement that failed", (it) => {
  it.effect("may be repeated when the trouble passes", () =>
    Effect.gen(function*() {
      for (const code of ["08006", "25006", "40001", "40P01", "53100", "53200", "53300", "55P03", "57014", "57P01", "57P02", "57P03"]) {
        assert.strictEqual(yield* told(code), "unavailable", code)
      }
    }))

  it.effect("is a bug of ours when it does not", () =>
    Effect.gen(function*() {
      for (const code of ["0A000", "22001", "23503", "23505", "25000", "42601", "42501", "57000", "P0001", "XX000"]) {
        assert.strictEqual(yield* told(code), "defect", code)
      }
    }))
})
