import { assert, it } from "@effect/vitest"
import { IdentityProvider } from "@slipway/domain/access/ports/IdentityProvider"
import { AS_INVITED } from "@slipway/domain/access/rules/Entry"
import { suite } from "@slipway/testing/contracts/access/IdentityProviderContract"
import { register } from "@slipway/testing/runners/Vitest"
import { Context, DateTime, Duration, Effect, Fiber, Layer, Logger, Redacted, References } from "effect"
import { TestClock } from "effect/testing"
import * as IdentityProviderGitHub from "../src/IdentityProviderGitHub.ts"
import * as GitHubServer from "../testing/GitHubServer.ts"
import { refuse } from "../testing/Routes.ts"
import { ask } from "./Asking.ts"
import { TestGitHub } from "./TestGitHub.ts"

const BACK = "https://slipway.example.com/sign-in/github/callback"
const EXCHANGE = { method: "POST", url: /^\/login\/oauth\/access_token$/u } as const
const PROFILE = { method: "GET", url: /^\/user$/u } as const

/** With what is wrong in `wrong`. */
const providerOf = (server: GitHubServer.GitHubServer, wrong: Partial<IdentityProviderGitHub.Options> = {}) =>
  Effect.map(
    Layer.build(IdentityProviderGitHub.layer({
      clientId: server.users.clientId,
      clientSecret: Redacted.make(server.users.clientSecret),
      apiUrl: server.apiUrl,
      ...wrong
    })),
    (context) => Context.get(context, IdentityProvider)
  )

const layer = (options?: GitHubServer.Options) =>
  Layer.effect(IdentityProvider, Effect.flatMap(TestGitHub, (server) => providerOf(server))).pipe(
    Layer.provideMerge(TestGitHub.layer(options))
  )

/** Where a browser ends up. */
const visit = (url: string) => Effect.promise(async () => (await fetch(url, { redirect: "manual" })).headers.get("location") ?? "nowhere")

const person = {
  provider: "github",
  subject: "583231",
  login: "ada-l",
  name: "Ada Lovelace",
  email: null,
  entry: AS_INVITED
} as const

register(suite("GitHub", layer(), { person, visit }))
register(suite("GitHub, with its API at the root", layer({ apiPath: "" }), {
  person,
  visit
}))

/** A browser that is back with a code. */
const back = Effect.fnUntraced(function*(provider: IdentityProvider["Service"]) {
  const { url, verifier } = yield* provider.begin(BACK)
  return { code: new URL(yield* visit(url)).searchParams.get("code") ?? "", issuer: null, verifier, redirectUri: BACK }
})

const begunWith = Effect.fnUntraced(function*(wrong: Partial<IdentityProviderGitHub.Options> = {}) {
  const server = yield* TestGitHub
  const provider = yield* providerOf(server, wrong)
  return { server, provider, answer: yield* back(yield* providerOf(server)) }
})

it.layer(layer())("Signing in with GitHub", (it) => {
  it.effect("asks for no scope, with PKCE, on the host that belongs to the API", () =>
    Effect.gen(function*() {
      const { users } = yield* TestGitHub
      for (
        const [apiUrl, web] of [["https://api.github.com", "https://github.com"], ["https://ghe.example.com/api/v3/",
          "https://ghe.example.com"], ["https://api.acme.ghe.com", "https://acme.ghe.com"]] as const
      ) {
        const provider = yield* providerOf(yield* TestGitHub, { apiUrl })
        const { state, url, verifier } = yield* provider.begin(BACK)
        const { origin, pathname, searchParams } = new URL(url)
        assert.strictEqual(origin + pathname, `${web}/login/oauth/authorize`)
        const challenge = Buffer.from(yield* Effect.promise(() => crypto.subtle.digest("SHA-256", Buffer.from(Redacted.value(verifier)))))
          .toString("base64url")
        assert.deepStrictEqual(Object.fromEntries(searchParams), {
          client_id: users.clientId,
          redirect_uri: BACK,
          state: Redacted.value(state),
          code_challenge: challenge,
          code_challenge_method: "S256"
        })
      }
    }))

  it.effect("tells the account's number, its present login, and a name that can be read and stored", () =>
    Effect.gen(function*() {
      const { answer: _, provider, server } = yield* begunWith()
      const profiles = [
        [{ id: 1, login: "ada_acme", name: "Ada\u0000\u202e\n  L", email: "ada@example.com" }, {
          subject: "1",
          login: "ada_acme",
          name: "Ada L",
          email: "ada@example.com"
        }],
        [{ id: 2, login: "b", name: null, email: null }, { subject: "2", login: "b", name: "b", email: null }],
        [{ id: 3, login: "c", name: " ", email: null }, { subject: "3", login: "c", name: "c", email: null }],
        [{ id: Number.MAX_SAFE_INTEGER, login: "d", name: "🎂".repeat(300), email: null }, {
          subject: "9007199254740991",
          login: "d",
          name: "🎂".repeat(100),
          email: null
        }]
      ] as const
      const { person } = server.users
      for (const [shown, identity] of profiles) {
        server.users.person = shown
        assert.deepStrictEqual(yield* provider.identify(yield* back(provider)), { provider: "github", entry: AS_INVITED, ...identity })
      }
      server.users.person = person
    }))

  it.effect("brings back somebody who says no without a code", () =>
    Effect.gen(function*() {
      const { provider, server } = yield* begunWith()
      const { state, url } = yield* provider.begin(BACK)
      server.users.agrees = false
      const { searchParams } = new URL(yield* visit(url))
      server.users.agrees = true
      assert.deepStrictEqual(Object.fromEntries(searchParams), {
        error: "access_denied",
        error_description: "The user has denied your application access.",
        state: Redacted.value(state)
      })
    }))

  it.effect("is refused with a code that was used, is too old, or came back to another address", () =>
    Effect.gen(function*() {
      const { answer, provider } = yield* begunWith()
      yield* provider.identify(answer)
      const used = yield* Effect.flip(provider.identify(answer))
      assert.deepStrictEqual([used._tag, used.detail], ["SignInRefused", "GitHub says: The code passed is incorrect or expired."])

      const elsewhere = yield* Effect.flip(provider.identify({ ...yield* back(provider), redirectUri: `${BACK}/elsewhere` }))
      assert.deepInclude(elsewhere, { _tag: "IdentityProviderError", retryable: false })
      assert.match(elsewhere.detail, /redirect_uri MUST match/u)
    }))

  it.effect("is not refused, but failed, when the App's secret or id is wrong", () =>
    Effect.gen(function*() {
      const secret = yield* begunWith({ clientSecret: Redacted.make("wrong-secret-of-the-app") })
      const refused = yield* Effect.flip(secret.provider.identify(secret.answer))
      assert.deepInclude(refused, {
        _tag: "IdentityProviderError",
        retryable: false,
        detail: "GitHub says: The client_id and/or client_secret passed are incorrect."
      })
      const id = yield* begunWith({ clientId: "Iv23liOther" })
      const unknown = yield* Effect.flip(id.provider.identify(id.answer))
      assert.deepInclude(unknown, { _tag: "IdentityProviderError", retryable: false, detail: "GitHub does not know the client id." })
    }))

  it.effect("is refused for somebody without a confirmed address, in GitHub's words", () =>
    Effect.gen(function*() {
      const { answer, provider, server } = yield* begunWith()
      const body = { error: "unverified_user_email", error_description: "The user must have a verified primary email." }
      server.strike({ ...EXCHANGE, outcome: { status: 200, body } })
      assert.deepInclude(yield* Effect.flip(provider.identify(answer)), {
        _tag: "SignInRefused",
        detail: "GitHub says: The user must have a verified primary email."
      })
    }))

  const huge = Buffer.from(
    JSON.stringify({ access_token: "ghu_canary0", token_type: "bearer", id: 1, login: "ada", x: "x".repeat(70_000) })
  )
  const failures: ReadonlyArray<readonly [name: string, outcome: GitHubServer.Outcome, detail: RegExp]> = [
    ["a failure of its own", { status: 500, body: { message: "ghu_canary0" } }, /^GitHub answered with status 500\.$/u],
    ["a page instead of JSON", { status: 502, body: Buffer.from("<html>Unicorn! ghu_canary0</html>") }, /status 502/u],
    ["a page that calls itself fine", { status: 200, body: Buffer.from("<html>Welcome to the hotel ghu_canary0</html>") },
      /could not be understood/u],
    ["too many requests", { status: 429, headers: { "retry-after": "60" } }, /status 429/u],
    ["a huge answer", { status: 200, body: huge, headers: { "content-type": "application/json" } }, /could not be understood/u],
    ["half an answer", { status: 200, body: huge.subarray(0, 60), headers: { "content-type": "application/json" } },
      /could not be understood/u],
    ["an answer to something else", { status: 200, body: { access_token: 17, id: "ghu_canary0", login: "ada\n" } },
      /could not be understood/u],
    ["nothing", { status: 204 }, /could not be understood/u],
    ["a redirection elsewhere", { status: 302, headers: { location: "https://example.com/ghu_canary0" } }, /could not be understood/u],
    ["a broken connection", "reset", /^The connection to 127\.0\.0\.1:\d+ failed \(\w+\)\.$/u]
  ]
  for (const [name, outcome, detail] of failures) {
    it.effect(`fails after one request with ${name}, whether for the code or for the profile`, () =>
      Effect.gen(function*() {
        for (const request of [EXCHANGE, PROFILE]) {
          const { answer, provider, server } = yield* begunWith()
          const asked = () => server.requests.filter(({ method, url }) => method === request.method && request.url.test(url)).length
          const before = asked()
          server.strike({ ...request, outcome })
          const failed = yield* Effect.flip(provider.identify(answer))
          assert.deepInclude(failed, { _tag: "IdentityProviderError", retryable: true })
          assert.match(failed.detail, detail)
          assert.notInclude(JSON.stringify(failed), "canary")
          assert.strictEqual(asked() - before, 1)
        }
      }))
  }

  it.effect("fails when GitHub refuses its own token or the account, in words without the token", () =>
    Effect.gen(function*() {
      for (
        const [status, message, retryable] of [[401, "Bad credentials", true], [403, "Sorry. Your account was suspended: ghu_canary0",
          false]] as const
      ) {
        const { answer, provider, server } = yield* begunWith()
        server.strike({ ...PROFILE, outcome: refuse(status, message) })
        const failed = yield* Effect.flip(provider.identify(answer))
        assert.deepInclude(failed, { _tag: "IdentityProviderError", retryable })
        assert.notInclude(failed.detail, "canary")
      }
    }))

  it.effect("waits as long as it was told, and not for an answer that never comes", () =>
    Effect.gen(function*() {
      for (const request of [EXCHANGE, PROFILE]) {
        const server = yield* GitHubServer.start()
        const provider = yield* providerOf(server, { timeout: Duration.seconds(3) })
        server.strike({ ...request, outcome: "hang" })
        const waiting = yield* Effect.forkChild(Effect.flip(provider.identify(yield* back(provider))))
        const { over } = yield* server.arrived(request.method, request.url)
        yield* TestClock.adjust("3 seconds")
        // A caller that does not wait hangs up.
        yield* Effect.promise(() => over)
        assert.deepInclude(yield* Fiber.join(waiting), {
          _tag: "IdentityProviderError",
          retryable: true,
          detail: `${new URL(server.url).host} did not answer within 3 seconds.`
        })
      }
    }))

  it.effect("fails without a listener, and sends nothing over an open line", () =>
    Effect.gen(function*() {
      const { answer, provider } = yield* begunWith({ apiUrl: "http://127.0.0.1:1/api/v3" })
      assert.deepInclude(yield* Effect.flip(provider.identify(answer)), { _tag: "IdentityProviderError", retryable: true })
      const open = yield* Effect.flip(providerOf(yield* TestGitHub, { apiUrl: "http://ghe.example.com/api/v3" }))
      assert.deepInclude(open, { _tag: "IdentityProviderError", retryable: false })
      assert.match(open.detail, /^The address of ghe\.example\.com must start with https:/u)
    }))

  it.effect("leaves no secret in a log, an error or an address, whatever becomes of it", () =>
    Effect.gen(function*() {
      const said: Array<unknown> = []
      const { answer, provider, server } = yield* begunWith()
      const { users } = server
      const secrets = [users.clientSecret, Redacted.value(answer.verifier), answer.code]
      const tell = (error: string) => ({
        status: 200,
        body: { error, error_description: `No: ${secrets.join(" ")} ghu_canary0 ghr_canary0` }
      })
      yield* Effect.gen(function*() {
        for (
          const outcome of [tell("bad_verification_code"), tell("application_suspended"), { ...tell("x"), status: 400 },
            refuse(500, secrets.join(" "))]
        ) {
          server.strike({ ...EXCHANGE, outcome })
          said.push(yield* Effect.flip(provider.identify(answer)))
        }
        for (const message of ["{}", `"${secrets[0]}`]) {
          server.strike({ ...PROFILE, outcome: { status: 200, body: Buffer.from(message) } })
          said.push(yield* Effect.flip(provider.identify(yield* back(provider))))
        }
        said.push(yield* Effect.exit(provider.identify(yield* back(provider))))
      }).pipe(
        Effect.provide(Logger.layer([Logger.make((options) => void said.push(Logger.formatJson.log(options)))])),
        Effect.provideService(References.MinimumLogLevel, "All")
      )
      const text = said.map((one) => one instanceof Error ? `${String(one)} ${one.stack} ${JSON.stringify(one)}` : JSON.stringify(one))
        .join("\n")
      assert.include(text, "GitHub could not tell who signs in")
      const asked = server.requests.filter(({ url }) => !url.startsWith("/login/oauth/authorize")).map(({ url }) => url).join("\n")
      for (const secret of [...secrets, ...users.issued, "canary"]) {
        assert.notInclude(text, secret)
        assert.notInclude(asked, secret)
      }
    }))
})

it.effect("A code of the test server is good for ten minutes, and its answers are forms for those who do not ask for JSON", () =>
  Effect.gen(function*() {
    let now = DateTime.makeUnsafe("2026-11-22T03:40:00Z").epochMilliseconds
    const server = yield* GitHubServer.start({ now: () => now })
    const provider = yield* providerOf(server)
    const late = yield* back(provider)
    now += 599_999
    const inTime = yield* back(provider)
    now += 1
    assert.strictEqual((yield* Effect.flip(provider.identify(late)))._tag, "SignInRefused")
    const { clientId: client_id, clientSecret: client_secret } = server.users
    const { code, redirectUri: redirect_uri, verifier } = inTime
    const form = new URLSearchParams({ client_id, client_secret, code, redirect_uri, code_verifier: Redacted.value(verifier) })
    const reply = yield* Effect.promise(async () =>
      new URLSearchParams(await (await fetch(`${server.url}/login/oauth/access_token`, { method: "POST", body: form })).text())
    )
    const user = yield* Effect.promise(() => ask(server, "GET /user", { token: reply.get("access_token") ?? "" }))
    assert.deepInclude(user.body, { id: 583_231, login: "ada-l" })
    for (const [token, status] of [["ghu_none", 401], ["ghs_none", 403]] as const) {
      assert.strictEqual((yield* Effect.promise(() => ask(server, "GET /user", { token }))).status, status)
    }

    server.users.callbackUrls.push("https://slipway.example.com/registered")
    const elsewhere = new URL(yield* visit((yield* provider.begin(BACK)).url))
    assert.strictEqual(elsewhere.pathname, "/registered")
    assert.strictEqual(elsewhere.searchParams.get("error"), "redirect_uri_mismatch")
  }))
