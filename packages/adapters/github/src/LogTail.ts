/** The end of a text file on the web. However long the file is, only its end is read. */
import { MAX_LOG_TAIL } from "@slipway/domain/source/ports/PullRequestFeedback"
import { Duration, Effect } from "effect"

const TIMEOUT = Duration.seconds(20)
/** Bytes that are read of a server that does not answer with parts. */
const MAX_WHOLE = 1024 * 1024

/** Reads at most `maximum` bytes; `null`: there are more. */
const readWhole = async ({ body }: Response, maximum: number): Promise<Uint8Array | null> => {
  const chunks: Array<Uint8Array> = []
  let length = 0
  for await (const chunk of body ?? []) {
    length += chunk.length
    if (length > maximum) return null
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}

const tail = async (url: URL, signal: AbortSignal): Promise<Uint8Array> => {
  const ask = (range: string) => fetch(url, { headers: { range }, redirect: "error", signal })
  // Azure, where GitHub has its logs, does not know `bytes=-N`: the length comes first.
  const first = await ask("bytes=0-0")
  const size = Number(/\/(?<size>\d{1,15})$/u.exec(first.headers.get("content-range") ?? "")?.groups?.["size"])
  if (first.status === 206 && Number.isSafeInteger(size)) {
    await first.body?.cancel()
    if (size === 0) return new Uint8Array()
    const last = await ask(`bytes=${Math.max(size - MAX_LOG_TAIL, 0)}-${size - 1}`)
    return last.status === 206 ? await readWhole(last, MAX_LOG_TAIL) ?? new Uint8Array() : (await last.body?.cancel(), new Uint8Array())
  }
  const whole = first.status === 200 ? await readWhole(first, MAX_WHOLE) : null
  return whole?.subarray(-MAX_LOG_TAIL) ?? new Uint8Array()
}

/** The last `MAX_LOG_TAIL` bytes as text; empty if they cannot be read. No credentials go to the foreign server. */
export const logTail = (url: URL): Effect.Effect<string> =>
  Effect.tryPromise(async (signal) => new TextDecoder().decode(await tail(url, signal))).pipe(
    Effect.timeout(TIMEOUT),
    Effect.orElseSucceed(() => "")
  )
