/** Standard output. Loads no Effect, because commands that only ask a server need none. */
import { styleText } from "node:util"
import type { Paint } from "./EventText.ts"

/** The exit code that shells use for a command whose reader has closed the pipe. */
const READER_GONE = 141

/** Colours only on a terminal, and not if NO_COLOR is set. */
export const paint: Paint = (style, text) => styleText(style, text, { stream: process.stdout })

/** Writes as fast as it is read. Ends the process when the reader has closed the pipe, as `head` does. */
export const write = (text: string | Uint8Array): Promise<void> =>
  new Promise((resolve) => {
    if (text.length === 0) return resolve()
    process.stdout.write(text, (error) => error ? process.exit(READER_GONE) : resolve())
  })
