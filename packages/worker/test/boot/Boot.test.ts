import { assert } from "@effect/vitest"
import { CloneFailed, TreesUnavailable } from "@slipway/domain/files/ports/WorkingTrees"
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { ModelCatalogue, offlineDemo } from "@slipway/domain/models/schema/ModelCatalogue"
import { AgentError } from "@slipway/domain/sandbox/ports/AgentRuntime"
import { Leases } from "@slipway/domain/sandbox/ports/Leases"
import { HostError } from "@slipway/domain/sandbox/ports/SandboxHost"
import { SandboxStore } from "@slipway/domain/sandbox/ports/SandboxStore"
import { Policy } from "@slipway/domain/sandbox/rules/Policy"
import { decide } from "@slipway/domain/sandbox/rules/SystemCommand"
import { Sandboxes } from "@slipway/domain/sandbox/usecases/Sandboxes"
import { RepoNotAccessible, SourceHostError } from "@slipway/domain/source/ports/SourceHost"
import { AllowNoIsolation } from "@slipway/worker/turn/Agent"
import { DateTime, Deferred, Effect, Queue } from "effect"
import { create, events, eventsOf, find, pass, principal, REPO, running, scenario, settle, startWorker, until } from "../Doubles.ts"

scenario("boots box, clones and agent, and hands over the first prompt", (world) =>
  Effect.gen(function*() {
    yield* startWorker(world)
    const id = yield* create({ repos: [{ fullName: "acme/site" }, { fullName: "acme/api", ref: "next" }], reasoningEffort: "high" })
    const agent = yield* world.nextAgent
    const prompt = yield* Queue.take(agent.prompts)
    const sandbox = yield* until(id, ({ turn }) => turn?.state === "running")

    assert.strictEqual(sandbox.status, "running")
    assert.strictEqual(prompt.text, "Fix the header")
    assert.strictEqual(prompt.turnId, sandbox.turn?.id)
    assert.deepStrictEqual(agent.options, {
      box: agent.options.box,
      profile: "offline",
      model: "offline/demo",
      access: null,
      instructions: null,
      reasoningEffort: "high",
      toolApprovalMode: "auto",
      repositories: [{ name: "acme/site", folder: "acme-site" }, { name: "acme/api", folder: "acme-api" }],
      resume: null
    })
    const stages = (yield* eventsOf(id, "sandbox.boot")).map(({ data }) => data.stage)
    assert.deepStrictEqual([...stages].sort(), ["agent_start", "clone", "clone", "provision", "ready"])
    assert.deepStrictEqual(stages.slice(-2), ["agent_start", "ready"])
    const others = (yield* events(id)).filter(({ type }) => type !== "sandbox.boot").map(({ data, type }) =>
      "status" in data ? data.status : "state" in data ? `${type} ${data.state}` : type
    )
    assert.deepStrictEqual(others, ["queued", "creating", "running", "turn.updated pending", "turn.started"])
  }))

scenario("takes no more sandboxes than it has slots", (world) =>
  Effect.gen(function*() {
    yield* startWorker(world, { slots: 1 })
    const first = yield* running(world)
    const second = yield* create()
    yield* pass("5 seconds")
    assert.strictEqual(world.agents.length, 1)

    yield* Sandboxes.use((sandboxes) => sandboxes.terminate(principal, first.id))
    yield* until(first.id, ({ status }) => status === "terminated")
    yield* pass("1 second")
    yield* until(second, ({ status }) => status === "running")
  }))

const unreachable = new CloneFailed({ repo: REPO, detail: "the network is down", retryable: true })

scenario("a clone that fails for a moment is tried again", (world) =>
  Effect.gen(function*() {
    world.cloneFailures.push(unreachable, unreachable)
    yield* startWorker(world)
    const id = yield* create()
    yield* pass("500 millis")
    yield* pass("1 second")
    yield* until(id, ({ status }) => status === "running")
  }))

scenario("a clone that keeps failing fails the sandbox as clone_failed", (world) =>
  Effect.gen(function*() {
    world.cloneFailures.push(...Array.from({ length: 20 }, () => unreachable))
    yield* startWorker(world)
    const id = yield* create()
    yield* pass("1 minute")
    const sandbox = yield* until(id, ({ status }) => status === "failed")
    assert.strictEqual(sandbox.reason, "clone_failed")
    assert.strictEqual(sandbox.error, `could not clone ${REPO}: the network is down`)
    assert.strictEqual(world.cloneFailures.length, 14)
    yield* settle
    assert.deepStrictEqual([...world.boxes], [])
  }))

scenario("a missing commit is not tried again", (world) =>
  Effect.gen(function*() {
    world.cloneFailures.push(new CloneFailed({ repo: REPO, detail: "no such commit", retryable: false }))
    yield* startWorker(world)
    const sandbox = yield* until(yield* create(), ({ status }) => status === "failed")
    assert.strictEqual(sandbox.reason, "clone_failed")
  }))

scenario("a refused repository fails the sandbox as repo_not_accessible", (world) =>
  Effect.gen(function*() {
    world.repositoryFailures.push(new RepoNotAccessible({ repo: REPO }))
    yield* startWorker(world)
    const sandbox = yield* until(yield* create(), ({ status }) => status === "failed")
    assert.strictEqual(sandbox.reason, "repo_not_accessible")
    assert.strictEqual(sandbox.initiator, "provider")
  }))

scenario("a source host that answers again is asked again", (world) =>
  Effect.gen(function*() {
    world.repositoryFailures.push(new SourceHostError({ operation: "read", detail: "502", retryable: true }))
    yield* startWorker(world)
    const id = yield* create()
    yield* pass("500 millis")
    yield* until(id, ({ status }) => status === "running")
  }))

scenario("a host that refuses and an agent that cannot start fail the sandbox as boot_failed", (world) =>
  Effect.gen(function*() {
    world.provisionFailures.push(new HostError({ operation: "provision", detail: "no user namespaces", retryable: false }))
    yield* startWorker(world)
    const first = yield* until(yield* create(), ({ status }) => status === "failed")
    assert.strictEqual(first.reason, "boot_failed")

    world.openFailures.push(new AgentError({ runtime: "fake", operation: "open", detail: "not installed", retryable: false }))
    const second = yield* until(yield* create(), ({ status }) => status === "failed")
    assert.strictEqual(second.reason, "boot_failed")
    assert.deepStrictEqual((yield* eventsOf(second.id, "sandbox.error")).map(({ data }) => data), [
      { code: "boot_failed", message: "fake: not installed", retryable: false }
    ])
  }))

for (const step of ["provision", "clone", "agent_start"] as const) {
  scenario(
    `a ${step} that breaks once is tried again; a repeated failure fails the sandbox as boot_failed, in words`,
    (world) =>
      Effect.gen(function*() {
        yield* startWorker(world)
        world.defects.push(step)
        const first = yield* create()
        yield* pass("1 second")
        yield* until(first, ({ status }) => status === "running")

        world.defects.push(...Array.from({ length: 20 }, () => step))
        const second = yield* create()
        yield* pass("30 seconds")
        const { error, reason, status } = yield* find(second)
        assert.deepStrictEqual([status, reason], ["failed", "boot_failed"])
        assert.include(error, `The service broke while it did "${step}" of the boot.`)
        assert.strictEqual(world.defects.length, 14)
        yield* settle
        assert.notInclude([...world.boxes, ...world.trees], second)
      })
  )
}

const full = new TreesUnavailable({ detail: "There is no space left.", retryable: true })

scenario(
  "on a full disk room is made of what finished sandboxes left, then of mirrors, before one more try",
  (world) =>
    Effect.gen(function*() {
      yield* startWorker(world)
      const left = SandboxId.make("c_zzzzzzzzzzzz")
      world.trees.add(left)
      world.cloneFailures.push(full)
      yield* until(yield* create(), ({ status }) => status === "running")
      assert.deepStrictEqual(world.roomMade, [`tree ${left}`, "mirrors"])
    })
)

scenario("a disk that stays full, or is read-only, fails the sandbox as boot_failed, in words", (world) =>
  Effect.gen(function*() {
    yield* startWorker(world)
    world.cloneFailures.push(full, full)
    const first = yield* until(yield* create(), ({ status }) => status === "failed")
    assert.deepStrictEqual([first.reason, first.error], ["boot_failed", "There is no space left."])
    assert.include((yield* eventsOf(first.id, "sandbox.error")).at(-1)?.data, { code: "boot_failed", retryable: true })

    yield* settle
    world.roomMade.length = 0
    world.cloneFailures.push(new TreesUnavailable({ detail: "The disk is read-only.", retryable: false }))
    const second = yield* until(yield* create(), ({ status }) => status === "failed")
    assert.deepStrictEqual([second.reason, second.error, world.roomMade], ["boot_failed", "The disk is read-only.", []])
  }))

scenario("a boot that takes too long ends by the time limit, and its agent is not kept", (world) =>
  Effect.gen(function*() {
    world.opening = yield* Deferred.make<void>()
    yield* startWorker(world)
    const id = yield* create()
    yield* pass("11 minutes")
    const sandbox = yield* until(id, ({ status }) => status === "failed")
    assert.strictEqual(sandbox.reason, "boot_timeout")
    assert.deepStrictEqual([...world.boxes, ...world.trees], [])
    yield* Deferred.succeed(world.opening, undefined)
    yield* settle
    assert.strictEqual(world.agents.length, 0)
  }))

const online = { ...offlineDemo, id: "acme/large", offline: false }
const withOnline = Effect.provideService(ModelCatalogue, { default: null, models: [online] })

scenario("refuses a model with an account on a host without isolation", (world) =>
  Effect.gen(function*() {
    world.isolation = "none"
    yield* startWorker(world)
    const sandbox = yield* until(yield* create({}, online), ({ status }) => status === "failed")
    assert.strictEqual(sandbox.reason, "boot_failed")
    assert.include(sandbox.error, "does not isolate agents")
    assert.strictEqual(world.agents.length, 0)
  }).pipe(withOnline))

scenario("runs it without isolation when the operator says so", (world) =>
  Effect.gen(function*() {
    world.isolation = "none"
    yield* startWorker(world)
    yield* until(yield* create({}, online), ({ status }) => status === "running")
  }).pipe(withOnline, Effect.provideService(AllowNoIsolation, true)))

scenario("a test key's sandbox needs no isolation: its model is offline", (world) =>
  Effect.gen(function*() {
    world.isolation = "none"
    yield* startWorker(world)
    yield* running(world)
  }))

scenario(
  "a boot never resumes: the session of an earlier boot that was cut short may have gone with its machine",
  (world) =>
    Effect.gen(function*() {
      const id = yield* create()
      const leases = yield* Leases
      const [taken] = yield* leases.take({ worker: "gone", machine: "gone" }, { slots: 1, boots: 1, errands: 0 })
      assert(taken !== undefined)
      const store = yield* SandboxStore
      const now = yield* DateTime.now
      const limits = yield* Policy
      yield* store.change(id, taken.lease, (sandbox) => decide(sandbox, { _tag: "StartBoot" }, { now, limits }), now)
      yield* leases.saveAgentSession(taken.lease, "native-of-the-lost-machine")
      yield* startWorker(world)
      yield* pass("6 minutes")
      const agent = yield* world.nextAgent
      assert.isNull(agent.options.resume)
      yield* until(id, ({ status }) => status === "running")
    })
)
