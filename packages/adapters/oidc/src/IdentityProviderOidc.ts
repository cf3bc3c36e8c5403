/**
 * `IdentityProvider` at a provider of OpenID Connect: codes with PKCE and a nonce. The ID token is checked by its signature; the userinfo
 * endpoint adds claims that it lacks. Tokens are read once and dropped. Requests are never repeated, because a code is valid once.
 */
import { IdentityProvider, IdentityProviderError, type SignInAnswer, SignInRefused } from "@slipway/domain/access/ports/IdentityProvider"
import { type Claims, entryOf, type EntryRules, verifiedEmailOf } from "@slipway/domain/access/rules/Entry"
import { type Identity, shownName } from "@slipway/domain/access/rules/Identity"
import { Clock, Duration, Effect, Layer, Redacted } from "effect"
import { createHash } from "node:crypto"
import * as oauth from "oauth4webapi"
import { codeOf, isProtected, OidcFailed, request } from "./OidcFetch.ts"

export interface Options {
  /** The address of the provider, whose metadata are below it at `.well-known/openid-configuration`. */
  readonly issuer: string
  readonly clientId: string
  readonly clientSecret: Redacted.Redacted
  /** The name for people. Default: the issuer's host. */
  readonly name?: string | null
  /** The scopes of the request, with spaces between. Default `openid email profile`. */
  readonly scopes?: string
  readonly rules: EntryRules
  /** The timeout of one step; a sign-in takes two, of up to four requests. Default 10 seconds. */
  readonly timeout?: Duration.Duration
}

/** The provider's metadata are read again after it. Its keys are read when a token names an unknown one. */
const METADATA_LIFE = Duration.minutes(15)

/** Seconds that the clocks of the provider and of this machine may differ. */
const CLOCK_TOLERANCE = 60

/** Errors that only a new sign-in can fix (RFC 6749, section 5.2). */
const REFUSED = new Set(["invalid_grant"])

interface Server extends oauth.AuthorizationServer {
  readonly authorization_endpoint: string
  readonly token_endpoint: string
}

interface Connection {
  readonly options: Options
  readonly host: string
  readonly name: string
  readonly client: oauth.Client
  readonly timeout: Duration.Duration
  known: { readonly server: Server; readonly until: number } | null
}

/** The code of an error, which is the only text of the provider that is shown. */
const shownCode = (code: string): string => /^[a-z_]{1,64}$/u.test(code) ? code : "unknown_error"

const said = {
  [oauth.JWT_TIMESTAMP_CHECK]: "is expired or not valid yet: compare the clocks of both machines",
  [oauth.JWT_CLAIM_COMPARISON]: "has another issuer, audience or nonce than it should have",
  [oauth.KEY_SELECTION]: "is signed with a key that the provider does not publish"
} as const satisfies Record<string, string>

/** An error of the library as a sentence. Its own messages and causes may quote tokens. */
const explained = (host: string) => (error: unknown): SignInRefused | OidcFailed => {
  if (error instanceof OidcFailed) return error
  if (error instanceof oauth.ResponseBodyError) {
    const code = shownCode(error.error)
    return REFUSED.has(code)
      ? new SignInRefused({ detail: "The sign-in was used already, is too old, or began in another browser. Begin again." })
      : new OidcFailed({ detail: `${host} refuses the service (${code}).`, retryable: false })
  }
  if (error instanceof oauth.WWWAuthenticateChallengeError) {
    return new OidcFailed({ detail: `${host} refuses the service's client.`, retryable: false })
  }
  const code = codeOf(error)
  const known = Object.entries(said).find(([name]) => name === code)
  if (known !== undefined) return new OidcFailed({ detail: `The ID token of ${host} ${known[1]}.`, retryable: false })
  return code.startsWith("OAUTH_")
    ? new OidcFailed({ detail: `The answer of ${host} could not be understood, or is not signed as it should be.`, retryable: false })
    : new OidcFailed({ detail: `The connection to ${host} failed (${code}).`, retryable: true })
}

/** Runs the requests of one step within its time. */
const step = <A>({ host, timeout }: Connection, run: (signal: AbortSignal) => Promise<A>) =>
  Effect.tryPromise({ try: run, catch: explained(host) }).pipe(
    Effect.timeoutOrElse({
      duration: timeout,
      orElse: () => new OidcFailed({ detail: `${host} did not answer within ${Duration.toSeconds(timeout)} seconds.`, retryable: true })
    })
  )

/** The options that the library takes for each request. The addresses are checked by ours. */
const requestOptions = (signal: AbortSignal) => ({
  signal,
  headers: { "user-agent": "slipway" },
  [oauth.allowInsecureRequests]: true,
  [oauth.customFetch]: (url: string, init: oauth.CustomFetchOptions<string, unknown>) => request(url, init as RequestInit)
})

const usable = (server: oauth.AuthorizationServer, host: string, issuer: string): Server => {
  if (server.issuer !== issuer) {
    throw new OidcFailed({
      detail: `${host} is the issuer ${server.issuer.slice(0, 200)}: it has to be set as written here.`,
      retryable: false
    })
  }
  const { authorization_endpoint, end_session_endpoint, jwks_uri, token_endpoint } = server
  const unusable = (what: string) => new OidcFailed({ detail: `The metadata of ${host} have ${what}.`, retryable: false })
  if (authorization_endpoint === undefined || token_endpoint === undefined || jwks_uri === undefined) {
    throw unusable("no addresses for signing in")
  }
  for (const url of [authorization_endpoint, token_endpoint, jwks_uri, end_session_endpoint ?? authorization_endpoint]) {
    if (!isProtected(url)) throw unusable("an address that does not start with https:")
  }
  return { ...server, authorization_endpoint, token_endpoint }
}

/** The provider's metadata, which are kept for a while. Failures are not kept. */
const discovered = Effect.fnUntraced(function*(connection: Connection) {
  const now = yield* Clock.currentTimeMillis
  if (connection.known !== null && now < connection.known.until) return connection.known.server
  const issuer = new URL(connection.options.issuer)
  const server = yield* step(connection, async (signal) => {
    const response = await oauth.discoveryRequest(issuer, { ...requestOptions(signal), algorithm: "oidc" })
    if (response.status === 404) {
      throw new OidcFailed({ detail: `${connection.host} has no metadata of OpenID Connect there.`, retryable: false })
    }
    return usable(await oauth.processDiscoveryResponse(issuer, response), connection.host, connection.options.issuer)
  })
  connection.known = { server, until: now + Duration.toMillis(METADATA_LIFE) }
  return server
})

/** Binds the ID token to the browser that has the verifier, which cannot be computed from the nonce. */
const nonceOf = (verifier: string): string => createHash("sha256").update(`nonce ${verifier}`).digest("base64url")

const begin = Effect.fnUntraced(function*(connection: Connection, redirectUri: string) {
  const server = yield* discovered(connection)
  const [state, verifier] = [oauth.generateRandomState(), oauth.generateRandomCodeVerifier()]
  const challenge = yield* Effect.promise(() => oauth.calculatePKCECodeChallenge(verifier))
  const url = new URL(server.authorization_endpoint)
  const query: Readonly<Record<string, string>> = {
    response_type: "code",
    client_id: connection.client.client_id,
    redirect_uri: redirectUri,
    scope: connection.options.scopes ?? "openid email profile",
    state,
    nonce: nonceOf(verifier),
    code_challenge: challenge,
    code_challenge_method: "S256"
  }
  for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value)
  return { url: url.href, state: Redacted.make(state), verifier: Redacted.make(verifier) }
})

const proofOf = ({ clientSecret }: Options, { token_endpoint_auth_methods_supported: methods }: Server): oauth.ClientAuth => {
  const secret = Redacted.value(clientSecret)
  return methods !== undefined && !methods.includes("client_secret_basic") && methods.includes("client_secret_post")
    ? oauth.ClientSecretPost(secret)
    : oauth.ClientSecretBasic(secret)
}

/** The claims that are read. Many providers tell some of them only at the userinfo endpoint. */
const wantedOf = ({ claim, groupsClaim, roles }: EntryRules): ReadonlyArray<string> => [
  "name",
  "email",
  "email_verified",
  ...(claim === null ? [] : [claim.name]),
  ...(roles.length === 0 ? [] : [groupsClaim])
]

/** The claims of the person, from a checked ID token and from the userinfo endpoint. */
const claimsOf = (connection: Connection, server: Server, { code, issuer, redirectUri, verifier }: SignInAnswer) =>
  step(connection, async (signal) => {
    const { client, options } = connection
    const secret = Redacted.value(verifier)
    const answer = oauth.validateAuthResponse(
      server,
      client,
      new URLSearchParams({ code, ...(issuer === null ? {} : { iss: issuer }) }),
      oauth.expectNoState
    )
    const more = requestOptions(signal)
    const response = await oauth.authorizationCodeGrantRequest(server, client, proofOf(options, server), answer, redirectUri, secret, more)
    const tokens = await oauth.processAuthorizationCodeResponse(server, client, response, {
      expectedNonce: nonceOf(secret),
      requireIdToken: true
    })
    // Refuses unsigned tokens, and those of a shared secret.
    await oauth.validateApplicationLevelSignature(server, response, more)
    const claims = oauth.getValidatedIdTokenClaims(tokens)
    if (claims === undefined) throw new OidcFailed({ detail: `${connection.host} gave no ID token.`, retryable: false })
    if (server.userinfo_endpoint === undefined || wantedOf(options.rules).every((name) => Object.hasOwn(claims, name))) return claims
    const info = await oauth.userInfoRequest(server, client, tokens.access_token, more)
    return { ...await oauth.processUserInfoResponse(server, client, claims.sub, info), ...claims }
  })

/** The form of `sub` (OpenID Connect Core, section 2). */
const SUBJECT = /^[\x20-\x7e]{1,255}$/u

const textOf = (claim: unknown): string => typeof claim === "string" ? claim : ""

const identityOf = (rules: EntryRules, issuer: string, claims: Claims): Identity | null => {
  const subject = textOf(claims["sub"])
  if (!SUBJECT.test(subject)) return null
  const email = verifiedEmailOf(claims)
  return {
    provider: "oidc",
    subject: `${issuer} ${subject}`,
    login: email,
    name: shownName(textOf(claims["name"]), shownName(textOf(claims["preferred_username"]), email ?? subject)),
    email,
    entry: entryOf(rules, claims)
  }
}

/** Fails as the port says, and logs what only an operator can change. */
const told = <A, E, R>(effect: Effect.Effect<A, E | OidcFailed, R>) =>
  Effect.catchIf(
    effect,
    (error) => error instanceof OidcFailed,
    Effect.fnUntraced(function*({ detail, retryable }) {
      yield* Effect.logWarning("the provider of OpenID Connect could not tell who signs in", { detail })
      return yield* new IdentityProviderError({ detail, retryable })
    })
  )

const make = Effect.fnUntraced(function*(options: Options) {
  const { clientId, issuer, timeout = Duration.seconds(10) } = options
  const { host } = new URL(issuer)
  if (!isProtected(issuer)) {
    const detail = `The address of ${host} must start with https:, since secrets are sent there.`
    return yield* new IdentityProviderError({ detail, retryable: false })
  }
  const name = options.name ?? host
  const client: oauth.Client = { client_id: clientId, [oauth.clockTolerance]: CLOCK_TOLERANCE }
  const connection: Connection = { options, host, name, client, timeout, known: null }

  return IdentityProvider.of({
    id: "oidc",
    name,
    begin: Effect.fn("IdentityProvider.begin")((redirectUri: string) =>
      // Before the exchange there is no code that could be refused.
      Effect.catchTag(begin(connection, redirectUri), "SignInRefused", ({ detail }) => new OidcFailed({ detail, retryable: false })), told),
    identify: Effect.fn("IdentityProvider.identify")(
      function*(answer: SignInAnswer) {
        if (answer.code === "") return yield* new SignInRefused({ detail: `${name} sent no code along.` })
        const server = yield* discovered(connection)
        const identity = identityOf(options.rules, server.issuer, yield* claimsOf(connection, server, answer))
        return identity ?? (yield* new OidcFailed({ detail: `${host} gives an account without a usable id.`, retryable: false }))
      },
      told
    ),
    signOutUrl: Effect.fn("IdentityProvider.signOutUrl")(
      function*(back: string) {
        const { end_session_endpoint: address } = yield* discovered(connection)
        if (address === undefined) return null
        const url = new URL(address)
        url.searchParams.set("client_id", clientId)
        url.searchParams.set("post_logout_redirect_uri", back)
        return url.href
      },
      Effect.catch(({ message }) =>
        Effect.as(Effect.logWarning("the provider of OpenID Connect could not be asked for its sign-out", { detail: message }), null)
      )
    )
  })
})

/** Fails if the connection would be unencrypted. Sends no request. */
export const layer = (options: Options): Layer.Layer<IdentityProvider, IdentityProviderError> =>
  Layer.effect(IdentityProvider, make(options))
