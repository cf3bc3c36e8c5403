import { assert, it } from "@effect/vitest"
import { SetupCaches } from "@slipway/domain/environment/ports/SetupCaches"
import { WorkingTrees } from "@slipway/domain/files/ports/WorkingTrees"
import * as Stores from "@slipway/domain/memory/Stores"
import { ThisMachine } from "@slipway/domain/sandbox/ports/Leases"
import { SandboxHost } from "@slipway/domain/sandbox/ports/SandboxHost"
import { Context, Effect, Layer } from "effect"
import { mkdtemp, readdir, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import path from "node:path"
import * as LocalMachine from "../../src/machine/LocalMachine.ts"

const emptyFolder = Effect.acquireRelease(
  Effect.promise(() => mkdtemp(path.join(tmpdir(), "slipway-local-machine-"))),
  (made) => Effect.promise(() => rm(made, { recursive: true, force: true }))
)
const machineIn = (folder: string) => Layer.build(LocalMachine.layer({ folder, isolation: "none" }).pipe(Layer.provide(Stores.layer())))
const idIn = (folder: string) => Effect.scoped(Effect.map(machineIn(folder), (context) => Context.get(context, ThisMachine).id))

it.live("has boxes, trees, caches and its id in one folder", () =>
  Effect.gen(function*() {
    const folder = yield* emptyFolder
    const context = yield* machineIn(folder)
    assert.strictEqual(Context.get(context, SandboxHost).isolation, "none")
    assert.deepStrictEqual(yield* Context.get(context, WorkingTrees).sandboxes, [])
    yield* Context.get(context, SetupCaches).makeRoom
    const names = yield* Effect.promise(() => readdir(folder))
    assert.includeMembers(["boxes", "caches", "machine", "trees"], names)
  }))

it.live("is the same machine after a restart, and another one in another folder", () =>
  Effect.gen(function*() {
    const [folder, other] = [yield* emptyFolder, yield* emptyFolder]
    const id = yield* idIn(folder)
    assert.strictEqual(yield* idIn(folder), id)
    assert.notStrictEqual(yield* idIn(other), id)
  }))

it.live.skipIf(process.platform !== "linux")("refuses its folder to a second worker (needs Linux)", () =>
  Effect.gen(function*() {
    const folder = yield* emptyFolder
    yield* machineIn(folder)
    const error = yield* Effect.flip(idIn(folder))
    assert.strictEqual(error._tag, "DataFolderInUse")
    assert.include(error.message, folder)
  }))
