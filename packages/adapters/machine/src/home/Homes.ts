/** `readHome` and `writeHome` of hosts that have homes on disks of this machine. */
import { FrameError, Reader } from "@slipway/domain/files/rules/Frames"
import { type FilePart, HomeDamaged, HomeTooLarge, HostError } from "@slipway/domain/sandbox/ports/SandboxHost"
import { Effect, Stream } from "effect"
import { reason } from "../host/HostAttempt.ts"
import { removeTree } from "../node/RemoveTree.ts"
import { Spawn } from "../node/spawner/Spawn.ts"
import { records } from "./HomeArchive.ts"
import * as ReadHome from "./ReadHome.ts"
import * as WriteHome from "./WriteHome.ts"

/** `home` need not be there. */
export const read = (
  home: string,
  paths: ReadonlyArray<string>,
  options: { readonly maximumBytes: number }
): Stream.Stream<Uint8Array, HostError | HomeTooLarge> =>
  Stream.fromAsyncIterable({ [Symbol.asyncIterator]: () => ReadHome.read(home, paths, options) }, (error) => {
    if (error instanceof ReadHome.TooLarge) return new HomeTooLarge(options)
    const detail = error instanceof ReadHome.TooSlow ? "Reading the home took too long." : `The home cannot be read (${reason(error)}).`
    return new HostError({ operation: "read", detail, retryable: true })
  })

/** The files of an archive of one path. Its checksum was made by this process, or is checked by the client of a runner. */
export const filesIn = <E>(archive: Stream.Stream<Uint8Array, E>): Stream.Stream<FilePart, E | HostError> =>
  Stream.suspend(() => {
    const reader = new Reader(records())
    return archive.pipe(
      Stream.mapEffect((chunk) =>
        Effect.try({
          try: () =>
            Array.from(reader.take(chunk)).flatMap((record): ReadonlyArray<FilePart> =>
              record.tag === "piece" ? [{ bytes: record.bytes }] : record.tag === "file" ? [{ path: record.path }] : []
            ),
          catch: (error) => new HostError({ operation: "read", detail: `The home cannot be read (${reason(error)}).`, retryable: true })
        })
      ),
      Stream.flattenIterable
    )
  })

const failed = (error: unknown) =>
  error instanceof FrameError
    ? new HomeDamaged({ detail: error.message })
    : new HostError({ operation: "write", detail: `The home cannot be written to (${reason(error)}).`, retryable: true })

/** Home and the folder beside it are there. */
export const write = <E>(
  options: Omit<Parameters<typeof WriteHome.make>[0], "remove">,
  content: Stream.Stream<Uint8Array, E>
): Effect.Effect<void, E | HostError | HomeDamaged> =>
  Effect.acquireUseRelease(
    Effect.map(Spawn, (spawn) => WriteHome.make({ ...options, remove: (path) => removeTree(spawn, path) })),
    // Each step runs to its end: nothing is closed or deleted under a running one.
    (writing) => {
      const step = (run: () => Promise<void>) => Effect.uninterruptible(Effect.tryPromise({ try: run, catch: failed }))
      return step(writing.open).pipe(
        Effect.andThen(Stream.runForEach(content, (bytes) => step(() => writing.take(bytes)))),
        Effect.andThen(step(writing.finish))
      )
    },
    // The next call deletes the files that are left.
    (writing) =>
      Effect.catch(
        Effect.tryPromise({ try: writing.close, catch: reason }),
        (reason) => Effect.logWarning("files beside a home are left", { reason })
      )
  )
