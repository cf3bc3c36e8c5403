/** One attachment of this process's terminal, or its pipes, to a terminal of a sandbox. */
import { CLOSE, type ClientMessage, ServerMessage } from "@slipway/api/schema/TerminalMessages"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Stdout from "../terminal/Stdout.ts"
import * as DetachKeys from "./DetachKeys.ts"

/** How the attachment ended. */
export type Outcome =
  | { readonly _tag: "Detached" }
  | { readonly _tag: "Ended"; readonly reason: Extract<ServerMessage, { readonly type: "ended" }>["reason"]; readonly code: number | null }
  | { readonly _tag: "Refused"; readonly code: string; readonly message: string }
  /** The connection broke. `code`: of the WebSocket's close. */
  | { readonly _tag: "Lost"; readonly code: number }

const readMessage = Schema.decodeUnknownResult(Schema.fromJsonString(ServerMessage))

/** Turns off what a program in the terminal may have left on: the mouse, bracketed paste, a hidden cursor, colours. */
const RESTORE = "\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?2004l\x1b[?25h\x1b[0m"

/** Begins and leaves the screen of a program such as an editor. To leave it without having begun would move the cursor. */
const SCREEN = { begin: "\x1b[?1049h", leave: "\x1b[?1049l" }

/** The size of this terminal; without one as usual. */
export const size = () => ({ columns: Math.min(process.stdout.columns || 80, 1000), rows: Math.min(process.stdout.rows || 24, 1000) })

/** Longer pieces of input are cut: the service takes messages of 64 KiB. */
const KEYS_BYTES = 32 * 1024

/** Passes keys on until the returned function is called. `leave`: the person wants to. */
const listen = (socket: WebSocket, hasScreen: () => boolean, leave: () => void) => {
  const { stdin, stdout } = process
  const isTerminal = stdin.isTTY
  const detach = DetachKeys.make()
  let last = 0x0a
  const onData = (data: Buffer) => {
    const keys = isTerminal ? detach(data) : data
    if (keys === null) return leave()
    last = keys.at(-1) ?? last
    for (let at = 0; at < keys.length; at += KEYS_BYTES) socket.send(Uint8Array.from(keys.subarray(at, at + KEYS_BYTES)))
  }
  // The end of a terminal's input is a key.
  const onEnd = () => {
    socket.send(Buffer.from(last === 0x0a || last === 0x0d ? "\x04" : "\n\x04"))
  }
  const onResize = () => socket.send(JSON.stringify({ type: "resize", ...size() } satisfies ClientMessage))
  if (isTerminal) stdin.setRawMode(true)
  stdin.on("data", onData)
  stdin.on("end", onEnd)
  stdout.on("resize", onResize)
  return () => {
    stdin.off("data", onData).off("end", onEnd).pause()
    stdout.off("resize", onResize)
    if (isTerminal) {
      stdin.setRawMode(false)
      stdout.write((hasScreen() ? SCREEN.leave : "") + RESTORE)
    }
  }
}

/** Runs until the terminal ends, the person leaves, or the connection is lost. */
export const run = (socket: WebSocket): Effect.Effect<Outcome> =>
  Effect.callback<Outcome>((resume) => {
    let stop = () => {}
    let known: Outcome | null = null
    let hasScreen = false
    const over = (outcome: Outcome) => {
      if (known !== null) return
      known = outcome
      stop()
      socket.close()
      resume(Effect.succeed(outcome))
    }
    const say = (message: ClientMessage) => {
      if (socket.readyState === WebSocket.OPEN) socket.send(JSON.stringify(message))
    }
    const hear = (text: string) => {
      const read = readMessage(text)
      if (Result.isFailure(read)) return over({ _tag: "Lost", code: CLOSE.invalid })
      const message = read.success
      switch (message.type) {
        case "attached":
          stop = listen(socket, () => hasScreen, () => over({ _tag: "Detached" }))
          return undefined
        case "heartbeat":
          return say({ type: "heartbeat" })
        case "skipped":
          process.stderr.write(`\r\n[${message.bytes} bytes skipped]\r\n`)
          return undefined
        case "refused":
          return over({ _tag: "Refused", code: message.code, message: message.message })
        case "ended":
          return over({ _tag: "Ended", reason: message.reason, code: message.code })
      }
    }
    // Written one after the other, also what comes before the end.
    let written = Promise.resolve()
    const onMessage = ({ data }: MessageEvent) => {
      written = written.then(async () => {
        if (typeof data === "string") return hear(data)
        const bytes = Buffer.from(data as ArrayBuffer)
        const [begun, left] = [bytes.lastIndexOf(SCREEN.begin), bytes.lastIndexOf(SCREEN.leave)]
        if (begun !== left) hasScreen = begun > left
        // As ssh does: the bytes are those of the programs, and this terminal obeys their escape sequences.
        await Stdout.write(bytes)
        if (bytes.length > 0) say({ type: "taken", bytes: bytes.length })
      })
    }
    const onClose = ({ code }: CloseEvent) => {
      written = written.then(() => over({ _tag: "Lost", code }))
    }
    socket.addEventListener("message", onMessage)
    socket.addEventListener("close", onClose)
    return Effect.sync(() => {
      known ??= { _tag: "Detached" }
      stop()
      socket.close()
    })
  })
