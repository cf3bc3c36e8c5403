import { assert, layer } from "@effect/vitest"
import { AccessStore } from "@slipway/domain/access/ports/AccessStore"
import { AuditLog } from "@slipway/domain/access/ports/AuditLog"
import { MemberStore } from "@slipway/domain/access/ports/MemberStore"
import { Access } from "@slipway/domain/access/usecases/Access"
import { Members } from "@slipway/domain/access/usecases/Members"
import { Sessions } from "@slipway/domain/access/usecases/Sessions"
import { Effect, Redacted } from "effect"
import { TestClock } from "effect/testing"
import * as oidc from "openid-client"
import { address, ask, type Ask, COOKIE, json, layer as http, mintKey, PUBLIC_URL, type Reply, SANDBOXES } from "../testing/Harness.ts"

type Fields = Readonly<Record<string, string>>

const FORM = { "content-type": "application/x-www-form-urlencoded" }
const GRANT_TYPE = "urn:ietf:params:oauth:grant-type:device_code"

const post = (path: string, fields: Fields, headers: Ask["headers"] = {}) =>
  ask(path, { method: "POST", body: new URLSearchParams(fields).toString(), headers: { ...FORM, ...headers } })

const oauth = (path: string, fields: Fields, headers: Ask["headers"] = {}) =>
  post(`/oauth/${path}`, { client_id: "slipway", ...fields }, headers)

const begin = (machine = "ada's laptop") => oauth("device_authorization", { machine })
const token = (device_code: string) => oauth("token", { grant_type: GRANT_TYPE, device_code })
const errorOf = (reply: Reply): unknown => [reply.status, json(reply).error]

/** Somebody signed in, with what their forms carry. */
const browserOf = Effect.fnUntraced(function*(userId: string) {
  const sessions = yield* Sessions
  const { token } = yield* sessions.signIn(userId, null)
  const cookie = `${COOKIE}=${Redacted.value(token)}`
  const csrf = Redacted.value(sessions.csrfToken(token))
  const place = (yield* sessions.grantsOf(userId))[0]?.id ?? ""
  return {
    userId,
    place,
    get: (path: string) => ask(path, { headers: { cookie } }),
    post: (path: string, fields: Fields, headers: Ask["headers"] = {}) =>
      post(path, { csrf, place, ...fields }, { cookie, "sec-fetch-site": "same-origin", ...headers })
  }
})

const ownerBrowser = Effect.gen(function*() {
  yield* (yield* Access).createGrant("acme")
  return yield* browserOf((yield* (yield* MemberStore).owner).userId)
})

const keyCount = Effect.flatMap(AccessStore, ({ listKeys }) => Effect.map(listKeys(null), ({ length }) => length))

// One after the other, at a clock of each test's own: an address may begin ten logins in a minute.
layer(http())("signing in a machine", (it) => {
  it.effect("gives the machine a key when the person compared the code and approved, once", () =>
    Effect.gen(function*() {
      yield* TestClock.adjust("2 minutes")
      const browser = yield* ownerBrowser
      const begun = yield* begin()
      assert.strictEqual(begun.headers["cache-control"], "no-store")
      const { device_code, user_code, ...more } = json(begun)
      assert.match(device_code, /^[0-9A-Za-z]{43}$/u)
      assert.match(user_code, /^[BCDFGHJKLMNPQRSTVWXZ]{4}-[BCDFGHJKLMNPQRSTVWXZ]{4}$/u)
      assert.deepStrictEqual(more, {
        verification_uri: `${PUBLIC_URL}/device`,
        verification_uri_complete: `${PUBLIC_URL}/device?user_code=${user_code}`,
        expires_in: 600,
        interval: 5
      })
      assert.deepStrictEqual(errorOf(yield* token(device_code)), [400, "authorization_pending"])
      assert.deepStrictEqual(errorOf(yield* token(device_code)), [400, "slow_down"])

      const page = yield* browser.get(`/device?user_code=${user_code.toLowerCase()}`)
      assert.strictEqual(page.status, 200)
      for (const shown of [user_code, "ada&#39;s laptop", "127.0.0.1", ">acme</option>"]) assert.include(page.text, shown)
      assert.notInclude(page.text, device_code)
      const yes = { user_code, decision: "approve", grant: browser.place, compared: "yes" }
      const done = yield* browser.post("/device", yes)
      assert.deepStrictEqual([done.status, done.headers["location"]], [303, "/device?done=approved"])
      assert.include((yield* browser.get("/device?done=approved")).text, "The machine is signed in.")

      yield* TestClock.adjust("10 seconds")
      const given = yield* token(device_code)
      assert.strictEqual(given.status, 200, given.text)
      assert.strictEqual(given.headers["cache-control"], "no-store")
      const { access_token, key, ...rest } = json(given)
      assert.deepStrictEqual(rest, { token_type: "Bearer", scope: "sandboxes", expires_in: 90 * 24 * 3600 })
      assert.deepInclude(key, { label: "ada's laptop", userId: browser.userId, grant: { id: browser.place, name: "acme" } })
      assert.strictEqual((yield* ask(SANDBOXES, { key: access_token })).status, 200)
      const keys = yield* browser.get("/keys")
      assert.include(keys.text, "ada&#39;s laptop")
      assert.include(keys.text, `/keys/${key.id}/revoke`)

      yield* TestClock.adjust("10 seconds")
      assert.deepStrictEqual(errorOf(yield* token(device_code)), [400, "invalid_grant"])
      assert.strictEqual((yield* browser.get(`/device?user_code=${user_code}`)).status, 404)
      const told = (yield* (yield* AuditLog).list({ since: null, limit: 100 })).filter(({ subjects }) =>
        subjects["userId"] === browser.userId
      )
      assert.includeMembers(told.map(({ action }) => action), ["device_login.approved", "key.minted"])
      const approved = told.find(({ action }) => action === "device_login.approved")
      assert.deepStrictEqual(approved?.actor, { _tag: "User", userId: browser.userId })
      for (const secret of [device_code, access_token, user_code.replace("-", "")]) assert.notInclude(JSON.stringify(told), secret)

      assert.deepStrictEqual([(yield* oauth("revoke", { token: access_token })).status,
        (yield* ask(SANDBOXES, { key: access_token })).status], [
        200,
        401
      ])
      assert.strictEqual((yield* oauth("revoke", { token: access_token })).status, 200)
    }))

  it.effect("gives nothing without the person's own click on our own page", () =>
    Effect.gen(function*() {
      yield* TestClock.adjust("4 minutes")
      const browser = yield* ownerBrowser
      const { device_code, user_code } = json(yield* begin())
      const before = yield* keyCount
      const yes = { user_code, decision: "approve", grant: browser.place, compared: "yes" }
      const { compared: _, ...uncompared } = yes
      const refusals = [
        yield* browser.post("/device", yes, { "sec-fetch-site": "cross-site" }),
        yield* browser.post("/device", { ...yes, csrf: "x" }),
        yield* browser.post("/device", { ...yes, place: "x" }),
        yield* browser.post("/device", uncompared),
        yield* browser.post("/device", { ...yes, decision: "yes" }),
        yield* browser.post("/device", { ...yes, grant: "x" }),
        yield* browser.post("/device", { ...yes, user_code: "BBBB-BBBB" })
      ]
      assert.deepStrictEqual(refusals.map(({ status }) => status), [403, 403, 409, 400, 400, 404, 404])
      const stranger = yield* post("/device", yes, { "sec-fetch-site": "same-origin" })
      assert.deepStrictEqual([stranger.status, stranger.headers["location"]], [303, "/sign-in?next=%2Fdevice"])
      const asked = yield* ask(`/device?user_code=${user_code}`)
      assert.strictEqual(asked.headers["location"], `/sign-in?next=${encodeURIComponent(`/device?user_code=${user_code}`)}`)
      yield* browser.get(`/device?user_code=${user_code}&decision=approve&compared=yes&grant=${browser.place}`)
      assert.deepStrictEqual(errorOf(yield* token(device_code)), [400, "authorization_pending"])
      assert.strictEqual((yield* browser.post("/device", { user_code, decision: "deny" })).headers["location"], "/device?done=denied")
      yield* TestClock.adjust("5 seconds")
      assert.deepStrictEqual(errorOf(yield* token(device_code)), [400, "access_denied"])
      assert.strictEqual((yield* browser.post("/device", yes)).status, 404)
      assert.strictEqual(yield* keyCount, before)
    }))

  it.effect("is for people who may work here", () =>
    Effect.gen(function*() {
      yield* TestClock.adjust("6 minutes")
      yield* ownerBrowser
      const added = yield* (yield* Members).add(null, "eve", "member")
      const eve = yield* browserOf(added.user.id)
      const { user_code } = json(yield* begin())
      const page = yield* eve.get(`/device?user_code=${user_code}`)
      assert.strictEqual(page.status, 403)
      assert.include(page.text, "slipway users approve eve")
      const yes = { user_code, decision: "approve", grant: eve.place, compared: "yes" }
      assert.strictEqual((yield* eve.post("/device", yes)).status, 403)
    }))

  it.effect("refuses what does not fit, with OAuth's own words", () =>
    Effect.gen(function*() {
      yield* TestClock.adjust("8 minutes")
      const device_code = "x".repeat(43)
      const refusals = [
        yield* post("/oauth/device_authorization", { machine: "a" }),
        yield* post("/oauth/device_authorization", { client_id: "" }),
        yield* oauth("device_authorization", { machine: "a\nb" }),
        yield* oauth("device_authorization", { machine: "x".repeat(127) }),
        yield* oauth("device_authorization", { machine: "a", scope: "webhooks" }),
        yield* oauth("device_authorization", { machine: "a", scope: "sandboxes openid" }),
        yield* oauth("device_authorization", { machine: "a", client_id: "other" }),
        yield* oauth("device_authorization", { machine: "a", client_secret: "s" }),
        yield* ask("/oauth/device_authorization", { method: "POST", body: "client_id=slipway&scope=&scope=sandboxes", headers: FORM }),
        yield* oauth("token", { grant_type: GRANT_TYPE, device_code }, { authorization: "Basic c2xpcHdheTo=" }),
        yield* post("/oauth/token", { grant_type: GRANT_TYPE, device_code }),
        yield* oauth("token", { grant_type: "password", device_code }),
        yield* oauth("token", { grant_type: GRANT_TYPE }),
        yield* oauth("token", { grant_type: "", device_code }),
        yield* oauth("token", { grant_type: GRANT_TYPE, device_code }),
        yield* oauth("revoke", {}),
        yield* oauth("token", {}, { "content-type": "application/json" }),
        yield* oauth("token", { grant_type: GRANT_TYPE, device_code: "x".repeat(70_000) })
      ]
      assert.deepStrictEqual(refusals.map(errorOf), [
        [400, "invalid_request"],
        [400, "invalid_request"],
        [400, "invalid_request"],
        [400, "invalid_request"],
        [400, "invalid_scope"],
        [400, "invalid_scope"],
        [400, "invalid_client"],
        [400, "invalid_client"],
        [400, "invalid_request"],
        [401, "invalid_client"],
        [400, "invalid_request"],
        [400, "unsupported_grant_type"],
        [400, "invalid_request"],
        [400, "invalid_request"],
        [400, "invalid_grant"],
        [400, "invalid_request"],
        [415, "invalid_request"],
        [413, "invalid_request"]
      ])
      for (const { headers, text } of refusals) {
        assert.deepStrictEqual([headers["cache-control"], headers["pragma"]], ["no-store", "no-cache"])
        assert.match(JSON.parse(text).error_description, /^[ !#-[\]-~]+$/u)
      }
      assert.deepStrictEqual(refusals.filter(({ status }) => status === 401).map(({ headers }) => headers["www-authenticate"]), [
        "Basic realm=\"slipway\""
      ])
      assert.strictEqual((yield* oauth("revoke", { token: "nothing" })).status, 200)
      for (const path of ["device_authorization", "token", "revoke"]) {
        const got = yield* ask(`/oauth/${path}?client_id=slipway`)
        assert.deepStrictEqual([got.status, got.headers["allow"]], [405, "POST, OPTIONS"])
      }
    }))

  it.effect("is over after ten minutes", () =>
    Effect.gen(function*() {
      yield* TestClock.adjust("20 minutes")
      const browser = yield* ownerBrowser
      const { device_code, user_code } = json(yield* begin())
      yield* browser.post("/device", { user_code, decision: "approve", grant: browser.place, compared: "yes" })
      yield* TestClock.adjust("10 minutes")
      assert.deepStrictEqual(errorOf(yield* token(device_code)), [400, "expired_token"])
    }))

  it.effect("signs in a standard OAuth client, which sends no name", () =>
    Effect.gen(function*() {
      yield* TestClock.adjust("32 minutes")
      const browser = yield* ownerBrowser
      const { host, port } = yield* address
      const server = `http://${host}:${port}`
      const config = new oidc.Configuration(
        {
          issuer: server,
          device_authorization_endpoint: `${server}/oauth/device_authorization`,
          token_endpoint: `${server}/oauth/token`,
          revocation_endpoint: `${server}/oauth/revoke`
        },
        "slipway",
        undefined,
        oidc.None()
      )
      oidc.allowInsecureRequests(config)
      const begun = yield* Effect.promise(() => oidc.initiateDeviceAuthorization(config, { scope: "sandboxes", resource: "" }))
      const page = yield* browser.get(`/device?user_code=${begun.user_code}`)
      assert.include(page.text, "<strong>a machine without a name</strong>")

      const told: Array<string> = []
      const services = yield* Effect.context<Effect.Services<ReturnType<typeof browser.post>>>()
      // The client waits by its own clock, the server by the test's.
      config[oidc.customFetch] = async (url, init) => {
        await Effect.runPromiseWith(services)(TestClock.adjust(told.length === 1 ? "1 second" : "10 seconds"))
        if (told.length === 2) {
          const yes = { user_code: begun.user_code, decision: "approve", grant: browser.place, compared: "yes" }
          await Effect.runPromiseWith(services)(browser.post("/device", yes))
        }
        const response = await fetch(url, init as RequestInit)
        const { error } = await response.clone().json()
        told.push(error ?? "given")
        return response
      }
      const tokens = yield* Effect.promise(() => oidc.pollDeviceAuthorizationGrant(config, { ...begun, interval: -5 }))
      assert.deepStrictEqual(told, ["authorization_pending", "slow_down", "given"])
      assert.deepStrictEqual([tokens.token_type, tokens.scope, tokens.expires_in], ["bearer", "sandboxes", 90 * 24 * 3600])
      assert.strictEqual((yield* ask(SANDBOXES, { key: tokens.access_token })).status, 200)

      yield* TestClock.adjust("10 seconds")
      const used = yield* Effect.promise(() =>
        oidc.pollDeviceAuthorizationGrant(config, { ...begun, interval: -5 }).catch((error: unknown) => error)
      )
      assert.instanceOf(used, oidc.ResponseBodyError)
      assert.deepInclude(used, { status: 400, error: "invalid_grant" })
      yield* Effect.promise(() => oidc.tokenRevocation(config, tokens.access_token, { token_type_hint: "access_token" }))
      assert.strictEqual((yield* ask(SANDBOXES, { key: tokens.access_token })).status, 401)
    }))

  it.effect("tells a command that asks after its life that the login expired, also when others began since", () =>
    Effect.gen(function*() {
      yield* TestClock.adjust("80 minutes")
      const { device_code } = json(yield* begin())
      yield* TestClock.adjust("10 minutes")
      yield* begin()
      assert.deepStrictEqual(errorOf(yield* token(device_code)), [400, "expired_token"])
      yield* TestClock.adjust("10 minutes")
      yield* begin()
      assert.deepStrictEqual(errorOf(yield* token(device_code)), [400, "invalid_grant"])
    }))

  it.effect("is begun so often by one address, and codes are tried so often by one person", () =>
    Effect.gen(function*() {
      yield* TestClock.adjust("40 minutes")
      const browser = yield* ownerBrowser
      const statuses: Array<number> = []
      for (let i = 0; i < 11; i++) statuses.push((yield* begin()).status)
      assert.deepStrictEqual(statuses, [...Array.from({ length: 10 }, () => 200), 429])
      const refused = yield* begin()
      assert.deepStrictEqual([json(refused).error, refused.headers["retry-after"]], ["temporarily_unavailable", "60"])
      const tried: Array<number> = []
      for (let i = 0; i < 21; i++) tried.push((yield* browser.get("/device?user_code=BBBB-BBBB")).status)
      assert.deepStrictEqual(tried, [...Array.from({ length: 20 }, () => 404), 429])
      assert.strictEqual((yield* browser.post("/device", { user_code: "BBBB-BBBB", decision: "deny" })).status, 429)
      yield* TestClock.adjust("1 minute")
      assert.deepStrictEqual([(yield* begin()).status, (yield* browser.get("/device?user_code=BBBB-BBBB")).status], [200, 404])
    }))

  it.effect("is no way round the limits of a key", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      assert.strictEqual((yield* oauth("revoke", { token: `${key.slice(0, -1)}${key.endsWith("x") ? "y" : "x"}` })).status, 200)
      assert.strictEqual((yield* ask(SANDBOXES, { key })).status, 200)
    }))
})
