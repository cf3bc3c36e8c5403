/**
 * The rules that every `CiTrustStore` must keep. An adapter proves itself by running this suite against its layer; a rule that is
 * missing here is not part of the port. Fresh grants and issuers make it repeatable on one database.
 */
import { AccessStore, type KeyRecord } from "@slipway/domain/access/ports/AccessStore"
import type { AuditLog } from "@slipway/domain/access/ports/AuditLog"
import { CiTrustStore } from "@slipway/domain/access/ports/CiTrustStore"
import { MemberStore } from "@slipway/domain/access/ports/MemberStore"
import type { CiTrust } from "@slipway/domain/access/schema/CiTrust"
import { Ids } from "@slipway/domain/ids/Ids"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import { assert } from "../../suite/Assert.ts"
import { define, type Writer } from "../../suite/Suite.ts"
import { appended } from "./AuditLogContract.ts"

const PLENTY = 1_000_000
const at = DateTime.makeUnsafe("2026-11-21T02:41:00.123Z")
const after = (seconds: number) => DateTime.add(at, { seconds })

/** A trust of a new grant and a new user, in a new issuer. */
const newTrust = Effect.gen(function*() {
  const ids = yield* Ids
  const members = yield* MemberStore
  const userId = `user_${yield* ids.ulid}`
  yield* members.addUser({ id: userId, name: "Ada", email: null, githubLogin: null, createdAt: at })
  const [id, grantId] = [yield* ids.uuid7, yield* ids.uuid7]
  const { organizationId } = yield* members.owner
  yield* (yield* AccessStore).createGrant({ id: grantId, name: grantId, organizationId, createdAt: at })
  const trust: CiTrust = {
    id,
    grantId,
    userId,
    issuer: `https://${id}.example.com`,
    audience: "https://slipway.example.com",
    claims: { repository: "acme/web \"é\\", ref: "refs/heads/main" },
    scopes: ["sandboxes", "sandboxes:delete"],
    createdAt: at
  }
  return trust
})

const another = (trust: CiTrust, more: Partial<CiTrust> = {}) =>
  Effect.map(Effect.flatMap(Ids, ({ uuid7 }) => uuid7), (id): CiTrust => ({ ...trust, id, ...more }))

const keyOf = Effect.fnUntraced(function*({ grantId, userId }: CiTrust) {
  const ids = yield* Ids
  const id = yield* ids.uuid7
  const key: Omit<KeyRecord, "lastUsedAt" | "revokedAt"> = {
    id,
    grantId,
    userId,
    label: "ci: acme/web refs/heads/main 4711",
    prefix: "sbx_live_",
    last4: "Abc1",
    scopes: ["sandboxes"],
    createdAt: after(7),
    expiresAt: after(607)
  }
  return { key, digest: ids.digest(id) }
})

const changes = (it: Writer<CiTrustStore | AccessStore | MemberStore | AuditLog | Ids>) => {
  it.effect("lists trusts as they were added, oldest first, and those of one issuer", () =>
    Effect.gen(function*() {
      const store = yield* CiTrustStore
      const trust = yield* newTrust
      const later = yield* another(trust, { createdAt: after(1), claims: { project_path: "acme/web" } })
      const elsewhere = yield* another(trust, { issuer: `${trust.issuer}/other`, createdAt: after(2) })
      for (const one of [later, elsewhere, trust]) yield* store.add(one, PLENTY)
      assert.deepStrictEqual(yield* store.list(trust.issuer), [trust, later])
      assert.deepStrictEqual(yield* store.list(`${trust.issuer}/unknown`), [])
      const ofGrant = (yield* store.list(null)).filter(({ grantId }) => grantId === trust.grantId)
      assert.deepStrictEqual(ofGrant, [trust, later, elsewhere])
    }))

  it.effect("removes a trust once", () =>
    Effect.gen(function*() {
      const store = yield* CiTrustStore
      const trust = yield* newTrust
      const kept = yield* another(trust)
      yield* store.add(trust, PLENTY)
      yield* store.add(kept, PLENTY)
      assert.deepStrictEqual(yield* store.remove(trust.id, at), trust)
      assert.deepStrictEqual(yield* store.list(trust.issuer), [kept])
      assert.strictEqual((yield* Effect.flip(store.remove(trust.id, at)))._tag, "CiTrustNotFound")
      assert.strictEqual((yield* Effect.flip(store.remove("not an id", at)))._tag, "CiTrustNotFound")
    }))

  it.effect("records in the audit log who may enter from now on, and who no longer", () =>
    Effect.gen(function*() {
      const store = yield* CiTrustStore
      const trust = yield* newTrust
      const subjects = { ciTrustId: trust.id, grantId: trust.grantId, userId: trust.userId, issuer: trust.issuer }
      assert.deepStrictEqual(
        yield* appended(Effect.andThen(store.add(trust, PLENTY), store.remove(trust.id, after(3)))),
        [
          { action: "ci_trust.added", at, subjects },
          { action: "ci_trust.removed", at: after(3), subjects }
        ]
      )
    }))

  it.effect("keeps to the limit of a grant, also when many are added at once", () =>
    Effect.gen(function*() {
      const store = yield* CiTrustStore
      const [trust, other] = [yield* newTrust, yield* newTrust]
      const many = yield* Effect.all(Array.from({ length: 6 }, () => another(trust)))
      const added = yield* Effect.forEach(many, (one) => Effect.result(store.add(one, 3)), { concurrency: "unbounded" })
      assert.lengthOf(added.filter(({ _tag }) => _tag === "Success"), 3)
      assert.lengthOf(yield* store.list(trust.issuer), 3)
      assert.strictEqual((yield* Effect.flip(store.add(trust, 3)))._tag, "TooManyCiTrusts")
      yield* store.add(other, 3)
    }))

  it.effect("refuses trusts of a revoked grant, and lists none", () =>
    Effect.gen(function*() {
      const store = yield* CiTrustStore
      const trust = yield* newTrust
      yield* store.add(trust, PLENTY)
      yield* (yield* AccessStore).revokeGrant(trust.grantId, at)
      assert.deepStrictEqual(yield* store.list(trust.issuer), [])
      assert.strictEqual((yield* Effect.flip(store.add(yield* another(trust), PLENTY)))._tag, "GrantNotFound")
    }))
}

const exchanges = (it: Writer<CiTrustStore | AccessStore | MemberStore | AuditLog | Ids>) => {
  it.effect("makes a key that works, and records which trust and which run it is from", () =>
    Effect.gen(function*() {
      const store = yield* CiTrustStore
      const trust = yield* newTrust
      yield* store.add(trust, PLENTY)
      const { digest, key } = yield* keyOf(trust)
      const told = yield* appended(Effect.gen(function*() {
        assert.deepStrictEqual(yield* store.exchange(trust.id, key, digest, PLENTY), { ...key, lastUsedAt: null, revokedAt: null })
      }))
      const { grantId, id: keyId, label, userId } = key
      assert.deepStrictEqual(told, [
        { action: "key.minted", at: after(7), subjects: { keyId, grantId, userId } },
        { action: "ci_token.exchanged", at: after(7), subjects: { ciTrustId: trust.id, grantId, userId, keyId, run: label } }
      ])
      assert.deepStrictEqual((yield* (yield* AccessStore).listKeys(grantId)).map(({ id }) => id), [keyId])
    }))

  it.effect("makes no key of a trust that was removed, or whose grant is revoked", () =>
    Effect.gen(function*() {
      const store = yield* CiTrustStore
      const access = yield* AccessStore
      const [removed, revoked] = [yield* newTrust, yield* newTrust]
      for (const trust of [removed, revoked]) yield* store.add(trust, PLENTY)
      yield* store.remove(removed.id, at)
      yield* access.revokeGrant(revoked.grantId, at)
      for (const trust of [removed, revoked]) {
        const { digest, key } = yield* keyOf(trust)
        const told = yield* appended(Effect.gen(function*() {
          assert.isNull(yield* store.exchange(trust.id, key, digest, PLENTY))
        }))
        assert.deepStrictEqual(told, [])
        assert.deepStrictEqual(yield* access.listKeys(trust.grantId), [])
      }
    }))

  it.effect("keeps to the user's limit of keys, and records no exchange that was refused", () =>
    Effect.gen(function*() {
      const store = yield* CiTrustStore
      const trust = yield* newTrust
      yield* store.add(trust, PLENTY)
      const first = yield* keyOf(trust)
      yield* store.exchange(trust.id, first.key, first.digest, 1)
      const { digest, key } = yield* keyOf(trust)
      const told = yield* appended(Effect.gen(function*() {
        assert.deepInclude(yield* Effect.flip(store.exchange(trust.id, key, digest, 1)), { because: "too_many_keys" })
      }))
      assert.deepStrictEqual(told, [])
    }))
}

export const suite = (name: string, layer: Layer.Layer<CiTrustStore | AccessStore | MemberStore | AuditLog | Ids, unknown>) =>
  define(`CiTrustStore (${name})`, layer, (it) => {
    changes(it)
    exchanges(it)
  })
