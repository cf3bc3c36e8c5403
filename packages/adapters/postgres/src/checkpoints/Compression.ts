/** Bytes of checkpoints on their way in and out: bounded, compressed by zstd, in pieces of one size. */
import * as NodeStream from "@effect/platform-node/NodeStream"
import { CheckpointNotFound, CheckpointTooLarge, MAX_CHECKPOINT_BYTES } from "@slipway/domain/sandbox/ports/Checkpoints"
import { Effect, Stream } from "effect"
import { constants, createZstdCompress, createZstdDecompress } from "node:zlib"

/** Bytes of a piece: each but the last has as many. */
export const PIECE_BYTES = 2 ** 20

/** Reads of zlib's stream that are handed on at once: its buffers are small, and a whole file of them would not be. */
const READS = 8

/** As they come, `told` how many they were; no more than a checkpoint may have. */
export const bounded = <E, R>(content: Stream.Stream<Uint8Array, E, R>, told: (size: number) => void) =>
  Stream.mapAccumEffect(content, () => 0, (size, chunk) => {
    const next = size + chunk.length
    told(next)
    return next > MAX_CHECKPOINT_BYTES ? Effect.fail(new CheckpointTooLarge()) : Effect.succeed([next, [chunk]] as const)
  })

/** With a checksum, so that damage is found. */
export const compress = <E, R>(content: Stream.Stream<Uint8Array, E, R>): Stream.Stream<Uint8Array, E, R> =>
  NodeStream.pipeThroughDuplex<R, E, Uint8Array, Uint8Array, never>(content, {
    evaluate: () => createZstdCompress({ params: { [constants.ZSTD_c_checksumFlag]: 1 } }),
    onError: (error) => {
      throw error
    },
    chunkSize: READS
  })

/** Fails unless they are all of `size` bytes. */
export const decompress = <E, R>(
  pieces: Stream.Stream<Uint8Array, E, R>,
  size: number
): Stream.Stream<Uint8Array, E | CheckpointNotFound, R> =>
  Stream.suspend(() => {
    let read = 0
    return NodeStream.pipeThroughDuplex<R, E, Uint8Array, Uint8Array, CheckpointNotFound>(pieces, {
      evaluate: () => createZstdDecompress(),
      onError: () => new CheckpointNotFound(),
      chunkSize: READS
    }).pipe(
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
