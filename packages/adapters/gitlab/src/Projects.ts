/** Finds projects by their paths, and lists those of tokens. */
import { RepoNotAccessible, type SourceHostError } from "@slipway/domain/source/ports/SourceHost"
import type { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { LruCache } from "@slipway/domain/store/LruCache"
import { Counter } from "@slipway/domain/text/Text"
import { onStatus, type RestFailed } from "@slipway/rest-host/RestApi"
import { Clock, Duration, Effect, type Redacted, Schema } from "effect"
import type { GitLabApi, Options } from "./GitLabApi.ts"

/** A failure of an operation on a project. */
export type Failure = RepoNotAccessible | RestFailed | SourceHostError

/** A project and the token for it. */
export interface Access {
  readonly token: Redacted.Redacted
  /** GitLab's number of the project, which stays when it is renamed. */
  readonly id: number
  /** The full path, as GitLab spells it. */
  readonly path: string
}

const Project = Schema.Struct({
  id: Counter,
  path_with_namespace: Schema.String,
  default_branch: Schema.optionalKey(Schema.NullOr(Schema.String))
})
type Project = typeof Project.Type
const Listed = Schema.Array(Schema.Struct({ id: Counter, path_with_namespace: Schema.String }))

/** The id of a project stays, its path may change meanwhile. */
const GOOD_FOR = Duration.minutes(5)
const MAX_KNOWN = 10_000
const PER_PAGE = 100
/** Pages of a list that are read: 10,000 projects of a token. */
const MAX_PAGES = 100
/** Pages of projects in a group with a searched name in theirs. */
const MAX_FOUND_PAGES = 10

const IN_GROUP = { include_subgroups: true, with_shared: false, simple: true, per_page: PER_PAGE }
const OF_MEMBER = { membership: true, archived: false, simple: true, order_by: "id", sort: "asc", per_page: PER_PAGE }

/** The last two parts of a path, in lower case. */
const shortName = (path: string): string => path.toLowerCase().split("/").slice(-2).join("/")

const isBelow = (path: string, group: string): boolean => path.toLowerCase().startsWith(`${group.toLowerCase()}/`)

const advice = "Add the account of the token to the project, with the role Developer."

/** A former path of a project: GitLab redirects to its number. */
const movedTo = ({ location }: RestFailed): string | undefined => /\/api\/v4\/projects\/(\d{1,15})(?:[/?]|$)/u.exec(location ?? "")?.[1]

export type Projects = ReturnType<typeof make>

export const make = (api: GitLabApi, { groups = [], token: tokenOf }: Options) => {
  const known = new LruCache<string, { readonly id: number; readonly path: string; readonly untilMillis: number }>(MAX_KNOWN)

  const read = (path: string, token: Redacted.Redacted) =>
    api.ask(Project, { method: "GET", path: `/projects/${encodeURIComponent(path)}`, token })

  /** The project that has or had exactly this path; `null`: GitLab has no such project, or hides it from the token. */
  const exact = (path: string, token: Redacted.Redacted): Effect.Effect<Project | null, RestFailed> =>
    read(path, token).pipe(
      Effect.catchIf((failure) => movedTo(failure) !== undefined, (failure) => read(movedTo(failure) ?? "", token)),
      onStatus(404, () => Effect.succeed(null))
    )

  /** The projects of a group whose paths end in these two parts. */
  const inGroup = Effect.fnUntraced(function*(group: string, repo: string) {
    const token = yield* tokenOf(group)
    const found: Array<string> = []
    for (let page = 1; page <= MAX_FOUND_PAGES; page++) {
      const query = { ...IN_GROUP, search: repo.split("/")[1] ?? "", page }
      const listed = yield* api.ask(Listed, { method: "GET", path: `/groups/${encodeURIComponent(group)}/projects`, token, query })
      for (const { path_with_namespace: path } of listed) {
        if (shortName(path) === repo.toLowerCase() && isBelow(path, group)) found.push(path)
      }
      if (listed.length < PER_PAGE) break
    }
    return found
  })

  const inGroups = Effect.fnUntraced(function*(repo: RepoName) {
    if (repo.split("/").length !== 2) return null
    const paths = [...new Set((yield* Effect.forEach(groups, (group) => inGroup(group, repo))).flat())]
    const [path, ...others] = paths
    if (path === undefined) return null
    if (others.length > 0) {
      return yield* new RepoNotAccessible({
        repo,
        advice: `Several projects end in ${repo}: ${paths.slice(0, 5).join(", ")}. Name one with: slipway repos alias NAME HOST PATH`
      })
    }
    const token = yield* tokenOf(path)
    const project = yield* exact(path, token)
    return project === null ? null : { project, token }
  })

  const resolve = Effect.fnUntraced(function*(repo: RepoName) {
    const own = yield* Effect.result(tokenOf(repo))
    const token = own._tag === "Success" ? own.success : null
    const direct = token === null ? null : yield* exact(repo, token)
    const found = direct === null || token === null ? yield* inGroups(repo) : { project: direct, token }
    // A short name has a token only if its own path has one.
    if (found === null && own._tag === "Failure") return yield* own.failure
    if (found === null) {
      known.delete(repo.toLowerCase())
      return yield* new RepoNotAccessible({ repo, advice })
    }
    const { default_branch: defaultBranch = null, id, path_with_namespace: path } = found.project
    const untilMillis = (yield* Clock.currentTimeMillis) + Duration.toMillis(GOOD_FOR)
    known.set(repo.toLowerCase(), { id, path, untilMillis })
    return { token: found.token, id, path, defaultBranch }
  })

  const fresh = Effect.fnUntraced(function*(repo: RepoName) {
    const entry = known.get(repo.toLowerCase())
    return entry === undefined || entry.untilMillis <= (yield* Clock.currentTimeMillis) ? null : entry
  })

  return {
    /** Asks GitLab for the project. */
    resolve,
    /** Whether the project was found in the last minutes. */
    isKnown: (repo: RepoName) => Effect.map(fresh(repo), (entry) => entry !== null),
    /** Runs `use` on the project. A 404 of a remembered project is asked again, since it may have been deleted and made anew. */
    with: Effect.fnUntraced(function*<A>(repo: RepoName, use: (access: Access) => Effect.Effect<A, Failure>) {
      const afresh = Effect.flatMap(resolve(repo), use)
      const entry = yield* fresh(repo)
      if (entry === null) return yield* afresh
      const token = yield* tokenOf(entry.path)
      return yield* use({ token, id: entry.id, path: entry.path }).pipe(onStatus(404, () => afresh))
    }),
    /** The paths of all projects that the token of this path is a member of. */
    list: Effect.fnUntraced(function*(path: string) {
      const token = yield* tokenOf(path)
      const found: Array<string> = []
      let after = 0
      for (let page = 0; page < MAX_PAGES; page++) {
        const listed = yield* api.ask(Listed, { method: "GET", path: "/projects", token, query: { ...OF_MEMBER, id_after: after } })
        found.push(...listed.map(({ path_with_namespace }) => path_with_namespace))
        after = listed.at(-1)?.id ?? after
        if (listed.length < PER_PAGE) break
      }
      // A stranger may make the account a member of any project.
      return groups.length === 0 ? found : found.filter((name) => groups.some((group) => isBelow(name, group)))
    })
  }
}

/**
 * The page of these paths. Short names order them, and are what is searched. Paths that end in the same two parts are left out, because
 * the short name alone says neither.
 */
export const pageOfPaths = (
  paths: ReadonlyArray<string>,
  { after, limit, owners, search }: {
    readonly after: string | null
    readonly limit: number
    readonly owners: ReadonlyArray<string>
    readonly search: string
  }
): ReadonlyArray<string> => {
  const byShort = Map.groupBy(new Set(paths), shortName)
  const [from, part] = [after === null ? "" : shortName(after), search.toLowerCase()]
  return [...byShort]
    .filter(([short, all]) => all.length === 1 && short > from && short.includes(part) && owners.includes(short.split("/")[0] ?? ""))
    .sort(([a], [b]) => a < b ? -1 : 1)
    .slice(0, limit)
    .flatMap(([, all]) => all)
}
