/** `SourceHost` over several hosts. */
import * as Effect from "effect/Effect"
import { RepositoryAliases } from "../ports/RepositoryAliases.ts"
import { pageOfNames, RepoNotAccessible, type RepositoryQuery, SourceHost, SourceHostError } from "../ports/SourceHost.ts"
import type { RepoName } from "../schema/RepoRef.ts"
import { type HostRoutes, isSame, type Place, type RoutedHost, shortName } from "./HostRoutes.ts"

/** Pages that are read of a host for one page of names: most repositories of a host may belong to others. */
const MAX_PAGES = 20

/** The service's name for the repository of a pull request's branch; `null`: it has none, such as a fork. */
const headName = Effect.fnUntraced(function*({ nameAt }: HostRoutes, { host, path }: Place, repo: RepoName, head: string) {
  if (isSame(head, path)) return repo
  const name = yield* nameAt(host, head)
  if (name === null || !isSame(name, repo)) return name
  // A fork may end in the same two segments: the host decides which of them has the name.
  const { fullName } = yield* host.source.repository(path)
  return isSame(fullName, head) ? repo : null
})

/** A page of the repositories of one host that belong to it, and the key up to which it is complete; `null`: to the end. */
const pageOf = Effect.fnUntraced(function*(
  { owned }: HostRoutes,
  host: RoutedHost,
  query: RepositoryQuery,
  isAliased: (host: RoutedHost, path: string) => boolean
) {
  const paths = yield* host.source.repositories(query)
  const names = paths.flatMap((path) => isAliased(host, path) ? [] : host.nameOf(path) ?? [])
  const last = paths.at(-1)
  return {
    names: yield* owned(host, names),
    end: paths.length < query.limit || last === undefined ? null : shortName(last).toLowerCase()
  }
})

const repositoriesOf = (routes: HostRoutes, aliases: RepositoryAliases["Service"]) =>
  Effect.fn("SourceHost.repositories")(
    function*(query: RepositoryQuery) {
      const all = yield* aliases.list
      const isAliased = (host: RoutedHost, path: string) => all.some((one) => isSame(one.host, host.name) && isSame(one.path, path))
      const isTaken = new Set(all.map(({ name }) => name.toLowerCase()))
      const own = all.filter(({ host, name }) =>
        routes.hosts.some(({ name }) => isSame(name, host)) && query.owners.includes(name.split("/")[0]?.toLowerCase() ?? "")
      ).map(({ name }) => name)
      let after = query.after
      for (let page = 0; page < MAX_PAGES; page++) {
        const pages = yield* Effect.forEach(routes.hosts, (host) => pageOf(routes, host, { ...query, after }, isAliased), {
          concurrency: "unbounded"
        })
        // Behind the end of a page its host may have further names.
        const ends = pages.flatMap(({ end }) => end ?? []).sort()
        const [end] = ends
        const names = [...pages.flatMap(({ names }) => names).filter((name) => !isTaken.has(name.toLowerCase())), ...own]
          .filter((name) => end === undefined || name.toLowerCase() <= end)
        const found = pageOfNames(names, { ...query, after })
        if (found.length > 0 || end === undefined) return found
        after = end
      }
      return []
    },
    Effect.catchTag("StoreUnavailable", () =>
      Effect.fail(
        new SourceHostError({ operation: "list repositories", detail: "The database is not available just now.", retryable: true })
      ))
  )

const refusalOf = (routes: HostRoutes) =>
  Effect.fn("SourceHost.refusal")(
    function*(repos: ReadonlyArray<RepoName>) {
      const paths = new Map<RoutedHost, Array<readonly [repo: RepoName, path: string]>>(routes.hosts.map((host) => [host, []]))
      for (const repo of repos) {
        const { host, path } = yield* routes.place(repo)
        paths.get(host)?.push([repo, path])
      }
      // Also hosts without a repository are asked: some load their list then.
      for (const [host, there] of paths) {
        const refused = yield* host.source.refusal(there.map(([, path]) => path))
        const repo = there.find(([, path]) => refused !== null && isSame(path, refused.repo))?.[0]
        if (refused !== null) {
          return new RepoNotAccessible({ repo: repo ?? refused.repo, ...(refused.advice === undefined ? {} : { advice: refused.advice }) })
        }
      }
      return null
    },
    Effect.catchTags({
      RepoNotAccessible: (refused) => Effect.succeed(refused),
      // Unknown while the database is unavailable: storing the sandbox fails for the same reason.
      StoreUnavailable: () => Effect.succeed(null)
    })
  )

/** The host of each repository does the work. */
export const make = Effect.fnUntraced(function*(routes: HostRoutes) {
  const { at } = routes
  const aliases = yield* RepositoryAliases
  return SourceHost.of({
    names: routes.hosts.flatMap(({ source }) => source.names),
    nameOf: (repo) => at("find the repository", repo, ({ host, path }) => host.source.nameOf(path)),
    refusal: refusalOf(routes),
    repositories: repositoriesOf(routes, aliases),
    repository: (repo) =>
      at("read the repository", repo, (place) =>
        Effect.gen(function*() {
          const { defaultBranch, fullName } = yield* place.host.source.repository(place.path)
          return { fullName: (yield* routes.nameAt(place.host, fullName)) ?? repo, defaultBranch }
        })),
    repositoryAt: Effect.fn("SourceHost.repositoryAt")(
      function*(address: string) {
        for (const host of routes.hosts) {
          const path = yield* host.source.repositoryAt(address)
          if (path !== null) return yield* routes.nameAt(host, path)
        }
        return null
      },
      Effect.catchTag("StoreUnavailable", () =>
        Effect.fail(
          new SourceHostError({ operation: "find the repository", detail: "The database is not available just now.", retryable: true })
        ))
    ),
    mayWrite: (repo, author) => at("read who may write", repo, ({ host, path }) => host.source.mayWrite(path, author)),
    remote: (repo, access) => at("reach the repository", repo, ({ host, path }) => host.source.remote(path, access)),
    branch: (repo, name) => at("read the branch", repo, ({ host, path }) => host.source.branch(path, name)),
    pullRequestSource: (repo, number) =>
      at("read the pull request", repo, (place) =>
        Effect.gen(function*() {
          const found = yield* place.host.source.pullRequestSource(place.path, number)
          if (found === null || found.headRepo === null) return found
          return { ...found, headRepo: yield* headName(routes, place, repo, found.headRepo) }
        })),
    openPullRequests: (repo) => at("list pull requests", repo, ({ host, path }) => host.source.openPullRequests(path)),
    findOpenPullRequest: (repo, headRef) =>
      at("find the pull request", repo, ({ host, path }) => host.source.findOpenPullRequest(path, headRef)),
    openDraftPullRequest: (repo, draft) =>
      at("open the pull request", repo, ({ host, path }) => host.source.openDraftPullRequest(path, draft)),
    pullRequestPushed: (repo, number, push) =>
      at("update the pull request", repo, ({ host, path }) => host.source.pullRequestPushed(path, number, push)),
    decoratePullRequest: (repo, number, decoration) =>
      at("update the pull request", repo, ({ host, path }) => host.source.decoratePullRequest(path, number, decoration)),
    readyPullRequest: (repo, number) => at("end the draft", repo, ({ host, path }) => host.source.readyPullRequest(path, number)),
    pullRequestDetails: (repo, number) =>
      at("read the pull request", repo, ({ host, path }) => host.source.pullRequestDetails(path, number))
  })
})
