/**
 * `SourceHost` on repositories of this machine: for trials, for tests, and for teams whose git server is a folder. Pull requests are
 * rows of ours. Their state in git is read each time, and stored for when git's data is gone:
 * - the head is the present commit of the branch;
 * - a head in the history of its base is merged, which closes it (a squashed merge is not noticed);
 * - deleting the branch closes it, as does `LocalPullRequests`; closed ones never change.
 */
import { MAX_OPEN_PULLS, openPullOf, RepoNotAccessible, SourceHost, SourceHostError } from "@slipway/domain/source/ports/SourceHost"
import { isRefName } from "@slipway/domain/source/schema/Naming"
import { noChecks, type PullRequest } from "@slipway/domain/source/schema/PullRequest"
import type { RepoName } from "@slipway/domain/source/schema/RepoRef"
import type { StoreUnavailable } from "@slipway/domain/store/StoreUnavailable"
import type { GitFailed } from "@slipway/git/Git"
import { guard } from "@slipway/postgres/sql/SqlFailure"
import { Context, DateTime, Effect, Layer, Option } from "effect"
import { SqlClient } from "effect/sql"
import * as LocalGit from "./LocalGit.ts"
import { LocalRepositories, type LocalRepository } from "./LocalRepositories.ts"
import { commentsOf, toComment } from "./PullComments.ts"
import { insert, isSame, newestOpen, numbered, openFor, ready, type Row, update } from "./PullRows.ts"

export interface Options {
  /** The public address of Slipway; pull requests are pages below it. */
  readonly publicUrl: string
}

type Host = SourceHost["Service"]

/** The common parts of the host's operations. */
interface Local {
  readonly options: Options
  readonly sql: SqlClient.SqlClient
  readonly repositories: LocalRepositories["Service"]
}

const toPullRequest = ({ publicUrl }: Options, repository: LocalRepository, row: Row): PullRequest => ({
  ...row,
  nodeId: `local_${row.id}`,
  url: `${publicUrl.replace(/\/$/u, "")}/local/${repository.fullName}/pulls/${row.number}`
})

/** Runs `use` with the repository. Failures of git and of the database become the port's error. */
const within = <A>(
  { repositories }: Local,
  operation: string,
  repo: RepoName,
  use: (repository: LocalRepository) => Effect.Effect<A, GitFailed | RepoNotAccessible | SourceHostError | StoreUnavailable>
) =>
  Effect.gen(function*() {
    const repository = yield* repositories.find(repo)
    if (Option.isNone(repository)) return yield* new RepoNotAccessible({ repo })
    return yield* use(repository.value)
  }).pipe(Effect.catchTags({
    GitFailed: (failure) =>
      Effect.andThen(
        Effect.logWarning("git could not read a local repository", { repo, failure: failure.message }),
        Effect.fail(
          /not a git repository|ermission denied/u.test(failure.stderr)
            ? new RepoNotAccessible({ repo })
            : new SourceHostError({ operation, detail: "The repository could not be read.", retryable: failure.reason !== "exit" })
        )
      ),
    StoreUnavailable: () =>
      Effect.fail(new SourceHostError({ operation, detail: "The database is not available just now.", retryable: true }))
  }))

/** The row with the repository's present state. `at`: the time of a change. */
const look = Effect.fnUntraced(function*(sql: SqlClient.SqlClient, { path }: LocalRepository, row: Row, at: DateTime.Utc) {
  if (row.state === "closed") return row
  const tips = yield* LocalGit.tips(path, row.headRef, row.baseRef)
  const [head, base] = [tips.get(row.headRef), tips.get(row.baseRef)]
  const headSha = head ?? row.headSha
  const merged = base !== undefined && (yield* LocalGit.contains(path, base, headSha))
  const state = merged || head === undefined ? "closed" as const : "open" as const
  // For a merged or deleted branch, and for branches without a common commit, the last counts stay.
  const counts = state === "closed" || base === undefined ? {} : yield* LocalGit.counts(path, base, headSha).pipe(
    Effect.catchTag("GitFailed", () => Effect.succeed({}))
  )
  const seen: Row = { ...row, ...counts, headSha, merged, state }
  if (isSame(seen, row)) return row
  const changed = { ...seen, updatedAt: at }
  yield* guard(update(sql, changed))
  return changed
})

const noSuch = (operation: string) => new SourceHostError({ operation, detail: "There is no such pull request.", retryable: false })

const refusal = Effect.fn("SourceHost.refusal")(function*(local: Local, repos: ReadonlyArray<RepoName>) {
  const [repo] = yield* local.repositories.missing(repos)
  if (repo === undefined) return null
  return new RepoNotAccessible({ repo, advice: `Add it to those of this machine with: slipway repos add ${repo} PATH` })
  // Unknown while the database is unavailable: storing the sandbox fails for the same reason.
}, Effect.catchTag("StoreUnavailable", () => Effect.succeed(null)))

const page = Effect.fn("SourceHost.repositories")((local: Local, query: Parameters<Host["repositories"]>[0]) =>
  Effect.catchTag(local.repositories.page(query), "StoreUnavailable", () =>
    Effect.fail(
      new SourceHostError({ operation: "list repositories", detail: "The database is not available just now.", retryable: true })
    ))
)

const repository = Effect.fn("SourceHost.repository")((local: Local, repo: RepoName) =>
  within(
    local,
    "read the repository",
    repo,
    ({ fullName, path }) => Effect.map(LocalGit.defaultBranch(path), (defaultBranch) => ({ fullName, defaultBranch }))
  )
)

/** A submodule beside its repository. `file:` addresses name none, nor do other paths than those of the operator's repositories. */
const repositoryAt = Effect.fn("SourceHost.repositoryAt")(
  function*({ repositories }: Local, address: string) {
    if (!address.startsWith("/") || address.includes("\0")) return null
    const path = address.replace(/\/$/u, "")
    for (const one of [path, `${path}.git`]) {
      const found = yield* repositories.at(one)
      if (Option.isSome(found)) return found.value.fullName
    }
    return null
  },
  Effect.catchTag("StoreUnavailable", () =>
    Effect.fail(
      new SourceHostError({ operation: "find the repository", detail: "The database is not available just now.", retryable: true })
    ))
)

const remote = Effect.fn("SourceHost.remote")((local: Local, repo: RepoName) =>
  within(local, "read the repository", repo, ({ path }) => Effect.succeed({ url: path, authorization: null }))
)

const branch = Effect.fn("SourceHost.branch")((local: Local, repo: RepoName, name: string) =>
  within(
    local,
    "read the branch",
    repo,
    ({ path }) =>
      Effect.map(isRefName(name) ? LocalGit.tips(path, name) : Effect.succeed(new Map<string, string>()), (tips) => {
        const headSha = tips.get(name)
        // Hooks of the operator decide at the push.
        return headSha === undefined ? null : { headSha, isProtected: false }
      })
  )
)

const pullRequestSource = Effect.fn("SourceHost.pullRequestSource")((local: Local, repo: RepoName, number: number) =>
  within(local, "read the pull request", repo, (repository) =>
    Effect.gen(function*() {
      const row = yield* guard(numbered(local.sql, repo, number))
      if (Option.isNone(row)) return null
      const seen = yield* look(local.sql, repository, row.value, yield* DateTime.now)
      return { pullRequest: toPullRequest(local.options, repository, seen), headRepo: repository.fullName }
    }))
)

const openPullRequests = Effect.fn("SourceHost.openPullRequests")((local: Local, repo: RepoName) =>
  within(local, "list pull requests", repo, (repository) =>
    Effect.gen(function*() {
      const rows = yield* guard(newestOpen(local.sql, repo, MAX_OPEN_PULLS))
      const now = yield* DateTime.now
      const seen = yield* Effect.forEach(rows, (row) => look(local.sql, repository, row, now), { concurrency: 4 })
      return seen.filter(({ state }) => state === "open").map(openPullOf)
    }))
)

const findOpenPullRequest = Effect.fn("SourceHost.findOpenPullRequest")((local: Local, repo: RepoName, headRef: string) =>
  within(local, "find the pull request", repo, (repository) =>
    Effect.gen(function*() {
      const row = yield* guard(openFor(local.sql, repo, headRef))
      if (Option.isNone(row)) return null
      const seen = yield* look(local.sql, repository, row.value, yield* DateTime.now)
      return seen.state === "open" ? toPullRequest(local.options, repository, seen) : null
    }))
)

const openDraftPullRequest = Effect.fn("SourceHost.openDraftPullRequest")(
  (local: Local, repo: RepoName, draft: Parameters<Host["openDraftPullRequest"]>[1]) => {
    const operation = "open the pull request"
    const refuse = (detail: string) => new SourceHostError({ operation, detail, retryable: false })
    return within(local, operation, repo, (repository) =>
      Effect.gen(function*() {
        const tips = yield* LocalGit.tips(repository.path, draft.headRef, draft.baseRef)
        const base = tips.get(draft.baseRef)
        if (base === undefined) return yield* refuse(`There is no branch "${draft.baseRef}" to merge into.`)
        if (tips.get(draft.headRef) !== draft.headSha) {
          return yield* refuse(`The branch "${draft.headRef}" is not at the commit that was pushed.`)
        }
        const counts = yield* LocalGit.counts(repository.path, base, draft.headSha)
        const row = yield* insert(local.sql, repo, draft, counts).pipe(
          Effect.catchReason("SqlError", "UniqueViolation", () =>
            Effect.fail(refuse(`There is an open pull request for the branch "${draft.headRef}" already.`))),
          guard
        )
        return toPullRequest(local.options, repository, row)
      }))
  }
)

const pullRequestPushed = Effect.fn("SourceHost.pullRequestPushed")(
  (local: Local, repo: RepoName, number: number, push: Parameters<Host["pullRequestPushed"]>[2]) => {
    const operation = "update the pull request"
    return within(local, operation, repo, (repository) =>
      Effect.gen(function*() {
        const row = yield* guard(numbered(local.sql, repo, number))
        if (Option.isNone(row)) return yield* noSuch(operation)
        return toPullRequest(local.options, repository, yield* look(local.sql, repository, row.value, push.at))
      }))
  }
)

/** Pull requests of this machine have neither labels nor reviewers. */
const decoratePullRequest = Effect.fn("SourceHost.decoratePullRequest")(
  (local: Local, repo: RepoName, number: number, { labels, reviewers }: Parameters<Host["decoratePullRequest"]>[2]) => {
    const operation = "update the pull request"
    return within(local, operation, repo, () =>
      Effect.gen(function*() {
        if (Option.isNone(yield* guard(numbered(local.sql, repo, number)))) return yield* noSuch(operation)
        return [...labels, ...reviewers]
      }))
  }
)

const readyPullRequest = Effect.fn("SourceHost.readyPullRequest")((local: Local, repo: RepoName, number: number) => {
  const operation = "update the pull request"
  return within(local, operation, repo, (repository) =>
    Effect.gen(function*() {
      const at = yield* DateTime.now
      const row = yield* guard(numbered(local.sql, repo, number))
      if (Option.isNone(row)) return yield* noSuch(operation)
      const seen = yield* look(local.sql, repository, row.value, at)
      if (seen.state === "closed" || !seen.draft) return toPullRequest(local.options, repository, seen)
      yield* guard(ready(local.sql, seen.id, at))
      return toPullRequest(local.options, repository, { ...seen, draft: false, updatedAt: at })
    }))
})

const pullRequestDetails = Effect.fn("SourceHost.pullRequestDetails")((local: Local, repo: RepoName, number: number) => {
  const operation = "read the pull request"
  return within(local, operation, repo, (repository) =>
    Effect.gen(function*() {
      const row = yield* guard(numbered(local.sql, repo, number))
      if (Option.isNone(row)) return yield* noSuch(operation)
      const seen = yield* look(local.sql, repository, row.value, yield* DateTime.now)
      const pullRequest = toPullRequest(local.options, repository, seen)
      const comments = (yield* guard(commentsOf(local.sql, repo, number))).map((comment) => toComment(pullRequest.url, comment))
      return { pullRequest, checks: noChecks, comments, pending: false }
    }))
})

const make = Effect.fnUntraced(function*(options: Options) {
  const local: Local = { options, sql: yield* SqlClient.SqlClient, repositories: yield* LocalRepositories }
  return SourceHost.of({
    names: ["local"],
    nameOf: () => Effect.succeed("local"),
    refusal: (repos) => refusal(local, repos),
    repositories: (query) => page(local, query),
    repository: (repo) => repository(local, repo),
    repositoryAt: (address) => repositoryAt(local, address),
    // Only users of this service comment on its own pages.
    mayWrite: (repo) => Effect.as(repository(local, repo), true),
    remote: (repo) => remote(local, repo),
    branch: (repo, name) => branch(local, repo, name),
    pullRequestSource: (repo, number) => pullRequestSource(local, repo, number),
    openPullRequests: (repo) => openPullRequests(local, repo),
    findOpenPullRequest: (repo, headRef) => findOpenPullRequest(local, repo, headRef),
    openDraftPullRequest: (repo, draft) => openDraftPullRequest(local, repo, draft),
    pullRequestPushed: (repo, number, push) => pullRequestPushed(local, repo, number, push),
    decoratePullRequest: (repo, number, decoration) => decoratePullRequest(local, repo, number, decoration),
    readyPullRequest: (repo, number) => readyPullRequest(local, repo, number),
    pullRequestDetails: (repo, number) => pullRequestDetails(local, repo, number)
  })
})

/** Needs `LocalRepositories` and the database. */
export const layer = (options: Options): Layer.Layer<SourceHost, never, LocalRepositories | SqlClient.SqlClient> =>
  Layer.effect(SourceHost, make(options))

/** The same with these repositories, by full name with the path of a checkout or a bare repository. They are registered at the start. */
export const layerOf = (
  { publicUrl = "http://localhost", repositories }: Partial<Options> & { readonly repositories: Readonly<Record<RepoName, string>> }
) =>
  layer({ publicUrl }).pipe(
    Layer.provideMerge(LocalRepositories.layer.pipe(
      Layer.tap((context) => {
        const { register } = Context.get(context, LocalRepositories)
        return Effect.forEach(Object.entries(repositories), ([name, path]) => register(name, path), { discard: true })
      })
    ))
  )
