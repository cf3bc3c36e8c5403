/** Decides which keys a person or an operator may mint. */
import * as Context from "effect/Context"
import * as Data from "effect/Data"
import type * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Result from "effect/Result"
import * as Instant from "../../time/Instant.ts"
import type { Right, Scope } from "../schema/Principal.ts"
import type { Member, Organization, Role } from "./User.ts"

/** A key is not minted. Retrying does not help. */
export class MintRefused extends Data.TaggedError("MintRefused")<{
  readonly because: "not_approved" | "not_a_member" | "suspended" | "scope" | "already_expired" | "expires_too_late" | "too_many_keys"
}> {
  override get message() {
    return REASONS[this.because]
  }
}

/** The longest lifetime of a key, in days: a leap year, as at GitHub. For more, choose a key that never expires. */
export const MAX_LIFE_DAYS = 366

const REASONS: Record<MintRefused["because"], string> = {
  not_approved: "The user is not approved. An administrator can: slipway users approve <user>",
  not_a_member: "The user is not an active member of the grant's organization.",
  suspended: "The organization is suspended. An administrator can: slipway orgs resume <organization>",
  scope: "The scopes are more than the user may give.",
  already_expired: "The key would have expired already.",
  expires_too_late: `A key that expires does so within ${MAX_LIFE_DAYS} days.`,
  too_many_keys: "The user has as many valid keys as a user may have. Revoke an unused key."
}

/** Valid keys of one user, over all grants. Rate limits count by key, so the number of keys is limited too. A setting. */
export const KeysPerUser = Context.Reference<number>("@slipway/domain/KeysPerUser", { defaultValue: () => 100 })

/** The scopes that each role may give to its keys. Scopes of the whole service can be given by operators only. */
const GIVEN_BY: Record<Role, ReadonlyArray<Scope>> = {
  viewer: ["sandboxes"],
  member: ["sandboxes"],
  owner: ["sandboxes", "sandboxes:delete", "webhooks", "secrets", "automations"]
}

/** The scopes that a member with this role may give to a key. */
export const scopesOf = (role: Role): ReadonlyArray<Scope> => GIVEN_BY[role]

/** The rights of a credential with these scopes while its user has this role. A viewer's only read, whatever they were given before. */
export const rightsOf = (role: Role, scopes: ReadonlyArray<Scope>): ReadonlySet<Right> =>
  new Set<Right>(role === "viewer" ? scopes.flatMap((scope) => scope === "sandboxes" ? ["sandboxes:read" as const] : []) : scopes)

/** Whether a request with these rights may do what needs this scope. `changes`: it can change something. */
export const mayUse = (rights: ReadonlySet<Right>, scope: Scope, changes: boolean): boolean =>
  rights.has(scope) || scope === "sandboxes" && !changes && rights.has("sandboxes:read")

/** Whether a member may revoke a key of the organization. Members may revoke their own keys, owners all keys. */
export const mayRevoke = (by: { readonly userId: string; readonly role: Role }, key: { readonly userId: string }): boolean =>
  by.role === "owner" || by.userId === key.userId

/** The lifetime of a key; `null`: until it is revoked. */
export type Life = Duration.Duration | null

/** Returns when a key that is minted `now` expires, or why it is refused. `by`: an operator may give any scope. */
export const decide = (
  { by, life, member, organization, scopes }: {
    readonly by: "operator" | "person"
    /** The key's user in the grant's organization; `null`: the user was never a member. */
    readonly member: Member | null
    readonly organization: Pick<Organization, "suspendedAt">
    readonly scopes: ReadonlyArray<Scope>
    readonly life: Life
  },
  now: DateTime.Utc
): Result.Result<DateTime.Utc | null, MintRefused> => {
  const refuse = (because: MintRefused["because"]) => Result.fail(new MintRefused({ because }))
  if (organization.suspendedAt !== null) return refuse("suspended")
  if (member === null || !member.active) return refuse("not_a_member")
  if (member.user.approvedAt === null) return refuse("not_approved")
  if (by === "person" && !scopes.every((scope) => scopesOf(member.role).includes(scope))) return refuse("scope")
  if (life === null) return Result.succeed(null)
  const expiresAt = Instant.addDuration(now, life)
  if (!Instant.isGreaterThan(expiresAt, now)) return refuse("already_expired")
  if (Instant.isGreaterThan(expiresAt, Instant.addDuration(now, Duration.days(MAX_LIFE_DAYS)))) return refuse("expires_too_late")
  return Result.succeed(expiresAt)
}
