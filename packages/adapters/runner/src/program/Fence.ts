/** The highest fence that a runner has seen, in a file of its own, so that the runner keeps its promise after a restart. */
import { codeOf } from "@slipway/domain/files/rules/SystemError"
import * as DurableFile from "@slipway/machine/node/DurableFile"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { isCount } from "../wire/Wire.ts"

const NAME = "fence"

/** 0 if there is no file. Throws if the file holds no number: an older worker might be let in again. */
export const read = (folder: string): number => {
  const file = join(folder, NAME)
  let text: string
  try {
    text = readFileSync(file, "utf8")
  } catch (error) {
    if (codeOf(error) === "ENOENT") return 0
    throw error
  }
  const fence = /^\d+\n$/u.test(text) ? Number(text) : undefined
  if (!isCount(fence)) throw new Error(`${file} holds no fence`)
  return fence
}

/** On the disk when it returns, complete or unchanged. */
export const write = (folder: string, fence: number): void => DurableFile.replace(join(folder, NAME), `${fence}\n`)
