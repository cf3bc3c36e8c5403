import { assert, it } from "@effect/vitest"
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { LEASE_RENEWAL_SECONDS, LEASE_SECONDS } from "@slipway/domain/sandbox/ports/Leases"
import { isUnsaved, type Leasable, type Room, type Taker, leaseOrder, mayLease } from "@slipway/domain/sandbox/rules/LeaseRules"
import { Policy } from "@slipway/domain/sandbox/rules/Policy"
import type { SandboxStatus } from "@slipway/domain/sandbox/rules/SandboxEvent"
import type { SystemCommand } from "@slipway/domain/sandbox/rules/SystemCommand"
import { reach, type Scene } from "@slipway/testing/histories/Histories"
import * as Arbitrary from "effect/Arbitrary"
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Schema from "effect/Schema"

const now = DateTime.makeUnsafe("2026-11-21T02:41:00.123Z")
const taker: Taker = { machine: "mine", now, lost: Duration.minutes(5) }
const ago = (seconds: number) => DateTime.subtract(now, { seconds })
const sandbox = (n: number, more: Partial<Leasable> = {}): Leasable => ({
  id: SandboxId.make(`c_${String(n + 2).repeat(12)}`),
  grantId: "g",
  createdAt: ago(3600),
  status: "running",
  work: "turn",
  workSince: DateTime.add(ago(3600), { seconds: n }),
  lease: null,
  drained: false,
  unsaved: false,
  ...more
})
const order = (sandboxes: ReadonlyArray<Leasable>, slots: number, more: Partial<Room> = {}) =>
  leaseOrder(sandboxes, taker, { slots, boots: slots, errands: slots, ...more })

it("a lost worker's machine may go on when the lease is over, another one five minutes later", () => {
  const after = (machine: string, seconds: number) => mayLease(sandbox(0, { lease: { machine, until: ago(seconds) } }), taker)
  assert.deepStrictEqual([-1, 0, 1].map((seconds) => after("mine", seconds)), [false, true, true])
  assert.deepStrictEqual([0, 299, 300].map((seconds) => after("other", seconds)), [false, false, true])
})

it("the five minutes of a machine that was given back its own begin when that is needed, and it may give it up before", () => {
  const lease = { machine: "other", until: ago(86_400) }
  const after = (seconds: number, drained: boolean) => mayLease(sandbox(0, { lease, workSince: ago(seconds), drained }), taker)
  assert.deepStrictEqual([0, 299, 300].map((seconds) => after(seconds, false)), [false, false, true])
  assert.isTrue(after(0, true))
  assert.isFalse(mayLease(sandbox(0, { lease: { machine: "other", until: DateTime.add(now, { seconds: 1 }) }, drained: true }), taker))
})

it("what a machine alone has waits its five minutes, also when that machine gave it up", () => {
  const after = (machine: string, seconds: number) =>
    mayLease(sandbox(0, { lease: { machine, until: ago(seconds) }, workSince: ago(600), drained: true, unsaved: true }), taker)
  assert.deepStrictEqual([0, 299, 300].map((seconds) => after("other", seconds)), [false, false, true])
  assert.isTrue(after("mine", 0))
})

const unsavedIn = (scene: Scene, ...commands: ReadonlyArray<SystemCommand>) => {
  const history = reach(scene)
  for (const command of commands) assert.isNull(history.system(command).refused)
  return isUnsaved(history.sandbox)
}
const taken = (checkpoint: number): SystemCommand => ({ _tag: "RecordCheckpoint", data: { checkpoint, bytes: 1, ms: 1, repos: [] } })
const notTaken: SystemCommand = { _tag: "RecordCheckpoint", data: { error: "It is too large." } }
const back: SystemCommand = { _tag: "RecordRestore", data: { checkpoint: 1, cause: "machine_lost" } }

it("its machine alone has what an agent does or did, until a checkpoint has it too", () => {
  for (const scene of ["queued", "creating", "pending"] as const) assert.isFalse(unsavedIn(scene), scene)
  for (const scene of ["working", "asking", "idle"] as const) assert.isTrue(unsavedIn(scene), scene)
  assert.isFalse(unsavedIn("idle", taken(1)))
  assert.isTrue(unsavedIn("idle", notTaken))
  assert.isTrue(unsavedIn("idle", taken(1), notTaken))
  assert.isFalse(unsavedIn("idle", taken(1), notTaken, taken(2)))
  assert.isFalse(unsavedIn("idle", taken(1), notTaken, back))
})

it("a worker has three chances to renew a lease before it runs out, and a lost machine longer than that to come back", () => {
  assert.strictEqual(LEASE_SECONDS, 3 * LEASE_RENEWAL_SECONDS)
  assert.isAbove(Duration.toSeconds(Policy.defaultValue().lost), LEASE_SECONDS)
})

it("resting and ended sandboxes need no worker", () => {
  for (const lease of [null, { machine: "mine", until: ago(600) }]) {
    assert.isFalse(mayLease(sandbox(0, { work: null, workSince: null, lease, drained: true }), taker))
  }
})

it("a publication of an ended sandbox may go to any machine at once: no machine has its data", () => {
  const lease = { machine: "other", until: now }
  const may = (status: SandboxStatus) => mayLease(sandbox(0, { status, work: "errand", workSince: now, lease }), taker)
  assert.deepStrictEqual([may("succeeded"), may("failed"), may("running")], [true, true, false])
})

it("grants take turns, the one of which workers hold fewest at work first, and within one the longest waiting goes first", () => {
  const lease = { machine: "other", until: DateTime.add(now, { seconds: 1 }) }
  const held = sandbox(0, { grantId: "many", lease })
  const warm = sandbox(5, { grantId: "few", work: null, workSince: null, lease })
  const busy = sandbox(6, { grantId: "few", work: "errand", lease })
  const [many1, many2, few1, few2] = [
    sandbox(2, { grantId: "many" }),
    sandbox(1, { grantId: "many" }),
    sandbox(4, { grantId: "few" }),
    sandbox(3, { grantId: "few" })
  ]
  assert.deepStrictEqual(order([held, warm, busy, many1, many2, few1, few2], 10), [few2.id, many2.id, few1.id, many1.id])
})

it("those that began to need a worker at one time go by their age, and by their id when that is one as well", () => {
  const [b, a, old] = [sandbox(2, { workSince: ago(9) }), sandbox(1, { workSince: ago(9) }),
    sandbox(3, { workSince: ago(9), createdAt: ago(4000) })]
  assert.deepStrictEqual(order([b, a, old], 3), [old.id, a.id, b.id])
})

it("errands come on top of the room for the rest, and take no grant's turn", () => {
  const [one, two, waiting, other] = [
    sandbox(0, { work: "errand" }),
    sandbox(1, { work: "errand" }),
    sandbox(3),
    sandbox(4, { grantId: "other" })
  ]
  assert.deepStrictEqual(order([other, waiting, two, one], 1, { errands: 1 }), [one.id, waiting.id])
  assert.deepStrictEqual(order([other, waiting, two, one], 0, { errands: 5 }), [one.id, two.id])
})

it("boots that find no room leave their slots and their places to turns, of other grants and of their own", () => {
  const [first, second] = [1, 2].map((n) => sandbox(n, { status: "queued", work: "boot" })) as [Leasable, Leasable]
  const own = sandbox(4)
  const [other, another] = [sandbox(5, { grantId: "other" }), sandbox(6, { grantId: "other" })]
  const all = [another, other, own, second, first]
  assert.deepStrictEqual(order(all, 3, { boots: 1 }), [first.id, other.id, own.id])
  assert.deepStrictEqual(order(all, 3, { boots: 0 }), [own.id, other.id, another.id])
  assert.deepStrictEqual(order([second, first], 1, { boots: 3 }), [first.id])
})

const Waiting = Schema.Struct({ grant: Schema.Literals(["a", "b", "c"]), age: Schema.Literals([1, 2, 3, 4]) })

it.prop(
  "no grant is given two more than another that still waits",
  [Arbitrary.array(Arbitrary.schema(Waiting), { maxLength: 7 }), Arbitrary.schema(Schema.Literals([0, 1, 2, 3, 4, 5]))],
  ([given, limit]) => {
    const all = given.map(({ age, grant }, n) => sandbox(n, { grantId: grant, workSince: ago(age) }))
    const taken = new Set(order(all, limit))
    assert.strictEqual(taken.size, Math.min(limit, all.length))
    const of = (grant: string, isTaken: boolean) => all.filter(({ grantId, id }) => grantId === grant && taken.has(id) === isTaken)
    for (const one of ["a", "b", "c"]) {
      for (const other of ["a", "b", "c"]) {
        if (of(other, false).length > 0) assert.isAtMost(of(one, true).length, of(other, true).length + 1)
      }
    }
  },
  { arbitrary: { runs: 300 } }
)
