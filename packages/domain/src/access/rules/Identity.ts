/** Maps the account of an identity provider to a user. */
import type * as DateTime from "effect/DateTime"
import type { SecurityEvent } from "../schema/SecurityEvent.ts"
import type { User } from "./User.ts"

/** A person's account at an identity provider. */
export interface Identity {
  /** The provider's id of the account. It never changes and is never reused. */
  readonly subject: string
  /** The account's present name. The owner can change it, and a stranger can then take it. */
  readonly login: string
  /** The display name. */
  readonly name: string
  /** The address in the profile. It is not verified, so it never finds or identifies a user. */
  readonly email: string | null
}

/** A user, with the GitHub account that the user is bound to for good. */
export interface BoundUser extends User {
  /** `null`: no GitHub account has signed in as this user yet. */
  readonly githubId: string | null
}

/** The user of a sign-in, and the changes that it makes. */
export interface Recognition {
  /** The user after the change. */
  readonly user: BoundUser
  /** Another user who loses the login to this one, or `null`. */
  readonly without: BoundUser | null
  /** Empty if nothing changes. */
  readonly events: ReadonlyArray<SecurityEvent>
}

/**
 * Returns the user with this id. Otherwise the user whom an administrator added with this login, who is bound to the id for good.
 * Otherwise a new user, who is not approved and a member of no organization. A login belongs to the account that has it at the provider
 * now and alone proves nothing: two accounts never become one user.
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
