/** Lines of a byte stream, each of at most 1 MiB. */

const MAX_BYTES = 1_048_576
const NEWLINE = 10

/** Lines without their ends, as text; empty ones are left out. `null`: one was longer, and is left out. Ends with the signal. */
export async function* lines(input: NodeJS.ReadableStream, signal: AbortSignal): AsyncGenerator<string | null, void, undefined> {
  const iterator = input[Symbol.asyncIterator]()
  const stopped = new Promise<null>((resolve) => signal.addEventListener("abort", () => resolve(null), { once: true }))
  let parts: Array<Buffer> = []
  let bytes = 0
  for (;;) {
    const next = signal.aborted ? null : await Promise.race([iterator.next(), stopped])
    if (next === null || next.done === true) return
    let rest = Buffer.from(next.value)
    for (let end = rest.indexOf(NEWLINE); end >= 0; end = rest.indexOf(NEWLINE)) {
      const isTooLong = bytes + end > MAX_BYTES
      const line = isTooLong ? null : Buffer.concat([...parts, rest.subarray(0, end)]).toString("utf8").trim()
      parts = []
      bytes = 0
      rest = rest.subarray(end + 1)
      if (line !== "") yield line
    }
    bytes += rest.byteLength
    // The beginning of a line that is too long is not kept.
    parts = bytes > MAX_BYTES ? [] : [...parts, rest]
  }
}
