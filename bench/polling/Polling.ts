/**
 * The cost of following pull requests without webhooks: the job of two workers over the adapter of GitHub, against the emulator of the
 * tests. Time passes in minutes of the job's clock, so that the row takes seconds; requests are counted where they arrive.
 */
import * as FollowedRepositoriesMemory from "@slipway/domain/memory/source/FollowedRepositoriesMemory"
import { HandleNews } from "@slipway/domain/publishing/usecases/HandleNews"
import { FollowedRepositories } from "@slipway/domain/source/ports/FollowedRepositories"
import { RepositoryNews } from "@slipway/domain/source/ports/RepositoryNews"
import { SourceHost } from "@slipway/domain/source/ports/SourceHost"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import * as RepositoryNewsGitHub from "@slipway/github/RepositoryNewsGitHub"
import * as SourceHostGitHub from "@slipway/github/SourceHostGitHub"
import * as GitHubServer from "@slipway/github/testing/GitHubServer"
import * as FollowRepositories from "@slipway/worker/jobs/FollowRepositories"
import { Clock, Context, DateTime, Effect, Layer, Redacted, References } from "effect"
import type { Measurement } from "../Measurement.ts"
import type { Options } from "../Rows.ts"

const WORKERS = 2
const PULLS = 10
const MINUTES = 5
const MINUTE = 60_000

/** The clock of this machine, so many minutes ahead. */
const ahead = (real: Clock.Clock, minutes: () => number): Clock.Clock => {
  const millis = () => real.currentTimeMillisUnsafe() + minutes() * MINUTE
  const nanos = () => real.currentTimeNanosUnsafe() + BigInt(minutes() * MINUTE) * 1_000_000n
  return {
    currentTimeMillisUnsafe: millis,
    currentTimeMillis: Effect.sync(millis),
    currentTimeNanosUnsafe: nanos,
    currentTimeNanos: Effect.sync(nanos),
    monotonicTimeNanosUnsafe: () => real.monotonicTimeNanosUnsafe(),
    monotonicTimeNanos: real.monotonicTimeNanos,
    sleep: (duration) => real.sleep(duration)
  }
}

/** A repository with open pull requests. */
const open = Effect.fnUntraced(function*(server: GitHubServer.GitHubServer, host: SourceHost["Service"], n: number) {
  const fullName = RepoName.make(`Acme/app-${n}`)
  const repository = yield* server.repository(fullName, { "README.md": "# App\n" })
  for (let i = 0; i < PULLS; i++) {
    const headRef = `slipway/${i}`
    const headSha = yield* Effect.promise(() => repository.commit(headRef, { [`${i}.txt`]: "x\n" }))
    yield* host.openDraftPullRequest(fullName, { title: "T", body: "", baseRef: "trunk", headRef, headSha, at: yield* DateTime.now })
  }
  return fullName
})

/** Polls everything that is due, as one worker does. */
const work = Effect.gen(function*() {
  const followed = yield* FollowedRepositories
  for (;;) {
    const claimed = yield* followed.claim(yield* DateTime.now, 16)
    if (claimed.length === 0) return
    yield* Effect.forEach(claimed, FollowRepositories.poll, { concurrency: 16, discard: true })
  }
})

/** Requests about repositories, by repository. */
const countsOf = (seen: ReadonlyArray<{ readonly url: string }>): ReadonlyMap<string, number> => {
  const counts = new Map<string, number>()
  for (const { url } of seen) {
    const [, repo] = /^\/repos\/([^/]+\/[^/?]+)\/(?!installation)/u.exec(url) ?? []
    if (repo !== undefined) counts.set(repo, (counts.get(repo) ?? 0) + 1)
  }
  return counts
}

const measureAll = Effect.fnUntraced(function*({ quick, say }: Options) {
  const repositories = quick ? 4 : 100
  const server = yield* GitHubServer.start({ readsBeforeMergeable: 0 })
  server.app.install("Acme")
  const options = { appId: String(server.app.appId), privateKey: Redacted.make(server.app.privateKey), apiUrl: server.apiUrl }
  const built = yield* Layer.build(
    Layer.mergeAll(SourceHostGitHub.layer(options), RepositoryNewsGitHub.layer(options), FollowedRepositoriesMemory.layer)
  )
  const [host, source, followed] = [
    Context.get(built, SourceHost),
    Context.get(built, RepositoryNews),
    Context.get(built, FollowedRepositories)
  ]
  const begun = yield* DateTime.now
  const follow = Effect.fnUntraced(function*(n: number) {
    yield* followed.follow(yield* open(server, host, n), "bench", begun)
    if (n % 10 === 9) say(`${n + 1} repositories with ${PULLS} open pull requests each`)
  })
  yield* Effect.forEach(Array.from({ length: repositories }, (_, n) => n), follow, { concurrency: 4, discard: true })
  const real = yield* Clock.Clock
  let minute = 1
  const most: Array<number> = []
  let [all, unchanged] = [0, 0]
  for (; minute <= MINUTES; minute++) {
    const before = server.requests.length
    // Tokens of the host have the time of this machine.
    const poll: typeof source.poll = (repo, from) => Effect.provideService(source.poll(repo, from), Clock.Clock, real)
    yield* Effect.all(Array.from({ length: WORKERS }, () => work), { concurrency: WORKERS, discard: true }).pipe(
      Effect.provideService(RepositoryNews, { ...source, poll }),
      Effect.provideService(FollowedRepositories, followed),
      Effect.provideService(HandleNews, HandleNews.of({ polled: () => Effect.void, sent: () => Effect.void })),
      Effect.provideService(Clock.Clock, ahead(real, () => minute))
    )
    const seen = server.requests.slice(before)
    const counts = countsOf(seen)
    if (counts.size < repositories) return yield* Effect.die(`${counts.size} of ${repositories} repositories were asked for`)
    most.push(Math.max(...counts.values()))
    all += Array.from(counts.values()).reduce((sum, count) => sum + count, 0)
    unchanged += seen.filter(({ status }) => status === 304).length
  }
  const row: Measurement = {
    id: "polling-requests",
    what: `requests for ${repositories * PULLS} open pull requests of ${repositories} repositories: the most for one of them in a minute`,
    unit: "a minute",
    better: "lower",
    ours: { name: `${WORKERS} workers`, samples: most },
    theirs: null,
    reach: { most: 1 },
    notes: { "requests in all": all, "of them unchanged (304)": unchanged }
  }
  return [row]
})

export const measure = (options: Options): Promise<ReadonlyArray<Measurement>> =>
  measureAll(options).pipe(Effect.scoped, Effect.provideService(References.MinimumLogLevel, "Warn"), Effect.runPromise)
