/** Who somebody is at an identity provider, and which user that is. */
import type * as DateTime from "effect/DateTime"
import type { SecurityEvent } from "../schema/SecurityEvent.ts"
import type { User } from "./User.ts"

/** A person as an identity provider knows them. */
export interface Identity {
  /** The provider's id of the account, which never changes and is never given to another one. */
  readonly subject: string
  /** The account's name at this moment. It can be changed, and then taken by a stranger. */
  readonly login: string
  /** For people to read. */
  readonly name: string
  /** As the profile shows it. Not proven to be theirs: it neither finds nor names a user. */
  readonly email: string | null
}

/** A user, and the GitHub account that is theirs for good. */
export interface BoundUser extends User {
  /** `null`: none signed in as this user yet. */
  readonly githubId: string | null
}

/** Whose a sign-in is, and what it changes. */
export interface Recognition {
  /** As they are from now on. */
  readonly user: BoundUser
  /** Another user, who had the login until now and has none from now on. */
  readonly without: BoundUser | null
  /** Empty: nothing changes. */
  readonly events: ReadonlyArray<SecurityEvent>
}

/**
 * The user with this id; else the one an administrator added with this login, who is bound to the id once and for all;
 * else a new one, who is not approved and a member of nothing. A login belongs to whoever has it at the provider now, and
 * alone proves nothing: two accounts never become one user.
 */
export const recognize = (
  { login: githubLogin, name, subject: githubId }: Identity,
  { byLogin, bySubject }: { readonly bySubject: BoundUser | null; readonly byLogin: BoundUser | null },
  fresh: { readonly id: string; readonly at: DateTime.Utc }
): Recognition => {
  const { at } = fresh
  const invited = byLogin?.githubId === null ? byLogin : null
  const found = bySubject ?? invited
  const user: BoundUser = found === null
    ? { id: fresh.id, name, email: null, githubLogin, githubId, createdAt: at, approvedAt: null }
    : { ...found, githubLogin, githubId }
  const without = byLogin === null || byLogin.id === user.id ? null : { ...byLogin, githubLogin: null }

  const renamed = ({ id: userId }: User): SecurityEvent => ({ action: "user.renamed", at, subjects: { userId } })
  const joined = (action: "user.added" | "user.bound"): SecurityEvent => ({ action, at, subjects: { userId: user.id, githubId } })
  const own = found === null
    ? [joined("user.added")]
    : found.githubId === null
    ? [joined("user.bound")]
    : found.githubLogin === githubLogin
    ? []
    : [renamed(user)]
  return { user, without, events: [...(without === null ? [] : [renamed(without)]), ...own] }
}
