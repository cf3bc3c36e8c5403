/**
 * Requests to the API of Forgejo and Gitea below one repository. A renamed repository is found by its present name: a redirection within
 * the API of the same server is read for its name, and the request is sent to an address that we make ourselves.
 * Neither server sends entity tags for these operations (https://codeberg.org/forgejo/forgejo, routers/api/v1), so no read is conditional.
 */
import { RepoNotAccessible, SourceHostError } from "@slipway/domain/source/ports/SourceHost"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { LruCache } from "@slipway/domain/store/LruCache"
import * as RestApi from "@slipway/rest-host/RestApi"
import { onStatus, RestFailed } from "@slipway/rest-host/RestApi"
import { Effect, Redacted, Schema } from "effect"
import { createHash } from "node:crypto"

/** A server and its tokens. */
export interface Options {
  /** The address of its pages, with `https:`. It may have a path, such as `https://example.com/git`. */
  readonly url: string
  /**
   * The access token for a repository, by its path; for an empty path, the token whose account lists its repositories. Asked for each
   * operation, and not kept.
   */
  readonly token: (path: string) => Effect.Effect<Redacted.Redacted, SourceHostError>
}

export type Failure = RestFailed | RepoNotAccessible | SourceHostError

/** One operation on a repository. `name` changes once the server says that the repository has another name. */
export interface Place {
  readonly asked: RepoName
  name: RepoName
}

export const placeOf = (repo: RepoName): Place => ({ asked: repo, name: repo })

type Below = Omit<RestApi.Request, "path" | "token">
type Query = NonNullable<RestApi.Request["query"]>

/** Servers give at most 50 entries on a page, unless their operator chose another limit. */
export const PER_PAGE = 50
/** Pages of one list. */
export const MAXIMUM_PAGES = 40
/** Reads of a list whose length changes meanwhile. */
const MAXIMUM_READS = 3
/** Moves of one repository that are followed in one operation. */
const MAXIMUM_MOVES = 3
const MAXIMUM_ACCOUNTS = 100

const Said = Schema.Struct({
  message: Schema.optionalKey(Schema.NullOr(Schema.String)),
  errors: Schema.optionalKey(Schema.NullOr(Schema.Array(Schema.String)))
})
const isSaid = Schema.is(Said)
const isRepoName = Schema.is(RepoName)
const Repository = Schema.Struct({
  full_name: RepoName,
  default_branch: Schema.String,
  permissions: Schema.optionalKey(Schema.NullOr(Schema.Struct({ push: Schema.Boolean })))
})
const Repositories = Schema.NullOr(Schema.Array(Schema.Struct({ full_name: Schema.String })))
const Account = Schema.Struct({ id: Schema.Int, login: Schema.String })
const Version = Schema.Struct({ version: Schema.String })

/** The server's own text of an error. A proxy answers with pages, which are not shown. */
const said = (data: unknown): string =>
  isSaid(data) ? [data.message ?? "", ...data.errors ?? []].filter((text) => text !== "").join(": ") : ""

const withoutSlash = (url: string): string => url.replace(/(?<!\/)\/+$/u, "")

/** The name in the address of a redirection, if it stays within the API. */
const movedTo = (apiUrl: string, location: string | undefined): RepoName | null => {
  if (location === undefined || !URL.canParse(location, apiUrl)) return null
  const { origin, pathname } = new URL(location, apiUrl)
  const prefix = `${new URL(apiUrl).pathname}/repos/`
  if (origin !== new URL(apiUrl).origin || !pathname.startsWith(prefix)) return null
  const [owner = "", name = ""] = pathname.slice(prefix.length).split("/")
  const moved = `${owner}/${name}`
  return isRepoName(moved) ? moved : null
}

const totalOf = ({ headers }: RestApi.Answer): number | null => {
  const total = headers.get("x-total-count")
  return total !== null && /^\d{1,15}$/u.test(total) ? Number(total) : null
}

/** Whether a list ends with this page. A server may give fewer entries than asked for on any page. `found`: with the earlier pages. */
export const isLast = (answer: RestApi.Answer, entries: number, found: number): boolean => {
  const link = answer.headers.get("link")
  const total = totalOf(answer)
  return entries === 0 || link !== null && !link.includes("rel=\"next\"") || total !== null && found >= total
}

/** The connection to a server. */
interface Connection {
  readonly host: RestApi.Host
  readonly webUrl: string
  readonly token: Options["token"]
  readonly send: (request: RestApi.Request) => Effect.Effect<RestApi.Answer, RestFailed>
}

const refused = (name: string, { detail }: RestFailed) =>
  new RestFailed({
    status: 401,
    detail:
      `${name} does not accept the token. Check that it was not deleted and has not expired, and that its account can sign in. ${detail}`,
    retryable: false
  })

const connect = Effect.fnUntraced(function*({ token, url }: Options) {
  const unusable = (detail: string) => new SourceHostError({ operation: "use the source host", detail, retryable: false })
  if (!/^https?:/u.test(url) || !URL.canParse(url)) return yield* unusable("Its address must start with https:.")
  const { host: name, hostname, password, search, username } = new URL(url)
  if (username !== "" || password !== "" || search !== "") {
    return yield* unusable(`The address of ${hostname} must have neither a login nor a query.`)
  }
  if (RestApi.isOpenLine(new URL(url))) {
    return yield* unusable(`The address of ${hostname} must start with https:, since tokens are sent there.`)
  }
  const webUrl = withoutSlash(url)
  const host: RestApi.Host = { name, apiUrl: `${webUrl}/api/v1`, said, secrets: /\b(?:gto_\w+|eyJ[\w-]+\.[\w-]+\.[\w-]+)/gu }
  const connection: Connection = {
    host,
    webUrl,
    token,
    send: (request) => RestApi.send(host, request).pipe(onStatus(401, (failure) => Effect.fail(refused(name, failure))))
  }
  return connection
})

/** Sends one request below the repository, and again under its present name if it was renamed. */
const requestBelow = (
  connection: Connection,
  place: Place,
  below: string,
  request: Below,
  moves = 0
): Effect.Effect<RestApi.Answer, Failure> =>
  Effect.gen(function*() {
    const [owner = "", repository = ""] = place.name.split("/")
    const token = yield* connection.token(place.name)
    const path = `/repos/${encodeURIComponent(owner)}/${encodeURIComponent(repository)}${below}`
    return yield* connection.send({ ...request, path, token })
  }).pipe(
    Effect.catchIf(
      (failure) => failure._tag === "RestFailed" && failure.location !== undefined && moves < MAXIMUM_MOVES,
      (failure) => {
        const moved = failure._tag === "RestFailed" ? movedTo(connection.host.apiUrl, failure.location) : null
        if (moved === null || moved.toLowerCase() === place.name.toLowerCase()) return Effect.fail(failure)
        place.name = moved
        return Effect.suspend(() => requestBelow(connection, place, below, request, moves + 1))
      }
    )
  )

type Page<A> = readonly [RestApi.Answer, ReadonlyArray<A>]

/** All pages of a list. A list with more than {@link MAXIMUM_PAGES} fails, because the rest could have what is looked for. */
const readPages = Effect.fnUntraced(function*<A>(
  { host }: Connection,
  page: (query: Query) => Effect.Effect<Page<A>, Failure>,
  isEnough: (found: ReadonlyArray<A>, page: number) => boolean = () => false
) {
  const found: Array<A> = []
  const totals = new Set<number | null>()
  for (let number = 1; number <= MAXIMUM_PAGES; number++) {
    const [answer, entries] = yield* page({ limit: PER_PAGE, page: number })
    found.push(...entries)
    const total = totalOf(answer)
    // After the last page, servers may give none.
    if (entries.length > 0 || total !== null) totals.add(total)
    if (isEnough(found, number) || isLast(answer, entries.length, found.length)) return { found, isStable: totals.size <= 1 }
  }
  return yield* new RestFailed({ status: 200, detail: `A list of ${host.name} is too long to be read.`, retryable: false })
})

/** An entry that leaves the list moves another one to a page that was read already: then it is read again. */
const readStable = Effect.fnUntraced(function*<A>(connection: Connection, page: (query: Query) => Effect.Effect<Page<A>, Failure>) {
  for (let reads = 0; reads < MAXIMUM_READS; reads++) {
    const { found, isStable } = yield* readPages(connection, page)
    if (isStable) return found
  }
  return yield* new RestFailed({ status: 200, detail: `A list of ${connection.host.name} changed while it was read.`, retryable: true })
})

/** Requests of the account alone. `path`: the repository whose token is used; empty: the token for lists. */
const accountOf = (connection: Connection) => {
  /** Ids of accounts, by a hash of their tokens. */
  const ids = new LruCache<string, number>(MAXIMUM_ACCOUNTS, () => 1)
  const get = <A, I>(path: string, schema: Schema.Codec<A, I>, query: Query = {}, repository = "") =>
    Effect.gen(function*() {
      const token = yield* connection.token(repository)
      const answer = yield* connection.send({ method: "GET", path, query, token })
      return [answer, yield* RestApi.decode(connection.host, schema, answer)] as const
    })
  const list = <A, I>(path: string, schema: Schema.Codec<ReadonlyArray<A> | null, I>, repository = "") =>
    readPages(
      connection,
      (query) => Effect.map(get(path, schema, query, repository), ([answer, entries]): Page<A> => [answer, entries ?? []])
    )
  return {
    /** The list of the repository's owner, if that is an organization. */
    ofOwner: <A, I>({ name }: Place, below: string, schema: Schema.Codec<ReadonlyArray<A> | null, I>) =>
      list(`/orgs/${encodeURIComponent(name.split("/")[0] ?? "")}${below}`, schema, name).pipe(
        Effect.map(({ found }) => found),
        onStatus(404, () => Effect.succeed([]))
      ),
    /** The names of the account's repositories: its own, those of its organizations, and those where it is a collaborator. */
    repositories: Effect.map(
      list("/user/repos", Repositories),
      ({ found }) => found.map(({ full_name }) => full_name).filter(isRepoName)
    ),
    version: Effect.map(get("/version", Version), ([, { version }]) => version),
    /** The account of the token for lists. */
    account: Effect.map(get("/user", Account), ([, account]) => account),
    /** The id of the account of the token for this repository. */
    ownId: Effect.fnUntraced(function*({ name }: Place) {
      const key = createHash("sha256").update(Redacted.value(yield* connection.token(name))).digest("hex")
      const known = ids.get(key)
      if (known !== undefined) return known
      const [, { id }] = yield* get("/user", Account, {}, name)
      ids.set(key, id)
      return id
    })
  }
}

/** Fails if the address cannot be used. Sends no request. */
export const make = Effect.fnUntraced(function*(options: Options) {
  const connection = yield* connect(options)
  const { host, send, token, webUrl } = connection
  const decode = <A, I>(schema: Schema.Codec<A, I>, answer: RestApi.Answer) => RestApi.decode(host, schema, answer)
  const request = (place: Place, below: string, sent: Below) => requestBelow(connection, place, below, sent)
  const get = <A, I>(place: Place, below: string, schema: Schema.Codec<A, I>, query: Query = {}) =>
    Effect.flatMap(request(place, below, { method: "GET", query }), (answer) => decode(schema, answer))
  const repository = (place: Place) =>
    get(place, "", Repository).pipe(onStatus(404, () => Effect.fail(new RepoNotAccessible({ repo: place.asked }))))
  /** Reads a page of a list that is at `entriesOf` of the answer. */
  const pageOf = <A, I, B>(
    place: Place,
    below: string,
    schema: Schema.Codec<A, I>,
    query: Query,
    entriesOf: (page: A) => ReadonlyArray<B> | null
  ) =>
  (more: Query) =>
    Effect.flatMap(
      request(place, below, { method: "GET", query: { ...query, ...more } }),
      (answer) => Effect.map(decode(schema, answer), (page): Page<B> => [answer, entriesOf(page) ?? []])
    )

  return {
    ...accountOf(connection),
    /** Such as `codeberg.org`. */
    name: host.name,
    webUrl,
    token,
    send,
    request,
    get,
    decode,
    repository,
    /** Decides a 404 below a repository: `then`, unless the repository itself is not accessible. */
    absent: <A, E>(place: Place, then: Effect.Effect<A, E>) => Effect.andThen(repository(place), then),
    all: <A, I>(place: Place, below: string, schema: Schema.Codec<ReadonlyArray<A> | null, I>, query: Query = {}) =>
      readStable(connection, pageOf(place, below, schema, query, (entries) => entries)),
    /** All entries of a list that is at `entriesOf` of each page. */
    allOf: <A, I, B>(place: Place, below: string, schema: Schema.Codec<A, I>, entriesOf: (page: A) => ReadonlyArray<B> | null) =>
      readStable(connection, pageOf(place, below, schema, {}, entriesOf)),
    /** The first entries of a list, until there are enough. */
    some: <A, I>(
      place: Place,
      below: string,
      schema: Schema.Codec<ReadonlyArray<A> | null, I>,
      query: Query,
      isEnough: (found: ReadonlyArray<A>, page: number) => boolean
    ) => Effect.map(readPages(connection, pageOf(place, below, schema, query, (entries) => entries), isEnough), ({ found }) => found),
    /** All entries of a list whose pages say how many there are in all. */
    counted: <A extends { readonly total_count?: number }, I, B>(
      place: Place,
      below: string,
      schema: Schema.Codec<A, I>,
      query: Query,
      entriesOf: (page: A) => ReadonlyArray<B> | null
    ) => {
      let total = Infinity
      const page = pageOf(place, below, schema, query, (page) => {
        total = page.total_count ?? total
        return entriesOf(page)
      })
      return Effect.map(readPages(connection, page, (found) => found.length >= total), ({ found }) => found)
    }
  }
})

export type ForgejoApi = Effect.Success<ReturnType<typeof make>>

/** A repository that does not exist, so that these requests change nothing: a server refuses missing scopes first. */
const NO_REPOSITORY = "slipway-scope-check"

const scopeProblems = Effect.fnUntraced(function*(api: ForgejoApi, token: Redacted.Redacted, login: string) {
  const owner = encodeURIComponent(login)
  const probes: ReadonlyArray<readonly [string, string, RestApi.Request]> = [
    ["write:repository", "push and open pull requests", {
      method: "POST",
      path: `/repos/${owner}/${NO_REPOSITORY}/pulls`,
      body: {},
      token
    }],
    ["write:issue", "read comments, and write labels and replies", {
      method: "POST",
      path: `/repos/${owner}/${NO_REPOSITORY}/issues/1/labels`,
      body: { labels: [] },
      token
    }],
    ["read:organization", "find the labels of organizations", { method: "GET", path: `/orgs/${owner}/labels`, token }]
  ]
  return yield* Effect.filter(probes, ([, , request]) =>
    Effect.as(api.send(request), false).pipe(
      onStatus(403, ({ detail }) => Effect.succeed(detail.includes("scope"))),
      onStatus(404, () => Effect.succeed(false)),
      onStatus(422, () => Effect.succeed(false))
    ))
})

/** The token's account, the server's version, and advice about what the token lacks. A refused token fails with status 401. */
export const account = Effect.fn("ForgejoApi.account")(function*(options: Options) {
  const api = yield* make(options)
  const version = yield* api.version
  const own = yield* api.account
  const missing = yield* scopeProblems(api, yield* options.token(""), own.login)
  return {
    version,
    account: { id: String(own.id), login: own.login },
    problems: missing.map(([scope, purpose]) => `The token lacks the scope ${scope}, which is needed to ${purpose}. Make a token with it.`)
  }
}, Effect.catchTag("SourceHostError", ({ detail, retryable }) => Effect.fail(new RestFailed({ status: null, detail, retryable }))))
