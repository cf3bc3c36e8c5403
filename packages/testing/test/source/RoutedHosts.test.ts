/** Several source hosts as one. */
import { assert, it } from "@effect/vitest"
import * as IdsMemory from "@slipway/domain/memory/ids/IdsMemory"
import * as RepositoryAliasesMemory from "@slipway/domain/memory/source/RepositoryAliasesMemory"
import { PullRequestFeedback } from "@slipway/domain/source/ports/PullRequestFeedback"
import { PullRequests } from "@slipway/domain/source/ports/PullRequests"
import { RepositoryAliases } from "@slipway/domain/source/ports/RepositoryAliases"
import { RepositoryNews } from "@slipway/domain/source/ports/RepositoryNews"
import { pageOfNames, RepoNotAccessible, SourceHost, SourceHostError } from "@slipway/domain/source/ports/SourceHost"
import { type News, NotAuthentic, SourceHostEvents } from "@slipway/domain/source/ports/SourceHostEvents"
import * as HostRoutes from "@slipway/domain/source/routing/HostRoutes"
import * as RoutedHosts from "@slipway/domain/source/routing/RoutedHosts"
import type { PullRequest } from "@slipway/domain/source/schema/PullRequest"
import { StoreUnavailable } from "@slipway/domain/store/StoreUnavailable"
import { suite } from "@slipway/testing/contracts/source/SourceHostContract"
import { register } from "@slipway/testing/runners/Vitest"
import { DateTime, Effect, Layer, Option } from "effect"
import { fixture, layer as memory } from "./Repositories.ts"

const at = DateTime.makeUnsafe("2026-11-30T20:10:00.123Z")
const none = (repo: string) => Effect.fail(new RepoNotAccessible({ repo }))

const pull = (number: number): PullRequest => ({
  id: number,
  nodeId: "n",
  number,
  url: "https://git.test/p",
  title: "T",
  state: "open",
  draft: true,
  merged: false,
  baseRef: "main",
  headRef: "feature/x",
  headSha: "0".repeat(40),
  createdAt: at,
  updatedAt: at,
  additions: 0,
  deletions: 0,
  changedFiles: 0
})

const pathOf = (paths: ReadonlyArray<string>, repo: string) =>
  paths.find((path) => HostRoutes.isSame(path, repo)) ?? paths.find((path) => HostRoutes.isSame(HostRoutes.shortName(path), repo))

interface Options {
  readonly name: string
  readonly paths: ReadonlyArray<string>
  readonly owns?: (repo: string) => boolean
  /** The repository of the branch of every pull request. */
  readonly head?: string
  /** The news of a body that is the host's name. */
  readonly sends?: ReadonlyArray<News>
  readonly nameOf?: (path: string) => string | null
}

/** A host of paths. It answers with paths as it spells them. */
const hostOf = ({ head = "", name, nameOf = HostRoutes.shortName, owns = () => true, paths, sends = [] }: Options) => {
  const asked: Array<string> = []
  const find = (repo: string) => {
    asked.push(repo)
    const path = pathOf(paths, repo)
    return path === undefined ? none(repo) : Effect.succeed(path)
  }
  const host: HostRoutes.RoutedHost = {
    name,
    owns: (repos) => Effect.succeed(new Set(repos.map((repo) => repo.toLowerCase()).filter(owns))),
    nameOf,
    source: SourceHost.of({
      names: [name],
      nameOf: () => Effect.succeed(name),
      refusal: (repos) =>
        Effect.sync(() => {
          const repo = repos.find((repo) => pathOf(paths, repo) === undefined)
          return repo === undefined ? null : new RepoNotAccessible({ repo, advice: `Add it to ${name}.` })
        }),
      repositories: (query) => {
        const names = pageOfNames(paths.map(HostRoutes.shortName), query)
        return Effect.succeed(names.map((one) => pathOf(paths, one) ?? one))
      },
      repository: (repo) => Effect.map(find(repo), (fullName) => ({ fullName, defaultBranch: "main" })),
      repositoryAt: (address) => Effect.succeed(paths.find((path) => address === `https://${name}/${path}`) ?? null),
      mayWrite: (repo, { login }) => Effect.map(find(repo), () => login === "ada"),
      remote: (repo) => Effect.map(find(repo), (path) => ({ url: `https://${name}/${path}.git`, authorization: null })),
      branch: (repo) => Effect.as(find(repo), null),
      pullRequestSource: (repo, number) =>
        Effect.map(find(repo), () => ({ pullRequest: pull(number), headRepo: head === "" ? null : head })),
      openPullRequests: (repo) => Effect.as(find(repo), []),
      findOpenPullRequest: (repo) => Effect.as(find(repo), null),
      openDraftPullRequest: (repo) => Effect.as(find(repo), pull(1)),
      pullRequestPushed: (repo, number) => Effect.as(find(repo), pull(number)),
      decoratePullRequest: (repo, _, { labels }) => Effect.as(find(repo), labels),
      readyPullRequest: (repo, number) => Effect.as(find(repo), { ...pull(number), draft: false }),
      pullRequestDetails: (_, number) => Effect.fail(new SourceHostError({ operation: "x", detail: `${name} ${number}`, retryable: true }))
    }),
    feedback: PullRequestFeedback.of({
      read: (repo) => Effect.map(find(repo), (url) => ({ isOpen: true, url, headRef: "x", items: [], checks: null })),
      reply: (repo) => find(repo)
    }),
    pulls: name !== "local" ? null : {
      diff: (repo) => Effect.succeed(Buffer.from(`diff of ${repo}`)),
      content: () => Effect.die("not asked"),
      merge: () => Effect.die("not asked"),
      review: () => Effect.die("not asked"),
      close: (repo, number) => Effect.succeed({ pullRequest: { ...pull(number), title: repo }, changed: true })
    },
    news: name === "local" ? null : RepositoryNews.of({
      poll: (repo) =>
        Effect.map(find(repo), (path) => ({
          news: [{ _tag: "Pull" as const, repo: path, branch: "x", number: 1 }],
          cursor: name,
          pollAfterMillis: 1,
          isUnchanged: false,
          presentName: path
        }))
    }),
    events: name === "local" ? null : SourceHostEvents.of({
      read: ({ body }) => body === name ? Effect.succeed(sends) : Effect.fail(new NotAuthentic())
    })
  }
  return { host, asked }
}

/** Runs on several hosts and no alias. */
const on = (hosts: ReadonlyArray<HostRoutes.RoutedHost>) =>
  Effect.provide(
    RoutedHosts.layer(Effect.succeed(hosts)).pipe(Layer.provideMerge(RepositoryAliasesMemory.layer), Layer.provideMerge(IdsMemory.layer))
  )

const alias = (name: string, host: string, path: string) => RepositoryAliases.use((aliases) => aliases.set({ name, host, path }, at))

const owners = (...names: ReadonlyArray<string>) => (repo: string) => names.some((name) => repo.startsWith(`${name}/`))
const query = { owners: ["acme", "platform", "payments", "web"], search: "", after: null, limit: 10 }

// A host that owns other names stands before the memory.
register(suite(
  "several",
  RoutedHosts.layer(Effect.gen(function*() {
    const source = yield* SourceHost
    const feedback = yield* PullRequestFeedback
    const { host } = hostOf({ name: "other.test", paths: ["others/x"], owns: owners("others") })
    const rest = {
      name: "memory",
      owns: hostOf({ name: "", paths: [] }).host.owns,
      nameOf: HostRoutes.shortName,
      pulls: null,
      news: null,
      events: null
    }
    return [host, { ...rest, source, feedback }]
  })).pipe(Layer.provide(RepositoryAliasesMemory.layer), Layer.provideMerge(memory)),
  fixture
))

it.effect("a repository belongs to the first host that owns its name, whether or not the host has it", () => {
  const one = hostOf({ name: "one.test", paths: ["acme/shop"], owns: owners("acme") })
  const two = hostOf({ name: "two.test", paths: ["acme/shop", "acme/docs", "beta/docs"] })
  return Effect.gen(function*() {
    const source = yield* SourceHost
    assert.deepStrictEqual(source.names, ["one.test", "two.test"])
    assert.strictEqual(yield* source.nameOf("ACME/Shop"), "one.test")
    assert.strictEqual((yield* source.remote("acme/shop", "read")).url, "https://one.test/acme/shop.git")
    assert.strictEqual((yield* source.remote("beta/docs", "read")).url, "https://two.test/beta/docs.git")
    // The second host has it, but may not stand in for the first.
    assert.strictEqual((yield* Effect.flip(source.remote("acme/docs", "read")))._tag, "RepoNotAccessible")
    assert.deepStrictEqual(two.asked, ["beta/docs"])
  }).pipe(on([one.host, two.host]))
})

it.effect("a repository that no host owns is not accessible, and the error says where hosts are listed", () =>
  Effect.gen(function*() {
    const source = yield* SourceHost
    const refused = yield* Effect.flip(source.repository("beta/x"))
    assert.strictEqual(refused.message, "repository beta/x is not accessible. Add it to a source host of the list: see slipway hosts list.")
    assert.deepStrictEqual(yield* source.refusal(["acme/shop", "beta/x"]), refused)
  }).pipe(on([hostOf({ name: "one.test", paths: ["acme/shop"], owns: owners("acme") }).host])))

it.effect("an alias names a repository of any host by its path, before all owners of the name", () => {
  const one = hostOf({ name: "one.test", paths: ["acme/shop"] })
  const two = hostOf({ name: "two.test", paths: ["Acme/web/shop"] })
  return Effect.gen(function*() {
    const source = yield* SourceHost
    yield* alias("acme/shop", "TWO.test", "acme/WEB/shop")
    assert.strictEqual((yield* source.remote("ACME/shop", "write")).url, "https://two.test/Acme/web/shop.git")
    assert.deepStrictEqual(yield* source.repository("Acme/Shop"), { fullName: "acme/shop", defaultBranch: "main" })
    assert.deepStrictEqual(one.asked, [])
    // The first host's own acme/shop has no name any more.
    assert.isNull(yield* source.repositoryAt("https://one.test/acme/shop"))
    assert.strictEqual(yield* source.repositoryAt("https://two.test/Acme/web/shop"), "acme/shop")
    yield* alias("acme/gone", "three.test", "x/y")
    assert.include((yield* Effect.flip(source.remote("acme/gone", "read"))).message, "the source host three.test, which is not in the list")
  }).pipe(on([one.host, two.host]))
})

it.effect("errors and refusals name the repository as the caller did, not the path at the host", () =>
  Effect.gen(function*() {
    const source = yield* SourceHost
    yield* alias("acme/shop", "one.test", "deep/er/path")
    for (
      const refused of [
        yield* Effect.flip(source.remote("acme/shop", "read")),
        yield* source.refusal(["acme/docs", "acme/shop"])
      ]
    ) assert.deepInclude(refused, { _tag: "RepoNotAccessible", repo: "acme/shop" })
    assert.deepInclude(yield* Effect.flip(source.pullRequestDetails("acme/docs", 7)), { detail: "one.test 7", retryable: true })
  }).pipe(on([hostOf({ name: "one.test", paths: ["acme/docs"] }).host])))

it.effect("lists the names of all hosts in one order, each once and with its own host alone, page by page", () => {
  const one = hostOf({ name: "one.test", paths: ["aaa/hidden", "acme/a", "acme/c", "acme/taken", "platform/x"], owns: owners("acme") })
  const two = hostOf({ name: "two.test", paths: ["acme/a", "Acme/hidden", "deep/Platform/b", "web/z", "web/y"] })
  return Effect.gen(function*() {
    const source = yield* SourceHost
    yield* alias("payments/own", "two.test", "web/z")
    yield* alias("acme/taken", "two.test", "web/other")
    yield* alias("platform/lost", "three.test", "web/x")
    const all = ["acme/a", "acme/c", "acme/taken", "payments/own", "Platform/b", "web/y"]
    assert.deepStrictEqual(yield* source.repositories(query), all)
    for (const limit of [1, 2, 3]) {
      const paged: Array<string> = []
      for (let after: string | null = null;;) {
        const page: ReadonlyArray<string> = yield* source.repositories({ ...query, after, limit })
        if (page.length === 0) break
        assert.isAtMost(page.length, limit)
        paged.push(...page)
        after = page.at(-1) ?? null
      }
      assert.deepStrictEqual(paged, all, String(limit))
    }
    assert.deepStrictEqual(yield* source.repositories({ ...query, search: "OWN" }), ["payments/own"])
    assert.deepStrictEqual(yield* source.repositories({ ...query, owners: [], search: "own" }), [])
  }).pipe(on([one.host, two.host]))
})

it.effect("a pull request of the repository's own branch is its own, and one of a fork that ends alike is not", () => {
  const heads = ["deep/acme/shop", "evil/acme/shop", "acme/other", "out/of/names"]
  const nameOf = (path: string) => path.startsWith("out/") ? null : HostRoutes.shortName(path)
  return Effect.gen(function*() {
    const found: Array<string | null | undefined> = []
    for (const head of heads) {
      const { host } = hostOf({ name: "one.test", paths: ["deep/acme/shop", "evil/acme/shop", "acme/other"], head, nameOf })
      found.push(
        yield* SourceHost.use((source) => source.pullRequestSource("acme/shop", 1)).pipe(
          Effect.map((source) => source?.headRepo),
          on([host])
        )
      )
    }
    assert.deepStrictEqual(found, ["acme/shop", null, "acme/other", null])
  })
})

it.effect("feedback and polls go to the host of the repository, and have the name that was asked for", () =>
  Effect.gen(function*() {
    yield* alias("acme/shop", "two.test", "deep/er/path")
    const feedback = yield* PullRequestFeedback
    const since = { since: at, checks: false, knownChecks: new Set<string>() }
    assert.strictEqual((yield* feedback.read("acme/shop", 1, since)).url, "deep/er/path")
    assert.strictEqual(yield* feedback.reply("acme/docs", 1, "k", "t"), "acme/docs")
    const news = Option.getOrThrow(yield* Effect.serviceOption(RepositoryNews))
    const polled = yield* news.poll("ACME/shop", { cursor: null, since: at })
    assert.deepInclude(polled, { cursor: "two.test", presentName: "acme/shop" })
    assert.deepStrictEqual(polled.news, [{ _tag: "Pull", repo: "ACME/shop", branch: "x", number: 1 }])
    const local = yield* news.poll("here/x", { cursor: null, since: at })
    assert.deepStrictEqual([local.news, local.isUnchanged, local.presentName], [[], true, "here/x"])
  }).pipe(on([
    hostOf({ name: "local", paths: ["here/x"], owns: owners("here") }).host,
    hostOf({ name: "one.test", paths: ["acme/docs"], owns: owners("acme") }).host,
    hostOf({ name: "two.test", paths: ["deep/er/path"] }).host
  ])))

it.effect("events of a host count for its own repositories alone, by the service's names", () => {
  const news = (repo: string): News => ({ _tag: "Pull", repo, branch: "x", number: null })
  const renamed = (from: string, repo: string): News => ({ _tag: "Renamed", from, repo })
  const sends = [news("acme/shop"), news("web/y"), news("deep/er/path"), renamed("web/y", "web/z"), renamed("acme/shop", "web/z")]
  return Effect.gen(function*() {
    yield* alias("acme/named", "two.test", "deep/er/path")
    const events = Option.getOrThrow(yield* Effect.serviceOption(SourceHostEvents))
    const read = (body: string) => events.read({ headers: {}, body })
    assert.deepStrictEqual(yield* read("two.test"), [news("web/y"), news("acme/named"), renamed("web/y", "web/z")])
    assert.deepStrictEqual(yield* read("one.test"), [news("acme/shop")])
    assert.strictEqual((yield* Effect.flip(read("local")))._tag, "NotAuthentic")
  }).pipe(on([
    hostOf({ name: "local", paths: [], owns: () => false }).host,
    hostOf({ name: "one.test", paths: ["acme/shop"], owns: owners("acme"), sends: [news("acme/shop"), news("web/y")] }).host,
    hostOf({ name: "two.test", paths: ["web/y"], sends }).host
  ]))
})

it.effect("pages of the service are for pull requests of hosts without pages alone", () =>
  Effect.gen(function*() {
    const pulls = yield* PullRequests
    if (pulls === null) return assert.fail("no host is without pages")
    yield* alias("acme/named", "local", "here/x")
    assert.strictEqual(Buffer.from(yield* pulls.diff("acme/named", 1)).toString(), "diff of here/x")
    assert.strictEqual((yield* pulls.close("here/y", 1)).pullRequest.title, "here/y")
    const refused = yield* Effect.flip(pulls.close("acme/shop", 1))
    assert.deepInclude(refused, { _tag: "PullRequestRefused", repo: "acme/shop", reason: "unknown repository" })
    assert.include(refused.message, "Its pull requests are at one.test.")
  }).pipe(on([
    hostOf({ name: "local", paths: ["here/x"], owns: owners("here") }).host,
    hostOf({ name: "one.test", paths: ["acme/shop"] }).host
  ])))

it.effect("no pages of the service are needed where all hosts have their own", () =>
  Effect.gen(function*() {
    assert.isNull(yield* PullRequests)
  }).pipe(on([hostOf({ name: "one.test", paths: [] }).host])))

it.effect("where no host has news or events, there is neither a poll nor an address for events", () =>
  Effect.gen(function*() {
    assert.isTrue(Option.isNone(yield* Effect.serviceOption(RepositoryNews)))
    assert.isTrue(Option.isNone(yield* Effect.serviceOption(SourceHostEvents)))
  }).pipe(on([hostOf({ name: "local", paths: [] }).host])))

it.effect("without the database it is unknown where a repository is, which is no refusal", () => {
  const silent = Layer.mock(RepositoryAliases, {
    find: () => Effect.fail(new StoreUnavailable({ cause: "x" })),
    list: Effect.fail(new StoreUnavailable({ cause: "x" }))
  })
  return Effect.gen(function*() {
    const source = yield* SourceHost
    assert.isNull(yield* source.refusal(["acme/shop"]))
    for (const failed of [yield* Effect.flip(source.remote("acme/shop", "read")), yield* Effect.flip(source.repositories(query))]) {
      assert.deepInclude(failed, { _tag: "SourceHostError", retryable: true })
    }
  }).pipe(Effect.provide(
    RoutedHosts.layer(Effect.succeed([hostOf({ name: "one.test", paths: ["acme/shop"] }).host])).pipe(Layer.provide(silent))
  ))
})
