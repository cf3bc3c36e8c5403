/**
 * Caches the status of pull requests at their source host, with checks and comments, for pages. Hosts are slow: pages that need the same
 * pull request share one reading, a reading is kept for a while, and a page waits only a short time for it.
 */
import type { Principal } from "@slipway/domain/access/schema/Principal"
import { Publishing } from "@slipway/domain/publishing/usecases/Publishing"
import { publicationOf, type Sandbox } from "@slipway/domain/sandbox/rules/Sandbox"
import type { CommentWithText, PullRequestStatus } from "@slipway/domain/source/schema/PullRequest"
import type { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { LruCache } from "@slipway/domain/store/LruCache"
import { Clock, Context, Deferred, Duration, Effect, Layer, Option, Semaphore } from "effect"

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
/** Readings at a time, of all people together: hosts count them. */
const AT_A_TIME = 6

/** How long a reading holds for who looks at the one pull request. */
export const LOOKED_AT = Duration.seconds(20)
/** And for who looks at a list of them. */
export const LISTED = Duration.minutes(2)
/** Nothing is expected of what was merged or closed. */
const AT_REST = Duration.minutes(15)

/** Characters of all readings that are kept: of thousands of pull requests as people have them, or a hundred with long comments. */
const MAX_KEPT = 8 * 2 ** 20
/** Characters of a check or a comment beside its text, roughly. */
const ITEM_CHARACTERS = 500

interface Known {
  readonly version: string
  readonly found: CachedPullRequest | "silent"
  readonly atMillis: number
  readonly characters: number
}

const charactersOf = (found: CachedPullRequest | "silent"): number => {
  if (found === "silent") return ITEM_CHARACTERS
  const { checkRuns, runs } = found.status.checks
  return found.comments.reduce((sum, { text }) => sum + text.length, 0) +
    ITEM_CHARACTERS * (1 + checkRuns.length + runs.length + found.comments.length)
}

/** While it is the same, nothing that the sandbox knows of happened to the pull request. */
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
      const known = new LruCache<string, Known>(MAX_KEPT, ({ characters }) => characters)
      const underWay = new Map<string, Deferred.Deferred<CachedPullRequest | "silent">>()

      const ask = (by: Principal, { id }: Sandbox, repo: RepoName): Effect.Effect<CachedPullRequest | "silent"> =>
        publishing.statusWithComments(by, id, repo).pipe(
          Effect.map(({ comments, status }): CachedPullRequest => ({
            status: { ...status, comments: [] },
            comments: comments.slice(-MAX_COMMENTS),
            commentCount: comments.length
          })),
          Effect.timeout(LONGEST),
          // Whatever is wrong with the host is told in its place.
          Effect.orElseSucceed(() => "silent" as const)
        )

      const read = Effect.fnUntraced(function*(by: Principal, sandbox: Sandbox, repo: RepoName, holds: Duration.Duration) {
        const pull = `${sandbox.id} ${repo}`
        const version = versionOf(sandbox, repo)
        const last = known.get(pull)
        const now = yield* Clock.currentTimeMillis
        if (last?.version === version) {
          const isAtRest = last.found !== "silent" && last.found.status.pullRequest?.state === "closed"
          if (now - last.atMillis < Duration.toMillis(isAtRest ? AT_REST : holds)) return last.found
        }
        const others = underWay.get(`${pull} ${version}`)
        if (others !== undefined) return yield* Deferred.await(others)
        const reading = yield* Deferred.make<CachedPullRequest | "silent">()
        underWay.set(`${pull} ${version}`, reading)
        // It goes on for the others when who asked first has left.
        yield* permits.withPermit(ask(by, sandbox, repo)).pipe(
          Effect.tap((found) =>
            Effect.sync(() =>
              known.set(pull, {
                version: found === "silent" ? version : versionOnceRead(found),
                found,
                atMillis: now,
                characters: charactersOf(found)
              })
            )
          ),
          Effect.onExit((exit) => {
            underWay.delete(`${pull} ${version}`)
            return Deferred.done(reading, exit)
          }),
          Effect.forkIn(scope)
        )
        return yield* Deferred.await(reading)
      })

      return PullRequestCache.of({
        find: (by, sandbox, repo, { holds, patience }) =>
          Effect.map(
            Effect.timeoutOption(read(by, sandbox, repo, holds), patience),
            Option.getOrElse((): Found => known.get(`${sandbox.id} ${repo}`)?.found ?? "reading")
          )
      })
    })
  )
}
