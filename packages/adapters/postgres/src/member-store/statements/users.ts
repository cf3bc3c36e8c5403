/** Users: by id, by lower-case address and by lower-case login, each unique. */
import type { BoundUser, Identity } from "@slipway/domain/access/rules/Identity"
import { DateTime, Schema } from "effect"
import { type SqlClient, SqlSchema } from "effect/sql"
import { BoundUserRow, Changed, USER_COLUMNS, UserRow } from "../rows/MemberRows.ts"

export const userWhere = (sql: SqlClient.SqlClient) => {
  const userColumns = sql.literal(USER_COLUMNS)
  return SqlSchema.findOneOption({
    Request: Schema.Struct({
      id: Schema.NullOr(Schema.String),
      email: Schema.NullOr(Schema.String),
      login: Schema.NullOr(Schema.String)
    }),
    Result: UserRow,
    execute: ({ email, id, login }) =>
      sql`
        SELECT ${userColumns} FROM users u
        WHERE id = ${id} OR lower(email) = lower(${email}) OR lower(github_login) = lower(${login}) LIMIT 1`
  })
}

/** The users that an identity may be: one by its subject, one by its login. */
export const selectRecognized = (sql: SqlClient.SqlClient, identity: Pick<Identity, "login" | "provider" | "subject">) => {
  const userColumns = sql.literal(USER_COLUMNS)
  const [id, name] = identity.provider === "github"
    ? [sql.literal("github_id"), sql.literal("github_login")]
    : [sql.literal("oidc_subject"), sql.literal("email")]
  return SqlSchema.findAll({
    Request: Schema.Struct({ subject: Schema.String, login: Schema.NullOr(Schema.String) }),
    Result: BoundUserRow,
    execute: ({ login, subject }) =>
      sql`
          SELECT ${userColumns}, u.github_id AS "githubId", u.oidc_subject AS "oidcSubject" FROM users u
          WHERE ${id} = ${subject} OR lower(${name}) = lower(${login})`
  })(identity)
}

/** Sign-ins and additions of users wait for each other. */
export const lockUsers = (sql: SqlClient.SqlClient) => sql`LOCK TABLE users IN SHARE ROW EXCLUSIVE MODE`

export const saveUser = (sql: SqlClient.SqlClient, { createdAt, email, githubId, githubLogin, id, name, oidcSubject }: BoundUser) =>
  sql`
      INSERT INTO users (id, name, email, github_login, github_id, oidc_subject, created_at)
      VALUES (${id}, ${name}, ${email}, ${githubLogin}, ${githubId}, ${oidcSubject}, ${DateTime.formatIso(createdAt)})
      ON CONFLICT (id) DO UPDATE SET email = excluded.email, github_login = excluded.github_login, github_id = excluded.github_id,
        oidc_subject = excluded.oidc_subject`

export const selectUsers = (sql: SqlClient.SqlClient) => {
  const userColumns = sql.literal(USER_COLUMNS)
  return SqlSchema.findAll({
    Request: Schema.Void,
    Result: UserRow,
    execute: () => sql`SELECT ${userColumns} FROM users u ORDER BY created_at, id`
  })(undefined)
}

/** Does nothing where the address or the login is somebody's. */
export const insertUser = (
  sql: SqlClient.SqlClient,
  { createdAt, email, githubLogin, id, name }: Pick<BoundUser, "createdAt" | "email" | "githubLogin" | "id" | "name">
) =>
  sql`
          INSERT INTO users (id, name, email, github_login, created_at)
          VALUES (${id}, ${name}, ${email}, ${githubLogin}, ${DateTime.formatIso(createdAt)}) ON CONFLICT DO NOTHING`

/** Locks the user first, to tell whether this changes anything. */
export const updateApproved = (sql: SqlClient.SqlClient, userId: string, approved: boolean, at: DateTime.Utc) => {
  const userColumns = sql.literal(USER_COLUMNS)
  return SqlSchema.findOneOption({
    Request: Schema.Struct({ approved: Schema.Boolean, at: Schema.String }),
    Result: Schema.Struct({ ...UserRow.fields, ...Changed }),
    execute: ({ approved, at }) =>
      sql`
            UPDATE users u
            SET approved_at = CASE WHEN ${approved}::boolean THEN coalesce(u.approved_at, ${at}::timestamptz) END
            FROM (SELECT id, approved_at IS NOT NULL AS approved FROM users WHERE id = ${userId} FOR UPDATE) before
            WHERE u.id = before.id RETURNING ${userColumns}, before.approved <> ${approved}::boolean AS changed`
  })({ approved, at: DateTime.formatIso(at) })
}
