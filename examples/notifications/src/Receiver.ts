/** Receives notifications: verifies the signature, passes each id on once, and answers when it was handled. */
import { createServer, type IncomingMessage, type Server } from "node:http"
import { Webhook } from "standardwebhooks"
import type { Notification } from "./Notification.ts"

const LARGEST_BODY_BYTES = 1024 * 1024
/** Ids that are remembered. A real receiver keeps them in its database, for three days of retries. */
const REMEMBERED = 10_000

class TooLarge extends Error {}

const bodyOf = async (request: IncomingMessage): Promise<string> => {
  const chunks: Array<Buffer> = []
  let bytes = 0
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.length
    if (bytes > LARGEST_BODY_BYTES) throw new TooLarge()
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString("utf8")
}

/**
 * A server, not listening yet. 204: handled, now or before. 401: not signed with `secret` within 5 minutes. 413: too large. 502: `handle`
 * failed, and Slipway sends the notification again.
 */
export const makeReceiver = (secret: string, handle: (notification: Notification) => Promise<void>): Server => {
  const webhook = new Webhook(secret)
  const handled = new Set<string>()

  const answer = async (request: IncomingMessage): Promise<number> => {
    const header = (name: string) => String(request.headers[name] ?? "")
    const id = header("webhook-id")
    let notification: Notification
    try {
      // Over the bytes as they came, before anything is made of them.
      notification = webhook.verify(await bodyOf(request), {
        "webhook-id": id,
        "webhook-timestamp": header("webhook-timestamp"),
        "webhook-signature": header("webhook-signature")
      }) as Notification
    } catch (error) {
      return error instanceof TooLarge ? 413 : 401
    }
    if (handled.has(id)) return 204
    try {
      await handle(notification)
    } catch (error) {
      process.stderr.write(`notification ${id} failed: ${error instanceof Error ? error.message : String(error)}\n`)
      return 502
    }
    handled.add(id)
    for (const oldest of handled) {
      if (handled.size <= REMEMBERED) break
      handled.delete(oldest)
    }
    return 204
  }

  return createServer((request, response) => {
    void answer(request).then((status) => response.writeHead(status, status === 204 ? {} : { connection: "close" }).end())
  })
}

/** Listens, with the settings that every receiver has. */
export const run = (handle: (notification: Notification) => Promise<void>): void => {
  const { PORT = "8080", WEBHOOK_SECRET } = process.env
  if (WEBHOOK_SECRET === undefined) throw new Error("WEBHOOK_SECRET is not set")
  makeReceiver(WEBHOOK_SECRET, handle).listen(Number(PORT))
}

/** Posts JSON within 10 seconds: Slipway waits for 15. Fails unless it is accepted. */
export const post = async (url: string, body: unknown, headers: Readonly<Record<string, string>> = {}): Promise<string> => {
  const response = await fetch(url, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: JSON.stringify(body),
    signal: AbortSignal.timeout(10_000)
  })
  const text = await response.text()
  if (!response.ok) throw new Error(`${new URL(url).host} answered ${response.status}`)
  return text
}
