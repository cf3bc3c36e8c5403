/** The connection to GitLab as an OAuth application, against a server that answers as its documentation says. */
import { assert, it } from "@effect/vitest"
import * as HostServer from "@slipway/git/testing/HostServer"
import { DateTime, Effect, Fiber, Redacted } from "effect"
import { TestClock } from "effect/testing"
import * as GitLabOAuth from "../src/GitLabOAuth.ts"

const SECRET = "gloas-secret-canary"

/** A server that answers each request to an address with the next of these. */
const started = Effect.fnUntraced(function*(answers: Readonly<Record<string, ReadonlyArray<HostServer.Answer>>>) {
  const left = new Map(Object.entries(answers).map(([path, list]) => [path, [...list]]))
  const server = yield* HostServer.start({
    serve: async ({ url }) => left.get(url)?.shift() ?? { status: 404, body: { error: "none left" } }
  })
  const application = { url: server.url, clientId: "app-1", clientSecret: Redacted.make(SECRET) }
  const sent = () => server.requests.map(({ body, method, url }) => [method, url, Object.fromEntries(new URLSearchParams(body.toString()))])
  return { server, application, sent }
})

const DEVICE = "/oauth/authorize_device"
const TOKEN = "/oauth/token"
const device = {
  status: 200,
  body: {
    device_code: "device-canary",
    user_code: "0A44L90H",
    verification_uri: "https://gitlab.example.com/oauth/device",
    verification_uri_complete: "https://gitlab.example.com/oauth/device?user_code=0A44L90H",
    expires_in: 300,
    interval: 5
  }
}
const tokens = (name: string, more: object = {}) => ({
  status: 200,
  body: { access_token: `access-${name}`, token_type: "Bearer", expires_in: 7200, refresh_token: `refresh-${name}`, scope: "api", ...more }
})
const refusal = (error: string, error_description = "Because.") => ({ status: 400, body: { error, error_description } })
const shown = ({ accessToken, expiresAt, refreshToken }: Effect.Success<ReturnType<typeof GitLabOAuth.renew>>) => [
  Redacted.value(accessToken),
  refreshToken === null ? null : Redacted.value(refreshToken),
  expiresAt === null ? null : DateTime.toEpochMillis(expiresAt)
]

it.effect("a person signs the service in: it asks again until the person decided, and slower where GitLab asks for that", () =>
  Effect.gen(function*() {
    const { application, sent, server } = yield* started({
      [DEVICE]: [device],
      [TOKEN]: [refusal("authorization_pending"), refusal("slow_down"), { status: 503 }, tokens("1")]
    })
    const begun = yield* GitLabOAuth.begin(application)
    assert.deepInclude(begun, { userCode: "0A44L90H", address: "https://gitlab.example.com/oauth/device", interval: 5, expiresIn: 300 })
    const waiting = yield* Effect.forkChild(GitLabOAuth.wait(application, begun))
    // 5 s, 5 s, 10 s after slow_down, 20 s after the failure.
    for (const [seconds, asked] of [[5, 1], [5, 2], [9, 2], [1, 3], [19, 3], [1, 4]] as const) {
      yield* TestClock.adjust(`${seconds} seconds`)
      yield* Effect.promise(() => Promise.all(server.requests.map(({ over }) => over)))
      yield* Effect.promise(async () => {
        while (server.requests.filter(({ url }) => url === TOKEN).length < asked) await new Promise((resolve) => setImmediate(resolve))
      })
      assert.lengthOf(server.requests.filter(({ url }) => url === TOKEN), asked)
      yield* Effect.promise(() => Promise.all(server.requests.map(({ over }) => over)))
      yield* Effect.yieldNow
    }
    const connection = yield* Fiber.join(waiting)
    assert.deepStrictEqual(shown(connection).slice(0, 2), ["access-1", "refresh-1"])
    assert.deepStrictEqual(sent()[0], ["POST", DEVICE, { client_id: "app-1", client_secret: SECRET, scope: "api" }])
    assert.deepStrictEqual(sent()[1], ["POST", TOKEN, {
      grant_type: "urn:ietf:params:oauth:grant-type:device_code",
      device_code: "device-canary",
      client_id: "app-1",
      client_secret: SECRET
    }])
  }).pipe(Effect.scoped))

it.effect("a refusal ends the sign-in with GitLab's words", () =>
  Effect.gen(function*() {
    const { application } = yield* started({ [DEVICE]: [device], [TOKEN]: [refusal("access_denied", "The person said no.")] })
    const begun = yield* GitLabOAuth.begin(application)
    const waiting = yield* Effect.forkChild(Effect.flip(GitLabOAuth.wait(application, { ...begun, interval: 0 })))
    yield* TestClock.adjust("1 second")
    const refused = yield* Fiber.join(waiting)
    assert.match(refused.detail, /^127\.0\.0\.1:\d+ says: access_denied: The person said no\.$/u)
    assert.isFalse(refused.retryable)
  }).pipe(Effect.scoped))

it.effect("a sign-in that no person approves expires", () =>
  Effect.gen(function*() {
    const { application } = yield* started({ [TOKEN]: [refusal("authorization_pending")] })
    const begun = { deviceCode: Redacted.make("d"), userCode: "u", address: "a", fullAddress: null, expiresIn: 1, interval: 1 }
    const waiting = yield* Effect.forkChild(Effect.flip(GitLabOAuth.wait(application, begun)))
    yield* TestClock.adjust("1 second")
    assert.include((yield* Fiber.join(waiting)).detail, "expired before a person approved it")
  }).pipe(Effect.scoped))

it.effect("tokens are renewed with the refresh token, which is kept where GitLab gives no other", () =>
  Effect.gen(function*() {
    const { application, sent } = yield* started({
      [TOKEN]: [tokens("2"), tokens("3", { refresh_token: undefined, expires_in: undefined })]
    })
    yield* TestClock.setTime(1_800_000_000_000)
    const before = { accessToken: Redacted.make("access-1"), refreshToken: Redacted.make("refresh-1"), expiresAt: null }
    assert.deepStrictEqual(shown(yield* GitLabOAuth.renew(application, before)), ["access-2", "refresh-2", 1_800_007_200_000])
    assert.deepStrictEqual(shown(yield* GitLabOAuth.renew(application, before)), ["access-3", "refresh-1", null])
    assert.deepStrictEqual(sent()[0], ["POST", TOKEN, {
      grant_type: "refresh_token",
      refresh_token: "refresh-1",
      client_id: "app-1",
      client_secret: SECRET
    }])
  }).pipe(Effect.scoped))

it.effect("tells a connection that ended from a GitLab that does not answer, and shows no secret", () =>
  Effect.gen(function*() {
    const hostile = { status: 400, body: { error: "invalid_grant", error_description: `${"x".repeat(500)}\u001b[31m` } }
    const { application, server } = yield* started({
      [TOKEN]: [hostile, { status: 502 }, { status: 200, body: { other: 1 } }, {
        status: 302,
        headers: { location: "https://evil.example" }
      }]
    })
    const before = { accessToken: Redacted.make("a"), refreshToken: Redacted.make("refresh-canary"), expiresAt: null }
    const ended = yield* Effect.flip(GitLabOAuth.renew(application, before))
    assert.deepInclude(ended, { isExpired: true, retryable: false })
    assert.isBelow(ended.detail.length, 260)
    const silent = yield* Effect.flip(GitLabOAuth.renew(application, before))
    assert.deepInclude(silent, { isExpired: false, retryable: true })
    const [unclear, moved] = [yield* Effect.flip(GitLabOAuth.renew(application, before)), yield* Effect.flip(
      GitLabOAuth.renew(application, before)
    )]
    assert.include(unclear.detail, "could not be understood")
    assert.include(moved.detail, "redirects")
    server.strike({ method: "POST", url: /token/u, outcome: "reset" })
    const broken = yield* Effect.flip(GitLabOAuth.renew(application, before))
    assert.isTrue(broken.retryable)
    for (const { detail } of [ended, silent, unclear, moved, broken]) {
      for (const secret of ["canary", "\u001b"]) assert.notInclude(detail, secret)
    }
    assert.isTrue((yield* Effect.flip(GitLabOAuth.renew(application, { ...before, refreshToken: null }))).isExpired)
  }).pipe(Effect.scoped))

it.effect("sends nothing over a connection that is not encrypted", () =>
  Effect.gen(function*() {
    const application = { url: "http://gitlab.example.com", clientId: "a", clientSecret: null }
    assert.include((yield* Effect.flip(GitLabOAuth.begin(application))).detail, "is not reached by https")
  }))
