/** Port: organizations, users, and who is a member of what. Checked by `MemberStoreContract`. */
import * as Context from "effect/Context"
import type * as DateTime from "effect/DateTime"
import type * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { StoreUnavailable } from "../../store/StoreUnavailable.ts"
import type { Identity } from "../rules/Identity.ts"
import type { Handle, Member, Organization, Role, User } from "../rules/User.ts"

/** No such organization. Retrying does not help. */
export class OrganizationNotFound extends Schema.TaggedError<OrganizationNotFound>()("OrganizationNotFound", {
  organization: Schema.String
}) {
  override get message() {
    return `There is no organization ${this.organization}. See: slipway orgs list`
  }
}
/** No such user. Retrying does not help. */
export class UserNotFound extends Schema.TaggedError<UserNotFound>()("UserNotFound", { user: Schema.String }) {
  override get message() {
    return `There is no user ${this.user}. See: slipway users list`
  }
}
/** The user was never a member of the organization. Retrying does not help. */
export class MemberNotFound extends Schema.TaggedError<MemberNotFound>()("MemberNotFound", { user: Schema.String }) {
  override get message() {
    return `${this.user} is not a member of the organization. See: slipway members list`
  }
}

/**
 * Checked by `MemberStoreContract`. Every read is of the present: nothing is cached. Nothing is ever deleted, and each
 * change is in the audit log.
 */
export class MemberStore extends Context.Service<MemberStore, {
  /** The organization and user of the embedded server's owner, who is approved; made on first use. */
  readonly owner: Effect.Effect<{ readonly organizationId: string; readonly userId: string }, StoreUnavailable>
  /** Oldest first. */
  readonly organizations: Effect.Effect<ReadonlyArray<Organization>, StoreUnavailable>
  /** Makes the organization, without members, or returns the one of that name. */
  createOrganization(organization: Pick<Organization, "id" | "name" | "createdAt">): Effect.Effect<
    { readonly organization: Organization; readonly made: boolean },
    StoreUnavailable
  >
  /** Its keys are heard no more, or again. Suspending twice keeps the first time. */
  suspend(
    organizationId: string,
    suspended: boolean,
    at: DateTime.Utc
  ): Effect.Effect<Organization, OrganizationNotFound | StoreUnavailable>
  /** Oldest first. */
  readonly users: Effect.Effect<ReadonlyArray<User>, StoreUnavailable>
  /** `null`: nobody has this handle. */
  findUser(handle: Handle): Effect.Effect<User | null, StoreUnavailable>
  /** Adds a user who is not approved, or returns the one who has the address or login. */
  addUser(user: Omit<User, "approvedAt">): Effect.Effect<User, StoreUnavailable>
  /**
   * The user an identity is, as `recognize` decides it, told in the user's name. `fresh.id`: of the user, if it is a new
   * one. Whoever comes at once with the same identity, or with the same login, comes one after the other.
   */
  recognize(identity: Identity, fresh: { readonly id: string; readonly at: DateTime.Utc }): Effect.Effect<User, StoreUnavailable>
  /** Or takes an approval back. Approving twice keeps the first time. */
  approve(userId: string, approved: boolean, at: DateTime.Utc): Effect.Effect<User, UserNotFound | StoreUnavailable>
  /** Active or not, in the order in which their users were added. Nobody, if there is no such organization. */
  members(organizationId: string): Effect.Effect<ReadonlyArray<Member>, StoreUnavailable>
  /** Makes the user an active member in this role, whatever was before. Both must exist. */
  addMember(organizationId: string, userId: string, role: Role, at: DateTime.Utc): Effect.Effect<Member, StoreUnavailable>
  /** The user's keys in the organization are heard no more. Removing twice changes nothing. */
  removeMember(organizationId: string, userId: string, at: DateTime.Utc): Effect.Effect<Member, MemberNotFound | StoreUnavailable>
}>()("@slipway/domain/MemberStore") {
}
