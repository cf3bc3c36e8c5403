/** A disk of a test's own (tmpfs) that can be filled, made read-only, or left without inodes. Mounting takes root. */
import { Effect, type Scope } from "effect"
import { execFileSync, spawnSync } from "node:child_process"
import { closeSync, mkdtempSync, openSync, rmdirSync, rmSync, statfsSync, writeFileSync, writeSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"

const mounted = (size: string): string | null => {
  const folder = mkdtempSync(join(tmpdir(), "slipway-disk-"))
  if (spawnSync("mount", ["-t", "tmpfs", "-o", `${size},mode=711`, "tmpfs", folder]).status === 0) return folder
  rmdirSync(folder)
  return null
}

/** Its processes may have a file open for a moment longer. */
const unmount = (folder: string): void => {
  execFileSync("umount", ["--lazy", folder])
  rmdirSync(folder)
}

/** Whether this machine lets us have one. */
export const isPossible: boolean = (() => {
  const folder = process.platform === "linux" && process.getuid?.() === 0 ? mounted("size=1m") : null
  if (folder !== null) unmount(folder)
  else process.stderr.write("NOT TESTED: what happens on a disk that is full, read-only or out of inodes; mounting one takes root\n")
  return folder !== null
})()

/** The possible faults of the disk. */
export const TROUBLES = ["full", "read-only", "out of inodes"] as const
type Trouble = (typeof TROUBLES)[number]

interface SmallDisk {
  readonly path: string
  /** From now on, until it is mended. Its contents stay. */
  readonly spoil: (trouble: Trouble) => void
  readonly mend: () => void
}

/** `mebibytes` large, with `inodes` files and folders at most. */
export const make = (mebibytes: number, inodes = 5_000): Effect.Effect<SmallDisk, never, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const path = mounted(`size=${mebibytes}m,nr_inodes=${inodes}`)
      if (path === null) throw new Error("no disk could be mounted")
      const ballast = join(path, "ballast")
      const remount = (how: string) => execFileSync("mount", ["-o", `remount,${how}`, path])
      return {
        path,
        spoil: (trouble: Trouble) => {
          if (trouble === "read-only") return void remount("ro")
          if (trouble === "out of inodes") return void remount(`nr_inodes=${inodes - statfsSync(path).ffree}`)
          writeFileSync(ballast, "")
          const file = openSync(ballast, "a")
          try {
            for (const chunk = Buffer.alloc(4096);;) writeSync(file, chunk)
          } catch {
            // It is full.
          } finally {
            closeSync(file)
          }
        },
        mend: () => {
          remount(`rw,nr_inodes=${inodes}`)
          rmSync(ballast, { force: true })
        }
      }
    }),
    ({ path }) => Effect.sync(() => unmount(path))
  )
