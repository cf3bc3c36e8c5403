/** A CI's issuer over HTTP that signs for real, and can misbehave. */
import { Effect, type Scope } from "effect"
import { createHmac, generateKeyPairSync, type KeyObject, sign } from "node:crypto"
import { once } from "node:events"
import { createServer, type ServerResponse } from "node:http"

type Json = Readonly<Record<string, unknown>>

export interface CiIssuer {
  readonly issuer: string
  /** `host:port`, to allow it as a private one. */
  readonly destination: string
  readonly key: KeyObject
  /** The published keys. */
  keys: ReadonlyArray<Json>
  metadata: Json
  /** Answers in place of the issuer. */
  instead: ((response: ServerResponse) => void) | null
  /** The paths that were asked for. */
  readonly got: Array<string>
}

const coded = (value: unknown) => Buffer.from(JSON.stringify(value)).toString("base64url")

export const HEADER = { alg: "RS256", typ: "JWT", kid: "first" }

/** A token of this content, signed with the key. */
export const tokenOf = (key: KeyObject, claims: Json, header: Json = HEADER): string => {
  const content = `${coded(header)}.${coded(claims)}`
  const isCurve = key.asymmetricKeyType === "ec"
  const signature = sign("sha256", Buffer.from(content), isCurve ? { key, dsaEncoding: "ieee-p1363" } : { key })
  return `${content}.${signature.toString("base64url")}`
}

/** A token whose signature is a digest with a secret, or empty without one. */
export const weakTokenOf = (claims: Json, header: Json, secret: string | null): string => {
  const content = `${coded(header)}.${coded(claims)}`
  return `${content}.${secret === null ? "" : createHmac("sha256", secret).update(content).digest("base64url")}`
}

/** A key as it is published. */
export const jwkOf = (key: KeyObject, more: Json = {}): Json => ({ ...key.export({ format: "jwk" }), use: "sig", kid: "first", ...more })

const generate = () => generateKeyPairSync("rsa", { modulusLength: 2048 })

/** The claims of a run of GitHub Actions, from `now` in seconds on. */
export const claimsOf = (issuer: string, now: number, more: Json = {}): Json => ({
  iss: issuer,
  aud: "https://slipway.example.com",
  sub: "repo:acme/web:ref:refs/heads/main",
  repository: "acme/web",
  ref: "refs/heads/main",
  run_id: "4711",
  iat: now,
  nbf: now - 300,
  exp: now + 300,
  ...more
})

export const start: Effect.Effect<CiIssuer, never, Scope.Scope> = Effect.gen(function*() {
  const { privateKey, publicKey } = generate()
  const server = createServer((request, response) => {
    made.got.push(request.url ?? "")
    if (made.instead !== null) return made.instead(response)
    const body = request.url === "/jwks" ? { keys: made.keys } : made.metadata
    response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(body))
  })
  yield* Effect.acquireRelease(
    Effect.promise(() => once(server.listen(0, "127.0.0.1"), "listening")),
    () =>
      Effect.callback<void>((resume) => {
        server.close(() => resume(Effect.void))
        server.closeAllConnections()
      })
  )
  const address = server.address()
  const destination = `localhost:${address !== null && typeof address === "object" ? address.port : 0}`
  const issuer = `http://${destination}`
  const made: CiIssuer = {
    issuer,
    destination,
    key: privateKey,
    keys: [jwkOf(publicKey)],
    metadata: { issuer, jwks_uri: `${issuer}/jwks` },
    instead: null,
    got: []
  }
  return made
})
