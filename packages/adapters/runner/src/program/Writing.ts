/** Writes to a stream of Node that may be slow or gone. */
import type { Writable } from "node:stream"

/** Each write resolves once the stream accepts more; bytes that it does not accept any more are dropped. One after the other. */
export const writer = (stream: Writable): (bytes: Uint8Array) => Promise<void> => {
  let wake: () => void = () => {}
  stream.on("error", () => {})
  stream.on("drain", () => wake())
  stream.on("close", () => wake())
  return async (bytes) => {
    if (!stream.writable || stream.write(bytes) || stream.destroyed) return
    await new Promise<void>((resolve) => {
      wake = resolve
    })
  }
}
