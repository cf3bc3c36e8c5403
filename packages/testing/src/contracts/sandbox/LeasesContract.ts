/**
 * The rules that every `Leases` must keep, beside the `SandboxStore` of the same rows. An adapter proves itself by running this suite
 * against its layer; a rule that is missing here is not part of the port. Fresh ids make it repeatable on one database.
 */
import { Ids } from "@slipway/domain/ids/Ids"
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { LEASE_RENEWAL_SECONDS, LEASE_SECONDS, Leases } from "@slipway/domain/sandbox/ports/Leases"
import { Maintenance } from "@slipway/domain/sandbox/ports/Maintenance"
import { SandboxStore } from "@slipway/domain/sandbox/ports/SandboxStore"
import { restore, sendMessage, terminate } from "@slipway/domain/sandbox/rules/Command"
import { isUnsaved, type Leasable, leaseOrder, workOf } from "@slipway/domain/sandbox/rules/LeaseRules"
import { Policy } from "@slipway/domain/sandbox/rules/Policy"
import type { Sandbox } from "@slipway/domain/sandbox/rules/Sandbox"
import type { SystemCommand } from "@slipway/domain/sandbox/rules/SystemCommand"
import { turnId } from "@slipway/domain/sandbox/rules/Turn"
import { Hints, WORK } from "@slipway/domain/store/Hints"
import * as Arbitrary from "effect/Arbitrary"
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { assert } from "../../suite/Assert.ts"
import { define, type Writer } from "../../suite/Suite.ts"
import { leasedByOthers } from "./OtherPolicies.ts"
import {
  StoreFixture,
  ample,
  at,
  atRest,
  machine,
  make,
  drive,
  keyOf,
  take,
  leased,
  ending,
  setAside,
  type Stores,
  command
} from "./SandboxStates.ts"

/** One sandbox of those that a worker chooses from. */
const Known = Schema.Struct({
  grant: Schema.Literals(["one", "another"]),
  /** In seconds, far apart: a busy store takes some between two of them. Equal ones are ordered by their age, and then by their ids. */
  waits: Schema.Literals([1, 120, 240, 310]),
  age: Schema.Literals([1, 2]),
  state: Schema.Literals(["queued", "creating", "pending", "awaiting", "resting", "owing", "saved", "pinned", "terminating", "failed",
    "publishing"]),
  /** `over`: for how many seconds it has been, `null`: it holds. `drained`: the holder gave it up. */
  lease: Schema.NullOr(Schema.Struct({
    holder: Schema.Literals(["mine", "other"]),
    over: Schema.NullOr(Schema.Literals([0, 240, 300])),
    drained: Schema.Boolean
  }))
})
const Some = Schema.Literals([0, 1, 2, 3, 10])
const Rooms = Schema.Struct({ slots: Some, boots: Some, errands: Some })

const boot: SystemCommand = { _tag: "StartBoot" }
const ready: SystemCommand = { _tag: "FinishBoot", turnId: "turn" }
const begun: ReadonlyArray<SystemCommand> = [boot, ready, { _tag: "StartTurn", turnId: "turn" }]
const owing: ReadonlyArray<SystemCommand> = [...begun, { _tag: "EndTurn", turnId: "turn", state: "succeeded" }]
const failed: ReadonlyArray<SystemCommand> = [boot, { _tag: "Fail", reason: "boot_failed", error: "No.", retryable: false }]
const publishing: SystemCommand = { _tag: "ReportPublication", data: { repo: "acme/Shop", action_state: "publishing" } }
const checkpoint: SystemCommand = { _tag: "RecordCheckpoint", data: { checkpoint: 1, bytes: 1, ms: 1, repos: [] } }
const noCheckpoint: SystemCommand = { _tag: "RecordCheckpoint", data: { error: "It is too large." } }
const waysTo: Readonly<Record<(typeof Known.Type)["state"], ReadonlyArray<SystemCommand>>> = {
  queued: [],
  creating: [boot],
  pending: [boot, ready],
  awaiting: [...begun, { _tag: "RequestApproval", turnId: "turn", approval: { approval_id: "a", tool: "write", kind: "edit", paths: [] } }],
  resting: [...owing, checkpoint],
  owing,
  saved: [...owing, checkpoint, publishing],
  pinned: [...owing, checkpoint, noCheckpoint, publishing],
  terminating: [boot],
  failed,
  publishing: [...failed, publishing]
}

const machines = Effect.gen(function*() {
  const ids = yield* Ids
  const one = Effect.map(ids.uuid7, (name) => ({ worker: `worker of ${name}`, machine: name }))
  return [yield* one, yield* one, yield* one] as const
})
const message = (sandbox: Sandbox) =>
  Effect.gen(function*() {
    const result = yield* command(keyOf(sandbox), sendMessage(yield* Ids, "Go on", "user-1"), at)
    assert.strictEqual(result.outcome, "applied")
  })

const oneWorker = (it: Writer<Stores>) => {
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

  it.effect("a lease of an unknown sandbox is stale", () =>
    Effect.gen(function*() {
      const store = yield* SandboxStore
      const leases = yield* Leases
      const lease = { sandboxId: SandboxId.make("c_222222222222"), fence: 0 }
      const told = yield* Effect.forEach([
        store.change(lease.sandboxId, lease, () => Result.succeed([]), at),
        leases.arrived(lease),
        leases.rest(lease),
        leases.saveAgentSession(lease, "native-7")
      ], (call) => Effect.flip(call as Effect.Effect<unknown, { readonly _tag: string }>))
      assert.deepStrictEqual(told.map(({ _tag }) => _tag), told.map(() => "StaleLease"))
      assert.deepStrictEqual(yield* leases.renew([lease]), [])
      yield* leases.release(lease)
    }))

  it.effect("giving back a stale lease wakes no worker, nor does the end of a machine's leases", () =>
    Effect.gen(function*() {
      const leases = yield* Leases
      const hints = yield* Hints
      const { ageLease } = yield* StoreFixture
      const sandbox = yield* make()
      const [mine] = yield* machines
      const old = yield* leased(sandbox.id, mine)
      yield* ageLease(sandbox.id, LEASE_SECONDS)
      const next = yield* leased(sandbox.id, mine)
      let woken = 0
      yield* hints.listen(WORK, () => woken++)
      yield* leases.release(old.lease, { mayMove: true })
      yield* leases.endLeases(mine.machine)
      assert.strictEqual(woken, 0)
      assert.deepStrictEqual(yield* leases.renew([old.lease, next.lease]), [next.lease])
      yield* leases.release(next.lease)
      assert.strictEqual(woken, 1)
    }))

  it.effect("a released sandbox is leased again at once, with the agent's session", () =>
    Effect.gen(function*() {
      const leases = yield* Leases
      const sandbox = yield* make()
      const { lease } = yield* leased(sandbox.id)
      yield* leases.saveAgentSession(lease, "native-7")
      yield* leases.release(lease)
      const again = yield* leased(sandbox.id)
      assert.deepStrictEqual([again.agentSession, again.moved], ["native-7", null])
    }))

  it.effect("a lost conversation is forgotten: the next worker of the sandbox begins a new one", () =>
    Effect.gen(function*() {
      const leases = yield* Leases
      const { id } = yield* make()
      const { lease } = yield* leased(id)
      yield* leases.saveAgentSession(lease, "native-7")
      yield* leases.saveAgentSession(lease, null)
      yield* leases.release(lease)
      assert.isNull((yield* leased(id)).agentSession)
    }))
}

const expiry = (it: Writer<Stores>) => {
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
      const { ageLease, ageWork } = yield* StoreFixture
      const lost = Duration.toSeconds((yield* Policy).lost)
      const another = { worker: "worker-2", machine: "machine-2" }
      const { id } = yield* make()
      yield* leased(id)
      yield* ageWork([id], 2 * lost)
      yield* ageLease(id, LEASE_SECONDS)
      assert.isUndefined(yield* take(id, another))
      yield* ageLease(id, lost - 30)
      assert.isUndefined(yield* take(id, another))
      yield* ageLease(id, 30)
      assert.strictEqual((yield* leased(id, another)).moved, "lost")
      const own = yield* make()
      yield* leased(own.id)
      yield* ageLease(own.id, LEASE_SECONDS)
      assert.isDefined(yield* take(own.id, { worker: "worker-3", machine: "machine-1" }))
    }))
}

const rest = (it: Writer<Stores>) => {
  it.effect.prop(
    "a worker takes what the domain's rule gives it",
    [Arbitrary.array(Arbitrary.schema(Known), { minLength: 4, maxLength: 10 }), Arbitrary.schema(Rooms)],
    ([population, room]) =>
      Effect.gen(function*() {
        const leases = yield* Leases
        const fixture = yield* StoreFixture
        const ids = yield* Ids
        const { lost } = yield* Policy
        const named = { mine: yield* ids.uuid7, other: yield* ids.uuid7 }
        const by = (who: keyof typeof named) => ({ worker: `worker of ${who}`, machine: named[who] })
        yield* setAside
        const grants = { one: yield* fixture.grant, another: yield* fixture.grant }
        const known: Array<Leasable> = []
        const since = new Map<number, ReadonlyArray<SandboxId>>()
        const passing: Array<Effect.Effect<void>> = []
        for (const holder of ["mine", "other", null] as const) {
          const group = population.filter(({ lease }) => (lease?.holder ?? null) === holder)
          const made = yield* Effect.forEach(group, (one) =>
            Effect.map(
              make({ grantId: grants[one.grant], createdAt: DateTime.subtract(at, { seconds: one.age }) }),
              (sandbox) => ({ ...one, sandbox })
            ))
          const held = holder === null ? [] : yield* leases.take(by(holder), ample)
          for (const { lease, sandbox, state, waits } of made) {
            let now = yield* drive(sandbox, waysTo[state])
            if (state === "terminating") {
              yield* command(keyOf(sandbox), terminate(ids), at)
              now = yield* SandboxStore.use((store) => store.find(sandbox))
            }
            const drained = lease !== null && lease.over !== null && lease.drained
            const given = held.find((found) => found.sandbox.id === sandbox.id)
            if (drained && given !== undefined) passing.push(Effect.orDie(leases.release(given.lease, { mayMove: true })))
            const passed = lease === null || lease.over === null ? 0 : (drained ? 0 : LEASE_SECONDS) + lease.over
            passing.push(fixture.ageLease(sandbox.id, passed))
            const until = DateTime.add(at, { seconds: (drained ? 0 : LEASE_SECONDS) - passed })
            const work = workOf(now)
            since.set(waits, [...since.get(waits) ?? [], sandbox.id])
            known.push({
              ...now,
              work,
              workSince: work === null ? null : DateTime.subtract(at, { seconds: waits }),
              drained,
              unsaved: isUnsaved(now),
              lease: holder === null ? null : { machine: named[holder], until }
            })
          }
        }
        // Only now: the next worker would have taken what ran out.
        yield* Effect.all(passing)
        yield* Effect.forEach(since, ([waits, these]) => fixture.ageWork(these, waits))
        const taken = (yield* leases.take(by("mine"), room)).map(({ sandbox }) => sandbox.id)
        assert.sameMembers(taken, [...leaseOrder(known, { machine: named.mine, now: at, lost }, room)])
      }),
    { arbitrary: { runs: 80 }, timeout: 300_000 }
  )

  it.effect("a sandbox at rest is unleased: no worker is given it, and the machine that gave it back stays its machine", () =>
    Effect.gen(function*() {
      const leases = yield* Leases
      const [mine, another] = yield* machines
      const sandbox = yield* make()
      const { lease } = yield* leased(sandbox.id, mine)
      yield* leases.saveAgentSession(lease, "native-7")
      yield* atRest(sandbox)
      assert.isTrue(yield* leases.rest(lease))
      for (const by of [mine, another]) assert.isUndefined(yield* take(sandbox.id, by))
      yield* message(sandbox)
      assert.isUndefined(yield* take(sandbox.id, another))
      const again = yield* leased(sandbox.id, mine)
      assert.isAbove(again.lease.fence, lease.fence)
      assert.deepStrictEqual([again.agentSession, again.moved, again.sandbox.turn?.state], ["native-7", null, "pending"])
    }))
}

const waiting = (it: Writer<Stores>) => {
  it.effect("a sandbox waits by the store's clock, whatever the clock of the process that decided", () =>
    Effect.gen(function*() {
      const leases = yield* Leases
      const now = yield* Maintenance.use((maintenance) => maintenance.now)
      const { ageWork, grant } = yield* StoreFixture
      yield* setAside
      const grantId = yield* grant
      const long = yield* make({ grantId, createdAt: now })
      yield* ageWork([long.id], 60)
      // By a clock that is an hour behind, it would have waited longer.
      const short = yield* make({ grantId, createdAt: DateTime.subtract(now, { hours: 1 }) })
      const next = Effect.map(leases.take(machine, { slots: 1, boots: 1, errands: 0 }), (found) => found.map(({ sandbox }) => sandbox.id))
      assert.deepStrictEqual([...yield* next, ...yield* next], [long.id, short.id])
    }))
}

const givingBack = (it: Writer<Stores>) => {
  it.effect("a machine has its time to come for one at rest from when that is needed again, however long it rested", () =>
    Effect.gen(function*() {
      const leases = yield* Leases
      const { ageLease, ageWork } = yield* StoreFixture
      const lost = Duration.toSeconds((yield* Policy).lost)
      const [mine, another] = yield* machines
      const sandbox = yield* make()
      const { lease } = yield* leased(sandbox.id, mine)
      // The time of the work before the rest does not count.
      yield* ageWork([sandbox.id], 3 * lost)
      yield* atRest(sandbox)
      yield* leases.rest(lease)
      yield* ageLease(sandbox.id, 10 * lost)
      yield* message(sandbox)
      assert.isUndefined(yield* take(sandbox.id, another))
      yield* ageWork([sandbox.id], lost - 20)
      assert.isUndefined(yield* take(sandbox.id, another))
      yield* ageWork([sandbox.id], lost)
      // Other events do not restart the waiting time.
      yield* drive(sandbox, [{ _tag: "StartTurn", turnId: turnId(yield* Ids, sandbox.id, 2) }])
      assert.strictEqual((yield* leased(sandbox.id, another)).moved, "lost")
    }))

  it.effect("a lease is not given back for rest while there is work", () =>
    Effect.gen(function*() {
      const leases = yield* Leases
      for (const state of ["pending", "awaiting", "owing", "creating"] as const) {
        const sandbox = yield* make()
        const { lease } = yield* leased(sandbox.id)
        yield* drive(sandbox, waysTo[state])
        assert.isFalse(yield* leases.rest(lease), state)
        assert.isUndefined(yield* take(sandbox.id))
        assert.deepStrictEqual(yield* leases.renew([lease]), [lease])
      }
    }))

  it.effect("a lease that is another worker's by now is not given back for it", () =>
    Effect.gen(function*() {
      const leases = yield* Leases
      const { ageLease } = yield* StoreFixture
      const sandbox = yield* make()
      const old = yield* leased(sandbox.id)
      yield* ageLease(sandbox.id, LEASE_SECONDS)
      const next = yield* leased(sandbox.id)
      yield* atRest(sandbox)
      assert.strictEqual((yield* Effect.flip(leases.rest(old.lease)))._tag, "StaleLease")
      assert.deepStrictEqual(yield* leases.renew([next.lease]), [next.lease])
      yield* leases.release(old.lease, { mayMove: true })
      yield* leases.rest(next.lease)
      yield* message(sandbox)
      assert.isUndefined(yield* take(sandbox.id, (yield* machines)[0]))
    }))

  it.effect("a message that comes while a lease is given back finds a worker: this one, or the next that looks", () =>
    Effect.gen(function*() {
      const leases = yield* Leases
      for (const _ of [1, 2, 3, 4]) {
        const sandbox = yield* make()
        const { lease } = yield* leased(sandbox.id)
        yield* atRest(sandbox)
        const [isAtRest] = yield* Effect.all([leases.rest(lease), message(sandbox)], { concurrency: 2 })
        assert.strictEqual((yield* take(sandbox.id)) !== undefined, isAtRest)
      }
    }))

  it.effect("work that begins in one at rest wakes the workers", () =>
    Effect.gen(function*() {
      const hints = yield* Hints
      const sandbox = yield* make()
      yield* atRest(sandbox)
      const woken = yield* hints.watch(WORK)
      yield* message(sandbox)
      yield* woken
    }))

  it.effect("giving back a lease, or giving up all unleased sandboxes of a machine, wakes the workers", () =>
    Effect.gen(function*() {
      const leases = yield* Leases
      const hints = yield* Hints
      const [mine] = yield* machines
      const { lease } = yield* leased((yield* make()).id, mine)
      const woken = yield* hints.watch(WORK)
      yield* leases.release(lease)
      yield* woken
      yield* leases.drain(mine.machine, true)
      yield* woken
    }))
}

const drains = (it: Writer<Stores>) => {
  it.effect("what a machine gives up with its lease, another one takes at once", () =>
    Effect.gen(function*() {
      const leases = yield* Leases
      const [mine, another, third] = yield* machines
      const { id } = yield* make()
      const first = yield* leased(id, mine)
      yield* leases.release(first.lease, { mayMove: true })
      // Given back again, as by a worker that was not answered, it stays given up.
      yield* leases.release(first.lease)
      const next = yield* leased(id, another)
      assert.strictEqual(next.moved, "drained")
      yield* leases.arrived(next.lease)
      // The new worker keeps it, until its machine gives it up too.
      yield* leases.release(next.lease)
      assert.isUndefined(yield* take(id, third))
      const own = yield* leased(id, another)
      assert.isNull(own.moved)
      yield* leases.release(own.lease, { mayMove: true })
      assert.isNull((yield* leased(id, another)).moved)
    }))

  it.effect("a drained machine gives up unleased sandboxes, at rest or not, and a machine that is back keeps the rest", () =>
    Effect.gen(function*() {
      const leases = yield* Leases
      const [mine, another] = yield* machines
      const made = { held: yield* make(), waiting: yield* make(), resting: yield* make(), back: yield* make(), given: yield* make() }
      const ours = yield* leases.take(mine, ample)
      const leaseOf = ({ id }: Sandbox) => ours.find(({ sandbox }) => sandbox.id === id)?.lease ?? assert.fail("not leased")
      for (const sandbox of [made.resting, made.back]) {
        yield* atRest(sandbox)
        yield* leases.rest(leaseOf(sandbox))
      }
      yield* leases.release(leaseOf(made.waiting))
      yield* leases.release(leaseOf(made.given), { mayMove: true })
      yield* leases.drain(mine.machine, true)
      yield* message(made.resting)
      assert.strictEqual((yield* leased(made.waiting.id, { ...another, worker: "first" })).moved, "drained")
      assert.deepStrictEqual(yield* leases.renew([leaseOf(made.held)]), [leaseOf(made.held)])
      yield* leases.drain(mine.machine, false)
      yield* message(made.back)
      yield* leases.release(leaseOf(made.held))
      for (const { id } of [made.back, made.held]) assert.isUndefined(yield* take(id, another))
      const again = yield* leases.take(mine, ample)
      assert.includeMembers(again.map(({ sandbox }) => sandbox.id), [made.back.id, made.held.id])
      assert.isTrue(again.every(({ moved }) => moved === null))
    }))

  for (const state of ["waiting", "resting"] as const) {
    const left = Effect.fnUntraced(function*(by: Parameters<Leases["Service"]["take"]>[0]) {
      const leases = yield* Leases
      const sandbox = yield* make()
      const { lease } = yield* leased(sandbox.id, by)
      if (state === "waiting") yield* leases.release(lease)
      else yield* Effect.andThen(atRest(sandbox), leases.rest(lease))
      return { sandbox, needed: state === "waiting" ? Effect.void : message(sandbox) }
    })

    it.effect(`a machine that is drained gives up nothing of another one's: ${state}`, () =>
      Effect.gen(function*() {
        const leases = yield* Leases
        const [mine, other, third] = yield* machines
        const { needed, sandbox } = yield* left(other)
        yield* leases.drain(mine.machine, true)
        yield* needed
        assert.isUndefined(yield* take(sandbox.id, third))
        assert.isNull((yield* leased(sandbox.id, other)).moved)
      }))

    it.effect(`what one machine gave up stays so when another one is drained and is back: ${state}`, () =>
      Effect.gen(function*() {
        const leases = yield* Leases
        const [mine, other, third] = yield* machines
        const { needed, sandbox } = yield* left(other)
        yield* leases.drain(other.machine, true)
        yield* leases.drain(mine.machine, true)
        yield* leases.drain(mine.machine, false)
        yield* needed
        assert.strictEqual((yield* leased(sandbox.id, third)).moved, "drained")
      }))
  }
}

const movedFiles = (it: Writer<Stores>) => {
  it.effect("what was given up with its lease stays so when another machine is back", () =>
    Effect.gen(function*() {
      const leases = yield* Leases
      const [mine, other, third] = yield* machines
      const { id } = yield* make()
      yield* leases.release((yield* leased(id, other)).lease, { mayMove: true })
      yield* leases.drain(mine.machine, false)
      assert.strictEqual((yield* leased(id, third)).moved, "drained")
    }))

  it.effect("what a drained machine took or kept after that is its own, as any other's", () =>
    Effect.gen(function*() {
      const leases = yield* Leases
      const [mine, another] = yield* machines
      const [kept, again] = [yield* make(), yield* make()]
      const ours = yield* leases.take(mine, ample)
      const leaseOf = ({ id }: Sandbox) => ours.find(({ sandbox }) => sandbox.id === id)?.lease ?? assert.fail("not leased")
      yield* leases.release(leaseOf(again))
      yield* leases.drain(mine.machine, true)
      const taken = yield* leased(again.id, mine)
      for (const own of [leaseOf(kept), taken.lease]) yield* leases.release(own)
      for (const { id } of [kept, again]) assert.isUndefined(yield* take(id, another))
    }))

  for (const state of ["awaiting", "owing", "pinned"] as const) {
    it.effect(`what its machine alone has waits for that one, drained or not, and is lost only with it: ${state}`, () =>
      Effect.gen(function*() {
        const leases = yield* Leases
        const { ageLease, ageWork } = yield* StoreFixture
        const lost = Duration.toSeconds((yield* Policy).lost)
        const [mine, another] = yield* machines
        const sandbox = yield* make()
        const { lease } = yield* leased(sandbox.id, mine)
        yield* drive(sandbox, waysTo[state])
        yield* leases.release(lease, { mayMove: true })
        assert.isUndefined(yield* take(sandbox.id, another))
        yield* leases.drain(mine.machine, true)
        assert.isUndefined(yield* take(sandbox.id, another))
        const own = yield* leased(sandbox.id, mine)
        assert.isNull(own.moved)
        yield* leases.release(own.lease, { mayMove: true })
        yield* leases.drain(mine.machine, true)
        yield* ageWork([sandbox.id], lost)
        yield* ageLease(sandbox.id, lost - 30)
        assert.isUndefined(yield* take(sandbox.id, another))
        yield* ageLease(sandbox.id, 30)
        assert.strictEqual((yield* leased(sandbox.id, another)).moved, "lost")
      }))
  }

  it.effect("a sandbox that a drain could not move goes at once when a checkpoint has everything that its machine has", () =>
    Effect.gen(function*() {
      const leases = yield* Leases
      const [mine, another] = yield* machines
      const sandbox = yield* make()
      yield* leased(sandbox.id, mine)
      yield* drive(sandbox, waysTo.pinned)
      const { lease } = yield* Effect.andThen(leases.endLeases(mine.machine), leased(sandbox.id, mine))
      yield* leases.release(lease, { mayMove: true })
      assert.isUndefined(yield* take(sandbox.id, another))
      yield* drive(sandbox, [{ _tag: "RecordCheckpoint", data: { checkpoint: 2, bytes: 1, ms: 1, repos: [] } }])
      assert.strictEqual((yield* leased(sandbox.id, another)).moved, "drained")
    }))
}

const capacity = (it: Writer<Stores>) => {
  it.effect("who is given a sandbox after a worker that never had its files is told as that one was", () =>
    Effect.gen(function*() {
      const leases = yield* Leases
      const { ageLease, ageWork } = yield* StoreFixture
      const lost = Duration.toSeconds((yield* Policy).lost)
      const [home, other, third] = yield* machines
      const sandbox = yield* make()
      yield* leases.release((yield* leased(sandbox.id, home)).lease, { mayMove: true })
      const movedTo = Effect.fnUntraced(function*(by: typeof home) {
        const { lease, moved } = yield* leased(sandbox.id, by)
        yield* ageWork([sandbox.id], lost)
        yield* ageLease(sandbox.id, LEASE_SECONDS + lost)
        return { lease, moved }
      })
      assert.strictEqual((yield* movedTo(other)).moved, "drained")
      assert.strictEqual((yield* movedTo(other)).moved, "drained")
      // The sandbox was not given up since, but people are told the first cause.
      assert.strictEqual((yield* movedTo(third)).moved, "drained")
      assert.isNull((yield* movedTo(home)).moved)
      const stale = yield* movedTo(other)
      assert.strictEqual(stale.moved, "lost")
      const last = yield* movedTo(third)
      assert.strictEqual((yield* Effect.flip(leases.arrived(stale.lease)))._tag, "StaleLease")
      assert.strictEqual((yield* movedTo(third)).moved, "lost")
      assert.strictEqual((yield* Effect.flip(leases.arrived(last.lease)))._tag, "StaleLease")
      const { lease } = yield* leased(sandbox.id, third)
      yield* leases.arrived(lease)
      yield* leases.release(lease)
      assert.isNull((yield* movedTo(third)).moved)
      assert.strictEqual((yield* movedTo(home)).moved, "lost")
    }))

  it.effect("a machine has the files from what it restored under its lease, not from what others record", () =>
    Effect.gen(function*() {
      const leases = yield* Leases
      const [home, other] = yield* machines
      const sandbox = yield* make()
      const { lease } = yield* leased(sandbox.id, home)
      yield* drive(sandbox, waysTo.saved, lease)
      yield* leases.release(lease, { mayMove: true })
      const first = yield* leased(sandbox.id, other)
      yield* drive(sandbox, [publishing], first.lease)
      yield* leases.release(first.lease)
      const second = yield* leased(sandbox.id, other)
      assert.strictEqual(second.moved, "drained")
      const restored: SystemCommand = { _tag: "RecordRestore", data: { checkpoint: 1, cause: "machine_drained" } }
      // A record without a lease belongs to no machine. A sandbox that could not be restored keeps its state.
      yield* drive(sandbox, [restored])
      yield* command(keyOf(sandbox), restore(yield* Ids, 1, true), at)
      yield* drive(sandbox, [{ _tag: "FailRestore", error: "No.", damaged: [1] }], second.lease)
      yield* leases.release(second.lease)
      const third = yield* leased(sandbox.id, other)
      assert.strictEqual(third.moved, "drained")
      yield* drive(sandbox, [restored], third.lease)
      yield* leases.release(third.lease, { mayMove: true })
      assert.isNull((yield* leased(sandbox.id, other)).moved)
    }))

  it.effect("boots take slots, but no more of them than a worker boots at once: what is left is for turns", () =>
    Effect.gen(function*() {
      const leases = yield* Leases
      yield* setAside
      const grantId = yield* (yield* StoreFixture).grant
      const made = yield* Effect.forEach([1, 2, 3, 4], (seconds) => make({ grantId, createdAt: DateTime.add(at, { seconds }) }))
      const turns = yield* Effect.forEach([5, 6], (seconds) => make({ grantId, createdAt: DateTime.add(at, { seconds }) }))
      yield* Effect.forEach(turns, (sandbox) => drive(sandbox, waysTo.pending))
      assert.deepStrictEqual(yield* leases.take(machine, { slots: 0, boots: 5, errands: 5 }), [])
      const first = (yield* leases.take(machine, { slots: 2, boots: 1, errands: 5 })).map(({ sandbox }) => sandbox.id)
      assert.sameMembers(first, [made[0]?.id, turns[0]?.id])
      const rest = (yield* leases.take(machine, { slots: 5, boots: 2, errands: 0 })).map(({ sandbox }) => sandbox.id)
      assert.sameMembers(rest, [made[1]?.id, made[2]?.id, turns[1]?.id])
    }))

  it.effect("a publication of a sandbox that is over is an errand of any machine", () =>
    Effect.gen(function*() {
      const leases = yield* Leases
      const [mine, another] = yield* machines
      const sandbox = yield* make()
      const { lease } = yield* leased(sandbox.id, mine)
      yield* drive(sandbox, failed)
      assert.isTrue(yield* leases.rest(lease))
      yield* drive(sandbox, [publishing])
      const found = yield* leases.take(another, { slots: 0, boots: 0, errands: 10_000 })
      assert.include(found.map(({ sandbox: { id } }) => id), sandbox.id)
    }))
}

const lostWorkers = (it: Writer<Stores>) => {
  it.effect("a worker that knows to be alone on its machine need not wait for a killed one's lease", () =>
    Effect.gen(function*() {
      const leases = yield* Leases
      const ids = yield* Ids
      const alone = { worker: "worker-4", machine: yield* ids.uuid7 }
      const sandbox = yield* make()
      const other = yield* make()
      const old = yield* leased(sandbox.id, alone)
      yield* leases.take({ ...alone, machine: yield* ids.uuid7 }, ample)
      yield* leases.endLeases(alone.machine)
      const next = yield* leased(sandbox.id, alone)
      assert.isAbove(next.lease.fence, old.lease.fence)
      assert.isUndefined(yield* take(other.id, alone))
    }))

  it.effect("with a machine's leases end those of what is over too, and no other machine's", () =>
    Effect.gen(function*() {
      const leases = yield* Leases
      const [mine, other] = yield* machines
      const theirs = yield* make()
      const { lease } = yield* leased(theirs.id, other)
      const made = { published: yield* make(), over: yield* make(), waiting: yield* make() }
      yield* leases.take(mine, ample)
      for (const sandbox of [made.published, made.over]) yield* drive(sandbox, failed)
      yield* drive(made.published, [publishing])
      yield* leases.endLeases(mine.machine)
      yield* drive(made.over, [publishing])
      const again = (yield* leases.take(mine, ample)).map(({ sandbox }) => sandbox.id)
      assert.includeMembers(again, Object.values(made).map(({ id }) => id))
      assert.isUndefined(yield* take(theirs.id, other))
      assert.deepStrictEqual(yield* leases.renew([lease]), [lease])
    }))

  it.effect("a lease that ran out is not ended anew: who waits for a lost machine waits no longer for it", () =>
    Effect.gen(function*() {
      const leases = yield* Leases
      const { ageLease, ageWork } = yield* StoreFixture
      const lost = Duration.toSeconds((yield* Policy).lost)
      const [mine, other] = yield* machines
      const { id } = yield* make()
      yield* leased(id, mine)
      yield* ageWork([id], LEASE_SECONDS + lost)
      yield* ageLease(id, LEASE_SECONDS + lost)
      yield* leases.endLeases(mine.machine)
      assert.strictEqual((yield* leased(id, other)).moved, "lost")
    }))

  it.effect("a worker without a free slot still takes in what is ending", () =>
    Effect.gen(function*() {
      const leases = yield* Leases
      const waiting = yield* make()
      const { id } = yield* ending()
      const taken = (yield* leases.take(machine, { ...ample, slots: 0 })).map(({ sandbox }) => sandbox.id)
      assert.include(taken, id)
      assert.notInclude(taken, waiting.id)
    }))

  it.effect("a worker takes in no more of what is ending than it says, and what is left goes to who asks next", () =>
    Effect.gen(function*() {
      const leases = yield* Leases
      yield* setAside
      const made = yield* Effect.forEach([1, 2, 3], () => ending())
      const first = yield* leases.take(machine, { slots: 0, boots: 0, errands: 2 })
      const rest = yield* leases.take(machine, { slots: 0, boots: 0, errands: 2 })
      assert.deepStrictEqual([first.length, rest.length], [2, 1])
      assert.sameMembers([...first, ...rest].map(({ sandbox }) => sandbox.id), made.map(({ id }) => id))
    }))

  it.effect("a sandbox without any started work is over as soon as it is terminated: no worker is asked", () =>
    Effect.gen(function*() {
      const store = yield* SandboxStore
      const sandbox = yield* make()
      yield* command(keyOf(sandbox), terminate(yield* Ids), at)
      const { completedAt, reason, status } = yield* store.find(sandbox)
      assert.deepStrictEqual([status, reason, completedAt], ["terminated", "terminated", at])
      assert.isUndefined(yield* take(sandbox.id))
    }))
}

const fairness = (it: Writer<Stores>) => {
  it.effect("grants take turns: one with many that wait keeps another's first one waiting for one lease at most", () =>
    Effect.gen(function*() {
      const leases = yield* Leases
      const fixture = yield* StoreFixture
      // Longer ago than any other test's.
      const then = DateTime.makeUnsafe("2000-01-01T00:00:00.123Z")
      yield* setAside
      const [many, one, late] = [yield* fixture.grant, yield* fixture.grant, yield* fixture.grant]
      const queue = yield* Effect.forEach(
        [0, 1, 2, 3, 4, 5],
        (seconds) => make({ grantId: many, createdAt: DateTime.add(then, { seconds }) })
      )
      const only = yield* make({ grantId: one, createdAt: DateTime.add(then, { hours: 1 }) })
      const takes = (slots: number) =>
        Effect.map(leases.take(machine, { slots, boots: slots, errands: 0 }), (found) => found.map(({ sandbox }) => sandbox.id))
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

  it.effect("knows which machine worked for sandboxes, for a machine that forgot its identity", () =>
    Effect.gen(function*() {
      const leases = yield* Leases
      const ids = yield* Ids
      const [mine, other] = [{ ...machine, machine: yield* ids.uuid7 }, { ...machine, machine: yield* ids.uuid7 }]
      const stray = yield* make()
      yield* leased(stray.id, other)
      const [first, second, queued] = [yield* make(), yield* make(), SandboxId.make("c_444444444444")]
      yield* leases.take(mine, ample)
      assert.strictEqual(yield* leases.machineOf([stray.id, first.id, second.id, queued]), mine.machine)
      assert.strictEqual(yield* leases.machineOf([stray.id]), other.machine)
      assert.isNull(yield* leases.machineOf([queued]))
      assert.isNull(yield* leases.machineOf([]))
    }))
}

/** For every store. */
export const suite = (name: string, layer: Layer.Layer<Stores, unknown>) =>
  define(`Leases (${name})`, layer, (it) => {
    oneWorker(it)
    expiry(it)
    rest(it)
    waiting(it)
    givingBack(it)
    drains(it)
    movedFiles(it)
    capacity(it)
    lostWorkers(it)
    fairness(it)
    leasedByOthers(it)
  })
