/** Reading Server-Sent Events (WHATWG HTML, section 9.2.6), as far as an API needs it. */

interface ServerSentEvent {
  /** `undefined`: the block had no data. */
  readonly data: string | undefined
  readonly id: string | undefined
  /** The server's reconnection time in milliseconds; `undefined`: not sent. */
  readonly retry: number | undefined
}

const parse = (block: string): ServerSentEvent => {
  const data: Array<string> = []
  let id: string | undefined
  let retry: number | undefined
  for (const line of block.split("\n")) {
    const [, field = "", value = ""] = /^([^:]*)(?:: ?(.*))?$/su.exec(line) ?? []
    if (field === "data") data.push(value)
    else if (field === "id") id = value
    else if (field === "retry" && /^\d+$/u.test(value)) retry = Number(value)
  }
  return { data: data.length === 0 ? undefined : data.join("\n"), id, retry }
}

/** Blocks as they arrive. A block that the end of the body cuts off is dropped, as the standard says. */
export async function* serverSentEvents(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<ServerSentEvent, void> {
  const decoder = new TextDecoder()
  let text = ""
  for await (const chunk of chunks) {
    // A line may end with CR, LF or both. A CR at the end waits for the next character.
    const lines = (text + decoder.decode(chunk, { stream: true })).replaceAll(/\r\n|\r(?!$)/gu, "\n")
    const blocks = lines.split("\n\n")
    text = blocks.pop() ?? ""
    for (const block of blocks) yield parse(block)
  }
}
