/** The files that agents leave for people are stored when a turn has ended. */
import { assert } from "@effect/vitest"
import { ArtifactStore } from "@slipway/domain/files/ports/ArtifactStore"
import { type BlobKey, Blobs } from "@slipway/domain/files/ports/Blobs"
import { MAX_ARTIFACTS } from "@slipway/domain/files/rules/Artifact"
import * as BlobsMemory from "@slipway/domain/memory/files/BlobsMemory"
import { Leases } from "@slipway/domain/sandbox/ports/Leases"
import { type FilePart, HomeTooLarge, HostError } from "@slipway/domain/sandbox/ports/SandboxHost"
import * as Checkpoint from "@slipway/worker/checkpoint/Checkpoint"
import * as LeasedSandbox from "@slipway/worker/shared/LeasedSandbox"
import { Deferred, Effect, Fiber, Layer, Stream } from "effect"
import { createHash } from "node:crypto"
import { create, eventsOf, message, pass, running, scenario, startWorker, stealLease, until, type World } from "../Doubles.ts"

const MEBIBYTE = 2 ** 20

const file = (name: string, ...chunks: ReadonlyArray<Uint8Array | string>): ReadonlyArray<FilePart> => [
  { path: `artifacts/${name}` },
  ...chunks.map((chunk) => ({ bytes: Buffer.from(chunk) }))
]
const files = (...all: ReadonlyArray<ReadonlyArray<FilePart>>) => Stream.fromIterable(all.flat())

/** The blobs that were put. */
const puts: Array<BlobKey> = []
const blobs = Layer.effect(
  Blobs,
  Effect.map(Blobs, (all) => {
    puts.length = 0
    return Blobs.of({ ...all, put: (key, content) => Effect.tap(all.put(key, content), () => Effect.sync(() => void puts.push(key))) })
  })
).pipe(Layer.provide(BlobsMemory.layer))

/** A leased sandbox whose first turn has ended, without a worker. */
const ended = Effect.fnUntraced(function*(world: World) {
  yield* create()
  const [given] = yield* Leases.use((leases) => leases.take({ worker: "worker", machine: "machine" }, { slots: 1, boots: 1, errands: 1 }))
  const leased = yield* LeasedSandbox.make(given ?? assert.fail("nothing to lease"))
  world.trees.add(leased.id)
  yield* leased.write([{ _tag: "StartBoot" }, { _tag: "FinishBoot", turnId: "turn-1" }])
  yield* leased.write([{ _tag: "StartTurn", turnId: "turn-1" }, { _tag: "EndTurn", turnId: "turn-1", state: "succeeded" }])
  return leased
})

/** Another turn of the sandbox, which ends at once. */
const another = Effect.fnUntraced(function*(leased: LeasedSandbox.LeasedSandbox) {
  yield* leased.write([{ _tag: "RecordCheckpoint", data: { error: "not taken by this test" } }])
  const { turnId } = yield* Effect.orDie(message(leased.id, "Go on"))
  return yield* leased.write([{ _tag: "StartTurn", turnId }, { _tag: "EndTurn", turnId, state: "succeeded" }])
})

const stored = ({ id }: Pick<LeasedSandbox.LeasedSandbox, "id">) => ArtifactStore.use((store) => store.find(id))
const namesOf = (leased: LeasedSandbox.LeasedSandbox) => Effect.map(stored(leased), ({ artifacts }) => artifacts.map(({ name }) => name))

/** Stores what the folder has now, and returns the names of the artifacts after it. */
const collect = (world: World, leased: LeasedSandbox.LeasedSandbox, ...all: ReadonlyArray<ReadonlyArray<FilePart>>) =>
  Effect.suspend(() => {
    world.artifacts = () => files(...all)
    return Effect.andThen(Checkpoint.collectArtifacts(leased), namesOf(leased))
  })

scenario("files are stored with the turn that left them, and their bytes can be read", (world) =>
  Effect.gen(function*() {
    const leased = yield* ended(world)
    const content = Buffer.from("\x89PNG\r\n\x1a\npicture", "latin1")
    yield* collect(world, leased, file("shots/a.png", content.subarray(0, 3), content.subarray(3)), file("empty"))
    const { artifacts, leftOut } = yield* stored(leased)
    assert.isNull(leftOut)
    const [empty, picture] = artifacts
    assert.deepInclude(empty, { name: "empty", size: 0, mediaType: "text/plain", pieces: [] })
    assert.deepInclude(picture, {
      name: "shots/a.png",
      size: content.length,
      mediaType: "image/png",
      sha256: createHash("sha256").update(content).digest("hex"),
      turnId: "turn-1"
    })
    const { sandbox: { grantId } } = yield* leased.view
    const read = yield* Effect.forEach(picture?.pieces ?? [], (piece) =>
      Blobs.use((all) => Stream.runCollect(all.get({ grantId, ...piece }))))
    assert.deepStrictEqual(Buffer.concat(read.flat()), content)
  }).pipe(Effect.provide(blobs)))

scenario("an unchanged file is neither stored again nor of a later turn, and a changed one replaces it", (world) =>
  Effect.gen(function*() {
    const leased = yield* ended(world)
    yield* collect(world, leased, file("a", "one"), file("b", "two"))
    const before = yield* stored(leased)
    assert.lengthOf(puts, 2)
    yield* another(leased)
    yield* collect(world, leased, file("a", "one"), file("b", "changed"))
    const [a, b] = (yield* stored(leased)).artifacts
    assert.deepStrictEqual(a, before.artifacts[0])
    assert.notStrictEqual(b?.turnId, "turn-1")
    assert.strictEqual(b?.size, 7)
    assert.lengthOf(puts, 3)
  }).pipe(Effect.provide(blobs)))

scenario("of a large file that grew only the new pieces are stored", (world) =>
  Effect.gen(function*() {
    const leased = yield* ended(world)
    const first = Buffer.alloc(8 * MEBIBYTE, 1)
    yield* collect(world, leased, file("log", first, "end"))
    assert.deepStrictEqual(puts.map(({ size }) => size), [8 * MEBIBYTE, 3])
    yield* another(leased)
    yield* collect(world, leased, file("log", first, "ending"))
    assert.deepStrictEqual(puts.map(({ size }) => size), [8 * MEBIBYTE, 3, 6])
    assert.deepStrictEqual((yield* stored(leased)).artifacts[0]?.pieces.map(({ size }) => size), [8 * MEBIBYTE, 6])
  }).pipe(Effect.provide(blobs)))

scenario("artifacts whose files are gone stay, as on a machine that the sandbox moved to", (world) =>
  Effect.gen(function*() {
    const leased = yield* ended(world)
    yield* collect(world, leased, file("a", "one"))
    yield* another(leased)
    assert.deepStrictEqual(yield* collect(world, leased), ["a"])
    yield* another(leased)
    assert.deepStrictEqual(yield* collect(world, leased, file("b", "two")), ["a", "b"])
  }).pipe(Effect.provide(blobs)))

scenario("new files take the place of the oldest artifacts when there are too many", (world) =>
  Effect.gen(function*() {
    const leased = yield* ended(world)
    const many = Array.from({ length: MAX_ARTIFACTS }, (_, i) => file(`old-${String(i).padStart(2, "0")}`, String(i)))
    assert.lengthOf(yield* collect(world, leased, ...many), MAX_ARTIFACTS)
    yield* another(leased)
    const names = yield* collect(world, leased, file("new", "new"))
    assert.lengthOf(names, MAX_ARTIFACTS)
    assert.include(names, "new")
    assert.isNull((yield* stored(leased)).leftOut)
  }).pipe(Effect.provide(blobs)))

scenario("files beyond the limits are left out with a reason, the first ones are kept", (world) =>
  Effect.gen(function*() {
    const leased = yield* ended(world)
    const many = Array.from({ length: MAX_ARTIFACTS + 1 }, (_, i) => file(`f-${String(i).padStart(2, "0")}`, "x"))
    assert.deepStrictEqual(yield* collect(world, leased, ...many), many.slice(0, -1).map((_, i) => `f-${String(i).padStart(2, "0")}`))
    assert.match(
      (yield* stored(leased)).leftOut ?? "",
      /^Some files were not kept: a sandbox may have 50 artifacts with 200 MiB together\./u
    )
    yield* another(leased)
    const large = Array.from({ length: 201 }, () => Buffer.alloc(MEBIBYTE))
    assert.notInclude(yield* collect(world, leased, file("a", "x"), file("b", ...large), file("c", "x")), "b")
    yield* another(leased)
    yield* collect(world, leased, file("a", "x"))
    assert.isNull((yield* stored(leased)).leftOut)
    yield* another(leased)
    const tooLarge = Stream.fail(new HomeTooLarge({ maximumBytes: 1 }))
    world.artifacts = (path) =>
      path === "artifacts/z" ? files(file("z", "whole")) : Stream.concat(files(file("y", "y"), file("z", "who")), tooLarge)
    yield* Checkpoint.collectArtifacts(leased)
    const { artifacts, leftOut } = yield* stored(leased)
    assert.isNotNull(leftOut)
    assert.deepStrictEqual(artifacts.filter(({ name }) => name > "x").map(({ name, size }) => [name, size]), [["y", 1], ["z", 5]])
  }).pipe(Effect.provide(blobs)))

scenario("files with names that cannot be shown are left out, and counted", (world) =>
  Effect.gen(function*() {
    const leased = yield* ended(world)
    const bad = ["\u001b[31m", "a\nb", "a\\b", "\u202egnp", "\ufffd", "x".repeat(256), "ä".repeat(128)]
    const names = yield* collect(world, leased, ...bad.map((name) => file(name, "x")), file("good", "x"))
    assert.deepStrictEqual(names, ["good"])
    assert.match((yield* stored(leased)).leftOut ?? "", /^7 files were not kept because of the name/u)
    assert.lengthOf(puts, 1)
  }).pipe(Effect.provide(blobs)))

scenario("a home that cannot be read loses no artifact, fails nothing, and is told", (world) =>
  Effect.gen(function*() {
    const leased = yield* ended(world)
    yield* collect(world, leased, file("a", "one"))
    yield* another(leased)
    world.artifacts = () => Stream.fail(new HostError({ operation: "read", detail: "The disk is gone.", retryable: true }))
    yield* Checkpoint.collectArtifacts(leased)
    assert.deepStrictEqual(yield* namesOf(leased), ["a"])
    assert.include((yield* stored(leased)).leftOut, "The disk is gone.")
  }).pipe(Effect.provide(blobs)))

scenario("a collection gives way to a turn that waits for ten seconds", (world) =>
  Effect.gen(function*() {
    const leased = yield* ended(world)
    const isReading = yield* Deferred.make<void>()
    world.artifacts = () => Stream.fromEffect(Effect.andThen(Deferred.succeed(isReading, undefined), Effect.never))
    const collecting = yield* Effect.forkChild(Checkpoint.collectArtifacts(leased))
    yield* Deferred.await(isReading)
    yield* Effect.forkScoped(leased.follow)
    yield* Effect.orDie(message(leased.id, "Go on"))
    yield* pass("1 second")
    yield* pass("15 seconds")
    yield* Fiber.join(collecting)
    assert.include((yield* stored(leased)).leftOut, "gave way to a turn")
  }).pipe(Effect.scoped, Effect.provide(blobs)))

scenario("a worker whose lease is another's stores nothing", (world) =>
  Effect.gen(function*() {
    const leased = yield* ended(world)
    yield* stealLease(leased.id)
    const failed = yield* Effect.flip(collect(world, leased, file("a", "one")))
    assert.strictEqual(failed._tag, "StaleLease")
    assert.deepStrictEqual(yield* namesOf(leased), [])
  }).pipe(Effect.provide(blobs)))

scenario("a worker stores them before it records the checkpoint of the turn", (world) =>
  Effect.gen(function*() {
    world.artifacts = () => files(file("report.md", "# Done\n"))
    yield* startWorker(world)
    const { agent, id } = yield* running(world)
    assert.deepStrictEqual((yield* stored({ id })).artifacts, [])
    yield* agent.end({ state: "succeeded" })
    yield* until(id, ({ checkpoint }) => checkpoint === 1)
    const { turn } = yield* until(id, () => true)
    const [report] = (yield* stored({ id })).artifacts
    assert.deepInclude(report, { name: "report.md", mediaType: "text/plain", turnId: turn?.id ?? null })
    assert.lengthOf(yield* eventsOf(id, "sandbox.checkpoint"), 1)
  }).pipe(Effect.provide(blobs)))
