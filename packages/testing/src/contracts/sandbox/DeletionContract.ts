/**
 * The rules of deletions and retention (docs/decisions/29) that `SandboxStore`, `Checkpoints`, `Setups`, `Leases` and `Maintenance` keep
 * together. Adapters prove themselves by running this suite against their layer. Fresh ids make it repeatable on one database.
 */
import { Ids } from "@slipway/domain/ids/Ids"
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { Checkpoints } from "@slipway/domain/sandbox/ports/Checkpoints"
import { Leases } from "@slipway/domain/sandbox/ports/Leases"
import { type LogHead, Maintenance } from "@slipway/domain/sandbox/ports/Maintenance"
import { SandboxStore } from "@slipway/domain/sandbox/ports/SandboxStore"
import { Setups } from "@slipway/domain/sandbox/ports/Setups"
import { rename, sendMessage, terminate } from "@slipway/domain/sandbox/rules/Command"
import type { Sandbox } from "@slipway/domain/sandbox/rules/Sandbox"
import { turnId } from "@slipway/domain/sandbox/rules/Turn"
import { IdempotencyKey } from "@slipway/domain/sandbox/schema/Idempotency"
import { Hints } from "@slipway/domain/store/Hints"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import * as Result from "effect/Result"
import * as Stream from "effect/Stream"
import { inquiry } from "../../histories/Histories.ts"
import { assert } from "../../suite/Assert.ts"
import { define, type Writer } from "../../suite/Suite.ts"
import { appended } from "../access/AuditLogContract.ts"
import { checkpointed, forkOf, settle } from "./ForksContract.ts"
import { asking, at, creationOf, drive, ending, keyOf, leased, make, running, StoreFixture, type Stores } from "./SandboxStates.ts"

type Needed = Stores | Checkpoints | Setups

const later = DateTime.add(at, { days: 1 })
const longAgo = DateTime.subtract(at, { days: 400 })

const remove = (sandbox: Sandbox) => SandboxStore.use((store) => store.delete(keyOf(sandbox), later))

const keyed = (key: string, fingerprint = "1:a") => ({ key: IdempotencyKey.make(key), fingerprint })

const contentOf = ({ id }: Pick<Sandbox, "id">, checkpoint: number) =>
  Checkpoints.use((checkpoints) =>
    Effect.map(
      Effect.result(Stream.runCollect(Stream.decodeText(checkpoints.get(id, checkpoint)))),
      (read) => Result.isSuccess(read) ? read.success.join("") : read.failure._tag
    )
  )

const prune = Effect.gen(function*() {
  const checkpoints = yield* Checkpoints
  while ((yield* checkpoints.prune(longAgo, 100)) === 100) continue
})

/** A failed sandbox of the grant, with everything that a sandbox can have; and what each read of the ports says of it. */
const full = Effect.fnUntraced(function*() {
  const [store, setups, checkpoints, ids] = [yield* SandboxStore, yield* Setups, yield* Checkpoints, yield* Ids]
  const { sandbox, turn } = yield* asking
  const { lease } = yield* leased(sandbox.id)
  yield* drive(sandbox, [inquiry(turn, "question-1")], lease)
  yield* setups.save(lease, { state: "succeeded", startedAt: at, ms: 5, cache: "miss", exitCode: 0, output: "secret output", told: null })
  yield* drive(sandbox, [{ _tag: "EndTurn", turnId: turn, state: "failed" }], lease)
  yield* checkpoints.put(lease, 1, Stream.make(new TextEncoder().encode("content")))
  yield* drive(sandbox, [{ _tag: "RecordCheckpoint", data: { checkpoint: 1, bytes: 7, ms: 5, repos: [] } }], lease)
  const trace = `00-${"1".repeat(32)}-${"1".repeat(16)}-01`
  const { turnId: second } = yield* store.command(keyOf(sandbox), sendMessage(ids, "Go on", "user-2"), at, keyed("message"), trace)
  yield* settle(sandbox)
  return { sandbox: yield* store.find(keyOf(sandbox)), turn: second, lease }
})

/** The answers of all reads about the sandbox; `found` is "SandboxNotFound" when it is unknown. */
const seen = Effect.fnUntraced(function*({ sandbox, turn }: { readonly sandbox: Sandbox; readonly turn: string | null }) {
  const [store, setups, checkpoints] = [yield* SandboxStore, yield* Setups, yield* Checkpoints]
  const query = { after: null, limit: 100, status: null, repo: null }
  const { grantId, id } = sandbox
  return {
    found: Result.match(yield* Effect.result(store.find(keyOf(sandbox))), { onFailure: ({ _tag }) => _tag, onSuccess: ({ id }) => id }),
    listed: (yield* store.list(grantId, query)).some((one) => one.id === id),
    summed: (yield* store.summaries(grantId, query)).some((one) => one.id === id),
    log: (yield* store.log(id, 0, 100)).length > 0,
    checkpointLog: (yield* store.checkpointLog(id, 0, 100)).length > 0,
    messages: (yield* store.messages(id, 0, 100)).length > 0,
    approvals: (yield* store.approvals(id, ["call-1"])).length > 0,
    questions: (yield* store.questions(id, ["question-1"])).length > 0,
    trace: (yield* store.traces(id, turn)).turn !== null,
    setup: (yield* setups.find(id)) !== null,
    checkpoints: (yield* checkpoints.list(id, 0, 100)).length > 0,
    content: yield* contentOf(sandbox, 1)
  }
})

const nothing = {
  found: "SandboxNotFound",
  listed: false,
  summed: false,
  log: false,
  checkpointLog: false,
  messages: false,
  approvals: false,
  questions: false,
  trace: false,
  setup: false,
  checkpoints: false,
  content: "CheckpointNotFound"
}

const deleting = (it: Writer<Needed>) => {
  it.effect("nothing of a deleted sandbox is read again, and all of other sandboxes is", () =>
    Effect.gen(function*() {
      const [one, other] = [yield* full(), yield* full()]
      const all = yield* seen(other)
      assert.deepStrictEqual(yield* seen(one), { ...all, found: one.sandbox.id })
      assert.ok(Object.values(all).every(Boolean))
      yield* remove(one.sandbox)
      assert.deepStrictEqual(yield* seen(one), nothing)
      assert.deepStrictEqual(yield* seen(other), all)
      yield* prune
      assert.deepStrictEqual([yield* seen(one), yield* seen(other)], [nothing, all])
    }))

  it.effect("only an ended sandbox is deleted, and only of its own grant; a refusal changes nothing", () =>
    Effect.gen(function*() {
      const store = yield* SandboxStore
      const { sandbox: busy } = yield* running
      const booting = yield* make()
      yield* drive(booting, [{ _tag: "StartBoot" }])
      for (const live of [yield* make(), booting, busy, yield* ending()]) {
        const before = yield* store.find(keyOf(live))
        const log = yield* store.log(live.id, 0, 100)
        assert.strictEqual((yield* Effect.flip(remove(live)))._tag, "SandboxNotFinished")
        assert.deepStrictEqual([yield* store.find(keyOf(live)), yield* store.log(live.id, 0, 100)], [before, log])
      }
      const { sandbox } = yield* full()
      const foreign = { id: sandbox.id, grantId: busy.grantId }
      assert.deepStrictEqual(yield* appended(Effect.flip(store.delete(foreign, later))), [])
      assert.deepStrictEqual(yield* store.find(keyOf(sandbox)), sandbox)
      const ended = yield* ending()
      yield* drive(ended, [{ _tag: "Release" }])
      yield* remove(ended)
      yield* remove(sandbox)
    }))

  it.effect("of many deletions at once one is made, and told to the audit log; a repetition finds nothing", () =>
    Effect.gen(function*() {
      const { sandbox } = yield* full()
      const attempts = Effect.forEach(Array.from({ length: 8 }), () => Effect.result(remove(sandbox)), { concurrency: "unbounded" })
      const entries = yield* appended(Effect.map(attempts, (results) => {
        assert.strictEqual(results.filter(Result.isSuccess).length, 1)
        assert.ok(results.every((result) => Result.isSuccess(result) || result.failure._tag === "SandboxNotFound"))
      }))
      assert.deepStrictEqual(entries, [{ action: "sandbox.deleted", at: later, subjects: { sandboxId: sandbox.id } }])
      assert.strictEqual((yield* Effect.flip(remove(sandbox)))._tag, "SandboxNotFound")
    }))

  it.effect("its key answers that it was deleted, another request under the key still conflicts, and its id is not given again", () =>
    Effect.gen(function*() {
      const store = yield* SandboxStore
      const creation = yield* creationOf()
      const { grantId } = creation
      const { sandbox } = yield* store.create({ creation, keyed: keyed("order-1") })
      yield* drive(sandbox, [{ _tag: "StartBoot" }, { _tag: "Fail", reason: "boot_failed", error: "No.", retryable: false }])
      yield* remove(sandbox)
      const again = Effect.flatMap(creationOf({ grantId }), (creation) => store.create({ creation, keyed: keyed("order-1") }))
      assert.strictEqual((yield* Effect.flip(again))._tag, "SandboxDeleted")
      assert.strictEqual((yield* Effect.flip(store.replay(grantId, keyed("order-1"), null)))._tag, "SandboxDeleted")
      assert.strictEqual((yield* Effect.flip(store.replay(grantId, keyed("order-1", "1:b"), null)))._tag, "IdempotencyConflict")
      assert.strictEqual((yield* Effect.flip(store.create({ creation, keyed: null })))._tag, "SandboxIdTaken")
      assert.isNull(yield* store.replay(grantId, keyed("order-2"), null))
    }))
}

/** The ports that know a sandbox, once it is deleted. */
const afterDeletion = (it: Writer<Needed>) => {
  it.effect("no command and no change of any caller reaches a deleted sandbox", () =>
    Effect.gen(function*() {
      const [store, ids] = [yield* SandboxStore, yield* Ids]
      const { sandbox } = yield* full()
      yield* remove(sandbox)
      const key = keyOf(sandbox)
      const asked = [rename(ids, "New"), terminate(ids)].map((one) => Effect.flip(store.command<unknown>(key, one, later)))
      const sent = store.command(key, sendMessage(ids, "Go on", "user-2"), at, keyed("message"))
      const changes = ["policy" as const, { grantId: sandbox.grantId }].map((by) =>
        Effect.flip(store.change(sandbox.id, by, () => Result.succeed([]), later))
      )
      for (const error of yield* Effect.all([...asked, Effect.flip(sent), ...changes])) {
        assert.deepInclude(error as object, { _tag: "SandboxNotFound" })
      }
    }))

  it.effect("a worker that still holds it, say to publish, has lost it, and no machine needs its data", () =>
    Effect.gen(function*() {
      const [store, leases, maintenance] = [yield* SandboxStore, yield* Leases, yield* Maintenance]
      const [setups, checkpoints] = [yield* Setups, yield* Checkpoints]
      const { lease, sandbox } = yield* full()
      yield* drive(sandbox, [{ _tag: "ReportPublication", data: { repo: "acme/Shop", action_state: "publishing" } }])
      assert.deepStrictEqual(yield* maintenance.unneeded([sandbox.id]), [])
      yield* remove(sandbox)
      assert.deepStrictEqual(yield* leases.renew([lease]), [])
      const record = { state: "running", startedAt: at, ms: null, cache: "none", exitCode: null, output: "late", told: null } as const
      const late = yield* Effect.forEach([
        store.change(sandbox.id, lease, () => Result.succeed([]), later),
        setups.save(lease, record),
        checkpoints.put(lease, 2, Stream.make(new TextEncoder().encode("late"))),
        leases.saveAgentSession(lease, "late")
      ], (write) => Effect.flip(write as Effect.Effect<unknown, { readonly _tag: string }>))
      assert.deepStrictEqual(late.map(({ _tag }) => _tag), Array.from({ length: 4 }, () => "StaleLease"))
      assert.deepStrictEqual(yield* maintenance.unneeded([sandbox.id]), [sandbox.id])
      assert.deepStrictEqual(yield* maintenance.left("machine-1", [sandbox.id]), { over: [sandbox.id], moved: [] })
    }))

  it.effect("who follows it is hinted", () =>
    Effect.scoped(Effect.gen(function*() {
      const { sandbox } = yield* full()
      let hints = 0
      yield* (yield* Hints).listen(sandbox.id, () => void hints++)
      yield* Effect.flip(
        SandboxStore.use((store) => store.delete({ id: sandbox.id, grantId: "00000000-0000-4000-8000-000000000000" }, later))
      )
      yield* remove(sandbox)
      while (hints === 0) yield* Effect.yieldNow
    })))

  it.effect("maintenance passes over it: it has no head, and a purge counts nothing of it", () =>
    Effect.gen(function*() {
      const maintenance = yield* Maintenance
      const { sandbox } = yield* full()
      yield* remove(sandbox)
      for (let after: SandboxId | null = null;;) {
        const page: ReadonlyArray<LogHead> = yield* maintenance.heads(after, 1000)
        assert.ok(page.every(({ id }) => id !== sandbox.id))
        after = page.at(-1)?.id ?? null
        if (after === null) break
      }
      while ((yield* maintenance.purgeEvents(longAgo, 100)).more) continue
      assert.deepStrictEqual(yield* maintenance.purgeEvents(longAgo, 100), { sandboxes: 0, more: false })
    }))
}

const forks = (it: Writer<Needed>) => {
  it.effect("a fork keeps the checkpoint that it starts with until it has one of its own, and the others go at once", () =>
    Effect.gen(function*() {
      const checkpoints = yield* Checkpoints
      const sandbox = yield* checkpointed(2)
      const { sandbox: fork } = yield* forkOf(sandbox, 1)
      yield* settle(sandbox)
      yield* remove(sandbox)
      assert.deepStrictEqual([yield* contentOf(sandbox, 1), yield* contentOf(sandbox, 2)], ["content 1", "CheckpointNotFound"])
      assert.deepStrictEqual(yield* checkpoints.list(sandbox.id, 0, 10), [])
      yield* prune
      assert.strictEqual(yield* contentOf(sandbox, 1), "content 1")
      assert.strictEqual((yield* Effect.flip(forkOf(sandbox, 1)))._tag, "CheckpointNotFound")
      const turn = turnId(yield* Ids, fork.id, 1)
      const { lease } = yield* leased(fork.id)
      yield* drive(fork, [
        { _tag: "StartBoot" },
        { _tag: "FinishBoot", turnId: turn },
        { _tag: "StartTurn", turnId: turn },
        { _tag: "EndTurn", turnId: turn, state: "succeeded" }
      ], lease)
      yield* checkpoints.put(lease, 1, Stream.make(new TextEncoder().encode("own")))
      yield* drive(fork, [{ _tag: "RecordCheckpoint", data: { checkpoint: 1, bytes: 3, ms: 5, repos: [] } }], lease)
      yield* prune
      assert.deepStrictEqual([yield* contentOf(sandbox, 1), yield* contentOf(fork, 1)], ["CheckpointNotFound", "own"])
    }))

  it.effect("the checkpoint goes with the fork that started with it, too", () =>
    Effect.gen(function*() {
      const sandbox = yield* checkpointed(1)
      const { sandbox: fork } = yield* forkOf(sandbox, 1)
      yield* settle(sandbox)
      yield* remove(sandbox)
      yield* drive(fork, [{ _tag: "StartBoot" }, { _tag: "Fail", reason: "boot_failed", error: "No.", retryable: false }])
      yield* remove(fork)
      yield* prune
      assert.strictEqual(yield* contentOf(sandbox, 1), "CheckpointNotFound")
    }))

  it.effect("whether a fork or the deletion comes first: a fork that is made has what it starts with", () =>
    Effect.gen(function*() {
      const grantId = yield* (yield* StoreFixture).grant
      const sandboxes = yield* Effect.forEach(Array.from({ length: 12 }), () => checkpointed(1, grantId))
      for (const sandbox of sandboxes) yield* settle(sandbox)
      const attempts = yield* Effect.forEach(
        sandboxes,
        (sandbox) => Effect.all([Effect.result(forkOf(sandbox, 1)), remove(sandbox)], { concurrency: "unbounded" }),
        { concurrency: "unbounded" }
      )
      yield* prune
      for (const [i, [fork]] of attempts.entries()) {
        assert.strictEqual(yield* contentOf(sandboxes[i]!, 1), Result.isSuccess(fork) ? "content 1" : "CheckpointNotFound")
        if (Result.isFailure(fork)) assert.strictEqual(fork.failure._tag, "CheckpointNotFound")
      }
    }))
}

const retention = (it: Writer<Needed>) => {
  it.effect("a grant's own retention decides for its sandboxes, longer or shorter than that of the others", () =>
    Effect.gen(function*() {
      const [store, maintenance, checkpoints] = [yield* SandboxStore, yield* Maintenance, yield* Checkpoints]
      const ended = Effect.gen(function*() {
        const sandbox = yield* checkpointed(1)
        yield* settle(sandbox)
        return sandbox
      })
      const [usual, long, short] = [yield* ended, yield* ended, yield* ended]
      const left = Effect.forEach([usual, long, short], ({ id }) =>
        Effect.all([Effect.map(store.log(id, 0, 1), ({ length }) =>
          length), Effect.map(checkpoints.list(id, 0, 1), ({ length }) =>
            length)]))
      const [before, after] = [DateTime.subtract(at, { days: 1 }), DateTime.add(at, { days: 1 })]
      const all = (endedBefore: DateTime.Utc, own: ReadonlyMap<string, DateTime.Utc>) =>
        Effect.gen(function*() {
          while ((yield* maintenance.purgeEvents(endedBefore, 100, own)).more) {
            continue
          }
          while ((yield* checkpoints.prune(endedBefore, 100, own)) === 100) {
            continue
          }
          return yield* left
        })
      const shorter = new Map([[short.grantId, after]])
      assert.deepStrictEqual(yield* all(before, shorter), [[1, 1], [1, 1], [0, 0]])
      assert.deepStrictEqual(yield* all(after, new Map([[long.grantId, before]])), [[0, 0], [1, 1], [0, 0]])
      assert.deepStrictEqual(yield* all(after, new Map()), [[0, 0], [0, 0], [0, 0]])
    }))
}

export const suite = (name: string, layer: Layer.Layer<Needed, unknown>) =>
  define(`Deletion (${name})`, layer, (it) => {
    deleting(it)
    afterDeletion(it)
    forks(it)
    retention(it)
  })
