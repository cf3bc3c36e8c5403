/** The highest fence that a runner has seen, on its disk: what it promised before a restart it keeps after it. */
import { closeSync, fsyncSync, openSync, readFileSync, renameSync, writeSync } from "node:fs"
import { join } from "node:path"
import { isCount } from "../Wire.ts"

const NAME = "fence"

/** 0 where none was seen. Throws where the file says no number: an older worker might be let in again. */
export const read = (folder: string): number => {
  let text: string
  try {
    text = readFileSync(join(folder, NAME), "utf8")
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return 0
    throw error
  }
  const fence = /^\d+\n$/u.test(text) ? Number(text) : undefined
  if (!isCount(fence)) throw new Error(`${join(folder, NAME)} holds no fence`)
  return fence
}

const sync = (path: string, write?: string): void => {
  const fd = openSync(path, write === undefined ? "r" : "w", 0o600)
  try {
    if (write !== undefined) writeSync(fd, write)
    fsyncSync(fd)
  } finally {
    closeSync(fd)
  }
}

/** On the disk when it returns, whole or as it was. */
export const write = (folder: string, fence: number): void => {
  const making = join(folder, `${NAME}.making`)
  sync(making, `${fence}\n`)
  renameSync(making, join(folder, NAME))
  sync(folder)
}
