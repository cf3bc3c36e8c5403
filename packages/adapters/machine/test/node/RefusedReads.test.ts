/** Deletions, and processes counted as ended, where the system refuses to read: existing things are never affected. */
import { assert, describe, it } from "@effect/vitest"
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { SandboxHost } from "@slipway/domain/sandbox/ports/SandboxHost"
import { fill, KEPT_BYTES, noise, place, readAll } from "@slipway/testing/contracts/environment/SetupCachesContract"
import { Context, Effect, Exit, Layer, type Scope, Stream } from "effect"
import { spawn } from "node:child_process"
import { once } from "node:events"
import { existsSync, mkdirSync, readdirSync, writeFileSync } from "node:fs"
import path from "node:path"
import * as Repositories from "../../src/files/Repositories.ts"
import { ofUser } from "../../src/kernel/ProcessesOfUser.ts"
import * as ProcessTable from "../../src/node/ProcessTable.ts"
import { removeTree } from "../../src/node/RemoveTree.ts"
import { direct } from "../../src/node/spawner/Spawn.ts"
import * as SandboxHostNone from "../../src/none/SandboxHostNone.ts"
import * as Overlays from "../../src/overlay/Overlays.ts"
import * as SetupCachesFolder from "../../src/setup-caches/SetupCachesFolder.ts"
import * as Uids from "../../src/users/Uids.ts"
import * as RefusedReads from "../../testing/RefusedReads.ts"

const sandboxId = SandboxId.make("c_aaaaaaaaaaaa")

const live = (states: string, test: (folder: string) => Effect.Effect<void, unknown, Scope.Scope>) =>
  it.live(states, () => Effect.scoped(Effect.flatMap(RefusedReads.temporary, test)))

describe("where the system refuses to read", () => {
  live("a cache of a setup stays", (folder) =>
    Effect.gen(function*() {
      const layer = Layer.fresh(SetupCachesFolder.layer({
        directory: folder,
        maximumBytes: KEPT_BYTES,
        makeImage: (file, bytes) => Effect.andThen(Effect.orDie(Stream.runDrain(bytes)), Effect.sync(() => writeFileSync(file, "image")))
      }))
      const bytes = noise(50_000)
      yield* Effect.provide(fill(place(), Stream.make(bytes)), layer)
      const before = readdirSync(folder).sort()
      assert.lengthOf(before, 2)
      const reads = yield* RefusedReads.refusals((name) => name.startsWith(folder))
      const count = yield* RefusedReads.oneByOne(reads, Effect.provide(readAll(place()), layer), (which) =>
        Effect.sync(() =>
          assert.deepStrictEqual(readdirSync(folder).sort(), before, which)
        ))
      assert.isAtLeast(count, 3)
      assert.deepStrictEqual(yield* Effect.provide(readAll(place()), layer), bytes)
    }))

  live("a tree is deleted, or the deletion fails", (folder) =>
    Effect.gen(function*() {
      const tree = path.join(folder, "tree")
      const reads = yield* RefusedReads.refusals((name) => name.startsWith(folder))
      const ends: Array<boolean> = []
      const act = Effect.gen(function*() {
        mkdirSync(tree, { recursive: true })
        const exit = yield* Effect.exit(Effect.promise(() => removeTree(direct, tree)))
        ends.push(Exit.isSuccess(exit))
      })
      yield* RefusedReads.oneByOne(reads, act, (which) =>
        Effect.sync(() => {
          if (ends.at(-1) === true) assert.isFalse(existsSync(tree), which)
        }))
    }))

  live("numbers of users stay claimed", (folder) =>
    Effect.gen(function*() {
      const make = () => Uids.make({ registry: path.join(folder, "uids"), directory: folder, range: { first: 5_000, count: 10 } })
      const uid = yield* Effect.promise(() => make().claim(sandboxId))
      const act = Effect.promise(async () => {
        await make().prune()
        await make().claim(sandboxId)
      })
      const reads = yield* RefusedReads.refusals((name) => name.startsWith(folder))
      yield* RefusedReads.oneByOne(reads, act, (which) =>
        Effect.promise(async () => {
          assert.deepStrictEqual((await make().list()).map((claim) => [claim.uid, claim.name]), [[uid, sandboxId]], which)
        }))
    }))

  live("a box is shown the repositories that the sandbox has", (folder) => {
    const repository = path.join(folder, "git", "acme+app")
    mkdirSync(path.join(repository, "objects", "info"), { recursive: true })
    writeFileSync(path.join(repository, "objects", "info", "alternates"), "/mirror/objects\n")
    const workspace = path.join(folder, "workspace")
    return RefusedReads.answersTheTruth(folder, async () => {
      const found = await Repositories.of(workspace)
      return [found, await Repositories.borrowed(found)]
    }, 2)
  })

  live(
    "nothing is believed not to be mounted",
    () => RefusedReads.answersTheTruth("/proc/self/mountinfo", () => Overlays.takeOff("/proc"), 1)
  )

  live("homes that a worker left are found, or the listing fails", (folder) =>
    Effect.gen(function*() {
      const services = yield* Layer.build(SandboxHostNone.layer({ directory: folder, workspaceOf: (id) => path.join(folder, "work", id) }))
      const host = Context.get(services, SandboxHost)
      yield* host.provision({ sandboxId, fence: 1 })
      const reads = yield* RefusedReads.refusals((name) => name.startsWith(folder))
      const told: Array<ReadonlyArray<SandboxId>> = []
      yield* RefusedReads.oneByOne(reads, Effect.map(host.list, (found) => void told.push(found)), (which) =>
        Effect.sync(() => {
          for (const found of told.splice(0)) assert.include(found, sandboxId, which)
        }))
    }))
})

const onLinux = describe.skipIf(process.platform !== "linux")

onLinux("where the system refuses to tell of processes", () => {
  const started = Effect.fnUntraced(function*(mark: string) {
    const child = yield* Effect.acquireRelease(
      Effect.sync(() => spawn("sleep", ["600"], { env: { ...process.env, REFUSED_MARK: mark }, stdio: "ignore" })),
      (child) => Effect.sync(() => child.kill("SIGKILL"))
    )
    yield* Effect.promise(() => once(child, "spawn"))
    return child
  })

  it.live("none that runs is held for ended", () =>
    Effect.gen(function*() {
      const mark = `mark-${process.pid}`
      const child = yield* started(mark)
      const own = `/proc/${child.pid}/`
      // All of it: a look at every process of the machine.
      const reads = yield* RefusedReads.refusals((name) => name === "/proc" || name.startsWith(own))
      const told: Array<boolean> = []
      const act = Effect.gen(function*() {
        told.push((yield* ProcessTable.marks("REFUSED_MARK")).has(mark))
        told.push(ofUser(process.getuid?.() ?? 0).includes(child.pid ?? 0))
      })
      // The answer for processes of others.
      const count = yield* RefusedReads.oneByOne(reads, act, (which) =>
        Effect.sync(() => {
          if (!which.startsWith("EACCES")) assert.notInclude(told, false, which)
          told.splice(0)
        }))
      assert.isAtLeast(count, 4)
    }))
})
