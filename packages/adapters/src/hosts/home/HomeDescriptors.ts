/**
 * Folders of a home by descriptor: its processes may put links anywhere in it at any moment, so each folder is opened relative
 * to the one above it, and no name is resolved twice.
 */
import { constants } from "node:fs"
import { type FileHandle, open } from "node:fs/promises"
import { join } from "node:path"

const { O_DIRECTORY, O_NOFOLLOW, O_RDONLY } = constants

export interface Folder {
  readonly handle: FileHandle
  /** Used where there is no `/proc` (macOS): there a swapped folder is not noticed, but no agent is isolated there either. */
  readonly path: string
}

export const self = ({ handle, path }: Folder): string => process.platform === "linux" ? `/proc/self/fd/${handle.fd}` : path

export const below = (folder: Folder, name: string): string => join(self(folder), name)

/** A link is no folder, wherever it leads. */
const openFolder = async (name: string, path: string): Promise<Folder> => ({
  handle: await open(name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW),
  path
})

export const root = (path: string): Promise<Folder> => openFolder(path, path)

export const enter = (folder: Folder, name: string): Promise<Folder> => openFolder(below(folder, name), join(folder.path, name))

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
