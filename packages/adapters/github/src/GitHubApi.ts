/**
 * Requests to GitHub's REST API as a GitHub App. Each is sent once, with a timeout, and its errors carry GitHub's text without secrets.
 * Tokens are made for one repository and the permissions of one operation.
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
  /** PEM: PKCS#1 as GitHub issues it, or PKCS#8. Line breaks may be written as `\n`. */
  readonly privateKey: Redacted.Redacted
  /**
   * Default `https://api.github.com`. `https://HOST/api/v3` for GitHub Enterprise Server, `https://api.NAME.ghe.com` with data
   * residency.
   */
  readonly apiUrl?: string
  /** The address for clones. Default: derived from `apiUrl`. */
  readonly gitUrl?: string
}

/** A request to GitHub failed. The caller converts it to the port's error. */
export class GitHubFailed extends Schema.TaggedError<GitHubFailed>()("GitHubFailed", {
  /** `null`: no answer; whether the request took effect is unknown. */
  status: Schema.NullOr(Schema.Int),
  /** A sentence for people with GitHub's text (`hostWords`), without secrets. */
  detail: Schema.String,
  retryable: Schema.Boolean,
  /** Seconds. */
  retryAfter: Schema.optionalKey(Schema.Int),
  /** The least seconds between two requests for the same, if GitHub named them. */
  pollInterval: Schema.optionalKey(Schema.Int),
  /** The id of the repository, if it has another name now. */
  movedTo: Schema.optionalKey(Schema.Int)
}) {
  override get message() {
    return this.detail
  }
}

/** The token has expired, or GitHub does not know it yet. Nothing was done: retry with another token. */
export class TokenRefused extends Schema.TaggedError<TokenRefused>()("TokenRefused", { detail: Schema.String }) {}

/** Handles failures with this status. */
export const onStatus =
  <A2, E2>(status: number, handle: (failure: GitHubFailed) => Effect.Effect<A2, E2>) =>
  <A, E>(self: Effect.Effect<A, E>): Effect.Effect<A | A2, E | E2> =>
    Effect.catchIf(self, (error) => error instanceof GitHubFailed && error.status === status, (error) => handle(error as E & GitHubFailed))

export type Permissions = Readonly<Record<string, "read" | "write">>

/** A token for one repository. It lives for an hour at most and is never written anywhere. */
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

/** Without it GitHub chooses the API version. GitHub Enterprise Server supports this one since 3.9. */
export const API_VERSION = "2022-11-28"
const READ_TIMEOUT = Duration.seconds(10)
/** GitHub ends a request after ten seconds. A write may have taken effect, so its answer is worth the wait. */
const WRITE_TIMEOUT = Duration.seconds(30)
/** Pages of a hundred installations. The rest of a larger App is not listed. */
const MAXIMUM_PAGES = 50
/** Pages of a hundred repositories. For a larger account, only the first are known. */
const MAXIMUM_REPOSITORY_PAGES = 10
/**
 * GitHub's recommended wait if it names no time.
 * https://docs.github.com/en/rest/using-the-rest-api/best-practices-for-using-the-rest-api
 */
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
/** An enterprise has no login and no repositories for us. */
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
const Mutated = Schema.Struct({
  data: Schema.optionalKey(Schema.Unknown),
  errors: Schema.optionalKey(Schema.Array(Schema.Struct({ message: Schema.String })))
})
const Header = Schema.UndefinedOr(Schema.Union([Schema.String, Schema.Finite]))
const hasAnswer = Schema.is(Schema.Struct({
  status: Schema.Int,
  response: Schema.Struct({ headers: Schema.Record(Schema.String, Header), data: Schema.Unknown })
}))

/** `read` is part of `write`, and both of `admin`. */
const includes = (granted: string | undefined, wanted: "read" | "write"): boolean =>
  granted === wanted || granted === "admin" || granted === "write" && wanted === "read"

/** GitHub's own text of an error. */
export const said = (data: unknown): string => {
  if (!isRefusal(data)) return ""
  const errors = (data.errors ?? []).map((error) =>
    typeof error === "string" ? error : hasMessage(error) ? error.message : isFieldError(error) ? `${error.field} is ${error.code}` : ""
  )
  return [data.message, ...errors].filter((text) => text !== "").join(": ")
}

/** Removes `secret` wherever it appears, and texts that look like GitHub's secrets. */
export const scrub = (text: string, secret: string): string =>
  hostWords(
    (secret.length > 8 ? text.replaceAll(secret, "***") : text)
      .replaceAll(/\b(?:gh[a-z]_\w+|github_pat_\w+|eyJ[\w-]+\.[\w-]+\.[\w-]+)/gu, "***")
  )

/** Seconds to wait, if GitHub refused because of a rate limit or asked for a wait. */
const waitOf = (status: number, headers: Answer["headers"], message: string): number | undefined => {
  const asked = Number(headers["retry-after"] ?? Number.NaN)
  if (Number.isFinite(asked)) return Math.max(Math.ceil(asked), 0)
  if (status !== 403 && status !== 429) return undefined
  if (headers["x-ratelimit-remaining"] === "0") {
    // Both times by GitHub's clock.
    const seconds = Number(headers["x-ratelimit-reset"]) - Date.parse(headers["date"] ?? "") / 1000
    return Number.isFinite(seconds) ? Math.max(Math.ceil(seconds), 1) : UNNAMED_WAIT_SECONDS
  }
  return status === 429 || /rate limit|abuse detection/iu.test(message) ? UNNAMED_WAIT_SECONDS : undefined
}

export const failureOf = (status: number, headers: Answer["headers"], message: string): GitHubFailed => {
  const detail = message === "" ? `GitHub answered with status ${status}.` : `GitHub says: ${message}`
  const retryAfter = waitOf(status, headers, message)
  const pollInterval = Number(headers["x-poll-interval"] ?? Number.NaN)
  return new GitHubFailed({
    ...(Number.isSafeInteger(pollInterval) ? { pollInterval } : {}),
    status,
    detail,
    retryable: retryAfter !== undefined || status >= 500,
    ...(retryAfter === undefined ? {} : { retryAfter })
  })
}

/** The system's code of a connection error, such as `ECONNREFUSED`; messages would contain addresses. */
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

/** `https://api.github.com` → `https://api.github.com/graphql`, `https://HOST/api/v3` → `https://HOST/api/graphql`. */
const graphqlUrlOf = (apiUrl: string): string => `${apiUrl.replace(/\/api\/v3$/u, "/api")}/graphql`

export const withoutSlash = (url: string): string => url.replace(/(?<!\/)\/+$/u, "")

/** Whether the connection is unencrypted. */
export const isOpenLine = ({ hostname, protocol }: URL): boolean =>
  protocol !== "https:" && !["127.0.0.1", "[::1]", "localhost"].includes(hostname)

/** The connection to GitHub. */
interface Connection {
  /** Such as `github.com`. */
  readonly host: string
  /** Without a slash at its end. */
  readonly apiUrl: string
  /** Signs each request, and corrects a wrong clock of this machine. */
  readonly asApp: Octokit
  readonly asInstallation: Octokit
}

/**
 * The id in the address of a repository that was renamed or transferred. No redirection is followed: credentials go to addresses that we
 * make ourselves. https://docs.github.com/en/rest/using-the-rest-api/best-practices-for-using-the-rest-api#follow-redirects
 */
const movedIn = (apiUrl: string, location: string | undefined): number | undefined => {
  const prefix = `${apiUrl}/repositories/`
  const id = location?.startsWith(prefix) === true ? Number(/^\d{1,15}(?=\/|\?|$)/u.exec(location.slice(prefix.length))?.[0]) : Number.NaN
  return Number.isSafeInteger(id) ? id : undefined
}

/** Sends one request once. `access: "app"`: signed with the App's key. */
const send = (
  { apiUrl, asApp, asInstallation, host }: Connection,
  access: Pick<Access, "token"> | "app",
  route: `${"GET" | "PATCH" | "POST"} ${string}`,
  parameters: Readonly<Record<string, unknown>>,
  headers: Readonly<Record<string, string>>,
  /** Whether a 302, which names the place of a file, is an answer. */
  takesPlace = false
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
          // Credentials must not go to other addresses.
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
      ({ status }) => status < 300 || takesPlace && status === 302,
      ({ headers, status }) => {
        const movedTo = movedIn(apiUrl, headers["location"])
        return new GitHubFailed({
          status,
          detail: "The repository has moved; use its present name.",
          retryable: false,
          ...(movedTo === undefined ? {} : { movedTo })
        })
      }
    )
  )
}

/** Decodes the answer. An answer of another form is from another server, or incomplete. */
const decode = <A, I>(host: string, schema: Schema.Codec<A, I>, { data, status }: Answer) =>
  Effect.mapError(
    Schema.decodeUnknownEffect(schema)(data),
    () => new GitHubFailed({ status, detail: `The answer of ${host} could not be understood.`, retryable: true })
  )

/** GitHub answers 404 for an unknown App id; it is reported like a wrong key. */
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

/** Signs the request itself: the library signs only addresses that it knows. */
const installationOfMoved = Effect.fnUntraced(function*(connection: Connection, repositoryId: number) {
  const signed = yield* Effect.tryPromise({
    try: async () => (await connection.asApp.auth({ type: "app" })) as { readonly token: string },
    catch: () => new GitHubFailed({ status: null, detail: "The App's key cannot sign a request.", retryable: false })
  })
  const route = "GET /repositories/{repository_id}/installation"
  return yield* send(connection, { token: Redacted.make(signed.token) }, route, { repository_id: repositoryId }, {
    authorization: `bearer ${signed.token}`
  })
})

/** A new token with all of `needed`, and the permissions of `wanted` that the installation has. */
const mint = Effect.fn("GitHubApi.mint")(function*(
  connection: Connection,
  repo: RepoName,
  needed: Permissions,
  wanted: Permissions = {}
) {
  const [owner = "", name = ""] = repo.split("/")
  const hidden = new RepoNotAccessible({ repo })
  const { answer, id } = yield* ofApp(connection, "GET /repos/{owner}/{repo}/installation", { owner, repo: name }).pipe(
    Effect.map((answer) => ({ answer, id: null })),
    Effect.catchIf(
      ({ movedTo }) => movedTo !== undefined,
      ({ movedTo = 0 }) => Effect.map(installationOfMoved(connection, movedTo), (answer) => ({ answer, id: movedTo }))
    ),
    onStatus(404, () => Effect.fail(hidden))
  )
  const installation = yield* decode(connection.host, Installation, answer)
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
    ...(id === null ? { repositories: [name] } : { repository_ids: [id] }),
    permissions
  }).pipe(
    Effect.flatMap((answer) => decode(connection.host, Minted, answer)),
    // The repository was just removed from the installation.
    onStatus(404, () => Effect.fail(hidden)),
    onStatus(422, (failure) => Effect.fail(failure.detail.includes("repositor") ? hidden : failure))
  )
  const [ownerName = owner, repositoryName = name] = minted.repositories[0].full_name.split("/")
  const access: Access = { token: Redacted.make(minted.token), permissions: minted.permissions, owner: ownerName, name: repositoryName }
  return access
})

/** Logins, in lower case, of accounts with the App. */
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

/** The repositories that an account, given by login, lets the App use. Empty without the App. The token can read only names. */
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

/** Fails if the key cannot be parsed, or the connection would be unencrypted. Sends no request. */
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

  // Loading these takes 100 ms (2026-11-21), so only services with GitHub load them.
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
    apiUrl,
    asApp: new Octokit({ ...settings, authStrategy: createAppAuth, auth: { appId, privateKey } }),
    asInstallation: new Octokit(settings)
  }

  return {
    accounts: accounts(connection),
    repositoriesOf: (login: string) => repositoriesOf(connection, login),
    /** Such as `github.com`. */
    host,
    remoteUrl: ({ name, owner }: Access) => `${gitUrl}/${owner}/${name}.git`,
    /** The App as registered at GitHub. Fails if its id, its key or the address is wrong. */
    app: Effect.flatMap(ofApp(connection, "GET /app", {}), (answer) => decode(host, App, answer)),
    mint: (repo: RepoName, needed: Permissions, wanted?: Permissions) => mint(connection, repo, needed, wanted),
    decode: <A, I>(schema: Schema.Codec<A, I>, answer: Answer) => decode(host, schema, answer),
    /** A mutation of the GraphQL API, for the few changes that REST lacks. GitHub answers refusals with status 200. */
    mutate: <A, I>(access: Access, query: string, variables: Readonly<Record<string, string>>, schema: Schema.Codec<A, I>) =>
      send(connection, access, `POST ${graphqlUrlOf(apiUrl)}`, { query, variables }, {}).pipe(
        onStatus(401, ({ detail }) => Effect.fail(new TokenRefused({ detail }))),
        Effect.flatMap((answer) => decode(host, Mutated, answer)),
        Effect.flatMap(({ data, errors = [] }) =>
          errors.length === 0
            ? decode(host, schema, { status: 200, headers: {}, data })
            : Effect.fail(failureOf(200, {}, scrub(errors.map(({ message }) => message).join(": "), Redacted.value(access.token))))
        )
      ),
    /** A request below the repository. `parameters` fill the path; the rest goes into the query or the body. */
    request: (
      access: Access,
      method: "GET" | "PATCH" | "POST",
      path: string,
      parameters: Readonly<Record<string, unknown>> = {},
      headers: Readonly<Record<string, string>> = {}
    ) => {
      const route = `${method} /repos/{owner}/{repo}${path}` as const
      return send(connection, access, route, { owner: access.owner, repo: access.name, ...parameters }, headers).pipe(
        onStatus(401, ({ detail }) => Effect.fail(new TokenRefused({ detail })))
      )
    },
    /** The address of a file below the repository; `null`: GitHub names none. It needs no token. */
    place: (access: Access, path: string, parameters: Readonly<Record<string, unknown>>) => {
      const filled = { owner: access.owner, repo: access.name, ...parameters }
      return send(connection, access, `GET /repos/{owner}/{repo}${path}`, filled, {}, true).pipe(
        onStatus(401, ({ detail }) => Effect.fail(new TokenRefused({ detail }))),
        Effect.map(({ headers }) => {
          const url = URL.parse(headers["location"] ?? "")
          return url === null || isOpenLine(url) ? null : url
        })
      )
    }
  }
})

export type GitHubApi = Effect.Success<ReturnType<typeof make>>
