/**
 * Which of several source hosts has a repository. An alias of the operator wins; else it is the first host of the list that owns the
 * name. Hosts speak paths, such as `group/subgroup/project`; the service speaks names, `owner/name`.
 */
import * as Effect from "effect/Effect"
import type { StoreUnavailable } from "../../store/StoreUnavailable.ts"
import type { PullRequestFeedback } from "../ports/PullRequestFeedback.ts"
import type { PullRequestsShape } from "../ports/PullRequests.ts"
import { RepositoryAliases } from "../ports/RepositoryAliases.ts"
import type { RepositoryNews } from "../ports/RepositoryNews.ts"
import { RepoNotAccessible, type SourceHost, SourceHostError } from "../ports/SourceHost.ts"
import type { SourceHostEvents } from "../ports/SourceHostEvents.ts"
import type { RepoName } from "../schema/RepoRef.ts"
import type { HostName, HostPath } from "../schema/RepositoryAlias.ts"

/** One host of the list. Its services take a path as `repo`, and answer with paths as the host spells them. */
export interface RoutedHost {
  /** Unique in the list, in any case of letters. */
  readonly name: HostName
  /** Those of the names, in lower case, that belong to this host if no earlier host of the list owns them. It may lack the repository. */
  owns(repos: ReadonlyArray<RepoName>): Effect.Effect<ReadonlySet<string>, StoreUnavailable>
  /** The name by which the repository is found without an alias; `null`: it needs an alias. */
  nameOf(path: HostPath): RepoName | null
  readonly source: SourceHost["Service"]
  readonly feedback: PullRequestFeedback["Service"]
  /** `null`: it has pages of its own for pull requests. */
  readonly pulls: PullRequestsShape | null
  /** `null`: it sends all news by itself. */
  readonly news: RepositoryNews["Service"] | null
  /** `null`: it sends no events. */
  readonly events: SourceHostEvents["Service"] | null
}

/** A repository at its host. */
export interface Place {
  readonly host: RoutedHost
  readonly path: HostPath
}

type Trouble = RepoNotAccessible | SourceHostError

/** The places of names, and the names of places. */
export interface HostRoutes {
  readonly hosts: ReadonlyArray<RoutedHost>
  /** Where the repository is. Asks no host. */
  place(repo: RepoName): Effect.Effect<Place, RepoNotAccessible | StoreUnavailable>
  /** The service's name for the repository; `null`: it has none here. */
  nameAt(host: RoutedHost, path: HostPath): Effect.Effect<RepoName | null, StoreUnavailable>
  /** Those of the names that belong to the host, without aliases. */
  owned(host: RoutedHost, repos: ReadonlyArray<RepoName>): Effect.Effect<ReadonlyArray<RepoName>, StoreUnavailable>
  /** Runs `use` at the repository's place. Errors name the repository as the caller did. */
  at<A>(operation: string, repo: RepoName, use: (place: Place) => Effect.Effect<A, Trouble | StoreUnavailable>): Effect.Effect<A, Trouble>
}

/** Paths and names are compared in any case of letters. */
export const isSame = (a: string, b: string): boolean => a.toLowerCase() === b.toLowerCase()

/** The last two segments of a path: a name by default. */
export const shortName = (path: HostPath): RepoName => path.split("/").slice(-2).join("/")

const unavailable = (operation: string) => () =>
  Effect.fail(new SourceHostError({ operation, detail: "The database is not available just now.", retryable: true }))

/** `hosts`: in the order in which they own names. */
export const make = Effect.fnUntraced(function*(hosts: ReadonlyArray<RoutedHost>) {
  const aliases = yield* RepositoryAliases

  const owned = Effect.fnUntraced(function*(host: RoutedHost, repos: ReadonlyArray<RepoName>) {
    let left = repos
    for (const one of hosts) {
      if (left.length === 0) break
      const owns = yield* one.owns(left)
      if (one === host) return left.filter((repo) => owns.has(repo.toLowerCase()))
      left = left.filter((repo) => !owns.has(repo.toLowerCase()))
    }
    return []
  })

  const place = Effect.fnUntraced(function*(repo: RepoName) {
    const alias = yield* aliases.find(repo)
    if (alias !== null) {
      const host = hosts.find(({ name }) => isSame(name, alias.host))
      if (host !== undefined) return { host, path: alias.path }
      const advice = `Its alias names the source host ${alias.host}, which is not in the list: see slipway hosts list.`
      return yield* new RepoNotAccessible({ repo, advice })
    }
    for (const host of hosts) if ((yield* host.owns([repo])).has(repo.toLowerCase())) return { host, path: repo }
    return yield* new RepoNotAccessible({ repo, advice: "Add it to a source host of the list: see slipway hosts list." })
  })

  const routes: HostRoutes = {
    hosts,
    owned,
    place,
    nameAt: Effect.fnUntraced(function*(host, path) {
      const alias = yield* aliases.at(host.name, path)
      if (alias !== null) return alias.name
      const name = host.nameOf(path)
      if (name === null || (yield* aliases.find(name)) !== null) return null
      return (yield* owned(host, [name])).length > 0 ? name : null
    }),
    at: (operation, repo, use) =>
      Effect.flatMap(place(repo), use).pipe(
        Effect.catchTags({
          RepoNotAccessible: ({ advice }) => Effect.fail(new RepoNotAccessible({ repo, ...(advice === undefined ? {} : { advice }) })),
          StoreUnavailable: unavailable(operation)
        })
      )
  }
  return routes
})
