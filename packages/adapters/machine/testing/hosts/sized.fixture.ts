/** Whether this machine makes folders of a size that the kernel keeps, found without the code under test. */
import { spawnSync } from "node:child_process"

const MAKE = `
folder=$(mktemp -d) && trap 'umount "$folder/mounted" 2>/dev/null; rm -r "$folder"' EXIT
mkdir "$folder/mounted" && truncate -s 4M "$folder/disk" && mkfs.ext4 -q "$folder/disk" && mount -o loop "$folder/disk" "$folder/mounted"
`

const look = (): string | undefined => {
  if (process.platform !== "linux" || process.getuid?.() !== 0) return "needs root on Linux, to mount"
  const { status, stderr } = spawnSync("sh", ["-ec", MAKE], { encoding: "utf8" })
  return status === 0 ? undefined : `needs mkfs.ext4 and loop devices: ${stderr.trim().split("\n").at(-1)}`
}

/** Why there are none; `undefined`: there are. */
export const lacking: string | undefined = look()

if (lacking !== undefined) process.stderr.write(`NOT TESTED: folders of a size that the kernel keeps; ${lacking}\n`)
