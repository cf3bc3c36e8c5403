/** Decides who may enter with an account of OpenID Connect, and in which role. Pure functions. */
import type { Role } from "../schema/User.ts"

/** The provider's word on a person who signs in. */
export type Entry =
  /** The person enters as the user that an administrator added, or as a new user who is not approved. */
  | { readonly _tag: "AsInvited" }
  /** The person is approved and has this role in the owner's organization. */
  | { readonly _tag: "InRole"; readonly role: Role }
  /**
   * The person does not enter, and the sessions of their user end. `detail`: a sentence for people. `leaves`: the provider gives the roles,
   * so the user's membership of the owner's organization ends too.
   */
  | { readonly _tag: "Refused"; readonly detail: string; readonly leaves: boolean }

/** The entry of an account whose provider leaves everything to the administrator, as GitHub does. */
export const AS_INVITED: Entry = { _tag: "AsInvited" }

/** Groups and the role that each gives. */
export interface GroupRole {
  readonly group: string
  readonly role: Role
}

/** The rules of entry. A person has to satisfy each rule that is set. */
export interface EntryRules {
  /** Domains of the verified e-mail address, in lower case. Empty: any. */
  readonly emailDomains: ReadonlyArray<string>
  /** A claim, and a value that it has to have, or contain if it is a list. */
  readonly claim: { readonly name: string; readonly value: string } | null
  /** The claim with the person's groups. */
  readonly groupsClaim: string
  /** Empty: groups give no roles. */
  readonly roles: ReadonlyArray<GroupRole>
}

/** The claims of an account: those of the ID token before those of the userinfo endpoint. */
export type Claims = Readonly<Record<string, unknown>>

/** A person can be in some hundred groups. More are not read. */
const MAX_VALUES = 1000

/** The texts of a claim, which is one text or a list of them. */
const textsOf = (claims: Claims, name: string): ReadonlyArray<string> => {
  const value = Object.hasOwn(claims, name) ? claims[name] : undefined
  return (Array.isArray(value) ? value.slice(0, MAX_VALUES) : [value]).flatMap((item: unknown) =>
    typeof item === "string" || typeof item === "boolean" || typeof item === "number" ? [String(item)] : []
  )
}

/** One address of printable ASCII, as `handleOf` reads it. */
const ADDRESS = /^[!-?A-~]{1,64}@[!-?A-~]{1,189}$/u

/** The address that the provider says it has verified; `null`: none. */
export const verifiedEmailOf = (claims: Claims): string | null => {
  const { email, email_verified: verified } = claims
  return verified === true && typeof email === "string" && ADDRESS.test(email) ? email : null
}

/** Roles from the one with the most rights. A person in several groups has the first. */
const ORDER: ReadonlyArray<Role> = ["owner", "member", "viewer"]

/** The entry of an account with these claims. */
export const entryOf = ({ claim, emailDomains, groupsClaim, roles }: EntryRules, claims: Claims): Entry => {
  const leaves = roles.length > 0
  const refused = (detail: string): Entry => ({ _tag: "Refused", detail, leaves })
  if (emailDomains.length > 0) {
    const email = verifiedEmailOf(claims)
    if (email === null) return refused("Your account has no verified e-mail address.")
    if (!emailDomains.includes(email.slice(email.lastIndexOf("@") + 1).toLowerCase())) {
      return refused("Accounts with your e-mail address may not enter.")
    }
  }
  if (claim !== null && !textsOf(claims, claim.name).includes(claim.value)) return refused("Your account may not enter.")
  if (!leaves) return AS_INVITED
  const groups = new Set(textsOf(claims, groupsClaim))
  const given = new Set(roles.flatMap(({ group, role }) => groups.has(group) ? [role] : []))
  const role = ORDER.find((one) => given.has(one))
  return role === undefined ? refused("None of your groups may enter.") : { _tag: "InRole", role }
}
