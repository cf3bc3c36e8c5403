/**
 * Caches the status of pull requests at their source host, with checks and comments, for pages. Hosts are slow: pages that need the same
 * pull request share one reading, a reading is kept for a while, and a page waits only a short time for it.
 */
import type { Principal } from "@slipway/domain/access/schema/Principal"
import { Publishing } from "@slipway/domain/publishing/usecases/Publishing"
import { publicationOf, type Sandbox } from "@slipway/domain/sandbox/rules/Sandbox"
import type { CommentWithText, PullRequestStatus } from "@slipway/domain/source/schema/PullRequest"
import type { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { Context, Duration, Effect, Layer, Option, Semaphore } from "effect"
import * as SharedReadings from "./SharedReadings.ts"

/** Newest comments of a pull request that pages have; its own page has the rest. */
const MAX_COMMENTS = 20

export interface CachedPullRequest {
  readonly status: PullRequestStatus
  /** The newest {@link MAX_COMMENTS}, oldest first. */
  readonly comments: ReadonlyArray<CommentWithText>
  readonly commentCount: number
}

/** `reading`: the first reading is under way. `silent`: the source host does not answer now. */
export type Found = CachedPullRequest | "reading" | "silent"

/** Timeout of a reading. */
const LONGEST = Duration.seconds(15)
/** Concurrent readings of the whole process, because hosts limit them. */
const AT_A_TIME = 6

/** Lifetime of a reading for a page that shows this pull request. */
export const LOOKED_AT = Duration.seconds(20)
/** Lifetime for a list of pull requests. */
export const LISTED = Duration.minutes(2)
/** Lifetime for merged and closed pull requests, which rarely change. */
const AT_REST = Duration.minutes(15)

/** Characters of all kept readings: thousands of usual pull requests, or a hundred with long comments. */
const MAX_KEPT = 8 * 2 ** 20
/** Characters of a check or a comment beside its text, roughly. */
const ITEM_CHARACTERS = 500

const charactersOf = (found: CachedPullRequest | "silent"): number => {
  if (found === "silent") return ITEM_CHARACTERS
  const { checkRuns, runs } = found.status.checks
  return found.comments.reduce((sum, { text }) => sum + text.length, 0) +
    ITEM_CHARACTERS * (1 + checkRuns.length + runs.length + found.comments.length)
}

/** The state of the pull request as the sandbox knows it: while this is the same, a reading stays valid. */
const versionOf = (sandbox: Sandbox, repo: RepoName): string => {
  const { actionState, headSha, merged, number, state } = publicationOf(sandbox, repo) ?? {}
  return [number, actionState, headSha, state, merged].join(" ")
}

/** The version after a reading: a reading updates the sandbox. */
const versionOnceRead = ({ status: { actionState, pullRequest } }: CachedPullRequest): string =>
  [pullRequest?.number, actionState, pullRequest?.headSha, pullRequest?.state, pullRequest?.merged].join(" ")

export class PullRequestCache extends Context.Service<PullRequestCache, {
  /**
   * The pull request as read within `patience` or, if that takes longer, as read last. The caller must be allowed to see `sandbox`.
   * `holds`: a reading of this age or younger is not repeated.
   */
  find(
    by: Principal,
    sandbox: Sandbox,
    repo: RepoName,
    options: { readonly holds: Duration.Duration; readonly patience: Duration.Duration }
  ): Effect.Effect<Found>
}>()("@slipway/pages/PullRequestCache") {
  static readonly layer = Layer.effect(
    PullRequestCache,
    Effect.gen(function*() {
      const publishing = yield* Publishing
      const scope = yield* Effect.scope
      const permits = yield* Semaphore.make(AT_A_TIME)
      const readings = SharedReadings.make(MAX_KEPT, charactersOf, scope)
      const keyOf = ({ id }: Sandbox, repo: RepoName) => `${id} ${repo}`

      const ask = (by: Principal, { id }: Sandbox, repo: RepoName): Effect.Effect<CachedPullRequest | "silent"> =>
        publishing.statusWithComments(by, id, repo).pipe(
          Effect.map(({ comments, status }): CachedPullRequest => ({
            status: { ...status, comments: [] },
            comments: comments.slice(-MAX_COMMENTS),
            commentCount: comments.length
          })),
          Effect.timeout(LONGEST),
          // The page shows "silent" for every error of the host.
          Effect.orElseSucceed(() => "silent" as const)
        )

      const read = (by: Principal, sandbox: Sandbox, repo: RepoName, holds: Duration.Duration) => {
        const version = versionOf(sandbox, repo)
        return readings.read({
          key: keyOf(sandbox, repo),
          state: version,
          isFresh: (last, ageMillis) => {
            const isAtRest = last.found !== "silent" && last.found.status.pullRequest?.state === "closed"
            return last.version === version && ageMillis < Duration.toMillis(isAtRest ? AT_REST : holds)
          },
          versionOf: (found) => found === "silent" ? version : versionOnceRead(found),
          find: permits.withPermit(ask(by, sandbox, repo))
        })
      }

      return PullRequestCache.of({
        find: (by, sandbox, repo, { holds, patience }) =>
          Effect.map(
            Effect.timeoutOption(read(by, sandbox, repo, holds), patience),
            Option.getOrElse((): Found => readings.last(keyOf(sandbox, repo))?.found ?? "reading")
          )
      })
    })
  )
}
