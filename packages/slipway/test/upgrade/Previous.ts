/** vitest globalSetup: the release before, with the packages that it asks for, in a folder of its own. */
import { execFileSync } from "node:child_process"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import path from "node:path"
import type { TestProject } from "vitest/node"

declare module "vitest" {
  interface ProvidedContext {
    /** Folder of the release before. */
    readonly previous: string
  }
}

/** The commit of the release before: whoever makes a release names the one that was made last. */
const PREVIOUS = "2213f8dabda50bc2c66d72cc001cd0ca466931d0"

const root = path.resolve(import.meta.dirname, "../../../..")

const unpack = (folder: string) => {
  const archive = execFileSync("git", ["archive", PREVIOUS], { cwd: root, maxBuffer: 2 ** 28 })
  execFileSync("tar", ["-x", "-C", folder], { input: archive })
  execFileSync("npm", ["ci", "--no-audit", "--no-fund"], { cwd: folder, stdio: "inherit" })
}

export default (project: TestProject) => {
  const given = process.env["UPGRADE_FROM"]
  const folder = given ?? mkdtempSync(path.join(tmpdir(), "slipway-previous-"))
  const remove = () => given === undefined && rmSync(folder, { recursive: true, force: true })
  try {
    if (given === undefined) unpack(folder)
  } catch (error) {
    remove()
    throw error
  }
  project.provide("previous", folder)
  return remove
}
