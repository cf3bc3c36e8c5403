/** Files of prompts in real boxes: processes of this machine. */
import { assert, it } from "@effect/vitest"
import { Blobs } from "@slipway/domain/files/ports/Blobs"
import { Ids } from "@slipway/domain/ids/Ids"
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import * as BlobsMemory from "@slipway/domain/memory/files/BlobsMemory"
import * as IdsMemory from "@slipway/domain/memory/ids/IdsMemory"
import * as PromptFilesMemory from "@slipway/domain/memory/sandbox/PromptFilesMemory"
import { PromptFiles } from "@slipway/domain/sandbox/ports/PromptFiles"
import { type Box, SandboxHost } from "@slipway/domain/sandbox/ports/SandboxHost"
import type { AttachedFile } from "@slipway/domain/sandbox/schema/PromptFile"
import * as SandboxHostNone from "@slipway/machine/none/SandboxHostNone"
import { DateTime, Effect, Fiber, Layer, Stream } from "effect"
import { TestClock } from "effect/testing"
import { createHash } from "node:crypto"
import {
  chmodSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync
} from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import type { LeasedSandbox } from "../../src/shared/LeasedSandbox.ts"
import * as BoxFiles from "../../src/turn/BoxFiles.ts"

const GRANT = "grant-1"
const ID = SandboxId.make("c_aaaaaaaaaaaa")
const at = DateTime.makeUnsafe("2026-11-30T06:00:00Z")

const folder = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "slipway-files-"))),
  (path) => Effect.sync(() => rmSync(path, { recursive: true, force: true }))
)

const services = Layer.unwrap(Effect.map(folder, (path) => {
  const workspaceOf = () => join(path, "trees")
  mkdirSync(workspaceOf())
  return Layer.mergeAll(
    SandboxHostNone.layer({ directory: join(path, "boxes"), workspaceOf }),
    BlobsMemory.layer,
    IdsMemory.layer,
    Layer.sync(PromptFiles, () => PromptFilesMemory.make({ rows: new Map(), deleted: new Map() }))
  )
}))

/** A file that the sandbox uses. */
const added = Effect.fnUntraced(function*(name: string, content: string | Uint8Array, mediaType = "text/plain") {
  const [files, blobs, ids] = [yield* PromptFiles, yield* Blobs, yield* Ids]
  const bytes = typeof content === "string" ? new TextEncoder().encode(content) : content
  const id = `file_${yield* ids.random("abcdefgh", 12)}`
  const sha256 = createHash("sha256").update(bytes).digest("hex")
  const file = { id, grantId: GRANT, name, mediaType, size: bytes.length, sha256, createdAt: at }
  yield* files.begin(file)
  yield* blobs.put({ grantId: GRANT, holder: id, sha256, size: bytes.length }, Stream.make(bytes))
  yield* files.complete(file)
  yield* files.use({ grantId: GRANT, id: ID }, [id], at)
  return { id, name, mediaType, size: bytes.length } satisfies AttachedFile
})

/** As far as the files need it. */
const leased = (files?: ReadonlyArray<AttachedFile>) =>
  ({ id: ID, view: Effect.succeed({ sandbox: { grantId: GRANT, origin: null, files } }) }) as unknown as LeasedSandbox

const provision = SandboxHost.use((host) => host.provision({ sandboxId: ID, fence: 1 }))

it.live("puts the files of a message into the box, read-only, and names them in the prompt", () =>
  Effect.gen(function*() {
    const box = yield* provision
    const [one, two] = [yield* added("a b.txt", "one"), yield* added("a b.txt", "second")]
    const { images, text } = yield* BoxFiles.give(leased(), box, "Look.", [two])
    assert.strictEqual(text, `Look.\n\nFiles of this message, read-only:\n- ${box.home}/files/a b-2.txt (text/plain, 6 bytes)`)
    assert.deepStrictEqual(images, [])
    assert.deepStrictEqual(readdirSync(`${box.home}/files`).toSorted(), ["a b-2.txt", "a b.txt"])
    assert.strictEqual(readFileSync(`${box.home}/files/a b-2.txt`, "utf8"), "second")
    assert.strictEqual(statSync(`${box.home}/files/a b.txt`).mode & 0o777, 0o444)
    assert.include((yield* BoxFiles.give(leased(), box, "", [one])).text, "/files/a b.txt (")
    assert.deepStrictEqual(yield* BoxFiles.give(leased(), box, "Go on."), { text: "Go on.", images: [] })
  }).pipe(Effect.provide(services), Effect.scoped))

it.live("gives images of at most 5 MiB to the model, and 10 MiB together; others are files only", () =>
  Effect.gen(function*() {
    const box = yield* provision
    const MEBIBYTE = 1024 * 1024
    const image = (name: string, size: number, type = "image/png") => added(name, new Uint8Array(size).fill(7), type)
    const files = [
      yield* image("a.png", 3),
      yield* image("large.png", 5 * MEBIBYTE + 1),
      yield* image("b.jpg", 5 * MEBIBYTE, "image/jpeg"),
      yield* image("c.svg", 3, "image/svg+xml"),
      yield* image("d.gif", 5 * MEBIBYTE, "image/gif"),
      yield* image("e.webp", 4, "image/webp")
    ]
    const { images, text } = yield* BoxFiles.give(leased(), box, "Look.", files)
    assert.deepStrictEqual(images.map(({ data, mediaType, path }) => [mediaType, data.length, path]), [
      ["image/png", 3, `${box.home}/files/a.png`],
      ["image/jpeg", 5 * MEBIBYTE, `${box.home}/files/b.jpg`],
      ["image/webp", 4, `${box.home}/files/e.webp`]
    ])
    for (const { name } of files) assert.include(text, `/files/${name} (`)
  }).pipe(Effect.provide(services), Effect.scoped))

it.live("puts all files into the box of an agent that starts, and replaces those that were changed", () =>
  Effect.gen(function*() {
    const box = yield* provision
    const files = [yield* added("a.txt", "one"), yield* added("b.txt", "two"), yield* added("c.txt", "three")]
    yield* BoxFiles.placeAll(leased(files), box)
    const path = (name: string) => `${box.home}/files/${name}`
    chmodSync(path("a.txt"), 0o644)
    writeFileSync(path("a.txt"), "longer than it was")
    rmSync(path("b.txt"))
    rmSync(path("c.txt"))
    writeFileSync(`${box.home}/secret`, "three")
    symlinkSync(`${box.home}/secret`, path("c.txt"))
    yield* BoxFiles.placeAll(leased(files), box)
    assert.deepStrictEqual(["a.txt", "b.txt", "c.txt"].map((name) => readFileSync(path(name), "utf8")), ["one", "two", "three"])
    assert.isFalse(lstatSync(path("c.txt")).isSymbolicLink())
    assert.strictEqual(readFileSync(`${box.home}/secret`, "utf8"), "three")
  }).pipe(Effect.provide(services), Effect.scoped))

it.live("says which file could not be put into the box, and starts an agent without it", () =>
  Effect.gen(function*() {
    const box = yield* provision
    const file = yield* added("a.txt", "one")
    const gone = { ...file, id: "file_zzzzzzzzzzzz", name: "gone.txt" }
    const lost = yield* Effect.flip(BoxFiles.give(leased(), box, "Look.", [gone]))
    assert.strictEqual(lost.message, "The file gone.txt could not be put into the sandbox: it was deleted.")
    rmSync(`${box.home}/files`, { recursive: true })
    writeFileSync(`${box.home}/files`, "in the way")
    const refused = yield* Effect.flip(BoxFiles.give(leased(), box, "Look.", [file]))
    assert.match(refused.message, /^The file a\.txt could not be put into the sandbox: /u)
    yield* BoxFiles.placeAll(leased([file]), box)
  }).pipe(Effect.provide(services), Effect.scoped))

it.live("puts a file in the place of a folder, and one file though another cannot be put there", () =>
  Effect.gen(function*() {
    const box = yield* provision
    const [lost, file] = [yield* added("lost.txt", "two"), yield* added("a.txt", "one")]
    yield* (yield* Blobs).remove({ grantId: GRANT, holder: lost.id, sha256: createHash("sha256").update("two").digest("hex"), size: 3 })
    mkdirSync(`${box.home}/files/a.txt/inner`, { recursive: true })
    assert.include((yield* BoxFiles.give(leased(), box, "Look.", [file])).text, "/files/a.txt (")
    assert.strictEqual(readFileSync(`${box.home}/files/a.txt`, "utf8"), "one")
    assert.match((yield* Effect.flip(BoxFiles.give(leased(), box, "Look.", [lost]))).message, /^The file lost\.txt /u)
    assert.deepStrictEqual(readdirSync(`${box.home}/files`), ["a.txt"])
  }).pipe(Effect.provide(services), Effect.scoped))

it.effect("gives up a box that says nothing: the turn is told why, and an agent starts", () =>
  Effect.gen(function*() {
    const silent: Box = {
      sandboxId: ID,
      workspace: "/workspace",
      home: "/home",
      spawn: () =>
        Effect.succeed({
          pid: 1,
          write: () => Effect.void,
          endInput: Effect.void,
          stdout: Stream.never,
          stderrTail: Effect.succeed(""),
          exited: Effect.never
        })
    }
    const file = yield* added("a.txt", "one")
    const turn = yield* Effect.forkChild(Effect.flip(BoxFiles.give(leased(), silent, "Look.", [file])))
    const start = yield* Effect.forkChild(BoxFiles.placeAll(leased([file]), silent))
    // The look and the writing have this time each.
    yield* TestClock.adjust("2 minutes")
    yield* TestClock.adjust("2 minutes")
    assert.strictEqual((yield* Fiber.join(turn)).message, "The file a.txt could not be put into the sandbox: it took too long.")
    yield* Fiber.join(start)
  }).pipe(Effect.provide(services), Effect.scoped))
