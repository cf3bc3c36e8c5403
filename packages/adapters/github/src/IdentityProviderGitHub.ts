/**
 * `IdentityProvider` on GitHub, by the user flow of a GitHub App: OAuth 2 codes with PKCE. The token reads the profile once and is
 * dropped. Requests are never repeated, because a code is valid once.
 */
import { IdentityProvider, IdentityProviderError, SignInRefused } from "@slipway/domain/access/ports/IdentityProvider"
import { Duration, Effect, Layer, Redacted, Schema } from "effect"
import * as oauth from "oauth4webapi"
import * as Answers from "./Answers.ts"
import { API_VERSION, codeOf, failureOf, GitHubFailed, isOpenLine, said, scrub, webUrlOf, withoutSlash } from "./GitHubApi.ts"

export interface Options {
  readonly clientId: string
  readonly clientSecret: Redacted.Redacted
  /** Like `apiUrl` of `GitHubApi`. */
  readonly apiUrl?: string
  /** The timeout of one request; a sign-in takes two. Default 10 seconds, GitHub's own limit. */
  readonly timeout?: Duration.Duration
}

/** A profile has 2 KB. */
const MAXIMUM_ANSWER_BYTES = 65_536

/**
 * Errors that only a new sign-in can fix.
 * https://docs.github.com/en/apps/oauth-apps/maintaining-oauth-apps/troubleshooting-oauth-app-access-token-request-errors
 */
const REFUSED = new Set(["bad_verification_code", "invalid_grant", "unverified_user_email"])

const isRefusal = Schema.is(Schema.Struct({ error: Schema.NonEmptyString }))

const parsed = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** GitHub's addresses and the App's client. */
interface Connection {
  readonly host: string
  readonly apiUrl: string
  readonly webUrl: string
  readonly clientSecret: Redacted.Redacted
  readonly timeout: Duration.Duration
  readonly server: oauth.AuthorizationServer
  readonly client: oauth.Client
}

const unreadable = (host: string, status: number) =>
  new GitHubFailed({ status, detail: `The answer of ${host} could not be understood.`, retryable: true })

/** One request. Throws `GitHubFailed` without a usable answer. */
const request = async (host: string, url: string, init: RequestInit) => {
  // Credentials must not go to other addresses.
  const response = await fetch(url, { ...init, redirect: "manual" })
  const { status } = response
  const chunks: Array<Uint8Array> = []
  let bytes = 0
  for await (const chunk of response.body ?? []) {
    bytes += chunk.length
    if (bytes > MAXIMUM_ANSWER_BYTES) throw unreadable(host, status)
    chunks.push(chunk)
  }
  const text = Buffer.concat(chunks).toString()
  const headers = Object.fromEntries(response.headers)
  if (status >= 500 || status === 429) throw failureOf(status, headers, "")
  if (status !== 200 && status < 400) throw unreadable(host, status)
  return { status, headers, text }
}

const within = <A, E>({ host, timeout }: Connection, ask: (signal: AbortSignal) => Promise<A>, explain: (error: unknown) => E) =>
  Effect.tryPromise({
    try: ask,
    catch: (error) => error instanceof GitHubFailed ? error : explain(error)
  }).pipe(
    Effect.timeoutOrElse({
      duration: timeout,
      orElse: () =>
        new GitHubFailed({
          status: null,
          detail: `${host} did not answer within ${Duration.toSeconds(timeout)} seconds.`,
          retryable: true
        })
    })
  )

const broken = (host: string, error: unknown) =>
  new GitHubFailed({ status: null, detail: `The connection to ${host} failed (${codeOf(error)}).`, retryable: true })

/** The token that GitHub gives for a code. */
const exchange = (connection: Connection, code: string, verifier: string, redirectUri: string) => {
  const { client, clientSecret, host, server } = connection
  const secrets = [Redacted.value(clientSecret), code, verifier]
  return within(connection, async (signal) => {
    const answer = oauth.validateAuthResponse(server, client, new URLSearchParams({ code }), oauth.expectNoState)
    const response = await oauth.authorizationCodeGrantRequest(
      server,
      client,
      oauth.ClientSecretPost(Redacted.value(clientSecret)),
      answer,
      redirectUri,
      verifier,
      {
        signal,
        headers: { "user-agent": "slipway" },
        // Only on loopback: the layer refuses other unencrypted connections.
        [oauth.allowInsecureRequests]: true,
        [oauth.customFetch]: async (url, init) => {
          const { headers, status, text } = await request(host, url, init as RequestInit)
          // GitHub tells errors with status 200.
          return new Response(text, { status: status === 200 && isRefusal(parsed(text)) ? 400 : status, headers })
        }
      }
    )
    return Redacted.make((await oauth.processAuthorizationCodeResponse(server, client, response)).access_token)
  }, (error) => {
    if (error instanceof oauth.ResponseBodyError) {
      const detail = error.status === 404
        ? "GitHub does not know the client id."
        : `GitHub says: ${secrets.reduce(scrub, error.error_description ?? error.error)}`
      return REFUSED.has(error.error)
        ? new SignInRefused({ detail })
        : new GitHubFailed({ status: error.status, detail, retryable: false })
    }
    // The library's messages and causes contain the answer, and so possibly the token.
    return codeOf(error).startsWith("OAUTH_") ? unreadable(host, 200) : broken(host, error)
  })
}

const profile = (connection: Connection, token: Redacted.Redacted) =>
  within(
    connection,
    (signal) =>
      request(connection.host, `${connection.apiUrl}/user`, {
        signal,
        headers: {
          accept: "application/vnd.github+json",
          authorization: `Bearer ${Redacted.value(token)}`,
          "user-agent": "slipway",
          "x-github-api-version": API_VERSION
        }
      }),
    (error) => broken(connection.host, error)
  ).pipe(
    Effect.filterOrFail(({ status }) => status === 200, ({ headers, status, text }) =>
      status === 401
        ? new GitHubFailed({ status, detail: "GitHub does not know the token it has just given.", retryable: true })
        : failureOf(status, headers, scrub(said(parsed(text)), Redacted.value(token)))),
    Effect.flatMap(({ status, text }) =>
      Effect.mapError(Schema.decodeUnknownEffect(Answers.Profile)(parsed(text)), () => unreadable(connection.host, status))
    )
  )

const begin = Effect.fnUntraced(function*({ client, webUrl }: Connection, redirectUri: string) {
  const [state, verifier] = [oauth.generateRandomState(), oauth.generateRandomCodeVerifier()]
  const challenge = yield* Effect.promise(() => oauth.calculatePKCECodeChallenge(verifier))
  const query = new URLSearchParams({
    client_id: client.client_id,
    redirect_uri: redirectUri,
    state,
    code_challenge: challenge,
    code_challenge_method: "S256"
  })
  return { url: `${webUrl}/login/oauth/authorize?${query}`, state: Redacted.make(state), verifier: Redacted.make(verifier) }
})

const make = Effect.fnUntraced(function*(options: Options) {
  const { clientId, clientSecret, timeout = Duration.seconds(10) } = options
  const apiUrl = withoutSlash(options.apiUrl ?? "https://api.github.com")
  const webUrl = webUrlOf(apiUrl)
  const { host } = new URL(webUrl)
  if (isOpenLine(new URL(apiUrl))) {
    const detail = `The address of ${host} must start with https:, since tokens are sent there.`
    return yield* new IdentityProviderError({ detail, retryable: false })
  }
  const connection: Connection = {
    host,
    apiUrl,
    webUrl,
    clientSecret,
    timeout,
    server: { issuer: webUrl, token_endpoint: `${webUrl}/login/oauth/access_token` },
    client: { client_id: clientId }
  }

  return IdentityProvider.of({
    id: "github",
    name: "GitHub",
    begin: Effect.fn("IdentityProvider.begin")((redirectUri) => begin(connection, redirectUri)),
    identify: Effect.fn("IdentityProvider.identify")(
      function*({ code, redirectUri, verifier }) {
        if (code === "") return yield* new SignInRefused({ detail: "GitHub sent no code along." })
        return Answers.toIdentity(yield* profile(connection, yield* exchange(connection, code, Redacted.value(verifier), redirectUri)))
      },
      Effect.catchTag(
        "GitHubFailed",
        Effect.fnUntraced(function*({ detail, retryable, status }) {
          yield* Effect.logWarning("GitHub could not tell who signs in", { status, detail })
          return yield* new IdentityProviderError({ detail, retryable })
        })
      )
    ),
    // GitHub has no address for it.
    signOutUrl: () => Effect.succeed(null)
  })
})

/** Fails if the connection would be unencrypted. Sends no request. */
export const layer = (options: Options): Layer.Layer<IdentityProvider, IdentityProviderError> =>
  Layer.effect(IdentityProvider, make(options))
