/**
 * What every `DeviceLoginStore` must do. An adapter proves itself by running this suite against its layer; a rule that is not
 * here is not part of the port. Fresh users and codes make it repeatable on one database.
 */
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import { AccessStore, type KeyRecord } from "../src/access/AccessStore.ts"
import type { AuditLog } from "../src/access/AuditLog.ts"
import { INTERVAL } from "../src/access/DeviceLogin.ts"
import { DeviceLoginStore } from "../src/access/DeviceLoginStore.ts"
import { MemberStore } from "../src/access/MemberStore.ts"
import { Ids } from "../src/Ids.ts"
import { assert } from "./Assert.ts"
import { appended } from "./AuditLogContract.ts"
import { define } from "./Suite.ts"

const PLENTY = 1_000_000

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

const begin = Effect.fnUntraced(function*({ createdAt = at, most = PLENTY }: { createdAt?: DateTime.Utc; most?: number } = {}) {
  const digests = { device: yield* newDigest, user: yield* newDigest }
  const begun = yield* (yield* DeviceLoginStore).begin({ machine: "ada's laptop", address: "192.0.2.7", createdAt }, digests, most)
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

/** What `ask` comes to, as a word where it is refused. */
const ask = (device: string, now: DateTime.Utc) =>
  Effect.flatMap(DeviceLoginStore, (store) => store.ask(device, now)).pipe(
    Effect.catchTag("DeviceLoginRefused", ({ because }) => Effect.succeed(because))
  )

export const suite = (name: string, layer: Layer.Layer<DeviceLoginStore | AccessStore | MemberStore | AuditLog | Ids, unknown>) =>
  define(`DeviceLoginStore (${name})`, layer, (it) => {
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

    it.effect("keeps the pace of whoever asks, and tells a decision to whom keeps to it", () =>
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

    it.effect("makes the key of an approved login once, whoever fetches it at the same time", () =>
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

    it.effect("remembers so many at most, of many that begin at once too, and makes room when they are over", () =>
      Effect.gen(function*() {
        // Everything that other tests began is over by then.
        const createdAt = DateTime.add(at, { days: 1 })
        const begins = Array.from({ length: 5 }, () => begin({ createdAt, most: 3 }))
        const begun = yield* Effect.all(begins, { concurrency: "unbounded" })
        assert.lengthOf(begun.filter(({ begun }) => begun), 3)
        assert.isFalse((yield* begin({ createdAt: DateTime.add(createdAt, { seconds: 599 }), most: 3 })).begun)
        assert.isTrue((yield* begin({ createdAt: DateTime.add(createdAt, { seconds: 600 }), most: 3 })).begun)
      }))

    it.effect("says that a login expired as long again as it lived, whoever begins meanwhile", () =>
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
        const createdAt = DateTime.add(at, { days: 2 })
        const { device, user } = yield* begin({ createdAt })
        const login = { machine: "eve's", address: "", createdAt }
        assert.isFalse(yield* store.begin(login, { device: yield* newDigest, user }, PLENTY))
        assert.isFalse(yield* store.begin(login, { device, user: yield* newDigest }, PLENTY))
        assert.strictEqual((yield* store.find(user, createdAt))?.machine, "ada's laptop")
      }))
  })
