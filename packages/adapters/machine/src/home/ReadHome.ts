/** Reads files of a home, whatever its owner made of it. */
import { codeOf } from "@slipway/domain/files/rules/SystemError"
import type { Stats } from "node:fs"
import { type FileHandle, opendir } from "node:fs/promises"
import { areApart, isPath, MAXIMUM_DEPTH, MAXIMUM_FILES, MAXIMUM_PIECE_BYTES, Writer } from "./HomeArchive.ts"
import { type Folder, open, self, walk } from "./HomeDescriptors.ts"

/** More than may be read. */
export class TooLarge extends Error {}

/** It took longer than it may. */
export class TooSlow extends Error {}

const WITHIN_MILLIS = 60_000

/** Names that are looked at, of whatever. */
const MAXIMUM_NAMES = 100_000

/** Gone, something else by now, or closed to us: nothing that could be read. */
const NOT_THERE = ["ENOENT", "ENOTDIR", "ELOOP", "EACCES", "EPERM", "ENXIO", "ENODEV", "ENAMETOOLONG"]

const orSkipped = async <A>(opened: Promise<A>): Promise<A | undefined> =>
  opened.catch((error: unknown) => {
    if (NOT_THERE.includes(String(codeOf(error)))) return undefined
    throw error
  })

/** The remaining budget of one call. */
interface Left {
  bytes: number
  files: number
  names: number
}

/** As an archive. Throws {@link TooLarge} and {@link TooSlow}. */
export async function* read(
  home: string,
  paths: ReadonlyArray<string>,
  { maximumBytes, withinMillis = WITHIN_MILLIS }: { readonly maximumBytes: number; readonly withinMillis?: number }
): AsyncGenerator<Uint8Array, void> {
  if (!paths.every(isPath) || !areApart(paths)) throw new Error(`${JSON.stringify(paths)} are no paths below the home`)
  const writer = new Writer()
  const left: Left = { bytes: maximumBytes, files: MAXIMUM_FILES, names: MAXIMUM_NAMES }
  const until = performance.now() + withinMillis
  const counted = (bytes: Buffer): Buffer => {
    if (performance.now() > until) throw new TooSlow()
    left.bytes -= bytes.length
    if (left.bytes < 0) throw new TooLarge()
    return bytes
  }

  async function* file(handle: FileHandle, { size }: Stats, path: string): AsyncGenerator<Uint8Array, void> {
    if (size > left.bytes || --left.files < 0) throw new TooLarge()
    yield counted(writer.file(path))
    for (let position = 0; position < size;) {
      const buffer = Buffer.allocUnsafe(Math.min(MAXIMUM_PIECE_BYTES, size - position))
      const { bytesRead } = await handle.read(buffer, 0, buffer.length, position)
      if (bytesRead === 0) break
      position += bytesRead
      yield counted(writer.piece(buffer.subarray(0, bytesRead)))
    }
  }

  async function* all(folder: Folder, path: string, depth: number): AsyncGenerator<Uint8Array, void> {
    const names: Array<string> = []
    for await (const { name } of await opendir(self(folder))) {
      if (--left.names < 0) throw new TooLarge()
      names.push(name)
    }
    for (const name of names.sort()) yield* entry(folder, name, `${path}/${name}`, depth)
  }

  async function* entry(folder: Folder, name: string, path: string, depth: number): AsyncGenerator<Uint8Array, void> {
    if (depth > MAXIMUM_DEPTH) throw new TooLarge()
    if (!isPath(path)) return
    const found = await orSkipped(open(folder, name))
    if (found === undefined) return
    try {
      const stats = await found.handle.stat()
      if (stats.isDirectory()) yield* all(found, path, depth + 1)
      // A second name may be outside of the home.
      else if (stats.isFile() && stats.nlink === 1) yield* file(found.handle, stats, path)
    } finally {
      await found.handle.close()
    }
  }

  yield counted(writer.begin())
  for (const path of paths) {
    yield counted(writer.area(path))
    const names = path.split("/")
    const folder = await orSkipped(walk(home, names.slice(0, -1)))
    if (folder === undefined) continue
    try {
      yield* entry(folder, names.at(-1) ?? "", path, names.length)
    } finally {
      await folder.handle.close()
    }
  }
  yield counted(writer.end())
}
