/** Contents that no checkpoint has, and that none will have. */
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { Effect, Schema } from "effect"
import { type SqlClient, SqlSchema } from "effect/sql"
import { Int8 } from "../../sql/Int8.ts"
import { textArray } from "../../sql/TextArray.ts"
import { IS_SETTLED } from "./checkpoints.ts"

/** Contents looked at in one statement when they are forgotten. */
export const PAGE = 100

/** A put whose lease was taken away may write for so long, by the database's clock: a worker gives one up after a minute. */
const LATE_SECONDS = 3600

/** Whether a content `c` of a sandbox `s` is one: no put that goes on can use it, and no event makes it visible. */
const isLeftoverOf = (sql: SqlClient.SqlClient, contents: ReadonlyArray<{ readonly place: string }>) => {
  const isSettled = sql.literal(IS_SETTLED)
  const places = textArray(contents.map(({ place }) => place))
  return sql`(
    NOT c.seen AND c.place = ANY(${places}::text[]) AND c.due_at <= now()
    AND (c.fence < s.fence OR c.checkpoint <= s.checkpoint OR ${isSettled} OR EXISTS (
      SELECT FROM checkpoint_contents l
      WHERE l.sandbox_id = c.sandbox_id AND l.checkpoint = c.checkpoint AND l.fence = c.fence AND l.id > c.id
    )))`
}

/** Sandboxes with leftovers in these places. */
export const sandboxesWithLeftovers = (
  sql: SqlClient.SqlClient,
  contents: ReadonlyArray<{ readonly place: string }>
) => {
  const isLeftover = isLeftoverOf(sql, contents)
  return (limit: number) =>
    Effect.map(
      sql<{ readonly id: SandboxId }>`
    SELECT DISTINCT id FROM (
      SELECT s.id FROM checkpoint_contents c JOIN sandboxes s ON s.id = c.sandbox_id WHERE ${isLeftover} LIMIT ${limit}
    ) found`,
      (rows) => rows.map(({ id }) => id)
    )
}

/** A page of the leftovers of these sandboxes. */
export const leftoverRows = (sql: SqlClient.SqlClient, contents: ReadonlyArray<{ readonly place: string }>) => {
  const isLeftover = isLeftoverOf(sql, contents)
  return SqlSchema.findAll({
    Request: Schema.Array(SandboxId),
    Result: Schema.Struct({
      id: Int8,
      sandboxId: SandboxId,
      checkpoint: Schema.Int,
      fence: Int8,
      place: Schema.String,
      /** Its put was not through, and may still write. */
      mayReturn: Schema.Boolean
    }),
    execute: (ids) =>
      sql`
      SELECT c.id, c.sandbox_id AS "sandboxId", c.checkpoint, c.fence, c.place,
        c.size IS NULL AND c.due_at = '-infinity' AS "mayReturn"
      FROM checkpoint_contents c JOIN sandboxes s ON s.id = c.sandbox_id
      WHERE s.id = ANY(${textArray(ids)}::text[]) AND ${isLeftover} ORDER BY c.id LIMIT ${PAGE}`
  })
}

/** Its put may still write: it is looked at again when it cannot any more. */
export const postponeLeftover = (sql: SqlClient.SqlClient, key: { readonly id: number }) =>
  sql`UPDATE checkpoint_contents SET due_at = now() + make_interval(secs => ${LATE_SECONDS}) WHERE id = ${key.id}`

export const deleteContent = (sql: SqlClient.SqlClient, key: { readonly id: number }) =>
  sql`DELETE FROM checkpoint_contents WHERE id = ${key.id}`
