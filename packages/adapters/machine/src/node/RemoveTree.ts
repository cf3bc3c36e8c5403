import { ifAbsent } from "@slipway/domain/files/rules/SystemError"
import { access, constants, lstat } from "node:fs/promises"
import { dirname } from "node:path"
import { finish } from "./spawner/Finish.ts"
import type { Spawn } from "./spawner/Spawn.ts"

/**
 * Deletes a folder, whatever its owner made of it: deeper than any path can name, or closed to reading. Links are not
 * followed. Safe to repeat.
 */
export const removeTree = async (spawn: Spawn, path: string): Promise<void> => {
  const run = async (program: string, ...args: ReadonlyArray<string>) =>
    (await finish(spawn, program, args, { PATH: process.env["PATH"] ?? "/usr/bin:/bin" })).code
  const exists = await lstat(path).then(() => true, ifAbsent(false))
  if (!exists || await run("rm", "-rf", "--", path) === 0) return
  await run("chmod", "-R", "u+rwx", "--", path)
  const code = await run("rm", "-rf", "--", path)
  if (code === 0) return
  // Says so itself where the disk is read-only.
  await access(dirname(path), constants.W_OK)
  throw new Error(`a working tree could not be deleted (rm exited with ${code})`)
}
