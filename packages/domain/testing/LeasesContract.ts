/**
 * What every `Leases` must do, beside the `SandboxStore` of the same rows. An adapter proves itself by running this suite against
 * its layer; a rule that is not here is not part of the port. Fresh ids make it repeatable on one database.
 */
import { assert, it } from "@effect/vitest"
import { Arbitrary, DateTime, Duration, Effect, type Layer, Schema } from "effect"
import { Ids } from "../src/Ids.ts"
import { terminate } from "../src/sandbox/Command.ts"
import { LEASE_RENEWAL_SECONDS, LEASE_SECONDS, Leases } from "../src/sandbox/Leases.ts"
import { type Leasable, leaseOrder } from "../src/sandbox/Leasing.ts"
import { Policy } from "../src/sandbox/Policy.ts"
import { SandboxStore } from "../src/sandbox/SandboxStore.ts"
import type { SystemCommand } from "../src/sandbox/SystemCommand.ts"
import { SandboxId } from "../src/SandboxId.ts"
import { StoreFixture, at, machine, make, drive, keyOf, take, leased, ending, type Stores, command } from "./SandboxStates.ts"

/** One sandbox of those that a worker chooses from. */
const Known = Schema.Struct({
  grant: Schema.Literals(["one", "another"]),
  /** Equal ones are told apart by their ids. */
  age: Schema.Literals([1, 2, 3, 4]),
  status: Schema.Literals(["queued", "creating", "running", "terminating", "failed"]),
  /** `over`: for how many seconds it has been, `null`: it holds. */
  lease: Schema.NullOr(Schema.Struct({ holder: Schema.Literals(["mine", "other"]), over: Schema.NullOr(Schema.Literals([0, 240, 300])) }))
})
const Room = Schema.Literals([0, 1, 2, 3, 10])

const boot: SystemCommand = { _tag: "StartBoot" }
const waysTo: Readonly<Record<(typeof Known.Type)["status"], ReadonlyArray<SystemCommand>>> = {
  queued: [],
  creating: [boot],
  running: [boot, { _tag: "FinishBoot", turnId: "turn" }],
  terminating: [boot],
  failed: [boot, { _tag: "Fail", reason: "boot_failed", error: "No.", retryable: false }]
}

/** For every store. */
export const suite = (name: string, layer: Layer.Layer<Stores, unknown>) =>
  it.layer(layer)(`Leases (${name})`, (it) => {
    it.effect("a sandbox is leased to one worker at a time", () =>
      Effect.gen(function*() {
        const sandbox = yield* make()
        const results = yield* Effect.forEach(Array.from({ length: 6 }), () => take(sandbox.id), { concurrency: "unbounded" })
        assert.strictEqual(results.filter((found) => found !== undefined).length, 1)
      }))

    it.effect("a stale lease writes nothing", () =>
      Effect.gen(function*() {
        const store = yield* SandboxStore
        const leases = yield* Leases
        const fixture = yield* StoreFixture
        const sandbox = yield* make()
        const old = yield* leased(sandbox.id)
        yield* fixture.ageLease(sandbox.id, LEASE_SECONDS)
        const next = yield* leased(sandbox.id)
        assert.isAbove(next.lease.fence, old.lease.fence)
        const stale = yield* Effect.flip(drive(sandbox, [{ _tag: "StartBoot" }], old.lease))
        assert.strictEqual(stale._tag, "StaleLease")
        assert.strictEqual((yield* Effect.flip(leases.saveAgentSession(old.lease, "s")))._tag, "StaleLease")
        assert.deepStrictEqual(yield* leases.renew([old.lease, next.lease]), [next.lease])
        yield* leases.release(old.lease)
        assert.isUndefined(yield* take(sandbox.id))
        assert.strictEqual((yield* store.find(sandbox)).lastSeq, 1)
        assert.strictEqual((yield* drive(sandbox, [{ _tag: "StartBoot" }], next.lease)).status, "creating")
      }))

    it.effect("a released sandbox is leased again at once, with the agent's session", () =>
      Effect.gen(function*() {
        const leases = yield* Leases
        const sandbox = yield* make()
        const { lease } = yield* leased(sandbox.id)
        yield* leases.saveAgentSession(lease, "native-7")
        yield* leases.release(lease)
        const again = yield* leased(sandbox.id)
        assert.deepStrictEqual([again.agentSession, again.elsewhere], ["native-7", false])
      }))

    it.effect("a lease holds while two renewals come to nothing, and from the third one on as long again", () =>
      Effect.gen(function*() {
        const leases = yield* Leases
        const { ageLease } = yield* StoreFixture
        const { id } = yield* make()
        const { lease } = yield* leased(id)
        for (const _ of ["first", "renewed"]) {
          yield* ageLease(id, 2 * LEASE_RENEWAL_SECONDS)
          assert.isUndefined(yield* take(id))
          assert.deepStrictEqual(yield* leases.renew([lease]), [lease])
        }
        yield* ageLease(id, LEASE_SECONDS)
        assert.isDefined(yield* take(id))
      }))

    it.effect("another machine waits for a lost one before it takes over what that left, which itself need not", () =>
      Effect.gen(function*() {
        const { ageLease } = yield* StoreFixture
        const lost = Duration.toSeconds((yield* Policy).lost)
        const another = { worker: "worker-2", machine: "machine-2" }
        const { id } = yield* make()
        yield* leased(id)
        yield* ageLease(id, LEASE_SECONDS)
        assert.isUndefined(yield* take(id, another))
        yield* ageLease(id, lost - 30)
        assert.isUndefined(yield* take(id, another))
        yield* ageLease(id, 30)
        assert.isTrue((yield* leased(id, another)).elsewhere)
        const own = yield* make()
        yield* leased(own.id)
        yield* ageLease(own.id, LEASE_SECONDS)
        assert.isDefined(yield* take(own.id, { worker: "worker-3", machine: "machine-1" }))
      }))

    it.effect.prop(
      "a worker takes what the domain's rule gives it",
      [Arbitrary.array(Arbitrary.schema(Known), { minLength: 4, maxLength: 10 }), Arbitrary.schema(Room), Arbitrary.schema(Room)],
      ([population, limit, endingLimit]) =>
        Effect.gen(function*() {
          const leases = yield* Leases
          const store = yield* SandboxStore
          const fixture = yield* StoreFixture
          const ids = yield* Ids
          const { lost } = yield* Policy
          const machines = { mine: yield* ids.uuid7, other: yield* ids.uuid7 }
          const by = (who: keyof typeof machines) => ({ worker: `worker of ${who}`, machine: machines[who] })
          // What others left is nobody's business here.
          yield* leases.take({ worker: "worker", machine: yield* ids.uuid7 }, 10_000)
          const grants = { one: yield* fixture.grant, another: yield* fixture.grant }
          const known: Array<Leasable> = []
          const passing: Array<Effect.Effect<void>> = []
          for (const holder of ["mine", "other", null] as const) {
            const group = population.filter(({ lease }) => (lease?.holder ?? null) === holder)
            const made = yield* Effect.forEach(group, (one) =>
              Effect.map(
                make({ grantId: grants[one.grant], createdAt: DateTime.subtract(at, { seconds: one.age }) }),
                (sandbox) => ({ ...one, sandbox })
              ))
            if (holder !== null) yield* leases.take(by(holder), 10_000)
            for (const { lease, sandbox, status } of made) {
              yield* drive(sandbox, waysTo[status])
              if (status === "terminating") yield* command(keyOf(sandbox), terminate(ids), at)
              assert.strictEqual((yield* store.find(sandbox)).status, status)
              const passed = lease === null || lease.over === null ? 0 : LEASE_SECONDS + lease.over
              passing.push(fixture.ageLease(sandbox.id, passed))
              const until = DateTime.add(at, { seconds: LEASE_SECONDS - passed })
              known.push({ ...sandbox, status, lease: holder === null ? null : { machine: machines[holder], until } })
            }
          }
          // Only now: the next worker would have taken what ran out.
          yield* Effect.all(passing)
          const taker = { machine: machines.mine, now: at, lost }
          const room = { limit, ending: endingLimit }
          const taken = (yield* leases.take(by("mine"), limit, endingLimit)).map(({ sandbox }) => sandbox.id)
          assert.sameMembers(taken, [...leaseOrder(known, taker, room)])
        }),
      { arbitrary: { runs: 80 } }
    )

    it.effect("a worker that knows to be alone on its machine need not wait for a killed one's lease", () =>
      Effect.gen(function*() {
        const leases = yield* Leases
        const ids = yield* Ids
        const alone = { worker: "worker-4", machine: yield* ids.uuid7 }
        const sandbox = yield* make()
        const other = yield* make()
        const old = yield* leased(sandbox.id, alone)
        yield* leases.take({ ...alone, machine: yield* ids.uuid7 }, 10_000)
        yield* leases.endLeases(alone.machine)
        const next = yield* leased(sandbox.id, alone)
        assert.isAbove(next.lease.fence, old.lease.fence)
        assert.isUndefined(yield* take(other.id, alone))
      }))

    it.effect("a worker without a free slot still takes in what is ending", () =>
      Effect.gen(function*() {
        const leases = yield* Leases
        const waiting = yield* make()
        const { id } = yield* ending()
        const taken = (yield* leases.take(machine, 0, 10_000)).map(({ sandbox }) => sandbox.id)
        assert.include(taken, id)
        assert.notInclude(taken, waiting.id)
      }))

    it.effect("a worker takes in no more of what is ending than it says, and what is left goes to who asks next", () =>
      Effect.gen(function*() {
        const leases = yield* Leases
        yield* leases.take(machine, 0, 10_000)
        const made = yield* Effect.forEach([1, 2, 3], () => ending())
        const first = yield* leases.take(machine, 0, 2)
        const rest = yield* leases.take(machine, 0, 2)
        assert.deepStrictEqual([first.length, rest.length], [2, 1])
        assert.sameMembers([...first, ...rest].map(({ sandbox }) => sandbox.id), made.map(({ id }) => id))
      }))

    it.effect("one that nothing was begun for is over as soon as it is terminated: no worker is asked", () =>
      Effect.gen(function*() {
        const store = yield* SandboxStore
        const sandbox = yield* make()
        yield* command(keyOf(sandbox), terminate(yield* Ids), at)
        const { completedAt, reason, status } = yield* store.find(sandbox)
        assert.deepStrictEqual([status, reason, completedAt], ["terminated", "terminated", at])
        assert.isUndefined(yield* take(sandbox.id))
      }))

    it.effect("grants take turns: one with many that wait keeps another's first one waiting for one lease at most", () =>
      Effect.gen(function*() {
        const leases = yield* Leases
        const fixture = yield* StoreFixture
        // Longer ago than any other test's.
        const then = DateTime.makeUnsafe("2000-01-01T00:00:00.123Z")
        const [many, one, late] = [yield* fixture.grant, yield* fixture.grant, yield* fixture.grant]
        const queue = yield* Effect.forEach(
          [0, 1, 2, 3, 4, 5],
          (seconds) => make({ grantId: many, createdAt: DateTime.add(then, { seconds }) })
        )
        const only = yield* make({ grantId: one, createdAt: DateTime.add(then, { hours: 1 }) })
        const takes = (limit: number) => Effect.map(leases.take(machine, limit, 0), (found) => found.map(({ sandbox }) => sandbox.id))
        assert.sameMembers(yield* takes(2), [queue[0]?.id, only.id])
        // Workers hold one of each of these by now, and none of a third.
        const first = yield* make({ grantId: late, createdAt: DateTime.add(then, { hours: 2 }) })
        assert.deepStrictEqual(yield* takes(1), [first.id])
        const ids = yield* Ids
        yield* Effect.forEach([...queue, only, first], (sandbox) => command(keyOf(sandbox), terminate(ids), at))
      }))

    it.effect("a sandbox that is over is not leased", () =>
      Effect.gen(function*() {
        const sandbox = yield* make()
        yield* drive(sandbox, [{ _tag: "StartBoot" }, { _tag: "Fail", reason: "boot_failed", error: "No.", retryable: false }])
        assert.isUndefined(yield* take(sandbox.id))
      }))

    it.effect("knows which machine worked for sandboxes, for one that forgot who it is", () =>
      Effect.gen(function*() {
        const leases = yield* Leases
        const ids = yield* Ids
        const [mine, other] = [{ ...machine, machine: yield* ids.uuid7 }, { ...machine, machine: yield* ids.uuid7 }]
        const stray = yield* make()
        yield* leased(stray.id, other)
        const [first, second, queued] = [yield* make(), yield* make(), SandboxId.make("c_444444444444")]
        yield* leases.take(mine, 10_000)
        assert.strictEqual(yield* leases.machineOf([stray.id, first.id, second.id, queued]), mine.machine)
        assert.strictEqual(yield* leases.machineOf([stray.id]), other.machine)
        assert.isNull(yield* leases.machineOf([queued]))
        assert.isNull(yield* leases.machineOf([]))
      }))
  })
