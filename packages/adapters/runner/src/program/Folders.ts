/** The folders that a sandbox has in its machine, made when it starts. What is in them stays. */
import { chmodSync, chownSync, lstatSync, mkdirSync } from "node:fs"
import { dirname } from "node:path"
import type { Settings } from "../wire/RunnerSettings.ts"

const own = (path: string, user: Settings["user"], mode: number): void => {
  mkdirSync(path, { recursive: true, mode })
  // Only new folders: the content of an older one belongs to the user already, and links are left alone.
  if (user === undefined || !lstatSync(path).isDirectory() || lstatSync(path).uid === user.uid) return
  chownSync(path, user.uid, user.gid)
  chmodSync(path, mode)
}

export const make = ({ folders, home, state, tree, user }: Settings): void => {
  mkdirSync(state, { recursive: true, mode: 0o700 })
  for (const path of [tree, ...folders ?? []]) own(path, user, 0o755)
  if (home === undefined) return
  mkdirSync(dirname(home), { recursive: true })
  // Through which its user passes, and where it writes nothing.
  if (user !== undefined) chmodSync(dirname(home), 0o711)
  own(home, user, 0o700)
}
