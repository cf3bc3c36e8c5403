import { assert, it } from "@effect/vitest"
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { MemoryRepositories } from "@slipway/domain/memory/files/MemoryRepositories"
import * as IdsMemory from "@slipway/domain/memory/ids/IdsMemory"
import * as SandboxStoreMemory from "@slipway/domain/memory/sandbox/SandboxStoreMemory"
import { MemoryFeedback } from "@slipway/domain/memory/source/PullRequestFeedbackMemory"
import * as SourceHostMemory from "@slipway/domain/memory/source/SourceHostMemory"
import * as HintsMemory from "@slipway/domain/memory/store/HintsMemory"
import { offlineDemo } from "@slipway/domain/models/schema/ModelCatalogue"
import { CLAIM_TIME, FeedbackWatches } from "@slipway/domain/publishing/ports/FeedbackWatches"
import { published } from "@slipway/domain/publishing/rules/Publication"
import { Feedback } from "@slipway/domain/publishing/usecases/Feedback"
import { SandboxStore } from "@slipway/domain/sandbox/ports/SandboxStore"
import { publicationOf, type Sandbox } from "@slipway/domain/sandbox/rules/Sandbox"
import type { SandboxEvent } from "@slipway/domain/sandbox/rules/SandboxEvent"
import { turnPending } from "@slipway/domain/sandbox/rules/Transition"
import { fromWire } from "@slipway/domain/sandbox/schema/SandboxEvent"
import { PullRequestFeedback } from "@slipway/domain/source/ports/PullRequestFeedback"
import { PullRequests } from "@slipway/domain/source/ports/PullRequests"
import { SourceHost, SourceHostError } from "@slipway/domain/source/ports/SourceHost"
import { newFeedback, SERVICE_AUTHOR } from "@slipway/domain/source/rules/FeedbackState"
import { isUnderWay } from "@slipway/domain/source/rules/PullState"
import type { FeedbackPolicy } from "@slipway/domain/source/schema/FeedbackPolicy"
import type { PullRequest } from "@slipway/domain/source/schema/PullRequest"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { DateTime, Duration, Effect, Layer, Result } from "effect"
import { TestClock } from "effect/testing"
import { followFeedback } from "../../src/jobs/FollowFeedback.ts"

const repo = RepoName.make("acme/shop")
const id = SandboxId.make("c_abcdefgh2345")
const HEAD = `slipway/${id}`
const all: FeedbackPolicy = { comments: "all", checks: "failing", rounds: 3, publish: true }

const layer = Layer.mergeAll(SandboxStoreMemory.layer, SourceHostMemory.layer).pipe(
  Layer.provideMerge(Layer.mergeAll(HintsMemory.layer, IdsMemory.layer, MemoryRepositories.layer))
)

/** A published sandbox, what the agent and the publishing worker do for it, and what people do. */
const world = Effect.fnUntraced(function*(policy = all) {
  const store = yield* SandboxStore
  const host = yield* SourceHost
  const memory = yield* MemoryFeedback
  const repository = (yield* MemoryRepositories).add(repo, { a: "one\n" }, "trunk")
  yield* TestClock.adjust("1 hour")
  const headSha = repository.commit(HEAD, { a: "two\n" })
  const createdAt = yield* DateTime.now
  yield* store.create({
    creation: {
      id,
      grantId: "grant-1",
      createdBy: "user-1",
      title: "Fix",
      repos: [{ fullName: repo }],
      prompt: "Fix",
      model: offlineDemo.id,
      agentRuntime: offlineDemo.agentRuntime,
      reasoningEffort: null,
      toolApprovalMode: "auto",
      metadata: {},
      origin: null,
      continues: null,
      createdAt,
      feedback: newFeedback(policy, createdAt)
    },
    keyed: null
  })
  const change = (decide: (sandbox: Sandbox) => ReadonlyArray<SandboxEvent>) =>
    Effect.flatMap(DateTime.now, (now) => store.change(id, "policy", (sandbox) => Result.succeed(decide(sandbox)), now))
  const pull = yield* host.openDraftPullRequest(repo, { title: "T", body: "", baseRef: "trunk", headRef: HEAD, headSha, at: createdAt })
  yield* change(() => [
    { type: "sandbox.status", data: { status: "running", previous: "queued", reason: null, initiator: "system" } },
    turnPending("t1", "Fix", "user-1"),
    { type: "turn.completed", turn_id: "t1", data: { state: "succeeded" } },
    { type: "pull_request.updated", data: { repo, action_state: "publishing" } },
    published(repo, pull, { sha: headSha, merges: [] })
  ])
  const sandbox = Effect.map(change(() => []), ({ sandbox }) => sandbox)
  const work = change(({ publications, turn }) => [
    ...(turn?.state === "pending" ? [{ type: "turn.completed" as const, turn_id: turn.id, data: { state: "succeeded" as const } }] : []),
    ...publications.filter(isUnderWay).map(() => published(repo, pull, { sha: `${headSha.slice(1)}0`, merges: [] }))
  ])
  const say = Effect.fnUntraced(function*(body: string, isBot = false) {
    yield* TestClock.adjust("1 second")
    const at = yield* DateTime.now
    const name = memory.nextId()
    const author = { id: isBot ? "bot" : "maria", login: "maria", isBot }
    const item = {
      id: `comment:${name}`,
      kind: "comment" as const,
      author,
      body,
      path: null,
      line: null,
      url: `${pull.url}#${name}`,
      at,
      updatedAt: at
    }
    memory.items(pull).push(item)
    yield* (yield* FeedbackWatches).noticed(repo, HEAD, at)
  })
  const events = Effect.map(store.log(id, 0, 1000), (entries) => entries.map(({ wire }) => fromWire(wire).event))
  return { change, events, memory, pull, sandbox, say, store, work }
})

type World = Effect.Success<ReturnType<typeof world>>

/** Counts the calls of all services; the call `dies` ends the look before or after it took effect, as if its worker were killed. */
const services = Effect.fnUntraced(function*(dies: number, when: "before" | "after") {
  let calls = 0
  const killed = <A extends object>(service: A): A =>
    new Proxy(service, {
      get: (target, name) => {
        const member: unknown = Reflect.get(target, name)
        if (typeof member !== "function") return member
        return (...args: ReadonlyArray<unknown>) =>
          Effect.suspend(() => {
            const call = ++calls
            const use: Effect.Effect<unknown> = member.apply(target, args)
            if (call !== dies) return use
            return when === "before" ? Effect.die("killed") : Effect.andThen(use, Effect.die("killed"))
          })
      }
    })
  const replaced = Layer.mergeAll(
    Layer.succeed(SandboxStore, killed(yield* SandboxStore)),
    Layer.succeed(SourceHost, killed(yield* SourceHost)),
    Layer.succeed(FeedbackWatches, killed(yield* FeedbackWatches)),
    Layer.succeed(PullRequestFeedback, killed(yield* PullRequestFeedback)),
    Layer.succeed(PullRequests, yield* PullRequests)
  )
  return { layer: Feedback.layer.pipe(Layer.provideMerge(replaced)), calls: () => calls }
})

/** Looks, works and waits until nothing happens any more. */
const live = Effect.fnUntraced(function*({ work }: World, dies = 0, when: "before" | "after" = "before") {
  const { calls, layer } = yield* services(dies, when)
  for (let i = 0; i < 8; i++) {
    yield* Effect.exit(Effect.provide(followFeedback(), layer))
    yield* work
    yield* TestClock.adjust(Duration.sum(CLAIM_TIME, Duration.seconds(1)))
  }
  return calls()
})

const count = (events: ReadonlyArray<SandboxEvent>, type: SandboxEvent["type"]) => events.filter((event) => event.type === type).length
const prompts = (events: ReadonlyArray<SandboxEvent>) =>
  events.flatMap((event) => event.type === "turn.updated" && event.data.state === "pending" ? [event.data] : [])

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
