/** Hands working trees to the user of their sandbox. The host goes on reading and deleting them as root. */
import { ifAbsent } from "@slipway/domain/files/rules/SystemError"
import { chown, lstat, opendir } from "node:fs/promises"
import { join } from "node:path"
import { finish } from "../node/spawner/Finish.ts"
import type { Spawn } from "../node/spawner/Spawn.ts"

export interface User {
  readonly uid: number
  readonly gid: number
}

/**
 * Gives the workspace to `user`, and every tree in it that is not theirs yet. A tree's own folder changes hands last
 * (`chown -R` comes back to it at the end), so what a crash left halfway is done again. Links are never followed.
 */
export const give = async (spawn: Spawn, workspace: string, user: User): Promise<void> => {
  if ((await lstat(workspace)).uid !== user.uid) await chown(workspace, user.uid, user.gid)
  const strange: Array<string> = []
  // One after the other: a sandbox may have made a million of them.
  for await (const { name } of await opendir(workspace)) {
    const path = join(workspace, name)
    // Only files of an agent vanish at this point.
    const owner = await lstat(path).then(({ uid }) => uid, ifAbsent(user.uid))
    if (owner !== user.uid) strange.push(path)
  }
  if (strange.length === 0) return
  const args = ["-R", "-h", "-P", `${user.uid}:${user.gid}`, "--", ...strange]
  const { code, stderr } = await finish(spawn, "chown", args, { PATH: "/usr/bin:/bin" })
  if (code !== 0) throw new Error(`chown failed: ${stderr.slice(0, 200)}`)
}
