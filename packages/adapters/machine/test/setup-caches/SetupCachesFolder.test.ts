import { assert, it } from "@effect/vitest"
import { SetupCaches } from "@slipway/domain/environment/ports/SetupCaches"
import { fill, KEPT_BYTES, LARGEST_BYTES, noise, place, readAll, suite } from "@slipway/testing/contracts/environment/SetupCachesContract"
import { register } from "@slipway/testing/runners/Vitest"
import { Deferred, Effect, Fiber, Layer, Stream } from "effect"
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, utimesSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import path from "node:path"
import * as SetupCachesFolder from "../../src/setup-caches/SetupCachesFolder.ts"
import * as SmallDisk from "../../testing/SmallDisk.ts"

const temporary = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(path.join(tmpdir(), "slipway-caches-"))),
  (folder) => Effect.sync(() => rmSync(folder, { recursive: true, force: true }))
)
const inFolder = (directory: string, maximumBytes = KEPT_BYTES) =>
  SetupCachesFolder.layer({ directory, maximumBytes, largest: LARGEST_BYTES })

register(suite("folder", Layer.unwrap(Effect.map(temporary, (folder) => inFolder(path.join(folder, "caches"))))))

type MakeImage = NonNullable<SetupCachesFolder.Options["makeImage"]>
/** As large as it says. */
const imageOf = (size: number): MakeImage => (file, bytes) =>
  Effect.andThen(Effect.orDie(Stream.runDrain(bytes)), Effect.sync(() => writeFileSync(file, Buffer.alloc(size, "image"))))
const withImages = (directory: string, makeImage: MakeImage, maximumBytes = KEPT_BYTES) =>
  SetupCachesFolder.layer({ directory, maximumBytes, largest: LARGEST_BYTES, makeImage })

register(suite("folder with images", Layer.unwrap(Effect.map(temporary, (folder) => withImages(path.join(folder, "caches"), imageOf(1))))))

const use = <A, E>(directory: string, self: Effect.Effect<A, E, SetupCaches>, maximumBytes?: number) =>
  Effect.provide(self, Layer.fresh(inFolder(directory, maximumBytes)))
const live = (states: string, test: (folder: string) => Effect.Effect<void, unknown>) =>
  it.live(states, () => Effect.scoped(Effect.flatMap(temporary, test)))
const bytes = noise(50_000)

live("a later process of the machine has what an earlier one filled, in files for its account alone", (folder) =>
  Effect.gen(function*() {
    const directory = path.join(folder, "caches")
    yield* use(directory, fill(place("../../climbs"), Stream.make(bytes)))
    assert.deepStrictEqual(yield* use(directory, readAll(place("../../climbs"))), bytes)
    assert.deepStrictEqual(readdirSync(folder), ["caches"])
    const [file = "", ...more] = readdirSync(directory)
    assert.deepStrictEqual(more, [])
    assert.match(file, /^[0-9a-f]{64}\.zst$/u)
    assert.strictEqual(statSync(path.join(directory, file)).mode & 0o777, 0o600)
    assert.strictEqual(statSync(directory).mode & 0o777, 0o700)
  }))

live("a cache that is damaged by a bit, wherever, cut or longer, is missing, and is removed", (folder) =>
  Effect.gen(function*() {
    const small = new TextEncoder().encode("small")
    yield* use(folder, fill(place(), Stream.make(small)))
    const [name = ""] = readdirSync(folder)
    const file = path.join(folder, name)
    const whole = readFileSync(file)
    const harmed = [
      ...Array.from({ length: whole.length }, (_, i) => whole.map((byte, at) => at === i ? byte ^ 1 << i % 8 : byte)),
      ...Array.from({ length: whole.length }, (_, length) => whole.subarray(0, length)),
      Buffer.concat([whole, Buffer.alloc(1)])
    ]
    yield* use(
      folder,
      Effect.gen(function*() {
        for (const content of harmed) {
          writeFileSync(file, content)
          assert.isNull(yield* readAll(place()))
          assert.deepStrictEqual(readdirSync(folder), [])
        }
        writeFileSync(file, whole)
        assert.deepStrictEqual(yield* readAll(place()), small)
      })
    )
  }))

live("a cache that is damaged while it is read fails, is removed, and is missing from then on", (folder) =>
  use(
    folder,
    Effect.gen(function*() {
      yield* fill(place(), Stream.make(noise(LARGEST_BYTES)))
      const [name = ""] = readdirSync(folder)
      const file = path.join(folder, name)
      yield* Effect.scoped(Effect.gen(function*() {
        const found = yield* SetupCaches.use((caches) => caches.find(place(), 0))
        if (found._tag === "Miss") return yield* Effect.die("missing")
        writeFileSync(file, Buffer.alloc(statSync(file).size))
        assert.strictEqual((yield* Effect.flip(Stream.runDrain(found.bytes)))._tag, "CacheDamaged")
      }))
      assert.isNull(yield* readAll(place()))
    })
  ))

live("nothing is left of what a process that was killed had begun", (folder) =>
  Effect.gen(function*() {
    yield* use(folder, fill(place(), Stream.make(bytes)))
    const [name = ""] = readdirSync(folder)
    writeFileSync(path.join(folder, `${name}.0192f5a0.partial`), bytes)
    assert.deepStrictEqual(yield* use(folder, readAll(place())), bytes)
    assert.deepStrictEqual(readdirSync(folder), [name])
  }))

live("two processes fill and read one folder without harm, and keep together what one may", (folder) =>
  Effect.gen(function*() {
    const begun = yield* Deferred.make<void>()
    const goOn = yield* Deferred.make<void>()
    const slow = Stream.concat(
      Stream.make(bytes),
      Stream.fromEffect(Effect.as(Effect.andThen(Deferred.succeed(begun, undefined), Deferred.await(goOn)), bytes))
    )
    const first = yield* Effect.forkChild(Effect.exit(use(folder, fill(place(), slow))))
    yield* Deferred.await(begun)
    // It takes what is not whole yet for what a killed one left.
    yield* use(folder, fill(place(), Stream.make(bytes)))
    yield* Deferred.succeed(goOn, undefined)
    yield* Fiber.join(first)
    const there = yield* use(folder, readAll(place()))
    assert.include([50_000, 100_000], there?.length)
    for (const key of ["a", "b", "c", "d"]) yield* use(folder, fill(place(key), Stream.make(noise(LARGEST_BYTES))))
    const sizes = readdirSync(folder).map((name) => statSync(path.join(folder, name)).size)
    assert.isAtMost(sizes.reduce((sum, size) => sum + size, 0), KEPT_BYTES)
    assert.strictEqual(sizes.length, 3)
  }))

live(
  "what is used is remembered by the file, and a process that starts with less room removes the least recently used",
  (folder) =>
    Effect.gen(function*() {
      yield* use(folder, fill(place("a"), Stream.make(bytes)))
      const [a = ""] = readdirSync(folder)
      yield* use(folder, fill(place("b"), Stream.make(bytes)))
      for (const name of readdirSync(folder)) utimesSync(path.join(folder, name), 1000, name === a ? 1000 : 2000)
      yield* use(folder, readAll(place("a")))
      yield* use(folder, Effect.void, 60_000)
      assert.deepStrictEqual(readdirSync(folder), [a])
    })
)

live(
  "without any room no cache is kept, a caller waits at most as long as for a refusal, and earlier caches are gone",
  (folder) =>
    Effect.gen(function*() {
      yield* use(folder, fill(place(), Stream.make(bytes)))
      yield* use(
        folder,
        Effect.gen(function*() {
          assert.isNull(yield* readAll(place()))
          assert.strictEqual((yield* Effect.flip(fill(place(), Stream.never)))._tag, "CacheNotKept")
        }),
        0
      )
      assert.deepStrictEqual(readdirSync(folder), [])
    })
)

const imageThere = (at = place()) =>
  Effect.map(SetupCaches.use((caches) => caches.find(at, 0)), (found) => found._tag === "Hit" ? found.image : undefined)

live(
  "a cache has its image from when it is filled on, and both count, are used and are removed as one",
  (folder) =>
    Effect.gen(function*() {
      const withImage = <A, E>(self: Effect.Effect<A, E, SetupCaches>) =>
        Effect.provide(self, Layer.fresh(withImages(folder, imageOf(200_000), 600_000)))
      for (const key of ["a", "b"]) yield* withImage(fill(place(key), Stream.make(bytes)))
      assert.lengthOf(readdirSync(folder), 4)
      const image = yield* withImage(Effect.scoped(imageThere(place("a"))))
      assert.strictEqual(readFileSync(image ?? "", "utf8").slice(0, 5), "image")
      yield* withImage(fill(place("c"), Stream.make(bytes)))
      const there = yield* withImage(Effect.forEach(["a", "b", "c"], (key) => Effect.scoped(imageThere(place(key)))))
      assert.deepStrictEqual(there.map((image) => image !== undefined), [true, false, true])
      assert.lengthOf(readdirSync(folder), 4)
      // Without boxes that mount it, it is the bytes alone.
      assert.isNull(yield* use(folder, Effect.scoped(imageThere(place("a"))), 600_000))
      yield* withImage(SetupCaches.use((caches) => caches.makeRoom))
      assert.deepStrictEqual(readdirSync(folder), [])
    })
)

live("an image that cannot be made, or that has no room, costs nothing but the image", (folder) =>
  Effect.gen(function*() {
    const refused: MakeImage = (file) =>
      Effect.andThen(Effect.sync(() => writeFileSync(file, "half")), Effect.fail({ message: "tar ended with 2" }))
    for (const make of [refused, imageOf(2 * KEPT_BYTES)]) {
      const at = place(make === refused ? "refused" : "large")
      yield* Effect.provide(
        Effect.gen(function*() {
          yield* fill(at, Stream.make(bytes))
          assert.isNull(yield* Effect.scoped(imageThere(at)))
          assert.deepStrictEqual(yield* readAll(at), bytes)
        }),
        Layer.fresh(withImages(folder, make))
      )
    }
    assert.isEmpty(readdirSync(folder).filter((name) => !name.endsWith(".zst")))
  }))

live(
  "damaged bytes beside a whole image are noticed by their readers, and an image alone is unowned",
  (folder) =>
    Effect.gen(function*() {
      const withImage = <A, E>(self: Effect.Effect<A, E, SetupCaches>) => Effect.provide(self, Layer.fresh(withImages(folder, imageOf(10))))
      yield* withImage(fill(place(), Stream.make(bytes)))
      const name = readdirSync(folder).find((name) => name.endsWith(".zst")) ?? ""
      const whole = readFileSync(path.join(folder, name))
      writeFileSync(path.join(folder, name), whole.map((byte, at) => at === whole.length - 40 ? byte ^ 1 : byte))
      assert.strictEqual((yield* Effect.flip(withImage(readAll(place()))))._tag, "CacheDamaged")
      assert.deepStrictEqual(readdirSync(folder), [])
      writeFileSync(path.join(folder, name.replace(".zst", ".image")), "left")
      yield* withImage(Effect.void)
      assert.deepStrictEqual(readdirSync(folder), [])
    })
)

for (const trouble of SmallDisk.isPossible ? SmallDisk.TROUBLES : []) {
  it.live(`a disk that is ${trouble} keeps nothing, says so in words, and still lets existing caches be read`, () =>
    Effect.scoped(Effect.gen(function*() {
      const disk = yield* SmallDisk.make(8)
      yield* use(
        disk.path,
        Effect.gen(function*() {
          yield* fill(place("there"), Stream.make(bytes))
          disk.spoil(trouble)
          const error = yield* Effect.flip(fill(place(), Stream.make(noise(LARGEST_BYTES))))
          assert.strictEqual(error.reason, "unavailable")
          assert.match(error.detail, trouble === "read-only" ? /read-only/u : /no space left/u)
          assert.deepStrictEqual(yield* readAll(place("there")), bytes)
          assert.lengthOf(readdirSync(disk.path).filter((name) => name !== "ballast"), 1)
          disk.mend()
          yield* fill(place(), Stream.make(bytes))
          assert.deepStrictEqual(yield* readAll(place()), bytes)
        })
      )
    })))
}
