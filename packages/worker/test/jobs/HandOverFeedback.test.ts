/** Feedback on the pull requests of finished sandboxes (docs/decisions/24). */
import { assert, it } from "@effect/vitest"
import type { Principal } from "@slipway/domain/access/schema/Principal"
import { ModelCatalogue, offlineDemo } from "@slipway/domain/models/schema/ModelCatalogue"
import { FeedbackWatches } from "@slipway/domain/publishing/ports/FeedbackWatches"
import { Feedback } from "@slipway/domain/publishing/usecases/Feedback"
import { SERVICE_AUTHOR } from "@slipway/domain/source/rules/FeedbackState"
import { DateTime, Effect, Layer } from "effect"
import { count, HEAD, id, layer, live, look, prompts, repo, world } from "./FeedbackWorld.ts"

const principal: Omit<Principal, "grantId" | "userId"> = {
  credential: { _tag: "Key", keyId: "key" },
  organizationId: "",
  scopes: new Set(["sandboxes"]),
  test: false
}
const replies = (here: Effect.Success<ReturnType<typeof world>>) => here.memory.items(here.pull).filter(({ author }) => author.isBot).length

it.effect("a comment on the pull request of a finished sandbox is the first message of a new one, which goes on with the branch", () =>
  Effect.gen(function*() {
    const here = yield* world()
    const before = yield* here.sandbox
    yield* here.finish()
    yield* here.say("Rename it.")
    yield* live(here)
    const [made, ...others] = yield* here.successors
    assert.deepStrictEqual(others, [])
    assert.isDefined(made)
    const { createdBy, grantId, metadata, model, title, toolApprovalMode } = before
    assert.deepInclude(made, { createdBy, grantId, metadata, model, title, toolApprovalMode })
    const log = yield* here.eventsOf(made.id)
    assert.deepStrictEqual(log.find(({ type }) => type === "sandbox.continued")?.data, {
      repo,
      branch: HEAD,
      pull_request: here.pull.number,
      sandbox_id: id
    })
    const [prompt, ...later] = prompts(log)
    assert.deepStrictEqual(later, [])
    assert.strictEqual(prompt?.author?.id, SERVICE_AUTHOR)
    assert.include(prompt?.text ?? "", "> Rename it.")
    assert.deepStrictEqual([count(log, "feedback.replied"), replies(here)], [1, 1])
    const handed = (yield* here.events).flatMap((event) => event.type === "feedback.received" ? [event.data] : [])
    assert.lengthOf(handed, 1)
    assert.deepInclude(handed[0], { sandbox_id: made.id, count: 1, round: 0 })
    assert.strictEqual((yield* here.sandbox).status, "succeeded")
  }).pipe(Effect.provide(layer)))

it.effect("the new sandbox gets the later comments, the finished one no more", () =>
  Effect.gen(function*() {
    const here = yield* world()
    yield* here.finish()
    yield* here.say("Rename it.")
    yield* live(here)
    yield* here.say("And this.")
    yield* live(here)
    const made = yield* here.successors
    assert.lengthOf(made, 1)
    const log = yield* here.eventsOf(made[0]!.id)
    assert.deepStrictEqual(prompts(log).map(({ text = "" }) => [text.includes("> Rename it."), text.includes("> And this.")]), [
      [true, false],
      [false, true]
    ])
    assert.deepStrictEqual([count(yield* here.events, "feedback.received"), replies(here)], [1, 1])
  }).pipe(Effect.provide(layer)))

it.effect("when the new sandbox has finished too, another one goes on with the same branch", () =>
  Effect.gen(function*() {
    const here = yield* world()
    yield* here.finish()
    yield* here.say("Rename it.")
    yield* live(here)
    const [second] = yield* here.successors
    assert.isDefined(second)
    yield* here.finish(second.id)
    yield* here.say("And this.")
    yield* live(here)
    const [, third, ...others] = yield* here.successors
    assert.deepStrictEqual(others, [])
    assert.deepInclude(third?.continues, { branch: HEAD, sandboxId: second.id, pullRequest: here.pull.number })
    assert.notInclude(third?.prompt ?? "", "> Rename it.")
    assert.include(third?.prompt ?? "", "> And this.")
  }).pipe(Effect.provide(layer)))

it.effect("a worker that is killed at any step leaves one new sandbox with one turn, one publication and one reply", () =>
  Effect.gen(function*() {
    const begun = Effect.gen(function*() {
      const here = yield* world()
      yield* here.finish()
      yield* here.say("Rename it.")
      return here
    })
    const steps = yield* Effect.flatMap(begun, (here) => live(here)).pipe(Effect.provide(Layer.fresh(layer)))
    assert.isAbove(steps, 20)
    for (const when of ["before", "after"] as const) {
      for (let dies = 1; dies <= steps; dies++) {
        yield* Effect.gen(function*() {
          const here = yield* begun
          yield* live(here, dies, when)
          const made = yield* here.successors
          const log = made[0] === undefined ? [] : yield* here.eventsOf(made[0].id)
          const found = [
            made.length,
            count(yield* here.events, "feedback.received"),
            prompts(log).length,
            log.filter((event) => event.type === "pull_request.updated" && event.data.action_state === "updating").length,
            count(log, "feedback.replied"),
            replies(here)
          ]
          assert.deepStrictEqual(found, [1, 1, 1, 1, 1, 1], `killed ${when} call ${dies} of ${steps}`)
        }).pipe(Effect.provide(Layer.fresh(layer)))
      }
    }
  }))

it.effect("a comment that comes between the new sandbox and its record is delivered by the new one, once", () =>
  Effect.gen(function*() {
    const here = yield* world()
    yield* here.finish()
    yield* here.say("Rename it.")
    for (let dies = 1; (yield* here.successors).length === 0; dies++) yield* look(dies, "after")
    assert.strictEqual(count(yield* here.events, "feedback.received"), 0)
    yield* here.say("And this.")
    yield* live(here)
    const made = yield* here.successors
    assert.lengthOf(made, 1)
    const texts = prompts(yield* here.eventsOf(made[0]!.id)).map(({ text = "" }) => text)
    assert.deepStrictEqual(texts.map((text) => [text.includes("> Rename it."), text.includes("> And this.")]), [[true, false], [false,
      true]])
    const handed = (yield* here.events).flatMap((event) => event.type === "feedback.received" ? [event.data] : [])
    assert.deepStrictEqual(handed.map(({ count }) => count), [1])
  }).pipe(Effect.provide(layer)))

it.effect("feedback pauses with the reason, once, while no new sandbox may go on, and goes on when one may", () =>
  Effect.gen(function*() {
    const here = yield* world()
    yield* here.finish()
    yield* here.say("Rename it.")
    yield* live(here).pipe(Effect.provideService(ModelCatalogue, { default: "other", models: [{ ...offlineDemo, id: "other" }] }))
    assert.deepStrictEqual(yield* here.successors, [])
    const paused = (yield* here.events).flatMap((event) => event.type === "feedback.paused" ? [event.data] : [])
    assert.lengthOf(paused, 1)
    assert.include(paused[0]?.reason ?? "", "no such model")
    yield* (yield* FeedbackWatches).noticed(repo, HEAD, yield* DateTime.now)
    yield* live(here)
    assert.lengthOf(yield* here.successors, 1)
  }).pipe(Effect.provide(layer)))

it.effect("a person's request to a finished sandbox begins the new one, and a later request is a message of it", () =>
  Effect.gen(function*() {
    const here = yield* world({ comments: "off", checks: "off", rounds: 3, publish: true })
    yield* here.finish()
    const feedback = yield* Feedback
    const by = { ...principal, grantId: "grant-1", userId: "user-1" }
    const wanted = { repo, comments: [], checks: false, authorName: "maria" }
    const first = yield* feedback.request(by, id, { ...wanted, text: "Rename it." })
    const [made, ...others] = yield* here.successors
    assert.deepStrictEqual([others.length, first.sandboxId, first.outcome], [0, made?.id, "applied"])
    yield* live(here)
    const second = yield* feedback.request(by, id, { ...wanted, text: "And this." })
    assert.strictEqual(second.sandboxId, first.sandboxId)
    yield* live(here)
    assert.lengthOf(yield* here.successors, 1)
    const log = yield* here.eventsOf(first.sandboxId)
    assert.deepStrictEqual(
      log.flatMap((event) => event.type === "turn.updated" && event.data.state === "pending" ? [event.turn_id] : []),
      [first.turnId, second.turnId]
    )
    assert.deepStrictEqual([count(log, "feedback.replied"), replies(here)], [2, 1])
  }).pipe(Effect.provide(Feedback.layer.pipe(Layer.provideMerge(layer)))))

it.effect("a request of another grant to a finished sandbox makes nothing", () =>
  Effect.gen(function*() {
    const here = yield* world()
    const feedback = yield* Feedback
    yield* here.finish()
    const by = { ...principal, grantId: "grant-2", userId: "user-1" }
    const wanted = { repo, text: "x", comments: [], checks: false, authorName: "maria" }
    assert.strictEqual((yield* Effect.flip(feedback.request(by, id, wanted)))._tag, "SandboxNotFound")
    assert.lengthOf(yield* here.successors, 0)
  }).pipe(Effect.provide(Feedback.layer.pipe(Layer.provideMerge(layer)))))
