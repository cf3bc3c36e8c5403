/** Runs operations with a token for one repository, and repeats them once with a new token if GitHub refuses it. */
import type { RepoNotAccessible, SourceHostError } from "@slipway/domain/source/ports/SourceHost"
import type { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { Clock, Duration, Effect } from "effect"
import * as GitHubApi from "./GitHubApi.ts"
import type { Access, GitHubFailed, Permissions, TokenRefused } from "./GitHubApi.ts"

/** Clients that wait for checks poll every few seconds, and GitHub's tags are valid for one token only. */
const HELD_FOR = Duration.minutes(5)
const MAXIMUM_HELD = 100

/** The permissions to read a pull request. */
export const READ: Permissions = { metadata: "read", pull_requests: "read" }
const OF_STATUS: Permissions = { checks: "read", actions: "read", issues: "read" }

export type Failure = GitHubFailed | RepoNotAccessible | SourceHostError | TokenRefused

/** Tokens in memory, by repository in lower case. */
export type HeldTokens = Map<string, { readonly access: Access; readonly untilMillis: number }>

/** Runs `self`. If the token was refused, runs `repeated` once: the token may have expired, or not be known everywhere yet. */
const again = <A>(self: Effect.Effect<A, Failure>, repeated: Effect.Effect<A, Failure>) =>
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

export const withToken = <A>(
  api: GitHubApi.GitHubApi,
  repo: RepoName,
  permissions: Permissions,
  use: (access: Access) => Effect.Effect<A, Failure>
) => {
  const attempt = Effect.flatMap(api.mint(repo, permissions), use)
  return again(attempt, attempt)
}

/** How long and how many tokens stay in memory. */
export interface Held {
  readonly for: Duration.Duration
  readonly most: number
}

const isMoved = (failure: Failure): boolean => failure._tag === "GitHubFailed" && failure.movedTo !== undefined

/** Like {@link withToken}, to read the state of pull requests. The token stays in memory for {@link HELD_FOR}, unless `limits` differ. */
export const withHeldToken = Effect.fnUntraced(function*<A>(
  api: GitHubApi.GitHubApi,
  held: HeldTokens,
  repo: RepoName,
  use: (access: Access) => Effect.Effect<A, Failure>,
  limits: Held = { for: HELD_FOR, most: MAXIMUM_HELD }
) {
  const key = repo.toLowerCase()
  const now = yield* Clock.currentTimeMillis
  const mint = Effect.tap(api.mint(repo, READ, OF_STATUS), (access) =>
    Effect.sync(() => {
      held.set(key, { access, untilMillis: now + Duration.toMillis(limits.for) })
      for (const [oldest, { untilMillis }] of held) if (untilMillis <= now || held.size > limits.most) held.delete(oldest)
    }))
  const afresh = Effect.suspend(() => {
    held.delete(key)
    return Effect.flatMap(mint, use)
  })
  const known = held.get(key)
  if (known === undefined || known.untilMillis <= now) return yield* again(afresh, afresh)
  // The installation may have lost the repository since, or it was renamed.
  return yield* again(
    Effect.catchIf(use(known.access), (error) => error._tag === "SourceHostError" || isMoved(error), () => afresh),
    afresh
  )
})
