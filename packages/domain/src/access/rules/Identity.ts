/** Maps the account of an identity provider to a user. */
import type * as DateTime from "effect/DateTime"
import type { SecurityEvent } from "../schema/SecurityEvent.ts"
import type { Entry } from "./Entry.ts"
import type { User } from "./User.ts"

/** The kinds of identity providers: GitHub, and a provider that speaks OpenID Connect. A service has at most one of each. */
export type ProviderId = "github" | "oidc"

/** A person's account at an identity provider. */
export interface Identity {
  readonly provider: ProviderId
  /** The provider's id of the account. It never changes and is never reused. For OpenID Connect: the issuer, a space, and its `sub`. */
  readonly subject: string
  /**
   * The account's present name: the GitHub login, or the e-mail address that the provider of OpenID Connect has verified. `null`: it has
   * verified none. The owner can change it, and a stranger can then take it.
   */
  readonly login: string | null
  /** The display name. */
  readonly name: string
  /** The address in the profile. It is not verified, so it never finds or identifies a user. */
  readonly email: string | null
  /** Whether the provider lets the person in, and in which role. */
  readonly entry: Entry
}

const MAXIMUM_NAME = 100

/** The first characters of a name that can be seen; `fallback` if it has none. */
export const shownName = (name: string, fallback: string): string => {
  // Invisible characters could make one name look like another, or could not be stored.
  const visible = name.toWellFormed().replaceAll(/[\p{C}\s]+/gu, " ").trim()
  return visible === "" ? fallback : Array.from(visible).slice(0, MAXIMUM_NAME).join("")
}

/** A user, with the accounts that the user is bound to for good. */
export interface BoundUser extends User {
  /** `null`: no GitHub account has signed in as this user yet. */
  readonly githubId: string | null
  /** `null`: no account of OpenID Connect has signed in as this user yet. */
  readonly oidcSubject: string | null
}

/** Where a user has the id of an account, and the name by which an administrator adds its user. */
const FIELDS = {
  github: { id: "githubId", login: "githubLogin" },
  oidc: { id: "oidcSubject", login: "email" }
} as const satisfies Record<ProviderId, unknown>

/** The id of the user's account at the provider. */
export const accountOf = (user: BoundUser, provider: ProviderId): string | null => user[FIELDS[provider].id]

/** The name by which an administrator adds the user of an account at the provider. */
export const loginOf = (user: User, provider: ProviderId): string | null => user[FIELDS[provider].login]

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
  { login, name, provider, subject }: Identity,
  { byLogin, bySubject }: { readonly bySubject: BoundUser | null; readonly byLogin: BoundUser | null },
  fresh: { readonly id: string; readonly at: DateTime.Utc }
): Recognition => {
  const { at } = fresh
  const fields = FIELDS[provider]
  const invited = byLogin !== null && byLogin[fields.id] === null ? byLogin : null
  const found = bySubject ?? invited
  const before: BoundUser = found ??
    { id: fresh.id, name, email: null, githubLogin: null, githubId: null, oidcSubject: null, createdAt: at, approvedAt: null }
  const user: BoundUser = { ...before, [fields.login]: login ?? before[fields.login], [fields.id]: subject }
  const without = byLogin === null || byLogin.id === user.id ? null : { ...byLogin, [fields.login]: null }

  const renamed = ({ id: userId }: User): SecurityEvent => ({ action: "user.renamed", at, subjects: { userId } })
  const joined = (action: "user.added" | "user.bound"): SecurityEvent => ({
    action,
    at,
    subjects: { userId: user.id, [fields.id]: subject }
  })
  const own = found === null
    ? [joined("user.added")]
    : found[fields.id] === null
    ? [joined("user.bound")]
    : found[fields.login] === user[fields.login]
    ? []
    : [renamed(user)]
  return { user, without, events: [...(without === null ? [] : [renamed(without)]), ...own] }
}
