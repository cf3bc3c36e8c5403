/** Hands working trees to the user of their sandbox. The host goes on reading and deleting them as root. */
import { execFile } from "node:child_process"
import { chown, lstat, readdir } from "node:fs/promises"
import { join } from "node:path"
import { promisify } from "node:util"

export interface User {
  readonly uid: number
  readonly gid: number
}

/**
 * Gives the workspace to `user`, and every tree in it that is not theirs yet. A tree's own folder changes hands last
 * (`chown -R` comes back to it at the end), so what a crash left halfway is done again. Links are never followed.
 */
export const give = async (workspace: string, user: User): Promise<void> => {
  if ((await lstat(workspace)).uid !== user.uid) await chown(workspace, user.uid, user.gid)
  const entries = await readdir(workspace)
  const strange = (await Promise.all(entries.map(async (name) => {
    const path = join(workspace, name)
    // What vanishes now is an agent's.
    const owner = await lstat(path).then(({ uid }) => uid, () => user.uid)
    return owner === user.uid ? [] : [path]
  }))).flat()
  if (strange.length > 0) {
    await promisify(execFile)("chown", ["-R", "-h", "-P", `${user.uid}:${user.gid}`, "--", ...strange], { env: { PATH: "/usr/bin:/bin" } })
  }
}
