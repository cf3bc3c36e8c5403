/** Signing in at a real provider of OpenID Connect. */
import { assert, describe, it } from "@effect/vitest"
import { IdentityProvider } from "@slipway/domain/access/ports/IdentityProvider"
import { AS_INVITED, type EntryRules } from "@slipway/domain/access/rules/Entry"
import { suite } from "@slipway/testing/contracts/access/IdentityProviderContract"
import { register } from "@slipway/testing/runners/Vitest"
import { Context, Duration, Effect, Layer, Redacted } from "effect"
import { generateKeyPairSync } from "node:crypto"
import * as IdentityProviderOidc from "../src/IdentityProviderOidc.ts"
import * as OidcServer from "../testing/OidcServer.ts"

const BACK = "https://slipway.example.com/sign-in/oidc/callback"
/** That of the contract suite. */
const SUITE_BACK = "https://slipway.example.com/sign-in/back"

const ANYBODY: EntryRules = { emailDomains: [], claim: null, groupsClaim: "groups", roles: [] }

class Server extends Context.Service<Server, OidcServer.OidcServer>()("@slipway/oidc/test/Server") {}

const optionsOf = ({ clientId, clientSecret, issuer }: OidcServer.OidcServer, more: Partial<IdentityProviderOidc.Options> = {}) => ({
  issuer,
  clientId,
  clientSecret: Redacted.make(clientSecret),
  rules: ANYBODY,
  ...more
})

const providerOf = (server: OidcServer.OidcServer, more: Partial<IdentityProviderOidc.Options> = {}) =>
  Effect.map(Layer.build(IdentityProviderOidc.layer(optionsOf(server, more))), Context.get(IdentityProvider))

/** The issuer has another port in each run. */
const contract = Layer.effect(
  IdentityProvider,
  Effect.gen(function*() {
    const server = yield* Server
    const provider = yield* providerOf(server)
    const identify: typeof provider.identify = (answer) =>
      Effect.map(provider.identify(answer), ({ subject, ...rest }) => ({ ...rest, subject: subject.replace(server.issuer, "issuer") }))
    return { ...provider, identify }
  })
).pipe(
  Layer.provideMerge(Layer.effect(Server, OidcServer.start({ redirectUri: SUITE_BACK })))
)

register(suite("OpenID Connect", contract, {
  person: {
    provider: "oidc",
    subject: "issuer 4711",
    login: "ada@example.com",
    name: "Ada Lovelace",
    email: "ada@example.com",
    entry: AS_INVITED
  },
  visit: (url) => OidcServer.visit(url, SUITE_BACK)
}))

/** A browser that is back with a code. */
const back = Effect.fnUntraced(function*(provider: IdentityProvider["Service"]) {
  const { url, verifier } = yield* provider.begin(BACK)
  const { searchParams } = new URL(yield* OidcServer.visit(url, BACK))
  return { code: searchParams.get("code") ?? "", issuer: searchParams.get("iss"), verifier, redirectUri: BACK }
})

const world = Effect.fnUntraced(
  function*(more: Partial<IdentityProviderOidc.Options> = {}, behaviour: Partial<OidcServer.Behaviour> = {}) {
    const server = yield* OidcServer.start({ redirectUri: BACK, ...behaviour })
    const provider = yield* providerOf(server, more)
    const signIn = Effect.flatMap(back(provider), provider.identify)
    return { server, provider, signIn }
  }
)

const failure = <A, E extends { readonly _tag: string; readonly message: string }, R>(signIn: Effect.Effect<A, E, R>) =>
  Effect.map(Effect.flip(signIn), ({ _tag, message }) => [_tag, message] as const)

describe("signing in with OpenID Connect", () => {
  it.live("asks for a code with PKCE and a nonce, from which the verifier cannot be told", () =>
    Effect.gen(function*() {
      const { provider, server } = yield* world({ scopes: "openid groups" })
      const { state, url, verifier } = yield* provider.begin(BACK)
      const { origin, pathname, searchParams } = new URL(url)
      assert.strictEqual(origin + pathname, `${server.issuer}/auth`)
      const { code_challenge, nonce, ...rest } = Object.fromEntries(searchParams)
      assert.deepStrictEqual(rest, {
        response_type: "code",
        client_id: "slipway",
        redirect_uri: BACK,
        scope: "openid groups",
        state: Redacted.value(state),
        code_challenge_method: "S256"
      })
      for (const secret of [code_challenge, nonce]) assert.match(secret ?? "", /^[\w-]{43}$/u)
      assert.strictEqual(new Set([code_challenge, nonce, Redacted.value(verifier), Redacted.value(state)]).size, 4)
    }))

  it.live("tells the account by its issuer and id, and reads claims that only the userinfo endpoint has", () =>
    Effect.gen(function*() {
      const rules: EntryRules = { ...ANYBODY, emailDomains: ["example.com"], roles: [{ group: "staff", role: "member" }] }
      for (const bare of [true, false]) {
        const { server, signIn } = yield* world({ rules, name: "Example" }, { bare })
        assert.deepStrictEqual(yield* signIn, {
          provider: "oidc",
          subject: `${server.issuer} 4711`,
          login: "ada@example.com",
          name: "Ada Lovelace",
          email: "ada@example.com",
          entry: { _tag: "InRole", role: "member" }
        })
        assert.strictEqual(server.got.includes("/me"), bare)
      }
    }))

  it.live("recognizes no person by an address that the provider has not verified", () =>
    Effect.gen(function*() {
      const { server, signIn } = yield* world()
      server.person = { sub: "4711", email: "boss@example.com", email_verified: false, preferred_username: "a\u202eda" }
      assert.deepInclude(yield* signIn, { login: null, email: null, name: "a da" })
    }))

  it.live("says why somebody may not enter, with the account, so that its sessions end", () =>
    Effect.gen(function*() {
      const rules: EntryRules = { ...ANYBODY, roles: [{ group: "admins", role: "owner" }] }
      const { signIn } = yield* world({ rules })
      assert.deepInclude(yield* signIn, { entry: { _tag: "Refused", detail: "None of your groups may enter.", leaves: true } })
    }))

  it.live("brings back somebody who says no without a code", () =>
    Effect.gen(function*() {
      const { provider, server } = yield* world()
      server.agrees = false
      const { url } = yield* provider.begin(BACK)
      assert.strictEqual(new URL(yield* OidcServer.visit(url, BACK)).searchParams.get("error"), "access_denied")
    }))

  it.live("refuses somebody whom the provider removed between the sign-in and the code", () =>
    Effect.gen(function*() {
      const { provider, server } = yield* world()
      const answer = yield* back(provider)
      server.person = null
      assert.strictEqual((yield* Effect.flip(provider.identify(answer)))._tag, "SignInRefused")
    }))

  it.live("believes no answer in the name of another issuer, nor one without the name", () =>
    Effect.gen(function*() {
      const { provider } = yield* world()
      const answer = yield* back(provider)
      for (const issuer of ["https://evil.example.com", null]) {
        assert.deepInclude(yield* Effect.flip(provider.identify({ ...answer, issuer })), {
          _tag: "IdentityProviderError",
          retryable: false
        })
      }
      assert.deepInclude(yield* provider.identify(answer), { name: "Ada Lovelace" })
    }))
})

const without = (claims: OidcServer.Token["claims"], name: string) =>
  Object.fromEntries(Object.entries(claims).filter(([other]) => other !== name))

const stranger = generateKeyPairSync("rsa", { modulusLength: 2048 }).privateKey
const now = () => Math.floor(Date.now() / 1000)

describe("an ID token is refused", () => {
  const forgeries: ReadonlyArray<readonly [string, (token: OidcServer.Token) => string, RegExp]> = [
    ["of another issuer", ({ claims, signed }) => signed({ ...claims, iss: "https://evil.example.com" }), /another issuer/u],
    ["for another audience", ({ claims, signed }) => signed({ ...claims, aud: "other" }), /another issuer, audience/u],
    ["for several audiences and another party", ({ claims, signed }) => signed({ ...claims, aud: ["slipway", "x"], azp: "x" }), /./u],
    ["with another nonce", ({ claims, signed }) => signed({ ...claims, nonce: "x" }), /nonce/u],
    ["without a nonce", ({ claims, signed }) => signed(without(claims, "nonce")), /./u],
    ["that is expired for more than a minute", ({ claims, signed }) => signed({ ...claims, exp: now() - 120 }), /clocks/u],
    ["without an expiry", ({ claims, signed }) => signed(without(claims, "exp")), /./u],
    ["without a subject", ({ claims, signed }) => signed(without(claims, "sub")), /./u],
    ["with a subject that cannot be stored", ({ claims, signed }) => signed({ ...claims, sub: "a\u0000" }), /usable id/u],
    ["with `alg: none`", ({ claims, header }) => {
      const coded = [{ ...header, alg: "none" }, claims].map((part) => Buffer.from(JSON.stringify(part)).toString("base64url"))
      return `${coded.join(".")}.`
    }, /./u],
    ["signed with the client's secret", ({ claims, header, signed }) => signed(claims, { ...header, alg: "HS256" }), /./u],
    ["signed by a stranger", ({ claims, header }) => OidcServer.signedWith(stranger, claims, header), /signed/u],
    ["signed with an unknown key", ({ claims, header }) => OidcServer.signedWith(stranger, claims, { ...header, kid: "other" }), /sign/u],
    ["that is no token", () => "x", /./u]
  ]
  it.live.each(forgeries)("%s", ([, forge, detail]) =>
    Effect.gen(function*() {
      const { server, signIn } = yield* world()
      // A provider that allows everything.
      server.metadata = { id_token_signing_alg_values_supported: ["RS256", "HS256", "none"] }
      server.forge = forge
      const [tag, message] = yield* failure(signIn)
      assert.strictEqual(tag, "IdentityProviderError")
      assert.match(message, detail)
      assert.notInclude(message, "eyJ")
    }))

  it.live("not for clocks that differ by less than a minute", () =>
    Effect.gen(function*() {
      const { server, signIn } = yield* world()
      server.forge = ({ claims, signed }) => signed({ ...claims, exp: now() - 30, iat: now() - 100 })
      assert.deepInclude(yield* signIn, { name: "Ada Lovelace" })
      server.forge = ({ claims, signed }) => signed({ ...claims, iat: now() + 30 })
      assert.deepInclude(yield* signIn, { name: "Ada Lovelace" })
    }))
})

describe("a provider of OpenID Connect", () => {
  it.live("that refuses the client is a mistake of the settings", () =>
    Effect.gen(function*() {
      const { server, provider } = yield* world()
      const answer = yield* back(provider)
      const wrong = yield* providerOf(server, { clientSecret: Redacted.make("wrong-secret") })
      const failed = yield* Effect.flip(wrong.identify(answer))
      assert.deepInclude(failed, { _tag: "IdentityProviderError", retryable: false })
      assert.match(failed.message, /refuses/u)
      assert.notInclude(JSON.stringify(failed), "wrong-secret")
    }))

  it.live("has to be the issuer that is set, over encrypted lines alone", () =>
    Effect.gen(function*() {
      const { server } = yield* world()
      const failed = yield* failure(Effect.flatMap(providerOf(server, { issuer: `${server.issuer}/` }), (it) => it.begin(BACK)))
      assert.include(failed[1], `is the issuer ${server.issuer}`)
      const open = yield* failure(providerOf(server, { issuer: "http://login.example.com" }))
      assert.deepStrictEqual(open, ["IdentityProviderError", "The address of login.example.com must start with https:, since secrets are " +
        "sent there."])
      for (const name of ["token_endpoint", "jwks_uri", "authorization_endpoint", "end_session_endpoint"]) {
        server.metadata = { [name]: "http://login.example.com/x" }
        const [, message] = yield* failure(Effect.flatMap(providerOf(server), (it) => it.begin(BACK)))
        assert.include(message, "does not start with https:", name)
      }
      server.metadata = { issuer: "https://evil.example.com" }
      assert.strictEqual((yield* failure(Effect.flatMap(providerOf(server), (it) => it.begin(BACK))))[0], "IdentityProviderError")
    }))

  it.live("is asked again after a failure, within a bound of time and bytes, and its redirects are not followed", () =>
    Effect.gen(function*() {
      const { server } = yield* world()
      const provider = yield* providerOf(server, { timeout: Duration.seconds(5) })
      for (
        const [failing, retryable] of [
          [{ status: 503 }, true],
          [{ status: 429 }, true],
          [{ status: 404 }, false],
          [{ status: 302, location: `${server.issuer}/elsewhere` }, false],
          [{ status: 200, body: "x".repeat(300_000) }, false],
          [{ status: 200, body: "{" }, false]
        ] as const
      ) {
        server.failing = failing
        assert.deepInclude(yield* Effect.flip(provider.begin(BACK)), { _tag: "IdentityProviderError", retryable }, JSON.stringify(failing))
      }
      assert.notInclude(server.got, "/elsewhere")
      server.failing = null
      assert.deepInclude(yield* Effect.flatMap(back(provider), provider.identify), { name: "Ada Lovelace" })
    }))

  it.live("is left where it has an address for that, and leads back to the service", () =>
    Effect.gen(function*() {
      const home = "https://slipway.example.com/sign-in"
      const { provider, server } = yield* world()
      const url = new URL(yield* Effect.map(provider.signOutUrl(home), String))
      assert.strictEqual(url.origin + url.pathname, `${server.issuer}/session/end`)
      assert.deepStrictEqual(Object.fromEntries(url.searchParams), { client_id: "slipway", post_logout_redirect_uri: home })
      assert.isNull(yield* (yield* world({}, { signsOut: false })).provider.signOutUrl(home))
      server.failing = { status: 503 }
      assert.isNull(yield* (yield* providerOf(server)).signOutUrl(home))
    }))
})
