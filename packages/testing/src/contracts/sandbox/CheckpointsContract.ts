/**
 * The rules that every `Checkpoints` must keep, beside the `SandboxStore` and `Leases` of the same rows. An adapter proves itself by
 * running this suite against its layer; a rule that is missing here is not part of the port. Fresh ids make it repeatable on one database.
 */
import { Ids } from "@slipway/domain/ids/Ids"
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { Checkpoints, KEPT_CHECKPOINTS, MAX_CHECKPOINT_BYTES } from "@slipway/domain/sandbox/ports/Checkpoints"
import { LEASE_SECONDS, type Lease } from "@slipway/domain/sandbox/ports/Leases"
import { SandboxStore } from "@slipway/domain/sandbox/ports/SandboxStore"
import { terminate } from "@slipway/domain/sandbox/rules/Command"
import { Policy } from "@slipway/domain/sandbox/rules/Policy"
import type { Creation, Sandbox } from "@slipway/domain/sandbox/rules/Sandbox"
import { decide } from "@slipway/domain/sandbox/rules/SystemCommand"
import { turnId } from "@slipway/domain/sandbox/rules/Turn"
import * as DateTime from "effect/DateTime"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import type * as Layer from "effect/Layer"
import * as Result from "effect/Result"
import * as Stream from "effect/Stream"
import { assert } from "../../suite/Assert.ts"
import { define, type Writer } from "../../suite/Suite.ts"
import { at, command, drive, keyOf, leased, make, StoreFixture, type Stores } from "./SandboxStates.ts"

const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes)
const bytesOf = (content: string) => new TextEncoder().encode(content)

/** A sandbox whose agent works, and the lease of who works for it. */
export const worked = Effect.fnUntraced(function*(more: Partial<Creation> = {}) {
  const ids = yield* Ids
  const made = yield* make(more)
  const { lease } = yield* leased(made.id)
  const turn = turnId(ids, made.id, 1)
  const sandbox = yield* drive(made, [
    { _tag: "StartBoot" },
    { _tag: "FinishBoot", turnId: turn },
    { _tag: "StartTurn", turnId: turn }
  ], lease)
  return { sandbox, lease, turn }
})

export const putText = (lease: Lease, checkpoint: number, content: string) =>
  Checkpoints.use((checkpoints) => checkpoints.put(lease, checkpoint, Stream.make(bytesOf(content))))

const repos = [{ repo: "acme/shop", sha: "0123456789abcdef0123456789abcdef01234567" }, { repo: "acme/other", sha: "f".repeat(40) }]

const record = (sandbox: Sandbox, lease: Lease, checkpoint: number, bytes: number) =>
  drive(sandbox, [{ _tag: "RecordCheckpoint", data: { checkpoint, bytes, ms: 5, repos } }], lease)

/** Puts and records them in order. */
export const take = Effect.fnUntraced(function*(sandbox: Sandbox, lease: Lease, numbers: ReadonlyArray<number>) {
  let current = sandbox
  for (const n of numbers) current = yield* record(current, lease, n, yield* putText(lease, n, `content ${n}`))
  return current
})

export const read = (id: SandboxId, checkpoint: number) =>
  Checkpoints.use((checkpoints) => Stream.runFold(checkpoints.get(id, checkpoint), () => "", (all, chunk) => all + text(chunk)))
export const numbers = (id: SandboxId, after = 0, limit = 100) =>
  Checkpoints.use((checkpoints) => Effect.map(checkpoints.list(id, after, limit), (found) => found.map(({ checkpoint }) => checkpoint)))

/** Nothing is to be seen of it. */
const isUnseen = Effect.fnUntraced(function*(id: SandboxId, checkpoint: number) {
  assert.notInclude(yield* numbers(id), checkpoint)
  assert.strictEqual((yield* Effect.flip(read(id, checkpoint)))._tag, "CheckpointNotFound")
})

/** The lease of who takes over from a worker that does not know yet. */
export const takenOver = Effect.fnUntraced(function*(id: SandboxId) {
  const { ageLease } = yield* StoreFixture
  yield* ageLease(id, LEASE_SECONDS)
  return (yield* leased(id)).lease
})

const longAgo = DateTime.subtract(at, { days: 400 })
export const prune = Effect.fnUntraced(function*(endedBefore: DateTime.Utc = longAgo) {
  const checkpoints = yield* Checkpoints
  while ((yield* checkpoints.prune(endedBefore, 100)) === 100) continue
})

const settle = (sandbox: Sandbox, when: DateTime.Utc) =>
  Effect.gen(function*() {
    const store = yield* SandboxStore
    const limits = yield* Policy
    yield* store.change(
      sandbox.id,
      "policy",
      (state) => decide(state, { _tag: "Fail", reason: "agent_lost", error: "Gone.", retryable: false }, { now: when, limits }),
      when
    )
  })

const MEBIBYTE = 2 ** 20
/** 64 KiB at a time that nothing makes smaller. */
const noise = (count: number): Stream.Stream<Uint8Array> => {
  let state = 1
  // One at a time: a range comes in runs of thousands.
  return Stream.map(Stream.rechunk(Stream.range(1, count), 1), () => {
    const words = Uint32Array.from({ length: 2 ** 14 }, () => {
      state ^= state << 13
      state ^= state >>> 17
      return state ^= state << 5
    })
    return new Uint8Array(words.buffer)
  })
}
const chunks = (count: number, bytes: number, byteAt: (i: number) => number) =>
  Stream.map(Stream.range(0, count - 1), (i) => new Uint8Array(bytes).fill(byteAt(i)))

/** The checksum of bytes in their order. */
const sumOf = <E, R>(content: Stream.Stream<Uint8Array, E, R>) =>
  Stream.runFold(content, () => 7, (sum, chunk) => chunk.reduce((all, byte) => (Math.imul(all, 31) + byte) | 0, sum))

const puts = (it: Writer<Stores | Checkpoints>) => {
  it.effect("bytes come back as they were put, with what their event says", () =>
    Effect.gen(function*() {
      const checkpoints = yield* Checkpoints
      const { lease, sandbox, turn } = yield* worked()
      const content = Uint8Array.from({ length: 3 * MEBIBYTE + 77 }, (_, i) => (i * 2_654_435_761) >>> 13)
      const sizes = [1, 0, 65_536, 1_500_000, 7]
      const parts = (from: number, i = 0): ReadonlyArray<Uint8Array> => {
        const size = sizes[i % sizes.length] ?? 1
        return from >= content.length ? [] : [content.slice(from, from + size), ...parts(from + size, i + 1)]
      }
      const bytes = yield* checkpoints.put(lease, 1, Stream.fromIterable(parts(0)))
      assert.isAbove(bytes, 0)
      yield* drive(sandbox, [{ _tag: "EndTurn", turnId: turn, state: "succeeded" }], lease)
      yield* record(sandbox, lease, 1, bytes)
      let read = 0
      yield* Stream.runForEach(checkpoints.get(sandbox.id, 1), (chunk) =>
        Effect.sync(() => {
          assert.isTrue(chunk.every((byte, i) => byte === content[read + i]), `differs after ${read}`)
          read += chunk.length
        }))
      assert.strictEqual(read, content.length)
      assert.deepStrictEqual(yield* checkpoints.list(sandbox.id, 0, 10), [{ checkpoint: 1, turnId: turn, createdAt: at, bytes, repos }])
    }))

  it.effect("one may be empty, and have no turn", () =>
    Effect.gen(function*() {
      const checkpoints = yield* Checkpoints
      const { lease, sandbox } = yield* worked()
      yield* record(sandbox, lease, 1, yield* checkpoints.put(lease, 1, Stream.empty))
      assert.strictEqual(yield* read(sandbox.id, 1), "")
      assert.deepStrictEqual((yield* checkpoints.list(sandbox.id, 0, 10)).map(({ turnId }) => turnId), [null])
    }))

  it.effect("a put is invisible until it is recorded under the same lease", () =>
    Effect.gen(function*() {
      const { lease, sandbox } = yield* worked()
      yield* putText(lease, 1, "mine")
      yield* isUnseen(sandbox.id, 1)
      // A rule of the service records nothing of a lease.
      yield* drive(sandbox, [{ _tag: "RecordCheckpoint", data: { error: "No." } }], lease)
      yield* isUnseen(sandbox.id, 1)
      yield* record(sandbox, lease, 1, 4)
      assert.strictEqual(yield* read(sandbox.id, 1), "mine")
    }))

  it.effect("what is recorded and was never put, or by another lease, is not there", () =>
    Effect.gen(function*() {
      const { lease, sandbox } = yield* worked()
      yield* putText(lease, 1, "lost with its worker")
      const next = yield* takenOver(sandbox.id)
      yield* record(sandbox, next, 1, 4)
      yield* isUnseen(sandbox.id, 1)
    }))

  it.effect("a stale lease puts nothing, not even what it began while it was none", () =>
    Effect.gen(function*() {
      const checkpoints = yield* Checkpoints
      const { lease, sandbox } = yield* worked()
      const [began, goOn] = [yield* Deferred.make<void>(), yield* Deferred.make<void>()]
      const old = yield* Effect.forkChild(Effect.flip(checkpoints.put(
        lease,
        1,
        Stream.concat(
          Stream.make(bytesOf("the loser's ")),
          Stream.fromEffect(Effect.as(Effect.andThen(Deferred.succeed(began, undefined), Deferred.await(goOn)), bytesOf("bytes")))
        )
      )))
      yield* Deferred.await(began)
      const next = yield* takenOver(sandbox.id)
      yield* Deferred.succeed(goOn, undefined)
      assert.strictEqual((yield* Fiber.join(old))._tag, "StaleLease")
      assert.strictEqual((yield* Effect.flip(putText(lease, 1, "the loser's, again")))._tag, "StaleLease")
      yield* record(sandbox, next, 1, 4)
      yield* isUnseen(sandbox.id, 1)
    }))
}

const concurrentPuts = (it: Writer<Stores | Checkpoints>) => {
  it.effect("a stale lease puts nothing, not even what it had read to the end while it was none", () =>
    Effect.gen(function*() {
      const checkpoints = yield* Checkpoints
      const { lease, sandbox } = yield* worked()
      const [began, goOn] = [yield* Deferred.make<void>(), yield* Deferred.make<void>()]
      const end = Stream.drain(Stream.fromEffect(Effect.andThen(Deferred.succeed(began, undefined), Deferred.await(goOn))))
      const old = yield* Effect.forkChild(Effect.flip(checkpoints.put(lease, 1, Stream.concat(Stream.make(bytesOf("all of it")), end))))
      yield* Deferred.await(began)
      const next = yield* takenOver(sandbox.id)
      yield* Deferred.succeed(goOn, undefined)
      assert.strictEqual((yield* Fiber.join(old))._tag, "StaleLease")
      yield* record(sandbox, next, 1, 4)
      yield* isUnseen(sandbox.id, 1)
    }))

  it.effect("if two workers believe that they own a sandbox, readers get the bytes of the worker that recorded", () =>
    Effect.gen(function*() {
      const { lease, sandbox } = yield* worked()
      yield* putText(lease, 1, "the loser's")
      const next = yield* takenOver(sandbox.id)
      yield* putText(next, 1, "the winner's")
      assert.strictEqual((yield* Effect.flip(record(sandbox, lease, 1, 4)))._tag, "StaleLease")
      yield* isUnseen(sandbox.id, 1)
      yield* record(sandbox, next, 1, 4)
      yield* Effect.flip(putText(lease, 1, "too late"))
      assert.strictEqual(yield* read(sandbox.id, 1), "the winner's")
      yield* prune()
      assert.strictEqual(yield* read(sandbox.id, 1), "the winner's")
    }))

  it.effect("a second put replaces what the first left, which is forgotten", () =>
    Effect.gen(function*() {
      const checkpoints = yield* Checkpoints
      const { lease, sandbox } = yield* worked()
      yield* prune()
      yield* putText(lease, 1, "first, and longer")
      assert.strictEqual(yield* checkpoints.prune(longAgo, 100), 0)
      const bytes = yield* putText(lease, 1, "second")
      assert.strictEqual(yield* checkpoints.prune(longAgo, 100), 1)
      assert.strictEqual(yield* checkpoints.prune(longAgo, 100), 0)
      yield* record(sandbox, lease, 1, bytes)
      assert.strictEqual(yield* read(sandbox.id, 1), "second")
      assert.deepStrictEqual(yield* numbers(sandbox.id), [1])
    }))

  it.effect("the later of two puts under one lease counts, also when the earlier put ends later", () =>
    Effect.gen(function*() {
      const checkpoints = yield* Checkpoints
      const { lease, sandbox } = yield* worked()
      const [began, goOn] = [yield* Deferred.make<void>(), yield* Deferred.make<void>()]
      const rest = Stream.fromEffect(Effect.as(Effect.andThen(Deferred.succeed(began, undefined), Deferred.await(goOn)), bytesOf("st")))
      const first = yield* Effect.forkChild(Effect.exit(checkpoints.put(lease, 1, Stream.concat(Stream.make(bytesOf("fir")), rest))))
      yield* Deferred.await(began)
      const bytes = yield* putText(lease, 1, "second")
      yield* Deferred.succeed(goOn, undefined)
      yield* Fiber.join(first)
      yield* record(sandbox, lease, 1, bytes)
      assert.strictEqual(yield* read(sandbox.id, 1), "second")
    }))

  it.effect("a put of a recorded checkpoint changes nothing that readers get", () =>
    Effect.gen(function*() {
      const { lease, sandbox } = yield* worked()
      yield* record(sandbox, lease, 1, yield* putText(lease, 1, "recorded"))
      yield* putText(lease, 1, "again, since the answer was lost")
      assert.strictEqual((yield* Effect.flip(record(sandbox, lease, 1, 4)))._tag, "IllegalTransition")
      assert.strictEqual(yield* read(sandbox.id, 1), "recorded")
      yield* prune()
      assert.strictEqual(yield* read(sandbox.id, 1), "recorded")
    }))
}

const keptCheckpoints = (it: Writer<Stores | Checkpoints>) => {
  it.effect("a put whose content fails, or that is interrupted, leaves nothing to be seen, and the next one does", () =>
    Effect.gen(function*() {
      const checkpoints = yield* Checkpoints
      const { lease, sandbox } = yield* worked()
      const half = Stream.make(bytesOf("half of it"))
      assert.strictEqual(
        yield* Effect.flip(checkpoints.put(lease, 1, Stream.concat(half, Stream.fail("the disk broke" as const)))),
        "the disk broke"
      )
      yield* record(sandbox, lease, 1, 4)
      yield* isUnseen(sandbox.id, 1)
      const began = yield* Deferred.make<void>()
      const endless = Stream.concat(half, Stream.fromEffect(Effect.andThen(Deferred.succeed(began, undefined), Effect.never)))
      // The last put of a number replaces all that an earlier put stored.
      yield* putText(lease, 2, "an earlier one")
      const cut = yield* Effect.forkChild(checkpoints.put(lease, 2, endless))
      yield* Deferred.await(began)
      yield* Fiber.interrupt(cut)
      yield* record(sandbox, lease, 2, 4)
      yield* isUnseen(sandbox.id, 2)
      yield* take(sandbox, lease, [3])
      assert.strictEqual(yield* read(sandbox.id, 3), "content 3")
    }))

  it.effect("lists in pages, ascending, each sandbox its own", () =>
    Effect.gen(function*() {
      const { lease, sandbox } = yield* worked()
      const other = yield* worked()
      yield* take(sandbox, lease, [1, 2, 3, 4, 5])
      yield* take(other.sandbox, other.lease, [1])
      const pages = [yield* numbers(sandbox.id, 0, 2), yield* numbers(sandbox.id, 2, 2), yield* numbers(sandbox.id, 4, 2)]
      assert.deepStrictEqual(pages, [[1, 2], [3, 4], [5]])
      assert.deepStrictEqual(yield* numbers(sandbox.id, 5), [])
      assert.deepStrictEqual(yield* numbers(other.sandbox.id), [1])
      assert.strictEqual(yield* read(other.sandbox.id, 1), "content 1")
      assert.strictEqual((yield* Effect.flip(read(other.sandbox.id, 2)))._tag, "CheckpointNotFound")
    }))

  it.effect("of a live sandbox the newest are kept, and the one it is to go back to", () =>
    Effect.gen(function*() {
      const { lease, sandbox, turn } = yield* worked()
      const last = KEPT_CHECKPOINTS + 4
      yield* take(sandbox, lease, Array.from({ length: last }, (_, i) => i + 1))
      yield* drive(sandbox, [{ _tag: "EndTurn", turnId: turn, state: "succeeded" }], lease)
      const store = yield* SandboxStore
      yield* store.change(sandbox.id, "policy", () => Result.succeed([{ type: "sandbox.restoring", data: { checkpoint: 2 } }]), at)
      yield* prune()
      assert.deepStrictEqual(yield* numbers(sandbox.id), [2, ...Array.from({ length: KEPT_CHECKPOINTS }, (_, i) => i + 5)])
      assert.strictEqual(yield* read(sandbox.id, 2), "content 2")
      yield* isUnseen(sandbox.id, 1)
      assert.strictEqual(yield* read(sandbox.id, 5), "content 5")
      yield* drive(sandbox, [{ _tag: "RecordRestore", data: { checkpoint: 2, cause: "command" } }], lease)
      yield* prune()
      yield* isUnseen(sandbox.id, 2)
    }), { timeout: 300_000 })

  it.effect("of a settled one the last is kept until its time is over", () =>
    Effect.gen(function*() {
      const { lease, sandbox } = yield* worked()
      const live = yield* worked()
      yield* take(sandbox, lease, [1, 2, 3])
      yield* take(live.sandbox, live.lease, [1, 2])
      const ended = DateTime.add(at, { hours: 1 })
      yield* settle(sandbox, ended)
      yield* prune(DateTime.subtract(ended, { milliseconds: 1 }))
      assert.deepStrictEqual(yield* numbers(sandbox.id), [3])
      assert.strictEqual(yield* read(sandbox.id, 3), "content 3")
      yield* prune(ended)
      yield* isUnseen(sandbox.id, 3)
      assert.deepStrictEqual(yield* numbers(live.sandbox.id), [1, 2])
    }))
}

const pruning = (it: Writer<Stores | Checkpoints>) => {
  it.effect("what a live fork starts with stays until that has a checkpoint of its own, or is over", () =>
    Effect.gen(function*() {
      const { lease, sandbox } = yield* worked()
      yield* take(sandbox, lease, [1, 2, 3])
      const forkOf = (checkpoint: number) => worked({ grantId: sandbox.grantId, origin: { sandboxId: sandbox.id, checkpoint } })
      const [first, second] = [yield* forkOf(1), yield* forkOf(2)]
      const third = yield* make({ grantId: sandbox.grantId, origin: { sandboxId: sandbox.id, checkpoint: 3 } })
      yield* settle(sandbox, at)
      yield* prune(at)
      assert.deepStrictEqual(yield* numbers(sandbox.id), [1, 2, 3])
      assert.strictEqual(yield* read(sandbox.id, 1), "content 1")
      yield* take(first.sandbox, first.lease, [1])
      yield* settle(second.sandbox, DateTime.add(at, { days: 1 }))
      yield* prune(at)
      assert.deepStrictEqual(yield* numbers(sandbox.id), [3])
      yield* command(keyOf(third), terminate(yield* Ids), at)
      yield* prune(at)
      assert.deepStrictEqual(yield* numbers(sandbox.id), [])
    }))

  it.effect(
    "exactly the newest of a live sandbox are kept, and before them only what a live fork starts with",
    () =>
      Effect.gen(function*() {
        const { lease, sandbox } = yield* worked()
        const newest = Array.from({ length: KEPT_CHECKPOINTS }, (_, i) => i + 1)
        const taken = yield* take(sandbox, lease, newest)
        yield* prune()
        assert.deepStrictEqual(yield* numbers(sandbox.id), newest)
        const fork = yield* worked({ grantId: sandbox.grantId, origin: { sandboxId: sandbox.id, checkpoint: 1 } })
        yield* take(taken, lease, [KEPT_CHECKPOINTS + 1, KEPT_CHECKPOINTS + 2])
        yield* prune()
        const [, , ...later] = newest
        const now = [...later, KEPT_CHECKPOINTS + 1, KEPT_CHECKPOINTS + 2]
        assert.deepStrictEqual(yield* numbers(sandbox.id), [1, ...now])
        yield* take(fork.sandbox, fork.lease, [1])
        yield* prune()
        assert.deepStrictEqual(yield* numbers(sandbox.id), now)
      }),
    { timeout: 300_000 }
  )

  it.effect("forgets for as many sandboxes at a time as it is told, until nothing is left", () =>
    Effect.gen(function*() {
      const checkpoints = yield* Checkpoints
      yield* prune()
      const made = yield* Effect.forEach([1, 2, 3], () => worked())
      // The first sandbox has an old checkpoint, the others leftovers of puts.
      for (const [i, { lease, sandbox }] of made.entries()) {
        if (i === 0) {
          yield* take(
            sandbox,
            lease,
            Array.from({ length: KEPT_CHECKPOINTS + 1 }, (_, n) => n + 1)
          )
        } else yield* putText(lease, 1, "left")
        if (i > 0) yield* takenOver(sandbox.id)
      }
      assert.strictEqual(yield* checkpoints.prune(longAgo, 2), 2)
      assert.strictEqual(yield* checkpoints.prune(longAgo, 2), 1)
      assert.strictEqual(yield* checkpoints.prune(longAgo, 2), 0)
    }), { timeout: 300_000 })

  it.effect("forgets the leftovers of puts of a recorded checkpoint, and of a sandbox that is over", () =>
    Effect.gen(function*() {
      const checkpoints = yield* Checkpoints
      yield* prune()
      const { lease, sandbox } = yield* worked()
      const taken = yield* take(sandbox, lease, [1])
      yield* putText(lease, 1, "again, since the answer was lost")
      assert.strictEqual(yield* checkpoints.prune(longAgo, 100), 1)
      yield* putText(lease, 2, "never to be recorded")
      assert.strictEqual(yield* checkpoints.prune(longAgo, 100), 0)
      yield* settle(taken, at)
      assert.strictEqual(yield* checkpoints.prune(longAgo, 100), 1)
      assert.strictEqual(yield* checkpoints.prune(longAgo, 100), 0)
      assert.deepStrictEqual(yield* numbers(sandbox.id), [1])
    }))
}

const readsDuringChanges = (it: Writer<Stores | Checkpoints>) => {
  it.effect("what a put under way may still record is not forgotten", () =>
    Effect.gen(function*() {
      const checkpoints = yield* Checkpoints
      const { lease, sandbox } = yield* worked()
      const pruned = Stream.fromEffect(Effect.as(prune(), bytesOf("second")))
      const bytes = yield* checkpoints.put(lease, 1, Stream.concat(Stream.make(bytesOf("first, ")), pruned))
      yield* prune()
      yield* record(sandbox, lease, 1, bytes)
      assert.strictEqual(yield* read(sandbox.id, 1), "first, second")
    }))

  it.effect(
    "a reader gets the recorded bytes or none while others put, take over and prune",
    () =>
      Effect.gen(function*() {
        const checkpoints = yield* Checkpoints
        const { lease, sandbox } = yield* worked()
        const whole = yield* sumOf(noise(32))
        const bytes = yield* checkpoints.put(lease, 1, noise(32))
        yield* record(sandbox, lease, 1, bytes)
        let isFirst = true
        const others = Effect.gen(function*() {
          yield* checkpoints.put(
            lease,
            1,
            chunks(32, 2 ** 16, (i) => i)
          )
          yield* prune()
          const next = yield* takenOver(sandbox.id)
          yield* checkpoints.put(
            next,
            1,
            chunks(32, 2 ** 16, (i) => i)
          )
          yield* prune()
        })
        const read = Stream.tap(checkpoints.get(sandbox.id, 1), () => {
          if (!isFirst) return Effect.void
          isFirst = false
          return others
        })
        assert.strictEqual(yield* sumOf(read), whole)
        yield* settle(sandbox, at)
        const [sums] = yield* Effect.all([
          Effect.forEach(Array.from({ length: 8 }), () => Effect.result(sumOf(checkpoints.get(sandbox.id, 1))), {
            concurrency: "unbounded"
          }),
          prune(at)
        ], { concurrency: "unbounded" })
        for (const sum of sums) {
          if (Result.isSuccess(sum)) assert.strictEqual(sum.success, whole)
          else assert.strictEqual(sum.failure._tag, "CheckpointNotFound")
        }
        yield* isUnseen(sandbox.id, 1)
      }),
    { timeout: 300_000 }
  )

  it.effect("reading what is forgotten meanwhile fails or gets all of it, never less", () =>
    Effect.gen(function*() {
      const checkpoints = yield* Checkpoints
      const { lease, sandbox } = yield* worked()
      yield* record(sandbox, lease, 1, yield* checkpoints.put(lease, 1, noise(128)))
      yield* settle(sandbox, at)
      let size = 0
      const outcome = yield* Effect.result(Stream.runForEach(checkpoints.get(sandbox.id, 1), (chunk) => {
        const isFirst = size === 0
        size += chunk.length
        return isFirst ? prune(at) : Effect.void
      }))
      if (outcome._tag === "Failure") {
        assert.strictEqual(outcome.failure._tag, "CheckpointNotFound")
      } else assert.strictEqual(size, 128 * 2 ** 16)
      yield* isUnseen(sandbox.id, 1)
    }), { timeout: 300_000 })
}

const sizeLimit = (it: Writer<Stores | Checkpoints>) => {
  it.effect(
    "a checkpoint that is too large is refused, however well it compresses, and nothing of it is kept",
    () =>
      Effect.gen(function*() {
        const checkpoints = yield* Checkpoints
        const { lease, sandbox } = yield* worked()
        const count = MAX_CHECKPOINT_BYTES / MEBIBYTE
        let pulled = 0
        const endless = Stream.tap(
          chunks(2 * count, MEBIBYTE, () => 0),
          () => Effect.sync(() => void pulled++)
        )
        assert.strictEqual((yield* Effect.flip(checkpoints.put(lease, 1, endless)))._tag, "CheckpointTooLarge")
        assert.isBelow(pulled, 2 * count)
        yield* record(sandbox, lease, 1, 4)
        yield* isUnseen(sandbox.id, 1)
        const largest = Stream.concat(chunks(count - 1, MEBIBYTE, () => 0), Stream.make(new Uint8Array(MEBIBYTE)))
        yield* record(sandbox, lease, 2, yield* checkpoints.put(lease, 2, largest))
        const size = yield* Stream.runFold(checkpoints.get(sandbox.id, 2), () => 0, (sum, { length }) => sum + length)
        assert.strictEqual(size, MAX_CHECKPOINT_BYTES)
      }),
    { timeout: 300_000 }
  )
}

/** For every store. */
export const suite = (name: string, layer: Layer.Layer<Stores | Checkpoints, unknown>) =>
  define(`Checkpoints (${name})`, layer, (it) => {
    puts(it)
    concurrentPuts(it)
    keptCheckpoints(it)
    pruning(it)
    readsDuringChanges(it)
    sizeLimit(it)
  })

/**
 * A whole checkpoint would be {@link STREAMED_BYTES}. Pieces, sockets and compression hold some MiB, and uncollected garbage as much again.
 */
const HELD_BYTES = 44 * MEBIBYTE
const STREAMED_BYTES = 64 * MEBIBYTE

/** For every store that keeps what is put elsewhere than in this process. `held`: bytes of this process that something refers to. */
export const streaming = (name: string, layer: Layer.Layer<Stores | Checkpoints, unknown>, held: () => number) =>
  define(`Checkpoints, streaming (${name})`, layer, (it) => {
    it.effect("what is put and read is never whole in memory", () =>
      Effect.gen(function*() {
        const checkpoints = yield* Checkpoints
        const { lease, sandbox } = yield* worked()
        const before = held()
        let most = 0
        const look = (i: number) => {
          if (i % 64 === 0) most = Math.max(most, held() - before)
        }
        const chunks = STREAMED_BYTES / 2 ** 16
        const bytes = yield* checkpoints.put(
          lease,
          1,
          noise(chunks).pipe(
            Stream.zipWithIndex,
            Stream.map(([chunk, i]) => {
              look(i)
              return chunk
            })
          )
        )
        yield* record(sandbox, lease, 1, bytes)
        assert.isBelow(most, HELD_BYTES, "as it is put")
        most = 0
        let [size, looked] = [0, 0]
        yield* Stream.runForEach(checkpoints.get(sandbox.id, 1), (chunk) =>
          Effect.sync(() => {
            size += chunk.length
            if (size - looked < 4 * MEBIBYTE) return
            looked = size
            look(0)
          }))
        assert.strictEqual(size, STREAMED_BYTES)
        assert.isBelow(most, HELD_BYTES, "as it is read")
      }), { timeout: 300_000 })
  })
