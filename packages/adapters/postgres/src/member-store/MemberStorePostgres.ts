/** `MemberStore` on Postgres. */
import { AuditLog } from "@slipway/domain/access/ports/AuditLog"
import { MemberStore } from "@slipway/domain/access/ports/MemberStore"
import { Ids } from "@slipway/domain/ids/Ids"
import { Effect, Layer, Option } from "effect"
import { SqlClient } from "effect/sql"
import * as AuditLogPostgres from "../audit-log/AuditLogPostgres.ts"
import { guard } from "../sql/SqlFailure.ts"
import { addMember, createOrganization, owner, removeMember, suspend } from "./organizations.ts"
import { memberOf } from "./rows/MemberRows.ts"
import { selectMembers } from "./statements/memberships.ts"
import { selectOrganizations } from "./statements/organizations.ts"
import { insertUser, selectUsers, userWhere } from "./statements/users.ts"
import type { Store } from "./Store.ts"
import { approve, findBound, recognize } from "./users.ts"

/** With the `AuditLog` it tells. */
export const layer = Layer.effect(
  MemberStore,
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const store: Store = { sql, audit: yield* AuditLog, ids: yield* Ids }
    const findUser = userWhere(sql)

    return MemberStore.of({
      owner: guard(owner(store)),
      organizations: guard(selectOrganizations(sql)),
      createOrganization: (asked) => createOrganization(store, asked),
      suspend: (organizationId, suspended, at) => suspend(store, organizationId, suspended, at),
      users: guard(selectUsers(sql)),

      findUser: Effect.fn("MemberStore.findUser")(function*(handle) {
        return Option.getOrNull(
          yield* findUser({
            id: handle._tag === "Id" ? handle.id : null,
            email: handle._tag === "Email" ? handle.email : null,
            login: handle._tag === "GithubLogin" ? handle.login : null
          })
        )
      }, guard),

      addUser: Effect.fn("MemberStore.addUser")(function*(asked) {
        yield* insertUser(sql, asked)
        // A statement of its own, so that it sees whose address or login it was.
        return yield* Effect.fromOption(yield* findUser({ id: asked.id, email: asked.email, login: asked.githubLogin })).pipe(Effect.orDie)
      }, guard),

      recognize: (identity, fresh) => recognize(store, identity, fresh),
      findBound: (account) => findBound(store, account),
      approve: (userId, approved, at) => approve(store, userId, approved, at),

      members: Effect.fn("MemberStore.members")(function*(organizationId: string) {
        return (yield* selectMembers(sql, organizationId)).map(memberOf)
      }, guard),

      addMember: (organizationId, userId, role, at) => addMember(store, organizationId, userId, role, at),
      removeMember: (organizationId, userId, at) => removeMember(store, organizationId, userId, at)
    })
  })
).pipe(Layer.provideMerge(AuditLogPostgres.layer))
