/** Mounts below a folder of a test, left by a service that was killed. */
import { eventually } from "@slipway/testing/contracts/sandbox/SandboxHostContract"
import { Effect } from "effect"
import { execFileSync } from "node:child_process"
import { existsSync, readdirSync, readFileSync, realpathSync } from "node:fs"

/** Mount points in `folder`, itself included, those further down last. */
export const below = (folder: string): ReadonlyArray<string> => {
  if (!existsSync("/proc/self/mountinfo") || !existsSync(folder)) return []
  const real = realpathSync(folder)
  return readFileSync("/proc/self/mountinfo", "utf8").split("\n").map((line) => line.split(" ")[4] ?? "").filter((point) =>
    point === real || point.startsWith(`${real}/`)
  )
}

/** Else it could not be deleted. */
export const unmount = (folder: string): void => {
  for (const point of below(folder).toReversed()) {
    try {
      execFileSync("umount", ["--lazy", point])
    } catch (error) {
      // The process that mounted it may have been about to unmount it.
      if (below(folder).includes(point)) throw error
    }
  }
}

/** Files below `folder` that the kernel has as disks, wherever they are mounted, and be they deleted. */
const disks = (folder: string): ReadonlyArray<string> =>
  readdirSync("/sys/block").filter((name) => name.startsWith("loop")).flatMap((name) => {
    const file = `/sys/block/${name}/loop/backing_file`
    const backing = existsSync(file) ? readFileSync(file, "utf8").trim() : ""
    return backing.startsWith(`${folder}/`) ? [backing] : []
  })

/**
 * Those disks as soon as they are no more than `count`, for a look after something was unmounted or deleted: the kernel takes the disk
 * away a moment later. Dies with those that are still there after 10 seconds.
 */
export const disksLeft = (folder: string, count: number): Effect.Effect<ReadonlyArray<string>> =>
  eventually(Effect.sync(() => disks(folder)), ({ length }) => length <= count)
