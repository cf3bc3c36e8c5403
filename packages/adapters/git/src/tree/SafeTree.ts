/** Reads of a working tree, by the walk of `node/DescriptorWalk`, with the files port's errors. */
import { FileNotFound, FileProtected, IsDirectory, NotADirectory } from "@slipway/domain/files/ports/WorkingTrees"
import * as Walk from "@slipway/machine/node/DescriptorWalk"
import { Effect, type Scope } from "effect"
import { close, read as readDescriptor } from "node:fs"
import { promisify } from "node:util"

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
