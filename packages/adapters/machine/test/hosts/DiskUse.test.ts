/** The disk space that a sandbox takes, wherever it puts its files. */
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Fiber } from "effect"
import { execFile } from "node:child_process"
import { chmodSync, chownSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import * as DiskUse from "../../src/files/DiskUse.ts"
import { defaults, type Limits } from "../../src/host/Limits.ts"
import { isRoot, openFolder } from "../../testing/hosts/bubblewrap.fixture.ts"
import * as SpawnedProgram from "../../testing/SpawnedProgram.ts"

const MiB = 2 ** 20
const limits = (limits: Partial<Limits>): Limits => ({ ...defaults, ...limits })

/** A sandbox's folder, and its user, which no other sandbox has. */
const sandbox = Effect.gen(function*() {
  const workspace = yield* openFolder
  const uid = 1_800_000_000 + Math.floor(Math.random() * 1_000_000)
  const user = { uid, gid: uid }
  if (isRoot) chownSync(workspace, uid, uid)
  const place: DiskUse.Place = { workspace, folders: [workspace], user }
  return { place, user, workspace }
})

/** A process of the sandbox that has said that it is ready. */
const running = (script: string, { user, workspace }: Effect.Success<typeof sandbox>) =>
  Effect.tap(
    SpawnedProgram.scoped("sh", ["-c", script], { ...user, cwd: workspace }),
    ({ says }) => Effect.promise(() => says((output) => output === "" ? null : output))
  )

const over = (found: DiskUse.Excess): number => {
  assert.isTrue(found !== null && "over" in found, JSON.stringify(found))
  return Number(/^it takes (\d+) of/u.exec(found !== null && "over" in found ? found.over : "")?.[1])
}

describe("DiskUse", () => {
  it.live.skipIf(!isRoot)(
    "counts what a process keeps of a file that it has deleted, once however often it is open (needs root)",
    () =>
      Effect.gen(function*() {
        const made = yield* sandbox
        const fill = "exec 3>file; rm file; dd if=/dev/zero bs=1048576 count=4 >&3 2>/dev/null; exec 4>&3; echo ready; exec sleep 60"
        yield* running(fill, made)
        assert.closeTo(over(yield* DiskUse.excess(made.place, limits({ diskBytes: 2 * MiB }))), 4 * MiB, 65_536)
        assert.isNull(yield* DiskUse.excess(made.place, limits({ diskBytes: 5 * MiB })))
        assert.isNull(yield* DiskUse.excess((yield* sandbox).place, limits({ diskBytes: 2 * MiB })))
      }).pipe(Effect.scoped)
  )

  it.live.skipIf(!isRoot)("counts what is left of a deleted file in the memory of a process (needs root)", () =>
    Effect.gen(function*() {
      const made = yield* sandbox
      yield* running(
        "cp /bin/sleep file; dd if=/dev/zero bs=1048576 count=4 >>file 2>/dev/null; ./file 60 & sleep 0.2; rm file; echo ready; wait",
        made
      )
      assert.isAtLeast(over(yield* DiskUse.excess(made.place, limits({ diskBytes: 2 * MiB }))), 4 * MiB)
    }).pipe(Effect.scoped))

  it.live.skipIf(!isRoot)(
    "counts what lies in a folder that its owner may not look into, for a service that is its owner too (needs root to become it)",
    () =>
      Effect.gen(function*() {
        const { place, user, workspace } = yield* sandbox
        const hidden = join(workspace, "hidden")
        mkdirSync(hidden)
        writeFileSync(join(hidden, "file"), Buffer.alloc(4 * MiB, 1))
        for (const path of [join(hidden, "file"), hidden]) chownSync(path, user.uid, user.gid)
        chmodSync(hidden, 0)
        const module = fileURLToPath(import.meta.resolve("../../src/files/DiskUse.ts"))
        const script = `
        import { Effect } from "effect"
        import { excess } from ${JSON.stringify(module)}
        // Once it is loaded: that user may not get through to this checkout.
        process.chdir("/")
        process.setgroups([])
        process.setgid(${user.gid})
        process.setuid(${user.uid})
        const limits = ${JSON.stringify(limits({ diskBytes: 2 * MiB }))}
        console.log(JSON.stringify(await Effect.runPromise(excess(${JSON.stringify(place)}, limits))))`
        const output = yield* Effect.callback<string>((resume) => {
          execFile(
            process.execPath,
            ["--input-type=module", "-e", script],
            { cwd: import.meta.dirname },
            (error, stdout, stderr) => resume(Effect.succeed(error === null ? stdout : stderr))
          )
        })
        // Where there are no user namespaces it is told as what it is: unknown.
        const found: DiskUse.Excess = JSON.parse(output)
        assert.isTrue(found !== null && ("unknown" in found || over(found) >= 4 * MiB), output)
      }).pipe(Effect.scoped)
  )

  it.live("does not take a measurement that does not end for a good one", () =>
    Effect.gen(function*() {
      const { place, workspace } = yield* sandbox
      for (let i = 0; i < 2000; i++) writeFileSync(join(workspace, `${i}`), "")
      const found = yield* DiskUse.excess(place, limits({}), 1)
      assert.isTrue(found !== null && "unknown" in found, JSON.stringify(found))
    }).pipe(Effect.scoped))

  it.live("ends what runs when it cannot be measured twice in a row", () =>
    Effect.gen(function*() {
      const { place, workspace } = yield* sandbox
      for (let i = 0; i < 2000; i++) writeFileSync(join(workspace, `${i}`), "")
      const exceeded = yield* Deferred.make<string>()
      yield* Effect.forkScoped(DiskUse.guard({
        place,
        limits: limits({}),
        everyMillis: 1,
        timeoutMillis: 1,
        isIdle: () => false,
        exceeded: (why) => Deferred.succeed(exceeded, why)
      }))
      assert.match(yield* Deferred.await(exceeded), /^what it takes of the disk cannot be measured \(.+\)$/u)
    }).pipe(Effect.scoped))

  it.live("does not rest while the disk fills up", () =>
    Effect.gen(function*() {
      // A folder in which no other process writes and deletes meanwhile.
      const workspace = yield* Effect.acquireRelease(
        Effect.sync(() => mkdtempSync("/dev/shm/slipway-disk-")),
        (folder) => Effect.sync(() => rmSync(folder, { recursive: true }))
      )
      const place: DiskUse.Place = { ...(yield* sandbox).place, workspace, folders: [workspace] }
      const looked = yield* Deferred.make<void>()
      const exceeded = yield* Deferred.make<string>()
      const guarding = yield* Effect.forkChild(DiskUse.guard({
        place,
        limits: limits({ diskBytes: 32 * MiB }),
        everyMillis: 10 * 60_000,
        glanceMillis: 10,
        isIdle: () => {
          Deferred.doneUnsafe(looked, Effect.void)
          return false
        },
        exceeded: (why) => Deferred.succeed(exceeded, why)
      }))
      yield* Deferred.await(looked)
      writeFileSync(join(workspace, "file"), Buffer.alloc(48 * MiB, 1), { flush: true })
      assert.match(yield* Deferred.await(exceeded), /bytes on the disk/u)
      yield* Fiber.interrupt(guarding)
    }).pipe(Effect.scoped))
})
