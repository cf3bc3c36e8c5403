/** The name of this worker's machines, where other workers make machines too. */
import { codeOf } from "@slipway/domain/files/rules/SystemError"
import { randomBytes } from "node:crypto"
import { linkSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"

const read = (file: string): string | undefined => {
  try {
    const name = readFileSync(file, "utf8").trim()
    if (!/^[\da-f]{16}$/u.test(name)) throw new Error(`${file} holds no name`)
    return name
  } catch (error) {
    if (codeOf(error) === "ENOENT") return undefined
    throw error
  }
}

/** The name in this folder, drawn if it is missing. Processes that start at once get the same. Throws errors of the disk. */
export const of = (directory: string): string => {
  mkdirSync(directory, { recursive: true, mode: 0o700 })
  const file = join(directory, "installation")
  const known = read(file)
  if (known !== undefined) return known
  const draft = `${file}.${process.pid}`
  writeFileSync(draft, `${randomBytes(8).toString("hex")}\n`, { mode: 0o600, flush: true })
  try {
    linkSync(draft, file)
  } catch (error) {
    if (codeOf(error) !== "EEXIST") throw error
  } finally {
    rmSync(draft, { force: true })
  }
  const drawn = read(file)
  if (drawn === undefined) throw new Error(`${file} cannot be kept`)
  return drawn
}
