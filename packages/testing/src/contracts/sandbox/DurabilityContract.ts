/**
 * The durability rules of a store: the next process finds everything that the store answered, whole. A process ends and another one begins
 * on the same storage; or it dies in the midst of a call, after any of its writes. Runs beside `SandboxStoreContract`, `LeasesContract` and
 * `MaintenanceContract`, of the same rows.
 */
import { Acting, AuditLog } from "@slipway/domain/access/ports/AuditLog"
import { Ids } from "@slipway/domain/ids/Ids"
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { LEASE_SECONDS, type Lease, Leases } from "@slipway/domain/sandbox/ports/Leases"
import { Maintenance } from "@slipway/domain/sandbox/ports/Maintenance"
import { SandboxStore, type Writer } from "@slipway/domain/sandbox/ports/SandboxStore"
import {
  answerQuestion,
  cancelMessage,
  type Command,
  decideApproval,
  interrupt,
  restore,
  sendMessage,
  terminate
} from "@slipway/domain/sandbox/rules/Command"
import { Policy } from "@slipway/domain/sandbox/rules/Policy"
import type { Sandbox } from "@slipway/domain/sandbox/rules/Sandbox"
import { partId } from "@slipway/domain/sandbox/rules/SandboxEvent"
import { decide, type SystemCommand } from "@slipway/domain/sandbox/rules/SystemCommand"
import { turnId } from "@slipway/domain/sandbox/rules/Turn"
import { IdempotencyKey } from "@slipway/domain/sandbox/schema/Idempotency"
import * as Context from "effect/Context"
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Layer from "effect/Layer"
import * as Result from "effect/Result"
import type * as Scope from "effect/Scope"
import * as TestClock from "effect/testing/TestClock"
import { decider, inquiry, REPLY } from "../../histories/Histories.ts"
import { assert } from "../../suite/Assert.ts"
import { define, type Writer as Rules } from "../../suite/Suite.ts"
import {
  ample,
  asking,
  at,
  atRest,
  creationOf,
  setAside,
  drive,
  keyOf,
  leased,
  machine,
  make,
  running,
  StoreFixture,
  type Stores
} from "./SandboxStates.ts"

/** One life of the store, with what stages it. */
export interface Process {
  readonly stores: Context.Context<Stores>
  /**
   * It writes `n` times more and dies. Of what it was to do then nothing is carried out, nothing that it had open is finished, and
   * no later call is answered with success. A write is whatever the storage could be left after, also what ends a transaction; to
   * count reads too only takes longer.
   */
  killAtWrite(n: number): Effect.Effect<void>
}

/** Storage that outlives processes. */
export class Storage extends Context.Service<Storage, {
  /** A process that begins on what those before it left: none of them lives any more. It ends with the scope, without a word. */
  readonly start: Effect.Effect<Process, unknown, Scope.Scope>
}>()("@slipway/testing/Storage") {}

/** The guarantees that a store declares it does not give. Each has its reason, for readers who ask why a rule is missing. */
export interface Limits {
  /** Why no process can die in the midst of a call: `killAtWrite` is never called then. */
  readonly diesWhole?: string
  /** Leases, the machines that had them, the sessions of agents, and since when sandboxes wait, end with the process. */
  readonly forgetsLeases?: string
  /** Rows that `Maintenance` purged are there again in the next process. */
  readonly forgetsPurges?: string
  /** The audit log is kept elsewhere, or nowhere. */
  readonly forgetsAudit?: string
}

/** Later than all that happens here, by the store's clock. */
const today = DateTime.add(at, { days: 1 })
/** Long enough ago for every limit to have come. */
const longAgo = DateTime.makeUnsafe("2001-01-01T00:00:00.123Z")
const ALL = 1_000_000
const trace = `00-${"a".repeat(32)}-${"b".repeat(16)}-01`
const keyed = { key: IdempotencyKey.make("key-1"), fingerprint: "1:a" }
const operator = { _tag: "Operator" } as const

type Store<A> = Effect.Effect<A, unknown, Stores>

/** How a call came out, as its caller sees it. */
const told = <A, R>(call: Effect.Effect<A, unknown, R>) =>
  Effect.map(Effect.result(call), (result) => Result.isSuccess(result) ? { told: result.success } : { failed: result.failure })

/** All that there is to see of a sandbox and of what was asked for it, without changing anything. */
const seen = Effect.fnUntraced(function*({ grantId, id }: Pick<Sandbox, "grantId" | "id">, limits: Limits) {
  const store = yield* SandboxStore
  const ids = yield* Ids
  const found = yield* Effect.result(store.find({ grantId, id }))
  const fences = yield* Effect.forEach([0, 1, 2, 3, 4], (fence) =>
    Effect.map(
      Effect.result(store.change(id, { sandboxId: id, fence }, () => Result.succeed([]), at)),
      (held) => Result.isSuccess(held) ? [fence] : []
    ))
  return {
    found: Result.isSuccess(found) ? found.success : null,
    listed: (yield* store.list(grantId, { after: null, limit: 100, status: null, repo: null })).filter((listed) => listed.id === id),
    log: yield* store.log(id, 0, 1000),
    messages: yield* store.messages(id, 0, 1000),
    approvals: [...yield* store.approvals(id, ["call-1", "call-2"])].sort((a, b) => a.approvalId < b.approvalId ? -1 : 1),
    questions: [...yield* store.questions(id, ["question-1", "question-2"])].sort((a, b) => a.questionId < b.questionId ? -1 : 1),
    traces: yield* Effect.forEach([1, 2, 3, 4], (n) => store.traces(id, turnId(ids, id, n))),
    purged: yield* store.purged(id),
    keyed: yield* told(store.replay(grantId, keyed, null)),
    isDue: (yield* (yield* Maintenance).due(ALL)).ids.includes(id),
    lease: limits.forgetsLeases === undefined ? { fences: fences.flat(), machine: yield* (yield* Leases).machineOf([id]) } : null,
    audit: limits.forgetsAudit === undefined
      ? (yield* (yield* AuditLog).list({ since: null, limit: ALL })).filter(({ subjects }) => subjects["sandboxId"] === id)
      : null
  }
})

/** As text, the same of every sandbox to which the same happened: ids and instants by the order in which they appear. */
const normalized = (value: unknown): unknown => {
  const names = new Map<string, string>()
  const text = JSON.stringify(value).replace(
    /\bc_[a-z0-9]{12}\b|\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|\b\d{4}-\d\d-\d\dT[\d:.]+Z/gu,
    (name) => {
      const known = names.get(name) ?? `<${names.size}>`
      names.set(name, known)
      return known
    }
  )
  return JSON.parse(text)
}

/** One call, with what it is made on. */
interface Scene {
  readonly sandbox: Pick<Sandbox, "grantId" | "id">
  readonly call: Store<unknown>
  /**
   * A call whose result tells whether the first one was carried out, and which changes something itself. For most calls: the same call
   * again.
   */
  readonly then: Store<unknown>
}
type Stage = Store<Scene>

const command = <E>(sandbox: Pick<Sandbox, "grantId" | "id">, asked: Command<E>, key?: typeof keyed) => {
  const call = Effect.flatMap(
    SandboxStore,
    (store) => Effect.provideService(store.command(keyOf(sandbox as Sandbox), asked, at, key, trace), Acting, operator)
  ).pipe(
    Effect.map(({ events, result, turnId }) => ({ events, result, turnId }))
  )
  return { sandbox, call, then: told(call) }
}
const change = Effect.fnUntraced(function*(sandbox: Sandbox, by: Writer, asked: SystemCommand) {
  const limits = yield* Policy
  const call = SandboxStore.use(({ change }) => change(sandbox.id, by, (before) => decide(before, asked, { now: at, limits }), at))
  return { sandbox, call: Effect.asVoid(call), then: Effect.void }
})

const creation = (key: typeof keyed | null): Stage =>
  Effect.gen(function*() {
    const creation = yield* creationOf({ createdAt: longAgo })
    const call = SandboxStore.use((store) => store.create({ creation, keyed: key, trace }))
    return { sandbox: creation, call, then: told(call) }
  })
const sayings = (turn: string): SystemCommand => ({
  _tag: "RecordWork",
  turnId: turn,
  events: [
    { type: "message.updated", data: { part_id: partId.text("m1"), message_id: "m1", kind: "text", text: "I lo\u2028ok. \u{1F680}" } },
    { type: "tool.updated", data: { part_id: partId.tool("t1"), message_id: "m1", call_id: "t1", tool: "read", status: "pending" } },
    { type: "message.updated", data: { part_id: partId.text("m2"), message_id: "m2", kind: "text", text: "So." } },
    { type: "message.completed", data: { message_id: "m2", finish: "end_turn" } }
  ]
})
const queue = { whenBusy: "queue", canSteer: () => true } as const
const ended = (turn: string): SystemCommand => ({ _tag: "EndTurn", turnId: turn, state: "succeeded" })

const storeCalls: Readonly<Record<string, Stage>> = {
  "a creation with a key": creation(keyed),
  "a creation without a key": creation(null),
  "a message that starts a turn": Effect.gen(function*() {
    const { ids, sandbox, turn } = yield* running
    yield* drive(sandbox, [ended(turn)])
    return command(sandbox, sendMessage(ids, "Go on", "user-2"), keyed)
  }),
  "a message that waits": Effect.map(
    running,
    ({ ids, sandbox }) => command(sandbox, sendMessage(ids, "And then?", "user-2", queue), keyed)
  ),
  "a decision": Effect.gen(function*() {
    const { ids, sandbox } = yield* asking
    return command(sandbox, decideApproval(ids, "call-1", { decision: "approve" }, decider))
  }),
  "a denial with its reason, which waits as a message": Effect.gen(function*() {
    const { ids, sandbox } = yield* asking
    return command(sandbox, decideApproval(ids, "call-1", { decision: "deny", reason: "Not there." }, decider))
  }),
  "an answer": Effect.gen(function*() {
    const { ids, sandbox, turn } = yield* running
    yield* drive(sandbox, [inquiry(turn, "question-1")])
    return command(sandbox, answerQuestion(ids, "question-1", REPLY))
  }),
  "an interrupt": Effect.map(asking, ({ ids, sandbox }) => command(sandbox, interrupt(ids))),
  "a terminate": Effect.flatMap(Ids, (ids) => Effect.map(make({ createdAt: longAgo }), (sandbox) => command(sandbox, terminate(ids)))),
  "a message that is taken back": Effect.gen(function*() {
    const { ids, sandbox } = yield* running
    yield* (yield* SandboxStore).command(keyOf(sandbox), sendMessage(ids, "And then?", "user-2", queue), at)
    return command(sandbox, cancelMessage(ids, turnId(ids, sandbox.id, 2)))
  }),
  "a restore": Effect.gen(function*() {
    const sandbox = yield* atRest(yield* make())
    return command(sandbox, restore(yield* Ids, 1, true))
  }),
  "a change by the service": Effect.flatMap(make({ createdAt: longAgo }), (sandbox) => change(sandbox, "policy", { _tag: "StartBoot" })),
  "a change of several events": Effect.gen(function*() {
    const { ids, sandbox, turn } = yield* asking
    yield* (yield* SandboxStore).command(keyOf(sandbox), sendMessage(ids, "And then?", "user-2", queue), at)
    return yield* change(sandbox, "policy", ended(turn))
  })
}

/** Two machines that no other test uses. */
const machines = Effect.gen(function*() {
  const ids = yield* Ids
  const [own, other] = [yield* ids.uuid7, yield* ids.uuid7]
  return { own: { worker: `worker of ${own}`, machine: own }, other: { worker: `worker of ${other}`, machine: other } }
})
type Machines = Effect.Success<typeof machines>

/** The leases that two workers are given of a sandbox now: first a worker of another machine, then a worker of the machine that had it. */
const taken = (id: SandboxId, { other, own }: Machines) =>
  Effect.gen(function*() {
    const leases = yield* Leases
    return yield* Effect.forEach([other, own], (by) =>
      Effect.map(leases.take(by, ample), (all) =>
        all.flatMap(({ agentSession, lease, moved, sandbox }) =>
          sandbox.id === id ? [{ agentSession, fence: lease.fence, moved }] : []
        )))
  })

/** A sandbox leased by a worker. No other sandbox waits. */
const held = Effect.gen(function*() {
  yield* setAside
  const [by, sandbox] = [yield* machines, yield* make()]
  const { lease } = yield* leased(sandbox.id, by.own)
  return { sandbox, lease, by, leases: yield* Leases }
})
const release = (lease: Lease, mayMove = false) => Leases.use((leases) => leases.release(lease, { mayMove }))

const leaseCalls: Readonly<Record<string, Stage>> = {
  "what a worker records under its lease": Effect.gen(function*() {
    const { sandbox, turn } = yield* running
    const { lease } = yield* leased(sandbox.id)
    return yield* change(sandbox, lease, sayings(turn))
  }),
  "a worker's word that it has the files": Effect.gen(function*() {
    const { by, lease, sandbox } = yield* held
    yield* atRest(sandbox)
    yield* release(lease, true)
    yield* drive(sandbox, [{ _tag: "ReportPublication", data: { repo: "acme/Shop", action_state: "publishing" } }])
    const moving = (yield* leased(sandbox.id, by.other)).lease
    const scene = yield* change(sandbox, moving, { _tag: "RecordRestore", data: { checkpoint: 1, cause: "machine_drained" } })
    return { ...scene, then: Effect.andThen(release(moving), taken(sandbox.id, by)) }
  }),
  "a lease": Effect.gen(function*() {
    const { by, lease, leases, sandbox } = yield* held
    yield* leases.saveAgentSession(lease, "native-7")
    yield* release(lease, true)
    return { sandbox, call: Leases.use((leases) => leases.take(by.other, ample)), then: taken(sandbox.id, by) }
  }),
  "a renewal": Effect.gen(function*() {
    const { by, lease, sandbox } = yield* held
    yield* (yield* StoreFixture).ageLease(sandbox.id, LEASE_SECONDS)
    return { sandbox, call: Leases.use((leases) => leases.renew([lease])), then: taken(sandbox.id, by) }
  }),
  "a release": Effect.gen(function*() {
    const { by, lease, sandbox } = yield* held
    return { sandbox, call: release(lease, true), then: taken(sandbox.id, by) }
  }),
  "a rest": Effect.gen(function*() {
    const { by, lease, sandbox } = yield* held
    yield* atRest(sandbox)
    const message = command(sandbox, sendMessage(yield* Ids, "Go on", "user-2"))
    return { sandbox, call: Leases.use((leases) => leases.rest(lease)), then: Effect.andThen(message.call, taken(sandbox.id, by)) }
  }),
  "an arrival": Effect.gen(function*() {
    const { by, lease, sandbox } = yield* held
    yield* release(lease, true)
    const moving = (yield* leased(sandbox.id, by.other)).lease
    const then = Effect.andThen(release(moving), taken(sandbox.id, by))
    return { sandbox, call: Leases.use((leases) => leases.arrived(moving)), then }
  }),
  "the end of all leases of a machine": Effect.map(held, ({ by, sandbox }) => ({
    sandbox,
    call: Leases.use((leases) => leases.endLeases(by.own.machine)),
    then: taken(sandbox.id, by)
  })),
  "a drain": Effect.gen(function*() {
    const { by, lease, sandbox } = yield* held
    yield* release(lease)
    return { sandbox, call: Leases.use((leases) => leases.drain(by.own.machine, true)), then: taken(sandbox.id, by) }
  }),
  "the session of an agent": Effect.gen(function*() {
    const { by, lease, sandbox } = yield* held
    const call = Leases.use((leases) => leases.saveAgentSession(lease, "native-7"))
    return { sandbox, call, then: Effect.andThen(release(lease), taken(sandbox.id, by)) }
  })
}

const purgeCalls: Readonly<Record<string, Stage>> = {
  "a purge of events": Effect.gen(function*() {
    const { sandbox, turn } = yield* running
    const then = DateTime.add(at, { days: 100 })
    const limits = yield* Policy
    const store = yield* SandboxStore
    const call = Maintenance.use((maintenance) => maintenance.purgeEvents(then, ALL))
    // Leases of other tests are left alone here.
    yield* call
    yield* drive(sandbox, [sayings(turn)])
    const lost = { _tag: "Fail", reason: "host_lost", error: "No.", retryable: false } as const
    yield* store.change(sandbox.id, "policy", (state) => decide(state, lost, { now: then, limits }), then)
    return { sandbox, call, then: call }
  }),
  "a purge of keys": Effect.gen(function*() {
    const { ageKeys } = yield* StoreFixture
    const creation = yield* creationOf()
    const call = Maintenance.use((maintenance) => maintenance.purgeKeys(ALL))
    yield* call
    const { sandbox } = yield* (yield* SandboxStore).create({ creation, keyed })
    yield* ageKeys(creation.grantId, "before")
    yield* ageKeys(creation.grantId, "after")
    return { sandbox, call, then: call }
  })
}

/** The life of a process, until it ends or is dead. */
const life = <A>(body: (process: Process) => Store<A>) =>
  Effect.gen(function*() {
    yield* TestClock.setTime(today.epochMilliseconds)
    const storage = yield* Storage
    const process = yield* storage.start
    return yield* Effect.provide(body(process), process.stores)
  }).pipe(Effect.scoped)

/** Shared by the rules below. */
const helpersOf = (limits: Limits = {}) => {
  const look = ({ sandbox }: Pick<Scene, "sandbox">) => seen(sandbox, limits)
  const staged = {
    ...storeCalls,
    ...limits.forgetsLeases === undefined ? leaseCalls : {},
    ...limits.forgetsPurges === undefined ? purgeCalls : {}
  }
  return { look, staged }
}

const nextProcess = (it: Rules<Storage>, limits: Limits = {}, { look, staged }: ReturnType<typeof helpersOf>) => {
  it.effect.each(Object.keys(staged))("is there in the next process, byte for byte: %s", (which) =>
    Effect.gen(function*() {
      const { all, scene } = yield* life(() =>
        Effect.gen(function*() {
          const scene = yield* staged[which]!
          yield* scene.call
          return { scene, all: yield* look(scene) }
        })
      )
      assert.deepStrictEqual(yield* life(() => look(scene)), all)
    }))

  it.effect(
    "what was told of before is known in the next process: requests, decisions and messages are duplicates",
    () =>
      Effect.gen(function*() {
        for (const [which, stage] of Object.entries(storeCalls)) {
          const { again, scene } = yield* life(() =>
            Effect.gen(function*() {
              const scene = yield* stage
              yield* scene.call
              return { scene, again: yield* scene.then }
            })
          )
          assert.deepStrictEqual(yield* life(() => scene.then), again, which)
        }
      }),
    { timeout: 300_000 }
  )

  it.effect("limits come due in the next process in their order", () =>
    Effect.gen(function*() {
      const begun = (hours: number) => Effect.map(make({ createdAt: DateTime.add(longAgo, { hours }) }), ({ id }) => id)
      const made = yield* life(() => Effect.forEach([2, 0, 1], begun))
      const due = yield* life(() =>
        Effect.map(Maintenance.use((maintenance) => maintenance.due(ALL)), ({ ids }) => ids.filter((id) => made.includes(id)))
      )
      assert.deepStrictEqual(due, [made[1], made[2], made[0]])
    }))

  if (limits.forgetsLeases === undefined) {
    it.effect("who waits goes in the next process in the order in which they wait", () =>
      Effect.gen(function*() {
        const made = yield* life(() =>
          Effect.gen(function*() {
            const { ageWork } = yield* StoreFixture
            const grantId = yield* (yield* StoreFixture).grant
            yield* setAside
            const made = yield* Effect.forEach(
              [2, 3, 1],
              (hours) => Effect.tap(make({ grantId }), ({ id }) => ageWork([id], hours * 3600))
            )
            return made.map(({ id }) => id)
          })
        )
        const order = yield* life(() =>
          Effect.forEach(made, () =>
            Leases.use((leases) => leases.take(machine, { slots: 1, boots: 1, errands: 0 })).pipe(
              Effect.map((found) => found.map(({ sandbox }) => sandbox.id))
            ))
        )
        assert.deepStrictEqual(order.flat().filter((id) => made.includes(id)), [made[1], made[0], made[2]])
      }))

    it.effect("a lease holds in the next process as long as it would have, with its fence and the session of the agent", () =>
      Effect.gen(function*() {
        const { by, lease, sandbox } = yield* life(() =>
          Effect.tap(held, ({ lease, leases }) => leases.saveAgentSession(lease, "native-7"))
        )
        yield* life(() =>
          Effect.gen(function*() {
            const { ageLease } = yield* StoreFixture
            const leases = yield* Leases
            assert.deepStrictEqual((yield* taken(sandbox.id, by)).flat(), [])
            assert.deepStrictEqual(yield* leases.renew([lease]), [lease])
            yield* ageLease(sandbox.id, LEASE_SECONDS + Duration.toSeconds((yield* Policy).lost) - 20)
            const [others, own] = yield* taken(sandbox.id, by)
            assert.deepStrictEqual([others, own], [[], [{ agentSession: "native-7", fence: lease.fence + 1, moved: null }]])
            assert.strictEqual((yield* Effect.flip(leases.saveAgentSession(lease, null)))._tag, "StaleLease")
          })
        )
      }))
  }
}

const diesWhole = (it: Rules<Storage>, { look, staged }: ReturnType<typeof helpersOf>) => {
  it.effect.each(Object.keys(staged))("is all there or not at all, whenever the process dies: %s", (which) =>
    Effect.gen(function*() {
      const stage = staged[which]!
      /** The state, and the results of looking closer. */
      const judged = (scene: Scene) => Effect.map(Effect.all([look(scene), scene.then, look(scene)]), normalized)
      const nothing = yield* life(() => Effect.flatMap(stage, judged))
      const all = yield* life(() =>
        Effect.gen(function*() {
          const scene = yield* stage
          yield* scene.call
          return yield* judged(scene)
        })
      )
      assert.notDeepEqual(all, nothing, "the call does something")
      for (let n = 1;; n++) {
        const { exit, scene } = yield* life((process) =>
          Effect.gen(function*() {
            const scene = yield* stage
            yield* process.killAtWrite(n)
            return { scene, exit: yield* Effect.exit(scene.call) }
          })
        )
        const found = yield* life(() => judged(scene))
        const isDone = Exit.isSuccess(exit)
        if (isDone || JSON.stringify(found) !== JSON.stringify(nothing)) {
          assert.deepStrictEqual(found, all, `dead after ${n} writes, ${isDone ? "and answered" : "and not answered"}`)
        }
        if (isDone) return
        assert.isBelow(n, 200, "the call comes to an end")
      }
    }), { timeout: 300_000 })
}

/** For every store that says that it keeps something. */
export const suite = (name: string, layer: Layer.Layer<Storage, unknown>, limits: Limits = {}) =>
  define(`Durability (${name})`, layer, (it) => {
    const helpers = helpersOf(limits)
    nextProcess(it, limits, helpers)
    if (limits.diesWhole === undefined) diesWhole(it, helpers)
  })
