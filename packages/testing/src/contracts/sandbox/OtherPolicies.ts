/** Rules about state that a process of another policy, or of another time, has written: parts of the suites of the three stores. */
import { Leases } from "@slipway/domain/sandbox/ports/Leases"
import { Maintenance } from "@slipway/domain/sandbox/ports/Maintenance"
import { SandboxStore, type Writer as By } from "@slipway/domain/sandbox/ports/SandboxStore"
import { decideApproval } from "@slipway/domain/sandbox/rules/Command"
import { type Limits, Policy } from "@slipway/domain/sandbox/rules/Policy"
import { evolve, type Sandbox } from "@slipway/domain/sandbox/rules/Sandbox"
import { decide, type SystemCommand } from "@slipway/domain/sandbox/rules/SystemCommand"
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import { decider } from "../../histories/Histories.ts"
import { assert } from "../../suite/Assert.ts"
import type { Writer } from "../../suite/Suite.ts"
import { at, command, eventsOf, keyOf, leased, machine, make, running, StoreFixture, type Stores, take } from "./SandboxStates.ts"

const seconds = (n: number) => DateTime.add(at, { seconds: n })

/** A process of this policy, with a clock of its own, writes to a sandbox. */
const write = Effect.fnUntraced(function*(
  limits: Limits,
  { id }: Pick<Sandbox, "id">,
  what: SystemCommand,
  now: DateTime.Utc,
  by: By = "policy"
) {
  const { under } = yield* StoreFixture
  return yield* under(
    limits,
    SandboxStore.use((store) => store.change(id, by, (state) => decide(state, what, { now, limits }), now))
  )
})

/** Rules of `SandboxStore`. */
export const writtenByOthers = (it: Writer<Stores>) => {
  it.effect("an approval expires when its people were told it would, whatever the policy is by then", () =>
    Effect.gen(function*() {
      const limits = yield* Policy
      const [short, long] = [{ ...limits, approval: Duration.minutes(1) }, { ...limits, approval: Duration.hours(1) }]
      const { ids, sandbox, turn } = yield* running
      const ask = (by: Limits, call: string) =>
        write(by, sandbox, {
          _tag: "RequestApproval",
          turnId: turn,
          approval: { approval_id: call, tool: "write", kind: "edit", paths: ["a.txt"] }
        }, at)
      yield* ask(short, "call-1")
      yield* ask(long, "call-2")
      yield* write(long, sandbox, { _tag: "Expire" }, seconds(59))
      assert.deepStrictEqual((yield* SandboxStore.use((store) => store.find(keyOf(sandbox)))).approvals.length, 2)
      const { sandbox: expired } = yield* write(long, sandbox, { _tag: "Expire" }, seconds(61))
      assert.deepStrictEqual(expired.approvals.map(({ approval_id }) => approval_id), ["call-2"])
      const { sandbox: kept } = yield* write(short, sandbox, { _tag: "Expire" }, seconds(62))
      assert.deepStrictEqual(kept.approvals.map(({ approval_id }) => approval_id), ["call-2"])
      const late = yield* command(keyOf(sandbox), decideApproval(ids, "call-1", { decision: "approve" }, decider), seconds(63))
      assert.deepInclude(late, { outcome: "rejected", rejection: "approval_expired" })
    }))

  it.effect("a sandbox that processes of three policies and three clocks wrote is what its log says", () =>
    Effect.gen(function*() {
      const limits = yield* Policy
      const ahead = yield* make({ createdAt: DateTime.add(at, { days: 1 }) })
      const policies = [limits, { ...limits, boot: Duration.seconds(1) }, { ...limits, lifetime: Duration.days(9) }]
      yield* write(policies[0]!, ahead, { _tag: "StartBoot" }, at)
      yield* write(policies[1]!, ahead, { _tag: "ReportBoot", data: { stage: "provision", ms: 1 } }, DateTime.subtract(at, { days: 1 }))
      yield* write(policies[2]!, ahead, { _tag: "Fail", reason: "boot_failed", error: "No.", retryable: false }, seconds(1))
      const events = yield* eventsOf(ahead.id)
      assert.isTrue(events.every(({ at }, i) => i === 0 || !DateTime.isLessThan(at, events[i - 1]!.at)))
      const stored = yield* SandboxStore.use((store) => store.find(keyOf(ahead)))
      assert.strictEqual(stored.lastSeq, events.length)
      assert.deepStrictEqual(events.slice(1).reduce((state, { at, event }) => evolve(state, event, at), ahead), stored)
    }))
}

/** Rules of `Leases`. */
export const leasedByOthers = (it: Writer<Stores>) => {
  it.effect("a lease holds for processes of every policy", () =>
    Effect.gen(function*() {
      const leases = yield* Leases
      const limits = yield* Policy
      const { under } = yield* StoreFixture
      const short = { ...limits, queue: Duration.millis(1), lifetime: Duration.millis(1), lost: Duration.millis(1) }
      const sandbox = yield* under(short, make())
      const { lease } = yield* leased(sandbox.id)
      const booting = yield* write({ ...limits, boot: Duration.hours(9) }, sandbox, { _tag: "StartBoot" }, at, lease)
      assert.strictEqual(booting.sandbox.status, "creating")
      assert.isUndefined(yield* take(sandbox.id, { worker: "worker-2", machine: "machine-2" }))
      assert.deepStrictEqual(yield* leases.renew([lease]), [lease])
      const { sandbox: failed } = yield* write(
        short,
        sandbox,
        { _tag: "Fail", reason: "boot_failed", error: "No.", retryable: false },
        at,
        lease
      )
      assert.strictEqual(failed.status, "failed")
    }))

  it.effect("a sandbox of a process whose clock is a year ahead, or a year late, is leased at once", () =>
    Effect.gen(function*() {
      const now = yield* Maintenance.use((maintenance) => maintenance.now)
      const limits = yield* Policy
      for (const days of [365, -365]) {
        const sandbox = yield* make({ createdAt: DateTime.add(now, { days }) })
        const { lease } = yield* leased(sandbox.id, machine)
        yield* write(limits, sandbox, { _tag: "StartBoot" }, now, lease)
        yield* write(limits, sandbox, { _tag: "Fail", reason: "boot_failed", error: "No.", retryable: false }, now, lease)
      }
    }))
}

/** Rules of `Maintenance`. */
export const dueByOthers = (it: Writer<Stores>) => {
  it.effect("a sandbox of a process whose clock is ahead is due by its own dates, under the policy of the process that asks", () =>
    Effect.gen(function*() {
      const limits = yield* Policy
      const { under } = yield* StoreFixture
      const long = { ...limits, queue: Duration.days(1000), lifetime: Duration.days(1000) }
      const short = { ...long, queue: Duration.minutes(1) }
      const now = yield* Maintenance.use((maintenance) => maintenance.now)
      const ahead = yield* under(long, make({ createdAt: DateTime.add(now, { days: 1 }) }))
      const late = yield* under(long, make({ createdAt: DateTime.subtract(now, { days: 365 }) }))
      const due = (by: Limits) =>
        under(
          by,
          Effect.map(
            Maintenance.use((maintenance) => maintenance.due(10_000)),
            ({ ids }) => [ahead, late].filter(({ id }) => ids.includes(id)).map(({ id }) => id)
          )
        )
      assert.deepStrictEqual(yield* due(long), [])
      assert.deepStrictEqual(yield* due(short), [late.id])
      const { sandbox } = yield* write(short, late, { _tag: "Expire" }, now)
      assert.strictEqual(sandbox.status, "failed")
      assert.deepStrictEqual(yield* due(short), [])
    }))
}
