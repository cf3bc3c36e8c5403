/** The output of a setup's commands, which run one after the other or in parallel. Keeps the end of it, without secrets. */
import type { OutputRedaction } from "@slipway/domain/environment/ports/OutputRedaction"
import { MAX_SETUP_OUTPUT } from "@slipway/domain/sandbox/ports/Setups"
import { visible } from "@slipway/domain/text/EscapeInvisible"
import { endOf } from "@slipway/domain/text/Utf8"

const utf8 = new TextEncoder()

/** Limits of `lastLines`, which error messages show: lines and characters. */
const LAST_LINES = 12
const LAST_CHARACTERS = 1_200

/** Control sequences of terminals, for colours and cursor movements (ECMA-48). */
// oxlint-disable-next-line no-control-regex
const CONTROL_SEQUENCES = /\x1b\[[0-?]*[ -/]*[@-~]/gu

/** Plain text lines without control characters, safe to show in a terminal. */
const readable = (text: string): string => visible(text.replace(CONTROL_SEQUENCES, "").replace(/\r\n?/gu, "\n"))

export class SetupOutput {
  readonly #redaction: ReturnType<OutputRedaction["Service"]["of"]>
  #text = ""
  /** Increases with each addition, so that the caller knows whether there is more to save. */
  version = 0

  readonly #added: (text: string) => void

  constructor(redaction: ReturnType<OutputRedaction["Service"]["of"]>, added: (text: string) => void = () => {}) {
    this.#redaction = redaction
    this.#added = added
  }

  #add(text: string) {
    if (text === "") return
    this.#added(text)
    // Postgres takes no NUL.
    this.#text += text.replaceAll("\0", "\ufffd")
    if (this.#text.length > 2 * MAX_SETUP_OUTPUT) this.#text = this.text
    this.version++
  }

  /** Adds a line of the service, which may quote text of a repository. */
  say(line: string) {
    const stream = this.#redaction.stream()
    const text = stream.push(utf8.encode(`${line}\n`)) + stream.end()
    this.#add(this.#text === "" || this.#text.endsWith("\n") ? text : `\n${text}`)
  }

  /** A stream for the output of one process. */
  stream() {
    const stream = this.#redaction.stream()
    return {
      push: (bytes: Uint8Array) => this.#add(stream.push(bytes)),
      end: () => this.#add(stream.end())
    }
  }

  get text(): string {
    return endOf(this.#text, MAX_SETUP_OUTPUT)
  }

  /** For people and agents. */
  get lastLines(): string {
    const end = endOf(readable(this.#text.trimEnd().slice(-8 * LAST_CHARACTERS)), LAST_CHARACTERS)
    return end.split("\n").slice(-LAST_LINES).join("\n")
  }
}
