import { assert, layer } from "@effect/vitest"
import { AccessStore } from "@slipway/domain/access/ports/AccessStore"
import { AuditLog } from "@slipway/domain/access/ports/AuditLog"
import { MemberStore } from "@slipway/domain/access/ports/MemberStore"
import type { CiTrust } from "@slipway/domain/access/schema/CiTrust"
import { Access } from "@slipway/domain/access/usecases/Access"
import { CiTrusts } from "@slipway/domain/access/usecases/CiTrusts"
import { Ids } from "@slipway/domain/ids/Ids"
import * as CiTokensOidc from "@slipway/oidc/CiTokensOidc"
import { type CiIssuer, claimsOf, HEADER, start, tokenOf, weakTokenOf } from "@slipway/oidc/testing/CiIssuer"
import { Clock, Context, DateTime, Effect, Layer, References } from "effect"
import { TestClock } from "effect/testing"
import { generateKeyPairSync } from "node:crypto"
import { type Ask, ask, json, layer as http, PUBLIC_URL, type Reply, SANDBOXES } from "../testing/Harness.ts"

const PATH = "/api/internal/v1/token-exchange"
const TYPE = "urn:ietf:params:oauth:token-type:"
const FORM = { "content-type": "application/x-www-form-urlencoded" }

class Issuer extends Context.Service<Issuer, CiIssuer>()("Issuer") {}

const services = Layer.unwrap(Effect.map(start, (ci) =>
  http({ settings: { refusedKeysPerMinute: 1000 } }).pipe(
    Layer.provide(CiTokensOidc.layer({ privates: new Set([ci.destination]), option: "SLIPWAY_CI_PRIVATE" })),
    Layer.provideMerge(Layer.succeed(Issuer, ci))
  )))

const send = (fields: Readonly<Record<string, string>>, headers: Ask["headers"] = {}) =>
  ask(PATH, { method: "POST", body: new URLSearchParams(fields).toString(), headers: { ...FORM, ...headers } })

const exchange = (token: string, more: Readonly<Record<string, string>> = {}) =>
  send({
    grant_type: "urn:ietf:params:oauth:grant-type:token-exchange",
    subject_token: token,
    subject_token_type: `${TYPE}jwt`,
    ...more
  })

const errorOf = (reply: Reply): unknown => [reply.status, json(reply).error]
const REFUSED = [400, "invalid_request"]

/** A trust of a new grant in runs of the branch main of a new repository, for a new member, and the claims of such a run. */
const given = Effect.fnUntraced(function*(more: Partial<CiTrust> = {}) {
  const ci = yield* Issuer
  const members = yield* MemberStore
  const id = yield* (yield* Ids).ulid
  const at = yield* DateTime.now
  const userId = `user_${id}`
  const { organizationId } = yield* members.owner
  yield* members.addUser({ id: userId, name: "Ada", email: null, githubLogin: null, createdAt: at })
  yield* members.approve(userId, true, at)
  yield* members.addMember(organizationId, userId, "member", at)
  const { grant } = yield* (yield* Access).createGrant(`grant ${id}`)
  const repository = `acme/${id.toLowerCase()}`
  const trust = yield* (yield* CiTrusts).add({
    grant: grant.name,
    userId,
    issuer: ci.issuer,
    audience: PUBLIC_URL,
    claims: { repository, ref: "refs/heads/main" },
    scopes: ["sandboxes"],
    ...more
  })
  const claims = claimsOf(ci.issuer, Math.floor((yield* Clock.currentTimeMillis) / 1000), { aud: PUBLIC_URL, repository })
  return { ci, trust, claims, userId, organizationId, grant, token: tokenOf(ci.key, claims), repository }
})

const keysOf = (grantId: string) => Effect.flatMap(AccessStore, ({ listKeys }) => listKeys(grantId))

layer(services)("the exchange of a CI's token", (it) => {
  it.effect("gives a key of ten minutes that acts for the creator of the trust, named after the run", () =>
    Effect.gen(function*() {
      const { grant, repository, token, trust, userId } = yield* given()
      const reply = yield* exchange(token, { audience: PUBLIC_URL, resource: PUBLIC_URL, requested_token_type: `${TYPE}access_token` })
      const { access_token, ...more } = json(reply)
      assert.strictEqual(reply.status, 200)
      assert.strictEqual(reply.headers["cache-control"], "no-store")
      assert.deepStrictEqual(more, {
        issued_token_type: `${TYPE}access_token`,
        token_type: "Bearer",
        expires_in: 600,
        scope: "sandboxes"
      })
      const [key] = yield* keysOf(grant.id)
      const label = `ci: ${repository} refs/heads/main 4711`
      const expiresAt = DateTime.add(yield* DateTime.now, { minutes: 10 })
      assert.deepInclude(key, { userId, label, scopes: ["sandboxes"], expiresAt, revokedAt: null })
      const entries = yield* (yield* AuditLog).list({ since: null, limit: 1 })
      const subjects = { ciTrustId: trust.id, grantId: grant.id, userId, keyId: key?.id ?? "", run: label }
      assert.deepInclude(entries[0], { action: "ci_token.exchanged", subjects, actor: { _tag: "System" } })
      assert.isNotNull(entries[0]?.origin)

      const headers = { authorization: `Bearer ${access_token}` }
      assert.strictEqual((yield* ask(SANDBOXES, { headers })).status, 200)
      yield* TestClock.adjust("599 seconds")
      assert.strictEqual((yield* ask(SANDBOXES, { headers })).status, 200)
      yield* TestClock.adjust("1 second")
      assert.strictEqual((yield* ask(SANDBOXES, { headers })).status, 401)
    }))

  it.effect("takes an ID token as such, and the same token again while it is valid", () =>
    Effect.gen(function*() {
      const { grant, token } = yield* given()
      for (let i = 0; i < 2; i++) {
        assert.strictEqual((yield* exchange(token, { subject_token_type: `${TYPE}id_token` })).status, 200)
      }
      assert.lengthOf(yield* keysOf(grant.id), 2)
      yield* TestClock.adjust("6 minutes")
      assert.deepStrictEqual(errorOf(yield* exchange(token)), REFUSED)
    }))

  it.effect("refuses a token with any other claim than the trust has, by one text", () =>
    Effect.gen(function*() {
      const { ci, claims, grant, repository } = yield* given()
      const at = Number(claims["iat"])
      const others: ReadonlyArray<Readonly<Record<string, unknown>>> = [
        { aud: "https://other.example.com" },
        { aud: undefined },
        { aud: `${PUBLIC_URL}/` },
        { iss: "https://other.example.com" },
        { iss: `${ci.issuer}/` },
        { repository: "eve/web" },
        { repository: repository.toUpperCase() },
        { repository: `${repository}2` },
        { repository: [repository] },
        { repository: undefined },
        { ref: "refs/heads/main2" },
        { ref: "refs/tags/main" },
        { ref: "refs/pull/1/merge" },
        { ref: undefined },
        { exp: at - 61 },
        { nbf: at + 120 }
      ]
      const texts = new Set<unknown>()
      for (const other of others) {
        const reply = yield* exchange(tokenOf(ci.key, { ...claims, ...other }))
        assert.deepStrictEqual(errorOf(reply), REFUSED, JSON.stringify(other))
        texts.add(json(reply).error_description)
      }
      const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 })
      const forged = [
        tokenOf(privateKey, claims),
        tokenOf(ci.key, claims, { ...HEADER, kid: "other" }),
        weakTokenOf(claims, { ...HEADER, alg: "none" }, null),
        weakTokenOf(claims, { ...HEADER, alg: "HS256" }, JSON.stringify(ci.keys[0])),
        "no token"
      ]
      for (const token of forged) {
        const reply = yield* exchange(token)
        assert.deepStrictEqual(errorOf(reply), REFUSED, token)
        texts.add(json(reply).error_description)
      }
      assert.lengthOf([...texts], 1)
      assert.deepStrictEqual(yield* keysOf(grant.id), [])
    }))

  it.effect("takes a token whose audience is a list that has the service", () =>
    Effect.gen(function*() {
      const { ci, claims } = yield* given()
      assert.strictEqual((yield* exchange(tokenOf(ci.key, { ...claims, aud: ["https://other.example.com", PUBLIC_URL] }))).status, 200)
    }))

  it.effect("asks no issuer that no trust names", () =>
    Effect.gen(function*() {
      const { claims } = yield* given()
      const other = yield* start
      const token = tokenOf(other.key, { ...claims, iss: other.issuer })
      assert.deepStrictEqual(errorOf(yield* exchange(token)), REFUSED)
      assert.deepStrictEqual(other.got, [])
    }))

  it.effect("gives no key once the trust is removed, or its grant revoked", () =>
    Effect.gen(function*() {
      const [removed, revoked] = [yield* given(), yield* given()]
      assert.strictEqual((yield* exchange(removed.token)).status, 200)
      yield* (yield* CiTrusts).remove(removed.trust.id)
      assert.deepStrictEqual(errorOf(yield* exchange(removed.token)), REFUSED)
      yield* (yield* Access).revokeGrant(revoked.grant.id)
      assert.deepStrictEqual(errorOf(yield* exchange(revoked.token)), REFUSED)
    }))

  it.effect("gives no key for a creator who is no longer an active member, and its keys work no more", () =>
    Effect.gen(function*() {
      const { organizationId, token, userId } = yield* given()
      const headers = { authorization: `Bearer ${json(yield* exchange(token)).access_token}` }
      yield* (yield* MemberStore).removeMember(organizationId, userId, yield* DateTime.now)
      assert.deepStrictEqual(errorOf(yield* exchange(token)), REFUSED)
      assert.strictEqual((yield* ask(SANDBOXES, { headers })).status, 403)
    }))

  it.effect("gives no key with scopes that the creator may no longer give", () =>
    Effect.gen(function*() {
      const members = yield* MemberStore
      const { userId } = yield* members.owner
      const { token, trust } = yield* given({ userId, scopes: ["sandboxes", "secrets"] })
      assert.strictEqual(json(yield* exchange(token)).scope, "sandboxes secrets")
      const at = yield* DateTime.now
      const { organizationId } = yield* members.owner
      yield* members.addMember(organizationId, userId, "member", at)
      assert.deepStrictEqual(errorOf(yield* exchange(token)), REFUSED)
      const { createdAt: _, grantId, id: __, ...again } = trust
      assert.deepInclude(yield* Effect.flip((yield* CiTrusts).add({ ...again, grant: grantId })), { because: "scope" })
      yield* members.addMember(organizationId, userId, "owner", at)
    }))

  it.effect("tells a run to try again later when the keys of the issuer cannot be read", () =>
    Effect.gen(function*() {
      const hanging = yield* start
      const { claims } = yield* given({ issuer: hanging.issuer })
      // It is private, and not allowed.
      const reply = yield* Effect.provideService(
        exchange(tokenOf(hanging.key, { ...claims, iss: hanging.issuer })),
        References.MinimumLogLevel,
        "None"
      )
      assert.deepStrictEqual(errorOf(reply), [503, "temporarily_unavailable"])
      assert.strictEqual(reply.headers["retry-after"], "10")
      assert.deepStrictEqual(hanging.got, [])
    }))

  it.effect("refuses requests that are not of this exchange", () =>
    Effect.gen(function*() {
      const { grant, token } = yield* given()
      const cases: ReadonlyArray<readonly [Readonly<Record<string, string>>, string]> = [
        [{ grant_type: "authorization_code" }, "unsupported_grant_type"],
        [{ grant_type: "" }, "invalid_request"],
        [{ subject_token: "" }, "invalid_request"],
        [{ subject_token_type: `${TYPE}saml2` }, "invalid_request"],
        [{ requested_token_type: `${TYPE}refresh_token` }, "invalid_request"],
        [{ actor_token: token }, "invalid_request"],
        [{ audience: "https://other.example.com" }, "invalid_target"],
        [{ resource: "https://other.example.com" }, "invalid_target"]
      ]
      for (const [fields, code] of cases) assert.deepStrictEqual(errorOf(yield* exchange(token, fields)), [400, code], code)
      assert.strictEqual((yield* exchange("x".repeat(70_000))).status, 413)
      assert.strictEqual((yield* ask(PATH, { method: "POST", body: "{}", headers: { "content-type": "application/json" } })).status, 415)
      assert.strictEqual((yield* ask(PATH)).status, 405)
      assert.deepStrictEqual(yield* keysOf(grant.id), [])
    }))
})

layer(http({ settings: { refusedKeysPerMinute: 3 } }))("floods of tokens", (it) => {
  it.effect("make an address wait after as many refused tokens as wrong keys", () =>
    Effect.gen(function*() {
      const replies = yield* Effect.forEach([1, 2, 3, 4], (n) => exchange(`token ${n}`))
      assert.deepStrictEqual(replies.map(({ status }) => status), [400, 400, 400, 429])
      assert.isDefined(replies[3]?.headers["retry-after"])
    }))
})
