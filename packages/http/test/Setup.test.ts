import { assert, layer } from "@effect/vitest"
import { Leases } from "@slipway/domain/sandbox/ports/Leases"
import { type SetupRecord, Setups } from "@slipway/domain/sandbox/ports/Setups"
import { DateTime, Effect } from "effect"
import { ask, create, drive, json, layer as http, mintKey, refused, SANDBOXES } from "../testing/Harness.ts"

const running: SetupRecord = {
  state: "running",
  startedAt: DateTime.makeUnsafe("2026-11-21T02:41:00.123Z"),
  ms: null,
  cache: "miss",
  exitCode: null,
  output: "$ npm ci\n",
  told: "what the agent is told"
}

layer(http(), { excludeTestServices: true })("the setup of a sandbox", (it) => {
  it.effect("is missing before it begins, then as it was saved, without the agent's message; of another grant's there is no answer", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      const id = yield* create(key)
      const path = `${SANDBOXES}/${id}/setup`
      const none = { state: "none", startedAt: null, ms: null, cache: "none", exitCode: null, output: "" }
      assert.deepStrictEqual(json(yield* ask(path, { key })), none)
      const [taken] = yield* (yield* Leases).take({ worker: "worker-1", machine: "machine-1" }, { slots: 9, boots: 9, errands: 9 })
      if (taken === undefined) return assert.fail("it was not leased")
      const setups = yield* Setups
      yield* setups.save(taken.lease, running)
      const { told: _told, ...shown } = { ...running, startedAt: "2026-11-21T02:41:00.123Z" }
      assert.deepStrictEqual(json(yield* ask(path, { key })), shown)
      refused(yield* ask(path, { key: (yield* mintKey({ grant: "another" })).key }), 404, "not_found")

      // The worker that ran it has gone with the sandbox.
      yield* drive(id, [{ _tag: "StartBoot" }, { _tag: "Fail", reason: "boot_failed", error: "No.", retryable: false }])
      assert.deepStrictEqual(json(yield* ask(path, { key })), { ...shown, state: "failed" })
      yield* setups.save(taken.lease, { ...running, state: "succeeded", ms: 12, exitCode: 0 })
      assert.deepStrictEqual(json(yield* ask(path, { key })), { ...shown, state: "succeeded", ms: 12, exitCode: 0 })
    }))
})
