/** A table that only grows is a decision: each one is in the documentation, with what its rows are and when they go. */
import { assert, it } from "@effect/vitest"
import * as TestPostgres from "@slipway/embedded-postgres/testing/TestPostgres"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { readFileSync } from "node:fs"
import * as Migrations from "../src/Migrations.ts"

it.live("docs/capacity.md says of every table when its rows go", () =>
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const rows = yield* sql<{ readonly name: string }>`
      SELECT relname AS name FROM pg_class
      WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND relname <> 'effect_sql_migrations'`
    const page = readFileSync(new URL("../../../../docs/capacity.md", import.meta.url), "utf8")
    const [, section = ""] = page.split("## Size of the database")
    const told = section.split("\n").flatMap((line) => {
      const [, tables = "", what = "", goes = ""] = line.split(" | ").length === 3 ? ["", ...line.replace(/^\| /u, "").split(" | ")] : []
      return what === "" || goes === "" ? [] : Array.from(tables.matchAll(/`(\w+)`/gu), ([, name = ""]) => name)
    })
    assert.deepStrictEqual(told.toSorted(), rows.map(({ name }) => name).sort())
  }).pipe(Effect.provide(TestPostgres.layer(Migrations.layer))))
