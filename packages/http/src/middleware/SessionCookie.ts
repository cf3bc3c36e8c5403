/** The cookie that holds the token of a person's session. */
import { Redacted } from "effect"
import type { HttpServerRequest } from "effect/http"

/** Browsers accept a cookie of this prefix only over TLS (or from the machine itself), for this host alone, from its root. */
export const NAME = "__Host-slipway_session"

const TOKEN = /^[0-9A-Za-z]{43}$/u

/** `null`: there is none, or what is there cannot be one. */
export const tokenOf = (request: HttpServerRequest.HttpServerRequest): Redacted.Redacted | null => {
  const header = request.headers["cookie"]
  if (header === undefined || !header.includes(NAME)) return null
  const token = request.cookies[NAME]
  return token !== undefined && TOKEN.test(token) ? Redacted.make(token) : null
}
