/** Small files of the runner's own, root's alone, that are on the disk whole or as they were. */
import { closeSync, fsyncSync, openSync, readFileSync, renameSync, writeSync } from "node:fs"
import { join } from "node:path"

const sync = (path: string, write?: string): void => {
  const fd = openSync(path, write === undefined ? "r" : "w", 0o600)
  try {
    if (write !== undefined) writeSync(fd, write)
    fsyncSync(fd)
  } finally {
    closeSync(fd)
  }
}

/** On the disk when it returns. */
export const write = (folder: string, name: string, text: string): void => {
  const making = join(folder, `${name}.making`)
  sync(making, text)
  renameSync(making, join(folder, name))
  sync(folder)
}

/** `null`: there is none. */
export const read = (folder: string, name: string): string | null => {
  try {
    return readFileSync(join(folder, name), "utf8")
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return null
    throw error
  }
}
