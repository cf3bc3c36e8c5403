/** Bytes of checkpoints on their way in and out: bounded, compressed by zstd, in pieces of one size. */
import { CheckpointNotFound, CheckpointTooLarge, MAX_CHECKPOINT_BYTES } from "@slipway/domain/sandbox/ports/Checkpoints"
import { Deferred, Effect, Stream } from "effect"
import type { Duplex } from "node:stream"
import { constants, createZstdCompress, createZstdDecompress } from "node:zlib"

/** Bytes of a piece: each but the last has as many. */
export const PIECE_BYTES = 2 ** 20

/** Bytes of zlib's buffers: each takes a way to another thread and back. */
const CHUNK_BYTES = 2 ** 17

/** Waits while zlib is busy. After a failure zlib never becomes ready again: the reader sees the failure and interrupts this. */
const write = (duplex: Duplex, chunk: Uint8Array): Effect.Effect<void> =>
  Effect.callback((resume) => {
    if (duplex.write(chunk)) return resume(Effect.void)
    const onDrain = () => resume(Effect.void)
    duplex.once("drain", onDrain)
    return Effect.sync(() => void duplex.off("drain", onDrain))
  })

/** The content as zlib changes it, read and written as fast as the slower side. */
const through = <E, R, E2>(
  content: Stream.Stream<Uint8Array, E, R>,
  make: () => Duplex,
  onError: (error: unknown) => E2
): Stream.Stream<Uint8Array, E | E2, R> =>
  Stream.unwrap(Effect.gen(function*() {
    const duplex = yield* Effect.acquireRelease(Effect.sync(make), (duplex) => Effect.sync(() => void duplex.destroy()))
    // The reader sees the error: without a listener it would end the process if it came before the first read.
    duplex.on("error", () => {})
    const failed = yield* Deferred.make<never, E>()
    yield* Stream.runForEach(content, (chunk) => write(duplex, chunk)).pipe(
      Effect.andThen(Effect.sync(() => void duplex.end())),
      Effect.catchCause((cause) => Deferred.failCause(failed, cause)),
      Effect.forkScoped
    )
    return Stream.fromAsyncIterable<Uint8Array, E2>(duplex, onError).pipe(Stream.interruptWhen(Deferred.await(failed)))
  }))

/** As they come, `told` how many they were; no more than a checkpoint may have. */
export const bounded = <E, R>(content: Stream.Stream<Uint8Array, E, R>, told: (size: number) => void) =>
  Stream.mapAccumEffect(content, () => 0, (size, chunk) => {
    const next = size + chunk.length
    told(next)
    return next > MAX_CHECKPOINT_BYTES ? Effect.fail(new CheckpointTooLarge()) : Effect.succeed([next, [chunk]] as const)
  })

/** With a checksum, so that damage is found. */
export const compress = <E, R>(content: Stream.Stream<Uint8Array, E, R>): Stream.Stream<Uint8Array, E, R> =>
  through(content, () => createZstdCompress({ chunkSize: CHUNK_BYTES, params: { [constants.ZSTD_c_checksumFlag]: 1 } }), (error) => {
    throw error
  })

/** Fails unless they are all of `size` bytes. */
export const decompress = <E, R>(
  pieces: Stream.Stream<Uint8Array, E, R>,
  size: number
): Stream.Stream<Uint8Array, E | CheckpointNotFound, R> =>
  Stream.suspend(() => {
    let read = 0
    return through(pieces, () => createZstdDecompress({ chunkSize: CHUNK_BYTES }), () => new CheckpointNotFound()).pipe(
      Stream.tap((chunk) => Effect.sync(() => void (read += chunk.length))),
      Stream.concat(Stream.suspend(() => read === size ? Stream.empty : Stream.fail(new CheckpointNotFound())))
    )
  })

/** The same bytes in pieces of {@link PIECE_BYTES}. */
export const inPieces = <E, R>(content: Stream.Stream<Uint8Array, E, R>): Stream.Stream<Uint8Array, E, R> =>
  Stream.mapAccum(
    content,
    (): { readonly piece: Uint8Array; readonly length: number } => ({ piece: new Uint8Array(PIECE_BYTES), length: 0 }),
    ({ length, piece }, chunk) => {
      const whole: Array<Uint8Array> = []
      for (let at = 0; at < chunk.length;) {
        const part = chunk.subarray(at, at + PIECE_BYTES - length)
        piece.set(part, length)
        length += part.length
        at += part.length
        if (length < PIECE_BYTES) continue
        whole.push(piece)
        piece = new Uint8Array(PIECE_BYTES)
        length = 0
      }
      return [{ piece, length }, whole]
    },
    { onHalt: ({ length, piece }) => length === 0 ? [] : [piece.subarray(0, length)] }
  )
