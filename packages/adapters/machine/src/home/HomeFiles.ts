/** Writes the files that a process finds in its home when it starts. Processes of the sandbox may put links into it at any moment. */
import { codeOf, ifCode } from "@slipway/domain/files/rules/SystemError"
import { randomUUID } from "node:crypto"
import { constants } from "node:fs"
import { open, rename, rm } from "node:fs/promises"
import { isPath } from "./HomeArchive.ts"
import { below, enterOrMake, type Folder, type Owner, walk } from "./HomeDescriptors.ts"

/** A path that may not be written. The message is a sentence. */
export class RefusedPath extends Error {}

const { O_CREAT, O_EXCL, O_NOFOLLOW, O_WRONLY } = constants

/** The folder `name` in `folder`, made if it is missing. A link does not count as a folder. */
const enter = (owner: Owner) => (folder: Folder, name: string): Promise<Folder> =>
  enterOrMake(folder, name, owner).catch((error: unknown) => {
    if (codeOf(error) !== "ENOTDIR" && codeOf(error) !== "ELOOP") throw error
    throw new RefusedPath(`${JSON.stringify(name)} in the home is not a folder.`)
  })

/** Makes a folder in the home if nothing has its name. An entry of another kind stays: the sandbox made it. */
export const makeFolder = async (home: string, name: string, owner: Owner): Promise<void> => {
  const folder = await walk(home, [])
  try {
    const made = await enterOrMake(folder, name, owner).catch(ifCode(["ENOTDIR", "ELOOP", "EACCES"], null))
    await made?.handle.close()
  } finally {
    await folder.handle.close()
  }
}

/** Replaces the entry in one step: a link itself, not its target. */
const replace = async (folder: Folder, name: string, content: string, owner: Owner): Promise<void> => {
  const draft = below(folder, `.${randomUUID()}`)
  try {
    const handle = await open(draft, O_CREAT | O_EXCL | O_NOFOLLOW | O_WRONLY, 0o600)
    try {
      await handle.writeFile(content)
      if (owner !== null) await handle.chown(owner.uid, owner.gid)
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
    if (!isPath(path)) throw new RefusedPath(`${JSON.stringify(path)} is not a path below the home.`)
    const names = path.split("/")
    const folder = await walk(home, names.slice(0, -1), enter(owner))
    try {
      await replace(folder, names.at(-1) ?? "", content, owner)
    } finally {
      await folder.handle.close()
    }
  }
}
