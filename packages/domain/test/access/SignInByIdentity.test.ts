import { assert, it } from "@effect/vitest"
import { AuditLog } from "@slipway/domain/access/ports/AuditLog"
import { MemberStore } from "@slipway/domain/access/ports/MemberStore"
import { AS_INVITED, type Entry } from "@slipway/domain/access/rules/Entry"
import type { Identity } from "@slipway/domain/access/rules/Identity"
import { Members } from "@slipway/domain/access/usecases/Members"
import { Sessions } from "@slipway/domain/access/usecases/Sessions"
import * as MemberStoreMemory from "@slipway/domain/memory/access/MemberStoreMemory"
import * as SessionStoreMemory from "@slipway/domain/memory/access/SessionStoreMemory"
import * as IdsMemory from "@slipway/domain/memory/ids/IdsMemory"
import * as HintsMemory from "@slipway/domain/memory/store/HintsMemory"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"

const layer = Layer.mergeAll(Sessions.layer, Members.layer).pipe(
  Layer.provideMerge(SessionStoreMemory.layer),
  Layer.provideMerge(MemberStoreMemory.layer),
  Layer.provide(HintsMemory.layer),
  Layer.provideMerge(IdsMemory.layer)
)

const ada = {
  provider: "github" as const,
  entry: AS_INVITED,
  subject: "583231",
  login: "ada-l",
  name: "Ada Lovelace",
  email: "ada@example.com"
}

it.effect("who signs in with GitHub first is a new user, not approved and a member of nothing, and the same one ever after", () =>
  Effect.gen(function*() {
    const sessions = yield* Sessions
    const store = yield* MemberStore
    const first = yield* sessions.signInByIdentity(ada, null)
    const again = yield* sessions.signInByIdentity({ ...ada, login: "countess" }, first.token)
    assert.strictEqual(again.session.userId, first.session.userId)
    assert.notStrictEqual(Redacted.value(again.token), Redacted.value(first.token))
    const user = yield* store.findUser({ _tag: "GithubLogin", login: "countess" })
    assert.deepInclude(user, { id: first.session.userId, name: "Ada Lovelace", email: null, approvedAt: null })
    const { organizationId } = yield* store.owner
    assert.notInclude((yield* store.members(organizationId)).map((member) => member.user.id), first.session.userId)
    const told = yield* (yield* AuditLog).list({ since: null, limit: 100 })
    assert.deepStrictEqual(told.map(({ action }) => action), ["user.added", "session.started", "user.renamed", "session.ended",
      "session.started"])
    for (const { actor } of told) assert.deepStrictEqual(actor, { _tag: "User", userId: first.session.userId })
  }).pipe(Effect.provide(layer)))

it.effect("whom an administrator added by login comes into that place, and a stranger who takes the login over does not", () =>
  Effect.gen(function*() {
    const sessions = yield* Sessions
    const members = yield* Members
    const { user } = yield* members.add(null, "Ada-L", "owner")
    yield* members.approve(user.id)
    assert.strictEqual((yield* sessions.signInByIdentity(ada, null)).session.userId, user.id)
    const stranger = yield* sessions.signInByIdentity({ ...ada, subject: "666" }, null)
    assert.notStrictEqual(stranger.session.userId, user.id)
    assert.isNull((yield* members.user("ada-l")).approvedAt)
    assert.isNull((yield* members.user(user.id)).githubLogin)
    assert.strictEqual((yield* sessions.signInByIdentity({ ...ada, login: "ada-new" }, null)).session.userId, user.id)
  }).pipe(Effect.provide(layer)))

const grace = (entry: Entry): Identity => ({
  provider: "oidc",
  entry,
  subject: "https://id.test 1",
  login: "grace@example.com",
  name: "Grace",
  email: "grace@example.com"
})

const membershipOf = Effect.fnUntraced(function*(userId: string) {
  const store = yield* MemberStore
  const { organizationId } = yield* store.owner
  const member = (yield* store.members(organizationId)).find(({ user }) => user.id === userId)
  return member?.active === true ? member.role : null
})

it.effect("whose groups have a role is approved and has the role from then on, and another one when the groups change", () =>
  Effect.gen(function*() {
    const sessions = yield* Sessions
    const { session } = yield* sessions.signInByIdentity(grace({ _tag: "InRole", role: "owner" }), null)
    assert.strictEqual(session.provider, "oidc")
    assert.isNotNull((yield* (yield* Members).user("grace@example.com")).approvedAt)
    assert.strictEqual(yield* membershipOf(session.userId), "owner")
    yield* sessions.signInByIdentity(grace({ _tag: "InRole", role: "member" }), null)
    assert.strictEqual(yield* membershipOf(session.userId), "member")
    const told = yield* (yield* AuditLog).list({ since: null, limit: 100 })
    yield* sessions.signInByIdentity(grace({ _tag: "InRole", role: "member" }), null)
    assert.lengthOf(yield* (yield* AuditLog).list({ since: null, limit: 100 }), told.length + 1)
  }).pipe(Effect.provide(layer)))

it.effect("whom the provider's rules refuse has no session any more, nor the role that groups gave", () =>
  Effect.gen(function*() {
    const sessions = yield* Sessions
    const refused = (leaves: boolean) => grace({ _tag: "Refused", detail: "None of your groups may enter.", leaves })
    assert.strictEqual((yield* Effect.flip(sessions.signInByIdentity(refused(true), null)))._tag, "SignInRefused")
    assert.lengthOf(yield* (yield* MemberStore).users, 1)
    const { session, token } = yield* sessions.signInByIdentity(grace({ _tag: "InRole", role: "member" }), null)
    const stranger = yield* sessions.signInByIdentity(ada, null)
    const limits = { credential: 100, user: 100 }
    assert.isNotNull(yield* sessions.admit(token, limits))
    assert.strictEqual((yield* Effect.flip(sessions.signInByIdentity(refused(false), null))).message, "None of your groups may enter.")
    assert.isNull(yield* sessions.admit(token, limits))
    assert.isNotNull(yield* sessions.admit(stranger.token, limits))
    assert.strictEqual(yield* membershipOf(session.userId), "member")
    yield* Effect.flip(sessions.signInByIdentity(refused(true), null))
    assert.isNull(yield* membershipOf(session.userId))
  }).pipe(Effect.provide(layer)))
