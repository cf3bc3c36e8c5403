/** What all responses of Server-Sent Events have in common. */

const utf8 = new TextEncoder()

export const headers = {
  "content-type": "text/event-stream; charset=utf-8",
  // Proxies must hand on what they get (nginx).
  "x-accel-buffering": "no"
}

/** Browsers wait this long before they connect again. */
export const retry = (millis: number): Uint8Array => utf8.encode(`retry: ${millis}\n\n`)

export const heartbeat = utf8.encode(": hb\n\n")
