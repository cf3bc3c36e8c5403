/** Port: organizations, users, and memberships. Checked by `MemberStoreContract`. */
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

/** Checked by `MemberStoreContract`. Reads are never cached. Nothing is ever deleted, and each change is in the audit log. */
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
  /** The organization's keys stop working, or work again. Suspending twice keeps the first time. */
  suspend(
    organizationId: string,
    suspended: boolean,
    at: DateTime.Utc
  ): Effect.Effect<Organization, OrganizationNotFound | StoreUnavailable>
  /** Oldest first. */
  readonly users: Effect.Effect<ReadonlyArray<User>, StoreUnavailable>
  /** Returns the user with this handle; `null`: no such user. */
  findUser(handle: Handle): Effect.Effect<User | null, StoreUnavailable>
  /** Adds a user who is not approved, or returns the user with the same address or login. */
  addUser(user: Omit<User, "approvedAt">): Effect.Effect<User, StoreUnavailable>
  /**
   * Returns the user of an identity, as `recognize` decides, and records changes in the user's name. `fresh.id` is the id of a new
   * user. Calls with the same identity or login run one after the other.
   */
  recognize(identity: Identity, fresh: { readonly id: string; readonly at: DateTime.Utc }): Effect.Effect<User, StoreUnavailable>
  /** Returns the user whom the account is bound to; `null`: it has never signed in. */
  findBound(account: Pick<Identity, "provider" | "subject">): Effect.Effect<User | null, StoreUnavailable>
  /** Approves the user, or withdraws the approval. Approving twice keeps the first time. */
  approve(userId: string, approved: boolean, at: DateTime.Utc): Effect.Effect<User, UserNotFound | StoreUnavailable>
  /** Active and removed members, in the order in which their users were added. Empty for an unknown organization. */
  members(organizationId: string): Effect.Effect<ReadonlyArray<Member>, StoreUnavailable>
  /** Makes the user an active member in this role, whatever the user was before. User and organization must exist. */
  addMember(organizationId: string, userId: string, role: Role, at: DateTime.Utc): Effect.Effect<Member, StoreUnavailable>
  /** The user's keys in the organization stop working. Removing twice changes nothing. */
  removeMember(organizationId: string, userId: string, at: DateTime.Utc): Effect.Effect<Member, MemberNotFound | StoreUnavailable>
}>()("@slipway/domain/MemberStore") {
}
