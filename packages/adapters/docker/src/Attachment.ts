/** Standard input, output and error of a container, over the one connection that the daemon gives for all three. */
import * as NodeStream from "@effect/platform-node/NodeStream"
import type { BoxProcess } from "@slipway/domain/sandbox/ports/SandboxHost"
import { StderrTail } from "@slipway/machine/node/StderrTail"
import { Effect, Stream } from "effect"
import type { Duplex } from "node:stream"
import { Transform } from "node:stream"

/** The header of each piece: the stream, three zero bytes, the length. */
const HEADER_BYTES = 8
const STDOUT = 1

/** Passes standard output on, no faster than it is read, and keeps the end of standard error. */
class Demultiplexer extends Transform {
  readonly stderr = new StderrTail()
  #header: Buffer = Buffer.alloc(0)
  #left = 0

  override _transform(chunk: Buffer, _encoding: BufferEncoding, done: () => void) {
    let rest = chunk
    while (rest.length > 0) {
      if (this.#left === 0) {
        const header = Buffer.concat([this.#header, rest.subarray(0, HEADER_BYTES - this.#header.length)])
        rest = rest.subarray(header.length - this.#header.length)
        this.#header = header
        if (header.length < HEADER_BYTES) break
        this.#left = header.readUInt32BE(4)
        if (this.#left === 0) this.#header = Buffer.alloc(0)
        continue
      }
      const piece = rest.subarray(0, this.#left)
      rest = rest.subarray(piece.length)
      this.#left -= piece.length
      if (this.#header[0] === STDOUT) this.push(piece)
      else this.stderr.add(piece)
      if (this.#left === 0) this.#header = Buffer.alloc(0)
    }
    done()
  }
}

/** The streams of a {@link BoxProcess}. `connection` is the attached one, before the container starts. */
export const make = (connection: Duplex): Pick<BoxProcess, "write" | "endInput" | "stdout" | "stderrTail"> => {
  const output = new Demultiplexer()
  // Writes to an ended process are dropped: `exited` reports it. A broken connection counts as the end of output.
  connection.on("error", () => {})
  connection.once("close", () => output.end())
  connection.pipe(output)
  // With this listener the stream stays paused until somebody reads.
  output.on("readable", () => {})
  return {
    write: (bytes) =>
      Effect.callback((resume) => {
        connection.write(bytes, () => resume(Effect.void))
      }),
    endInput: Effect.sync(() => {
      connection.end()
    }),
    stdout: NodeStream.fromReadable<Uint8Array>({ evaluate: () => output, closeOnDone: false }).pipe(Stream.catch(() => Stream.empty)),
    stderrTail: Effect.sync(() => output.stderr.text)
  }
}
