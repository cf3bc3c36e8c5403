import { type Plants, plantsIn } from "./Plant.ts"

const ROUTING = "packages/domain/src/source/routing"

/** Several source hosts as one. */
export const plants: Plants = {
  port: "SourceHostRouted",
  subject: ["packages/testing/test/source/RoutedHosts.test.ts"],
  plants: [
    ...plantsIn(`${ROUTING}/HostRoutes.ts`, [
      ["looks for owners before aliases", "if (alias !== null) {\n      const host",
        "if (alias !== null && alias.host === \"\") {\n      const host"],
      ["compares the host of an alias by case", "hosts.find(({ name }) => isSame(name, alias.host))",
        "hosts.find(({ name }) => name === alias.host)"],
      ["lets a later host own the names of an earlier one", "left = left.filter((repo) => !owns.has(repo.toLowerCase()))", ""],
      ["names a repository whose name an alias took", "name === null || (yield* aliases.find(name)) !== null", "name === null"],
      ["names a repository of another host", "(yield* owned(host, [name])).length > 0 ? name : null", "name"],
      ["names errors by path", "Effect.fail(new RepoNotAccessible({ repo, ...(advice === undefined ? {} : { advice }) }))",
        "Effect.fail(new RepoNotAccessible({ repo: \"x/y\" }))"]
    ]),
    ...plantsIn(`${ROUTING}/RoutedSourceHost.ts`, [
      ["takes a fork that ends alike for the repository", "return isSame(fullName, head) ? repo : null", "return repo"],
      ["takes every branch for one of a fork", "if (isSame(head, path)) return repo", "if (isSame(head, path)) return null"],
      ["lists repositories that have an alias twice", "isAliased(host, path) ? [] : host.nameOf(path) ?? []", "host.nameOf(path) ?? []"],
      ["lists aliases of hosts that are not there", "routes.hosts.some(({ name }) => isSame(name, host)) && ", ""],
      ["lists aliases of all owners", " && query.owners.includes(name.split(\"/\")[0]?.toLowerCase() ?? \"\")", ""],
      ["lists past the end of a page", ".filter((name) => end === undefined || name.toLowerCase() <= end)", ""],
      ["ends a list where a host's page has no name of its own", "if (found.length > 0 || end === undefined) return found", "return found"],
      ["lists names that an alias took", "!isTaken.has(name.toLowerCase())", "true"],
      ["lists repositories of other hosts", "names: yield* owned(host, names)", "names"],
      ["refuses while the database is silent", "StoreUnavailable: () => Effect.succeed(null)",
        "StoreUnavailable: () => Effect.succeed(new RepoNotAccessible({ repo: \"x/y\" }))"]
    ]),
    ...plantsIn(`${ROUTING}/RoutedNews.ts`, [
      ["takes news of repositories of other hosts", "if (repo === null) return []", "if (repo === null) return [news]"],
      ["takes renames from names of other hosts", "return from === null ? [] : [{ ...news, repo, from }]",
        "return [{ ...news, repo, from: from ?? news.from }]"],
      ["takes what no host has signed", "return isAuthentic ? all : yield* new NotAuthentic()", "return all"],
      ["ends at the first host that did not sign", "if (read === null) continue", "if (read === null) break"],
      ["gives polled news the path", "news: polled.news.map((one) => ({ ...one, repo }))", "news: polled.news"],
      ["tells the present name by path", "(yield* routes.nameAt(host, polled.presentName)) ?? repo", "polled.presentName"]
    ]),
    ...plantsIn(`${ROUTING}/RoutedPullRequests.ts`, [
      ["has pages for all hosts", "if (hosts.every(({ pulls }) => pulls === null)) return null", ""],
      ["closes by name in place of the path", "close: (repo, number) => at(repo, (pulls, path) => pulls.close(path, number))",
        "close: (repo, number) => at(repo, (pulls) => pulls.close(`x${repo}`, number))"]
    ])
  ]
}
