/**
 * The rules that every `MemberStore` must keep. An adapter proves itself by running this suite against its layer; a rule that is missing
 * here is not part of the port. Fresh ids make it repeatable on one database.
 */
import { AuditLog } from "@slipway/domain/access/ports/AuditLog"
import { MemberStore } from "@slipway/domain/access/ports/MemberStore"
import { AS_INVITED } from "@slipway/domain/access/rules/Entry"
import type { Identity } from "@slipway/domain/access/rules/Identity"
import type { User } from "@slipway/domain/access/rules/User"
import { Ids } from "@slipway/domain/ids/Ids"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import { assert } from "../../suite/Assert.ts"
import { define, type Writer } from "../../suite/Suite.ts"
import { appended } from "./AuditLogContract.ts"

const at = DateTime.makeUnsafe("2026-11-21T02:41:00.123Z")
const later = DateTime.add(at, { minutes: 1 })

const GITHUB = { provider: "github", entry: AS_INVITED } as const

const newUser = Effect.fnUntraced(function*(more: Partial<User> = {}) {
  const store = yield* MemberStore
  const id = `user_${yield* (yield* Ids).ulid}`
  return yield* store.addUser({ id, name: "Ada 'é'", email: null, githubLogin: null, createdAt: at, ...more })
})

const organizationOf = Effect.fnUntraced(function*(organizationId: string) {
  return (yield* (yield* MemberStore).organizations).find(({ id }) => id === organizationId)
})

/** A text that no other test uses. */
const fresh = Effect.flatMap(Ids, (ids) => ids.uuid7)

const organizationsAndUsers = (it: Writer<MemberStore | AuditLog | Ids>) => {
  it.effect("there is one owner, however many ask first at once: approved, and owner of an organization", () =>
    Effect.gen(function*() {
      const store = yield* MemberStore
      const owners = yield* Effect.forEach(Array.from({ length: 8 }), () => store.owner, { concurrency: "unbounded" })
      const { organizationId, userId } = yield* store.owner
      assert.deepStrictEqual(owners, Array.from({ length: 8 }, () => ({ organizationId, userId })))
      assert.match(userId, /^user_[0-9A-HJKMNP-TV-Z]{26}$/u)
      const [member, ...others] = yield* store.members(organizationId)
      assert.deepStrictEqual([member?.user.id, member?.role, member?.active, others], [userId, "owner", true, []])
      assert.isNotNull(member?.user.approvedAt)
      assert.isNull((yield* organizationOf(organizationId))?.suspendedAt)
    }))

  it.effect("an organization is made once for each name, however many make it at once, and begins without members", () =>
    Effect.gen(function*() {
      const store = yield* MemberStore
      const ids = yield* Ids
      const name = yield* fresh
      const create = (createdAt: DateTime.Utc) => Effect.flatMap(ids.uuid7, (id) => store.createOrganization({ id, name, createdAt }))
      const told = yield* appended(Effect.gen(function*() {
        const made = yield* Effect.forEach(Array.from({ length: 8 }), () => create(at), { concurrency: "unbounded" })
        assert.strictEqual(made.filter(({ made }) => made).length, 1)
        assert.strictEqual(new Set(made.map(({ organization }) => organization.id)).size, 1)
      }))
      const { made, organization } = yield* create(later)
      assert.isFalse(made)
      assert.deepStrictEqual(organization, { id: organization.id, name, createdAt: at, suspendedAt: null })
      assert.deepStrictEqual(told, [{ action: "organization.added", at, subjects: { organizationId: organization.id } }])
      assert.deepStrictEqual(yield* store.members(organization.id), [])
      assert.isTrue((yield* store.organizations).some(({ id }) => id === organization.id))
    }))

  it.effect("lists organizations oldest first, and the members of one in the order in which their users were added", () =>
    Effect.gen(function*() {
      const store = yield* MemberStore
      const create = Effect.fnUntraced(function*(createdAt: DateTime.Utc) {
        return (yield* store.createOrganization({ id: yield* (yield* Ids).uuid7, name: yield* fresh, createdAt })).organization
      })
      const [second, first] = [yield* create(later), yield* create(at)]
      const mine = new Set([first.id, second.id])
      assert.deepStrictEqual((yield* store.organizations).filter(({ id }) => mine.has(id)), [first, second])
      const [grace, ada] = [yield* newUser({ createdAt: later }), yield* newUser()]
      yield* store.addMember(first.id, grace.id, "owner", at)
      yield* store.addMember(first.id, ada.id, "member", later)
      yield* store.removeMember(first.id, ada.id, later)
      assert.deepStrictEqual(yield* store.members(first.id), [
        { user: ada, role: "member", active: false },
        { user: grace, role: "owner", active: true }
      ])
      assert.deepStrictEqual(yield* store.members(second.id), [])
    }))

  it.effect("suspending twice keeps the first time, resuming ends it, and only an organization can be suspended", () =>
    Effect.gen(function*() {
      const store = yield* MemberStore
      const { organizationId } = yield* store.owner
      assert.deepStrictEqual((yield* store.suspend(organizationId, true, at)).suspendedAt, at)
      assert.deepStrictEqual((yield* store.suspend(organizationId, true, later)).suspendedAt, at)
      assert.deepStrictEqual((yield* organizationOf(organizationId))?.suspendedAt, at)
      assert.isNull((yield* store.suspend(organizationId, false, later)).suspendedAt)
      assert.isNull((yield* store.suspend(organizationId, false, later)).suspendedAt)
      for (const unknown of [yield* fresh, "no such"]) {
        assert.strictEqual((yield* Effect.flip(store.suspend(unknown, true, at)))._tag, "OrganizationNotFound")
      }
    }))

  it.effect("a user is found by id, by address and by login, whatever the case of the last two", () =>
    Effect.gen(function*() {
      const store = yield* MemberStore
      const unique = yield* fresh
      const user = yield* newUser({ email: `Ada-${unique}@Example.com`, githubLogin: `Ada-${unique}` })
      assert.deepStrictEqual(user, {
        ...user,
        name: "Ada 'é'",
        email: `Ada-${unique}@Example.com`,
        githubLogin: `Ada-${unique}`,
        createdAt: at,
        approvedAt: null
      })
      assert.deepStrictEqual(yield* store.findUser({ _tag: "Id", id: user.id }), user)
      assert.deepStrictEqual(yield* store.findUser({ _tag: "Email", email: `ada-${unique}@example.COM` }), user)
      assert.deepStrictEqual(yield* store.findUser({ _tag: "GithubLogin", login: `ADA-${unique}` }), user)
      assert.isNull(yield* store.findUser({ _tag: "Id", id: user.id.toLowerCase() }))
      assert.isNull(yield* store.findUser({ _tag: "Email", email: `Ada-${unique}` }))
      assert.isNull(yield* store.findUser({ _tag: "GithubLogin", login: `Ada-${unique}@Example.com` }))
    }))
}

const membership = (it: Writer<MemberStore | AuditLog | Ids>) => {
  it.effect("an address or a login belongs to one user, however many add it at once", () =>
    Effect.gen(function*() {
      const store = yield* MemberStore
      const unique = yield* fresh
      const added = yield* Effect.forEach(
        [{ email: `${unique}@a.b` }, { email: `${unique}@A.B` }, { email: `${unique}@a.b`, githubLogin: unique }, {
          email: `${unique}@a.B`
        }],
        newUser,
        { concurrency: "unbounded" }
      )
      assert.strictEqual(new Set(added.map(({ id }) => id)).size, 1)
      const byLogin = yield* newUser({ githubLogin: `L${unique}` })
      assert.deepStrictEqual(yield* newUser({ githubLogin: `l${unique}`, name: "Other" }), byLogin)
      const nobody = yield* Effect.all([newUser(), newUser()])
      assert.notStrictEqual(nobody[0].id, nobody[1].id)
      assert.strictEqual((yield* store.users).filter(({ email }) => email?.startsWith(unique)).length, 1)
    }))

  it.effect("lists users oldest first", () =>
    Effect.gen(function*() {
      const store = yield* MemberStore
      const second = yield* newUser({ createdAt: later })
      const first = yield* newUser()
      const third = yield* newUser({ createdAt: DateTime.add(at, { minutes: 2 }) })
      const mine = new Set([first.id, second.id, third.id])
      assert.deepStrictEqual((yield* store.users).filter(({ id }) => mine.has(id)), [first, second, third])
    }))

  it.effect("approving twice keeps the first time, and an approval can be taken back", () =>
    Effect.gen(function*() {
      const store = yield* MemberStore
      const user = yield* newUser()
      assert.deepStrictEqual(yield* store.approve(user.id, true, at), { ...user, approvedAt: at })
      assert.deepStrictEqual((yield* store.approve(user.id, true, later)).approvedAt, at)
      assert.deepStrictEqual(yield* store.approve(user.id, false, later), user)
      assert.deepStrictEqual(yield* store.findUser({ _tag: "Id", id: user.id }), user)
      assert.strictEqual((yield* Effect.flip(store.approve(`user_${yield* (yield* Ids).ulid}`, true, at)))._tag, "UserNotFound")
    }))

  it.effect("a member is added, gets another role, is removed and added again", () =>
    Effect.gen(function*() {
      const store = yield* MemberStore
      const { organizationId } = yield* store.owner
      const user = yield* newUser()
      const listed = Effect.map(store.members(organizationId), (members) => members.filter((member) => member.user.id === user.id))
      const steps = [
        [store.addMember(organizationId, user.id, "member", at), { user, role: "member", active: true }],
        [store.addMember(organizationId, user.id, "owner", at), { user, role: "owner", active: true }],
        [store.removeMember(organizationId, user.id, at), { user, role: "owner", active: false }],
        [store.removeMember(organizationId, user.id, at), { user, role: "owner", active: false }],
        [store.addMember(organizationId, user.id, "member", at), { user, role: "member", active: true }]
      ] as const
      for (const [step, member] of steps) {
        assert.deepStrictEqual(yield* step, member)
        assert.deepStrictEqual(yield* listed, [member])
      }
    }))

  it.effect("a user who was never a member cannot be removed, and a missing organization has no members", () =>
    Effect.gen(function*() {
      const store = yield* MemberStore
      const { organizationId, userId } = yield* store.owner
      const user = yield* newUser()
      assert.strictEqual((yield* Effect.flip(store.removeMember(organizationId, user.id, at)))._tag, "MemberNotFound")
      const unknown = yield* fresh
      assert.strictEqual((yield* Effect.flip(store.removeMember(unknown, userId, at)))._tag, "MemberNotFound")
      assert.deepStrictEqual(yield* store.members(unknown), [])
    }))
}

const viewers = (it: Writer<MemberStore | AuditLog | Ids>) => {
  it.effect("keeps a viewer apart from members, through every change of the role, and when a removed one is added again", () =>
    Effect.gen(function*() {
      const store = yield* MemberStore
      const organizationId = yield* (yield* Ids).uuid7
      yield* store.createOrganization({ id: organizationId, name: yield* fresh, createdAt: at })
      const { id } = yield* newUser()
      const now = Effect.map(store.members(organizationId), ([member]) => [member?.role, member?.active])
      for (const role of ["viewer", "member", "viewer", "owner", "viewer"] as const) {
        const { active, role: given } = yield* store.addMember(organizationId, id, role, at)
        assert.deepStrictEqual([given, active], [role, true])
        assert.deepStrictEqual(yield* now, [role, true])
      }
      const removed = yield* store.removeMember(organizationId, id, at)
      assert.deepStrictEqual([removed.role, removed.active], ["viewer", false])
      assert.deepStrictEqual(yield* now, ["viewer", false])
      yield* store.removeMember(organizationId, id, at)
      assert.deepStrictEqual(yield* now, ["viewer", false])
      yield* store.addMember(organizationId, id, "member", at)
      yield* store.removeMember(organizationId, id, at)
      assert.deepStrictEqual(yield* now, ["member", false])
    }))
}

const openIdConnect = (it: Writer<MemberStore | AuditLog | Ids>) => {
  it.effect("recognizes an account of OpenID Connect by its own id, and an invited user by the verified address, without case", () =>
    Effect.gen(function*() {
      const store = yield* MemberStore
      const [subject, local] = [yield* fresh, yield* fresh]
      const email = `${local}@Example.com`
      const ada: Identity = { provider: "oidc", entry: AS_INVITED, subject: `https://id.test ${subject}`, login: email, name: "A", email }
      const signIn = Effect.fnUntraced(function*(identity: Identity) {
        return yield* store.recognize(identity, { id: `user_${yield* (yield* Ids).ulid}`, at: later })
      })
      assert.isNull(yield* store.findBound(ada))
      const invited = yield* newUser({ email: email.toLowerCase() })
      const first = yield* signIn(ada)
      assert.deepStrictEqual(first, { ...invited, email })
      assert.deepStrictEqual(yield* store.findBound(ada), first)
      assert.deepStrictEqual(yield* store.findUser({ _tag: "Email", email: email.toLowerCase() }), first)
      assert.deepStrictEqual(yield* signIn({ ...ada, login: null, email: null }), first)
      // An account of GitHub with the same id and name is another person.
      const other = yield* signIn({ ...ada, provider: "github" })
      assert.notStrictEqual(other.id, first.id)
      assert.deepStrictEqual(yield* store.findBound(ada), first)
      assert.strictEqual((yield* store.findBound({ ...ada, provider: "github" }))?.id, other.id)
      // A stranger with the address, and no address.
      const stranger = yield* signIn({ ...ada, subject: `s ${subject}` })
      assert.notStrictEqual(stranger.id, first.id)
      assert.isNull((yield* store.findBound(ada))?.email)
      const nameless = yield* signIn({ ...ada, subject: `n ${subject}`, login: null, email: null })
      assert.deepInclude(nameless, { email: null, githubLogin: null, approvedAt: null })
    }))
}

const signIns = (it: Writer<MemberStore | AuditLog | Ids>) => {
  it.effect("recognizes who signs in by the id of the account: a new user once, an invited one once, and whatever the login", () =>
    Effect.gen(function*() {
      const store = yield* MemberStore
      const [subject, login] = [yield* fresh, `L-${yield* fresh}`]
      const newId = Effect.map(Effect.flatMap(Ids, ({ ulid }) => ulid), (ulid) => `user_${ulid}`)
      const ada: Identity = { ...GITHUB, subject, login, name: "Ada 'é'", email: `${subject}@example.com` }
      const signIn = Effect.fnUntraced(function*(identity: Identity) {
        return yield* store.recognize(identity, { id: yield* newId, at: later })
      })
      const first = yield* signIn(ada)
      assert.deepStrictEqual(first, { id: first.id, name: ada.name, email: null, githubLogin: login, createdAt: later, approvedAt: null })
      assert.deepStrictEqual(yield* signIn(ada), first)
      assert.deepStrictEqual(yield* store.findUser({ _tag: "Id", id: first.id }), first)
      assert.deepStrictEqual(yield* signIn({ ...ada, login: `${login}2`, name: "Other" }), { ...first, githubLogin: `${login}2` })
      assert.isNull(yield* store.findUser({ _tag: "GithubLogin", login }))

      const invited = yield* newUser({ githubLogin: `i${login}` })
      const approved = yield* store.approve(invited.id, true, at)
      const guest = { ...ada, subject: `g${subject}`, login: `I${login}` }
      assert.deepStrictEqual(yield* signIn(guest), { ...approved, githubLogin: guest.login })
      // A stranger who takes the login over.
      const stranger = yield* signIn({ ...guest, subject: `s${subject}` })
      assert.notStrictEqual(stranger.id, invited.id)
      assert.isNull(stranger.approvedAt)
      assert.deepStrictEqual(yield* store.findUser({ _tag: "GithubLogin", login: guest.login }), stranger)
      assert.deepStrictEqual(yield* store.findUser({ _tag: "Id", id: invited.id }), { ...approved, githubLogin: null })
      // And back.
      assert.deepStrictEqual(yield* signIn(guest), { ...approved, githubLogin: guest.login })
      assert.deepStrictEqual(yield* store.findUser({ _tag: "Id", id: stranger.id }), { ...stranger, githubLogin: null })
    }))

  it.effect("makes one user of an account that signs in many times at once, and two of two accounts with one login", () =>
    Effect.gen(function*() {
      const store = yield* MemberStore
      const [subject, login] = [yield* fresh, `M-${yield* fresh}`]
      const signIn = Effect.fnUntraced(function*(identity: Partial<Identity>) {
        const id = `user_${yield* (yield* Ids).ulid}`
        return yield* store.recognize({ ...GITHUB, subject, login, name: "Ada", email: null, ...identity }, { id, at })
      })
      const same = yield* Effect.forEach(Array.from({ length: 8 }, () => ({})), signIn, { concurrency: "unbounded" })
      assert.strictEqual(new Set(same.map(({ id }) => id)).size, 1)

      const invited = yield* newUser({ githubLogin: `x${login}` })
      const all = yield* Effect.forEach(
        Array.from({ length: 8 }, (_, i) => ({ subject: `${i % 2}${subject}`, login: `x${login}` })),
        signIn,
        { concurrency: "unbounded" }
      )
      const ids = [0, 1].map((half) => new Set(all.filter((_, i) => i % 2 === half).map(({ id }) => id)))
      assert.deepStrictEqual(ids.map(({ size }) => size), [1, 1])
      assert.strictEqual(new Set(all.map(({ id }) => id)).size, 2)
      assert.include(all.map(({ id }) => id), invited.id)

      // While administrators add the login.
      const mixed = yield* Effect.forEach(
        Array.from({ length: 8 }, (_, i) => i),
        (i) => i % 2 === 0 ? newUser({ githubLogin: `y${login}` }) : signIn({ subject: `y${subject}`, login: `y${login}` }),
        { concurrency: "unbounded" }
      )
      assert.strictEqual(new Set(mixed.map(({ id }) => id)).size, 1)
    }))

  it.effect("tells the audit log who was recognized, as their own doing, and nothing of who only came again", () =>
    Effect.gen(function*() {
      const store = yield* MemberStore
      const log = yield* AuditLog
      const [subject, login] = [yield* fresh, `N-${yield* fresh}`]
      const { id: invited } = yield* newUser({ githubLogin: login })
      const signIn = Effect.fnUntraced(function*(subject: string, login: string) {
        const id = `user_${yield* (yield* Ids).ulid}`
        return (yield* store.recognize({ ...GITHUB, subject, login, name: "Ada", email: null }, { id, at })).id
      })
      const before = (yield* log.list({ since: null, limit: 1_000_000 })).length
      yield* signIn(subject, login)
      yield* signIn(subject, login)
      const stranger = yield* signIn(`s${subject}`, login)
      yield* signIn(subject, `${login}2`)
      const told = (yield* log.list({ since: null, limit: 1_000_000 })).slice(before)
      assert.deepStrictEqual(told.map(({ action, actor, subjects }) => ({ action, actor, subjects })), [
        { action: "user.bound", actor: { _tag: "User", userId: invited }, subjects: { userId: invited, githubId: subject } },
        { action: "user.renamed", actor: { _tag: "User", userId: stranger }, subjects: { userId: invited } },
        { action: "user.added", actor: { _tag: "User", userId: stranger }, subjects: { userId: stranger, githubId: `s${subject}` } },
        { action: "user.renamed", actor: { _tag: "User", userId: invited }, subjects: { userId: invited } }
      ])
    }))
}

const auditedChanges = (it: Writer<MemberStore | AuditLog | Ids>) => {
  it.effect("tells the audit log each change, who made it, and nothing that changed nothing", () =>
    Effect.gen(function*() {
      const store = yield* MemberStore
      const { organizationId } = yield* store.owner
      const { id: userId } = yield* newUser()
      const told = yield* appended(Effect.all([
        store.approve(userId, true, at),
        store.approve(userId, true, later),
        store.approve(userId, false, later),
        store.approve(userId, false, later),
        store.addMember(organizationId, userId, "owner", at),
        store.removeMember(organizationId, userId, later),
        store.removeMember(organizationId, userId, later),
        store.suspend(organizationId, true, at),
        store.suspend(organizationId, true, later),
        store.suspend(organizationId, false, later),
        store.suspend(organizationId, false, later)
      ]))
      assert.deepStrictEqual(told, [
        { action: "user.approved", at, subjects: { userId } },
        { action: "user.disapproved", at: later, subjects: { userId } },
        { action: "member.added", at, subjects: { organizationId, userId, role: "owner" } },
        { action: "member.removed", at: later, subjects: { organizationId, userId } },
        { action: "organization.suspended", at, subjects: { organizationId } },
        { action: "organization.resumed", at: later, subjects: { organizationId } }
      ])
    }))
}

export const suite = (name: string, layer: Layer.Layer<MemberStore | AuditLog | Ids, unknown>) =>
  define(`MemberStore (${name})`, layer, (it) => {
    organizationsAndUsers(it)
    membership(it)
    signIns(it)
    openIdConnect(it)
    viewers(it)
    auditedChanges(it)
  })
