import { assert, describe, it } from "@effect/vitest"
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import {
  isArrival,
  isAtWork,
  isUnsaved,
  isUntouched,
  type Leasable,
  leaseOrder,
  takesSlot,
  type Work,
  workOf
} from "@slipway/domain/sandbox/rules/LeaseRules"
import type { Publication } from "@slipway/domain/sandbox/rules/Sandbox"
import type { Turn, TurnState } from "@slipway/domain/sandbox/rules/Turn"
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"

const now = DateTime.makeUnsafe("2026-11-21T02:41:00.123Z")
const ago = (seconds: number) => DateTime.subtract(now, { seconds })
const turn = (state: TurnState, n = 1): Turn => ({
  n,
  id: "t",
  prompt: "p",
  authorId: "u",
  state,
  startedAt: state === "pending" ? null : now,
  interruptRequested: false
})
const publication = (actionState: Publication["actionState"]): Publication => ({
  repo: "acme/shop",
  actionState,
  number: 7,
  headSha: null,
  state: null,
  draft: null,
  merged: null,
  error: null
})
const published = [publication("idle"), publication("failed")]
const publishing = [publication("idle"), publication("updating")]

describe("a sandbox needs a worker", () => {
  const resting: Parameters<typeof workOf>[0] = {
    status: "running",
    turn: turn("succeeded"),
    owesCheckpoint: false,
    publications: published,
    restoring: null,
    syncing: false
  }
  it.each<readonly [work: Work | null, takes: boolean, facts: Partial<typeof resting>]>([
    ["boot", true, { status: "queued", turn: null }],
    ["boot", true, { status: "creating", turn: turn("pending") }],
    ["turn", true, { turn: turn("pending") }],
    ["turn", true, { turn: turn("running"), owesCheckpoint: true }],
    ["turn", false, { turn: turn("awaiting_approval") }],
    ["errand", false, { owesCheckpoint: true }],
    ["errand", false, { restoring: 1 }],
    ["errand", false, { syncing: true }],
    ["errand", false, { publications: publishing }],
    [null, false, {}],
    [null, false, { turn: null }],
    ["errand", false, { status: "terminating" }],
    ["errand", false, { status: "succeeded", publications: publishing }],
    ["errand", false, { status: "failed", publications: publishing }],
    [null, false, { status: "succeeded" }],
    [null, false, { status: "terminated", publications: publishing }]
  ])("for %s, with a slot: %s, when %j", (work, takes, facts) => {
    assert.strictEqual(workOf({ ...resting, ...facts }), work)
    assert.strictEqual(takesSlot({ ...resting, ...facts }), takes)
  })
})

describe("the data of a sandbox", () => {
  const origin = { sandboxId: SandboxId.make("c_aaaaaaaaaaaa"), checkpoint: 1 }
  const sandbox: Parameters<typeof isUnsaved>[0] = {
    checkpoint: 1,
    origin: null,
    owesCheckpoint: false,
    pinned: false,
    turn: turn("succeeded")
  }
  it.each<readonly [where: string, isUnsaved: boolean, facts: Partial<typeof sandbox>]>([
    ["nowhere before its first turn was requested", false, { checkpoint: 0, turn: null, owesCheckpoint: true }],
    ["nowhere before an agent took its first prompt", false, { checkpoint: 0, turn: turn("pending"), owesCheckpoint: true }],
    ["in its checkpoint after it was taken", false, {}],
    ["in that of its origin, before its own is taken", false, { checkpoint: 0, origin }],
    ["in that of its origin, before its first prompt", false, { checkpoint: 0, origin, turn: null, owesCheckpoint: true }],
    ["on its machine alone while it owes a checkpoint", true, { owesCheckpoint: true }],
    ["on its machine alone if its checkpoint could not be taken", true, { pinned: true }],
    ["on its machine alone while an agent works", true, { turn: turn("running") }],
    ["on its machine alone before the first checkpoint", true, { checkpoint: 0 }],
    ["on its machine alone from its second prompt on, before the first checkpoint", true, { checkpoint: 0, turn: turn("pending", 2) }],
    ["in its checkpoint before an agent takes the next prompt", false, { turn: turn("pending", 2) }],
    ["on its machine alone if a fork owes a checkpoint", true, { checkpoint: 0, origin, turn: turn("pending"), owesCheckpoint: true }]
  ])("is %s", (_, unsaved, facts) => assert.strictEqual(isUnsaved({ ...sandbox, ...facts }), unsaved))

  it("is untouched until an agent takes its first prompt, and never in a fork", () => {
    const untouched = { checkpoint: 0, origin: null, turn: turn("pending") }
    assert.isTrue(isUntouched(untouched))
    assert.isTrue(isUntouched({ ...untouched, turn: null }))
    for (const facts of [{ turn: turn("running") }, { turn: turn("pending", 2) }, { origin }, { checkpoint: 1 }]) {
      assert.isFalse(isUntouched({ ...untouched, ...facts }), JSON.stringify(facts))
    }
  })

  it("changes only while an agent works: from its start to its end", () => {
    assert.deepStrictEqual(
      [null, turn("pending"), turn("running"), turn("awaiting_approval"), turn("succeeded")].map((turn) => isAtWork({ turn })),
      [false, false, true, true, false]
    )
  })

  it("has arrived at another machine when a checkpoint was restored there", () => {
    const restored = { type: "sandbox.restored", data: { checkpoint: 1, cause: "machine_lost" } } as const
    const notRestored = { type: "sandbox.restored", data: { cause: "machine_lost" } } as const
    const forked = { type: "sandbox.forked", data: { sandbox_id: origin.sandboxId, checkpoint: 1 } } as const
    assert.isTrue(isArrival([forked, restored]))
    for (const events of [[], [notRestored], [forked]]) assert.isFalse(isArrival(events))
  })
})

describe("the order of leases", () => {
  const sandbox = (name: string, workSince: number, more: Partial<Leasable> = {}): Leasable => ({
    id: SandboxId.make(`c_${name.repeat(12)}`),
    grantId: "g",
    createdAt: ago(3600),
    status: "running",
    work: "turn",
    workSince: ago(workSince),
    lease: null,
    drained: false,
    unsaved: false,
    ...more
  })
  const held = { machine: "other", until: DateTime.add(now, { seconds: 1 }) }
  const order = (...sandboxes: ReadonlyArray<Leasable>) =>
    leaseOrder(sandboxes, { machine: "mine", now, lost: Duration.minutes(5) }, { slots: 9, boots: 9, errands: 9 }).map((id) => id.at(-1))

  it("is by the time since when they need a worker, then by age, then by id", () => {
    const old = { createdAt: ago(7200) }
    assert.deepStrictEqual(order(sandbox("a", 1, old), sandbox("b", 2)), ["b", "a"])
    assert.deepStrictEqual(order(sandbox("a", 1), sandbox("b", 1, old)), ["b", "a"])
    for (const names of ["abc", "acb", "bac", "bca", "cab", "cba"]) {
      assert.deepStrictEqual(order(...[...names].map((name) => sandbox(name, 1))), ["a", "b", "c"], names)
    }
  })

  it("counts every sandbox of a grant that is at work, booting ones too", () => {
    const many = ["d", "e"].map((name) => sandbox(name, 9, { grantId: "many", lease: held, work: "boot" }))
    const few = sandbox("f", 9, { grantId: "few", lease: held })
    assert.deepStrictEqual(order(...many, few, sandbox("a", 8, { grantId: "many" }), sandbox("b", 1, { grantId: "few" })), ["b", "a"])
  })

  it("takes grants in turns: the second of one has the place of the first of a grant with one at work", () => {
    const busy = sandbox("f", 9, { grantId: "busy", lease: held })
    const all = [busy, sandbox("a", 1, { grantId: "busy" }), sandbox("b", 3), sandbox("c", 2)]
    assert.deepStrictEqual(order(...all), ["b", "c", "a"])
  })
})
