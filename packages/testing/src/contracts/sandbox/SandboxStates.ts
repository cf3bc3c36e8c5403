/** Sandboxes in the states that the rules are about: shared by the suites of `SandboxStore`, `Leases` and `Maintenance`. */
import type { AuditLog } from "@slipway/domain/access/ports/AuditLog"
import { Ids } from "@slipway/domain/ids/Ids"
import { ID_ALPHABET, SandboxId } from "@slipway/domain/ids/SandboxId"
import { offlineDemo } from "@slipway/domain/models/schema/ModelCatalogue"
import { Leases, type Leased } from "@slipway/domain/sandbox/ports/Leases"
import type { Maintenance } from "@slipway/domain/sandbox/ports/Maintenance"
import { SandboxStore, type Writer } from "@slipway/domain/sandbox/ports/SandboxStore"
import { type Command, terminate } from "@slipway/domain/sandbox/rules/Command"
import type { KeyedRequest } from "@slipway/domain/sandbox/rules/Idempotency"
import type { Room } from "@slipway/domain/sandbox/rules/LeaseRules"
import { type Limits, Policy } from "@slipway/domain/sandbox/rules/Policy"
import type { Creation, Sandbox } from "@slipway/domain/sandbox/rules/Sandbox"
import { decide, type SystemCommand } from "@slipway/domain/sandbox/rules/SystemCommand"
import { turnId } from "@slipway/domain/sandbox/rules/Turn"
import { fromWire } from "@slipway/domain/sandbox/schema/SandboxEvent"
import type { Hints } from "@slipway/domain/store/Hints"
import * as Context from "effect/Context"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import { assert } from "../../suite/Assert.ts"

/** Operations that a test needs and the port lacks; the adapter under test provides them. */
export class StoreFixture extends Context.Service<StoreFixture, {
  /** Id of a new grant that may own sandboxes. */
  readonly grant: Effect.Effect<string>
  /** Lets seconds pass for the lease of one sandbox alone, as after the death of its worker. */
  ageLease(id: SandboxId, seconds: number): Effect.Effect<void>
  /** Has sandboxes begin to need a worker that many seconds ago, all at the same moment. */
  ageWork(ids: ReadonlyArray<SandboxId>, seconds: number): Effect.Effect<void>
  /**
   * Lets the time pass for which the grant's idempotency keys are kept. `before`: up to its last moment, at which the keys still bind, or
   * a minute less if the store's clock cannot be held. `after`: to the first moment after it, or some more.
   */
  ageKeys(grantId: string, until: "before" | "after"): Effect.Effect<void>
  /** Another process on the same storage, whose `Policy` has these limits. */
  under<A, E, R>(limits: Limits, use: Effect.Effect<A, E, R>): Effect.Effect<A, E, Exclude<R, SandboxStore | Maintenance>>
  /** Revokes a grant. Left out: it is not known here which grants are revoked. */
  readonly revoke?: (grantId: string) => Effect.Effect<void>
}>()("@slipway/testing/StoreFixture") {}

/** The stores that these suites run on: all three are over the same rows. */
export type Stores = SandboxStore | Leases | Maintenance | AuditLog | Hints | Ids | StoreFixture

export const at = DateTime.makeUnsafe("2026-11-21T02:41:00.123Z")
/** The room of a worker that takes every sandbox. */
export const ample: Room = { slots: 10_000, boots: 10_000, errands: 10_000 }
export const machine = { worker: "worker-1", machine: "machine-1" }

/** The person who creates sandboxes, if no other is named. */
export const creator = "user_01J00000000000000000000000"

/** Sandboxes of the tests of this process since the last {@link setAside}. */
const made: Array<SandboxId> = []

export const creationOf = Effect.fnUntraced(function*(more: Partial<Creation> = {}) {
  const ids = yield* Ids
  const fixture = yield* StoreFixture
  const creation: Creation = {
    id: SandboxId.make(`c_${yield* ids.random(ID_ALPHABET, 12)}`),
    grantId: more.grantId ?? (yield* fixture.grant),
    createdBy: creator,
    title: "Tïtle 'quoted' \\ \u{1F680}",
    repos: [{ fullName: "acme/Shop", ref: "main" }, { fullName: "acme/other" }],
    prompt: "line one\nline two {\"a\": [1]}",
    model: offlineDemo.id,
    agentRuntime: offlineDemo.agentRuntime,
    reasoningEffort: null,
    toolApprovalMode: "prompt",
    metadata: { customer: "42", constructor: "x" },
    origin: null,
    continues: null,
    createdAt: at,
    ...more
  }
  made.push(creation.id)
  return creation
})

export const make = Effect.fnUntraced(function*(more: Partial<Creation> = {}) {
  const store = yield* SandboxStore
  const { sandbox } = yield* store.create({ creation: yield* creationOf(more), keyed: null })
  return sandbox
})
/** Applies system commands one by one, as a worker would. */
export const drive = Effect.fnUntraced(function*(sandbox: Sandbox, commands: ReadonlyArray<SystemCommand>, by: Writer = "policy") {
  const store = yield* SandboxStore
  const limits = yield* Policy
  let current = sandbox
  for (const command of commands) {
    current = (yield* store.change(sandbox.id, by, (state) => decide(state, command, { now: at, limits }), at)).sandbox
  }
  return current
})
export const keyOf = ({ grantId, id }: Sandbox) => ({ grantId, id })
/** The answer to a person's command. */
export const command = <E>(
  key: { readonly grantId: string; readonly id: SandboxId },
  asked: Command<E>,
  now: DateTime.Utc,
  keyed?: KeyedRequest
) => Effect.flatMap(SandboxStore, (store) => Effect.map(store.command(key, asked, now, keyed), ({ result }) => result))
export const running = Effect.gen(function*() {
  const ids = yield* Ids
  const sandbox = yield* make()
  const turn = turnId(ids, sandbox.id, 1)
  const started = yield* drive(sandbox, [
    { _tag: "StartBoot" },
    { _tag: "FinishBoot", turnId: turn },
    { _tag: "StartTurn", turnId: turn }
  ])
  return { ids, sandbox: started, turn }
})
export const asking = Effect.gen(function*() {
  const { ids, sandbox, turn } = yield* running
  const asked = yield* drive(sandbox, [
    { _tag: "RequestApproval", turnId: turn, approval: { approval_id: "call-1", tool: "write", kind: "edit", paths: ["a.txt"] } }
  ])
  return { ids, sandbox: asked, turn }
})
export const eventsOf = (id: SandboxId) =>
  Effect.flatMap(SandboxStore, (store) => Effect.map(store.log(id, 0, 1000), (entries) => entries.map(({ wire }) => fromWire(wire))))

export const take = (id: SandboxId, by = machine) =>
  Effect.gen(function*() {
    const leases = yield* Leases
    const taken = yield* leases.take(by, ample)
    return taken.find(({ sandbox }) => sandbox.id === id)
  })
/**
 * Keeps the sandboxes of other tests from workers for a day. Until then workers are given only what is made after this, though a slow
 * machine takes longer for a test than a lease lasts.
 */
export const setAside = Effect.gen(function*() {
  const { ageLease } = yield* StoreFixture
  yield* (yield* Leases).take({ worker: "nobody", machine: yield* (yield* Ids).uuid7 }, ample)
  yield* Effect.forEach(made.splice(0), (id) => ageLease(id, -86_400), { discard: true })
})
export const leased = Effect.fnUntraced(function*(id: SandboxId, by = machine) {
  const found = yield* take(id, by)
  assert.isDefined(found)
  return found as Leased
})

const checkpoint = (n: number): SystemCommand => ({ _tag: "RecordCheckpoint", data: { checkpoint: n, bytes: 1, ms: 1, repos: [] } })
/** A running sandbox whose turn ended and that has a checkpoint: it needs no worker. */
export const atRest = Effect.fnUntraced(function*(sandbox: Sandbox) {
  const turn = turnId(yield* Ids, sandbox.id, 1)
  return yield* drive(sandbox, [
    { _tag: "StartBoot" },
    { _tag: "FinishBoot", turnId: turn },
    { _tag: "StartTurn", turnId: turn },
    { _tag: "EndTurn", turnId: turn, state: "succeeded" },
    checkpoint(1)
  ])
})
/** A sandbox that was terminated while it booted: a worker has to release it. */
export const ending = Effect.fnUntraced(function*() {
  const sandbox = yield* make()
  yield* drive(sandbox, [{ _tag: "StartBoot" }])
  yield* command(keyOf(sandbox), terminate(yield* Ids), at)
  return sandbox
})
