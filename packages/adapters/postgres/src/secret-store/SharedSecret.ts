/** A secret that every process on one database shares. */
import { Redaction } from "@slipway/domain/environment/redaction/Redaction"
import { Effect, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { randomBytes } from "node:crypto"
import { guard } from "../sql/SqlFailure.ts"

/** The secret of that name: 32 random bytes in base64url, drawn by the first process that asks. */
export const load = Effect.fn("SharedSecret.load")(function*(name: string) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`INSERT INTO secrets (name, value) VALUES (${name}, ${randomBytes(32).toString("base64url")}) ON CONFLICT DO NOTHING`
  const [row] = yield* sql<{ readonly value: string }>`SELECT value FROM secrets WHERE name = ${name}`
  const value = row?.value ?? ""
  ;(yield* Redaction).learn(value)
  return Redacted.make(value)
}, guard)
