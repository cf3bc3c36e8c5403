import { assert, it } from "@effect/vitest"
import { WebhookSender } from "@slipway/domain/partner/ports/WebhookSender"
import { type TakenAttempt, WebhookStore } from "@slipway/domain/partner/ports/WebhookStore"
import type { Outcome } from "@slipway/domain/partner/rules/Webhook"
import { failure } from "@slipway/domain/publishing/rules/Publication"
import { AgentError } from "@slipway/domain/sandbox/ports/AgentRuntime"
import { SandboxStore } from "@slipway/domain/sandbox/ports/SandboxStore"
import { Policy } from "@slipway/domain/sandbox/rules/Policy"
import type { SandboxEvent } from "@slipway/domain/sandbox/rules/SandboxEvent"
import { Sandboxes } from "@slipway/domain/sandbox/usecases/Sandboxes"
import { count } from "@slipway/domain/sandbox/usecases/SandboxMetrics"
import { SourceHostError } from "@slipway/domain/source/ports/SourceHost"
import { attempt } from "@slipway/worker/jobs/DeliverWebhooks"
import { Timing } from "@slipway/worker/shared/Timing"
import { DateTime, Duration, Effect, Layer, Metric, Result } from "effect"
import { ask, create, pass, principal, publishRequested, REPO, running, scenario, settle, startWorker, until } from "./Doubles.ts"

/** Every series that is not 0. Of a histogram, how much was seen and its sum. */
const counted = Effect.map(Metric.snapshot, (series) =>
  Object.fromEntries(series.flatMap(({ attributes, id, state, type }) => {
    const name = [id.replace(/^slipway_/u, ""), ...Object.values(attributes ?? {})].join(" ")
    const value = type === "Counter"
      ? Number(state.count)
      : type === "Gauge"
      ? Number(state.value)
      : type === "Histogram"
      ? Number(state.count) === 0 ? 0 : [state.count, state.sum]
      : null
    return value === 0 || value === null ? [] : [[name, value]]
  })))

/** With a registry of its own. */
const counting = <E>(name: string, test: Parameters<typeof scenario<E>>[1]) =>
  scenario(name, (world) => test(world).pipe(Effect.provideService(Metric.MetricRegistry, new Map())))

counting("counts what a sandbox goes through, each thing once", (world) =>
  Effect.gen(function*() {
    yield* startWorker(world, { slots: 3 })
    const { agent, id } = yield* running(world, { toolApprovalMode: "prompt" })
    assert.deepStrictEqual(yield* counted, {
      "boots_started_total": 1,
      "boot_duration_seconds": [1, 0],
      "worker_agents_at_work": 1,
      "worker_sandboxes": 1,
      "worker_slots": 3
    })
    yield* agent.emit(ask("call-1"))
    yield* until(id, ({ approvals }) => approvals.length === 1)
    yield* Sandboxes.use((sandboxes) => sandboxes.interrupt(principal, id))
    yield* until(id, ({ turn }) => turn?.state === "interrupted")
    yield* Sandboxes.use((sandboxes) => sandboxes.terminate(principal, id))
    yield* until(id, ({ status }) => status === "terminated")
    // Repeating changes nothing, so nothing is counted.
    yield* Sandboxes.use((sandboxes) => sandboxes.terminate(principal, id))
    yield* settle
    assert.deepStrictEqual(yield* counted, {
      "approvals_resolved_total denied": 1,
      "boots_started_total": 1,
      "boot_duration_seconds": [1, 0],
      "checkpoint_bytes": [1, 291],
      "checkpoint_duration_seconds": [1, 0],
      "checkpoints_total taken": 1,
      "turns_ended_total interrupted": 1,
      "worker_slots": 3
    })
  }))

counting("counts failures by their reason, boots and limits alike", (world) =>
  Effect.gen(function*() {
    world.openFailures.push(new AgentError({ runtime: "fake", operation: "open", detail: "no", retryable: false }))
    const waiting = yield* startWorker(world, { slots: 1 })
    const failed = yield* create()
    yield* until(failed, ({ status }) => status === "failed")
    yield* waiting.shutDown
    yield* startWorker(world, { slots: 0 })
    yield* create()
    yield* pass((yield* Policy).queue)
    yield* pass("1 second")
    const { "sandboxes_failed_total boot_failed": ofBoot, "sandboxes_failed_total queue_timeout": ofQueue, "boots_started_total": boots } =
      yield* counted
    assert.deepStrictEqual([ofBoot, ofQueue, boots], [1, 1, 1])
  }))

counting("counts the end of a publication, and not what else is told of a pull request", (world) =>
  Effect.gen(function*() {
    world.pushing = Effect.never
    yield* startWorker(world)
    const { id } = yield* running(world)
    const store = yield* SandboxStore
    const told = (event: ReturnType<typeof failure>) =>
      Effect.gen(function*() {
        yield* Effect.orDie(Effect.tap(store.change(id, "policy", () => Result.succeed([event]), yield* DateTime.now), count))
      })
    const published: ReturnType<typeof failure> = { type: "pull_request.updated", data: { repo: REPO, action_state: "idle", number: 1 } }
    yield* publishRequested(id)
    yield* told(published)
    // Somebody closed it on the host.
    yield* told({ ...published, data: { ...published.data, state: "closed" } })
    yield* publishRequested(id)
    yield* told(failure(REPO, new SourceHostError({ operation: "push", detail: "no", retryable: true })))
    const all = yield* counted
    assert.deepStrictEqual(Object.keys(all).filter((name) => name.startsWith("publications_")).sort(), [
      "publications_total published",
      "publications_total source_host_error"
    ])
    assert.deepStrictEqual([all["publications_total published"], all["publications_total source_host_error"]], [1, 1])
  }))

counting("counts feedback that a sandbox gets, by its kind, and the pause after the last round", (world) =>
  Effect.gen(function*() {
    yield* startWorker(world)
    const { id } = yield* running(world)
    const received = {
      repo: REPO,
      url: "https://host.example/1",
      authors: ["ada"],
      count: 1,
      items: ["1"],
      until: DateTime.makeUnsafe(0),
      round: 1
    }
    const events: ReadonlyArray<SandboxEvent> = [
      { type: "feedback.received", data: { ...received, kind: "review" } },
      { type: "feedback.received", data: { ...received, kind: "checks" } },
      { type: "feedback.received", data: { ...received, kind: "checks" } },
      { type: "feedback.paused", data: { repo: REPO, rounds: 3 } }
    ]
    const store = yield* SandboxStore
    yield* Effect.orDie(Effect.tap(store.change(id, "policy", () => Result.succeed(events), yield* DateTime.now), count))
    const all = yield* counted
    assert.deepStrictEqual(
      Object.fromEntries(Object.entries(all).filter(([name]) => name.startsWith("feedback_"))),
      { "feedback_total review": 1, "feedback_total checks": 2, "feedback_total paused": 1 }
    )
  }))

counting("counts a publication that a worker carried out", (world) =>
  Effect.gen(function*() {
    yield* startWorker(world)
    const { id } = yield* running(world)
    yield* publishRequested(id)
    yield* until(id, ({ publications }) => publications[0]?.actionState === "idle" && publications[0].number !== null)
    yield* settle
    assert.strictEqual((yield* counted)["publications_total published"], 1)
  }))

counting("counts leases that were never given back and event logs that were purged", (world) =>
  Effect.gen(function*() {
    const limits = { ...(yield* Policy), retention: Duration.hours(1) }
    const timing = { ...(yield* Timing), tick: Duration.minutes(1) }
    yield* startWorker(world, { slots: 0 }).pipe(Effect.provideService(Policy, limits), Effect.provideService(Timing, timing))
    const id = yield* create()
    yield* pass(limits.queue)
    world.boxes.add(id)
    yield* pass("2 minutes")
    assert.strictEqual((yield* counted)["orphans_reaped_total"], 1)
    yield* pass("2 hours")
    assert.strictEqual((yield* counted)["event_logs_purged_total"], 1)
  }))

it.effect("counts attempts at webhooks by what came of them", () => {
  const answered = (status: number): Outcome => ({ _tag: "Answered", status, retryAfter: null, body: null })
  const outcomes: ReadonlyArray<Outcome> = [answered(204), answered(410), answered(500), { _tag: "Failed", trouble: "tls" }]
  const then = DateTime.makeUnsafe(0)
  const claimed: TakenAttempt = {
    endpointId: "0197f1a0-0000-7000-8000-000000000001",
    url: "https://partner.invalid",
    secrets: [],
    event: {
      type: "task.started",
      id: "0197f1a0-0000-7000-8000-000000000002",
      sequence: 1,
      createdAt: then,
      data: {
        claimId: "0197f1a0-0000-7000-8000-000000000003",
        leadId: "lead",
        variant: "a",
        occurredAt: then,
        taskId: "c_k3v9p2m7x4qa",
        projectId: null
      }
    },
    attempt: 1,
    manual: false,
    dueAt: then,
    fence: 1
  }
  return Effect.gen(function*() {
    for (const outcome of outcomes) {
      yield* attempt(claimed).pipe(Effect.provide(Layer.mergeAll(
        Layer.mock(WebhookStore, { record: () => Effect.succeed(true) }),
        Layer.mock(WebhookSender, { send: () => Effect.succeed(outcome) })
      )))
    }
    assert.deepStrictEqual(yield* counted, {
      "webhook_attempts_total delivered": 1,
      "webhook_attempts_total refused": 2,
      "webhook_attempts_total tls": 1
    })
  }).pipe(Effect.provideService(Metric.MetricRegistry, new Map()))
})
