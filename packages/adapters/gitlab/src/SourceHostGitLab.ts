/**
 * `SourceHost` on GitLab: gitlab.com and servers of one's own, with the operator's tokens. A request that may have taken effect is not
 * repeated: the caller looks for the merge request before it opens one.
 */
import { MAX_OWNERS, type RepositoryQuery, SourceHost, SourceHostError } from "@slipway/domain/source/ports/SourceHost"
import { isRefName } from "@slipway/domain/source/schema/Naming"
import type { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { onStatus } from "@slipway/rest-host/RestApi"
import { within } from "@slipway/rest-host/Within"
import { Cache, DateTime, Duration, Effect, Exit, Layer, Option, Redacted } from "effect"
import * as Answers from "./Answers.ts"
import * as GitLabApi from "./GitLabApi.ts"
import * as MergeRequests from "./MergeRequests.ts"
import * as MissingProjects from "./MissingProjects.ts"
import { pathOf } from "./ProjectAddress.ts"
import * as Projects from "./Projects.ts"
import type { Access } from "./Projects.ts"
import * as Reads from "./Reads.ts"

export type { Options } from "./GitLabApi.ts"

/** The role Developer, the least that may push. */
const DEVELOPER = 30

const isId = (text: string): boolean => /^\d{1,15}$/u.test(text)

/** GitLab answers the highest role that the account has in the project, also by its groups. */
const mayWrite = (api: GitLabApi.GitLabApi, access: Access, author: { readonly id: string; readonly login: string }) =>
  api.ask(Answers.Member, { method: "GET", path: `/projects/${access.id}/members/all/${author.id}`, token: access.token }).pipe(
    Effect.flatMap(Effect.fnUntraced(function*({ access_level: level, expires_at: end, id, state, username }) {
      // GitLab removes memberships that ended once a day.
      const ends = Option.getOrNull(DateTime.make(end ?? ""))
      const isOver = ends !== null && DateTime.isLessThanOrEqualTo(ends, yield* DateTime.now)
      // A login can pass to another account.
      return String(id) === author.id && username.toLowerCase() === author.login.toLowerCase() && state === "active" && !isOver &&
        level >= DEVELOPER
    })),
    onStatus(404, () => Effect.succeed(false))
  )

/** The operations on merge requests. */
const pullRequestsOf = (
  api: GitLabApi.GitLabApi,
  projects: Projects.Projects
): Omit<
  SourceHost["Service"],
  "branch" | "mayWrite" | "nameOf" | "names" | "refusal" | "remote" | "repositories" | "repository" | "repositoryAt"
> => {
  const counted = MergeRequests.counted()
  const reads = Reads.make(api)
  /** A merge request of a project. */
  const ofPull = <A>(operation: string, repo: RepoName, use: (access: Access) => Effect.Effect<A, Projects.Failure>) =>
    within(operation, repo, projects.with(repo, use).pipe(MergeRequests.orNoMergeRequest(operation)))
  return {
    pullRequestSource: Effect.fn("SourceHost.pullRequestSource")((repo: RepoName, number: number) =>
      within(
        "read the pull request",
        repo,
        projects.with(repo, (access) => MergeRequests.readSource(api, counted, access, number)).pipe(
          onStatus(404, () => Effect.succeed(null))
        )
      )
    ),
    openPullRequests: Effect.fn("SourceHost.openPullRequests")((repo: RepoName) =>
      within("list pull requests", repo, projects.with(repo, (access) => MergeRequests.listOpen(api, access)))
    ),
    findOpenPullRequest: Effect.fn("SourceHost.findOpenPullRequest")((repo: RepoName, headRef: string) =>
      within("find the pull request", repo, projects.with(repo, (access) => MergeRequests.findOpen(api, counted, access, headRef)))
    ),
    openDraftPullRequest: Effect.fn("SourceHost.openDraftPullRequest")((repo, draft) => {
      const operation = "open the pull request"
      return within(operation, repo, projects.with(repo, (access) => MergeRequests.openDraft(api, counted, operation, access, draft)))
    }),
    pullRequestPushed: Effect.fn("SourceHost.pullRequestPushed")((repo, number, { headSha }) =>
      ofPull("update the pull request", repo, (access) => MergeRequests.pushed(api, counted, access, number, headSha))
    ),
    decoratePullRequest: Effect.fn("SourceHost.decoratePullRequest")((repo, number, decoration) =>
      ofPull("update the pull request", repo, (access) => MergeRequests.decorate(api, access, number, decoration))
    ),
    readyPullRequest: Effect.fn("SourceHost.readyPullRequest")((repo, number) =>
      ofPull("end the draft", repo, (access) => MergeRequests.markReady(api, counted, access, number))
    ),
    pullRequestDetails: Effect.fn("SourceHost.pullRequestDetails")((repo: RepoName, number: number) =>
      ofPull("read the pull request", repo, (access) => MergeRequests.readDetails(api, counted, reads, access, number))
    )
  }
}

/** Lists for choosing are cached. After a failure, further requests (one per key press) wait for a moment. */
const LIST_GOOD_FOR = Duration.minutes(5)
const LIST_FAILED_FOR = Duration.seconds(5)
const MAX_LISTS = 200

const make = Effect.fnUntraced(function*(options: GitLabApi.Options) {
  const api = yield* GitLabApi.make(options)
  const projects = Projects.make(api, options)
  const missing = yield* MissingProjects.make(projects)
  const { groups = [], listed = groups.length === 0 ? [""] : groups } = options
  const lists = yield* Cache.makeWith((path: string) => projects.list(path), {
    capacity: MAX_LISTS,
    timeToLive: (exit) => Exit.isSuccess(exit) ? LIST_GOOD_FOR : LIST_FAILED_FOR
  })

  return SourceHost.of({
    names: [api.name],
    nameOf: () => Effect.succeed(api.name),
    refusal: Effect.fn("SourceHost.refusal")(missing.refusal),
    repositories: Effect.fn("SourceHost.repositories")(function*(query: RepositoryQuery) {
      const operation = "list repositories"
      const paths = yield* Effect.forEach(listed, (path) => Cache.get(lists, path), { concurrency: 4 }).pipe(
        Effect.catchTag("RestFailed", ({ detail, retryable }) => Effect.fail(new SourceHostError({ operation, detail, retryable })))
      )
      return Projects.pageOfPaths(paths.flat(), { ...query, owners: query.owners.slice(0, MAX_OWNERS) })
    }),
    repository: Effect.fn("SourceHost.repository")((repo: RepoName) =>
      within(
        "read the repository",
        repo,
        Effect.flatMap(projects.resolve(repo), ({ defaultBranch, path }) =>
          defaultBranch === null
            ? Effect.fail(
              new SourceHostError({
                operation: "read the repository",
                detail: `${path} has no commits, or they may not be read.`,
                retryable: false
              })
            )
            : Effect.succeed({ fullName: path, defaultBranch }))
      )
    ),
    repositoryAt: (address) => Effect.succeed(pathOf(address, api.url)),
    mayWrite: Effect.fn("SourceHost.mayWrite")((repo: RepoName, author: { readonly id: string; readonly login: string }) =>
      within(
        "read who may write",
        repo,
        projects.with(repo, (access) => isId(author.id) ? mayWrite(api, access, author) : Effect.succeed(false))
      )
    ),
    remote: Effect.fn("SourceHost.remote")((repo: RepoName, access: "read" | "write") =>
      within(
        access === "read" ? "read the repository" : "push",
        repo,
        Effect.map(projects.resolve(repo), ({ path, token }) => ({
          url: `${api.url}/${path}.git`,
          authorization: Redacted.make(`Basic ${Buffer.from(`oauth2:${Redacted.value(token)}`).toString("base64")}`)
        }))
      )
    ),
    branch: Effect.fn("SourceHost.branch")((repo: RepoName, name: string) =>
      within(
        "read the branch",
        repo,
        projects.with(repo, (access) =>
          // Without a name the address is that of all branches.
          name !== "" && isRefName(name) ? MergeRequests.readBranch(api, access, name) : Effect.succeed(null)).pipe(
            onStatus(404, () => Effect.succeed(null))
          )
      )
    ),
    ...pullRequestsOf(api, projects)
  })
})

/** Fails if the address of GitLab cannot be parsed. The first request shows whether it accepts the token. */
export const layer = (options: GitLabApi.Options): Layer.Layer<SourceHost, SourceHostError> => Layer.effect(SourceHost, make(options))
