/** vitest globalSetup: the versions before, each with the packages that it asks for, in a folder of its own. */
import { execFileSync } from "node:child_process"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import path from "node:path"
import type { TestProject } from "vitest/node"

declare module "vitest" {
  interface ProvidedContext {
    /** Folder of the release before. */
    readonly previous: string
    /** Folder of a version between that and this one, which people run too. */
    readonly since: string
  }
}

/** The commit of the release before: each release sets the commit of the last one. */
const PREVIOUS = "2213f8dabda50bc2c66d72cc001cd0ca466931d0"

/** The commit of the version that people ran since. */
const SINCE = "7d7d40eba0aeb8c25dad67e017f4da9347f8951b"

const root = path.resolve(import.meta.dirname, "../../../../..")

const unpack = (folder: string, commit: string) => {
  const archive = execFileSync("git", ["archive", commit], { cwd: root, maxBuffer: 2 ** 28 })
  execFileSync("tar", ["-x", "-C", folder], { input: archive })
  execFileSync("npm", ["ci", "--no-audit", "--no-fund"], { cwd: folder, stdio: "inherit" })
}

/** Its folder, and what removes that. `given`: a checkout with its packages installed. */
const release = (commit: string, given: string | undefined) => {
  const folder = given ?? mkdtempSync(path.join(tmpdir(), "slipway-previous-"))
  const remove = () => given === undefined && rmSync(folder, { recursive: true, force: true })
  try {
    if (given === undefined) unpack(folder, commit)
  } catch (error) {
    remove()
    throw error
  }
  return { folder, remove }
}

export default (project: TestProject) => {
  const previous = release(PREVIOUS, process.env["UPGRADE_FROM"])
  const since = release(SINCE, process.env["UPGRADE_SINCE"])
  project.provide("previous", previous.folder)
  project.provide("since", since.folder)
  return () => {
    previous.remove()
    since.remove()
  }
}
