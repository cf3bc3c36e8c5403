/**
 * The rules that `SandboxStore` and `Checkpoints` must keep for forks together: a fork never refers to missing data. Adapters prove
 * themselves by running this suite against their layer. Fresh ids make it repeatable on one database.
 */
import { Ids } from "@slipway/domain/ids/Ids"
import { Checkpoints } from "@slipway/domain/sandbox/ports/Checkpoints"
import { SandboxStore } from "@slipway/domain/sandbox/ports/SandboxStore"
import { restore, terminate } from "@slipway/domain/sandbox/rules/Command"
import { Policy } from "@slipway/domain/sandbox/rules/Policy"
import type { Creation, Sandbox } from "@slipway/domain/sandbox/rules/Sandbox"
import { decide } from "@slipway/domain/sandbox/rules/SystemCommand"
import { turnId } from "@slipway/domain/sandbox/rules/Turn"
import { IdempotencyKey } from "@slipway/domain/sandbox/schema/Idempotency"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import * as Result from "effect/Result"
import * as Stream from "effect/Stream"
import { assert } from "../../suite/Assert.ts"
import { define } from "../../suite/Suite.ts"
import { appended } from "../access/AuditLogContract.ts"
import { at, command, creationOf, drive, eventsOf, keyOf, leased, make, StoreFixture, type Stores } from "./SandboxStates.ts"

/** One of that grant whose agent has done a turn, with as many checkpoints. It is at rest. */
export const checkpointed = Effect.fnUntraced(function*(count: number, grantId?: string, more: Partial<Creation> = {}) {
  const ids = yield* Ids
  const checkpoints = yield* Checkpoints
  const made = yield* make(grantId === undefined ? more : { ...more, grantId })
  const { lease } = yield* leased(made.id)
  const turn = turnId(ids, made.id, 1)
  let sandbox = yield* drive(made, [
    { _tag: "StartBoot" },
    { _tag: "FinishBoot", turnId: turn },
    { _tag: "StartTurn", turnId: turn },
    { _tag: "EndTurn", turnId: turn, state: "succeeded" }
  ], lease)
  for (let n = 1; n <= count; n++) {
    const bytes = yield* checkpoints.put(lease, n, Stream.make(new TextEncoder().encode(`content ${n}`)))
    sandbox = yield* drive(sandbox, [{ _tag: "RecordCheckpoint", data: { checkpoint: n, bytes, ms: 5, repos: [] } }], lease)
  }
  return sandbox
})

/** A creation of the same grant that starts with a checkpoint of it. */
export const forkOf = Effect.fnUntraced(function*({ grantId, id }: Sandbox, checkpoint: number, key: string | null = null) {
  const store = yield* SandboxStore
  return yield* store.create({
    creation: yield* creationOf({ grantId, origin: { sandboxId: id, checkpoint } }),
    keyed: key === null ? null : { key: IdempotencyKey.make(key), fingerprint: "1:a" }
  })
})

/** It is over, and all but its last checkpoint may be forgotten. */
export const settle = Effect.fnUntraced(function*(sandbox: Sandbox) {
  const store = yield* SandboxStore
  const limits = yield* Policy
  const failure = { _tag: "Fail", reason: "agent_lost", error: "Gone.", retryable: false } as const
  yield* store.change(sandbox.id, "policy", (state) => decide(state, failure, { now: at, limits }), at)
})

const longAgo = DateTime.subtract(at, { days: 400 })
const prune = Effect.gen(function*() {
  const checkpoints = yield* Checkpoints
  while ((yield* checkpoints.prune(longAgo, 100)) === 100) continue
})

const kept = ({ id }: Pick<Sandbox, "id">) =>
  Checkpoints.use((checkpoints) => Effect.map(checkpoints.list(id, 0, 100), (found) => found.map(({ checkpoint }) => checkpoint)))

export const suite = (name: string, layer: Layer.Layer<Stores | Checkpoints, unknown>) =>
  define(`Forks (${name})`, layer, (it) => {
    it.effect("a fork says what it starts with, after that it is queued, and leaves the other sandbox as it was", () =>
      Effect.gen(function*() {
        const store = yield* SandboxStore
        const sandbox = yield* checkpointed(2)
        const { sandbox: fork } = yield* forkOf(sandbox, 1)
        assert.deepInclude(fork, { status: "queued", origin: { sandboxId: sandbox.id, checkpoint: 1 }, revision: 1, lastSeq: 2 })
        const [queued, forked] = yield* eventsOf(fork.id)
        assert.deepInclude(queued?.event, { type: "sandbox.status" })
        assert.deepStrictEqual(forked?.event, { type: "sandbox.forked", data: { sandbox_id: sandbox.id, checkpoint: 1 } })
        assert.deepStrictEqual(yield* store.find(keyOf(fork)), fork)
        assert.deepStrictEqual(yield* store.find(keyOf(sandbox)), sandbox)
      }))

    it.effect("what was never taken or recorded, or is forgotten, cannot be forked, and leaves the key free", () =>
      Effect.gen(function*() {
        const checkpoints = yield* Checkpoints
        const unrecorded = yield* make()
        const { lease } = yield* leased(unrecorded.id)
        yield* checkpoints.put(lease, 1, Stream.make(new TextEncoder().encode("put and not recorded")))
        assert.strictEqual((yield* Effect.flip(forkOf(unrecorded, 1)))._tag, "CheckpointNotFound")
        const sandbox = yield* checkpointed(2)
        for (const n of [0, 3]) assert.strictEqual((yield* Effect.flip(forkOf(sandbox, n, "free")))._tag, "CheckpointNotFound")
        yield* settle(sandbox)
        yield* prune
        assert.strictEqual((yield* Effect.flip(forkOf(sandbox, 1, "free")))._tag, "CheckpointNotFound")
        assert.isFalse((yield* forkOf(sandbox, 2, "free")).replayed)
      }))

    it.effect("a replay is answered also when what the fork started with is forgotten", () =>
      Effect.gen(function*() {
        const sandbox = yield* checkpointed(2)
        const { sandbox: fork } = yield* forkOf(sandbox, 1, "order-1")
        yield* command(keyOf(fork), terminate(yield* Ids), at)
        yield* settle(sandbox)
        yield* prune
        assert.deepStrictEqual(yield* kept(sandbox), [2])
        assert.deepInclude(yield* forkOf(sandbox, 1, "order-1"), { replayed: true })
      }))

    it.effect("keys of creations and of forks of each sandbox are apart", () =>
      Effect.gen(function*() {
        const store = yield* SandboxStore
        const one = yield* checkpointed(1)
        const two = yield* checkpointed(1, one.grantId)
        const keyed = { key: IdempotencyKey.make("order-1"), fingerprint: "1:a" }
        const { sandbox: created } = yield* store.create({
          creation: yield* creationOf({ grantId: one.grantId }),
          keyed
        })
        const forks = [yield* forkOf(one, 1, "order-1"), yield* forkOf(two, 1, "order-1")]
        assert.deepStrictEqual(forks.map(({ replayed }) => replayed), [false, false])
        const ids = forks.map(({ sandbox: { id } }) => id)
        const replays = yield* Effect.forEach([one.id, two.id, null], (of) => store.replay(one.grantId, keyed, of))
        assert.deepStrictEqual(replays.map((sandbox) => sandbox?.id), [...ids, created.id])
      }))

    it.effect("of many equal forks at once exactly one makes the sandbox", () =>
      Effect.gen(function*() {
        const sandbox = yield* checkpointed(1)
        const made = yield* Effect.forEach(Array.from({ length: 12 }), () => forkOf(sandbox, 1, "storm"), { concurrency: "unbounded" })
        assert.strictEqual(made.filter(({ replayed }) => !replayed).length, 1)
        assert.strictEqual(new Set(made.map(({ sandbox }) => sandbox.id)).size, 1)
      }))

    it.effect("whether a fork or the pruning comes first: what a fork starts with is there", () =>
      Effect.gen(function*() {
        const { grant } = yield* StoreFixture
        const grantId = yield* grant
        const sandboxes = yield* Effect.forEach(Array.from({ length: 12 }), () => checkpointed(2, grantId))
        for (const sandbox of sandboxes) yield* settle(sandbox)
        const [made] = yield* Effect.all([
          Effect.forEach(sandboxes, (sandbox) => Effect.result(forkOf(sandbox, 1)), { concurrency: "unbounded" }),
          prune
        ], { concurrency: "unbounded" })
        for (const [i, fork] of made.entries()) {
          assert.deepStrictEqual(yield* kept(sandboxes[i]!), Result.isSuccess(fork) ? [1, 2] : [2])
          if (Result.isFailure(fork)) assert.strictEqual(fork.failure._tag, "CheckpointNotFound")
        }
      }))

    it.effect("the audit log has who forked a sandbox and who went back, once", () =>
      Effect.gen(function*() {
        const ids = yield* Ids
        const sandbox = yield* checkpointed(2)
        const subjects = { sandboxId: sandbox.id, checkpoint: "1" }
        const back = command(keyOf(sandbox), restore(ids, 1, true), at)
        assert.deepStrictEqual(yield* appended(Effect.all([back, back])), [{ action: "sandbox.restored", at, subjects }])
        const forks = yield* appended(Effect.all([forkOf(sandbox, 1, "audited"), forkOf(sandbox, 1, "audited")]))
        const [{ sandboxId: forkId = "" } = {}] = forks.map(({ subjects }) => subjects)
        assert.notStrictEqual(forkId, sandbox.id)
        assert.deepStrictEqual(forks, [
          { action: "sandbox.forked", at, subjects: { sandboxId: forkId, originId: sandbox.id, checkpoint: "1" } }
        ])
      }))
  })
