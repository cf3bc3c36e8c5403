import { assert, it } from "@effect/vitest"
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import * as MemoryMachine from "@slipway/domain/memory/MemoryMachine"
import * as Stores from "@slipway/domain/memory/Stores"
import { principalOf } from "@slipway/domain/promise/Caller"
import { AgentError, type AgentPrompt, AgentRuntime } from "@slipway/domain/sandbox/ports/AgentRuntime"
import type { SandboxEvent } from "@slipway/domain/sandbox/rules/SandboxEvent"
import { fromWire } from "@slipway/domain/sandbox/schema/SandboxEvent"
import * as Requests from "@slipway/domain/sandbox/usecases/Requests"
import { Sandboxes } from "@slipway/domain/sandbox/usecases/Sandboxes"
import { SandboxEvents } from "@slipway/domain/sandbox/usecases/SandboxEvents"
import * as WorkerNode from "@slipway/worker/WorkerNode"
import { Deferred, Effect, Layer, Option, Stream } from "effect"

const by = principalOf({ grantId: "acme", organizationId: "acme-inc", userId: "ada" })

/** A service whose agent is `answer`, as an embedder composes it. */
const service = (answer: (prompt: AgentPrompt) => Effect.Effect<string, { readonly message: string }>) =>
  Layer.mergeAll(Sandboxes.layer, SandboxEvents.layer, WorkerNode.layerHere({ slots: 4 })).pipe(
    Layer.provide(AgentRuntime.fromPrompt(answer)),
    Layer.provide(MemoryMachine.layer({ repositories: { "acme/shop": { "README.md": "# Shop\n" } } })),
    Layer.provide(Stores.layer())
  )

const create = Effect.fnUntraced(function*(prompt: string, toolApprovalMode: "auto" | "prompt" = "auto") {
  const request = yield* Requests.creation({ repos: [{ fullName: "acme/shop" }], prompt, toolApprovalMode })
  const { sandbox } = yield* Sandboxes.use((sandboxes) => sandboxes.create(by, request, Option.none()))
  return sandbox.id
})

/** The events until the last turn of so many has ended. */
const eventsOf = (id: SandboxId, turns = 1) =>
  Effect.gen(function*() {
    const entries = (yield* SandboxEvents).entries(by, id, 0)
    let ended = 0
    return yield* entries.pipe(
      Stream.map(({ wire }) => fromWire(wire).event),
      Stream.takeUntil(({ type }) => type === "turn.completed" && ++ended === turns),
      Stream.runCollect
    )
  })
const untilOpen = (id: SandboxId, type: SandboxEvent["type"]) =>
  Effect.gen(function*() {
    const entries = (yield* SandboxEvents).entries(by, id, 0)
    yield* Stream.runDrain(Stream.takeUntil(entries, (entry) => entry.type === type))
  })
const textsIn = (events: ReadonlyArray<SandboxEvent>) =>
  events.flatMap((event) => event.type === "message.updated" && event.data.kind === "text" ? [event.data.text] : [])
const endsIn = (events: ReadonlyArray<SandboxEvent>) =>
  events.flatMap((event) => event.type === "turn.completed" ? [{ state: event.data.state, reason: event.data.reason }] : [])

it.live("answers each prompt with the text of its function", () =>
  Effect.gen(function*() {
    const id = yield* create("Where is the tax computed?")
    const first = yield* eventsOf(id)
    assert.deepStrictEqual(textsIn(first), ["You asked: Where is the tax computed?"])
    yield* Sandboxes.use((sandboxes) => sandboxes.sendMessage(by, id, "And the fees?", Option.none()))
    const all = yield* eventsOf(id, 2)
    assert.deepStrictEqual(textsIn(all), ["You asked: Where is the tax computed?", "You asked: And the fees?"])
    assert.deepStrictEqual(endsIn(all).map(({ state }) => state), ["succeeded", "succeeded"])
  }).pipe(Effect.provide(service(({ text }) => Effect.succeed(`You asked: ${text}`)))))

it.live("reports the events of its function before the answer", () =>
  Effect.gen(function*() {
    const id = yield* create("Look it up.")
    const events = yield* eventsOf(id)
    assert.deepStrictEqual(events.flatMap(({ type }) => /^(?:tool|message)[.]/u.test(type) ? [type] : []), ["tool.updated",
      "message.updated", "message.completed"])
  }).pipe(Effect.provide(service(({ emit, turnId }) =>
    Effect.as(emit({ _tag: "ToolUpdated", callId: `${turnId} search`, tool: "search", status: "completed" }), "Found it.")
  ))))

it.live("fails the turn with the message of an error", () =>
  Effect.gen(function*() {
    const events = yield* eventsOf(yield* create("Search."))
    assert.deepStrictEqual(endsIn(events), [{ state: "failed", reason: "The index is being built. Ask again in an hour." }])
  }).pipe(Effect.provide(service(() => Effect.fail({ message: "The index is being built. Ask again in an hour." })))))

it.live("has a new session after an error of the agent, which is told what was said", () => {
  const gone = new AgentError({ runtime: "search", operation: "prompt", detail: "It is gone.", retryable: true })
  const answer = ({ session, text }: AgentPrompt) =>
    text === "Fail." ? Effect.fail(gone) : Effect.succeed(session.instructions?.includes("Fail.") === true ? "You said it before." : "")
  return Effect.gen(function*() {
    const id = yield* create("Fail.")
    yield* eventsOf(id)
    yield* Sandboxes.use((sandboxes) => sandboxes.sendMessage(by, id, "Again.", Option.none()))
    const events = yield* eventsOf(id, 2)
    assert.deepStrictEqual(endsIn(events).map(({ state }) => state), ["failed", "succeeded"])
    assert.deepStrictEqual(textsIn(events), ["You said it before."])
  }).pipe(Effect.provide(service(answer)))
})

it.live("interrupts its function with the turn", () =>
  Effect.gen(function*() {
    const begun = yield* Deferred.make<void>()
    const stopped = yield* Deferred.make<void>()
    const answer = () =>
      Deferred.succeed(begun, undefined).pipe(
        Effect.andThen(Effect.never),
        Effect.onInterrupt(() => Deferred.succeed(stopped, undefined))
      )
    yield* Effect.gen(function*() {
      const id = yield* create("Search for a week.")
      yield* Deferred.await(begun)
      yield* Sandboxes.use((sandboxes) => sandboxes.interrupt(by, id))
      assert.deepStrictEqual(endsIn(yield* eventsOf(id)).map(({ state }) => state), ["interrupted"])
      yield* Deferred.await(stopped)
    }).pipe(Effect.provide(service(answer)))
  }))

const asking = service(({ approve, turnId }) =>
  Effect.map(approve({ id: `${turnId} order`, tool: "order" }), (isApproved) => isApproved ? "Ordered." : "Not ordered.")
)

it.live.each(["approve", "deny"] as const)("waits for a person to %s a call", (decision) =>
  Effect.gen(function*() {
    const id = yield* create("Order it.", "prompt")
    yield* untilOpen(id, "approval.requested")
    const sandboxes = yield* Sandboxes
    const [approval] = (yield* sandboxes.get(by, id)).approvals
    yield* sandboxes.decideApproval(by, id, approval?.approval_id ?? "", { decision })
    assert.deepStrictEqual(textsIn(yield* eventsOf(id)), [decision === "approve" ? "Ordered." : "Not ordered."])
  }).pipe(Effect.provide(asking)))

it.live("approves each call at once in the mode auto", () =>
  Effect.gen(function*() {
    assert.deepStrictEqual(textsIn(yield* eventsOf(yield* create("Order it."))), ["Ordered."])
  }).pipe(Effect.provide(asking)))
