/**
 * What every `Leases` must do, beside the `SandboxStore` of the same rows. An adapter proves itself by running this suite against
 * its layer; a rule that is not here is not part of the port. Fresh ids make it repeatable on one database.
 */
import { assert, it } from "@effect/vitest"
import { DateTime, Effect, type Layer } from "effect"
import { Ids } from "../src/Ids.ts"
import { terminate } from "../src/sandbox/Command.ts"
import { Leases } from "../src/sandbox/Leases.ts"
import { SandboxStore } from "../src/sandbox/SandboxStore.ts"
import { SandboxId } from "../src/SandboxId.ts"
import { StoreFixture, at, machine, make, drive, keyOf, take, leased, ending, type Stores, command } from "./SandboxStates.ts"

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
        yield* fixture.expireLease(sandbox.id)
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

    it.effect("another machine waits before it takes over what a lost worker left", () =>
      Effect.gen(function*() {
        const fixture = yield* StoreFixture
        const sandbox = yield* make()
        yield* leased(sandbox.id)
        yield* fixture.expireLease(sandbox.id)
        assert.isUndefined(yield* take(sandbox.id, { worker: "worker-2", machine: "machine-2" }))
        assert.isDefined(yield* take(sandbox.id, { worker: "worker-3", machine: "machine-1" }))
      }))

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
