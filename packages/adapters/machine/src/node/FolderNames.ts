/** The names in a folder that its owner may fill without end. */
import { opendir } from "node:fs/promises"
import * as Walk from "./DescriptorWalk.ts"
import { FirstInOrder } from "./FirstInOrder.ts"

/** More names than this are not even looked at. */
const MAXIMUM_NAMES = 200_000

export interface Name {
  /** A character for each byte: names need not be text. */
  readonly latin1: string
  readonly isDirectory: boolean
}

/** Directories first, then byte order. */
export const byOrder = (a: Name, b: Name): number =>
  Number(b.isDirectory) - Number(a.isDirectory) || (a.latin1 < b.latin1 ? -1 : Number(a.latin1 > b.latin1))

/**
 * The first names in a folder, as many as asked for, and whether there are more. Each is a directory as far as the file system
 * says so. Without `.`, `..` and `.git`.
 */
export const first = async (
  folder: Walk.Folder,
  most: number
): Promise<{ readonly names: ReadonlyArray<Name>; readonly isCut: boolean }> => {
  const found = new FirstInOrder(most, byOrder)
  let left = MAXIMUM_NAMES
  for await (const entry of await opendir(Walk.self(folder), { encoding: "latin1", bufferSize: 256 })) {
    if (left-- === 0) break
    if (entry.name.toLowerCase() !== ".git") found.add({ latin1: entry.name, isDirectory: entry.isDirectory() })
  }
  return { names: found.take(), isCut: found.isCut || left < 0 }
}
