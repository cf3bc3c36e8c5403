/**
 * Requests to GitHub's REST API as a GitHub App: each one with a time limit, sent once, and with what went wrong told in
 * GitHub's words, free of secrets. Tokens are minted for one repository and for what an operation needs.
 */
import type { Octokit } from "@octokit/core"
import { RepoNotAccessible, SourceHostError } from "@slipway/domain/source/ports/SourceHost"
import { hostWords } from "@slipway/domain/source/rules/HostWords"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { Duration, Effect, Redacted, Schema } from "effect"
import { createPrivateKey } from "node:crypto"

export interface Options {
  /** The App's id, or its client id. */
  readonly appId: string
  /** PEM: PKCS#1 as GitHub hands it out, or PKCS#8. Line breaks may be written as `\n`. */
  readonly privateKey: Redacted.Redacted
  /**
   * Default `https://api.github.com`. `https://HOST/api/v3` for GitHub Enterprise Server, `https://api.NAME.ghe.com` with data
   * residency.
   */
  readonly apiUrl?: string
  /** Where repositories are cloned from. Default: what belongs to `apiUrl`. */
  readonly gitUrl?: string
}

/** GitHub did not do what it was asked to. Becomes the port's error where it is known what the request was for. */
export class GitHubFailed extends Schema.TaggedError<GitHubFailed>()("GitHubFailed", {
  /** `null`: there was no answer, and whether the request took effect is not known. */
  status: Schema.NullOr(Schema.Int),
  /** A sentence for people, with what GitHub says (`hostWords`), free of secrets. */
  detail: Schema.String,
  retryable: Schema.Boolean,
  /** Seconds. */
  retryAfter: Schema.optionalKey(Schema.Int)
}) {
  override get message() {
    return this.detail
  }
}

/** The token has ended, or GitHub does not know it yet. Nothing was done: the request may be sent again with another one. */
export class TokenRefused extends Schema.TaggedError<TokenRefused>()("TokenRefused", { detail: Schema.String }) {}

/** Handles failures of that one status. */
export const onStatus =
  <A2, E2>(status: number, handle: (failure: GitHubFailed) => Effect.Effect<A2, E2>) =>
  <A, E>(self: Effect.Effect<A, E>): Effect.Effect<A | A2, E | E2> =>
    Effect.catchIf(self, (error) => error instanceof GitHubFailed && error.status === status, (error) => handle(error as E & GitHubFailed))

export type Permissions = Readonly<Record<string, "read" | "write">>

/** A token of one repository. It lives an hour at most; nobody writes it anywhere. */
export interface Access {
  readonly token: Redacted.Redacted
  readonly permissions: Readonly<Record<string, string>>
  /** As GitHub spells it. */
  readonly owner: string
  readonly name: string
}

export interface Answer {
  readonly status: number
  readonly headers: Readonly<Record<string, string | undefined>>
  readonly data: unknown
}

/** Without it GitHub decides which version of its API answers. GitHub Enterprise Server knows this one since 3.9. */
export const API_VERSION = "2022-11-28"
const READ_TIMEOUT = Duration.seconds(10)
/** GitHub itself ends a request after ten seconds; what may have taken effect is worth waiting for its answer. */
const WRITE_TIMEOUT = Duration.seconds(30)
/** Of a hundred installations each; an App that has more is not listed. */
const MAXIMUM_PAGES = 50
/** Of a hundred repositories each: of an account with more, the first are known. */
const MAXIMUM_REPOSITORY_PAGES = 10
/** GitHub's advice where it names no time. https://docs.github.com/en/rest/using-the-rest-api/best-practices-for-using-the-rest-api */
const UNNAMED_WAIT_SECONDS = 60

const Installation = Schema.Struct({
  id: Schema.Int,
  permissions: Schema.Record(Schema.String, Schema.String),
  suspended_at: Schema.optionalKey(Schema.NullOr(Schema.String))
})
const App = Schema.Struct({
  name: Schema.String,
  html_url: Schema.String,
  installations_count: Schema.Int
})
/** An enterprise has no login; nothing of ours can be installed for one. */
const InstallationList = Schema.Array(Schema.Struct({
  account: Schema.NullOr(Schema.Struct({ login: Schema.optionalKey(Schema.String) })),
  suspended_at: Schema.optionalKey(Schema.NullOr(Schema.String))
}))
const Minted = Schema.Struct({
  token: Schema.NonEmptyString,
  permissions: Schema.Record(Schema.String, Schema.String),
  repositories: Schema.NonEmptyArray(Schema.Struct({ full_name: Schema.String }))
})
const ListToken = Schema.Struct({ token: Schema.NonEmptyString })
const RepositoryList = Schema.Struct({ repositories: Schema.Array(Schema.Struct({ full_name: Schema.String })) })
const isRepoName = Schema.is(RepoName)
const Refusal = Schema.Struct({
  message: Schema.String,
  errors: Schema.optionalKey(Schema.Array(Schema.Unknown))
})
const isRefusal = Schema.is(Refusal)
const isFieldError = Schema.is(Schema.Struct({ field: Schema.String, code: Schema.String }))
const hasMessage = Schema.is(Schema.Struct({ message: Schema.String }))
const Header = Schema.UndefinedOr(Schema.Union([Schema.String, Schema.Finite]))
const hasAnswer = Schema.is(Schema.Struct({
  status: Schema.Int,
  response: Schema.Struct({ headers: Schema.Record(Schema.String, Header), data: Schema.Unknown })
}))

/** `read` is part of `write`, and both of `admin`. */
const includes = (granted: string | undefined, wanted: "read" | "write"): boolean =>
  granted === wanted || granted === "admin" || granted === "write" && wanted === "read"

/** What GitHub says is wrong, in its own words. */
export const said = (data: unknown): string => {
  if (!isRefusal(data)) return ""
  const errors = (data.errors ?? []).map((error) =>
    typeof error === "string" ? error : hasMessage(error) ? error.message : isFieldError(error) ? `${error.field} is ${error.code}` : ""
  )
  return [data.message, ...errors].filter((text) => text !== "").join(": ")
}

/** Removes `secret` wherever it stands, and what looks like one of GitHub's. */
export const scrub = (text: string, secret: string): string =>
  hostWords(
    (secret.length > 8 ? text.replaceAll(secret, "***") : text)
      .replaceAll(/\b(?:gh[a-z]_\w+|github_pat_\w+|eyJ[\w-]+\.[\w-]+\.[\w-]+)/gu, "***")
  )

/** Seconds to wait, where GitHub refused because of the number of requests, or asks for patience. */
const waitOf = (status: number, headers: Answer["headers"], message: string): number | undefined => {
  const asked = Number(headers["retry-after"] ?? Number.NaN)
  if (Number.isFinite(asked)) return Math.max(Math.ceil(asked), 0)
  if (status !== 403 && status !== 429) return undefined
  if (headers["x-ratelimit-remaining"] === "0") {
    // By GitHub's clock on both sides.
    const seconds = Number(headers["x-ratelimit-reset"]) - Date.parse(headers["date"] ?? "") / 1000
    return Number.isFinite(seconds) ? Math.max(Math.ceil(seconds), 1) : UNNAMED_WAIT_SECONDS
  }
  return status === 429 || /rate limit|abuse detection/iu.test(message) ? UNNAMED_WAIT_SECONDS : undefined
}

export const failureOf = (status: number, headers: Answer["headers"], message: string): GitHubFailed => {
  const detail = message === "" ? `GitHub answered with status ${status}.` : `GitHub says: ${message}`
  const retryAfter = waitOf(status, headers, message)
  return new GitHubFailed({
    status,
    detail,
    retryable: retryAfter !== undefined || status >= 500,
    ...(retryAfter === undefined ? {} : { retryAfter })
  })
}

/** The system's name of a broken connection, such as `ECONNREFUSED`; messages would name addresses. */
export const codeOf = (error: unknown): string => {
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    if ("code" in cause && typeof cause.code === "string") return cause.code
  }
  return "no code"
}

/** `https://api.github.com` → `https://github.com`, `https://HOST/api/v3` → `https://HOST`. */
export const webUrlOf = (apiUrl: string): string => {
  const { host, protocol } = new URL(apiUrl)
  return `${protocol}//${apiUrl.includes("/api/v3") ? host : host.replace(/^api\./u, "")}`
}

export const withoutSlash = (url: string): string => url.replace(/(?<!\/)\/+$/u, "")

/** Whether others could listen to what is sent there. */
export const isOpenLine = ({ hostname, protocol }: URL): boolean =>
  protocol !== "https:" && !["127.0.0.1", "[::1]", "localhost"].includes(hostname)

/** How GitHub is reached. */
interface Connection {
  /** Such as `github.com`. */
  readonly host: string
  /** Signs each request anew, and corrects a wrong clock of this machine. */
  readonly asApp: Octokit
  readonly asInstallation: Octokit
}

/** One request, sent once. `access: "app"`: signed with the App's key. */
const send = (
  { asApp, asInstallation, host }: Connection,
  access: Pick<Access, "token"> | "app",
  route: `${"GET" | "POST"} ${string}`,
  parameters: Readonly<Record<string, unknown>>,
  headers: Readonly<Record<string, string>>
) => {
  let secret = ""
  const octokit = access === "app" ? asApp : asInstallation
  const authorization = access === "app" ? {} : { authorization: `token ${Redacted.value(access.token)}` }
  const timeout = route.startsWith("GET") ? READ_TIMEOUT : WRITE_TIMEOUT
  return Effect.tryPromise({
    try: (signal): Promise<Answer> =>
      octokit.request(route, {
        ...parameters,
        headers: { "x-github-api-version": API_VERSION, ...authorization, ...headers },
        request: {
          signal,
          // Credentials go nowhere else.
          redirect: "manual",
          fetch: (url: string, init: RequestInit & { readonly headers: Readonly<Record<string, string>> }) => {
            secret = init.headers["authorization"]?.split(" ").at(-1) ?? ""
            return fetch(url, init)
          }
        }
      }) as Promise<Answer>,
    catch: (error) => {
      if (!hasAnswer(error)) {
        return new GitHubFailed({ status: null, detail: `The connection to ${host} failed (${codeOf(error)}).`, retryable: true })
      }
      const headers = Object.fromEntries(Object.entries(error.response.headers).map(([name, value]) => [name, value?.toString()]))
      return failureOf(error.status, headers, scrub(said(error.response.data), secret))
    }
  }).pipe(
    Effect.timeoutOrElse({
      duration: timeout,
      orElse: () =>
        new GitHubFailed({
          status: null,
          detail: `${host} did not answer within ${Duration.toSeconds(timeout)} seconds.`,
          retryable: true
        })
    }),
    Effect.filterOrFail(
      ({ status }) => status < 300,
      ({ status }) => new GitHubFailed({ status, detail: "The repository has moved; use its present name.", retryable: false })
    )
  )
}

/** The answer by its schema. Anything else is the answer of another server, or half of one. */
const decode = <A, I>(host: string, schema: Schema.Codec<A, I>, { data, status }: Answer) =>
  Effect.mapError(
    Schema.decodeUnknownEffect(schema)(data),
    () => new GitHubFailed({ status, detail: `The answer of ${host} could not be understood.`, retryable: true })
  )

/** An unknown id is a 404 to GitHub; it is as wrong as a wrong key. */
const ofApp = (connection: Connection, route: `${"GET" | "POST"} ${string}`, parameters: Readonly<Record<string, unknown>>) =>
  Effect.mapError(
    send(connection, "app", route, parameters, {}),
    (failure) =>
      failure.status !== 401 && !failure.detail.includes("Integration not found") ? failure : new GitHubFailed({
        status: 401,
        detail: `GitHub does not accept the App's key; check the App's id and its private key. ${failure.detail}`,
        retryable: false
      })
  )

/** A new token with all of `needed`, and those of `wanted` that the installation has. */
const mint = Effect.fn("GitHubApi.mint")(function*(
  connection: Connection,
  repo: RepoName,
  needed: Permissions,
  wanted: Permissions = {}
) {
  const [owner = "", name = ""] = repo.split("/")
  const hidden = new RepoNotAccessible({ repo })
  const installation = yield* ofApp(connection, "GET /repos/{owner}/{repo}/installation", { owner, repo: name }).pipe(
    Effect.flatMap((answer) => decode(connection.host, Installation, answer)),
    onStatus(404, () => Effect.fail(hidden))
  )
  if (typeof installation.suspended_at === "string") return yield* hidden
  const has = ([permission, level]: readonly [string, "read" | "write"]) => includes(installation.permissions[permission], level)
  const missing = Object.entries(needed).filter((entry) => entry[0] !== "metadata" && !has(entry)).map(([permission, level]) =>
    `${permission}: ${level}`
  )
  if (missing.length > 0) {
    const detail = `The GitHub App may not do this here: its installation lacks ${missing.join(", ")}. The owner of ${repo} can grant it.`
    return yield* new GitHubFailed({ status: 403, detail, retryable: false })
  }
  const permissions = { ...needed, ...Object.fromEntries(Object.entries(wanted).filter(has)) }
  const minted = yield* ofApp(connection, "POST /app/installations/{installation_id}/access_tokens", {
    installation_id: installation.id,
    repositories: [name],
    permissions
  }).pipe(
    Effect.flatMap((answer) => decode(connection.host, Minted, answer)),
    // Taken from the installation a moment ago.
    onStatus(404, () => Effect.fail(hidden)),
    onStatus(422, (failure) => Effect.fail(failure.detail.includes("repositor") ? hidden : failure))
  )
  const [ownerName = owner, repositoryName = name] = minted.repositories[0].full_name.split("/")
  const access: Access = { token: Redacted.make(minted.token), permissions: minted.permissions, owner: ownerName, name: repositoryName }
  return access
})

/** Logins of the accounts that let the App use repositories, in lower case. */
const accounts = Effect.fnUntraced(function*(
  connection: Connection
): Effect.fn.Return<ReadonlySet<string>, GitHubFailed> {
  const logins = new Set<string>()
  for (let page = 1; page <= MAXIMUM_PAGES; page++) {
    const answer = yield* ofApp(connection, "GET /app/installations", { per_page: 100, page })
    const installations = yield* decode(connection.host, InstallationList, answer)
    for (const { account, suspended_at } of installations) {
      if (account?.login !== undefined && typeof suspended_at !== "string") logins.add(account.login.toLowerCase())
    }
    if (installations.length < 100) return logins
  }
  return yield* new GitHubFailed({ status: 200, detail: "The App has too many installations to be listed.", retryable: false })
})

/** Repositories that the account, by its login, lets the App use. An account without the App has none. The token can read names alone. */
const repositoriesOf = Effect.fn("GitHubApi.repositoriesOf")(function*(connection: Connection, login: string) {
  const installation = yield* ofApp(connection, "GET /users/{username}/installation", { username: login }).pipe(
    Effect.flatMap((answer) => decode(connection.host, Installation, answer)),
    onStatus(404, () => Effect.succeed(null))
  )
  if (installation === null || typeof installation.suspended_at === "string") return []
  const { token } = yield* ofApp(connection, "POST /app/installations/{installation_id}/access_tokens", {
    installation_id: installation.id,
    permissions: { metadata: "read" }
  }).pipe(Effect.flatMap((answer) => decode(connection.host, ListToken, answer)))
  const names: Array<RepoName> = []
  for (let page = 1; page <= MAXIMUM_REPOSITORY_PAGES; page++) {
    const answer = yield* send(connection, { token: Redacted.make(token) }, "GET /installation/repositories", { per_page: 100, page }, {})
    const { repositories } = yield* decode(connection.host, RepositoryList, answer)
    for (const { full_name } of repositories) if (isRepoName(full_name)) names.push(full_name)
    if (repositories.length < 100) break
  }
  return names
})

/** Fails when the key cannot be parsed, or would be sent over an open line. Sends nothing to GitHub. */
export const make = Effect.fnUntraced(function*(options: Options) {
  const apiUrl = withoutSlash(options.apiUrl ?? "https://api.github.com")
  const gitUrl = withoutSlash(options.gitUrl ?? webUrlOf(apiUrl))
  const { host } = new URL(gitUrl)
  const appId = /^\d+$/u.test(options.appId) ? Number(options.appId) : options.appId
  const privateKey = Redacted.value(options.privateKey).replaceAll("\\n", "\n").trim()
  const unusable = (detail: string) => new SourceHostError({ operation: "use the GitHub App", detail, retryable: false })
  const isKey = yield* Effect.orElseSucceed(Effect.try(() => createPrivateKey(privateKey).asymmetricKeyType === "rsa"), () => false)
  if (!isKey) return yield* unusable("Its private key is no PEM file as GitHub hands out.")
  for (const url of [new URL(apiUrl), new URL(gitUrl)]) {
    if (isOpenLine(url)) return yield* unusable(`The address of ${url.hostname} must start with https:, since tokens are sent there.`)
  }

  // Loading these takes 100 ms (2026-11-21): only services with GitHub pay for it.
  const [{ Octokit }, { createAppAuth }] = yield* Effect.promise(() => Promise.all([import("@octokit/core"), import("@octokit/auth-app")]))
  const context = yield* Effect.context<never>()
  const log = (message: string) => void Effect.runForkWith(context)(Effect.logWarning(scrub(message, "")))
  const settings = {
    baseUrl: apiUrl,
    userAgent: "slipway",
    log: { debug: () => {}, info: () => {}, warn: log, error: log },
    request: { log: { warn: log } }
  }
  const connection: Connection = {
    host,
    asApp: new Octokit({ ...settings, authStrategy: createAppAuth, auth: { appId, privateKey } }),
    asInstallation: new Octokit(settings)
  }

  return {
    accounts: accounts(connection),
    repositoriesOf: (login: string) => repositoriesOf(connection, login),
    /** Such as `github.com`. */
    host,
    remoteUrl: ({ name, owner }: Access) => `${gitUrl}/${owner}/${name}.git`,
    /** The App as GitHub knows it: fails where its id, its key or the address is wrong. */
    app: Effect.flatMap(ofApp(connection, "GET /app", {}), (answer) => decode(host, App, answer)),
    mint: (repo: RepoName, needed: Permissions, wanted?: Permissions) => mint(connection, repo, needed, wanted),
    decode: <A, I>(schema: Schema.Codec<A, I>, answer: Answer) => decode(host, schema, answer),
    /** Below the repository. `parameters` go into the path, else into the query or the body. */
    request: (
      access: Access,
      method: "GET" | "POST",
      path: string,
      parameters: Readonly<Record<string, unknown>> = {},
      headers: Readonly<Record<string, string>> = {}
    ) => {
      const route = `${method} /repos/{owner}/{repo}${path}` as const
      return send(connection, access, route, { owner: access.owner, repo: access.name, ...parameters }, headers).pipe(
        onStatus(401, ({ detail }) => Effect.fail(new TokenRefused({ detail })))
      )
    }
  }
})

export type GitHubApi = Effect.Success<ReturnType<typeof make>>
