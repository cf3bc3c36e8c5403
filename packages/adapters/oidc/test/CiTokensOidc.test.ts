import { assert, describe, it } from "@effect/vitest"
import { CiTokens } from "@slipway/domain/access/ports/CiTokens"
import * as CompanyNetwork from "@slipway/machine/testing/CompanyNetwork"
import { Clock, Effect, Layer, Redacted, References } from "effect"
import { TestClock } from "effect/testing"
import { createPublicKey, generateKeyPairSync } from "node:crypto"
import * as CiTokensOidc from "../src/CiTokensOidc.ts"
import type { IssuerOptions } from "../src/IssuerFetch.ts"
import { type CiIssuer, claimsOf, HEADER, jwkOf, start, tokenOf, weakTokenOf } from "../testing/CiIssuer.ts"

const option = "SLIPWAY_CI_ISSUERS_PRIVATE"

const now = Effect.map(Clock.currentTimeMillis, (millis) => Math.floor(millis / 1000))

/** An issuer, and the result of verifying as a word or as claims. */
const given = Effect.fnUntraced(function*(options: Partial<IssuerOptions> = {}) {
  yield* TestClock.setTime(Date.UTC(2026, 10, 30))
  const ci = yield* start
  const privates = new Set([ci.destination])
  const tokens = yield* Effect.provide(CiTokens, CiTokensOidc.layer({ privates, option, ...options }))
  const verify = (token: string, issuer = ci.issuer) =>
    tokens.verify(Redacted.make(token), issuer).pipe(
      Effect.catch(({ _tag }) => Effect.succeed(_tag)),
      Effect.provideService(References.MinimumLogLevel, "None")
    )
  const claims = claimsOf(ci.issuer, yield* now)
  return { ci, claims, tokens, verify }
})

const publicPem = ({ key }: CiIssuer) => createPublicKey(key).export({ format: "pem", type: "spki" }).toString()

describe("CiTokensOidc", () => {
  it.effect("gives the claims of a token that the issuer signed", () =>
    Effect.gen(function*() {
      const { ci, claims, tokens, verify } = yield* given()
      const token = tokenOf(ci.key, claims)
      assert.strictEqual(tokens.issuerOf(Redacted.make(token)), ci.issuer)
      assert.deepStrictEqual<unknown>(yield* verify(token), claims)
      assert.deepStrictEqual(ci.got, ["/.well-known/openid-configuration", "/jwks"])
    }))

  it.effect("gives the claims of a token that is signed with an elliptic curve", () =>
    Effect.gen(function*() {
      const { ci, claims, verify } = yield* given()
      const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" })
      ci.keys = [jwkOf(publicKey, { kid: "curve" })]
      assert.deepStrictEqual<unknown>(yield* verify(tokenOf(privateKey, claims, { alg: "ES256", kid: "curve" })), claims)
      assert.strictEqual(yield* verify(tokenOf(privateKey, claims, { alg: "ES384", kid: "curve" })), "CiTokenRefused")
    }))

  it.effect("refuses a token that the issuer did not sign", () =>
    Effect.gen(function*() {
      const { ci, claims, verify } = yield* given()
      const other = generateKeyPairSync("rsa", { modulusLength: 2048 }).privateKey
      assert.strictEqual(yield* verify(tokenOf(other, claims)), "CiTokenRefused")
      const [head = "", , signature = ""] = tokenOf(ci.key, claims).split(".")
      const forged = Buffer.from(JSON.stringify({ ...claims, repository: "eve/web" })).toString("base64url")
      assert.strictEqual(yield* verify(`${head}.${forged}.${signature}`), "CiTokenRefused")
    }))

  it.effect("refuses a token without a signature, and a signature with the public key as a secret", () =>
    Effect.gen(function*() {
      const { ci, claims, verify } = yield* given()
      for (const alg of ["none", "None", "HS256", "RS1", "__proto__"]) {
        for (const secret of [null, "", publicPem(ci), JSON.stringify(ci.keys[0])]) {
          const token = weakTokenOf(claims, { ...HEADER, alg }, secret)
          assert.strictEqual(yield* verify(token), "CiTokenRefused")
          assert.strictEqual(yield* verify(`${token}AA`), "CiTokenRefused")
        }
        assert.strictEqual(yield* verify(tokenOf(ci.key, claims, { ...HEADER, alg })), "CiTokenRefused")
      }
    }))

  it.effect("refuses keys that are too short, for something else, or of another algorithm", () =>
    Effect.gen(function*() {
      const short = generateKeyPairSync("rsa", { modulusLength: 1024 })
      for (const more of [{ use: "enc" }, { alg: "RS512" }, { kty: "EC" }, { n: "?" }, "short"] as const) {
        const { ci, claims, verify } = yield* given()
        const isShort = more === "short"
        ci.keys = [null, "key", isShort ? jwkOf(short.publicKey) : jwkOf(createPublicKey(ci.key), more)] as never
        assert.strictEqual(yield* verify(tokenOf(isShort ? short.privateKey : ci.key, claims)), "CiTokenRefused")
      }
    }))

  it.effect("refuses texts that are no tokens, and extensions that it does not know", () =>
    Effect.gen(function*() {
      const { ci, claims, tokens, verify } = yield* given()
      const texts = ["", "a.b.c", "..", "e30.e30.e30", `${"a".repeat(20_000)}.b.c`, tokenOf(ci.key, claims, { ...HEADER, crit: ["x"] })]
      for (const text of texts) {
        assert.strictEqual(yield* verify(text), "CiTokenRefused")
        assert.isNull(tokens.issuerOf(Redacted.make(text)))
      }
      assert.deepStrictEqual(ci.got, [])
    }))

  it.effect("refuses a token of another issuer", () =>
    Effect.gen(function*() {
      const { ci, claims, verify } = yield* given()
      assert.strictEqual(yield* verify(tokenOf(ci.key, { ...claims, iss: "https://other.example.com" })), "CiTokenRefused")
      assert.strictEqual(yield* verify(tokenOf(ci.key, { ...claims, iss: [ci.issuer] })), "CiTokenRefused")
      assert.deepStrictEqual(ci.got, [])
    }))

  it.effect("refuses tokens that are expired or not valid yet, with a minute for the clocks", () =>
    Effect.gen(function*() {
      const { ci, claims, verify } = yield* given()
      const at = yield* now
      const isTaken = (more: object) => Effect.map(verify(tokenOf(ci.key, { ...claims, ...more })), (answer) => answer !== "CiTokenRefused")
      assert.deepStrictEqual(yield* Effect.all([isTaken({ exp: at - 59 }), isTaken({ exp: at - 60 })]), [true, false])
      assert.deepStrictEqual(yield* Effect.all([isTaken({ nbf: at + 60 }), isTaken({ nbf: at + 61 })]), [true, false])
      assert.deepStrictEqual(yield* Effect.all([isTaken({ iat: at + 60 }), isTaken({ iat: at + 61 })]), [true, false])
      for (const more of [{ exp: undefined }, { iat: undefined }, { exp: String(at + 300) }, { nbf: "0" }, { nbf: null }]) {
        assert.isFalse(yield* isTaken(more))
      }
      assert.isTrue(yield* isTaken({ nbf: undefined }))
    }))

  it.effect("asks for the keys again when a token names an unknown one, at most once a minute, and after a quarter of an hour", () =>
    Effect.gen(function*() {
      const { ci, claims, verify } = yield* given()
      const { privateKey, publicKey } = generateKeyPairSync("rsa", { modulusLength: 2048 })
      const next = tokenOf(privateKey, { ...claims, exp: (yield* now) + 7200 }, { ...HEADER, kid: "next" })
      const first = tokenOf(ci.key, { ...claims, exp: (yield* now) + 7200 })
      yield* Effect.all([verify(first), verify(first), verify(next)], { concurrency: "unbounded" })
      ci.keys = [jwkOf(publicKey, { kid: "next" })]
      assert.strictEqual(yield* verify(next), "CiTokenRefused")
      assert.lengthOf(ci.got, 2)
      yield* TestClock.adjust("1 minute")
      assert.isObject(yield* verify(next))
      assert.lengthOf(ci.got, 4)
      ci.keys = []
      yield* TestClock.adjust("899 seconds")
      assert.isObject(yield* verify(next))
      yield* TestClock.adjust("1 second")
      assert.strictEqual(yield* verify(next), "CiTokenRefused")
    }))

  it.effect("reports an issuer that gives no usable keys, and asks it again after a while", () =>
    Effect.gen(function*() {
      const { ci, claims, verify } = yield* given()
      const token = tokenOf(ci.key, claims)
      const answers: ReadonlyArray<NonNullable<CiIssuer["instead"]>> = [
        (response) => response.writeHead(500).end(),
        (response) => response.writeHead(302, { location: "/elsewhere" }).end(),
        (response) => response.end("no JSON"),
        (response) => response.end("null"),
        (response) => response.destroy(),
        (response) => response.end(JSON.stringify({ ...ci.metadata, issuer: "https://other.example.com" })),
        (response) => response.end(JSON.stringify({ ...ci.metadata, jwks_uri: "file:///etc/passwd" })),
        (response) => response.end(JSON.stringify({ ...ci.metadata, keys: "none" }))
      ]
      for (const instead of answers) {
        ci.instead = instead
        assert.strictEqual(yield* verify(token), "CiIssuerUnavailable")
        const asked = ci.got.length
        ci.instead = null
        assert.strictEqual(yield* verify(token), "CiIssuerUnavailable")
        assert.lengthOf(ci.got, asked)
        yield* TestClock.adjust("10 seconds")
      }
      assert.isObject(yield* verify(token))
    }))

  it.effect("reads no more than a bounded answer, and waits no longer than its time", () =>
    Effect.gen(function*() {
      const { ci, claims, verify } = yield* given({ timeoutMillis: 2000 })
      let written = 0
      ci.instead = (response) => {
        const chunk = Buffer.alloc(65_536, " ")
        const more = () => {
          while (written < 104_857_600 && !response.destroyed) {
            written += chunk.length
            if (!response.write(chunk)) return void response.once("drain", more)
          }
          response.end()
        }
        more()
      }
      assert.strictEqual(yield* verify(tokenOf(ci.key, claims)), "CiIssuerUnavailable")
      assert.isBelow(written, 52_428_800)
      yield* TestClock.adjust("10 seconds")
      ci.instead = () => {}
      assert.strictEqual(yield* verify(tokenOf(ci.key, claims)), "CiIssuerUnavailable")
      yield* TestClock.adjust("10 seconds")
      ci.instead = (response) => void response.write("{")
      assert.strictEqual(yield* verify(tokenOf(ci.key, claims)), "CiIssuerUnavailable")
    }))

  it.effect("connects to no private address that the operator did not allow", () =>
    Effect.gen(function*() {
      const { ci, claims, verify } = yield* given({ privates: new Set() })
      assert.strictEqual(yield* verify(tokenOf(ci.key, claims)), "CiIssuerUnavailable")
      for (const addresses of [["10.0.0.1"], ["93.184.215.14", "169.254.169.254"], []]) {
        const issuer = "https://gitlab.example.com"
        const other = yield* given({ privates: new Set(), lookup: async () => addresses })
        assert.strictEqual(yield* other.verify(tokenOf(ci.key, { ...claims, iss: issuer }), issuer), "CiIssuerUnavailable")
      }
      assert.deepStrictEqual(ci.got, [])
      const moved = yield* given()
      const elsewhere = yield* start
      moved.ci.metadata = { ...moved.ci.metadata, jwks_uri: `${elsewhere.issuer}/jwks` }
      assert.strictEqual(yield* moved.verify(tokenOf(moved.ci.key, moved.claims)), "CiIssuerUnavailable")
      assert.deepStrictEqual(elsewhere.got, [])
    }))

  it.live("asks an issuer that only the operator's proxy knows through the proxy, and none with a private address", () =>
    Effect.gen(function*() {
      const network = yield* CompanyNetwork.joined
      const { privateKey, publicKey } = generateKeyPairSync("rsa", { modulusLength: 2048 })
      const issuer = "https://ci.outside.test"
      yield* network.https("ci.outside.test", (request, response) => {
        const body = request.url === "/jwks" ? { keys: [jwkOf(publicKey)] } : { issuer, jwks_uri: `${issuer}/jwks` }
        response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(body))
      })
      const token = Redacted.make(tokenOf(privateKey, claimsOf(issuer, Math.floor(Date.now() / 1000))))
      const verified = Effect.fnUntraced(function*(addresses: ReadonlyArray<string>) {
        const tokens = yield* Effect.provide(
          CiTokens,
          Layer.fresh(CiTokensOidc.layer({ privates: new Set(), option, lookup: async () => addresses }))
        )
        return yield* tokens.verify(token, issuer).pipe(
          Effect.map(({ repository }) => repository),
          Effect.catch(({ _tag }) => Effect.succeed(_tag)),
          Effect.provideService(References.MinimumLogLevel, "None")
        )
      })
      assert.strictEqual(yield* verified(["10.0.0.1"]), "CiIssuerUnavailable")
      assert.deepStrictEqual(network.asked, [])
      assert.strictEqual(yield* verified([]), "acme/web")
      assert.deepStrictEqual([...new Set(network.asked)], ["CONNECT ci.outside.test:443"])
      network.behave(502)
      assert.strictEqual(yield* verified([]), "CiIssuerUnavailable")
    }))
})
