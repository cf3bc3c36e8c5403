/** Port: organizations, users, and who is a member of what. Checked by `testing/MemberStoreContract`. */
import { Context, DateTime, Effect, Layer, Schema } from "effect"
import { Ids } from "../Ids.ts"
import type { StoreUnavailable } from "../sandbox/SandboxStore.ts"
import { Acting, type Action, AuditLog } from "./AuditLog.ts"
import { type BoundUser, type Identity, recognize } from "./Identity.ts"
import { type Handle, isNamedBy, type Member, type Organization, type Role, type User } from "./User.ts"

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

/** Checked by `testing/MemberStoreContract`. Every read is of the present: nothing is cached. Nothing is ever deleted, and each change is in the audit log. */
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
  /** Process-local, for tests and for embedding without a database. */
  static readonly layerMemory = Layer.effect(
    MemberStore,
    Effect.gen(function*() {
      const ids = yield* Ids
      const audit = yield* AuditLog
      const tell = (action: Action, at: DateTime.Utc, subjects: Readonly<Record<string, string>>) =>
        audit.append([{ action, at, subjects }])
      const createdAt = yield* DateTime.now
      const owner = { organizationId: yield* ids.uuid7, userId: `user_${yield* ids.ulid}` }
      const organizations = new Map<string, Organization>([
        [owner.organizationId, { id: owner.organizationId, name: "default", createdAt, suspendedAt: null }]
      ])
      const users = new Map<string, User>([
        [owner.userId, { id: owner.userId, name: "owner", email: null, githubLogin: null, createdAt, approvedAt: createdAt }]
      ])
      const places = new Map<string, Map<string, Omit<Member, "user">>>([
        [owner.organizationId, new Map([[owner.userId, { role: "owner", active: true }]])]
      ])

      const githubIds = new Map<string, string>()

      const find = (handle: Handle) => Array.from(users.values()).find((user) => isNamedBy(user, handle)) ?? null
      const memberOf = (organizationId: string, userId: string): Member | null => {
        const user = users.get(userId)
        const place = places.get(organizationId)?.get(userId)
        return user === undefined || place === undefined ? null : { user, ...place }
      }
      const oldestFirst = <A extends { readonly createdAt: DateTime.Utc; readonly id: string }>(items: Iterable<A>) =>
        Array.from(items).sort((a, b) => a.createdAt.epochMilliseconds - b.createdAt.epochMilliseconds || (a.id < b.id ? -1 : 1))

      return MemberStore.of({
        owner: Effect.succeed(owner),
        organizations: Effect.sync(() => oldestFirst(organizations.values())),
        createOrganization: Effect.fnUntraced(function*(given) {
          const known = Array.from(organizations.values()).find(({ name }) => name === given.name)
          if (known !== undefined) return { organization: known, made: false }
          const organization: Organization = { ...given, suspendedAt: null }
          organizations.set(organization.id, organization)
          places.set(organization.id, new Map())
          yield* tell("organization.added", given.createdAt, { organizationId: organization.id })
          return { organization, made: true }
        }),
        suspend: Effect.fnUntraced(function*(organizationId, suspended, at) {
          const known = organizations.get(organizationId)
          if (known === undefined) return yield* new OrganizationNotFound({ organization: organizationId })
          const organization = { ...known, suspendedAt: suspended ? known.suspendedAt ?? at : null }
          organizations.set(organizationId, organization)
          if (suspended !== (known.suspendedAt !== null)) {
            yield* tell(suspended ? "organization.suspended" : "organization.resumed", at, { organizationId })
          }
          return organization
        }),
        users: Effect.sync(() => oldestFirst(users.values())),
        findUser: (handle) => Effect.sync(() => find(handle)),
        addUser: (user) =>
          Effect.sync(() => {
            const known = (user.email === null ? null : find({ _tag: "Email", email: user.email })) ??
              (user.githubLogin === null ? null : find({ _tag: "GithubLogin", login: user.githubLogin }))
            if (known !== null) return known
            const added: User = { ...user, approvedAt: null }
            users.set(added.id, added)
            return added
          }),
        recognize: Effect.fnUntraced(function*(identity, fresh) {
          const bound = (user: User | null): BoundUser | null =>
            user === null ? null : { ...user, githubId: githubIds.get(user.id) ?? null }
          const [ownId] = Array.from(githubIds).find(([, githubId]) => githubId === identity.subject) ?? []
          const { events, user, without } = recognize(identity, {
            bySubject: ownId === undefined ? null : bound(find({ _tag: "Id", id: ownId })),
            byLogin: bound(find({ _tag: "GithubLogin", login: identity.login }))
          }, fresh)
          for (const { githubId, ...changed } of without === null ? [user] : [without, user]) {
            users.set(changed.id, changed)
            if (githubId !== null) githubIds.set(changed.id, githubId)
          }
          yield* Effect.provideService(audit.append(events), Acting, { _tag: "User", userId: user.id })
          return yield* Effect.fromNullishOr(users.get(user.id)).pipe(Effect.orDie)
        }),
        approve: Effect.fnUntraced(function*(userId, approved, at) {
          const known = users.get(userId)
          if (known === undefined) return yield* new UserNotFound({ user: userId })
          const user = { ...known, approvedAt: approved ? known.approvedAt ?? at : null }
          users.set(userId, user)
          if (approved !== (known.approvedAt !== null)) yield* tell(approved ? "user.approved" : "user.disapproved", at, { userId })
          return user
        }),
        members: (organizationId) => Effect.sync(() => oldestFirst(users.values()).flatMap(({ id }) => memberOf(organizationId, id) ?? [])),
        addMember: Effect.fnUntraced(function*(organizationId, userId, role, at) {
          places.get(organizationId)?.set(userId, { role, active: true })
          yield* tell("member.added", at, { organizationId, userId, role })
          return yield* Effect.fromNullishOr(memberOf(organizationId, userId)).pipe(Effect.orDie)
        }),
        removeMember: Effect.fnUntraced(function*(organizationId, userId, at) {
          const member = memberOf(organizationId, userId)
          if (member === null) return yield* new MemberNotFound({ user: userId })
          places.get(organizationId)?.set(userId, { role: member.role, active: false })
          if (member.active) yield* tell("member.removed", at, { organizationId, userId })
          return { ...member, active: false }
        })
      })
    })
  ).pipe(Layer.provideMerge(AuditLog.layerMemory))
}
