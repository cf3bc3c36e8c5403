import { assert, it } from "@effect/vitest"
import * as FollowedRepositoriesMemory from "@slipway/domain/memory/source/FollowedRepositoriesMemory"
import { HandleNews } from "@slipway/domain/publishing/usecases/HandleNews"
import { FollowedRepositories } from "@slipway/domain/source/ports/FollowedRepositories"
import { RepositoryNews } from "@slipway/domain/source/ports/RepositoryNews"
import { RepoNotAccessible, SourceHostError } from "@slipway/domain/source/ports/SourceHost"
import type { News } from "@slipway/domain/source/ports/SourceHostEvents"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { StoreUnavailable } from "@slipway/domain/store/StoreUnavailable"
import { Clock, DateTime, Duration, Effect, Layer, Metric, Scope, Exit } from "effect"
import { TestClock } from "effect/testing"
import * as FollowRepositories from "../../src/jobs/FollowRepositories.ts"

const repo = RepoName.make("acme/shop")
const pull: News = { _tag: "Pull", repo, branch: "slipway/x", number: 1 }

type Poll = RepositoryNews["Service"]["poll"]
type Handle = HandleNews["Service"]["polled"]

/** A host that counts polls, in minutes of the test, and a handler that counts news. */
const world = (options: { readonly poll?: (minute: number) => ReturnType<Poll>; readonly handle?: Handle } = {}) => {
  const polls: Array<{ readonly repo: RepoName; readonly millis: number; readonly cursor: string | null }> = []
  const handled: Array<News> = []
  const source = Layer.succeed(RepositoryNews, {
    poll: (repo, { cursor }) =>
      Effect.flatMap(Clock.currentTimeMillis, (millis) => {
        polls.push({ repo, millis, cursor })
        return options.poll?.(millis / 60_000) ?? Effect.succeed({
          news: [],
          cursor: `${polls.length}`,
          pollAfterMillis: 60_000,
          isUnchanged: true,
          presentName: repo
        })
      })
  })
  const handle = Layer.mock(HandleNews, {
    polled: (news) => Effect.tap(options.handle?.(news) ?? Effect.void, () => Effect.sync(() => void handled.push(news)))
  })
  const layer = Layer.mergeAll(source, handle, FollowedRepositoriesMemory.layer)
  const minutes = () => polls.map(({ millis }) => millis / 60_000)
  return { polls, handled, layer, minutes }
}

const answer = (news: ReadonlyArray<News>, cursor: string, pollAfterMillis = 60_000) =>
  Effect.succeed({ news, cursor, pollAfterMillis, isUnchanged: false, presentName: repo })

const follow = Effect.fnUntraced(function*(name: RepoName = repo) {
  yield* (yield* FollowedRepositories).follow(name, "test", yield* DateTime.now)
})

/** The clock moves in steps, so that every look of the job is made. */
const pass = (minutes: number) =>
  Effect.forEach(Array.from({ length: minutes * 4 }), () => TestClock.adjust("15 seconds"), { discard: true })

it.effect("asks at once, and then each minute from where it was", () => {
  const { layer, minutes, polls } = world()
  return Effect.gen(function*() {
    yield* FollowRepositories.start()
    yield* follow()
    yield* pass(3)
    assert.isAtLeast(polls.length, 3)
    for (const [i, at] of minutes().entries()) assert.isAtLeast(at - (minutes()[i - 1] ?? -1), 1)
    assert.deepStrictEqual(polls.slice(0, 3).map(({ cursor }) => cursor), [null, "1", "2"])
  }).pipe(Effect.scoped, Effect.provide(layer))
})

it.effect("several workers ask for 100 repositories with 1,000 pull requests at most once a minute each", () => {
  const { handled, layer, polls } = world({
    poll: (minute) => answer(Array.from({ length: 10 }, (_, i) => ({ ...pull, number: i })), `${minute}`)
  })
  return Effect.gen(function*() {
    const names = Array.from({ length: 100 }, (_, i) => RepoName.make(`acme/shop-${i}`))
    yield* Effect.forEach(names, follow)
    for (const _ of [1, 2, 3]) yield* FollowRepositories.start()
    yield* pass(5)
    for (const name of names) {
      const times = polls.filter(({ repo }) => repo === name).map(({ millis }) => millis)
      assert.isAtLeast(times.length, 4, name)
      for (const [i, at] of times.slice(1).entries()) assert.isAtLeast(at - (times[i] ?? 0), 60_000, name)
    }
    assert.strictEqual(handled.length, polls.length * 10)
  }).pipe(Effect.scoped, Effect.provide(layer))
})

it.effect("waits as long as the host asks for", () => {
  const { layer, minutes } = world({ poll: () => answer([], "c", 180_000) })
  return Effect.gen(function*() {
    yield* follow()
    yield* FollowRepositories.start()
    yield* pass(7)
    assert.lengthOf(minutes(), 3)
  }).pipe(Effect.scoped, Effect.provide(layer))
})

it.effect("asks each ten minutes only while the host sends news by itself", () => {
  const { layer, polls } = world()
  return Effect.gen(function*() {
    yield* follow()
    // The host sends nothing more, which counts for a day: 25 minutes from now.
    yield* (yield* FollowedRepositories).heard(repo, DateTime.subtract(yield* DateTime.now, { hours: 23, minutes: 35 }))
    yield* FollowRepositories.start()
    yield* pass(25)
    assert.lengthOf(polls, 3)
    yield* pass(15)
    assert.isAtLeast(polls.length, 10)
  }).pipe(Effect.scoped, Effect.provide(layer))
})

it.effect("keeps the cursor until its news are handled", () => {
  let fails = true
  const { handled, layer, polls } = world({
    poll: () => answer([pull], "next"),
    handle: () => fails ? Effect.fail(new StoreUnavailable({ cause: "down" })) : Effect.void
  })
  return Effect.gen(function*() {
    yield* follow()
    yield* FollowRepositories.start()
    yield* pass(4)
    assert.deepStrictEqual([...new Set(polls.map(({ cursor }) => cursor))], [null])
    assert.deepStrictEqual(handled, [])
    fails = false
    yield* pass(6)
    assert.deepInclude(handled, pull)
    assert.strictEqual(polls.at(-1)?.cursor, "next")
  }).pipe(Effect.scoped, Effect.provide(layer))
})

it.effect("gives up news that failed again and again, so that later ones come", () => {
  const { layer, polls } = world({
    poll: () => answer([pull], "next"),
    handle: () => Effect.fail(new StoreUnavailable({ cause: "down" }))
  })
  return Effect.gen(function*() {
    yield* follow()
    yield* FollowRepositories.start()
    // Polls after 0, 1, 3, 7, 15 and 31 minutes.
    yield* pass(33)
    assert.deepStrictEqual(polls.slice(0, 6).map(({ cursor }) => cursor), [null, null, null, null, null, null])
    assert.strictEqual(polls[6]?.cursor, "next")
  }).pipe(Effect.scoped, Effect.provide(layer))
})

it.effect("goes on after news that no retry helps", () => {
  const { layer, polls } = world({
    poll: (minute) => answer([pull], `${minute}`),
    handle: () => Effect.fail(new RepoNotAccessible({ repo }))
  })
  return Effect.gen(function*() {
    yield* follow()
    yield* FollowRepositories.start()
    yield* pass(3)
    assert.isAtLeast(new Set(polls.map(({ cursor }) => cursor)).size, 3)
  }).pipe(Effect.scoped, Effect.provide(layer))
})

it.effect("counts its requests by what came of them", () => {
  const limit = new SourceHostError({ operation: "x", detail: "y", retryable: true })
  const { layer, polls } = world({
    poll: (minute) =>
      minute < 1
        ? answer([pull], "a")
        : minute < 2
        ? Effect.fail(limit)
        : Effect.map(answer([], "a"), (one) => ({ ...one, isUnchanged: true }))
  })
  return Effect.gen(function*() {
    yield* FollowRepositories.start()
    yield* follow()
    yield* pass(5)
    const counted = (yield* Metric.snapshot).flatMap(({ attributes, id, state }) =>
      id === "slipway_source_polls_total" ? [[attributes?.["outcome"], "count" in state ? Number(state.count) : null]] : []
    )
    assert.deepStrictEqual(Object.fromEntries(counted), { changed: 1, failed: 1, unchanged: polls.length - 2 })
    assert.isAbove(polls.length, 3)
  }).pipe(Effect.scoped, Effect.provide(layer), Effect.provideService(Metric.MetricRegistry, new Map()))
})

it.effect("asks ever less often for a repository that is gone, and as late as a rate limit says", () => {
  const gone = world({ poll: () => Effect.fail(new RepoNotAccessible({ repo })) })
  const limited = world({
    poll: () => Effect.fail(new SourceHostError({ operation: "x", detail: "y", retryable: true, retryAfter: 1800 }))
  })
  const run = (layer: typeof gone.layer) =>
    Effect.gen(function*() {
      yield* follow()
      yield* FollowRepositories.start()
      yield* pass(70)
    }).pipe(Effect.scoped, Effect.provide(layer))
  return Effect.gen(function*() {
    yield* run(gone.layer)
    // After 0, 1, 3, 7, 15, 31 and 63 minutes.
    assert.lengthOf(gone.polls, 7)
    yield* run(limited.layer)
    assert.lengthOf(limited.polls, 3)
  })
})

it.effect("a worker that ends in the middle loses nothing: another one asks again from the same place", () => {
  let hangs = true
  const { handled, layer, polls } = world({
    poll: () => answer([pull], "next"),
    handle: () => hangs ? Effect.never : Effect.void
  })
  return Effect.gen(function*() {
    yield* follow()
    const first = yield* Scope.make()
    yield* FollowRepositories.start().pipe(Scope.provide(first))
    yield* pass(1)
    assert.lengthOf(polls, 1)
    yield* Scope.close(first, Exit.void)
    hangs = false
    yield* FollowRepositories.start()
    yield* pass(3)
    assert.lengthOf(polls, 1)
    yield* pass(Duration.toMinutes("3 minutes"))
    assert.isAtLeast(polls.length, 2)
    assert.isNull(polls[1]?.cursor)
    assert.deepInclude(handled, pull)
  }).pipe(Effect.scoped, Effect.provide(layer))
})
