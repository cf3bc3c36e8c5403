/**
 * Asks the source host for the news of followed repositories, each at most once a minute. Any number of workers may do it: each poll
 * claims its repository. News are handled before the cursor is stored, so a worker that dies loses none: another one asks again.
 */
import { counters } from "@slipway/domain/observability/Metrics"
import { HandleNews } from "@slipway/domain/publishing/usecases/HandleNews"
import { type ClaimedRepository, FollowedRepositories } from "@slipway/domain/source/ports/FollowedRepositories"
import { RepositoryNews } from "@slipway/domain/source/ports/RepositoryNews"
import type { SourceHostError } from "@slipway/domain/source/ports/SourceHost"
import type { News } from "@slipway/domain/source/ports/SourceHostEvents"
import { Cause, DateTime, Duration, Effect, Layer, Option } from "effect"
import { Timing } from "../shared/Timing.ts"

/** Polls of one worker at a time, which mostly wait for the host. */
const CONCURRENCY = 16
const INTERVAL = Duration.minutes(1)
/** Where the host sends news by itself, polls find those that were lost on the way. */
const INTERVAL_WHERE_HEARD = Duration.minutes(10)
/** A host that sent nothing for so long may have stopped sending. */
const HEARD_FOR = Duration.days(1)
const LONGEST_WAIT = Duration.hours(1)
/** Below the time of a claim. */
const LONGEST_POLL = Duration.minutes(4)
/** The news of one poll are given up after so many failures: later ones must not wait for them forever. */
const MAXIMUM_FAILURES = 5

/** Each poll is one request for news. `unchanged`: the host had nothing new, which costs none of its rate limit. */
const polls = counters(
  "slipway_source_polls_total",
  "Requests of this worker to the source host for the news of a repository, by what came of it.",
  "outcome",
  ["changed", "unchanged", "failed"]
)

/** After a failure: 1, 2, 4, … minutes, or longer if the host asked for it, at most an hour. */
const waitAfter = (failures: number, retryAfterSeconds = 0): Duration.Duration =>
  Duration.min(
    LONGEST_WAIT,
    Duration.max(Duration.seconds(retryAfterSeconds), Duration.times(INTERVAL, 2 ** Math.min(Math.max(failures - 1, 0), 10)))
  )

const intervalOf = ({ heardAt }: ClaimedRepository, pollAfterMillis: number, now: DateTime.Utc): Duration.Duration => {
  const isHeard = heardAt !== null && DateTime.isGreaterThan(DateTime.addDuration(heardAt, HEARD_FOR), now)
  return Duration.max(Duration.millis(pollAfterMillis), isHeard ? INTERVAL_WHERE_HEARD : INTERVAL)
}

/** The failure, if handling the news again may succeed; `null`: handled, or given up. */
const handle = Effect.fnUntraced(function*(news: News) {
  const { polled } = yield* HandleNews
  return yield* polled(news).pipe(
    Effect.as(null),
    Effect.catch((error) => {
      if (error._tag === "StoreUnavailable" || error._tag === "SourceHostError" && error.retryable) return Effect.succeed(error)
      return Effect.as(Effect.logWarning("news of a repository could not be handled", { news: news._tag, reason: error.message }), null)
    }),
    Effect.catchCauseIf(
      (cause) => !Cause.hasInterruptsOnly(cause),
      (cause) => Effect.as(Effect.logError("handling news of a repository failed", cause), null)
    )
  )
})

const retryAfterOf = (error: { readonly _tag: string }): number =>
  error._tag === "SourceHostError" ? (error as SourceHostError).retryAfter ?? 0 : 0

/** One poll, and everything that its news begin. */
export const poll = Effect.fn("FollowRepositories.poll")(function*(claimed: ClaimedRepository) {
  const followed = yield* FollowedRepositories
  const source = yield* RepositoryNews
  const { cursor, followedAt: since, repo } = claimed
  const again = Effect.fnUntraced(function*(error: { readonly _tag: string; readonly message: string }) {
    const failures = claimed.failures + 1
    const wait = waitAfter(failures, retryAfterOf(error))
    yield* Effect.logInfo("the news of a repository are asked for later", { wait: Duration.format(wait), reason: error.message })
    const dueAt = DateTime.addDuration(yield* DateTime.now, wait)
    yield* followed.record(claimed, { cursor, failures, dueAt, presentName: repo })
  })

  const polled = yield* Effect.result(source.poll(repo, { cursor, since }))
  if (polled._tag === "Failure") {
    yield* polls.add("failed")
    return yield* again(polled.failure)
  }
  const { isUnchanged, news, pollAfterMillis, presentName } = polled.success
  yield* polls.add(isUnchanged ? "unchanged" : "changed")
  const failed = (yield* Effect.forEach(news, handle)).find((error) => error !== null)
  if (failed != null && claimed.failures < MAXIMUM_FAILURES) return yield* again(failed)
  if (failed != null) yield* Effect.logWarning("news of a repository are given up", { reason: failed.message })
  const now = yield* DateTime.now
  const dueAt = DateTime.addDuration(now, intervalOf(claimed, pollAfterMillis, now))
  yield* followed.record(claimed, { cursor: polled.success.cursor, failures: 0, dueAt, presentName })
})

/** Logs a failure. A claimed repository is polled again after the time of the claim. */
const surviving = <A, E, R>(self: Effect.Effect<A, E, R>) =>
  self.pipe(
    Effect.tapCause((cause) => Cause.hasInterruptsOnly(cause) ? Effect.void : Effect.logWarning("following repositories failed", cause)),
    Effect.ignoreCause
  )

/** Runs until the scope closes. Does nothing if the source host cannot be asked for news. */
export const start = Effect.fn("FollowRepositories.start")(function*() {
  yield* polls.declare
  const source = yield* Effect.serviceOption(RepositoryNews)
  if (Option.isNone(source)) return
  const followed = yield* FollowedRepositories
  const { tick } = yield* Timing
  const scope = yield* Effect.scope
  let free = CONCURRENCY
  const look = Effect.gen(function*() {
    if (free === 0) return
    for (const claimed of yield* followed.claim(yield* DateTime.now, free)) {
      free--
      yield* poll(claimed).pipe(
        Effect.timeout(LONGEST_POLL),
        surviving,
        Effect.ensuring(Effect.sync(() => void free++)),
        Effect.annotateLogs({ repo: claimed.repo }),
        Effect.provideService(RepositoryNews, source.value),
        Effect.forkIn(scope)
      )
    }
  }).pipe(surviving)
  yield* Effect.forkScoped(Effect.forever(Effect.andThen(look, Effect.sleep(tick))))
})

export const layer = Layer.effectDiscard(start())
