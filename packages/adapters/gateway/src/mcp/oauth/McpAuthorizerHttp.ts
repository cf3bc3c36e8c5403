/**
 * `McpAuthorizer` over HTTP: authorization codes with PKCE, the `resource` of RFC 8707, and dynamic registration (RFC 7591) where it is
 * offered. Requests are never repeated: a code and many refresh tokens are good once.
 */
import { McpAuthorizationError, McpAuthorizer } from "@slipway/domain/mcp/ports/McpAuthorizer"
import { McpOAuthClient, type McpTokens } from "@slipway/domain/mcp/schema/McpTokens"
import { Clock, Effect, Layer, Redacted, Schema } from "effect"
import * as oauth from "oauth4webapi"
import type { Destinations } from "../McpUpstream.ts"
import { discover, type Discovered, requestOptions, type Step } from "./Discovery.ts"
import { failed, isAllowed } from "./OAuthFetch.ts"

export interface Options extends Destinations {
  /** Milliseconds for one step, which is some requests. Default 20 seconds; a refresh has to end within a minute. */
  readonly stepMillis?: number
}

/** Kept from the beginning of a connection for its end. */
const Pending = Schema.fromJsonString(Schema.Struct({
  state: Schema.String,
  verifier: Schema.String,
  redirectUri: Schema.String,
  issuer: Schema.String,
  tokenEndpoint: Schema.String,
  sendsIssuer: Schema.Boolean,
  client: McpOAuthClient,
  resource: Schema.String
}))
type Pending = typeof Pending.Type

/** Errors after which the same tokens succeed at no later time (RFC 6749, section 5.2). */
const FINAL = new Set(["invalid_client", "invalid_grant", "invalid_scope", "invalid_target", "unauthorized_client"])

/** A code of an error, which is the only text of an authorization server that is shown. */
const codeOf = (code: string): string => /^[a-z_]{1,64}$/u.test(code) ? code : "unknown_error"

/** An error of the library as a sentence. Its own messages may quote secrets. */
const explained = (host: string) => (error: unknown): McpAuthorizationError => {
  if (error instanceof McpAuthorizationError) return error
  if (error instanceof oauth.ResponseBodyError) {
    return failed(`The authorization server ${host} refuses (${codeOf(error.error)}).`, FINAL.has(error.error))
  }
  if (error instanceof oauth.AuthorizationResponseError) {
    return error.error === "access_denied"
      ? failed("The person at the authorization server did not agree.", true)
      : failed(`The authorization server ${host} refuses (${codeOf(error.error)}).`, true)
  }
  if (error instanceof oauth.WWWAuthenticateChallengeError) return failed(`The authorization server ${host} refuses the client.`, true)
  return failed(`The answer of ${host} could not be understood.`)
}

/** Runs a step within its time, and tells its failure as a sentence. */
const step = <A>({ stepMillis = 20_000, ...options }: Options, host: string, run: (step: Step) => Promise<A>) =>
  Effect.tryPromise({
    try: (interrupted) =>
      run({
        options: { ...options, stepMillis },
        signal: AbortSignal.any([interrupted, AbortSignal.timeout(stepMillis)])
      }),
    catch: explained(host)
  })

const isLoopback = (redirectUri: string) => /^http:\/\/127\.0\.0\.1[:/]/u.test(redirectUri)

/** Registers the service at the authorization server. */
const registered = async (server: Discovered["server"], redirectUri: string, scope: string | null, step: Step): Promise<McpOAuthClient> => {
  const { host } = new URL(server.issuer)
  if (!isAllowed(server.registration_endpoint, step.options)) {
    throw failed(`The authorization server ${host} registers no clients. Register one there, and set its client id.`)
  }
  const response = await oauth.dynamicClientRegistrationRequest(server, {
    client_name: "Slipway",
    redirect_uris: [redirectUri],
    grant_types: ["authorization_code", "refresh_token"],
    response_types: ["code"],
    application_type: isLoopback(redirectUri) ? "native" : "web",
    token_endpoint_auth_method: "none",
    ...(scope === null ? {} : { scope })
  }, requestOptions(step))
  const { client_id, client_secret, token_endpoint_auth_method } = await oauth.processDynamicClientRegistrationResponse(response)
  if (typeof client_secret !== "string" || token_endpoint_auth_method === "none") {
    return { id: client_id, secret: null, authentication: "none" }
  }
  return {
    id: client_id,
    secret: client_secret,
    authentication: token_endpoint_auth_method === "client_secret_post" ? "client_secret_post" : "client_secret_basic"
  }
}

/** The client that an owner registered. */
const givenClient = (
  { token_endpoint_auth_methods_supported: methods }: oauth.AuthorizationServer,
  { id, secret }: { readonly id: string; readonly secret: Redacted.Redacted | null }
): McpOAuthClient => ({
  id,
  secret: secret === null ? null : Redacted.value(secret),
  authentication: secret === null
    ? "none"
    : methods !== undefined && !methods.includes("client_secret_basic") && methods.includes("client_secret_post")
    ? "client_secret_post"
    : "client_secret_basic"
})

const proofOf = ({ authentication, secret }: McpOAuthClient): oauth.ClientAuth =>
  secret === null || authentication === "none"
    ? oauth.None()
    : authentication === "client_secret_post"
    ? oauth.ClientSecretPost(secret)
    : oauth.ClientSecretBasic(secret)

/** The scopes to ask for. Where refresh tokens need one, it is among them. */
const scopesOf = (chosen: string | null, { scopes, server }: Discovered): string | null => {
  const wanted = (chosen ?? scopes ?? "").split(" ").filter((scope) => scope !== "")
  const isOffered = server.scopes_supported?.includes("offline_access") === true
  if (isOffered && chosen === null && !wanted.includes("offline_access")) wanted.push("offline_access")
  return wanted.length === 0 ? null : wanted.join(" ").slice(0, 1000)
}

/** Our form of the tokens. `before`: those that were renewed. */
const tokensOf = (
  answer: oauth.TokenEndpointResponse,
  now: number,
  { client, issuer, refreshToken, resource, tokenEndpoint }: Omit<McpTokens, "accessToken" | "expiresAt">
): McpTokens => {
  const { access_token: accessToken, expires_in: seconds, refresh_token: next = refreshToken, token_type: type } = answer
  if (type !== "bearer" || !/^[\x21-\x7e]{1,8192}$/u.test(accessToken)) {
    throw failed(`The tokens of ${new URL(issuer).host} cannot be used.`, true)
  }
  const expiresAt = seconds === undefined ? null : now + Math.min(seconds, 31_536_000) * 1000
  return { accessToken, refreshToken: next, expiresAt, issuer, tokenEndpoint, client, resource }
}

const begin = (options: Options, { client, redirectUri, scope, url }: Parameters<McpAuthorizer["Service"]["begin"]>[0]) =>
  step(options, new URL(url).host, async (step) => {
    const found = await discover(url, step)
    const { resource, server } = found
    const scopes = scopesOf(scope, found)
    const chosen = client === null ? await registered(server, redirectUri, scopes, step) : givenClient(server, client)
    const [state, verifier] = [oauth.generateRandomState(), oauth.generateRandomCodeVerifier()]
    const address = new URL(server.authorization_endpoint)
    const query: Readonly<Record<string, string>> = {
      response_type: "code",
      client_id: chosen.id,
      redirect_uri: redirectUri,
      state,
      code_challenge: await oauth.calculatePKCECodeChallenge(verifier),
      code_challenge_method: "S256",
      resource,
      ...(scopes === null ? {} : { scope: scopes }),
      // OpenID Connect Core, section 11: without it no refresh token is given.
      ...(scopes?.split(" ").includes("offline_access") === true ? { prompt: "consent" } : {})
    }
    for (const [name, value] of Object.entries(query)) address.searchParams.set(name, value)
    const pending: Pending = {
      state,
      verifier,
      redirectUri,
      issuer: server.issuer,
      tokenEndpoint: server.token_endpoint,
      sendsIssuer: server.authorization_response_iss_parameter_supported === true,
      client: chosen,
      resource
    }
    return {
      address: address.href,
      state: Redacted.make(state),
      pending: Redacted.make(Schema.encodeSync(Pending)(pending))
    }
  })

/** The authorization server and the client, as the library has them. */
const partiesOf = ({ client, issuer, tokenEndpoint }: Pick<McpTokens, "client" | "issuer" | "tokenEndpoint">) => ({
  server: { issuer, token_endpoint: tokenEndpoint } satisfies oauth.AuthorizationServer,
  client: { client_id: client.id } satisfies oauth.Client,
  proof: proofOf(client)
})

const finish = Effect.fnUntraced(function*(options: Options, sealed: Redacted.Redacted, answer: URLSearchParams) {
  const pending = Schema.decodeSync(Pending)(Redacted.value(sealed))
  const { issuer, redirectUri, resource, sendsIssuer, state, verifier } = pending
  const { client, proof, server } = partiesOf(pending)
  const now = yield* Clock.currentTimeMillis
  return yield* step(options, new URL(issuer).host, async (step) => {
    const as = { ...server, authorization_response_iss_parameter_supported: sendsIssuer }
    const query = oauth.validateAuthResponse(as, client, answer, state)
    const response = await oauth.authorizationCodeGrantRequest(as, client, proof, query, redirectUri, verifier, {
      ...requestOptions(step),
      additionalParameters: { resource }
    })
    return tokensOf(await oauth.processAuthorizationCodeResponse(as, client, response), now, { ...pending, refreshToken: null })
  })
})

const refresh = Effect.fnUntraced(function*(options: Options, tokens: McpTokens) {
  const { issuer, refreshToken, resource } = tokens
  const { client, proof, server } = partiesOf(tokens)
  const { host } = new URL(issuer)
  if (refreshToken === null) return yield* failed(`${host} gave nothing to renew it with.`, true)
  const now = yield* Clock.currentTimeMillis
  return yield* step(options, host, async (step) => {
    const response = await oauth.refreshTokenGrantRequest(server, client, proof, refreshToken, {
      ...requestOptions(step),
      additionalParameters: { resource }
    })
    return tokensOf(await oauth.processRefreshTokenResponse(server, client, response), now, tokens)
  })
})

export const layer = (options: Options): Layer.Layer<McpAuthorizer> =>
  Layer.succeed(
    McpAuthorizer,
    McpAuthorizer.of({
      begin: Effect.fn("McpAuthorizer.begin")((given: Parameters<McpAuthorizer["Service"]["begin"]>[0]) => begin(options, given)),
      finish: Effect.fn("McpAuthorizer.finish")((pending: Redacted.Redacted, answer: URLSearchParams) => finish(options, pending, answer)),
      refresh: Effect.fn("McpAuthorizer.refresh")((tokens: McpTokens) => refresh(options, tokens))
    })
  )
