/** `MemberStore` in memory: for tests and for embedding without a database. State dies with the layer. */
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { Acting, type Action, AuditLog } from "../../src/access/ports/AuditLog.ts"
import { OrganizationNotFound, UserNotFound, MemberNotFound, MemberStore } from "../../src/access/ports/MemberStore.ts"
import { accountOf, type BoundUser, loginOf, type ProviderId, recognize } from "../../src/access/rules/Identity.ts"
import { type Handle, isNamedBy, type Member, type Organization, type User } from "../../src/access/rules/User.ts"
import { Ids } from "../../src/ids/Ids.ts"
import * as AuditLogMemory from "./AuditLogMemory.ts"

/** The users with their accounts at identity providers. */
const accountsOf = (users: Map<string, User>) => {
  const known = new Map<string, Pick<BoundUser, "githubId" | "oidcSubject">>()
  const all = () =>
    Array.from(users.values()).map((user): BoundUser => ({ ...user, ...known.get(user.id) ?? { githubId: null, oidcSubject: null } }))
  return {
    bySubject: (provider: ProviderId, subject: string) => all().find((user) => accountOf(user, provider) === subject) ?? null,
    byLogin: (provider: ProviderId, login: string | null) =>
      all().find((user) => login !== null && loginOf(user, provider)?.toLowerCase() === login.toLowerCase()) ?? null,
    save: ({ githubId, oidcSubject, ...user }: BoundUser): User => {
      known.set(user.id, { githubId, oidcSubject })
      users.set(user.id, user)
      return user
    }
  }
}

/** Process-local, for tests and for embedding without a database. */
export const layer = Layer.effect(
  MemberStore,
  Effect.gen(function*() {
    const ids = yield* Ids
    const audit = yield* AuditLog
    const tell = (action: Action, at: DateTime.Utc, subjects: Readonly<Record<string, string>>) => audit.append([{ action, at, subjects }])
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

    const accounts = accountsOf(users)

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
        const { provider, subject } = identity
        const { events, user, without } = recognize(identity, {
          bySubject: accounts.bySubject(provider, subject),
          byLogin: accounts.byLogin(provider, identity.login)
        }, fresh)
        if (without !== null) accounts.save(without)
        const saved = accounts.save(user)
        yield* Effect.provideService(audit.append(events), Acting, { _tag: "User", userId: user.id })
        return saved
      }),
      findBound: ({ provider, subject }) => Effect.sync(() => users.get(accounts.bySubject(provider, subject)?.id ?? "") ?? null),
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
).pipe(Layer.provideMerge(AuditLogMemory.layer))
