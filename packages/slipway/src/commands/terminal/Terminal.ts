/** What a command that follows a sandbox writes, and the lines that a person types meanwhile. */
import { Effect, type Scope } from "effect"
import { openSync } from "node:fs"
import { createInterface } from "node:readline"
import { ReadStream } from "node:tty"
import { styleText } from "node:util"
import type { Paint } from "./EventText.ts"

/** What shells make of a command whose reader went away. */
const READER_GONE = 141

/** Colours only where there is a terminal and nobody asked for none (NO_COLOR). */
export const paint: Paint = (style, text) => styleText(style, text, { stream: process.stdout })

/** Writes to standard output, as fast as it is read. Ends the process when nobody reads it any more, as `head` does. */
export const write = (text: string | Uint8Array): Effect.Effect<void> =>
  Effect.callback((resume) => {
    if (text.length === 0) return resume(Effect.void)
    process.stdout.write(text, (error) => error ? process.exit(READER_GONE) : resume(Effect.void))
  })

/** To standard error, where it mixes with no result. */
export const say = (text: string) => Effect.sync(() => process.stderr.write(`${text}\n`))

/** Whether somebody sees a question that is written to standard output. */
const isSeen = () => process.stdout.isTTY

const terminal = (): NodeJS.ReadStream | undefined => {
  if (process.stdin.isTTY) return process.stdin.readableEnded ? reopened() : process.stdin
  return undefined
}

/** The terminal itself, where standard input was read to its end. */
const reopened = (): NodeJS.ReadStream | undefined => {
  try {
    return new ReadStream(openSync("/dev/tty", "r"))
  } catch {
    return undefined
  }
}

/**
 * Tells `onLine` of each line that is typed until the scope closes, `null` when no more can come. From the beginning on, so
 * that what is typed before a question does not answer it. `takesPrompt`: standard input was the prompt, so the terminal is
 * asked. False: there is nobody to ask.
 */
export const listen = (onLine: (line: string | null) => void, takesPrompt: boolean): Effect.Effect<boolean, never, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const input = !isSeen() ? undefined : takesPrompt ? reopened() : terminal()
      if (input === undefined) return undefined
      const lines = createInterface({ input, terminal: false })
      lines.on("line", onLine).on("close", () => onLine(null))
      return { input, lines }
    }),
    (listening) =>
      Effect.sync(() => {
        listening?.lines.removeAllListeners("close").close()
        if (listening !== undefined && listening.input !== process.stdin) listening.input.destroy()
      })
  ).pipe(Effect.map((listening) => listening !== undefined))

/** More than any prompt may have. */
const MAX_PROMPT_BYTES = 1024 * 1024

/** All of standard input; `null`: it is too long, or no UTF-8. */
export const readPrompt = Effect.promise(async () => {
  const chunks: Array<Buffer> = []
  let bytes = 0
  for await (const chunk of process.stdin) {
    const buffer = Buffer.from(chunk)
    bytes += buffer.byteLength
    if (bytes > MAX_PROMPT_BYTES) return null
    chunks.push(buffer)
  }
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(Buffer.concat(chunks))
  } catch {
    return null
  }
})
