/**
 * Requests to GitLab's REST API (version 4) and its GraphQL API. The operator chooses the token of a path: of a project, of a group, or of
 * an account. Tokens are asked for each operation and not kept.
 * https://docs.gitlab.com/api/rest/
 */
import { SourceHostError } from "@slipway/domain/source/ports/SourceHost"
import { LruCache } from "@slipway/domain/store/LruCache"
import { Counter } from "@slipway/domain/text/Text"
import * as RestApi from "@slipway/rest-host/RestApi"
import { onStatus, RestFailed } from "@slipway/rest-host/RestApi"
import { DateTime, Effect, Option, Redacted, Schema } from "effect"
import { createHash } from "node:crypto"

/** A GitLab server and what Slipway may use there. */
export interface Options {
  /** The address of its web pages, such as `https://gitlab.example.com`. May have a path. */
  readonly url: string
  /**
   * The token for a project or group, by its path; for the empty path the token of the whole host. Project, group and personal access
   * tokens and access tokens of OAuth applications are all sent as `Bearer`.
   */
  readonly token: (path: string) => Effect.Effect<Redacted.Redacted, SourceHostError>
  /** Groups, by their full paths, in which a project is also found by the last two parts of its path. Default none. */
  readonly groups?: ReadonlyArray<string>
  /** Paths whose tokens list the projects for choosing. Default: the groups, or the empty path without any. */
  readonly listed?: ReadonlyArray<string>
}

/** GitLab's error: `{ message }` with a text, a list or lists by field, or `{ error, error_description }`. */
export const said = (data: unknown): string => {
  if (typeof data === "string") return data.startsWith("<") ? "" : data
  if (typeof data !== "object" || data === null) return ""
  if (Array.isArray(data)) return data.map(said).filter((text) => text !== "").join(", ")
  const { error, error_description: description, message } = data as Record<string, unknown>
  if (message !== undefined) return fields(message)
  return [error, description].filter((text) => typeof text === "string" && text !== "").join(": ")
}

const fields = (message: unknown): string =>
  typeof message !== "object" || message === null || Array.isArray(message)
    ? said(message)
    : Object.entries(message).map(([field, texts]) => `${field === "base" ? "" : `${field} `}${said(texts)}`).join(", ")

/** GitLab's tokens have prefixes, which an administrator can change. */
const TOKENS = /\bgl[a-z]{2,8}-[\w.-]{10,}/gu

const Own = Schema.Struct({ id: Counter, username: Schema.String })
/** The account of a token. */
export type Account = typeof Own.Type

const GraphqlAnswer = Schema.Struct({
  data: Schema.optionalKey(Schema.Unknown),
  errors: Schema.optionalKey(Schema.Array(Schema.Struct({ message: Schema.String })))
})

/** Accounts of tokens that are remembered. */
const MAX_ACCOUNTS = 1000

export type GitLabApi = ReturnType<typeof clientOf>

/** A refused token needs the operator. */
const withAdvice = (name: string) => <A, E>(self: Effect.Effect<A, E>) =>
  onStatus(401, () =>
    Effect.fail(
      new RestFailed({
        status: 401,
        detail: `${name} does not accept the token. Check that it has not expired and was not revoked.`,
        retryable: false
      })
    ))(self)

const clientOf = (url: URL) => {
  const address = url.href.replace(/(?<!\/)\/+$/u, "")
  const host: RestApi.Host = { name: url.host, apiUrl: `${address}/api/v4`, said, secrets: TOKENS }
  const accounts = new LruCache<string, Account>(MAX_ACCOUNTS)

  const send = (request: RestApi.Request) => RestApi.send(host, request).pipe(withAdvice(url.host))

  return {
    name: url.host,
    /** The address of the web pages, without a slash at its end. */
    url: address,
    host,
    send,
    ask: <A, I>(schema: Schema.Codec<A, I>, request: RestApi.Request) =>
      Effect.flatMap(send(request), (answer) => RestApi.decode(host, schema, answer)),

    /** A query of GraphQL. Its refusals have status 200. */
    query: Effect.fnUntraced(
      function*<A, I>(token: Redacted.Redacted, query: string, variables: Readonly<Record<string, string>>, schema: Schema.Codec<A, I>) {
        const graph = { ...host, apiUrl: `${address}/api` }
        const answer = yield* RestApi.send(graph, { method: "POST", path: "/graphql", token, body: { query, variables } }).pipe(
          withAdvice(url.host)
        )
        const { data, errors } = yield* RestApi.decode(graph, GraphqlAnswer, answer)
        if (errors !== undefined && errors.length > 0) {
          const detail = `${url.host} says: ${errors.map(({ message }) => message).join(", ").slice(0, 200)}`
          return yield* new RestFailed({ status: answer.status, detail, retryable: false })
        }
        return yield* RestApi.decode(graph, schema, { ...answer, data })
      }
    ),

    /** The account that the token acts for. */
    own: Effect.fnUntraced(function*(token: Redacted.Redacted) {
      const key = createHash("sha256").update(Redacted.value(token)).digest("base64")
      const known = accounts.get(key)
      if (known !== undefined) return known
      const answer = yield* send({ method: "GET", path: "/user", token })
      const account = yield* RestApi.decode(host, Own, answer)
      accounts.set(key, account)
      return account
    })
  }
}

/** Fails if the address cannot be parsed. */
export const make = ({ url }: Pick<Options, "url">): Effect.Effect<GitLabApi, SourceHostError> =>
  URL.canParse(url) && /^https?:/u.test(url)
    ? Effect.sync(() => clientOf(new URL(url)))
    : Effect.fail(new SourceHostError({ operation: "use GitLab", detail: "Its address is invalid.", retryable: false }))

const Metadata = Schema.Struct({ version: Schema.String })
const OwnToken = Schema.Struct({
  scopes: Schema.Array(Schema.String),
  active: Schema.Boolean,
  expires_at: Schema.NullOr(Schema.String)
})
/** An operator wants to know of the end of a token so long before. */
const SOON_DAYS = 14

const problemsOf = ({ active, expires_at, scopes }: typeof OwnToken.Type, now: DateTime.Utc): ReadonlyArray<string> => {
  const end = expires_at === null ? null : Option.getOrNull(DateTime.make(expires_at))
  return [
    ...active ? [] : ["The token is not active. Create another one."],
    ...scopes.includes("api") ? [] : ["The token lacks the scope api. Create one with it: it covers the API and git."],
    ...end !== null && DateTime.isLessThan(end, DateTime.add(now, { days: SOON_DAYS }))
      ? [`The token expires at ${DateTime.formatIso(end).slice(0, 10)}. Create another one before.`]
      : []
  ]
}

/** For a check of the configuration. `path`: the project or group whose token is checked; empty: the host's. */
export const account = Effect.fn("GitLabApi.account")(function*(options: Options, path = "") {
  const api = yield* make(options)
  const token = yield* options.token(path)
  const { id, username } = yield* api.own(token)
  const { version } = yield* api.ask(Metadata, { method: "GET", path: "/metadata", token })
  // GitLab knows no scopes of an OAuth application's token here.
  const own = yield* RestApi.send(api.host, { method: "GET", path: "/personal_access_tokens/self", token }).pipe(
    Effect.flatMap((answer) => RestApi.decode(api.host, OwnToken, answer)),
    Effect.catchIf(({ status }) => status !== null && [400, 401, 403, 404].includes(status), () => Effect.succeed(null))
  )
  return { version, account: { id: String(id), login: username }, problems: own === null ? [] : problemsOf(own, yield* DateTime.now) }
})
