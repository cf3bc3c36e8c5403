/** Lines of every event stream beside its events (HTML, section 9.2). */
const utf8 = new TextEncoder()

/** Browsers wait this long before they connect again. */
export const retry = (millis: number): Uint8Array => utf8.encode(`retry: ${millis}\n\n`)

/** A comment, which readers skip: it keeps a silent connection open. */
export const heartbeat = utf8.encode(": hb\n\n")
