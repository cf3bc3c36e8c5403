/** Organizations and their members. Each change is one transaction with its entry in the audit log. */
import { MemberNotFound, OrganizationNotFound } from "@slipway/domain/access/ports/MemberStore"
import type { Role } from "@slipway/domain/access/schema/User"
import { type DateTime, Effect, Option } from "effect"
import { inTransaction } from "../sql/Transaction.ts"
import { memberOf } from "./rows/MemberRows.ts"
import * as Memberships from "./statements/memberships.ts"
import * as Organizations from "./statements/organizations.ts"
import type { Store } from "./Store.ts"

/** The owner of this service, with an organization; made by the first process that asks. */
export const owner = Effect.fnUntraced(function*({ ids, sql }: Store) {
  const [found] = yield* Organizations.selectOwner(sql)
  if (found !== undefined) return found
  return yield* sql.withTransaction(Effect.gen(function*() {
    yield* Organizations.lockOwner(sql)
    const [existing] = yield* Organizations.selectOwner(sql)
    if (existing !== undefined) return existing
    const made = { organizationId: yield* ids.uuid7, userId: `user_${yield* ids.ulid}` }
    yield* Organizations.insertDefaultOrganization(sql, made)
    yield* Organizations.insertOwnerUser(sql, made)
    yield* Organizations.insertOwnerMembership(sql, made)
    yield* Organizations.insertOwner(sql, made)
    return made
  }))
})

export const createOrganization = Effect.fn("MemberStore.createOrganization")(
  function*({ audit, sql }: Store, asked: { readonly createdAt: DateTime.Utc; readonly id: string; readonly name: string }) {
    const made = yield* Organizations.insertOrganization(sql, asked)
    if (made.length > 0) {
      yield* audit.append([{ action: "organization.added", at: asked.createdAt, subjects: { organizationId: asked.id } }])
    }
    const [organization] = yield* Organizations.selectOrganizationNamed(sql, asked.name)
    return { organization: yield* Effect.orDie(Effect.fromNullishOr(organization)), made: made.length > 0 }
  },
  inTransaction
)

export const suspend = Effect.fn("MemberStore.suspend")(
  function*({ audit, sql }: Store, organizationId: string, suspended: boolean, at: DateTime.Utc) {
    const found = yield* Organizations.updateSuspended(sql, organizationId, suspended, at)
    if (Option.isNone(found)) return yield* new OrganizationNotFound({ organization: organizationId })
    const { changed, ...organization } = found.value
    const action = suspended ? "organization.suspended" : "organization.resumed"
    if (changed) yield* audit.append([{ action, at, subjects: { organizationId } }])
    return organization
  },
  inTransaction
)

export const addMember = Effect.fn("MemberStore.addMember")(
  function*({ audit, sql }: Store, organizationId: string, userId: string, role: typeof Role.Type, at: DateTime.Utc) {
    const row = yield* Memberships.saveMember(sql, organizationId, userId, role).pipe(
      Effect.catchNoSuchElement,
      Effect.flatMap(Effect.fromOption),
      Effect.orDie
    )
    yield* audit.append([{ action: "member.added", at, subjects: { organizationId, userId, role } }])
    return memberOf(row)
  },
  inTransaction
)

export const removeMember = Effect.fn("MemberStore.removeMember")(
  function*({ audit, sql }: Store, organizationId: string, userId: string, at: DateTime.Utc) {
    const found = yield* Memberships.updateInactive(sql, organizationId, userId)
    if (Option.isNone(found)) return yield* new MemberNotFound({ user: userId })
    const { changed, ...member } = found.value
    if (changed) yield* audit.append([{ action: "member.removed", at, subjects: { organizationId, userId } }])
    return memberOf(member)
  },
  inTransaction
)
