/** Compression for data that is written once and read often, fast both ways: zstd of level 1, off the event loop. */
import * as NodeStream from "@effect/platform-node/NodeStream"
import type { Stream } from "effect"
import { constants, createZstdCompress, createZstdDecompress } from "node:zlib"

/** The size of zlib's buffers: each buffer crosses to another thread and back. */
const CHUNK_BYTES = 2 ** 18

export const packed = <E, R>(bytes: Stream.Stream<Uint8Array, E, R>): Stream.Stream<Uint8Array, E, R> =>
  NodeStream.pipeThroughDuplex<R, E, Uint8Array, Uint8Array, never>(bytes, {
    evaluate: () => createZstdCompress({ chunkSize: CHUNK_BYTES, params: { [constants.ZSTD_c_compressionLevel]: 1 } }),
    onError: (error) => {
      throw error
    }
  })

/** Fails with zlib's error where they are not what was packed. */
export const unpacked = <E, R>(bytes: Stream.Stream<Uint8Array, E, R>): Stream.Stream<Uint8Array, unknown, R> =>
  NodeStream.pipeThroughDuplex<R, E, Uint8Array, Uint8Array, unknown>(bytes, {
    evaluate: () => createZstdDecompress({ chunkSize: CHUNK_BYTES }),
    onError: (error) => error
  })
