/** Sandboxes that have checkpoints. */
import { assert } from "@effect/vitest"
import { Checkpoints } from "@slipway/domain/sandbox/ports/Checkpoints"
import { Leases } from "@slipway/domain/sandbox/ports/Leases"
import { SandboxStore } from "@slipway/domain/sandbox/ports/SandboxStore"
import { Policy } from "@slipway/domain/sandbox/rules/Policy"
import { decide } from "@slipway/domain/sandbox/rules/SystemCommand"
import { DateTime, Effect, Stream } from "effect"
import { drive, running } from "./Harness.ts"

/** The commit of `acme/shop` in checkpoint `n`. */
export const shaOf = (n: number): string => String(n).padStart(40, "0")

/** A running sandbox after its first turn. Does what a worker would: it ends the turn and takes checkpoints; `n` has `n` lines more. */
export const checkpointed = Effect.fnUntraced(function*(key: string, count = 2, more: object = {}) {
  const [leases, store, checkpoints] = [yield* Leases, yield* SandboxStore, yield* Checkpoints]
  const limits = yield* Policy
  const { id, turn } = yield* running(key, more)
  const taken = yield* leases.take({ worker: "worker-1", machine: "machine-1" }, { slots: 100, boots: 100, errands: 100 })
  const lease = taken.find(({ sandbox }) => sandbox.id === id)?.lease
  assert.isDefined(lease)
  yield* drive(id, [{ _tag: "EndTurn", turnId: turn, state: "succeeded" }])
  for (let n = 1; n <= count; n++) {
    const bytes = yield* checkpoints.put(lease!, n, Stream.make(new TextEncoder().encode(`content ${n}`)), [
      { repo: "acme/shop", additions: n, deletions: 1, changedFiles: 1 }
    ])
    const data = { checkpoint: n, bytes, ms: 1, repos: [{ repo: "acme/shop", sha: shaOf(n) }] }
    const now = yield* DateTime.now
    yield* store.change(id, lease!, (sandbox) => decide(sandbox, { _tag: "RecordCheckpoint", data }, { limits, now }), now)
  }
  return { id, turn }
})
