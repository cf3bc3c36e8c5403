/** Rules of a sandbox's checkpoints, by examples. `Histories.test.ts` has the general laws. */
import { assert, describe, it } from "@effect/vitest"
import type { RestoreCause } from "@slipway/domain/sandbox/rules/SandboxEvent"
import { count, declare } from "@slipway/domain/sandbox/usecases/SandboxMetrics"
import { type History, reach } from "@slipway/testing/histories/Histories"
import { register } from "@slipway/testing/runners/Vitest"
import * as Effect from "effect/Effect"
import * as Metric from "effect/Metric"
import { suites } from "./Checkpoints.suites.ts"

register(...suites())

const repos = [{ repo: "acme/shop", sha: "0123456789abcdef0123456789abcdef01234567" }]

const record = (history: History, checkpoint: number) =>
  history.system({ _tag: "RecordCheckpoint", data: { checkpoint, bytes: 1234, ms: 5, repos } })
const restore = (history: History, checkpoint: number, cause: RestoreCause) =>
  history.system({ _tag: "RecordRestore", data: { checkpoint, cause } })

/** Idle, with two checkpoints. */
const settledDown = () => {
  const history = reach("idle")
  record(history, 1)
  record(history, 2)
  return history
}

describe("checkpoints of a sandbox", () => {
  it("an ended turn is named by the checkpoint after it, a running turn is not", () => {
    const turnIn = (scene: "working" | "idle") => record(reach(scene), 1).events
    const { turn } = reach("idle")
    assert.deepStrictEqual(turnIn("idle"), [{
      type: "sandbox.checkpoint",
      data: { checkpoint: 1, bytes: 1234, ms: 5, repos, turn_id: turn }
    }])
    assert.deepStrictEqual(turnIn("working"), [{ type: "sandbox.checkpoint", data: { checkpoint: 1, bytes: 1234, ms: 5, repos } }])
  })

  it("a checkpoint whose files were read before the last turn does not count: the files of that turn are still unsaved", () => {
    const history = reach("idle")
    for (const data of [{ checkpoint: 1, bytes: 1234, ms: 5, repos }, { error: "It is too large." }]) {
      const late = history.system({ _tag: "RecordCheckpoint", data, workedTurns: 0 })
      assert.deepStrictEqual([late.refused, late.after.checkpoint, late.after.owesCheckpoint], ["IllegalTransition", 0, true])
    }
    assert.isNull(history.system({ _tag: "RecordCheckpoint", data: { checkpoint: 1, bytes: 1234, ms: 5, repos }, workedTurns: 1 }).refused)
  })

  it("a failed checkpoint counts as an attempt: the next one gets its number", () => {
    const history = reach("idle")
    const tried = history.system({ _tag: "RecordCheckpoint", data: { error: "It is too large." } })
    assert.deepStrictEqual([tried.after.checkpoint, tried.after.owesCheckpoint], [0, false])
    assert.strictEqual(record(history, 1).after.checkpoint, 1)
  })

  it("a failed checkpoint pins the sandbox, also after a failed restore", () => {
    const history = settledDown()
    const pinned = () => history.sandbox.pinned
    assert.isFalse(pinned())
    history.system({ _tag: "RecordCheckpoint", data: { error: "It is too large." } })
    assert.isTrue(pinned())
    assert.isNull(history.person({ _tag: "Restore", checkpoint: 2 }).refused)
    assert.isNull(history.system({ _tag: "FailRestore", error: "It is damaged.", damaged: [2, 1] }).refused)
    assert.isTrue(pinned())
    history.person({ _tag: "Restore", checkpoint: 2 })
    history.system({ _tag: "RecordRestore", data: { checkpoint: 1, cause: "command", damaged: [2] } })
    assert.isFalse(pinned())
  })

  for (
    const [checkpoint, cause, owes] of [
      [2, "machine_lost", false],
      [2, "machine_drained", false],
      [2, "command", false],
      [2, "fork", true],
      [1, "machine_lost", true],
      [1, "command", true]
    ] as const
  ) {
    it(`a sandbox restored from checkpoint ${checkpoint} of 2 for ${cause} ${owes ? "owes another one" : "owes none"}`, () => {
      assert.strictEqual(restore(settledDown(), checkpoint, cause).after.owesCheckpoint, owes)
    })
  }

  it("a restore that failed says why, changes nothing, and may be asked for again", () => {
    for (const owes of [false, true]) {
      const history = reach("idle")
      record(history, 1)
      if (owes) history.system({ _tag: "ReportPublication", data: { repo: "acme/shop", action_state: "idle", head_sha: "a".repeat(40) } })
      const before = history.sandbox
      const asked = history.person({ _tag: "Restore", checkpoint: 1 })
      const { after, events } = history.system({ _tag: "FailRestore", error: "It is cut.", damaged: [1] })
      assert.deepStrictEqual(events, [{ type: "sandbox.restored", data: { cause: "command", damaged: [1], error: "It is cut." } }])
      assert.deepStrictEqual([after.owesCheckpoint, after.checkpoint, after.restoring, after.turn], [owes, 1, null, before.turn])
      const again = history.person({ _tag: "Restore", checkpoint: 1 })
      assert.strictEqual(again.result?.outcome, "applied")
      assert.notStrictEqual(again.result?.commandId, asked.result?.commandId)
    }
  })

  it("only what a person wanted back can fail to be restored", () => {
    assert.deepStrictEqual(settledDown().system({ _tag: "FailRestore", error: "It is cut.", damaged: [1] }).events, [])
    for (const scene of ["queued", "creating", "succeeded", "failed", "terminating", "terminated"] as const) {
      assert.strictEqual(reach(scene).system({ _tag: "FailRestore", error: "It is cut.", damaged: [1] }).refused, "IllegalTransition")
    }
  })

  for (const cause of ["machine_lost", "machine_drained"] as const) {
    it(`what a person wants back is wanted still after ${cause}, by the same command`, () => {
      const history = settledDown()
      const asked = history.person({ _tag: "Restore", checkpoint: 1 })
      assert.strictEqual(restore(history, 2, cause).after.restoring, 1)
      const again = history.person({ _tag: "Restore", checkpoint: 1 })
      assert.deepStrictEqual([again.result?.outcome, again.result?.commandId], ["duplicate", asked.result?.commandId])
    })
  }

  it("a fork is restored while it boots, and no other one", () => {
    assert.isNull(restore(reach("creating"), 1, "fork").refused)
    assert.strictEqual(restore(reach("creating"), 1, "machine_lost").refused, "IllegalTransition")
    for (const scene of ["queued", "succeeded", "failed", "terminating", "terminated"] as const) {
      assert.strictEqual(restore(reach(scene), 1, "fork").refused, "IllegalTransition")
    }
  })

  for (
    const [checkpoint, cause, refused] of [
      [0, "command", "IllegalTransition"],
      [3, "command", "IllegalTransition"],
      [3, "machine_lost", "IllegalTransition"],
      [3, "machine_drained", "IllegalTransition"],
      [3, "fork", null],
      [2, "command", null],
      [1, "machine_lost", null]
    ] as const
  ) {
    it(`of two checkpoints, ${checkpoint} for ${cause} is ${refused === null ? "restored" : "refused"}`, () => {
      assert.strictEqual(restore(settledDown(), checkpoint, cause).refused, refused)
    })
  }

  it("a turn that waits for its agent is not lost with a machine", () => {
    const history = reach("pending")
    record(history, 1)
    const { after, events } = restore(history, 1, "machine_lost")
    assert.deepStrictEqual([after.turn?.state, events.length], ["pending", 1])
  })

  it("a lost turn denies what it asked for, and ends before the sandbox is told to be restored", () => {
    const history = reach("asking")
    record(history, 1)
    const { events } = restore(history, 1, "machine_lost")
    assert.deepStrictEqual(events.map(({ type }) => type), ["approval.resolved", "turn.completed", "sandbox.restored"])
  })
})

it.effect("counts checkpoints that were taken and that were not, what is stored of them, and restores by their cause", () =>
  Effect.gen(function*() {
    yield* declare
    const history = reach("idle")
    const moments = [
      record(history, 1),
      history.system({ _tag: "RecordCheckpoint", data: { error: "No." } }),
      restore(history, 1, "machine_lost"),
      history.person({ _tag: "Restore", checkpoint: 1 }),
      history.system({ _tag: "FailRestore", error: "It is cut.", damaged: [1] })
    ]
    for (const { after, before, events } of moments) yield* count({ before, events, sandbox: after })
    const series = (yield* Metric.snapshot).filter(({ id }) => /^slipway_(?:checkpoint|restore)/u.test(id))
    const seen = series.map(({ attributes, id, state, type }) => [
      [id, ...Object.values(attributes ?? {})].join(" "),
      type === "Counter" ? Number(state.count) : type === "Histogram" ? [state.count, state.sum] : null
    ])
    assert.deepStrictEqual(Object.fromEntries(seen), {
      "slipway_checkpoints_total taken": 1,
      "slipway_checkpoints_total failed": 1,
      "slipway_checkpoint_bytes": [1, 1234],
      "slipway_checkpoint_duration_seconds": [1, 0.005],
      "slipway_restores_total machine_lost": 1,
      "slipway_restores_total machine_drained": 0,
      "slipway_restores_total command": 0,
      "slipway_restores_total fork": 0
    })
  }).pipe(Effect.provideService(Metric.MetricRegistry, new Map())))
