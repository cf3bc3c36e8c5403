/** Reads the body of a request within the limits of its session. */
import { Effect } from "effect"
import type { IncomingMessage } from "node:http"
import type { Entry } from "./Admission.ts"
import type { Gateway } from "./Session.ts"

type Unread = "too large" | "too much" | "too slow" | "gone"

/** `too large`: above the limit of one request. `too much`: above the limit of all running requests. `onLength` gets the bytes so far. */
export const readBody = (
  { bodyMillis, maximumBytes }: Pick<Gateway, "bodyMillis" | "maximumBytes">,
  request: IncomingMessage,
  entry: Entry,
  onLength: (length: number) => void
) =>
  Effect.callback<Buffer | Unread>((resume) => {
    const declared = Number(request.headers["content-length"] ?? 0)
    // A body of known length is written to its place directly: joining chunks would take twice the memory.
    let whole: Buffer | undefined
    const chunks: Array<Buffer> = []
    let length = 0
    const over = (result: Buffer | Unread) => {
      clearTimeout(timer)
      request.off("data", take)
      resume(Effect.succeed(result))
    }
    const take = (chunk: Buffer) => {
      length += chunk.length
      onLength(length)
      if (length > maximumBytes) return over("too large")
      // A declared length was reserved before.
      if (declared === 0 && !entry.hold(chunk.length)) return over("too much")
      if (declared === 0) chunks.push(chunk)
      else chunk.copy(whole ??= Buffer.allocUnsafeSlow(declared), length - chunk.length)
    }
    const timer = setTimeout(() => over("too slow"), bodyMillis)
    request.once("end", () => over(whole ?? Buffer.concat(chunks)))
    request.once("close", () => over("gone"))
    if (declared > maximumBytes) over("too large")
    else if (!entry.hold(declared)) over("too much")
    else request.on("data", take)
    return Effect.sync(() => clearTimeout(timer))
  })
