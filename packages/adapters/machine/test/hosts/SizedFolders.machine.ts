/** Folders that the kernel keeps to their size, on real mounts. */
import { assert, describe, it } from "@effect/vitest"
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { SandboxHost } from "@slipway/domain/sandbox/ports/SandboxHost"
import { Cause, Context, Effect, Exit, Layer } from "effect"
import { execFileSync, spawnSync } from "node:child_process"
import {
  chmodSync,
  chownSync,
  closeSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  statfsSync,
  statSync,
  utimesSync,
  writeFileSync,
  writeSync
} from "node:fs"
import { join } from "node:path"
import * as SizedFolders from "../../src/files/SizedFolders.ts"
import { workspacesIn } from "../../src/files/TreesLayout.ts"
import { defaults, type Limits } from "../../src/host/Limits.ts"
import { absent, freshId, hostIn, openFolder, run } from "../../testing/hosts/bubblewrap.fixture.ts"
import { noEgress } from "../../testing/hosts/isolated.ts"
import { lacking } from "../../testing/hosts/sized.fixture.ts"
import * as Mounts from "../../testing/Mounts.ts"
import * as SmallDisk from "../../testing/SmallDisk.ts"
import * as SpawnedProgram from "../../testing/SpawnedProgram.ts"

const MiB = 2 ** 20
const limits = (limits: Partial<Limits> = {}): Limits => ({ ...defaults, diskBytes: 8 * MiB, diskFiles: 200, ...limits })
const NOBODY = { uid: 65_534, gid: 65_534 }

/** The folders of a process of this machine, from its start on. */
const started = Effect.fnUntraced(function*(directory: string, chosen: Partial<Limits> = {}) {
  const folders = yield* SizedFolders.make({ directory, limits: limits(chosen) })
  yield* folders.adopt
  return folders
})

/** A folder that is unused after the test. */
const trees = Effect.acquireRelease(
  Effect.map(openFolder, (folder) => join(folder, "trees")),
  (directory) => Effect.sync(() => Mounts.unmount(directory))
)

const folderOf = (folders: SizedFolders.SizedFolders, id: SandboxId) => join(folders.directory, id)
const diskOf = (folders: SizedFolders.SizedFolders, id: SandboxId) => join(folders.directory, "..", "disks", id)

/** Runs a script in the folder as somebody who is not root. Answers how it ended, and what it complained of. */
const asNobody = (folder: string, script: string) => {
  const place = join(folder, "nobody's")
  mkdirSync(place, { recursive: true })
  chmodSync(folder, 0o711)
  chownSync(place, NOBODY.uid, NOBODY.gid)
  return spawnSync("sh", ["-c", script], { ...NOBODY, cwd: place, encoding: "utf8" })
}

describe("SizedFolders where there are none", () => {
  it.live("makes no folder of its own when it is told not to, and says why", () =>
    Effect.gen(function*() {
      const directory = yield* trees
      const folders = yield* SizedFolders.make({ directory, limits: limits(), lacking: "nobody wants any" })
      assert.strictEqual(folders.lacking, "nobody wants any")
      assert.isFalse(yield* folders.open(freshId()))
      assert.isFalse(existsSync(directory))
    }).pipe(Effect.scoped))
})

describe.skipIf(lacking !== undefined)(`SizedFolders${lacking === undefined ? "" : ` (${lacking})`}`, () => {
  it.live("makes folders of the size of the limits, which take of the disk what is in them", () =>
    Effect.gen(function*() {
      for (const [diskBytes, diskFiles] of [[8 * MiB, 200], [10 * 2 ** 30, 1_000_000], [64 * MiB, 1_000_000]] as const) {
        const folders = yield* started(yield* trees, { diskBytes, diskFiles })
        assert.isNull(folders.lacking)
        const id = freshId()
        assert.isTrue(yield* folders.open(id))
        const { bavail, bsize, ffree } = statfsSync(folderOf(folders, id))
        assert.isAtLeast(bavail * bsize, diskBytes)
        assert.isAtMost(bavail * bsize, diskBytes * 1.01 + 2 * MiB)
        const files = Math.min(diskFiles, diskBytes / 4096)
        assert.isAtLeast(ffree, files)
        assert.isAtMost(ffree, files * 1.01 + 100)
        assert.isAtMost(statSync(diskOf(folders, id)).blocks * 512, MiB)
      }
    }).pipe(Effect.scoped))

  it.live("refuses what is too much as it is written: in files, in deleted ones that are open, and too many", () =>
    Effect.gen(function*() {
      const folders = yield* started(yield* trees)
      for (
        const script of [
          "dd if=/dev/zero of=file bs=1048576 count=10",
          "exec 3>file; rm file; dd if=/dev/zero bs=1048576 count=10 >&3",
          "mkdir hidden; dd if=/dev/zero of=hidden/file bs=1048576 count=10 & wait $!; code=$?; chmod 0 hidden; exit $code",
          "for i in $(seq 300); do : > $i || exit 1; done"
        ]
      ) {
        const id = freshId()
        yield* folders.open(id)
        const { status, stderr } = asNobody(folderOf(folders, id), script)
        assert.notStrictEqual(status, 0, script)
        assert.match(stderr, /No space left on device|Cannot create|cannot create/u, script)
        // The folders of others stay.
        const other = freshId()
        yield* folders.open(other)
        assert.strictEqual(asNobody(folderOf(folders, other), "dd if=/dev/zero of=file bs=1048576 count=6").status, 0)
      }
    }).pipe(Effect.scoped))

  it.live("leaves room for the service in a folder that its sandbox has filled", () =>
    Effect.gen(function*() {
      const folders = yield* started(yield* trees)
      const id = freshId()
      yield* folders.open(id)
      assert.notStrictEqual(asNobody(folderOf(folders, id), "dd if=/dev/zero of=file bs=4096").status, 0)
      assert.strictEqual(statfsSync(folderOf(folders, id)).bavail, 0)
      writeFileSync(join(folderOf(folders, id), "ours"), Buffer.alloc(MiB / 2, 1), { flush: true })
    }).pipe(Effect.scoped))

  it.live("lets only the service through, no device be opened, and no program gain rights", () =>
    Effect.gen(function*() {
      const folders = yield* started(yield* trees)
      const id = freshId()
      yield* folders.open(id)
      const folder = folderOf(folders, id)
      assert.strictEqual(statSync(folder).mode & 0o777, 0o700)
      execFileSync("mknod", ["-m", "666", join(folder, "null"), "c", "1", "3"])
      assert.notStrictEqual(spawnSync("sh", ["-c", `: > ${join(folder, "null")}`]).status, 0)
      execFileSync("cp", ["/usr/bin/id", join(folder, "id")])
      chmodSync(join(folder, "id"), 0o4755)
      assert.strictEqual(asNobody(folder, "../id -u").stdout, `${NOBODY.uid}\n`)
    }).pipe(Effect.scoped))

  it.live("is not there for a size that no file of this machine can have, and says why", () =>
    Effect.gen(function*() {
      const folders = yield* started(yield* trees, { diskBytes: 2 ** 60 })
      assert.match(String(folders.lacking), /^this machine does not mount one: ./u)
      assert.isFalse(yield* folders.open(freshId()))
    }).pipe(Effect.scoped))

  it.live("is the same folder to a process that comes after a killed one, and after a reboot", () =>
    Effect.gen(function*() {
      const directory = yield* trees
      const [killed, rebooted] = [freshId(), freshId()]
      const first = yield* started(directory)
      for (const id of [killed, rebooted]) {
        yield* first.open(id)
        writeFileSync(join(folderOf(first, id), "file"), id)
      }
      execFileSync("umount", [folderOf(first, rebooted)])

      const next = yield* started(directory)
      for (const id of [killed, rebooted]) assert.strictEqual(readFileSync(join(folderOf(next, id), "file"), "utf8"), id)
      assert.lengthOf(yield* Mounts.disksLeft(directory, 2), 2)
      for (const id of [killed, rebooted]) assert.isTrue(yield* next.open(id))
      assert.strictEqual(Mounts.below(directory).length, 2)
    }).pipe(Effect.scoped))

  it.live("mounts before use what could not be mounted at the start, and makes no folder for who only looks", () =>
    Effect.gen(function*() {
      const folders = yield* started(yield* trees)
      const id = freshId()
      yield* folders.open(id)
      writeFileSync(join(folderOf(folders, id), "file"), "kept")
      execFileSync("umount", [folderOf(folders, id)])
      assert.isTrue(yield* folders.reopen(id))
      assert.strictEqual(readFileSync(join(folderOf(folders, id), "file"), "utf8"), "kept")
      const other = freshId()
      assert.isFalse(yield* folders.reopen(other))
      assert.isFalse(existsSync(folderOf(folders, other)))
    }).pipe(Effect.scoped))

  it.live("is the same folder while another mount namespace has it still, and gone from there as well when it is deleted", () =>
    Effect.gen(function*() {
      const directory = yield* trees
      const folders = yield* started(directory)
      const id = freshId()
      yield* folders.open(id)
      writeFileSync(join(folderOf(folders, id), "file"), "kept")
      const away = ["--mount", "--propagation", "private", "sh", "-c", "echo ready; exec sleep 60"]
      const { says } = yield* SpawnedProgram.scoped("unshare", away)
      yield* Effect.promise(() => says((output) => /ready/u.exec(output)))
      execFileSync("umount", [folderOf(folders, id)])
      const next = yield* started(directory)
      assert.strictEqual(readFileSync(join(folderOf(next, id), "file"), "utf8"), "kept")
      assert.lengthOf(yield* Mounts.disksLeft(directory, 1), 1)
      yield* next.remove(id)
      assert.deepStrictEqual(yield* Mounts.disksLeft(directory, 0), [])
    }).pipe(Effect.scoped))

  it.live("puts right what a power loss left before it is used", () =>
    Effect.gen(function*() {
      const directory = yield* trees
      const folders = yield* started(directory)
      const id = freshId()
      yield* folders.open(id)
      const [folder, disk] = [folderOf(folders, id), diskOf(folders, id)]
      writeFileSync(join(folder, "file"), "kept")
      execFileSync("sync", ["--file-system", folder])
      const bitmap = Number(
        /Block bitmap at (\d+)/u.exec(execFileSync("dumpe2fs", [disk], { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }))?.[1]
      )
      // As the disk is while it is in use, with a part of it that was not written.
      copyFileSync(disk, `${disk}.lost`)
      execFileSync("umount", [folder])
      copyFileSync(`${disk}.lost`, disk)
      const file = openSync(disk, "r+")
      writeSync(file, Buffer.alloc(4096), 0, 4096, bitmap * 4096)
      closeSync(file)

      const next = yield* started(directory)
      assert.isTrue(yield* next.open(id))
      assert.strictEqual(readFileSync(join(folder, "file"), "utf8"), "kept")
      writeFileSync(join(folder, "more"), Buffer.alloc(MiB, 1), { flush: true })
    }).pipe(Effect.scoped))

  it.live("deletes a folder with its file, whatever a crash left of it, however often it is asked", () =>
    Effect.gen(function*() {
      const directory = yield* trees
      const folders = yield* started(directory)
      const ids = [freshId(), freshId(), freshId()] as const
      for (const id of ids) {
        yield* folders.open(id)
        writeFileSync(join(folderOf(folders, id), "file"), "")
      }
      const [, unmounted, emptied] = ids
      for (const id of [unmounted, emptied]) execFileSync("umount", [folderOf(folders, id)])
      execFileSync("rm", [diskOf(folders, emptied)])
      for (const id of [...ids, ...ids]) yield* folders.remove(id)
      assert.deepStrictEqual(readdirSync(folders.directory), [])
      assert.deepStrictEqual(readdirSync(join(directory, "disks")), ["making"])
      assert.deepStrictEqual(yield* Mounts.disksLeft(directory, 0), [])
    }).pipe(Effect.scoped))

  it.live("leaves a folder as it is in which something lay before, and deletes it like any other", () =>
    Effect.gen(function*() {
      const folders = yield* started(yield* trees)
      const id = freshId()
      mkdirSync(join(folderOf(folders, id), "workspace"), { recursive: true })
      assert.isFalse(yield* folders.open(id))
      assert.isTrue(existsSync(join(folderOf(folders, id), "workspace")))
      assert.isFalse(yield* folders.isSized(id))
      yield* folders.remove(id)
      assert.isFalse(existsSync(folderOf(folders, id)))
    }).pipe(Effect.scoped))

  it.live("clears up what a killed process was making, and not what another makes just now", () =>
    Effect.gen(function*() {
      const directory = yield* trees
      const making = join(directory, "disks", "making")
      mkdirSync(join(making, "old.mounted"), { recursive: true })
      for (const name of ["old", "young"]) writeFileSync(join(making, name), "")
      execFileSync("mount", ["-t", "tmpfs", "tmpfs", join(making, "old.mounted")])
      const longAgo = new Date(Date.now() - 3_600_000)
      for (const name of ["old", "old.mounted"]) utimesSync(join(making, name), longAgo, longAgo)
      yield* started(directory)
      assert.deepStrictEqual(readdirSync(making), ["young"])
    }).pipe(Effect.scoped))

  it.live("unmounts all when it is let go of, and from then on opens nothing", () =>
    Effect.gen(function*() {
      const directory = yield* trees
      const id = freshId()
      const folders = yield* started(directory)
      yield* Effect.scoped(Effect.gen(function*() {
        yield* folders.letGo
        yield* folders.open(id)
        writeFileSync(join(folderOf(folders, id), "file"), "kept")
      }))
      assert.deepStrictEqual(Mounts.below(directory), [])
      assert.deepStrictEqual(yield* Mounts.disksLeft(directory, 0), [])
      assert.isTrue(Exit.isFailure(yield* Effect.exit(folders.open(id))))
      assert.strictEqual(readFileSync(join(folderOf(yield* started(directory), id), "file"), "utf8"), "kept")
    }).pipe(Effect.scoped))

  it.live("gives back what was deleted when room is wanted", () =>
    Effect.gen(function*() {
      const folders = yield* started(yield* trees)
      const id = freshId()
      yield* folders.open(id)
      const [folder, disk] = [folderOf(folders, id), diskOf(folders, id)]
      writeFileSync(join(folder, "file"), Buffer.alloc(6 * MiB, 1), { flush: true })
      execFileSync("sync", ["--file-system", folder])
      const before = statSync(disk).blocks * 512
      assert.isAbove(before, 6 * MiB)
      execFileSync("rm", [join(folder, "file")])
      yield* folders.trim
      assert.isBelow(statSync(disk).blocks * 512, before - 4 * MiB)
    }).pipe(Effect.scoped))

  it.live("leaves a folder without a size, whose sandbox is measured then, when none can be made just now", () =>
    Effect.gen(function*() {
      const directory = yield* trees
      const folders = yield* started(directory)
      const id = freshId()
      execFileSync("rmdir", [join(directory, "disks", "making")])
      writeFileSync(join(directory, "disks", "making"), "")
      assert.isFalse(yield* folders.open(id))
      assert.isFalse(existsSync(diskOf(folders, id)))
      execFileSync("rm", [join(directory, "disks", "making")])
      assert.isTrue(yield* folders.open(id))
    }).pipe(Effect.scoped))

  it.live("makes many at once", () =>
    Effect.gen(function*() {
      const directory = yield* trees
      const folders = yield* started(directory)
      const ids = Array.from({ length: 40 }, freshId)
      const all = yield* Effect.forEach([...ids, ...ids], (id) => folders.open(id), { concurrency: "unbounded" })
      assert.deepStrictEqual(new Set(all), new Set([true]))
      assert.lengthOf(yield* Mounts.disksLeft(directory, 40), 40)
      yield* Effect.forEach(ids, (id) => folders.remove(id), { concurrency: "unbounded" })
      assert.deepStrictEqual(yield* Mounts.disksLeft(directory, 0), [])
    }).pipe(Effect.scoped))

  it.live("mounts what it made before on a machine whose disk is full", () =>
    Effect.gen(function*() {
      const disk = yield* SmallDisk.make(100)
      yield* Effect.gen(function*() {
        const directory = join(disk.path, "trees")
        const folders = yield* started(directory)
        yield* Effect.addFinalizer(() => Effect.sync(() => Mounts.unmount(directory)))
        const id = freshId()
        yield* folders.open(id)
        writeFileSync(join(folderOf(folders, id), "file"), "kept", { flush: true })
        execFileSync("umount", [folderOf(folders, id)])
        disk.spoil("full")
        assert.isTrue(yield* folders.reopen(id))
        assert.strictEqual(readFileSync(join(folderOf(folders, id), "file"), "utf8"), "kept")
      }).pipe(Effect.scoped)
    }).pipe(Effect.scoped))

  it.live("makes none where the machine's disk is about to be full: what is written would be lost later", () =>
    Effect.gen(function*() {
      const disk = yield* SmallDisk.make(100)
      yield* Effect.gen(function*() {
        const folders = yield* started(join(disk.path, "trees"))
        yield* Effect.addFinalizer(() => Effect.sync(() => Mounts.unmount(join(disk.path, "trees"))))
        assert.isNull(folders.lacking)
        disk.spoil("full")
        const exit = yield* Effect.exit(folders.open(freshId()))
        const defect = Exit.isFailure(exit) ? Cause.squash(exit.cause) : undefined
        assert.propertyVal(defect, "code", "ENOSPC")
        disk.mend()
        assert.isTrue(yield* folders.open(freshId()))
      }).pipe(Effect.scoped)
    }).pipe(Effect.scoped))
})

describe.skipIf(lacking !== undefined || absent !== undefined)(
  `boxes of sized folders${lacking ?? absent ?? "" ? ` (${lacking ?? absent})` : ""}`,
  () => {
    /** A service whose folder others can or cannot pass through. */
    const service = Effect.fnUntraced(function*(mode: number, chosen: Partial<Limits> = {}) {
      const directory = yield* trees
      const folders = yield* started(directory, chosen)
      chmodSync(directory, 0o700)
      const above = join(directory, "..")
      chmodSync(above, mode)
      const built = yield* Layer.build(
        Layer.provide(hostIn(above, { folders, limits: limits(chosen), workspaceOf: workspacesIn(directory) }), noEgress)
      )
      const host = Context.get(built, SandboxHost)
      const boxed = Effect.acquireRelease(
        Effect.gen(function*() {
          const sandboxId = freshId()
          return { sandboxId, workspace: workspacesIn(directory)(sandboxId), box: yield* host.provision({ sandboxId, fence: 1 }) }
        }),
        ({ sandboxId }) => Effect.andThen(Effect.orDie(host.stop(sandboxId)), folders.remove(sandboxId))
      )
      return { boxed, directory, folders, host }
    })

    for (const [how, mode] of [["pass through", 0o711], ["not pass through", 0o700]] as const) {
      it.live(`keep all that a box can write to in one size, in a data folder that others may ${how}`, () =>
        Effect.gen(function*() {
          const { boxed } = yield* service(mode)
          const { box } = yield* boxed
          for (const place of [".", "$HOME", "$TMPDIR"]) {
            const { code, output } = yield* run(box, `dd if=/dev/zero of=${place}/file bs=1048576 count=3 2>/dev/null || echo full`)
            assert.strictEqual(code, 0)
            assert.strictEqual(output === "full", place === "$TMPDIR", output)
          }
          // It is refused what is too much, and goes on.
          assert.match((yield* run(box, "echo more > more; dd if=/dev/zero of=most bs=1048576 count=8; echo alive")).output, /alive$/u)
        }).pipe(Effect.scoped))

      it.live(`leave no file of a removed sandbox while a box of another runs, in a data folder that others may ${how}`, () =>
        Effect.gen(function*() {
          const { boxed, directory, folders, host } = yield* service(mode)
          const [one, other] = [yield* boxed, yield* boxed]
          const running = yield* other.box.spawn({ command: "sh", args: ["-c", "echo running; exec cat"], env: {} })
          yield* run(one.box, "echo mine > file")
          yield* host.stop(one.sandboxId)
          yield* folders.remove(one.sandboxId)
          const left = yield* Mounts.disksLeft(directory, 1)
          assert.isTrue(left[0]?.endsWith(other.sandboxId), left.join())
          yield* running.endInput
          assert.deepStrictEqual(yield* running.exited, { code: 0, signal: null })
        }).pipe(Effect.scoped))
    }

    it.live("start no more with files for the home when a sandbox has made all that it may, and say why", () =>
      Effect.gen(function*() {
        const { boxed } = yield* service(0o711)
        const { box } = yield* boxed
        const start = Effect.scoped(box.spawn({ command: "true", args: [], env: {}, homeFiles: { settings: "{}" } }))
        yield* start
        yield* run(box, "for i in $(seq 300); do : > $i || exit 1; done")
        assert.match((yield* Effect.flip(start)).detail, /cannot be written to \(the disk of the sandbox is full\)/u)
        yield* run(box, "rm 1 2 3")
        yield* start
      }).pipe(Effect.scoped))

    it.live("give back home and scratch folder with the box, and keep the trees", () =>
      Effect.gen(function*() {
        const { boxed, folders, host } = yield* service(0o711)
        const { box, sandboxId, workspace } = yield* boxed
        yield* run(box, "echo mine > file; echo mine > $HOME/file")
        yield* host.stop(sandboxId)
        assert.isTrue(existsSync(join(workspace, "file")))
        assert.notInclude(readdirSync(folderOf(folders, sandboxId)), "box")
      }).pipe(Effect.scoped))
  }
)
