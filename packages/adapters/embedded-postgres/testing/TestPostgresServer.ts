/** vitest globalSetup: one throw-away server for the run, or the one at TEST_DATABASE_URL. */
import { PgClient } from "@effect/sql-pg"
import { Effect, Exit, Redacted, Scope } from "effect"
import { SqlClient } from "effect/sql"
import { randomBytes } from "node:crypto"
import { mkdtemp, rm } from "node:fs/promises"
import os from "node:os"
import path from "node:path"
import type { TestProject } from "vitest/node"
import type {} from "./TestPostgres.ts"
import * as PostgresServer from "../src/PostgresServer.ts"

const throwAway = Effect.gen(function*() {
  const dataDir = yield* Effect.acquireRelease(
    Effect.promise(() => mkdtemp(path.join(os.tmpdir(), "slipway-test-"))),
    (folder) => Effect.promise(() => rm(folder, { recursive: true, force: true }))
  )
  const connection = yield* PostgresServer.start({ dataDir, durable: false })
  const query = new URLSearchParams({ host: path.dirname(connection.path), user: connection.username })
  return `postgres:///postgres?${query}`
})

/** Databases that test files did not drop: their templates, and more if they were killed. */
const dropAll = (url: string, prefix: string) =>
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const left = yield* sql<{ datname: string }>`SELECT datname FROM pg_database WHERE starts_with(datname, ${prefix})`
    for (const { datname } of left) yield* sql`DROP DATABASE IF EXISTS ${sql(datname)} WITH (FORCE)`
  }).pipe(Effect.provide(PgClient.layer({ url: Redacted.make(url) })))

export default async (project: TestProject) => {
  const scope = Scope.makeUnsafe()
  const given = process.env.TEST_DATABASE_URL
  const url = given ?? await Effect.runPromise(throwAway.pipe(
    Effect.onError((cause) => Scope.close(scope, Exit.failCause(cause))),
    Scope.provide(scope)
  ))
  const prefix = `slipway_test_${randomBytes(4).toString("hex")}_`
  project.provide("testPostgres", { url, prefix })
  return async () => {
    if (given !== undefined) await Effect.runPromise(dropAll(given, prefix))
    await Effect.runPromise(Scope.close(scope, Exit.void))
  }
}
