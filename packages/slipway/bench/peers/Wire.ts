/** HTTP on one connection that stays open, and a stream that says when something came. The same for every side. */
import { Agent, type IncomingMessage, request } from "node:http"

export type Headers = Readonly<Record<string, string>>

const agent = new Agent({ keepAlive: true })

/** The body of a success; anything else is an error. */
export const ask = (
  method: "GET" | "POST",
  url: string,
  headers: Headers = {},
  body?: object,
  signal?: AbortSignal
): Promise<string> =>
  new Promise((resolve, reject) => {
    const asked = request(url, { agent, method, headers: { "content-type": "application/json", ...headers }, signal }, (reply) => {
      const chunks: Array<Buffer> = []
      reply.on("data", (chunk: Buffer) => chunks.push(chunk))
      reply.on("error", reject)
      reply.on("end", () => {
        const text = Buffer.concat(chunks).toString()
        if ((reply.statusCode ?? 500) < 300) resolve(text)
        else reject(new Error(`${method} ${url}: ${reply.statusCode} ${text}`))
      })
    })
    asked.on("error", reject)
    asked.end(body === undefined ? undefined : JSON.stringify(body))
  })

export interface Stream {
  /** When `what` came that was not looked for before, by `performance.now`. Fails after a minute. */
  readonly next: (what: string) => Promise<number>
  /** Looks for nothing that has come already: a stream may have told of other sessions. */
  readonly skip: () => void
  readonly bytes: () => number
  readonly close: () => void
}

export const stream = (url: string, headers: Headers = {}): Promise<Stream> =>
  new Promise((resolve, reject) => {
    let text = ""
    let seen = 0
    let bytes = 0
    let look = () => {}
    const asked = request(url, { headers: { accept: "text/event-stream", ...headers } }, (reply: IncomingMessage) => {
      if (reply.statusCode !== 200) return reject(new Error(`${url}: ${reply.statusCode}`))
      reply.setEncoding("utf8")
      reply.on("data", (chunk: string) => {
        text += chunk
        bytes += Buffer.byteLength(chunk)
        look()
      })
      reply.on("error", () => {})
      resolve({
        next: (what) =>
          new Promise((found, failed) => {
            const timer = setTimeout(() => failed(new Error(`${url} did not say ${what} within a minute: ${text.slice(-2000)}`)), 60_000)
            look = () => {
              const at = text.indexOf(what, seen)
              if (at < 0) return
              seen = at + what.length
              look = () => {}
              clearTimeout(timer)
              found(performance.now())
            }
            look()
          }),
        skip: () => {
          seen = text.length
        },
        bytes: () => bytes,
        close: () => asked.destroy()
      })
    })
    asked.on("error", reject)
    asked.end()
  })
