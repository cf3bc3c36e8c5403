/** Rules of a sandbox's checkpoints, by examples. `Histories.test.ts` has the general laws. */
import { assert, describe, it } from "@effect/vitest"
import type { RestoreCause } from "@slipway/domain/sandbox/rules/SandboxEvent"
import { workedTurns } from "@slipway/domain/sandbox/rules/SystemCommand"
import { type History, reach } from "@slipway/testing/histories/Histories"

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
    assert.notProperty(record(reach("resumed"), 2).events[0]?.data, "turn_id")
  })

  it("a checkpoint whose files were read before the last turn does not count: the files of that turn are still unsaved", () => {
    const history = reach("idle")
    for (const data of [{ checkpoint: 1, bytes: 1234, ms: 5, repos }, { error: "It is too large." }]) {
      const late = history.system({ _tag: "RecordCheckpoint", data, workedTurns: 0 })
      assert.deepStrictEqual([late.refused, late.after.checkpoint, late.after.owesCheckpoint], ["IllegalTransition", 0, true])
    }
    assert.isNull(history.system({ _tag: "RecordCheckpoint", data: { checkpoint: 1, bytes: 1234, ms: 5, repos }, workedTurns: 1 }).refused)
  })

  it("a turn is worked on once its agent has taken it", () => {
    const resumed = reach("idle")
    resumed.person({ _tag: "Send", prompt: "And now?" })
    const turns = (["creating", "pending", "working", "idle", "resumed"] as const).map((scene) => workedTurns(reach(scene).sandbox))
    assert.deepStrictEqual([...turns, workedTurns(resumed.sandbox)], [0, 0, 1, 1, 2, 1])
  })

  it("a checkpoint is the next one of a sandbox that is running or ending", () => {
    for (const scene of ["idle", "working", "terminating"] as const) {
      assert.isNull(record(reach(scene), 1).refused, scene)
      for (const number of [0, 2]) assert.strictEqual(record(reach(scene), number).refused, "IllegalTransition", scene)
    }
    for (const scene of ["queued", "creating", "succeeded", "failed", "terminated"] as const) {
      assert.strictEqual(record(reach(scene), 1).refused, "IllegalTransition", scene)
    }
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
      assert.isFalse(after.pinned)
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
    const { turn } = history
    assert.deepStrictEqual(events, [
      { type: "approval.resolved", turn_id: turn, data: { approval_id: "call-1", outcome: "denied", by: "turn_end" } },
      { type: "turn.completed", turn_id: turn, data: { state: "failed", reason: "machine_lost", initiator: "provider" } },
      { type: "sandbox.restored", data: { checkpoint: 1, cause: "machine_lost", lost_turn: turn } }
    ])
  })

  it("the next message gets its turn after a lost one", () => {
    const history = reach("working")
    record(history, 1)
    history.person({ _tag: "Send", prompt: "And now?", whenBusy: "queue" })
    const { after, events } = restore(history, 1, "machine_lost")
    assert.deepStrictEqual(events.map(({ type }) => type), ["turn.completed", "sandbox.restored", "turn.updated"])
    assert.deepStrictEqual([after.turn?.n, after.turn?.state, after.turn?.prompt], [2, "pending", "And now?"])
  })

  it("a message waits on behind a turn that is not lost", () => {
    const history = reach("pending")
    record(history, 1)
    history.person({ _tag: "Send", prompt: "And now?", whenBusy: "queue" })
    assert.deepStrictEqual(restore(history, 1, "machine_lost").events.map(({ type }) => type), ["sandbox.restored"])
  })
})
