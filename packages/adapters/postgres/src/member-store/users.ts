/** Users, and who signs in. */
import { Acting } from "@slipway/domain/access/ports/AuditLog"
import { type MemberStore, UserNotFound } from "@slipway/domain/access/ports/MemberStore"
import { accountOf, type BoundUser, type Identity, loginOf, recognize as recognizeIdentity } from "@slipway/domain/access/rules/Identity"
import { type DateTime, Effect, Option } from "effect"
import type { SqlClient } from "effect/sql"
import { guard } from "../sql/SqlFailure.ts"
import { inTransaction } from "../sql/Transaction.ts"
import { lockUsers, saveUser, selectRecognized, updateApproved } from "./statements/users.ts"
import type { Store } from "./Store.ts"

type Fresh = Parameters<MemberStore["Service"]["recognize"]>[1]

/** The user that the identity belongs to, by the users that there are. */
const recognition = Effect.fnUntraced(function*(sql: SqlClient.SqlClient, identity: Identity, fresh: Fresh) {
  const known = yield* selectRecognized(sql, identity)
  const { login, provider, subject } = identity
  return recognizeIdentity(identity, {
    bySubject: known.find((user) => accountOf(user, provider) === subject) ?? null,
    byLogin: known.find((user) => login !== null && loginOf(user, provider)?.toLowerCase() === login.toLowerCase()) ?? null
  }, fresh)
})

/** Recognizes again under the lock, and writes what changed with its entries in the audit log. */
const recognizeLocked = Effect.fnUntraced(function*({ audit, sql }: Store, identity: Identity, fresh: Fresh) {
  yield* lockUsers(sql)
  const { events, user, without } = yield* recognition(sql, identity, fresh)
  // First, so that the login is free when the other user gets it.
  if (without !== null) yield* saveUser(sql, without)
  if (events.length > 0) yield* saveUser(sql, user)
  yield* Effect.provideService(audit.append(events), Acting, { _tag: "User", userId: user.id })
  return { user }
})

/** One read; a transaction only when something about the user changes. */
export const recognize = Effect.fn("MemberStore.recognize")(function*(store: Store, identity: Identity, fresh: Fresh) {
  const known = yield* recognition(store.sql, identity, fresh)
  const recognized: { readonly user: BoundUser } = known.events.length === 0
    ? known
    : yield* store.sql.withTransaction(recognizeLocked(store, identity, fresh))
  const { githubId: _, oidcSubject: __, ...user } = recognized.user
  return user
}, guard)

export const findBound = Effect.fn("MemberStore.findBound")(function*({ sql }: Store, account: Pick<Identity, "provider" | "subject">) {
  const [found] = yield* selectRecognized(sql, { ...account, login: null })
  if (found === undefined) return null
  const { githubId: _, oidcSubject: __, ...user } = found
  return user
}, guard)

export const approve = Effect.fn("MemberStore.approve")(
  function*({ audit, sql }: Store, userId: string, approved: boolean, at: DateTime.Utc) {
    const found = yield* updateApproved(sql, userId, approved, at)
    if (Option.isNone(found)) return yield* new UserNotFound({ user: userId })
    const { changed, ...user } = found.value
    if (changed) yield* audit.append([{ action: approved ? "user.approved" : "user.disapproved", at, subjects: { userId } }])
    return user
  },
  inTransaction
)
