/** A published sandbox with feedback on stores in memory, the workers that look at it, and people who comment. */
import { Ids } from "@slipway/domain/ids/Ids"
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
import { Policy } from "@slipway/domain/sandbox/rules/Policy"
import type { Sandbox } from "@slipway/domain/sandbox/rules/Sandbox"
import type { SandboxEvent } from "@slipway/domain/sandbox/rules/SandboxEvent"
import { decide } from "@slipway/domain/sandbox/rules/SystemCommand"
import { turnPending } from "@slipway/domain/sandbox/rules/Transition"
import { turnId } from "@slipway/domain/sandbox/rules/Turn"
import { fromWire } from "@slipway/domain/sandbox/schema/SandboxEvent"
import { PullRequestFeedback } from "@slipway/domain/source/ports/PullRequestFeedback"
import { PullRequests } from "@slipway/domain/source/ports/PullRequests"
import { SourceHost } from "@slipway/domain/source/ports/SourceHost"
import { newFeedback } from "@slipway/domain/source/rules/FeedbackState"
import { isUnderWay } from "@slipway/domain/source/rules/PullState"
import type { FeedbackPolicy } from "@slipway/domain/source/schema/FeedbackPolicy"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { DateTime, Duration, Effect, Layer, Result } from "effect"
import { TestClock } from "effect/testing"
import { followFeedback } from "../../src/jobs/FollowFeedback.ts"

export const repo = RepoName.make("acme/shop")
export const id = SandboxId.make("c_abcdefgh2345")
export const HEAD = `slipway/${id}`
export const all: FeedbackPolicy = { comments: "all", checks: "failing", rounds: 3, publish: true }

export const layer = Layer.mergeAll(SandboxStoreMemory.layer, SourceHostMemory.layer).pipe(
  Layer.provideMerge(Layer.mergeAll(HintsMemory.layer, IdsMemory.layer, MemoryRepositories.layer))
)

/** A published sandbox, what the agent and the publishing worker do for it, and what people do. */
export const world = Effect.fnUntraced(function*(policy = all) {
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
  const changeOf = (of: SandboxId, decide: (sandbox: Sandbox) => ReadonlyArray<SandboxEvent>) =>
    Effect.flatMap(DateTime.now, (now) => store.change(of, "policy", (sandbox) => Result.succeed(decide(sandbox)), now))
  const change = (decide: (sandbox: Sandbox) => ReadonlyArray<SandboxEvent>) => changeOf(id, decide)
  const pull = yield* host.openDraftPullRequest(repo, { title: "T", body: "", baseRef: "trunk", headRef: HEAD, headSha, at: createdAt })
  yield* change(() => [
    { type: "sandbox.status", data: { status: "running", previous: "queued", reason: null, initiator: "system" } },
    turnPending("t1", "Fix", "user-1"),
    { type: "turn.completed", turn_id: "t1", data: { state: "succeeded" } },
    { type: "pull_request.updated", data: { repo, action_state: "publishing" } },
    published(repo, pull, { sha: headSha, merges: [] })
  ])
  const sandbox = Effect.map(change(() => []), ({ sandbox }) => sandbox)
  const sandboxes = store.list("grant-1", { after: null, limit: 100, status: null, repo: null })
  /** The sandboxes that go on with the first one, oldest first. */
  const successors = Effect.map(sandboxes, (all) => all.filter((one) => one.id !== id).toReversed())
  const limits = yield* Policy
  const ids = yield* Ids
  const boot = Effect.fnUntraced(function*(of: SandboxId) {
    const now = yield* DateTime.now
    for (const command of [{ _tag: "StartBoot" }, { _tag: "FinishBoot", turnId: turnId(ids, of, 1) }] as const) {
      yield* store.change(of, "policy", (sandbox) => decide(sandbox, command, { limits, now }), now)
    }
  })
  /** The workers boot, the agents end their turns, and what is to be published is. */
  const work = Effect.gen(function*() {
    for (const { id: of, status } of yield* sandboxes) {
      if (status === "queued") yield* boot(of)
      yield* changeOf(of, ({ publications, turn }) => [
        ...(turn?.state === "pending"
          ? [{ type: "turn.completed" as const, turn_id: turn.id, data: { state: "succeeded" as const } }]
          : []),
        ...publications.filter(isUnderWay).map(() => published(repo, pull, { sha: `${headSha.slice(1)}0`, merges: [] }))
      ])
    }
  })
  const over: ReadonlyArray<SandboxEvent> = [
    { type: "sandbox.status", data: { status: "succeeded", previous: "running", reason: "idle_timeout", initiator: "system" } }
  ]
  /** The sandbox ends, and its last turn succeeded. */
  const finish = (of: SandboxId = id) => changeOf(of, () => over)
  const say = Effect.fnUntraced(function*(body: string, isBot = false, login = "maria") {
    yield* TestClock.adjust("1 second")
    const at = yield* DateTime.now
    const name = memory.nextId()
    const author = { id: isBot ? "bot" : login, login, isBot }
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
  const eventsOf = (of: SandboxId) => Effect.map(store.log(of, 0, 1000), (entries) => entries.map(({ wire }) => fromWire(wire).event))
  return { change, events: eventsOf(id), eventsOf, finish, memory, pull, sandbox, say, store, successors, work }
})

export type World = Effect.Success<ReturnType<typeof world>>

/** A host where all but strangers may write. `asked`: the logins that it was asked about. */
const knowing = (host: SourceHost["Service"], asked: Array<string>): SourceHost["Service"] => ({
  ...host,
  mayWrite: (repo, author) =>
    Effect.map(host.mayWrite(repo, author), (may) => {
      asked.push(author.login)
      return may && !author.login.startsWith("stranger")
    })
})

/** Counts the calls of all services; the call `dies` ends the look before or after it took effect, as if its worker were killed. */
const services = Effect.fnUntraced(function*(dies: number, when: "before" | "after") {
  let calls = 0
  const asked: Array<string> = []
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
    Layer.succeed(SourceHost, killed(knowing(yield* SourceHost, asked))),
    Layer.succeed(FeedbackWatches, killed(yield* FeedbackWatches)),
    Layer.succeed(PullRequestFeedback, killed(yield* PullRequestFeedback)),
    Layer.succeed(PullRequests, yield* PullRequests)
  )
  return { layer: Feedback.layer.pipe(Layer.provideMerge(replaced)), calls: () => calls, asked }
})

/** One look at all that is due, by a worker that is killed at the call `dies`; the next one may look then. */
export const look = Effect.fnUntraced(function*(dies = 0, when: "before" | "after" = "before") {
  const { calls, layer } = yield* services(dies, when)
  yield* Effect.exit(Effect.provide(followFeedback(), layer))
  yield* TestClock.adjust(Duration.sum(CLAIM_TIME, Duration.seconds(1)))
  return calls()
})

/** Looks, works and waits until nothing happens any more. */
export const live = Effect.fnUntraced(function*({ work }: World, dies = 0, when: "before" | "after" = "before") {
  const { calls, layer } = yield* services(dies, when)
  for (let i = 0; i < 8; i++) {
    yield* Effect.exit(Effect.provide(followFeedback(), layer))
    yield* work
    yield* TestClock.adjust(Duration.sum(CLAIM_TIME, Duration.seconds(1)))
  }
  return calls()
})

/** The logins that the host is asked about in each of some looks of one worker, seconds apart. */
export const askedBy = Effect.fnUntraced(function*(looks: number) {
  const { asked, layer } = yield* services(0, "before")
  return yield* Effect.gen(function*() {
    const each: Array<ReadonlyArray<string>> = []
    for (let i = 0; i < looks; i++) {
      yield* followFeedback()
      each.push(asked.splice(0))
      yield* TestClock.adjust("2 seconds")
    }
    return each
  }).pipe(Effect.provide(layer))
})

export const count = (events: ReadonlyArray<SandboxEvent>, type: SandboxEvent["type"]) =>
  events.filter((event) => event.type === type).length
export const prompts = (events: ReadonlyArray<SandboxEvent>) =>
  events.flatMap((event) => event.type === "turn.updated" && event.data.state === "pending" ? [event.data] : [])
