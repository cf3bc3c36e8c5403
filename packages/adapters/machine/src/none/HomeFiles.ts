/** Files that a process finds in its home when it starts. The owner of the home may have put links anywhere in it. */
import { codeOf } from "@slipway/domain/files/rules/SystemError"
import { randomUUID } from "node:crypto"
import { constants } from "node:fs"
import { lstat, mkdir, open, rename, rm } from "node:fs/promises"
import { dirname, join } from "node:path"

/** A path that may not be written. The message is a sentence. */
export class RefusedPath extends Error {}

/** The names of a relative path that stays below the home. */
const segments = (path: string): ReadonlyArray<string> => {
  const names = path.split("/")
  if (path.includes("\0") || names.some((name) => name === "" || name === "." || name === "..")) {
    throw new RefusedPath(`${JSON.stringify(path)} is not a path below the home.`)
  }
  return names
}

/** Makes the folder if it is missing. A link does not count as a folder. */
const enter = async (folder: string) => {
  await mkdir(folder, { mode: 0o700 }).catch((error: unknown) => {
    if (codeOf(error) !== "EEXIST") throw error
  })
  if (!(await lstat(folder)).isDirectory()) throw new RefusedPath(`${folder} is not a folder.`)
}

/** Replaces what is there, in one step: a link itself, not what it leads to. */
const replace = async (file: string, content: string) => {
  const draft = join(dirname(file), `.${randomUUID()}`)
  const { O_CREAT, O_EXCL, O_NOFOLLOW, O_WRONLY } = constants
  const handle = await open(draft, O_CREAT | O_EXCL | O_NOFOLLOW | O_WRONLY, 0o600)
  try {
    await handle.writeFile(content)
    await handle.close()
    await rename(draft, file)
  } catch (error) {
    await handle.close()
    await rm(draft, { force: true })
    throw error
  }
}

/** Writes `files` below `home`, readable by its owner alone. */
export const write = async (home: string, files: Readonly<Record<string, string>>): Promise<void> => {
  for (const [path, content] of Object.entries(files)) {
    const names = segments(path)
    let folder = home
    for (const name of names.slice(0, -1)) {
      folder = join(folder, name)
      await enter(folder)
    }
    await replace(join(folder, names.at(-1) ?? ""), content)
  }
}
