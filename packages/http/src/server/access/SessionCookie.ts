/** The cookie that holds the token of a person's session. */
import { Redacted } from "effect"
import type { Head } from "../request/Head.ts"

/**
 * Browsers accept a cookie of the first prefix only over TLS (or from the machine itself), for this host alone, from its root.
 * Where others have the rest of the host, cookies are for our path: the second prefix is what allows that.
 */
export const named = (name: string, base: string): string => `${base === "" ? "__Host-" : "__Secure-"}slipway_${name}`

/** Attributes of every cookie of this service. */
export const attributes = (base: string) => ({ path: base === "" ? "/" : base, secure: true, httpOnly: true, sameSite: "lax" }) as const

const TOKEN = /^[0-9A-Za-z]{43}$/u

/** `null`: there is none, or what is there cannot be one. */
export const tokenOf = (request: Head, base: string): Redacted.Redacted | null => {
  const name = named("session", base)
  const header = request.headers["cookie"]
  if (header === undefined || !header.includes(name)) return null
  const token = request.cookies[name]
  return token !== undefined && TOKEN.test(token) ? Redacted.make(token) : null
}
