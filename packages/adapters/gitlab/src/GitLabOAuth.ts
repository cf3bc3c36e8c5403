/**
 * The connection to GitLab as an OAuth application: a person signs the service in on another device (RFC 8628), and the tokens are renewed
 * later. https://docs.gitlab.com/api/oauth2/#device-authorization-grant-flow
 */
import type { HostConnection } from "@slipway/domain/environment/ports/HostConnections"
import { hostWords } from "@slipway/domain/source/rules/HostWords"
import { isOpenLine, received } from "@slipway/rest-host/RestApi"
import { Clock, DateTime, Duration, Effect, Redacted, Schema } from "effect"
import * as oauth from "oauth4webapi"

/** The application at GitLab. */
export interface Application {
  /** The address of GitLab, without a slash at its end. */
  readonly url: string
  readonly clientId: string
  /** `null`: the application is not confidential. */
  readonly clientSecret: Redacted.Redacted | null
}

/** GitLab gave no tokens. `expired`: it does not accept the refresh token or the request any more, so a person has to sign in again. */
export class OAuthFailed extends Schema.TaggedError<OAuthFailed>()("OAuthFailed", {
  /** A sentence for people, without secrets. */
  detail: Schema.String,
  retryable: Schema.Boolean,
  isExpired: Schema.Boolean
}) {
  override get message() {
    return this.detail
  }
}

/** For all that the service does, git over HTTP included: https://docs.gitlab.com/integration/oauth_provider/ */
const SCOPE = "api"
const TIMEOUT = Duration.seconds(20)
/** Tokens have a few hundred characters. */
const MAX_ANSWER_BYTES = 64 * 1024

/** The parties, as the library names them. */
const partiesOf = ({ clientId, clientSecret, url }: Application) => ({
  server: { issuer: url, device_authorization_endpoint: `${url}/oauth/authorize_device`, token_endpoint: `${url}/oauth/token` },
  client: { client_id: clientId },
  proof: clientSecret === null ? oauth.None() : oauth.ClientSecretPost(Redacted.value(clientSecret))
})

const failed = (detail: string, more: { readonly retryable?: boolean; readonly isExpired?: boolean } = {}) =>
  new OAuthFailed({ detail, retryable: false, isExpired: false, ...more })

const explained = ({ url }: Application) => (error: unknown): OAuthFailed => {
  const { host } = new URL(url)
  if (error instanceof OAuthFailed) return error
  if (error instanceof oauth.ResponseBodyError) {
    const said = hostWords(`${error.error}${error.error_description === undefined ? "" : `: ${error.error_description}`}`)
    return failed(`${host} says: ${said}`, { isExpired: ["invalid_grant", "expired_token", "access_denied"].includes(error.error) })
  }
  return error instanceof Error && "code" in error && String(error.code).startsWith("OAUTH_")
    ? failed(`The answer of ${host} could not be understood.`)
    : failed(`The connection to ${host} failed.`, { retryable: true })
}

/** Runs a request with the options that the library takes. */
const ask = <A>(application: Application, run: (options: oauth.HttpRequestOptions<"POST", URLSearchParams>) => Promise<A>) => {
  const { host } = new URL(application.url)
  if (isOpenLine(new URL(application.url))) return Effect.fail(failed(`${host} is not reached by https, so it gets no secrets.`))
  return Effect.tryPromise({
    try: (signal) =>
      run({
        signal,
        headers: { "user-agent": "slipway" },
        [oauth.allowInsecureRequests]: true,
        [oauth.customFetch]: async (url: string, init: oauth.CustomFetchOptions<string, unknown>) => {
          const { bytes, response } = await received(url, { ...init as RequestInit, redirect: "manual" }, MAX_ANSWER_BYTES)
          if (bytes === null) throw failed(`The answer of ${host} is too large.`)
          if (response.status >= 500 || response.status === 429) {
            throw failed(`${host} answered with status ${response.status}.`, { retryable: true })
          }
          if (response.status >= 300 && response.status < 400) {
            throw failed(`${host} redirects to another address, which is not followed.`)
          }
          return new Response(bytes, { status: response.status, headers: response.headers })
        }
      }),
    catch: explained(application)
  }).pipe(Effect.timeoutOrElse({
    duration: TIMEOUT,
    orElse: () => failed(`${host} did not answer within ${Duration.toSeconds(TIMEOUT)} seconds.`, { retryable: true })
  }))
}

const connectionOf = Effect.fnUntraced(function*(tokens: oauth.TokenEndpointResponse, before: Redacted.Redacted | null) {
  const now = yield* Clock.currentTimeMillis
  const connection: HostConnection = {
    accessToken: Redacted.make(tokens.access_token),
    refreshToken: tokens.refresh_token === undefined ? before : Redacted.make(tokens.refresh_token),
    expiresAt: tokens.expires_in === undefined ? null : DateTime.makeUnsafe(now + tokens.expires_in * 1000)
  }
  return connection
})

/** A sign-in that waits for a person. Times are in seconds. */
export interface Begun {
  readonly deviceCode: Redacted.Redacted
  /** The person types it at `address`, or opens `fullAddress`. */
  readonly userCode: string
  readonly address: string
  readonly fullAddress: string | null
  readonly expiresIn: number
  readonly interval: number
}

/** Begins a sign-in. A person decides at GitLab from then on. */
export const begin = Effect.fn("GitLabOAuth.begin")(function*(application: Application) {
  const { client, proof, server } = partiesOf(application)
  const answer = yield* ask(application, async (options) => {
    const parameters = new URLSearchParams({ scope: SCOPE })
    const response = await oauth.deviceAuthorizationRequest(server, client, proof, parameters, options)
    return await oauth.processDeviceAuthorizationResponse(server, client, response)
  })
  const begun: Begun = {
    deviceCode: Redacted.make(answer.device_code),
    userCode: answer.user_code,
    address: answer.verification_uri,
    fullAddress: answer.verification_uri_complete ?? null,
    expiresIn: Math.min(answer.expires_in, 3_600),
    interval: Math.min(Math.max(answer.interval ?? 5, 1), 600)
  }
  return begun
})

/** Waits for the person's decision. The wait between two requests grows where GitLab asks for it or fails. */
export const wait = Effect.fn("GitLabOAuth.wait")(function*(application: Application, { deviceCode, expiresIn, interval }: Begun) {
  const { client, proof, server } = partiesOf(application)
  let pause = interval
  for (let waited = 0; waited < expiresIn; waited += pause) {
    yield* Effect.sleep(Duration.seconds(pause))
    const asked = yield* Effect.result(ask(application, async (options) => {
      const response = await oauth.deviceCodeGrantRequest(server, client, proof, Redacted.value(deviceCode), options)
      try {
        return await oauth.processDeviceCodeResponse(server, client, response)
      } catch (error) {
        if (!(error instanceof oauth.ResponseBodyError)) throw error
        if (error.error === "slow_down") return "slower" as const
        if (error.error === "authorization_pending") return "pending" as const
        throw error
      }
    }))
    if (asked._tag === "Failure") {
      if (!asked.failure.retryable) return yield* asked.failure
      pause = Math.min(pause * 2, 60)
    } else if (asked.success === "slower") pause += 5
    else if (asked.success !== "pending") return yield* connectionOf(asked.success, null)
  }
  return yield* failed("The request expired before a person approved it. Begin again.", { isExpired: true })
})

/** The next tokens. The refresh token can be used once. */
export const renew = Effect.fn("GitLabOAuth.renew")(function*(application: Application, { refreshToken }: HostConnection) {
  const { host } = new URL(application.url)
  if (refreshToken === null) return yield* failed(`${host} gave nothing to renew the connection with.`, { isExpired: true })
  const { client, proof, server } = partiesOf(application)
  const tokens = yield* ask(application, async (options) => {
    const response = await oauth.refreshTokenGrantRequest(server, client, proof, Redacted.value(refreshToken), options)
    return await oauth.processRefreshTokenResponse(server, client, response)
  })
  return yield* connectionOf(tokens, refreshToken)
})
