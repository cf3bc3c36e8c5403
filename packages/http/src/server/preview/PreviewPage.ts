/** The small pages of preview origins: what is wrong, and what to do. They name the service by its public address alone. */
import { HttpServerResponse } from "effect/http"
import type { Target } from "../PreviewOrigin.ts"

export const HEADERS = {
  "cache-control": "no-store",
  "content-security-policy": "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
  "referrer-policy": "no-referrer",
  "x-content-type-options": "nosniff",
  "x-robots-tag": "noindex"
}

const escaped = (text: string): string => text.replace(/[&<>"']/gu, (one) => `&#${one.codePointAt(0)};`)

interface Link {
  readonly address: string
  readonly text: string
}

const page = (status: number, title: string, text: string, link: Link | null = null): HttpServerResponse.HttpServerResponse => {
  const further = link === null ? "" : `\n<p><a href="${escaped(link.address)}">${escaped(link.text)}</a></p>`
  return HttpServerResponse.text(
    `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark">
<title>${escaped(title)}</title></head>
<body><main><h1>${escaped(title)}</h1>
<p>${escaped(text)}</p>${further}</main></body></html>
`,
    { status, contentType: "text/html; charset=utf-8", headers: HEADERS }
  )
}

const sandboxOf = (publicUrl: string, { sandboxId }: Target): string => `${publicUrl}/sandboxes/${sandboxId}`

export const signIn = (publicUrl: string, target: Target) =>
  page(401, "Open this preview from its sandbox", "You are not signed in to this preview, or your session ended.", {
    address: `${sandboxOf(publicUrl, target)}/preview?port=${target.port}`,
    text: `Open port ${target.port} of the sandbox`
  })

export const atRest = (publicUrl: string, target: Target) =>
  page(503, "The sandbox is not running", "Send the sandbox a message. When the agent has started the server again, reload this page.", {
    address: sandboxOf(publicUrl, target),
    text: "The sandbox"
  })

export const closed = ({ port }: Target) =>
  page(
    502,
    `No server on port ${port}`,
    `Ask the agent to start a server on port ${port} of the sandbox, and to leave it running. Then reload this page.`
  )

export const unanswered = ({ port }: Target) =>
  page(
    502,
    "The server did not answer",
    `The server on port ${port} closed the connection without an HTTP answer. Ask the agent to look at it.`
  )

export const unsupported = page(
  501,
  "No previews of this sandbox",
  "Its processes have no way out, or the runner in its machine is of an older version. The operator of the service can help."
)
export const unreachable = page(503, "The sandbox cannot be reached", "Its worker does not answer just now. Reload this page in a moment.")
export const tooMany = page(503, "Too many connections", "Too many requests to this preview are open. Reload this page in a moment.")
export const elsewhere = page(403, "Request from another site blocked", "Another site may link to a preview, but not use it.")
export const serviceWorker = page(403, "No service workers", "A page of a preview cannot register a service worker.")
export const badRequest = page(400, "Bad request", "The address of the request is not a path.")
export const nothing = page(404, "Not found", "There is nothing at this address.")
