import { assert, it } from "@effect/vitest"
import * as FollowedRepositoriesMemory from "@slipway/domain/memory/source/FollowedRepositoriesMemory"
import { HandleNews } from "@slipway/domain/publishing/usecases/HandleNews"
import { Publishing } from "@slipway/domain/publishing/usecases/Publishing"
import { FollowedRepositories } from "@slipway/domain/source/ports/FollowedRepositories"
import { AutomationsListener, FeedbackListener, type HeardNews, type NewsListener } from "@slipway/domain/source/ports/NewsListeners"
import { SourceHost, SourceHostError } from "@slipway/domain/source/ports/SourceHost"
import type { News } from "@slipway/domain/source/ports/SourceHostEvents"
import { noChecks, type PullRequest } from "@slipway/domain/source/schema/PullRequest"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"

const repo = RepoName.make("acme/shop")
const renamed = RepoName.make("acme/store")
const at = DateTime.makeUnsafe("2026-11-21T02:41:00Z")
const pull: News = { _tag: "Pull", repo, branch: "feature", number: 3 }

const failure = new SourceHostError({ operation: "x", detail: "y", retryable: true })

/** The calls of the ports and listeners, in order. */
const world = (feedback: NewsListener = () => Effect.void) => {
  const heard: Array<string> = []
  const note = (who: string, { branch, repo }: { readonly branch?: string; readonly repo: string }) =>
    Effect.sync(() => void heard.push(`${who} ${repo}${branch === undefined ? "" : ` ${branch}`}`))
  const listener = (who: string, then: NewsListener): NewsListener => (news: HeardNews) => Effect.andThen(note(who, news), then(news))
  const layer = HandleNews.layer.pipe(
    Layer.provideMerge(FollowedRepositoriesMemory.layer),
    Layer.provide(Layer.mergeAll(
      Layer.mock(Publishing, { follow: (repo, branch) => note("publishing", { repo, branch }) }),
      Layer.mock(SourceHost, {
        names: ["test"],
        nameOf: () => Effect.succeed("test"),
        pullRequestDetails: (repo, number) =>
          Effect.as(note(`asked #${number}`, { repo }), {
            pullRequest: { headRef: "feature" } as PullRequest,
            checks: noChecks,
            comments: [],
            pending: false
          })
      }),
      Layer.succeed(FeedbackListener, listener("feedback", feedback)),
      Layer.succeed(AutomationsListener, listener("automations", () => Effect.void))
    ))
  )
  return { heard, layer }
}
const following = Effect.gen(function*() {
  yield* (yield* FollowedRepositories).follow(repo, "test", at)
  return yield* HandleNews
})

it.effect("news of an unfollowed repository only change its publications", () => {
  const { heard, layer } = world()
  return Effect.gen(function*() {
    const { sent } = yield* HandleNews
    yield* sent(pull)
    yield* sent({ ...pull, branch: null })
    yield* sent({ _tag: "Missed", repo })
    assert.deepStrictEqual(heard, ["publishing acme/shop feature"])
  }).pipe(Effect.provide(layer))
})

it.effect("everything that follows a repository hears of its news, by webhook or by polling", () => {
  const { heard, layer } = world()
  return Effect.gen(function*() {
    const { polled, sent } = yield* following
    yield* sent(pull)
    assert.deepStrictEqual(heard.splice(0), ["publishing acme/shop feature", "feedback acme/shop feature", "automations acme/shop feature"])
    yield* polled(pull)
    assert.deepStrictEqual(heard.splice(0), ["publishing acme/shop feature", "feedback acme/shop feature", "automations acme/shop feature"])
  }).pipe(Effect.provide(layer))
})

it.effect("the branch of a comment's pull request is asked for", () => {
  const { heard, layer } = world()
  return Effect.gen(function*() {
    const { sent } = yield* following
    yield* sent({ ...pull, branch: null })
    assert.deepStrictEqual(heard, ["asked #3 acme/shop", "feedback acme/shop feature", "automations acme/shop feature"])
  }).pipe(Effect.provide(layer))
})

it.effect("news of a renamed repository come by the name that is followed", () => {
  const { heard, layer } = world()
  return Effect.gen(function*() {
    const { sent } = yield* following
    yield* sent({ _tag: "Renamed", from: repo, repo: renamed })
    assert.deepStrictEqual(heard.splice(0), ["publishing", "feedback", "automations"].slice(1).map((who) => `${who} acme/shop`))
    yield* sent({ ...pull, repo: renamed })
    assert.deepStrictEqual(heard, [
      "publishing acme/store feature",
      "publishing acme/shop feature",
      "feedback acme/shop feature",
      "automations acme/shop feature"
    ])
  }).pipe(Effect.provide(layer))
})

it.effect("a listener that fails keeps no other from the news, and its failure is told", () => {
  const { heard, layer } = world(() => Effect.fail(failure))
  return Effect.gen(function*() {
    const { polled } = yield* following
    assert.strictEqual(yield* Effect.flip(polled(pull)), failure)
    assert.include(heard, "automations acme/shop feature")
  }).pipe(Effect.provide(layer))
})
