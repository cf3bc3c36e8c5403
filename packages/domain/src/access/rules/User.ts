/** Users, the organizations they belong to, and how people name a user. */
import type * as DateTime from "effect/DateTime"
import type { Role } from "../schema/User.ts"

export type { Role } from "../schema/User.ts"

/** What grants, and with them sandboxes, belong to. `id` is a UUID. */
export interface Organization {
  readonly id: string
  readonly name: string
  readonly createdAt: DateTime.Utc
  /** Since when no key of its grants is heard. */
  readonly suspendedAt: DateTime.Utc | null
}

/** A person. */
export interface User {
  /** `user_` and a ULID. */
  readonly id: string
  readonly name: string
  /** Unique whatever the case, as `githubLogin` is. */
  readonly email: string | null
  readonly githubLogin: string | null
  readonly createdAt: DateTime.Utc
  /** Since when an administrator lets the person mint keys. Keys minted before stay good without it. */
  readonly approvedAt: DateTime.Utc | null
}

/** A user's place in one organization. It is never deleted: who left can be added again. */
export interface Member {
  readonly user: User
  readonly role: Role
  readonly active: boolean
}

/** What names one user among all. */
export type Handle =
  | { readonly _tag: "Id"; readonly id: string }
  | { readonly _tag: "Email"; readonly email: string }
  | { readonly _tag: "GithubLogin"; readonly login: string }

const USER_ID = /^user_[0-9A-HJKMNP-TV-Z]{26}$/u
/** One address of printable ASCII. Whether somebody reads it, only sending tells. */
const EMAIL = /^[!-?A-~]+@[!-?A-~]+$/u
/** The longest address SMTP delivers to (RFC 5321, erratum 1690). */
const EMAIL_LENGTH = 254
/** GitHub's form: letters and digits, single hyphens between them. */
const GITHUB_LOGIN = /^[0-9A-Za-z]+(?:-[0-9A-Za-z]+)*$/u
const GITHUB_LOGIN_LENGTH = 39

/** What a text names a user by; `null`: it cannot name one. */
export const handleOf = (text: string): Handle | null =>
  USER_ID.test(text)
    ? { _tag: "Id", id: text }
    : EMAIL.test(text) && text.length <= EMAIL_LENGTH
    ? { _tag: "Email", email: text }
    : GITHUB_LOGIN.test(text) && text.length <= GITHUB_LOGIN_LENGTH
    ? { _tag: "GithubLogin", login: text }
    : null

/** Whether the handle is that of the user. Case counts in ids only. */
export const isNamedBy = (user: Pick<User, "id" | "email" | "githubLogin">, handle: Handle): boolean => {
  switch (handle._tag) {
    case "Id":
      return user.id === handle.id
    case "Email":
      return user.email?.toLowerCase() === handle.email.toLowerCase()
    case "GithubLogin":
      return user.githubLogin?.toLowerCase() === handle.login.toLowerCase()
  }
}
