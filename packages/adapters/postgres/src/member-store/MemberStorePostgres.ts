/** `MemberStore` on Postgres. */
import { Acting, AuditLog } from "@slipway/domain/access/ports/AuditLog"
import { MemberNotFound, MemberStore, OrganizationNotFound, UserNotFound } from "@slipway/domain/access/ports/MemberStore"
import { type BoundUser, type Identity, recognize } from "@slipway/domain/access/rules/Identity"
import type { Member } from "@slipway/domain/access/rules/User"
import { Role } from "@slipway/domain/access/schema/User"
import { Ids } from "@slipway/domain/ids/Ids"
import { DateTime, Effect, Layer, Option, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import * as AuditLogPostgres from "../audit-log/AuditLogPostgres.ts"
import { Instant } from "../sql/Instant.ts"
import { guard } from "../sql/SqlFailure.ts"

const OrganizationRow = Schema.Struct({
  id: Schema.String,
  name: Schema.String,
  createdAt: Instant,
  suspendedAt: Schema.NullOr(Instant)
})

const UserRow = Schema.Struct({
  id: Schema.String,
  name: Schema.String,
  email: Schema.NullOr(Schema.String),
  githubLogin: Schema.NullOr(Schema.String),
  createdAt: Instant,
  approvedAt: Schema.NullOr(Instant)
})

const BoundUserRow = Schema.Struct({ ...UserRow.fields, githubId: Schema.NullOr(Schema.String) })

const MemberRow = Schema.Struct({ ...UserRow.fields, role: Role, active: Schema.Boolean })

const memberOf = ({ active, role, ...user }: typeof MemberRow.Type): Member => ({ user, role, active })
/** Whether an update changed anything but repeated what was so. */
const Changed = { changed: Schema.Boolean }

/** With the `AuditLog` it tells. */
export const layer = Layer.effect(
  MemberStore,
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const ids = yield* Ids
    const audit = yield* AuditLog

    const organizationColumns = sql.literal(`o.id, o.name, o.created_at AS "createdAt", o.suspended_at AS "suspendedAt"`)
    const userColumns = sql.literal(`
      u.id, u.name, u.email, u.github_login AS "githubLogin", u.created_at AS "createdAt", u.approved_at AS "approvedAt"`)

    const userWhere = SqlSchema.findOneOption({
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

    const recognition = Effect.fnUntraced(function*(identity: Identity, fresh: Parameters<MemberStore["Service"]["recognize"]>[1]) {
      const known = yield* SqlSchema.findAll({
        Request: Schema.Struct({ subject: Schema.String, login: Schema.String }),
        Result: BoundUserRow,
        execute: ({ login, subject }) =>
          sql`
          SELECT ${userColumns}, u.github_id AS "githubId" FROM users u
          WHERE github_id = ${subject} OR lower(github_login) = lower(${login})`
      })(identity)
      const login = identity.login.toLowerCase()
      return recognize(identity, {
        bySubject: known.find(({ githubId }) => githubId === identity.subject) ?? null,
        byLogin: known.find(({ githubLogin }) => githubLogin?.toLowerCase() === login) ?? null
      }, fresh)
    })

    const write = ({ createdAt, email, githubId, githubLogin, id, name }: BoundUser) =>
      sql`
      INSERT INTO users (id, name, email, github_login, github_id, created_at)
      VALUES (${id}, ${name}, ${email}, ${githubLogin}, ${githubId}, ${DateTime.formatIso(createdAt)})
      ON CONFLICT (id) DO UPDATE SET github_login = excluded.github_login, github_id = excluded.github_id`

    return MemberStore.of({
      owner: guard(Effect.gen(function*() {
        const known = sql<{ readonly organizationId: string; readonly userId: string }>`
          SELECT organization_id AS "organizationId", user_id AS "userId" FROM owner`
        const [found] = yield* known
        if (found !== undefined) return found
        return yield* sql.withTransaction(Effect.gen(function*() {
          // Whoever comes second waits here and then finds the first one's row.
          yield* sql`LOCK TABLE owner IN EXCLUSIVE MODE`
          const [existing] = yield* known
          if (existing !== undefined) return existing
          const made = { organizationId: yield* ids.uuid7, userId: `user_${yield* ids.ulid}` }
          yield* sql`INSERT INTO organizations (id, name) VALUES (${made.organizationId}, 'default')`
          yield* sql`INSERT INTO users (id, name, approved_at) VALUES (${made.userId}, 'owner', now())`
          yield* sql`INSERT INTO memberships (organization_id, user_id, role) VALUES (${made.organizationId}, ${made.userId}, 'owner')`
          yield* sql`INSERT INTO owner (organization_id, user_id) VALUES (${made.organizationId}, ${made.userId})`
          return made
        }))
      })),

      organizations: guard(
        SqlSchema.findAll({
          Request: Schema.Void,
          Result: OrganizationRow,
          execute: () => sql`SELECT ${organizationColumns} FROM organizations o ORDER BY created_at, id`
        })(undefined)
      ),

      createOrganization: Effect.fn("MemberStore.createOrganization")(
        function*({ createdAt, id, name }) {
          const made = yield* sql`
          INSERT INTO organizations (id, name, created_at) VALUES (${id}, ${name}, ${DateTime.formatIso(createdAt)})
          ON CONFLICT (name) DO NOTHING RETURNING 1`
          if (made.length > 0) yield* audit.append([{ action: "organization.added", at: createdAt, subjects: { organizationId: id } }])
          const [organization] = yield* SqlSchema.findAll({
            Request: Schema.String,
            Result: OrganizationRow,
            execute: (name) => sql`SELECT ${organizationColumns} FROM organizations o WHERE name = ${name}`
          })(name)
          return { organization: yield* Effect.orDie(Effect.fromNullishOr(organization)), made: made.length > 0 }
        },
        sql.withTransaction,
        guard
      ),

      suspend: Effect.fn("MemberStore.suspend")(
        function*(organizationId, suspended, at) {
          const found = yield* SqlSchema.findOneOption({
            Request: Schema.Struct({ suspended: Schema.Boolean, at: Schema.String }),
            Result: Schema.Struct({ ...OrganizationRow.fields, ...Changed }),
            execute: ({ at, suspended }) =>
              sql`
            UPDATE organizations o
            SET suspended_at = CASE WHEN ${suspended}::boolean THEN coalesce(o.suspended_at, ${at}::timestamptz) END
            FROM (SELECT id, suspended_at IS NOT NULL AS suspended FROM organizations WHERE id::text = ${organizationId} FOR UPDATE) before
            WHERE o.id = before.id RETURNING ${organizationColumns}, before.suspended <> ${suspended}::boolean AS changed`
          })({ suspended, at: DateTime.formatIso(at) })
          if (Option.isNone(found)) return yield* new OrganizationNotFound({ organization: organizationId })
          const { changed, ...organization } = found.value
          if (changed) {
            yield* audit.append([{
              action: suspended ? "organization.suspended" : "organization.resumed",
              at,
              subjects: { organizationId }
            }])
          }
          return organization
        },
        sql.withTransaction,
        guard
      ),

      users: guard(
        SqlSchema.findAll({
          Request: Schema.Void,
          Result: UserRow,
          execute: () => sql`SELECT ${userColumns} FROM users u ORDER BY created_at, id`
        })(undefined)
      ),

      findUser: Effect.fn("MemberStore.findUser")(function*(handle) {
        return Option.getOrNull(
          yield* userWhere({
            id: handle._tag === "Id" ? handle.id : null,
            email: handle._tag === "Email" ? handle.email : null,
            login: handle._tag === "GithubLogin" ? handle.login : null
          })
        )
      }, guard),

      addUser: Effect.fn("MemberStore.addUser")(function*({ createdAt, email, githubLogin, id, name }) {
        yield* sql`
          INSERT INTO users (id, name, email, github_login, created_at)
          VALUES (${id}, ${name}, ${email}, ${githubLogin}, ${DateTime.formatIso(createdAt)}) ON CONFLICT DO NOTHING`
        // A statement of its own, so that it sees whose address or login it was.
        return yield* Effect.fromOption(yield* userWhere({ id, email, login: githubLogin })).pipe(Effect.orDie)
      }, guard),

      recognize: Effect.fn("MemberStore.recognize")(function*(identity, fresh) {
        const known = yield* recognition(identity, fresh)
        const { user: { githubId: _, ...user } } = known.events.length === 0 ? known : yield* sql.withTransaction(Effect.gen(function*() {
          // Whoever comes second, to sign in or to add a user, waits here and then finds what the first one made.
          yield* sql`LOCK TABLE users IN SHARE ROW EXCLUSIVE MODE`
          const { events, user, without } = yield* recognition(identity, fresh)
          // First, so that the login is nobody's when the other one gets it.
          if (without !== null) yield* write(without)
          if (events.length > 0) yield* write(user)
          yield* Effect.provideService(audit.append(events), Acting, { _tag: "User", userId: user.id })
          return { user }
        }))
        return user
      }, guard),

      approve: Effect.fn("MemberStore.approve")(
        function*(userId, approved, at) {
          const found = yield* SqlSchema.findOneOption({
            Request: Schema.Struct({ approved: Schema.Boolean, at: Schema.String }),
            Result: Schema.Struct({ ...UserRow.fields, ...Changed }),
            execute: ({ approved, at }) =>
              sql`
            UPDATE users u
            SET approved_at = CASE WHEN ${approved}::boolean THEN coalesce(u.approved_at, ${at}::timestamptz) END
            FROM (SELECT id, approved_at IS NOT NULL AS approved FROM users WHERE id = ${userId} FOR UPDATE) before
            WHERE u.id = before.id RETURNING ${userColumns}, before.approved <> ${approved}::boolean AS changed`
          })({ approved, at: DateTime.formatIso(at) })
          if (Option.isNone(found)) return yield* new UserNotFound({ user: userId })
          const { changed, ...user } = found.value
          if (changed) yield* audit.append([{ action: approved ? "user.approved" : "user.disapproved", at, subjects: { userId } }])
          return user
        },
        sql.withTransaction,
        guard
      ),

      members: Effect.fn("MemberStore.members")(function*(organizationId) {
        const rows = yield* SqlSchema.findAll({
          Request: Schema.String,
          Result: MemberRow,
          execute: (organization) =>
            sql`
            SELECT ${userColumns}, m.role, m.active FROM memberships m JOIN users u ON u.id = m.user_id
            WHERE m.organization_id::text = ${organization} ORDER BY u.created_at, u.id`
        })(organizationId)
        return rows.map(memberOf)
      }, guard),

      addMember: Effect.fn("MemberStore.addMember")(
        function*(organizationId, userId, role, at) {
          const row = yield* SqlSchema.findOne({
            Request: Role,
            Result: MemberRow,
            execute: (role) =>
              sql`
            WITH added AS (
              INSERT INTO memberships (organization_id, user_id, role) VALUES (${organizationId}, ${userId}, ${role})
              ON CONFLICT (organization_id, user_id) DO UPDATE SET role = excluded.role, active = true RETURNING *
            )
            SELECT ${userColumns}, added.role, added.active FROM added JOIN users u ON u.id = added.user_id`
          })(role).pipe(Effect.catchNoSuchElement, Effect.flatMap(Effect.fromOption), Effect.orDie)
          yield* audit.append([{ action: "member.added", at, subjects: { organizationId, userId, role } }])
          return memberOf(row)
        },
        sql.withTransaction,
        guard
      ),

      removeMember: Effect.fn("MemberStore.removeMember")(
        function*(organizationId, userId, at) {
          const found = yield* SqlSchema.findOneOption({
            Request: Schema.String,
            Result: Schema.Struct({ ...MemberRow.fields, ...Changed }),
            execute: (user) =>
              sql`
            UPDATE memberships m SET active = false
            FROM users u, (
              SELECT organization_id, user_id, active FROM memberships
              WHERE organization_id::text = ${organizationId} AND user_id = ${user} FOR UPDATE
            ) before
            WHERE m.organization_id = before.organization_id AND m.user_id = before.user_id AND u.id = m.user_id
            RETURNING ${userColumns}, m.role, m.active, before.active AS changed`
          })(userId)
          if (Option.isNone(found)) return yield* new MemberNotFound({ user: userId })
          const { changed, ...member } = found.value
          if (changed) yield* audit.append([{ action: "member.removed", at, subjects: { organizationId, userId } }])
          return memberOf(member)
        },
        sql.withTransaction,
        guard
      )
    })
  })
).pipe(Layer.provideMerge(AuditLogPostgres.layer))
