import { assert, it } from "@effect/vitest"
import { CacheDamaged, CacheNotKept, SetupCaches } from "@slipway/domain/environment/ports/SetupCaches"
import { type CachePath, parse } from "@slipway/domain/environment/rules/CachePath"
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import * as SetupCachesMemory from "@slipway/domain/memory/environment/SetupCachesMemory"
import { type Box, type KeptFolders, SandboxHost } from "@slipway/domain/sandbox/ports/SandboxHost"
import { workspacesIn } from "@slipway/machine/files/TreesLayout"
import * as SandboxHostNone from "@slipway/machine/none/SandboxHostNone"
import * as SetupCachesFolder from "@slipway/machine/setup-caches/SetupCachesFolder"
import * as SmallDisk from "@slipway/machine/testing/SmallDisk"
import { Deferred, Duration, Effect, Exit, Fiber, Layer, Result, Scope, Stream } from "effect"
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import path from "node:path"
import * as CachedSetup from "../../src/setup/CachedSetup.ts"
import { removeFromHome } from "../../src/setup/CacheFiles.ts"

const temporary = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(path.join(tmpdir(), "slipway-set-up-"))),
  (folder) => Effect.sync(() => rmSync(folder, { recursive: true, force: true }))
)
const host = Layer.unwrap(Effect.map(temporary, (directory) => SandboxHostNone.layer({ directory, workspaceOf: workspacesIn(directory) })))
const place = { grantId: "grant", repo: "acme/shop", key: "key" }
const node_modules = Result.getOrThrow(parse("node_modules"))

/** A sandbox with a tree of its own, whose setup makes `node_modules` and counts that it ran. */
const newSandbox = (id: string, runs: Array<string>) =>
  Effect.gen(function*() {
    const boxes = yield* SandboxHost
    const sandboxId = SandboxId.make(id)
    const box = yield* Effect.acquireRelease(boxes.provision({ sandboxId, fence: 1 }), () => Effect.orDie(boxes.stop(sandboxId)))
    const tree = path.join(box.workspace, "shop")
    mkdirSync(tree)
    const file = path.join(tree, "node_modules", "installed")
    const setup = (result = "good") =>
      Effect.sync(() => {
        runs.push(id)
        mkdirSync(path.dirname(file), { recursive: true })
        writeFileSync(file, `by ${id}`)
        return result
      })
    const run = (
      result?: string,
      { left = Effect.succeed(Duration.minutes(1)), mayFill = true, overlay, paths = [node_modules], ending = Effect.void }: {
        readonly left?: Effect.Effect<Duration.Duration>
        readonly mayFill?: boolean
        readonly overlay?: Box["overlay"]
        readonly paths?: ReadonlyArray<CachePath>
        readonly ending?: Effect.Effect<void>
      } = {}
    ) =>
      CachedSetup.run(
        {
          folders: { box: overlay === undefined ? box : { ...box, overlay }, tree, paths },
          place,
          mayFill,
          patience: "1 minute",
          clear: Effect.void,
          left
        },
        Effect.tap(setup(result), ending),
        (result) => result === "good"
      )
    return { box, run, file, tree, home: box.home }
  })

const [one, two, three] = ["c_bbbbbbbbbbbb", "c_cccccccccccc", "c_dddddddddddd"]
const rule = (states: string, test: Effect.Effect<void, unknown, SandboxHost | SetupCaches | Scope.Scope>) =>
  it.live(states, () => Effect.provide(Effect.scoped(test), Layer.merge(host, SetupCachesMemory.layer())))

rule(
  "setup runs once: the next sandbox has what it filled",
  Effect.gen(function*() {
    const runs: Array<string> = []
    const [first, second] = [yield* newSandbox(one, runs), yield* newSandbox(two, runs)]
    assert.deepStrictEqual(yield* first.run(), { cache: "miss", result: "good" })
    assert.deepStrictEqual(yield* second.run(), { cache: "hit" })
    assert.deepStrictEqual(runs, [one])
    assert.strictEqual(readFileSync(second.file, "utf8"), `by ${one}`)
  })
)

rule(
  "setup runs once for twenty sandboxes that come at once",
  Effect.gen(function*() {
    const runs: Array<string> = []
    const ids = Array.from("bcdefghjkmnpqrstvwxy", (letter) => `c_${letter.repeat(12)}`)
    const sandboxes = yield* Effect.forEach(ids, (id) => newSandbox(id, runs))
    const done = yield* Effect.forEach(sandboxes, ({ run }) => run(), { concurrency: "unbounded" })
    assert.strictEqual(runs.length, 1)
    assert.deepStrictEqual(done.filter(({ cache }) => cache === "hit").length, 19)
    for (const { file } of sandboxes) assert.strictEqual(readFileSync(file, "utf8"), `by ${runs[0]}`)
  })
)

rule(
  "what a setup left that failed is not kept",
  Effect.gen(function*() {
    const runs: Array<string> = []
    const [first, second] = [yield* newSandbox(one, runs), yield* newSandbox(two, runs)]
    assert.deepStrictEqual(yield* first.run("bad"), { cache: "miss", result: "bad" })
    assert.deepStrictEqual(yield* second.run(), { cache: "miss", result: "good" })
    assert.deepStrictEqual(runs, [one, two])
  })
)

rule(
  "without folders, and where this machine keeps none, setup runs",
  Effect.gen(function*() {
    const runs: Array<string> = []
    const first = yield* newSandbox(one, runs)
    assert.deepStrictEqual(yield* first.run("good", { paths: [] }), { cache: "none", result: "good" })
    assert.strictEqual(runs.length, 1)
  })
)

rule(
  "where the folders are there already, setup runs, and what they have stays",
  Effect.gen(function*() {
    const runs: Array<string> = []
    const [first, second] = [yield* newSandbox(one, runs), yield* newSandbox(two, runs)]
    yield* first.run()
    mkdirSync(path.dirname(second.file))
    writeFileSync(path.join(path.dirname(second.file), "tracked"), "ours")
    assert.deepStrictEqual(yield* second.run(), { cache: "none", result: "good" })
    assert.deepStrictEqual(runs, [one, two])
    assert.strictEqual(readFileSync(path.join(path.dirname(second.file), "tracked"), "utf8"), "ours")
  })
)

rule(
  "a cache that breaks while it is read leaves nothing, and setup fills it again",
  Effect.gen(function*() {
    const runs: Array<string> = []
    const { file, run } = yield* newSandbox(one, runs)
    const real = yield* SetupCaches
    let isBroken = true
    let wasThere = true
    const broken = SetupCaches.of({
      ...real,
      find: (at, patience) =>
        Effect.suspend(() => {
          if (!isBroken) {
            wasThere = existsSync(path.dirname(file))
            return real.find(at, patience)
          }
          isBroken = false
          const header = new TextEncoder().encode(`{"format":1,"paths":["node_modules"]}\n`)
          const bytes = Stream.concat(Stream.make(header), Stream.fail(new CacheDamaged()))
          return Effect.succeed({ _tag: "Hit" as const, bytes, image: null })
        })
    })
    assert.deepStrictEqual(yield* Effect.provideService(run(), SetupCaches, broken), { cache: "miss", result: "good" })
    assert.isFalse(wasThere)
  })
)

/** A cache with an image; only the image may be read. */
const withImage = (read: Array<string>) =>
  Effect.map(SetupCaches, (real) =>
    SetupCaches.of({
      ...real,
      find: (at, patience) =>
        Effect.map(real.find(at, patience), (found) =>
          found._tag === "Miss" ? found : {
            ...found,
            image: "/kept.image",
            bytes: Stream.onStart(found.bytes, Effect.sync(() => void read.push("bytes")))
          })
    }))

rule(
  "a box that can show an image is asked to, with the folders that are wanted, and nothing is unpacked",
  Effect.gen(function*() {
    const [runs, read, asked]: [Array<string>, Array<string>, Array<KeptFolders>] = [[], [], []]
    const home = Result.getOrThrow(parse("~/.cache/tool/deep"))
    const paths = [node_modules, home]
    const [first, second] = [yield* newSandbox(one, runs), yield* newSandbox(two, runs)]
    const overlay: Box["overlay"] = (wanted) =>
      Effect.sync(() => {
        asked.push(wanted)
        assert.isTrue(existsSync(path.join(second.home, home.path)))
        assert.isFalse(existsSync(path.dirname(second.file)))
        return null
      })
    assert.deepStrictEqual(yield* first.run("good", { paths }), { cache: "miss", result: "good" })
    const caches = yield* withImage(read)
    assert.deepStrictEqual(yield* Effect.provideService(second.run("good", { paths, overlay }), SetupCaches, caches), { cache: "hit" })
    assert.deepStrictEqual(asked, [{ image: "/kept.image", tree: second.tree, paths }])
    assert.deepStrictEqual([runs, read], [[one], []])
    // A file in the way is never hidden: setup runs.
    asked.length = 0
    mkdirSync(path.dirname(second.file), { recursive: true })
    const again = yield* Effect.provideService(second.run("good", { paths, overlay }), SetupCaches, caches)
    assert.deepStrictEqual([again, asked], [{ cache: "none", result: "good" }, []])
  })
)

rule(
  "where an image cannot be shown, the folders are unpacked all the same",
  Effect.gen(function*() {
    const [runs, read]: [Array<string>, Array<string>] = [[], []]
    const home = Result.getOrThrow(parse("~/.cache/tool/deep"))
    const paths = [node_modules, home]
    const [first, second] = [yield* newSandbox(one, runs), yield* newSandbox(two, runs)]
    yield* first.run("good", { paths })
    const overlay: Box["overlay"] = () => Effect.succeed("the kernel has no overlays")
    const done = Effect.provideService(second.run("good", { paths, overlay }), SetupCaches, yield* withImage(read))
    assert.deepStrictEqual([yield* done, runs, read], [{ cache: "hit" }, [one], ["bytes"]])
    assert.strictEqual(readFileSync(second.file, "utf8"), `by ${one}`)
    assert.isFalse(existsSync(path.join(second.home, home.path)))
  })
)

rule(
  "what cannot be kept costs nothing but the cache",
  Effect.gen(function*() {
    const { run } = yield* newSandbox(one, [])
    const full = SetupCaches.of({
      find: () =>
        Effect.succeed({
          _tag: "Miss" as const,
          fill: () => Effect.fail(new CacheNotKept({ reason: "unavailable", detail: "The disk is full." }))
        }),
      makeRoom: Effect.void
    })
    assert.deepStrictEqual(yield* Effect.provideService(run(), SetupCaches, full), { cache: "miss", result: "good" })
  })
)

rule(
  "a sandbox that may not fill uses the cache, keeps nothing, and neither waits nor makes others wait",
  Effect.gen(function*() {
    const runs: Array<string> = []
    const [first, second, third] = [yield* newSandbox(one, runs), yield* newSandbox(two, runs), yield* newSandbox(three, runs)]
    const caches = yield* SetupCaches
    // Somebody fills it, and does not come to an end.
    const filling = yield* Scope.make()
    yield* Scope.provide(caches.find(place, "1 minute"), filling)
    assert.deepStrictEqual(yield* first.run("good", { mayFill: false }), { cache: "miss", result: "good" })
    yield* Scope.close(filling, Exit.interrupt())
    const slow = yield* Effect.forkChild(second.run("good", { mayFill: false, ending: Effect.never }))
    yield* Effect.sync(() => runs.at(-1)).pipe(Effect.repeat({ while: (last) => last !== two }))
    assert.deepStrictEqual(yield* third.run(), { cache: "miss", result: "good" })
    yield* Fiber.interrupt(slow)
    rmSync(path.dirname(first.file), { recursive: true })
    assert.deepStrictEqual(yield* first.run("good", { mayFill: false }), { cache: "hit" })
    assert.deepStrictEqual(runs, [one, two, three])
  })
)

rule(
  "what takes longer to pack than is left is not kept",
  Effect.gen(function*() {
    const { run } = yield* newSandbox(one, [])
    let isCut = false
    const slow = SetupCaches.of({
      find: () =>
        Effect.succeed({
          _tag: "Miss" as const,
          fill: () => Effect.onInterrupt(Effect.never, () => Effect.sync(() => void (isCut = true)))
        }),
      makeRoom: Effect.void
    })
    const left = Effect.succeed(Duration.millis(1))
    assert.deepStrictEqual(yield* Effect.provideService(run("good", { left }), SetupCaches, slow), { cache: "miss", result: "good" })
    assert.isTrue(isCut)
  })
)

rule(
  "a sandbox that ends while it packs leaves nothing, and the next waiting sandbox fills",
  Effect.gen(function*() {
    const runs: Array<string> = []
    const [first, second, third] = [yield* newSandbox(one, runs), yield* newSandbox(two, runs), yield* newSandbox(three, runs)]
    const real = yield* SetupCaches
    const packing = yield* Deferred.make<void>()
    const stuck = SetupCaches.of({
      ...real,
      find: (at, patience) =>
        Effect.map(real.find(at, patience), (found) =>
          found._tag === "Hit" ? found : {
            _tag: "Miss" as const,
            fill: (bytes) =>
              found.fill(Stream.concat(bytes, Stream.fromEffectDrain(Effect.andThen(Deferred.succeed(packing, undefined), Effect.never))))
          })
    })
    const killed = yield* Effect.forkChild(Effect.provideService(first.run(), SetupCaches, stuck))
    yield* Deferred.await(packing)
    const waiting = yield* Effect.forkChild(second.run())
    yield* Fiber.interrupt(killed)
    assert.deepStrictEqual(yield* Fiber.join(waiting), { cache: "miss", result: "good" })
    assert.deepStrictEqual(yield* third.run(), { cache: "hit" })
    assert.deepStrictEqual(runs, [one, two])
    assert.strictEqual(readFileSync(third.file, "utf8"), `by ${two}`)
  })
)

/** With caches in a folder, as the service keeps them. */
const inFolder = <A, E, R>(directory: string, self: Effect.Effect<A, E, R | SetupCaches>) =>
  Effect.provide(self, Layer.fresh(SetupCachesFolder.layer({ directory, maximumBytes: 2 ** 26 })))

rule(
  "a cache that somebody changed on the disk is not brought back: setup runs, and fills it again",
  Effect.gen(function*() {
    const runs: Array<string> = []
    const [first, second, third] = [yield* newSandbox(one, runs), yield* newSandbox(two, runs), yield* newSandbox(three, runs)]
    const directory = yield* temporary
    yield* inFolder(directory, first.run())
    const [name = ""] = readdirSync(directory)
    const content = readFileSync(path.join(directory, name))
    content[20] = (content[20] ?? 0) ^ 1
    writeFileSync(path.join(directory, name), content)
    assert.deepStrictEqual(yield* inFolder(directory, second.run()), { cache: "miss", result: "good" })
    assert.deepStrictEqual(yield* inFolder(directory, third.run()), { cache: "hit" })
    assert.deepStrictEqual(runs, [one, two])
  })
)

rule(
  "what a worker had begun to fill when it was killed is no cache: the next one fills it",
  Effect.gen(function*() {
    const runs: Array<string> = []
    const [first, second, third] = [yield* newSandbox(one, runs), yield* newSandbox(two, runs), yield* newSandbox(three, runs)]
    const directory = yield* temporary
    yield* inFolder(directory, first.run())
    const [name = ""] = readdirSync(directory)
    renameSync(path.join(directory, name), path.join(directory, `${name}.0192f5a0.partial`))
    assert.deepStrictEqual(yield* inFolder(directory, second.run()), { cache: "miss", result: "good" })
    assert.deepStrictEqual(yield* inFolder(directory, third.run()), { cache: "hit" })
    assert.lengthOf(readdirSync(directory), 1)
    assert.deepStrictEqual(runs, [one, two])
  })
)

for (const trouble of SmallDisk.isPossible ? SmallDisk.TROUBLES : []) {
  rule(
    `on a disk that is ${trouble} nothing is kept, and the sandbox has what setup filled; once it is mended the next one fills`,
    Effect.gen(function*() {
      const runs: Array<string> = []
      const [first, second, third] = [yield* newSandbox(one, runs), yield* newSandbox(two, runs), yield* newSandbox(three, runs)]
      const disk = yield* SmallDisk.make(8)
      disk.spoil(trouble)
      assert.deepStrictEqual(yield* inFolder(disk.path, first.run()), { cache: "miss", result: "good" })
      assert.isTrue(existsSync(first.file))
      disk.mend()
      assert.deepStrictEqual(yield* inFolder(disk.path, second.run()), { cache: "miss", result: "good" })
      assert.deepStrictEqual(yield* inFolder(disk.path, third.run()), { cache: "hit" })
    })
  )
}

rule(
  "folders of the home that an earlier run left give way to the cache's, but those of another repository, and what a link leads to, stay",
  Effect.gen(function*() {
    const { box } = yield* newSandbox(one, [])
    const inHome = ["~/.tool", "~/.cache/a b", "~/.shared", "~/-rf", "~/link/in"]
    const { home } = box
    for (const name of [".tool", ".cache/a b", ".cache/other", ".shared/x", "-rf", "elsewhere/in"]) {
      mkdirSync(path.join(home, name), { recursive: true })
      writeFileSync(path.join(home, name, "f"), "")
    }
    symlinkSync(path.join(home, "elsewhere"), path.join(home, "link"))
    const paths = [...inHome, "elsewhere"].map((text) => Result.getOrThrow(parse(text)))
    yield* removeFromHome(box, paths, [Result.getOrThrow(parse("~/.shared/x"))])
    const left = readdirSync(home, { recursive: true }).map(String).filter((name) => name.endsWith("/f"))
    assert.sameMembers(left, [".cache/other/f", ".shared/x/f", "elsewhere/in/f", "link/in/f"])
  })
)
