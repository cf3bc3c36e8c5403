/** The output of commands that follow a sandbox, and the lines that a person types meanwhile. */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { openSync } from "node:fs"
import { createInterface } from "node:readline"
import { ReadStream } from "node:tty"
import * as Stdout from "./Stdout.ts"

export { paint } from "./Stdout.ts"

/** Whether standard output is a terminal that shows styles and lines drawn again. */
export const isStyled = (): boolean => process.stdout.isTTY && Stdout.paint("bold", "x") !== "x"

/** Writes to standard output, as fast as it is read. Ends the process when the reader has closed the pipe, as `head` does. */
export const write = (text: string | Uint8Array): Effect.Effect<void> => Effect.promise(() => Stdout.write(text))

/** Writes to standard error, apart from the result. */
export const say = (text: string) => Effect.sync(() => process.stderr.write(`${text}\n`))

/** Whether a person sees questions on standard output. */
const isSeen = () => process.stdout.isTTY

const terminal = (): NodeJS.ReadStream | undefined => {
  if (process.stdin.isTTY) return process.stdin.readableEnded ? reopened() : process.stdin
  return undefined
}

/** The terminal itself, after standard input was read to its end. */
const reopened = (): NodeJS.ReadStream | undefined => {
  try {
    return new ReadStream(openSync("/dev/tty", "r"))
  } catch {
    return undefined
  }
}

/**
 * Calls `onLine` for each typed line until the scope closes, with `null` at the end of input. It reads from the start, so that lines
 * typed before a question do not answer it. `takesPrompt`: standard input was the prompt, so lines come from the terminal. False: no
 * person can answer.
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

/** Larger than any valid prompt. */
const MAX_PROMPT_BYTES = 1024 * 1024

/** All of standard input; `null`: too long, or not UTF-8. */
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
