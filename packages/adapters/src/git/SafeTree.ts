/** Reads of a working tree, by the walk of `node/DescriptorWalk`, with the files port's errors. */
import { FileNotFound, FileProtected, IsDirectory, NotADirectory } from "@slipway/domain/files/WorkingTrees"
import { Effect, type Scope } from "effect"
import { close, read as readDescriptor } from "node:fs"
import { opendir } from "node:fs/promises"
import { promisify } from "node:util"
import * as Walk from "../node/DescriptorWalk.ts"
import { FirstInOrder } from "./FirstInOrder.ts"

const closeDescriptor = ({ fd }: { readonly fd: number }): Effect.Effect<void> => Effect.promise(() => promisify(close)(fd))

const refusals = {
  not_found: () => new FileNotFound(),
  protected: () => new FileProtected(),
  not_a_directory: () => new NotADirectory(),
  is_directory: () => new IsDirectory()
} as const

/** The folder at `path` below `root`. The descriptor is released with the scope. */
export const openFolder = (root: string, path: Buffer): Effect.Effect<
  Walk.Folder,
  FileNotFound | NotADirectory | FileProtected,
  Scope.Scope
> =>
  Effect.acquireRelease(
    Effect.suspend(() => {
      const opened = Walk.openFolder(root, path)
      return typeof opened === "string" ? Effect.fail(refusals[opened]()) : Effect.succeed(opened)
    }),
    closeDescriptor
  )

/** The plain file with one name at `path` below `root`. The descriptor is released with the scope. */
export const openFile = (root: string, path: Buffer): Effect.Effect<
  Walk.OpenFile,
  FileNotFound | IsDirectory | FileProtected,
  Scope.Scope
> =>
  Effect.acquireRelease(
    Effect.suspend(() => {
      const opened = Walk.openFile(root, path)
      return typeof opened === "string" ? Effect.fail(refusals[opened]()) : Effect.succeed(opened)
    }),
    closeDescriptor
  )

const CHUNK_BYTES = 65_536

/** The bytes of `[position, end)`, at most 64 KiB of them; fewer only where the file ends. */
export const readChunk = (fd: number, position: number, end: number): Effect.Effect<Uint8Array> =>
  // Not interruptible, so that the descriptor is never closed, and its number given away, under a running read.
  Effect.uninterruptible(Effect.promise(() => {
    const buffer = new Uint8Array(Math.min(CHUNK_BYTES, end - position))
    return promisify(readDescriptor)(fd, buffer, 0, buffer.length, position).then(({ bytesRead }) => buffer.subarray(0, bytesRead))
  }))

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
export const names = (folder: Walk.Folder, most: number): Effect.Effect<{ readonly names: ReadonlyArray<Name>; readonly isCut: boolean }> =>
  Effect.promise(async () => {
    const first = new FirstInOrder(most, byOrder)
    let left = MAXIMUM_NAMES
    for await (const entry of await opendir(Walk.self(folder), { encoding: "latin1", bufferSize: 256 })) {
      if (left-- === 0) break
      if (entry.name.toLowerCase() !== ".git") first.add({ latin1: entry.name, isDirectory: entry.isDirectory() })
    }
    return { names: first.take(), isCut: first.isCut || left < 0 }
  })
