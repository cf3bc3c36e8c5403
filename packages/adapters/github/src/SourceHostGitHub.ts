/**
 * `SourceHost` on GitHub as a GitHub App: github.com and GitHub Enterprise. Each operation has a token of its own, for one repository
 * and only the needed permissions. A request that may have taken effect is not repeated: the caller looks for the pull request before
 * it opens one.
 */
import {
  MAX_OWNERS,
  pageOfNames,
  RepoNotAccessible,
  type RepositoryQuery,
  SourceHost,
  SourceHostError
} from "@slipway/domain/source/ports/SourceHost"
import { isRefName } from "@slipway/domain/source/schema/Naming"
import type { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { repositoryAt } from "@slipway/domain/source/schema/SubmoduleAddress"
import { Effect, Layer, Redacted } from "effect"
import * as AccountRepositories from "./AccountRepositories.ts"
import * as Answers from "./Answers.ts"
import * as ConditionalReads from "./ConditionalReads.ts"
import * as GitHubApi from "./GitHubApi.ts"
import { onStatus, type Permissions } from "./GitHubApi.ts"
import * as Installations from "./Installations.ts"
import * as PullRequests from "./PullRequests.ts"
import { type HeldTokens, READ, withHeldToken, withToken } from "./RepositoryTokens.ts"
import { within } from "./Within.ts"

export type { Options } from "./GitHubApi.ts"

/** Without permission to read contents, GitHub refuses a pull request of a private repository: "not all refs are readable". */
const OPEN: Permissions = { metadata: "read", contents: "read", pull_requests: "write" }

const CHANGE: Permissions = { metadata: "read", pull_requests: "write" }
/** To read a branch and whether it is protected. */
const CONTENTS: Permissions = { metadata: "read", contents: "read" }

/** GitHub answers `write` for the role `maintain`, and the base role of a custom one. Its 404: there is no such account. */
const mayWrite = (api: GitHubApi.GitHubApi, access: GitHubApi.Access, { id, login }: { readonly id: string; readonly login: string }) =>
  api.request(access, "GET", "/collaborators/{username}/permission", { username: login }).pipe(
    Effect.flatMap((answer) => api.decode(Answers.Permission, answer)),
    // A login can pass to another account.
    Effect.map(({ permission, user }) => String(user?.id) === id && ["admin", "maintain", "write"].includes(permission)),
    onStatus(404, () => Effect.succeed(false))
  )

/** The operations on pull requests. */
const pullRequestsOf = (
  api: GitHubApi.GitHubApi,
  reads: ReturnType<typeof ConditionalReads.make>,
  held: HeldTokens
): Omit<
  SourceHost["Service"],
  "branch" | "mayWrite" | "nameOf" | "names" | "refusal" | "remote" | "repositories" | "repository" | "repositoryAt"
> => ({
  pullRequestSource: Effect.fn("SourceHost.pullRequestSource")((repo: RepoName, number: number) =>
    within("read the pull request", repo, withToken(api, repo, READ, (access) => PullRequests.readSource(api, access, number)))
  ),
  openPullRequests: Effect.fn("SourceHost.openPullRequests")((repo: RepoName) =>
    within("list pull requests", repo, withHeldToken(api, held, repo, (access) => PullRequests.listOpen(api, access)))
  ),
  findOpenPullRequest: Effect.fn("SourceHost.findOpenPullRequest")((repo: RepoName, headRef: string) => {
    const operation = "find the pull request"
    return within(operation, repo, withToken(api, repo, READ, (access) => PullRequests.findOpen(api, operation, access, headRef)))
  }),
  openDraftPullRequest: Effect.fn("SourceHost.openDraftPullRequest")((repo, draft) => {
    const operation = "open the pull request"
    return within(operation, repo, withToken(api, repo, OPEN, (access) => PullRequests.openDraft(api, operation, access, draft)))
  }),
  pullRequestPushed: Effect.fn("SourceHost.pullRequestPushed")((repo, number, { headSha }) => {
    const operation = "update the pull request"
    return within(
      operation,
      repo,
      withToken(api, repo, READ, (access) =>
        Effect.map(PullRequests.readPull(api, operation, access, number), (pull) => {
          const pullRequest = Answers.toPullRequest(pull)
          // GitHub shows a push a moment later.
          return pull.state === "open" ? { ...pullRequest, headSha } : pullRequest
        }))
    )
  }),
  decoratePullRequest: Effect.fn("SourceHost.decoratePullRequest")((repo, number, decoration) => {
    const operation = "update the pull request"
    return within(operation, repo, withToken(api, repo, CHANGE, (access) => PullRequests.decorate(api, access, number, decoration)))
  }),
  readyPullRequest: Effect.fn("SourceHost.readyPullRequest")((repo, number) => {
    const operation = "end the draft"
    return within(operation, repo, withToken(api, repo, CHANGE, (access) => PullRequests.markReady(api, operation, access, number)))
  }),
  pullRequestDetails: Effect.fn("SourceHost.pullRequestDetails")((repo: RepoName, number: number) => {
    const operation = "read the pull request"
    return within(operation, repo, withHeldToken(api, held, repo, (access) => PullRequests.readDetails(reads, operation, access, number)))
  })
})

const make = Effect.fnUntraced(function*(options: GitHubApi.Options) {
  const api = yield* GitHubApi.make(options)
  const reads = ConditionalReads.make(api)
  const installations = yield* Installations.make(api)
  const listed = yield* AccountRepositories.make(api)
  const held: HeldTokens = new Map()

  return SourceHost.of({
    names: [api.host],
    nameOf: () => Effect.succeed(api.host),
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
        withToken(api, repo, { metadata: "read" }, (access) =>
          api.request(access, "GET", "").pipe(
            Effect.flatMap((answer) => api.decode(Answers.Repository, answer)),
            Effect.map(({ default_branch, full_name }) => ({ fullName: full_name, defaultBranch: default_branch })),
            onStatus(404, () => Effect.fail(new RepoNotAccessible({ repo })))
          ))
      )
    ),
    repositoryAt: (address) => Effect.succeed(repositoryAt(address, api.host)),
    mayWrite: Effect.fn("SourceHost.mayWrite")((repo: RepoName, author: { readonly id: string; readonly login: string }) =>
      within(
        "read who may write",
        repo,
        withToken(api, repo, { metadata: "read" }, (access) => mayWrite(api, access, author))
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
    branch: Effect.fn("SourceHost.branch")((repo: RepoName, name: string) =>
      within(
        "read the branch",
        repo,
        // Without a name the address is that of all branches.
        name !== "" && isRefName(name)
          ? withToken(api, repo, CONTENTS, (access) => PullRequests.readBranch(api, access, name))
          : Effect.succeed(null)
      )
    ),
    ...pullRequestsOf(api, reads, held)
  })
})

/** Fails if the App's key cannot be parsed. The first request shows whether GitHub accepts it. */
export const layer = (options: GitHubApi.Options): Layer.Layer<SourceHost, SourceHostError> => Layer.effect(SourceHost, make(options))
