import { assert } from "@effect/vitest"
import { Leases } from "@slipway/domain/sandbox/ports/Leases"
import { SandboxStore } from "@slipway/domain/sandbox/ports/SandboxStore"
import { Policy } from "@slipway/domain/sandbox/rules/Policy"
import { decide } from "@slipway/domain/sandbox/rules/SystemCommand"
import { StoreUnavailable } from "@slipway/domain/store/StoreUnavailable"
import { DateTime, Effect, Fiber } from "effect"
import * as LeasedSandbox from "../../src/shared/LeasedSandbox.ts"
import { create, eventsOf, find, pass, scenario, settle, stealLease } from "../Doubles.ts"

const hold = Effect.gen(function*() {
  yield* create()
  const [leased] = yield* Leases.use((leases) => leases.take({ worker: "worker", machine: "machine" }, { slots: 1, boots: 1, errands: 1 }))
  return yield* LeasedSandbox.make(leased ?? assert.fail("nothing to lease"))
})

scenario("a read that was overtaken by a write does not hide it", () =>
  Effect.gen(function*() {
    const held = yield* hold
    const read = yield* find(held.id)
    const written = yield* held.write([{ _tag: "StartBoot" }])
    yield* held.observe(read)
    assert.strictEqual((yield* held.view).sandbox, written)
  }))

scenario("writes several commands at once, each decided on what the ones before made of the sandbox", () =>
  Effect.gen(function*() {
    const held = yield* hold
    const sandbox = yield* held.write([
      { _tag: "StartBoot" },
      { _tag: "FinishBoot", turnId: "turn-1" },
      // Too late by now, and left out without a word.
      { _tag: "ReportBoot", data: { stage: "ready", ms: 1 } },
      { _tag: "StartTurn", turnId: "turn-1" }
    ])
    assert.strictEqual(sandbox.turn?.state, "running")
    assert.deepStrictEqual(yield* eventsOf(held.id, "sandbox.boot"), [])
  }))

scenario("sees what others wrote as soon as it is hinted", () =>
  Effect.gen(function*() {
    const held = yield* hold
    yield* Effect.forkScoped(held.follow)
    const failed = yield* Effect.forkChild(held.until(({ sandbox }) => sandbox.status === "terminated"))
    yield* settle
    const store = yield* SandboxStore
    const context = { limits: yield* Policy, now: yield* DateTime.now }
    yield* store.change(held.id, "policy", (sandbox) => decide(sandbox, { _tag: "RevokeGrant" }, context), context.now)
    assert.strictEqual((yield* Fiber.join(failed)).sandbox.reason, "grant_revoked")
  }))

scenario("a write under a lost lease fails and changes nothing", () =>
  Effect.gen(function*() {
    const held = yield* hold
    yield* stealLease(held.id)
    const error = yield* Effect.flip(held.write([{ _tag: "StartBoot" }]))
    assert.strictEqual(error._tag, "StaleLease")
    assert.strictEqual((yield* find(held.id)).status, "queued")
  }))

scenario(
  "what was written without an answer is not told twice, also where the event before it is dated later",
  () =>
    Effect.gen(function*() {
      const store = yield* SandboxStore
      let cut = true
      const cutOnce = SandboxStore.of({
        ...store,
        change: (id, by, decide, now) =>
          Effect.tap(store.change(id, by, decide, now), () => {
            if (!cut) return Effect.void
            cut = false
            return Effect.fail(new StoreUnavailable({ cause: "cut" }))
          })
      })
      const held = yield* Effect.provideService(hold, SandboxStore, cutOnce)
      const later = DateTime.add(yield* DateTime.now, { minutes: 1 })
      const limits = yield* Policy
      yield* store.change(held.id, held.lease, (sandbox) => decide(sandbox, { _tag: "StartBoot" }, { limits, now: later }), later)
      yield* held.observe(yield* find(held.id))
      const writing = yield* Effect.forkChild(
        held.write([{ _tag: "ReportBoot", data: { stage: "provision", ms: 1 } }])
      )
      yield* pass("1 second")
      assert.strictEqual((yield* Fiber.join(writing)).status, "creating")
      assert.strictEqual((yield* eventsOf(held.id, "sandbox.boot")).length, 1)
      yield* held.write([{ _tag: "ReportBoot", data: { stage: "provision", ms: 1 } }])
      assert.strictEqual((yield* eventsOf(held.id, "sandbox.boot")).length, 2)
    })
)
