/**
 * The rules that every `DeviceLoginStore` must keep. An adapter proves itself by running this suite against its layer; a rule that is
 * missing here is not part of the port. Fresh users and codes make it repeatable on one database.
 */
import { AccessStore, type KeyRecord } from "@slipway/domain/access/ports/AccessStore"
import type { AuditLog } from "@slipway/domain/access/ports/AuditLog"
import { DeviceLoginStore, type MostOpen } from "@slipway/domain/access/ports/DeviceLoginStore"
import { MemberStore } from "@slipway/domain/access/ports/MemberStore"
import { INTERVAL } from "@slipway/domain/access/rules/DeviceLogin"
import { Ids } from "@slipway/domain/ids/Ids"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import { assert } from "../../suite/Assert.ts"
import { define, type Writer } from "../../suite/Suite.ts"
import { appended } from "./AuditLogContract.ts"

const PLENTY = 1_000_000
const ANY: MostOpen = { ofNetwork: PLENTY, ofAll: PLENTY }

/** Later than what other tests on the database began, so that they are not in the way. */
const at = DateTime.makeUnsafe("2026-11-21T02:41:00.123Z")
const after = (seconds: number) => DateTime.add(at, { seconds })

const newDigest = Effect.gen(function*() {
  const ids = yield* Ids
  return ids.digest(yield* ids.uuid7)
})

const somebody = Effect.gen(function*() {
  const userId = `user_${yield* (yield* Ids).ulid}`
  yield* (yield* MemberStore).addUser({ id: userId, name: "Ada", email: null, githubLogin: null, createdAt: at })
  const grantId = yield* (yield* Ids).uuid7
  const { organizationId } = yield* (yield* MemberStore).owner
  yield* (yield* AccessStore).createGrant({ id: grantId, name: grantId, organizationId, createdAt: at })
  return { userId, grantId }
})

interface Beginning {
  readonly address?: string
  readonly createdAt?: DateTime.Utc
  readonly most?: Partial<MostOpen>
}
const begin = Effect.fnUntraced(function*({ address = "192.0.2.7", createdAt = at, most }: Beginning = {}) {
  const digests = { device: yield* newDigest, user: yield* newDigest }
  const begun = yield* (yield* DeviceLoginStore).begin({ machine: "ada's laptop", address, createdAt }, digests, { ...ANY, ...most })
  return { begun, ...digests }
})

const keyOf = Effect.fnUntraced(function*({ grantId, userId }: { readonly userId: string; readonly grantId: string }) {
  const key: Omit<KeyRecord, "lastUsedAt" | "revokedAt"> = {
    id: yield* (yield* Ids).uuid7,
    grantId,
    userId,
    label: "ada's laptop",
    prefix: "sbx_live_",
    last4: "Abc1",
    scopes: ["sandboxes"],
    createdAt: at,
    expiresAt: null
  }
  return key
})

/** The result of `ask`, as a word if it was refused. */
const ask = (device: string, now: DateTime.Utc) =>
  Effect.flatMap(DeviceLoginStore, (store) => store.ask(device, now)).pipe(
    Effect.catchTag("DeviceLoginRefused", ({ because }) => Effect.succeed(because))
  )

const decisions = (it: Writer<DeviceLoginStore | AccessStore | MemberStore | AuditLog | Ids>) => {
  it.effect("finds a login by the digest of its user code until it is decided, and for ten minutes", () =>
    Effect.gen(function*() {
      const store = yield* DeviceLoginStore
      const by = yield* somebody
      const { begun, device, user } = yield* begin()
      assert.isTrue(begun)
      const login = {
        machine: "ada's laptop",
        address: "192.0.2.7",
        createdAt: at,
        decision: null,
        pace: { interval: INTERVAL, lastAskedAt: null }
      }
      assert.deepStrictEqual(yield* store.find(user, after(599)), login)
      assert.isNull(yield* store.find(user, after(600)))
      assert.isNull(yield* store.find(device, at))
      const decision = { _tag: "Approved", ...by } as const
      assert.isNull(yield* store.decide(user, decision, after(600)))
      assert.deepStrictEqual(yield* store.decide(user, decision, after(599)), { ...login, decision })
      assert.isNull(yield* store.find(user, after(599)))
    }))

  it.effect("lets one of many decide, who is in the audit log", () =>
    Effect.gen(function*() {
      const store = yield* DeviceLoginStore
      const [ada, eve] = [yield* somebody, yield* somebody]
      const { user } = yield* begin()
      const told = yield* appended(Effect.gen(function*() {
        const answers = yield* Effect.all(
          [
            store.decide(user, { _tag: "Denied", userId: ada.userId }, after(20)),
            store.decide(user, { _tag: "Approved", ...eve }, after(20))
          ],
          { concurrency: "unbounded" }
        )
        assert.lengthOf(answers.filter((answer) => answer !== null), 1)
      }))
      assert.lengthOf(told, 1)
      const [entry] = told
      const machine = "ada's laptop"
      assert.deepInclude(
        entry,
        entry?.action === "device_login.denied"
          ? { action: "device_login.denied", at: after(20), subjects: { userId: ada.userId, machine } }
          : { action: "device_login.approved", at: after(20), subjects: { ...eve, machine } }
      )
    }))

  it.effect("enforces the polling interval, and tells a decision to a client that keeps to it", () =>
    Effect.gen(function*() {
      const store = yield* DeviceLoginStore
      const by = yield* somebody
      const { device, user } = yield* begin()
      assert.strictEqual(yield* ask(yield* newDigest, at), "invalid_grant")
      assert.strictEqual(yield* ask(device, at), "authorization_pending")
      assert.strictEqual(yield* ask(device, after(4)), "slow_down")
      assert.strictEqual(yield* ask(device, after(13)), "slow_down")
      assert.deepStrictEqual((yield* store.find(user, after(13)))?.pace, { interval: 15, lastAskedAt: after(13) })
      yield* store.decide(user, { _tag: "Approved", ...by }, after(20))
      assert.deepStrictEqual(yield* ask(device, after(28)), { machine: "ada's laptop", ...by })
      assert.strictEqual(yield* ask(device, after(600)), "expired_token")
      const denied = yield* begin()
      yield* store.decide(denied.user, { _tag: "Denied", userId: by.userId }, at)
      assert.strictEqual(yield* ask(denied.device, at), "access_denied")
    }))

  it.effect("makes the key of an approved login once, also when two clients fetch it at the same time", () =>
    Effect.gen(function*() {
      const store = yield* DeviceLoginStore
      const access = yield* AccessStore
      const by = yield* somebody
      const { device, user } = yield* begin()
      const fetched = Effect.gen(function*() {
        return yield* store.redeem(device, yield* keyOf(by), yield* newDigest, PLENTY)
      })
      assert.isNull(yield* fetched)
      yield* store.decide(user, { _tag: "Approved", ...by }, at)
      const made = (yield* Effect.all([fetched, fetched, fetched], { concurrency: "unbounded" })).filter((key) => key !== null)
      assert.lengthOf(made, 1)
      assert.deepStrictEqual(yield* access.listKeys(by.grantId), made)
      assert.isNull(yield* fetched)
      assert.strictEqual(yield* ask(device, at), "invalid_grant")
    }))
}

const bounds = (it: Writer<DeviceLoginStore | AccessStore | MemberStore | AuditLog | Ids>) => {
  it.effect("makes no key of a denied login", () =>
    Effect.gen(function*() {
      const store = yield* DeviceLoginStore
      const by = yield* somebody
      const { device, user } = yield* begin()
      yield* store.decide(user, { _tag: "Denied", userId: by.userId }, at)
      assert.isNull(yield* store.redeem(device, yield* keyOf(by), yield* newDigest, PLENTY))
      assert.isEmpty(yield* (yield* AccessStore).listKeys(by.grantId))
    }))

  it.effect("keeps the login when its key is not made, because its user has as many as a user may have", () =>
    Effect.gen(function*() {
      const store = yield* DeviceLoginStore
      const by = yield* somebody
      const { device, user } = yield* begin()
      yield* store.decide(user, { _tag: "Approved", ...by }, at)
      const refused = yield* Effect.flip(store.redeem(device, yield* keyOf(by), yield* newDigest, 0))
      assert.deepInclude(refused, { _tag: "MintRefused", because: "too_many_keys" })
      assert.isEmpty(yield* (yield* AccessStore).listKeys(by.grantId))
      assert.isNotNull(yield* store.redeem(device, yield* keyOf(by), yield* newDigest, 1))
    }))

  // Everything that other tests began is over on these days.
  const day = (days: number) => (seconds: number) => DateTime.add(at, { days, seconds })

  const areOpen = (logins: ReadonlyArray<{ readonly user: string }>, now: DateTime.Utc) =>
    Effect.flatMap(
      DeviceLoginStore,
      (store) => Effect.forEach(logins, ({ user }) => Effect.map(store.find(user, now), (login) => login !== null))
    )

  it.effect("the oldest open login of a network gives way to one more of it, and those of others stay", () =>
    Effect.gen(function*() {
      const on = day(1)
      const most = { ofNetwork: 2 }
      const other = yield* begin({ createdAt: on(0), address: "192.0.2.8", most })
      const nowhere = yield* Effect.forEach([1, 2, 3], (n) => begin({ createdAt: on(n), address: "", most }))
      const addresses = ["2001:db8:1:2::1", "2001:db8:1:2::2", "2001:db8:1:2:3:4:5:6"]
      const own = yield* Effect.forEach(addresses, (address, i) => begin({ createdAt: on(10 + i), address, most }))
      assert.isTrue(own.every(({ begun }) => begun))
      assert.deepStrictEqual(yield* areOpen([other, ...nowhere, ...own], on(20)), [true, true, true, true, false, true, true])
    }))

  it.effect("keeps to the bound of a network when many begin at once", () =>
    Effect.gen(function*() {
      const on = day(2)
      const many = Array.from({ length: 8 }, () => begin({ createdAt: on(0), most: { ofNetwork: 3 } }))
      const begun = yield* Effect.all(many, { concurrency: "unbounded" })
      assert.lengthOf((yield* areOpen(begun, on(1))).filter(Boolean), 3)
    }))

  it.effect("one more than may be open of all takes the place of the oldest one of the network that has most", () =>
    Effect.gen(function*() {
      const on = day(4)
      const most = { ofAll: 4 }
      const old = yield* begin({ createdAt: on(0), address: "192.0.2.1", most })
      const crowd = yield* Effect.forEach([1, 2, 3, 4], (n) => begin({ createdAt: on(n), address: "192.0.2.2", most }))
      const late = yield* begin({ createdAt: on(5), address: "192.0.2.3", most })
      assert.deepStrictEqual(yield* areOpen([old, ...crowd, late], on(6)), [true, false, false, true, true, true])
    }))

  it.effect("a login that is decided or over counts for no bound, and gives way to none", () =>
    Effect.gen(function*() {
      const store = yield* DeviceLoginStore
      const by = yield* somebody
      const on = day(5)
      const most = { ofNetwork: 1, ofAll: 1 }
      const approved = yield* begin({ createdAt: on(0), most })
      yield* store.decide(approved.user, { _tag: "Approved", ...by }, on(1))
      const over = yield* begin({ createdAt: on(2), most })
      const next = yield* begin({ createdAt: on(602), most })
      assert.deepStrictEqual(yield* areOpen([next], on(603)), [true])
      assert.strictEqual(yield* ask(over.device, on(603)), "expired_token")
      assert.deepStrictEqual(yield* ask(approved.device, on(599)), { machine: "ada's laptop", ...by })
    }))

  it.effect("reports a login as expired for as long again as it lived, also when others begin meanwhile", () =>
    Effect.gen(function*() {
      const createdAt = DateTime.add(at, { days: 3 })
      const { device } = yield* begin({ createdAt })
      yield* begin({ createdAt: DateTime.add(createdAt, { seconds: 1199 }) })
      assert.strictEqual(yield* ask(device, DateTime.add(createdAt, { seconds: 1199 })), "expired_token")
      yield* begin({ createdAt: DateTime.add(createdAt, { seconds: 1200 }) })
      assert.strictEqual(yield* ask(device, DateTime.add(createdAt, { seconds: 1200 })), "invalid_grant")
    }))

  it.effect("refuses codes that another login has", () =>
    Effect.gen(function*() {
      const store = yield* DeviceLoginStore
      const createdAt = DateTime.add(at, { days: 6 })
      const { device, user } = yield* begin({ createdAt })
      const login = { machine: "eve's", address: "", createdAt }
      assert.isFalse(yield* store.begin(login, { device: yield* newDigest, user }, ANY))
      assert.isFalse(yield* store.begin(login, { device, user: yield* newDigest }, ANY))
      assert.strictEqual((yield* store.find(user, createdAt))?.machine, "ada's laptop")
    }))
}

export const suite = (name: string, layer: Layer.Layer<DeviceLoginStore | AccessStore | MemberStore | AuditLog | Ids, unknown>) =>
  define(`DeviceLoginStore (${name})`, layer, (it) => {
    decisions(it)
    bounds(it)
  })
