/**
 * Runs the command as after another start of the machine: for it and its children alone the kernel has the id that is in `BOOT_ID_FILE`.
 * It is started as the command is, in its place. Needs root.
 */
import { execPath, execve, argv, env } from "node:process"

const command = new URL("../../../bin/slipway.js", import.meta.url).pathname
const enter = "mount --bind \"$BOOT_ID_FILE\" /proc/sys/kernel/random/boot_id && exec \"$@\""
// A file system that is unmounted outside is unmounted inside too.
execve(
  "/usr/bin/unshare",
  ["unshare", "--mount", "--propagation", "slave", "sh", "-c", enter, "sh", execPath, command, ...argv.slice(2)],
  env
)
