/**
 * Folders of a home by descriptor: its processes may put links anywhere in it at any moment, so each folder is opened relative
 * to the one above it, and no name is resolved twice.
 */
import { codeOf, ifCode } from "@slipway/domain/files/rules/SystemError"
import { constants } from "node:fs"
import { type FileHandle, lstat, mkdir, open as openPath } from "node:fs/promises"
import { join } from "node:path"

const { O_NOCTTY, O_NOFOLLOW, O_NONBLOCK, O_RDONLY } = constants

/** For files of any kind: opening a FIFO must not wait for its writer. */
const FLAGS = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY

/** Errors of opening a special file, or a file without read permission. */
const CLOSED = ["EACCES", "EPERM", "ENXIO", "ENODEV"]

/** The sandbox's user, `null` if it is the user of this process. */
export type Owner = { readonly uid: number; readonly gid: number } | null

export interface Folder {
  readonly handle: FileHandle
  /** Used where there is no `/proc` (macOS): there a swapped folder is not noticed, but no agent is isolated there either. */
  readonly path: string
}

export const self = ({ handle, path }: Folder): string => process.platform === "linux" ? `/proc/self/fd/${handle.fd}` : path

export const below = (folder: Folder, name: string): string => join(self(folder), name)

const noFolder = () => Object.assign(new Error("ENOTDIR: not a directory"), { code: "ENOTDIR" })

/**
 * A link is no folder, wherever it leads. Whether it is one is asked of the descriptor: with O_DIRECTORY, gVisor (2022-12) follows a link
 * in spite of O_NOFOLLOW.
 */
const openFolder = async (name: string, path: string): Promise<Folder> => {
  const handle = await openPath(name, FLAGS).catch(async (error: unknown) => {
    if (CLOSED.includes(String(codeOf(error))) && !(await lstat(name)).isDirectory()) throw noFolder()
    throw error
  })
  if ((await handle.stat()).isDirectory()) return { handle, path }
  await handle.close()
  throw noFolder()
}

const root = (path: string): Promise<Folder> => openFolder(path, path)

const enter = (folder: Folder, name: string): Promise<Folder> => openFolder(below(folder, name), join(folder.path, name))

/** The folder at the name, made for `owner` if it is missing. Throws `ENOTDIR` or `ELOOP` for any other entry. */
export const enterOrMake = async (folder: Folder, name: string, owner: Owner): Promise<Folder> => {
  const made = await mkdir(below(folder, name), { mode: 0o700 }).then(() => true, ifCode(["EEXIST"], false))
  const entered = await enter(folder, name)
  try {
    if (made && owner !== null) await entered.handle.chown(owner.uid, owner.gid)
    return entered
  } catch (error) {
    await entered.handle.close()
    throw error
  }
}

/** Opens the entry of any kind. The caller asks the descriptor whether it is a folder. */
export const open = async (folder: Folder, name: string): Promise<Folder> => ({
  handle: await openPath(below(folder, name), FLAGS),
  path: join(folder.path, name)
})

/** The folder at the end of `names`, which `step` enters one by one. */
export const walk = async (
  from: string,
  names: ReadonlyArray<string>,
  step: (folder: Folder, name: string) => Promise<Folder> = enter
): Promise<Folder> => {
  let folder = await root(from)
  for (const name of names) {
    try {
      const next = await step(folder, name)
      await folder.handle.close()
      folder = next
    } catch (error) {
      await folder.handle.close()
      throw error
    }
  }
  return folder
}
