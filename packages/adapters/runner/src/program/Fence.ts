/** The highest fence that a runner has seen, on its disk: what it promised before a restart it keeps after it. */
import { join } from "node:path"
import { isCount } from "../wire/Wire.ts"
import * as Durable from "./Durable.ts"

const NAME = "fence"

/** 0 where none was seen. Throws where the file says no number: an older worker might be let in again. */
export const read = (folder: string): number => {
  const text = Durable.read(folder, NAME)
  if (text === null) return 0
  const fence = /^\d+\n$/u.test(text) ? Number(text) : undefined
  if (!isCount(fence)) throw new Error(`${join(folder, NAME)} holds no fence`)
  return fence
}

/** On the disk when it returns, whole or as it was. */
export const write = (folder: string, fence: number): void => Durable.write(folder, NAME, `${fence}\n`)
