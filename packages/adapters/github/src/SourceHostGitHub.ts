/**
 * `SourceHost` on GitHub, as a GitHub App: github.com and GitHub Enterprise. Each operation has its own token, for one
 * repository and no more than the operation needs. Nothing is repeated that may have taken effect: whoever opens a pull
 * request looks for it first.
 */
import {
  MAX_OWNERS,
  pageOfNames,
  RepoNotAccessible,
  type RepositoryQuery,
  SourceHost,
  SourceHostError
} from "@slipway/domain/source/ports/SourceHost"
import type { Checks } from "@slipway/domain/source/schema/PullRequest"
import type { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { Clock, Duration, Effect, Layer, Redacted } from "effect"
import * as AccountRepositories from "./AccountRepositories.ts"
import * as Answers from "./Answers.ts"
import { hidden, summarize } from "./Checks.ts"
import * as ConditionalReads from "./ConditionalReads.ts"
import * as GitHubApi from "./GitHubApi.ts"
import { type Access, type GitHubFailed, onStatus, type Permissions, type TokenRefused } from "./GitHubApi.ts"
import * as Installations from "./Installations.ts"

export type { Options } from "./GitHubApi.ts"

/** Clients that wait for checks ask every few seconds, and GitHub's tags are good for one token only. */
const HELD_FOR = Duration.minutes(5)
const MAXIMUM_HELD = 100

const READ: Permissions = { metadata: "read", pull_requests: "read" }
/** Without reading contents GitHub refuses a pull request of a private repository: "not all refs are readable". */
const OPEN: Permissions = { metadata: "read", contents: "read", pull_requests: "write" }
const OF_STATUS: Permissions = { checks: "read", actions: "read", issues: "read" }

type Trouble = GitHubFailed | RepoNotAccessible | SourceHostError | TokenRefused

const make = Effect.fnUntraced(function*(options: GitHubApi.Options) {
  const api = yield* GitHubApi.make(options)
  const reads = ConditionalReads.make(api)
  const installations = yield* Installations.make(api)
  const listed = yield* AccountRepositories.make(api)
  const held = new Map<string, { readonly access: Access; readonly untilMillis: number }>()

  /** The port's errors for GitHub's. */
  const within = <A>(operation: string, repo: RepoName, self: Effect.Effect<A, GitHubFailed | RepoNotAccessible | SourceHostError>) =>
    Effect.catchTag(
      self,
      "GitHubFailed",
      Effect.fnUntraced(function*({ detail, retryAfter, retryable, status }) {
        yield* Effect.logWarning("GitHub did not do what it was asked to", { operation, repo, status, detail })
        // Blocked for legal reasons.
        if (status === 451) return yield* new RepoNotAccessible({ repo })
        return yield* new SourceHostError({ operation, detail, retryable, ...(retryAfter === undefined ? {} : { retryAfter }) })
      })
    )

  /** Runs `self`, or once `repeated` if the token was refused: it may have ended, or not be known everywhere yet. */
  const again = <A>(self: Effect.Effect<A, Trouble>, repeated: Effect.Effect<A, Trouble>) =>
    self.pipe(
      Effect.catchTag("TokenRefused", () => repeated),
      Effect.catchTag("TokenRefused", ({ detail }) =>
        Effect.fail(
          new GitHubApi.GitHubFailed({
            status: 401,
            detail: `GitHub does not know the token it has just given. ${detail}`,
            retryable: true
          })
        ))
    )

  const withToken = <A>(repo: RepoName, permissions: Permissions, use: (access: Access) => Effect.Effect<A, Trouble>) => {
    const attempt = Effect.flatMap(api.mint(repo, permissions), use)
    return again(attempt, attempt)
  }

  /** As {@link withToken}, for reading how a pull request stands; the token is kept in memory for {@link HELD_FOR}. */
  const withHeldToken = Effect.fnUntraced(function*<A>(repo: RepoName, use: (access: Access) => Effect.Effect<A, Trouble>) {
    const key = repo.toLowerCase()
    const now = yield* Clock.currentTimeMillis
    const mint = Effect.tap(api.mint(repo, READ, OF_STATUS), (access) =>
      Effect.sync(() => {
        held.set(key, { access, untilMillis: now + Duration.toMillis(HELD_FOR) })
        for (const [oldest, { untilMillis }] of held) if (untilMillis <= now || held.size > MAXIMUM_HELD) held.delete(oldest)
      }))
    const afresh = Effect.suspend(() => {
      held.delete(key)
      return Effect.flatMap(mint, use)
    })
    const known = held.get(key)
    if (known === undefined || known.untilMillis <= now) return yield* again(afresh, afresh)
    // The repository may have been taken from the installation since.
    return yield* again(Effect.catchTag(use(known.access), "SourceHostError", () => afresh), afresh)
  })

  const noPullRequest = (operation: string) =>
    new SourceHostError({ operation, detail: "There is no such pull request.", retryable: false })

  const readPull = (operation: string, access: Access, number: number) =>
    api.request(access, "GET", "/pulls/{number}", { number }).pipe(
      Effect.flatMap((answer) => api.decode(Answers.Pull, answer)),
      onStatus(404, () => Effect.fail(noPullRequest(operation)))
    )

  const findOpen = Effect.fnUntraced(function*(operation: string, access: Access, headRef: string) {
    const fullName = `${access.owner}/${access.name}`.toLowerCase()
    const answer = yield* api.request(access, "GET", "/pulls", { state: "open", head: `${access.owner}:${headRef}`, per_page: 100 })
    // A filter that GitHub does not understand is none to it.
    const found = (yield* api.decode(Answers.PullList, answer)).find(({ head }) =>
      head.ref === headRef && head.repo?.full_name.toLowerCase() === fullName
    )
    if (found === undefined) return null
    const pull = yield* readPull(operation, access, found.number)
    return pull.state === "open" ? Answers.toPullRequest(pull) : null
  })

  const readChecks = Effect.fnUntraced(function*(access: Access, headSha: string) {
    const may = (permission: string) => access.permissions[permission] !== undefined
    if (!may("checks") && !may("actions")) return hidden
    const [checkRuns, runs] = yield* Effect.all([
      may("checks") ? reads.all(access, `/commits/${headSha}/check-runs`, Answers.CheckRuns) : Effect.succeed([]),
      // An Enterprise host may be without Actions.
      may("actions")
        ? reads.all(access, "/actions/runs", Answers.WorkflowRuns, { head_sha: headSha }).pipe(onStatus(404, () => Effect.succeed([])))
        : Effect.succeed([])
    ], { concurrency: "unbounded" })
    const checks: Checks = summarize(
      runs.flatMap(({ workflow_runs }) => workflow_runs.map(Answers.toWorkflowRun)),
      checkRuns.flatMap(({ check_runs }) => check_runs.map(Answers.toCheckRun))
    )
    return checks
  })

  const readDetails = Effect.fnUntraced(function*(operation: string, access: Access, number: number) {
    const readPullAndChecks = Effect.gen(function*() {
      const pull = yield* reads.one(access, `/pulls/${number}`, Answers.Pull)
      return { pull, checks: yield* readChecks(access, pull.head.sha) }
    })
    const [{ checks, pull }, ...comments] = yield* Effect.all([
      readPullAndChecks,
      reads.all(access, `/issues/${number}/comments`, Answers.Comments),
      reads.all(access, `/pulls/${number}/comments`, Answers.Comments)
    ], { concurrency: "unbounded" }).pipe(onStatus(404, () => Effect.fail(noPullRequest(operation))))
    return {
      pullRequest: Answers.toPullRequest(pull),
      checks,
      comments: comments.flat(2).map(Answers.toComment).sort((a, b) =>
        a.createdAt < b.createdAt ? -1 : a.createdAt > b.createdAt ? 1 : a.id - b.id
      ),
      pending: pull.state === "open" && pull.mergeable === null
    }
  })

  return SourceHost.of({
    name: api.host,
    refusal: Effect.fn("SourceHost.refusal")(function*(repos: ReadonlyArray<RepoName>) {
      const repo = yield* installations.missing(repos)
      if (repo === null) return null
      return new RepoNotAccessible({ repo, advice: `Install the GitHub App for ${repo.split("/")[0]}, with this repository.` })
    }),
    repositories: Effect.fn("SourceHost.repositories")(function*(query: RepositoryQuery) {
      const operation = "list repositories"
      const names = yield* Effect.catchTag(
        listed.of(query.owners.slice(0, MAX_OWNERS)),
        "GitHubFailed",
        ({ detail, retryable }) => Effect.fail(new SourceHostError({ operation, detail, retryable }))
      )
      return pageOfNames(names, query)
    }),
    repository: Effect.fn("SourceHost.repository")((repo: RepoName) =>
      within(
        "read the repository",
        repo,
        withToken(repo, { metadata: "read" }, (access) =>
          api.request(access, "GET", "").pipe(
            Effect.flatMap((answer) => api.decode(Answers.Repository, answer)),
            Effect.map(({ default_branch, full_name }) => ({ fullName: full_name, defaultBranch: default_branch })),
            onStatus(404, () => Effect.fail(new RepoNotAccessible({ repo })))
          ))
      )
    ),
    remote: Effect.fn("SourceHost.remote")((repo: RepoName, access: "read" | "write") =>
      within(
        access === "read" ? "read the repository" : "push",
        repo,
        Effect.map(api.mint(repo, { metadata: "read", contents: access }), (minted) => ({
          url: api.remoteUrl(minted),
          authorization: Redacted.make(`Basic ${Buffer.from(`x-access-token:${Redacted.value(minted.token)}`).toString("base64")}`)
        }))
      )
    ),
    findOpenPullRequest: Effect.fn("SourceHost.findOpenPullRequest")((repo: RepoName, headRef: string) => {
      const operation = "find the pull request"
      return within(operation, repo, withToken(repo, READ, (access) => findOpen(operation, access, headRef)))
    }),
    openDraftPullRequest: Effect.fn("SourceHost.openDraftPullRequest")((repo, { baseRef, body, headRef, title }) => {
      const operation = "open the pull request"
      /** Knows the refusals that need more words than GitHub's. */
      const explain = Effect.fnUntraced(function*(access: Access, failure: GitHubFailed) {
        if (failure.detail.includes("pull request already exists")) {
          const open = yield* Effect.orElseSucceed(findOpen(operation, access, headRef), () => null)
          const detail = `There is an open pull request for the branch "${headRef}" already${open === null ? "" : `: ${open.url}`}.`
          return yield* new SourceHostError({ operation, detail, retryable: false })
        }
        if (/draft pull requests are not supported/iu.test(failure.detail)) {
          return yield* new SourceHostError({
            operation,
            detail: `The plan of ${access.owner} has no draft pull requests for private repositories. ` +
              "Make the repository public, or change to a plan that has them, such as GitHub Team.",
            retryable: false
          })
        }
        return yield* failure
      })
      return within(
        operation,
        repo,
        withToken(
          repo,
          OPEN,
          (access) =>
            api.request(access, "POST", "/pulls", { title, body, base: baseRef, head: headRef, draft: true }).pipe(
              Effect.flatMap((answer) => api.decode(Answers.Pull, answer)),
              Effect.map(Answers.toPullRequest),
              onStatus(422, (failure) => explain(access, failure))
            )
        )
      )
    }),
    pullRequestPushed: Effect.fn("SourceHost.pullRequestPushed")((repo, number, { headSha }) => {
      const operation = "update the pull request"
      return within(
        operation,
        repo,
        withToken(repo, READ, (access) =>
          Effect.map(readPull(operation, access, number), (pull) => {
            const pullRequest = Answers.toPullRequest(pull)
            // GitHub took the push, but notices it a moment later.
            return pull.state === "open" ? { ...pullRequest, headSha } : pullRequest
          }))
      )
    }),
    pullRequestDetails: Effect.fn("SourceHost.pullRequestDetails")((repo: RepoName, number: number) => {
      const operation = "read the pull request"
      return within(operation, repo, withHeldToken(repo, (access) => readDetails(operation, access, number)))
    })
  })
})

/** Fails when the App's key is none. Whether GitHub knows it shows with the first request. */
export const layer = (options: GitHubApi.Options): Layer.Layer<SourceHost, SourceHostError> => Layer.effect(SourceHost, make(options))
