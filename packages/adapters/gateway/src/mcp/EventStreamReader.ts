/** Reads server-sent events from chunks of bytes, within bounds. */

/** One event with data. */
export interface StreamEvent {
  readonly id: string | undefined
  readonly data: string
}

/** The stream is larger than allowed, or is not text. */
export class StreamTooLarge extends Error {}

export class EventStreamReader {
  readonly #decoder = new TextDecoder()
  readonly #maximum: number
  /** The beginning of a line. It is never searched again. */
  #rest = ""
  #endedWithReturn = false
  #id: string | undefined
  #data: Array<string> = []
  #held = 0

  /** `maximum`: characters of one event. */
  constructor(maximum: number) {
    this.#maximum = maximum
  }

  /** The events that end in this chunk. */
  read(chunk: Uint8Array): ReadonlyArray<StreamEvent> {
    const decoded = this.#decoder.decode(chunk, { stream: true })
    if (decoded === "") return []
    // The line feed of a line break that was cut in two.
    const text = this.#endedWithReturn && decoded.startsWith("\n") ? decoded.slice(1) : decoded
    this.#endedWithReturn = decoded.endsWith("\r")
    const [first = "", ...others] = text.split(/\r\n|\n|\r/u)
    this.#rest += first
    if (this.#rest.length + this.#held > this.#maximum) throw new StreamTooLarge()
    if (others.length === 0) return []
    const lines = [this.#rest, ...others.slice(0, -1)]
    this.#rest = others.at(-1) ?? ""
    return lines.flatMap((line) => this.#line(line))
  }

  #line(line: string): ReadonlyArray<StreamEvent> {
    if (line === "") {
      const event = this.#data.length === 0 ? [] : [{ id: this.#id, data: this.#data.join("\n") }]
      this.#data = []
      this.#held = 0
      return event
    }
    const [field = ""] = line.split(":", 1)
    const value = line.slice(field.length + 1).replace(/^ /u, "")
    if (field === "data") {
      this.#data.push(value)
      this.#held += value.length
      if (this.#held > this.#maximum) throw new StreamTooLarge()
    }
    // It becomes a header of a later request.
    if (field === "id") this.#id = /^[\x21-\x7e]{1,256}$/u.test(value) ? value : undefined
    return []
  }
}

/** One event for an agent. JSON has no line feeds. */
export const written = (message: object, id?: string): string =>
  `${id === undefined ? "" : `id: ${id}\n`}event: message\ndata: ${JSON.stringify(message)}\n\n`
