/** Mounts of disks that are files. */
import { ifAbsent, ifCode } from "@slipway/domain/files/rules/SystemError"
import { chmod, stat } from "node:fs/promises"
import { join } from "node:path"
import { namesIn, textIn } from "../node/IsThere.ts"
import type { Spawn } from "../node/spawner/Spawn.ts"
import * as DiskImages from "./DiskImages.ts"

const OPTIONS = "loop,nodev,nosuid,noatime,noinit_itable,errors=remount-ro"

/** Errors of a device without a file, or of a device that the kernel releases at this moment. */
const UNUSED = ["ENXIO", "ENODEV"]

/** Files that the kernel uses as disks: a file without a mount here may be mounted in another mount namespace. */
export const attached = async (): Promise<ReadonlySet<string>> => {
  const devices = (await namesIn("/sys/block")).filter((name) => name.startsWith("loop"))
  return new Set(
    await Promise.all(devices.map((name) =>
      // A disk missing here would be repaired while it is mounted.
      textIn(`/sys/block/${name}/loop/backing_file`, "").then((text) => text.trim(), ifCode(UNUSED, ""))
    ))
  )
}

/** A mounted file system has a device number of its own. */
export const isMounted = async (folder: string): Promise<boolean> => {
  const [own, above] = await Promise.all([stat(folder).catch(ifAbsent(undefined)), stat(join(folder, "..")).catch(ifAbsent(undefined))])
  return own !== undefined && own.dev !== above?.dev
}

export const mount = async (spawn: Spawn, disk: string, folder: string): Promise<void> => {
  await DiskImages.run(spawn, "mount", "-t", "ext4", "-o", OPTIONS, "--", disk, folder)
  // Only the service gets through, wherever the folder lies.
  await chmod(folder, 0o700)
}

/** From here on it is gone from this folder, and from the kernel when its last user is gone. */
export const unmount = async (spawn: Spawn, folder: string): Promise<void> => {
  while (await isMounted(folder)) await DiskImages.run(spawn, "umount", "--lazy", "--", folder)
}
