import { assert, it } from "@effect/vitest"
import { AccessStore } from "@slipway/domain/access/ports/AccessStore"
import { ActingFrom, AuditLog } from "@slipway/domain/access/ports/AuditLog"
import { MemberStore } from "@slipway/domain/access/ports/MemberStore"
import { KeysPerUser } from "@slipway/domain/access/rules/Minting"
import { Access } from "@slipway/domain/access/usecases/Access"
import { DeviceLogins } from "@slipway/domain/access/usecases/DeviceLogins"
import { Ids } from "@slipway/domain/ids/Ids"
import * as DeviceLoginStoreMemory from "@slipway/domain/memory/access/DeviceLoginStoreMemory"
import * as IdsMemory from "@slipway/domain/memory/ids/IdsMemory"
import * as HintsMemory from "@slipway/domain/memory/store/HintsMemory"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import { TestClock } from "effect/testing"

const layer = Layer.merge(DeviceLogins.layer, Access.layer).pipe(
  Layer.provide(Layer.succeed(KeysPerUser, 2)),
  Layer.provideMerge(DeviceLoginStoreMemory.layer),
  Layer.provideMerge(Layer.merge(IdsMemory.layer, HintsMemory.layer))
)

const PLENTY = { credential: 1000, user: 1000, grant: 1000 }

const owner = Effect.gen(function*() {
  const { userId } = yield* (yield* MemberStore).owner
  const { grant } = yield* (yield* Access).createGrant("default")
  return { userId, grantId: grant.id }
})
const stranger = Effect.gen(function*() {
  const id = `user_${yield* (yield* Ids).ulid}`
  const at = yield* DateTime.now
  const store = yield* MemberStore
  yield* store.addUser({ id, name: "Eve", email: null, githubLogin: "eve", createdAt: at })
  return yield* store.approve(id, true, at)
})

it.effect("a command gets a key of the person who approves it, named after the machine, once", () =>
  Effect.gen(function*() {
    const logins = yield* DeviceLogins
    const by = yield* owner
    const origin = { requestId: "req_1", address: "192.0.2.7" }
    const begun = yield* Effect.provideService(logins.begin("ada's laptop"), ActingFrom, origin)
    assert.match(Redacted.value(begun.deviceCode), /^[0-9A-Za-z]{43}$/u)
    assert.match(begun.userCode, /^[BCDFGHJKLMNPQRSTVWXZ]{8}$/u)
    assert.deepInclude(yield* logins.find(begun.userCode), { machine: "ada's laptop", address: "192.0.2.7", decision: null })
    assert.deepInclude(yield* Effect.flip(logins.redeem(begun.deviceCode)), { because: "authorization_pending" })
    yield* TestClock.adjust("5 seconds")
    yield* logins.approve(begun.userCode, by)
    const { grant, key, record } = yield* logins.redeem(begun.deviceCode)
    const createdAt = yield* DateTime.now
    assert.deepInclude(record, {
      label: "ada's laptop",
      userId: by.userId,
      grantId: by.grantId,
      scopes: ["sandboxes"],
      prefix: "sbx_live_",
      expiresAt: DateTime.add(createdAt, { days: 90 })
    })
    assert.strictEqual(grant.name, "default")
    const admitted = yield* (yield* Access).admit(key, PLENTY)
    assert.deepInclude(admitted?.principal, { grantId: by.grantId, userId: by.userId, test: false })
    assert.deepStrictEqual((yield* (yield* AccessStore).listKeys(by.grantId)).map(({ id }) => id), [record.id])
    yield* TestClock.adjust("5 seconds")
    assert.deepInclude(yield* Effect.flip(logins.redeem(begun.deviceCode)), { because: "invalid_grant" })
    assert.strictEqual((yield* Effect.flip(logins.find(begun.userCode)))._tag, "DeviceLoginNotFound")

    const told = yield* (yield* AuditLog).list({ since: null, limit: 100 })
    const minted = told.find(({ action }) => action === "key.minted")
    assert.deepStrictEqual(minted?.actor, { _tag: "User", userId: by.userId })
    assert.notInclude(JSON.stringify(told), begun.userCode)
    assert.notInclude(JSON.stringify(told), Redacted.value(begun.deviceCode))
  }).pipe(Effect.provide(layer)))

it.effect("nothing is given without a yes, nor after a no", () =>
  Effect.gen(function*() {
    const logins = yield* DeviceLogins
    const by = yield* owner
    const begun = yield* logins.begin("laptop")
    yield* logins.deny(begun.userCode, by)
    assert.strictEqual((yield* Effect.flip(logins.approve(begun.userCode, by)))._tag, "DeviceLoginNotFound")
    assert.deepInclude(yield* Effect.flip(logins.redeem(begun.deviceCode)), { because: "access_denied" })
    assert.deepInclude(yield* Effect.flip(logins.redeem(Redacted.make("anything"))), { because: "invalid_grant" })
    assert.isEmpty(yield* (yield* AccessStore).listKeys(null))
  }).pipe(Effect.provide(layer)))

it.effect("a person can approve in a grant of one's own alone, and only as long as keys may be minted there", () =>
  Effect.gen(function*() {
    const logins = yield* DeviceLogins
    const members = yield* MemberStore
    const { grantId } = yield* owner
    const eve = yield* stranger
    const { deviceCode, userCode } = yield* logins.begin("laptop")
    const by = { userId: eve.id, grantId }
    assert.deepInclude(yield* Effect.flip(logins.approve(userCode, by)), { _tag: "MintRefused", because: "not_a_member" })
    const nowhere = yield* Effect.flip(logins.approve(userCode, { ...by, grantId: eve.id }))
    assert.strictEqual(nowhere._tag, "GrantNotFound")
    const { organizationId } = yield* members.owner
    const now = yield* DateTime.now
    yield* members.addMember(organizationId, eve.id, "member", now)
    yield* logins.approve(userCode, by)
    yield* members.removeMember(organizationId, eve.id, now)
    assert.deepInclude(yield* Effect.flip(logins.redeem(deviceCode)), { _tag: "MintRefused", because: "not_a_member" })
    assert.isEmpty(yield* (yield* AccessStore).listKeys(grantId))
  }).pipe(Effect.provide(layer)))

it.effect("a grant that is revoked after the approval gives no key", () =>
  Effect.gen(function*() {
    const logins = yield* DeviceLogins
    const by = yield* owner
    const { deviceCode, userCode } = yield* logins.begin("laptop")
    yield* logins.approve(userCode, by)
    yield* (yield* Access).revokeGrant(by.grantId)
    assert.deepInclude(yield* Effect.flip(logins.redeem(deviceCode)), { because: "access_denied" })
  }).pipe(Effect.provide(layer)))

it.effect("a person who has as many keys as may be gets no more of them", () =>
  Effect.gen(function*() {
    const logins = yield* DeviceLogins
    const by = yield* owner
    const outcome = Effect.gen(function*() {
      const { deviceCode, userCode } = yield* logins.begin("laptop")
      yield* logins.approve(userCode, by)
      return yield* Effect.match(logins.redeem(deviceCode), {
        onFailure: (error) => "because" in error ? error.because : error._tag,
        onSuccess: ({ record }) => record.label
      })
    })
    assert.deepStrictEqual([yield* outcome, yield* outcome, yield* outcome], ["laptop", "laptop", "too_many_keys"])
  }).pipe(Effect.provide(layer)))
