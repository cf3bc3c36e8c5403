import { assert, it } from "@effect/vitest"
import { LEASE_RENEWAL_SECONDS, LEASE_SECONDS } from "@slipway/domain/sandbox/Leases"
import { type Leasable, type Taker, leaseOrder, mayLease } from "@slipway/domain/sandbox/Leasing"
import { Policy } from "@slipway/domain/sandbox/Policy"
import { SandboxStatus } from "@slipway/domain/sandbox/SandboxEvent"
import { SandboxId } from "@slipway/domain/SandboxId"
import { Arbitrary, DateTime, Duration, Schema } from "effect"

const now = DateTime.makeUnsafe("2026-11-21T02:41:00.123Z")
const taker: Taker = { machine: "mine", now, lost: Duration.minutes(5) }
const ago = (seconds: number) => DateTime.subtract(now, { seconds })
const sandbox = (n: number, more: Partial<Leasable> = {}): Leasable => ({
  id: SandboxId.make(`c_${String(n + 2).repeat(12)}`),
  grantId: "g",
  createdAt: DateTime.add(ago(3600), { seconds: n }),
  status: "queued",
  lease: null,
  ...more
})
const order = (sandboxes: ReadonlyArray<Leasable>, limit: number, ending = limit) => leaseOrder(sandboxes, taker, { limit, ending })

it("a lost worker's machine may go on when the lease is over, another one five minutes later", () => {
  const after = (machine: string, seconds: number) => mayLease(sandbox(0, { lease: { machine, until: ago(seconds) } }), taker)
  assert.deepStrictEqual([-1, 0, 1].map((seconds) => after("mine", seconds)), [false, true, true])
  assert.deepStrictEqual([0, 299, 300].map((seconds) => after("other", seconds)), [false, false, true])
})

it("a worker has three chances to renew a lease before it runs out, and a lost machine longer than that to come back", () => {
  assert.strictEqual(LEASE_SECONDS, 3 * LEASE_RENEWAL_SECONDS)
  assert.isAbove(Duration.toSeconds(Policy.defaultValue().lost), LEASE_SECONDS)
})

it("what is over needs nobody", () => {
  const leased = SandboxStatus.literals.filter((status) => mayLease(sandbox(0, { status }), taker))
  assert.sameMembers(leased, ["queued", "creating", "running", "terminating"])
})

it("grants take turns, the one of which workers hold fewest first, and within one the longest waiting goes first", () => {
  const held = sandbox(0, { grantId: "many", status: "running", lease: { machine: "other", until: DateTime.add(now, { seconds: 1 }) } })
  const [many1, many2, few1, few2] = [
    sandbox(2, { grantId: "many" }),
    sandbox(1, { grantId: "many" }),
    sandbox(4, { grantId: "few" }),
    sandbox(3, { grantId: "few" })
  ]
  assert.deepStrictEqual(order([held, many1, many2, few1, few2], 10), [few2.id, many2.id, few1.id, many1.id])
})

it("what ends comes on top of the room for the rest, and takes no grant's turn", () => {
  const [one, two, waiting, other] = [
    sandbox(0, { status: "terminating" }),
    sandbox(1, { status: "terminating" }),
    sandbox(3),
    sandbox(4, { grantId: "other" })
  ]
  assert.deepStrictEqual(order([other, waiting, two, one], 1, 1), [one.id, waiting.id])
  assert.deepStrictEqual(order([other, waiting, two, one], 0, 5), [one.id, two.id])
})

const Waiting = Schema.Struct({ grant: Schema.Literals(["a", "b", "c"]), age: Schema.Literals([1, 2, 3, 4]) })

it.prop(
  "no grant is given two more than another that still waits",
  [Arbitrary.array(Arbitrary.schema(Waiting), { maxLength: 7 }), Arbitrary.schema(Schema.Literals([0, 1, 2, 3, 4, 5]))],
  ([given, limit]) => {
    const all = given.map(({ age, grant }, n) => sandbox(n, { grantId: grant, createdAt: ago(age) }))
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
