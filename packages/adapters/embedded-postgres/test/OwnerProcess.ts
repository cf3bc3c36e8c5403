/** A service that owns the server of the data folder it is given, and prints each row once it is committed. */
import * as PgConnection from "@effect/sql-pg/PgConnection"
import { Effect } from "effect"
import { writeSync } from "node:fs"
import { EmbeddedPostgres } from "../src/EmbeddedPostgres.ts"

const say = (line: string) => Effect.sync(() => writeSync(1, `${line}\n`))

const commitForever = Effect.gen(function*() {
  const { connection } = yield* EmbeddedPostgres
  const session = yield* PgConnection.make(connection)
  yield* session.query("CREATE TABLE IF NOT EXISTS rows (n int PRIMARY KEY)")
  for (let n = 1;; n++) {
    yield* session.query("INSERT INTO rows VALUES ($1)", [n])
    yield* say(String(n))
  }
})

await commitForever.pipe(
  Effect.scoped,
  Effect.provide(EmbeddedPostgres.layer({ dataDir: process.argv[2] ?? "" })),
  Effect.catch((error) => say(error.message)),
  Effect.runPromise
)
