/**
 * `SourceHost` on Forgejo and Gitea with access tokens. A request that may have taken effect is not repeated: the caller looks for the
 * pull request before it opens one.
 */
import { pageOfNames, RepoNotAccessible, type RepositoryQuery, SourceHost, SourceHostError } from "@slipway/domain/source/ports/SourceHost"
import type { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { accountOf, repositoryAt } from "@slipway/domain/source/schema/SubmoduleAddress"
import { onStatus } from "@slipway/rest-host/RestApi"
import { within } from "@slipway/rest-host/Within"
import { Cache, Duration, Effect, Exit, Layer, Redacted } from "effect"
import * as Answers from "./Answers.ts"
import * as ForgejoApi from "./ForgejoApi.ts"
import { placeOf } from "./ForgejoApi.ts"
import * as PullRequests from "./PullRequests.ts"
import * as Refusals from "./Refusals.ts"

export type { Options } from "./ForgejoApi.ts"

/** How long the list of repositories is used. */
const LISTED_FOR = Duration.minutes(5)
/** After a failure, further requests (one per key press) wait this long. */
const FAILED_FOR = Duration.seconds(5)

const MAY_WRITE: ReadonlySet<string> = new Set(["owner", "admin", "write"])

/** A 404 is about the account, if the repository is there. */
const mayWrite = Effect.fnUntraced(function*(
  api: ForgejoApi.ForgejoApi,
  repo: RepoName,
  { id, login }: { readonly id: string; readonly login: string }
) {
  const place = placeOf(repo)
  return yield* api.get(place, `/collaborators/${encodeURIComponent(login)}/permission`, Answers.Permission).pipe(
    // A login can pass to another account.
    Effect.map(({ permission, user }) => String(user?.id) === id && MAY_WRITE.has(permission)),
    onStatus(404, () => api.absent(place, Effect.succeed(false))),
    onStatus(403, ({ detail }) => {
      const advice =
        `Only an administrator of a repository may ask who can write to it. Make the token's account an administrator of ${place.name}.`
      return Effect.fail(new SourceHostError({ operation: "read who may write", detail: `${detail} ${advice}`, retryable: false }))
    })
  )
})

/** The server says whether the account may push, so that a push that would be refused is not begun. */
const remote = Effect.fnUntraced(function*(api: ForgejoApi.ForgejoApi, repo: RepoName, access: "read" | "write") {
  const place = placeOf(repo)
  const { full_name: fullName, permissions } = yield* api.repository(place)
  if (access === "write" && permissions?.push === false) {
    const detail = `The token's account may not push to ${fullName}. Add it to the repository with the right to write.`
    return yield* new SourceHostError({ operation: "push", detail, retryable: false })
  }
  const token = yield* api.token(place.name)
  return {
    url: `${api.webUrl}/${fullName}.git`,
    // The server takes a token as the password of any login.
    authorization: Redacted.make(`Basic ${Buffer.from(`x-access-token:${Redacted.value(token)}`).toString("base64")}`)
  }
})

/** The path of an address below the path of the server's address. */
const addressAt = ({ name, webUrl }: ForgejoApi.ForgejoApi, address: string): RepoName | null => {
  const { pathname } = new URL(webUrl)
  if (pathname === "/") return repositoryAt(address, name)
  // Addresses of ssh have no such path.
  if (!/^https?:/u.test(address)) return repositoryAt(address, name)
  return URL.canParse(address) && new URL(address).pathname.startsWith(`${pathname}/`)
    ? repositoryAt(address.replace(`${new URL(address).host}${pathname}/`, `${new URL(address).host}/`), name)
    : null
}

const pullRequestsOf = (
  api: ForgejoApi.ForgejoApi
): Omit<
  SourceHost["Service"],
  "mayWrite" | "nameOf" | "names" | "refusal" | "remote" | "repositories" | "repository" | "repositoryAt"
> => ({
  branch: Effect.fn("SourceHost.branch")((repo: RepoName, name: string) =>
    within("read the branch", repo, PullRequests.readBranch(api, placeOf(repo), name))
  ),
  pullRequestSource: Effect.fn("SourceHost.pullRequestSource")((repo: RepoName, number: number) =>
    within("read the pull request", repo, PullRequests.readSource(api, placeOf(repo), number))
  ),
  openPullRequests: Effect.fn("SourceHost.openPullRequests")((repo: RepoName) =>
    within("list pull requests", repo, PullRequests.listOpen(api, placeOf(repo)))
  ),
  findOpenPullRequest: Effect.fn("SourceHost.findOpenPullRequest")((repo: RepoName, headRef: string) =>
    within("find the pull request", repo, PullRequests.findOpen(api, placeOf(repo), headRef))
  ),
  openDraftPullRequest: Effect.fn("SourceHost.openDraftPullRequest")((repo, draft) => {
    const operation = "open the pull request"
    return within(operation, repo, PullRequests.openDraft(api, operation, placeOf(repo), draft))
  }),
  pullRequestPushed: Effect.fn("SourceHost.pullRequestPushed")((repo, number, { headSha }) => {
    const operation = "update the pull request"
    return within(
      operation,
      repo,
      Effect.map(PullRequests.readPull(api, operation, placeOf(repo), number), (pull) => {
        const pullRequest = Answers.toPullRequest(pull)
        // The server may notice a push a moment later.
        return pull.state === "open" ? { ...pullRequest, headSha } : pullRequest
      })
    )
  }),
  decoratePullRequest: Effect.fn("SourceHost.decoratePullRequest")((repo, number, decoration) => {
    const operation = "update the pull request"
    return within(operation, repo, PullRequests.decorate(api, operation, placeOf(repo), number, decoration))
  }),
  readyPullRequest: Effect.fn("SourceHost.readyPullRequest")((repo, number) => {
    const operation = "end the draft"
    return within(operation, repo, PullRequests.markReady(api, operation, placeOf(repo), number))
  }),
  pullRequestDetails: Effect.fn("SourceHost.pullRequestDetails")((repo: RepoName, number: number) => {
    const operation = "read the pull request"
    return within(operation, repo, PullRequests.readDetails(api, operation, placeOf(repo), number))
  })
})

const make = Effect.fnUntraced(function*(options: ForgejoApi.Options) {
  const api = yield* ForgejoApi.make(options)
  const refusals = yield* Refusals.make(api)
  const listed = yield* Cache.makeWith(() => api.repositories, {
    capacity: 1,
    timeToLive: (exit) => Exit.isSuccess(exit) ? LISTED_FOR : FAILED_FOR
  })

  return SourceHost.of({
    names: [api.name],
    nameOf: () => Effect.succeed(api.name),
    refusal: Effect.fn("SourceHost.refusal")(function*(repos: ReadonlyArray<RepoName>) {
      const repo = yield* refusals.missing(repos)
      return repo === null
        ? null
        : new RepoNotAccessible({ repo, advice: `Add the token's account of ${api.name} to it, or check its name.` })
    }),
    repositories: Effect.fn("SourceHost.repositories")(function*(query: RepositoryQuery) {
      const operation = "list repositories"
      const names = yield* Effect.mapError(Cache.get(listed, "all"), (failure) =>
        failure._tag === "SourceHostError"
          ? failure
          : new SourceHostError({ operation, detail: failure.message, retryable: failure._tag === "RestFailed" && failure.retryable }))
      return pageOfNames(names.filter((name) => query.owners.includes(accountOf(name))), query)
    }),
    repository: Effect.fn("SourceHost.repository")((repo: RepoName) =>
      within(
        "read the repository",
        repo,
        Effect.map(
          api.repository(placeOf(repo)),
          ({ default_branch, full_name }) => ({ fullName: full_name, defaultBranch: default_branch })
        )
      )
    ),
    repositoryAt: (address) => Effect.succeed(addressAt(api, address)),
    mayWrite: Effect.fn("SourceHost.mayWrite")((repo: RepoName, author: { readonly id: string; readonly login: string }) =>
      within("read who may write", repo, mayWrite(api, repo, author))
    ),
    remote: Effect.fn("SourceHost.remote")((repo: RepoName, access: "read" | "write") =>
      within(access === "read" ? "read the repository" : "push", repo, remote(api, repo, access))
    ),
    ...pullRequestsOf(api)
  })
})

/** Fails if the address cannot be used. The first request shows whether the server accepts the token. */
export const layer = (options: ForgejoApi.Options): Layer.Layer<SourceHost, SourceHostError> => Layer.effect(SourceHost, make(options))
