/**
 * The schema of the database, one file an aggregate. Every statement may run again, so an upgrade runs them all: tables and indexes that
 * exist are left as they are, functions and triggers are replaced.
 *
 * Tables are found by the connection's `search_path`. Functions and triggers name the schema instead, written `SCHEMA.`, because they
 * must work with any `search_path`.
 */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { access, auditLog } from "./access.ts"
import { automations } from "./automations.ts"
import { artifacts, blobs, promptFiles } from "./blobs.ts"
import { checkpoints } from "./checkpoints.ts"
import { credits } from "./credits.ts"
import { events } from "./events.ts"
import { followedRepositories } from "./followedRepositories.ts"
import { localSource } from "./localSource.ts"
import { mcpServers } from "./mcpServers.ts"
import { models } from "./models.ts"
import { notifications } from "./notifications.ts"
import { partner } from "./partner.ts"
import { publications } from "./publications.ts"
import { rateLimits } from "./rateLimits.ts"
import { sandboxes } from "./sandboxes.ts"
import { sandboxTriggers } from "./sandboxTriggers.ts"
import { secrets } from "./secrets.ts"
import { webhooks } from "./webhooks.ts"
import { workers } from "./workers.ts"

/** A table comes after those that it references, and a function in SQL after its tables. */
const statements = [
  access,
  rateLimits,
  auditLog,
  sandboxes,
  sandboxTriggers,
  events,
  promptFiles,
  artifacts,
  publications,
  checkpoints,
  blobs,
  models,
  credits,
  partner,
  webhooks,
  notifications,
  workers,
  secrets,
  mcpServers,
  localSource,
  automations,
  followedRepositories
].flat()

const namesOf = (pattern: RegExp) => statements.flatMap((statement) => pattern.exec(statement)?.[1] ?? [])

export const tables = namesOf(/^CREATE (?:UNLOGGED )?TABLE IF NOT EXISTS (\w+)/u)
export const functions = namesOf(/^CREATE OR REPLACE FUNCTION (\w+)/u)

/** All statements for tables in `schema`, which the connection must search first. */
export const statementsIn = (schema: string): ReadonlyArray<string> =>
  statements.map((statement) => statement.replaceAll("SCHEMA.", `${schema}.`))

/** Creates what is missing in `schema`, which the connection must search first. */
export const create = Effect.fnUntraced(function*(schema: string) {
  const sql = yield* SqlClient.SqlClient
  for (const statement of statementsIn(schema)) yield* sql.unsafe(statement)
})
