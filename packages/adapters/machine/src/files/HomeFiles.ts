/**
 * Files that a process finds in its home when it starts, written by the host into a folder that belongs to the sandbox.
 * Its processes may put links anywhere in it at any moment, so each folder is opened relative to the one above it, and no
 * name is resolved twice (as `git/SafeTree` reads).
 */
import { codeOf } from "@slipway/domain/files/rules/SystemError"
import { randomUUID } from "node:crypto"
import { constants } from "node:fs"
import { type FileHandle, mkdir, open, rename, rm } from "node:fs/promises"

/** A path that may not be written. The message is a sentence. */
export class RefusedPath extends Error {}

/** The sandbox's user, `null` when it is ours. */
type Owner = { readonly uid: number; readonly gid: number } | null

const { O_CREAT, O_DIRECTORY, O_EXCL, O_NOFOLLOW, O_RDONLY, O_WRONLY } = constants

/** The names of a relative path that stays below the home. */
const segments = (path: string): readonly [folders: ReadonlyArray<string>, file: string] => {
  const names = path.split("/")
  if (path.includes("\0") || names.some((name) => name === "" || name === "." || name === "..")) {
    throw new RefusedPath(`${JSON.stringify(path)} is not a path below the home.`)
  }
  return [names.slice(0, -1), names.at(-1) ?? ""]
}

const below = (folder: FileHandle, name: string) => `/proc/self/fd/${folder.fd}/${name}`

const give = async (handle: FileHandle, owner: Owner) => {
  if (owner !== null) await handle.chown(owner.uid, owner.gid)
}

/** The folder `name` in `folder`, made when missing. A link does not count as a folder. */
const enter = async (folder: FileHandle, name: string, owner: Owner): Promise<FileHandle> => {
  const made = await mkdir(below(folder, name), { mode: 0o700 }).then(() => true, (error: unknown) => {
    if (codeOf(error) !== "EEXIST") throw error
    return false
  })
  try {
    const entered = await open(below(folder, name), O_RDONLY | O_DIRECTORY | O_NOFOLLOW)
    if (made) await give(entered, owner)
    return entered
  } catch (error) {
    if (codeOf(error) === "ENOTDIR" || codeOf(error) === "ELOOP") {
      throw new RefusedPath(`${JSON.stringify(name)} in the home is not a folder.`)
    }
    throw error
  }
}

/** Replaces what is there, in one step: a link itself, not what it leads to. */
const replace = async (folder: FileHandle, name: string, content: string, owner: Owner): Promise<void> => {
  const draft = below(folder, `.${randomUUID()}`)
  try {
    const handle = await open(draft, O_CREAT | O_EXCL | O_NOFOLLOW | O_WRONLY, 0o600)
    try {
      await handle.writeFile(content)
      await give(handle, owner)
    } finally {
      await handle.close()
    }
    await rename(draft, below(folder, name))
  } catch (error) {
    await rm(draft, { force: true })
    if (codeOf(error) === "EISDIR") throw new RefusedPath(`${JSON.stringify(name)} in the home is a folder.`)
    throw error
  }
}

/** Writes `files` below `home`, readable by `owner` alone. */
export const write = async (home: string, owner: Owner, files: Readonly<Record<string, string>>): Promise<void> => {
  for (const [path, content] of Object.entries(files)) {
    const [folders, file] = segments(path)
    let folder = await open(home, O_RDONLY | O_DIRECTORY | O_NOFOLLOW)
    try {
      for (const name of folders) {
        const next = await enter(folder, name, owner)
        await folder.close()
        folder = next
      }
      await replace(folder, file, content, owner)
    } finally {
      await folder.close()
    }
  }
}
