/** Users, the organizations they belong to, and the handles that identify a user. */
import type * as DateTime from "effect/DateTime"
import type { Role } from "../schema/User.ts"

export type { Role } from "../schema/User.ts"

/** The owner of grants and of their sandboxes. `id` is a UUID. */
export interface Organization {
  readonly id: string
  readonly name: string
  readonly createdAt: DateTime.Utc
  /** The time from which keys of its grants are refused; `null`: not suspended. */
  readonly suspendedAt: DateTime.Utc | null
}

/** A person. */
export interface User {
  /** `user_` and a ULID. */
  readonly id: string
  readonly name: string
  /** Unique without regard to case, like `githubLogin`. */
  readonly email: string | null
  readonly githubLogin: string | null
  readonly createdAt: DateTime.Utc
  /** The time since when the person may mint keys. Keys minted before a withdrawal of the approval stay valid. */
  readonly approvedAt: DateTime.Utc | null
}

/** A user's membership in one organization. It is never deleted; a removed member can be added again. */
export interface Member {
  readonly user: User
  readonly role: Role
  readonly active: boolean
}

/** A text that identifies one user: id, e-mail address or GitHub login. */
export type Handle =
  | { readonly _tag: "Id"; readonly id: string }
  | { readonly _tag: "Email"; readonly email: string }
  | { readonly _tag: "GithubLogin"; readonly login: string }

const USER_ID = /^user_[0-9A-HJKMNP-TV-Z]{26}$/u
/** One address of printable ASCII. It is not verified. */
const EMAIL = /^[!-?A-~]+@[!-?A-~]+$/u
/** The longest address SMTP delivers to (RFC 5321, erratum 1690). */
const EMAIL_LENGTH = 254
/** The form of GitHub logins: letters and digits, with single hyphens between them. */
const GITHUB_LOGIN = /^[0-9A-Za-z]+(?:-[0-9A-Za-z]+)*$/u
const GITHUB_LOGIN_LENGTH = 39

/** Parses a handle; `null`: the text cannot identify a user. */
export const handleOf = (text: string): Handle | null =>
  USER_ID.test(text)
    ? { _tag: "Id", id: text }
    : EMAIL.test(text) && text.length <= EMAIL_LENGTH
    ? { _tag: "Email", email: text }
    : GITHUB_LOGIN.test(text) && text.length <= GITHUB_LOGIN_LENGTH
    ? { _tag: "GithubLogin", login: text }
    : null

/** Whether the handle identifies the user. Only ids are case-sensitive. */
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
