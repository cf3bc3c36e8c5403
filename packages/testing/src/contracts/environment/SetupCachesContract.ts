/**
 * The rules that every `SetupCaches` must keep. An adapter proves itself by running this suite against its layer; a rule that is missing
 * here is not part of the port. Each test gets a machine of its own, which keeps {@link KEPT_BYTES} and of one cache {@link LARGEST_BYTES}.
 */
import { type CachePlace, type FoundCache, SetupCaches } from "@slipway/domain/environment/ports/SetupCaches"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { assert } from "../../suite/Assert.ts"
import { defineLive } from "../../suite/Suite.ts"

const KiB = 1024
export const LARGEST_BYTES = 256 * KiB
/** Room for three of the largest, packed as they may be. */
export const KEPT_BYTES = 3 * LARGEST_BYTES + 100 * KiB

export const place = (key = "key", grantId = "grant", repo = "acme/shop"): CachePlace => ({ grantId, repo: RepoName.make(repo), key })

/** Bytes that cannot be compressed. */
export const noise = (bytes: number, seed = 1) => {
  let word = seed
  return Uint8Array.from({ length: bytes }, () => {
    word ^= word << 13
    word ^= word >>> 17
    word ^= word << 5
    return word & 0xff
  })
}
const text = (value: string) => Stream.make(new TextEncoder().encode(value))
const never: Stream.Stream<Uint8Array> = Stream.concat(text("begun"), Stream.never)

const find = (at: CachePlace) => SetupCaches.use((caches) => caches.find(at, "1 hour"))

/** Empty, or what was read: nothing of it stays open. */
export const readAll = (at: CachePlace) =>
  Effect.scoped(Effect.gen(function*() {
    const found = yield* find(at)
    if (found._tag === "Miss") return null
    const chunks = yield* Stream.runCollect(found.bytes)
    return new Uint8Array(chunks.flatMap((chunk) => Array.from(chunk)))
  }))
const readText = (at: CachePlace) => Effect.map(readAll(at), (bytes) => bytes === null ? null : new TextDecoder().decode(bytes))

const missed = Effect.fnUntraced(function*(found: FoundCache) {
  if (found._tag === "Hit") return yield* Effect.die(new Error("somebody filled it"))
  return found
})
export const fill = <E>(at: CachePlace, bytes: Stream.Stream<Uint8Array, E>) =>
  Effect.scoped(Effect.flatMap(Effect.flatMap(find(at), missed), (miss) => miss.fill(bytes)))
const tagsOf = (fibers: ReadonlyArray<Fiber.Fiber<FoundCache>>) =>
  Effect.map(Effect.forEach(fibers, Fiber.join), (all) => all.map(({ _tag }) => _tag))

/** Waits behind all earlier callers; goes on until `scope` closes. */
const inLine = Effect.fnUntraced(function*(at: CachePlace, scope: Scope.Scope) {
  const fiber = yield* Effect.forkChild(Scope.provide(find(at), scope))
  // An adapter looks on its disk before it has anybody wait: each of these looks comes after that one.
  for (let looks = 0; looks < 20; looks++) yield* Effect.andThen(Effect.yieldNow, readAll(place("nobody's")))
  return fiber
})
const hasCome = (fiber: Fiber.Fiber<unknown>) => Effect.sync(() => fiber.pollUnsafe() !== undefined)

/** Adds a rule with an instance of its own. */
type AddRule = (states: string, test: Effect.Effect<void, unknown, SetupCaches | Scope.Scope>) => void

const fills = (rule: AddRule) => {
  rule(
    "gives back the bytes as they were filled, however they came",
    Effect.gen(function*() {
      assert.isNull(yield* readAll(place()))
      const bytes = noise(100_000)
      const pieces = [bytes.subarray(0, 1), new Uint8Array(), bytes.subarray(1, 70_000), bytes.subarray(70_000)]
      yield* fill(place(), Stream.fromIterable(pieces))
      assert.deepStrictEqual(yield* readAll(place()), bytes)
      assert.deepStrictEqual(yield* readAll(place()), bytes)
      yield* fill(place("empty"), Stream.empty)
      assert.strictEqual((yield* readAll(place("empty")))?.length, 0)
    })
  )

  rule(
    "gives it to the same grant, repository and key alone, whatever characters they have",
    Effect.gen(function*() {
      const hostile = ["../../../etc/passwd", "a/b", "\0", "x".repeat(5000), "", ".", "é \n'\"$(id)"]
      yield* fill(place("key", "grant", "Acme/Shop"), text("ours"))
      assert.strictEqual(yield* readText(place("key", "grant", "acme/SHOP")), "ours")
      for (const other of [place("key", "grant2"), place("key", "grant", "acme/shop2"), place("key2"), place("grant", "key")]) {
        assert.isNull(yield* readText(other))
      }
      // Their names in a row are the same.
      yield* fill(place("c/d/key", "grant", "a/b"), text("ours"))
      assert.isNull(yield* readText(place("key", "grant/a/b", "c/d")))
      for (const [i, key] of hostile.entries()) yield* fill(place(key, key), text(String(i)))
      for (const [i, key] of hostile.entries()) assert.strictEqual(yield* readText(place(key, key)), String(i))
    })
  )

  rule(
    "is filled once by the first of twenty who come at once, and the others hit",
    Effect.gen(function*() {
      let fills = 0
      const boot = Effect.scoped(Effect.gen(function*() {
        const found = yield* find(place())
        if (found._tag === "Miss") {
          fills++
          yield* found.fill(text("set up"))
        } else assert.strictEqual(yield* Stream.mkString(Stream.decodeText(found.bytes)), "set up")
        return found._tag
      }))
      const tags = yield* Effect.all(Array.from({ length: 20 }, () => boot), { concurrency: "unbounded" })
      assert.strictEqual(fills, 1)
      assert.strictEqual(
        tags.filter((tag) => tag === "Hit").length,
        19
      )
    })
  )

  rule(
    "keeps those who want another cache from waiting",
    Effect.gen(function*() {
      yield* find(place())
      assert.strictEqual((yield* find(place("other")))._tag, "Miss")
    })
  )

  rule(
    "lets the next one fill, and that one alone, when the one who fills is interrupted, and keeps nothing of it",
    Effect.gen(function*() {
      const begun = yield* Deferred.make<void>()
      const filler = yield* Effect.forkChild(fill(place(), Stream.onStart(never, Deferred.succeed(begun, undefined))))
      yield* Deferred.await(begun)
      const scope = yield* Effect.scope
      const [second, third] = [yield* inLine(place(), scope), yield* inLine(place(), scope)]
      yield* Fiber.interrupt(filler)
      const miss = yield* missed(yield* Fiber.join(second))
      assert.isFalse(yield* hasCome(third))
      yield* miss.fill(text("second"))
      assert.deepStrictEqual(yield* tagsOf([third]), ["Hit"])
      assert.strictEqual(yield* readText(place()), "second")
    })
  )
}

const failures = (rule: AddRule) => {
  rule(
    "passes over one in the line that is interrupted",
    Effect.gen(function*() {
      const [first, own] = [yield* Scope.make(), yield* Effect.scope]
      yield* Scope.provide(find(place()), first)
      const leaving = yield* Effect.forkChild(Effect.scoped(find(place())))
      const last = yield* inLine(place(), own)
      yield* Fiber.interrupt(leaving)
      assert.isFalse(yield* hasCome(last))
      yield* Scope.close(first, Exit.interrupt(1))
      assert.deepStrictEqual(yield* tagsOf([last]), ["Miss"])
    })
  )

  rule(
    "lets all go at once when the one who is to fill does not, or cannot",
    Effect.gen(function*() {
      const own = yield* Effect.scope
      for (const end of ["gives up", "is refused"] as const) {
        const first = yield* Scope.make()
        const miss = yield* Effect.flatMap(Scope.provide(find(place(end)), first), missed)
        const waiting = [yield* inLine(place(end), own), yield* inLine(place(end), own)]
        if (end === "gives up") yield* Scope.close(first, Exit.void)
        else yield* Effect.flip(miss.fill(Stream.fail("tar")))
        assert.deepStrictEqual(yield* tagsOf(waiting), ["Miss", "Miss"])
        // Any of them may fill it still, and then those wait no more who came meanwhile.
        yield* (yield* missed(yield* Fiber.join(waiting[1]!))).fill(text(end))
        assert.strictEqual(yield* readText(place(end)), end)
      }
    })
  )

  rule(
    "gives up a caller that has waited for the maximum time, and no longer queues others behind it",
    Effect.gen(function*() {
      const [first, own] = [yield* Scope.make(), yield* Effect.scope]
      yield* Scope.provide(find(place()), first)
      assert.strictEqual((yield* SetupCaches.use((caches) => caches.find(place(), 0)))._tag, "Miss")
      const last = yield* inLine(place(), own)
      yield* Scope.close(first, Exit.interrupt(1))
      assert.deepStrictEqual(yield* tagsOf([last]), ["Miss"])
    })
  )

  rule(
    "keeps nothing of what fails while it is read, and says why",
    Effect.gen(function*() {
      const cut = Stream.concat(Stream.make(noise(70_000)), Stream.fail("tar failed" as const))
      assert.strictEqual(yield* Effect.flip(fill(place(), cut)), "tar failed")
      assert.isNull(yield* readAll(place()))
    })
  )

  rule(
    "refuses what is too large without reading all of it, and keeps nothing of it",
    Effect.gen(function*() {
      yield* fill(place("largest"), Stream.make(noise(LARGEST_BYTES)))
      let read = 0
      const endless = Stream.tap(Stream.forever(Stream.make(new Uint8Array(KiB))), () => Effect.sync(() => void read++))
      const error = yield* Effect.flip(fill(place(), endless))
      assert.strictEqual(error.reason, "too_large")
      assert.isBelow(read, 2 * LARGEST_BYTES / KiB)
      assert.isNull(yield* readAll(place()))
    })
  )
}

const removal = (rule: AddRule) => {
  rule(
    "removes the least recently used first, and nothing before it has to",
    Effect.gen(function*() {
      for (const key of ["a", "b", "c"]) yield* fill(place(key), Stream.make(noise(LARGEST_BYTES)))
      assert.isNotNull(yield* readAll(place("a")))
      yield* fill(place("d"), Stream.make(noise(LARGEST_BYTES, 2)))
      const there = []
      for (const key of ["a", "b", "c", "d"]) if ((yield* readAll(place(key))) !== null) there.push(key)
      assert.deepStrictEqual(there, ["a", "c", "d"])
    })
  )

  rule(
    "removes nothing that somebody reads, whatever comes instead of it",
    Effect.gen(function*() {
      const reading = yield* Scope.make()
      for (const key of ["a", "b", "c"]) {
        yield* fill(place(key), Stream.make(noise(LARGEST_BYTES)))
        assert.strictEqual((yield* Scope.provide(find(place(key)), reading))._tag, "Hit")
      }
      const error = yield* Effect.flip(fill(place("d"), Stream.make(noise(LARGEST_BYTES))))
      assert.strictEqual(error.reason, "too_large")
      yield* SetupCaches.use((caches) => caches.makeRoom)
      for (const key of ["a", "b", "c"]) assert.isNotNull(yield* readAll(place(key)))
      yield* Scope.close(reading, Exit.void)
      yield* fill(place("d"), Stream.make(noise(LARGEST_BYTES)))
      assert.isNotNull(yield* readAll(place("d")))
    })
  )

  rule(
    "makes room by removing all caches without a reader",
    Effect.gen(function*() {
      for (const key of ["a", "b"]) yield* fill(place(key), text(key))
      yield* SetupCaches.use((caches) => caches.makeRoom)
      for (const key of ["a", "b"]) assert.isNull(yield* readAll(place(key)))
    })
  )
}

export const suite = (name: string, layer: Layer.Layer<SetupCaches>) =>
  defineLive(`SetupCaches (${name})`, Layer.empty, (it) => {
    const rule: AddRule = (states, test) => it.effect(states, () => Effect.scoped(Effect.provide(test, layer)))
    fills(rule)
    failures(rule)
    removal(rule)
  })
