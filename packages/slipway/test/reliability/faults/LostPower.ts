/**
 * A disk that can lose its power: an ext4 in a file, which the kernel can be told to shut down at once. What had not been synced by
 * then is gone, and the next mount finds what a machine finds after a power cut: its journal, and the blocks that were written.
 */
import { Effect } from "effect"
import { execFileSync, spawnSync } from "node:child_process"
import { mkdirSync, mkdtempSync, rmSync, truncateSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import path from "node:path"
import type { Need } from "./Battery.ts"

/** Nothing is written back because it is old: only what is synced reaches the disk, for as long as a case takes. */
const COMMIT_SECONDS = 300
/** `EXT4_IOC_SHUTDOWN` with `EXT4_GOING_FLAGS_NOLOGFLUSH`: fs/ext4/ext4.h, Linux 6.18. The calls of xfstests for the same purpose. */
const SHUT_DOWN = "my $how = pack('L', 2); open(my $at, '<', $ARGV[0]) or die $!; ioctl($at, 0x8004587d, $how) or die $!"

export interface Disk {
  readonly path: string
  /** At once, whatever is writing. Processes go on, and each of their writes fails. */
  readonly cut: () => void
  /** Call it when no process has a file open there: the state that the machine finds when it is on again. */
  readonly restore: () => void
}

/** Ends with the scope, however often it was cut. */
export const make = (mebibytes: number) =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const folder = mkdtempSync(path.join(tmpdir(), "slipway-power-"))
      const at = path.join(folder, "disk")
      let image = path.join(folder, "image-0")
      let cuts = 0
      writeFileSync(image, "")
      truncateSync(image, mebibytes * 2 ** 20)
      mkdirSync(at)
      execFileSync("mkfs.ext4", ["-q", "-F", image])
      const mount = () => execFileSync("mount", ["-o", `loop,commit=${COMMIT_SECONDS},noatime`, image, at])
      mount()
      const disk: Disk = {
        path: at,
        cut: () => execFileSync("perl", ["-e", SHUT_DOWN, at]),
        restore: () => {
          // Boxes of anybody that were made meanwhile have the mount as well, and with it the file system that is shut down.
          execFileSync("umount", ["--lazy", at])
          const after = path.join(folder, `image-${++cuts}`)
          execFileSync("cp", ["--sparse=always", image, after])
          rmSync(image)
          image = after
          mount()
        }
      }
      return { disk, folder }
    }),
    ({ disk, folder }) =>
      Effect.sync(() => {
        spawnSync("umount", ["--lazy", disk.path])
        rmSync(folder, { recursive: true, force: true })
      })
  ).pipe(Effect.map(({ disk }) => disk))

/** Whether what was not synced is gone after a cut, and what was synced is not. */
export const works: Need = () => {
  if (process.platform !== "linux" || process.getuid?.() !== 0) return "needs root on Linux"
  return Effect.runSync(Effect.scoped(Effect.gen(function*() {
    const made = yield* Effect.exit(make(16))
    if (made._tag === "Failure") return "no ext4 in a file can be mounted here"
    try {
      const disk = made.value
      execFileSync("sh", ["-c", "echo synced > synced && sync synced . && echo not > not"], { cwd: disk.path })
      disk.cut()
      disk.restore()
      const left = execFileSync("sh", ["-c", "cat synced; cat not 2>/dev/null || true"], { cwd: disk.path }).toString()
      return left === "synced\n" ? null : `a file system that is shut down keeps other things than were synced: ${JSON.stringify(left)}`
    } catch (error) {
      return `no file system can be shut down here: ${String(error).slice(0, 200)}`
    }
  })))
}
