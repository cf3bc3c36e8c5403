/**
 * Webhooks as a mere hint: whatever one says, the feed is asked. So it does not matter if one comes late, twice or never;
 * the signature only keeps strangers from making us ask.
 */
import { createServer, type Server } from "node:http"
import { setTimeout as sleep } from "node:timers/promises"
import { Webhook } from "standardwebhooks"

const LARGEST_BODY_BYTES = 256 * 1024

/** Rung by webhooks. A ring without a listener is heard the next time. */
export class Bell {
  #rung = false
  #listener = () => {}

  ring(): void {
    this.#rung = true
    this.#listener()
  }

  /** Until it rings, `millis` have passed, or `signal` is aborted. */
  async heard(millis: number, signal: AbortSignal): Promise<void> {
    const done = new AbortController()
    if (this.#rung) done.abort()
    this.#listener = () => done.abort()
    await sleep(millis, undefined, { signal: AbortSignal.any([signal, done.signal]) }).catch(() => {})
    this.#listener = () => {}
    this.#rung = false
  }
}

/** Answers webhooks: 204 to a webhook signed with `secret`, within 5 minutes; 401 to anything else. Not listening yet. */
export const makeReceiver = (secret: string, bell: Bell): Server => {
  const webhook = new Webhook(secret)
  return createServer(async (request, response) => {
    try {
      const chunks: Array<Buffer> = []
      let bytes = 0
      for await (const chunk of request as AsyncIterable<Buffer>) {
        bytes += chunk.length
        if (bytes > LARGEST_BODY_BYTES) throw new Error("too large")
        chunks.push(chunk)
      }
      const header = (name: string) => String(request.headers[name] ?? "")
      webhook.verify(Buffer.concat(chunks).toString("utf8"), {
        "webhook-id": header("webhook-id"),
        "webhook-timestamp": header("webhook-timestamp"),
        "webhook-signature": header("webhook-signature")
      })
      bell.ring()
      response.writeHead(204).end()
    } catch {
      response.writeHead(401, { connection: "close" }).end()
    }
  })
}
