import { assert, it } from "@effect/vitest"
import { FeedbackWatches } from "@slipway/domain/publishing/ports/FeedbackWatches"
import { PublicAddress } from "@slipway/domain/publishing/rules/PullRequestText"
import { Feedback } from "@slipway/domain/publishing/usecases/Feedback"
import { publicationOf } from "@slipway/domain/sandbox/rules/Sandbox"
import { turnPending } from "@slipway/domain/sandbox/rules/Transition"
import { PullRequestFeedback } from "@slipway/domain/source/ports/PullRequestFeedback"
import { SourceHostError } from "@slipway/domain/source/ports/SourceHost"
import { SERVICE_AUTHOR } from "@slipway/domain/source/rules/FeedbackState"
import type { PullRequest } from "@slipway/domain/source/schema/PullRequest"
import { DateTime, Effect, Layer } from "effect"
import { TestClock } from "effect/testing"
import { followFeedback } from "../../src/jobs/FollowFeedback.ts"
import { all, askedBy, count, HEAD, id, layer, live, prompts, repo, world } from "./FeedbackWorld.ts"

it.effect("a comment becomes a turn of the service, is published, and gets one reply", () =>
  Effect.gen(function*() {
    const here = yield* world()
    yield* here.say("Rename it.")
    yield* live(here)
    const events = yield* here.events
    assert.deepStrictEqual(prompts(events).map(({ author }) => author?.id), ["user-1", SERVICE_AUTHOR])
    assert.include(prompts(events)[1]?.text ?? "", "> Rename it.")
    assert.strictEqual(count(events, "feedback.received"), 1)
    assert.strictEqual(count(events, "feedback.replied"), 1)
    assert.strictEqual(publicationOf(yield* here.sandbox, repo)?.actionState, "idle")
    assert.deepStrictEqual(here.memory.items(here.pull).map(({ author, body }) => [author.isBot, body.split(".")[0]]), [
      [false, "Rename it"],
      [true, "The agent is done with the comment of `maria`"]
    ])
    yield* here.say("And this.")
    yield* live(here)
    assert.strictEqual(count(yield* here.events, "feedback.received"), 2)
    assert.strictEqual(here.memory.items(here.pull).filter(({ author }) => author.isBot).length, 1)
  }).pipe(Effect.provide(layer)))

it.effect("a worker that is killed at any step leaves one turn, one publication and one reply", () =>
  Effect.gen(function*() {
    const steps = yield* Effect.gen(function*() {
      const here = yield* world()
      yield* here.say("Rename it.")
      return yield* live(here)
    }).pipe(Effect.provide(Layer.fresh(layer)))
    assert.isAbove(steps, 15)
    for (const when of ["before", "after"] as const) {
      for (let dies = 1; dies <= steps; dies++) {
        yield* Effect.gen(function*() {
          const here = yield* world()
          yield* here.say("Rename it.")
          yield* live(here, dies, when)
          const events = yield* here.events
          const found = [
            prompts(events).length,
            count(events, "feedback.received"),
            events.filter((event) => event.type === "pull_request.updated" && event.data.action_state === "updating").length,
            count(events, "feedback.replied"),
            here.memory.items(here.pull).filter(({ author }) => author.isBot).length
          ]
          assert.deepStrictEqual(found, [2, 1, 1, 1, 1], `killed ${when} call ${dies} of ${steps}`)
        }).pipe(Effect.provide(Layer.fresh(layer)))
      }
    }
  }))

it.effect("a reply links to the sandbox if the service has a public address", () =>
  Effect.gen(function*() {
    const here = yield* world()
    yield* here.say("Rename it.")
    yield* live(here).pipe(Effect.provideService(PublicAddress, "https://slipway.test"))
    const bodies = here.memory.items(here.pull).filter(({ author }) => author.isBot).map(({ body }) => body)
    assert.lengthOf(bodies, 1)
    assert.include(bodies[0], `[The sandbox](https://slipway.test/sandboxes/${id}) has the details.`)
  }).pipe(Effect.provide(layer)))

it.effect("waits as long as the host asks, and for the end of the active turn", () =>
  Effect.gen(function*() {
    const here = yield* world()
    const port = yield* PullRequestFeedback
    let isLimited = true
    const limited: PullRequestFeedback["Service"] = {
      ...port,
      read: (...args) =>
        isLimited
          ? Effect.fail(new SourceHostError({ operation: "read", detail: "Too many.", retryable: true, retryAfter: 600 }))
          : port.read(...args)
    }
    const feedback = Feedback.layer.pipe(Layer.provideMerge(Layer.succeed(PullRequestFeedback, limited)))
    const run = Effect.provide(followFeedback(), feedback)
    yield* here.say("Rename it.")
    yield* TestClock.adjust("2 minutes")
    yield* run
    isLimited = false
    yield* TestClock.adjust("9 minutes")
    yield* run
    assert.strictEqual(count(yield* here.events, "feedback.received"), 0)
    yield* here.change(() => [turnPending("m1", "Hi", "user-1")])
    yield* TestClock.adjust("2 minutes")
    yield* run
    assert.strictEqual(count(yield* here.events, "feedback.received"), 0)
    yield* here.work
    yield* run
    assert.strictEqual(count(yield* here.events, "feedback.received"), 1)
  }).pipe(Effect.provide(layer)))

it.effect("a person is heard among any number of strangers, about whom the host is asked once, and of 50 in one look", () =>
  Effect.gen(function*() {
    const here = yield* world()
    for (let i = 0; i < 120; i++) yield* here.say("Buy this.", false, `stranger-${i}`)
    yield* here.say("Rename it.")
    yield* TestClock.adjust("2 minutes")
    const asked = yield* askedBy(4)
    assert.deepStrictEqual(asked.map(({ length }) => length), [50, 50, 21, 0])
    assert.strictEqual(new Set(asked.flat()).size, 121)
    const text = prompts(yield* here.events)[1]?.text ?? ""
    assert.include(text, "> Rename it.")
    assert.notInclude(text, "Buy this.")
  }).pipe(Effect.provide(layer)))

it.effect("failing checks start rounds until there were enough, and a bot's comments start none", () =>
  Effect.gen(function*() {
    const here = yield* world({ ...all, comments: "all", rounds: 2 })
    const heads = () => [here.pull.headSha, "x"]
    yield* here.say("Coverage fell.", true)
    yield* live(here)
    assert.strictEqual(count(yield* here.events, "feedback.received"), 0)
    const pull: PullRequest = here.pull
    for (const sha of ["1", "2", "3", "4"]) {
      const at = yield* DateTime.now
      here.memory.checks.set(heads()[0] ?? "", {
        headSha: sha,
        state: "failed",
        at,
        failing: [{ name: "test", url: pull.url, summary: "no", annotations: [], log: "" }]
      })
      const watches = yield* FeedbackWatches
      yield* watches.noticed(repo, HEAD, at)
      yield* live(here)
    }
    const events = yield* here.events
    assert.deepStrictEqual([count(events, "feedback.received"), count(events, "feedback.paused")], [2, 1])
    assert.isTrue((yield* here.sandbox).feedback?.paused)
  }).pipe(Effect.provide(layer)))
