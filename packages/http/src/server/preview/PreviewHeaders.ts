/** The headers that pass between a browser and a server of a box. */
import type { IncomingMessage } from "node:http"
import type { Target } from "../PreviewOrigin.ts"

/** `__Host-`: no page of another host can set it. */
export const COOKIE = "__Host-slipway_preview"

/** Cookies of the service, and the preview's own. A box neither sees nor sets one. */
const OURS = /^__(?:Host|Secure)-slipway/iu

/** Headers of one connection alone (RFC 9110, 7.6.1). */
const HOP_BY_HOP = new Set([
  "connection",
  "keep-alive",
  "proxy-authenticate",
  "proxy-authorization",
  "proxy-connection",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade"
])

/** Headers of requests: made here, or claims of the browser about proxies. */
const NOT_TO_BOX = new Set(["host", "expect", "forwarded", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip"])

/**
 * Headers of answers that act on other hosts or paths of the site, or on the connection. `Clear-Site-Data` would remove cookies of the
 * whole site, the service's session included.
 */
const NOT_FROM_BOX = new Set([
  "alt-svc",
  "clear-site-data",
  "nel",
  "report-to",
  "reporting-endpoints",
  "service-worker-allowed",
  "set-login"
])

type Lines = ReadonlyArray<readonly [name: string, value: string]>

const linesOf = ({ rawHeaders }: Pick<IncomingMessage, "rawHeaders">): Lines =>
  Array.from({ length: rawHeaders.length / 2 }, (_, i) => [rawHeaders[2 * i] ?? "", rawHeaders[2 * i + 1] ?? ""] as const)

/** Names in `Connection` are of the connection alone, too. */
const passing = (lines: Lines, dropped: ReadonlySet<string>): Lines => {
  const named = lines.filter(([name]) => name.toLowerCase() === "connection").flatMap(([, value]) =>
    value.split(",").map((part) => part.trim().toLowerCase())
  )
  return lines.filter(([name]) => {
    const key = name.toLowerCase()
    return !HOP_BY_HOP.has(key) && !dropped.has(key) && !named.includes(key)
  })
}

/** As lists of values by name, which is how Node takes repeated headers. */
const collected = (lines: Lines): Record<string, Array<string>> => {
  const all: Record<string, Array<string>> = Object.create(null)
  for (const [name, value] of lines) (all[name.toLowerCase()] ??= []).push(value)
  return all
}

const withoutOurs = (cookies: string): string =>
  cookies.split(";").map((one) => one.trim()).filter((one) => one !== "" && !OURS.test(one)).join("; ")

/** The headers of a request for the box. Development servers accept this host. */
export const toBox = (message: IncomingMessage, { port }: Target, origin: URL): Record<string, Array<string>> => {
  const headers = collected(passing(linesOf(message), NOT_TO_BOX))
  const cookies = withoutOurs((headers["cookie"] ?? []).join("; "))
  delete headers["cookie"]
  return {
    ...headers,
    ...(cookies === "" ? {} : { cookie: [cookies] }),
    host: [`localhost:${port}`],
    "x-forwarded-host": [origin.host],
    "x-forwarded-proto": [origin.protocol.slice(0, -1)]
  }
}

/** A cookie for this host alone; `null`: it is one of ours. */
const cookieOf = (line: string): string | null => {
  const [pair = "", ...attributes] = line.split(";")
  // A cookie without a name has its value for one.
  if (OURS.test(pair.trim()) || OURS.test(pair.slice(pair.indexOf("=") + 1).trim())) return null
  return [pair, ...attributes.filter((attribute) => !/^\s*domain\s*(?:=|$)/iu.test(attribute))].join(";")
}

/** The address on the preview's origin where the box names itself. */
const locationOf = (location: string, { port }: Target): string => {
  if (!URL.canParse(location)) return location
  const { hash, host, pathname, search } = new URL(location)
  return ["localhost", "127.0.0.1", "[::1]", "0.0.0.0"].some((name) => host === `${name}:${port}`) ? pathname + search + hash : location
}

/** The headers of an answer for the browser. */
export const fromBox = (message: IncomingMessage, target: Target): Record<string, Array<string>> => {
  const headers = collected(passing(linesOf(message), NOT_FROM_BOX))
  const cookies = (headers["set-cookie"] ?? []).flatMap((line) => cookieOf(line) ?? [])
  delete headers["set-cookie"]
  return {
    ...headers,
    ...(cookies.length === 0 ? {} : { "set-cookie": cookies }),
    ...(headers["location"] === undefined ? {} : { location: headers["location"].map((one) => locationOf(one, target)) }),
    // A browser must not take a script from its cache for a service worker, which `isServiceWorker` would have refused.
    vary: [...headers["vary"] ?? [], "service-worker"],
    // Without it pages of a site could take each other's memory, and set `document.domain`.
    "origin-agent-cluster": ["?1"],
    "x-robots-tag": ["noindex"]
  }
}

/**
 * Whether the browser asks for the script of a service worker. Such a script would answer later requests for its origin in the browser,
 * tickets among them, also after the person's session or the sandbox has ended.
 */
export const isServiceWorker = ({ headers }: IncomingMessage): boolean =>
  headers["service-worker"] !== undefined || headers["sec-fetch-dest"] === "serviceworker"

/**
 * Whether a page of another origin caused the request. It may only lead a person here: other previews, and any other site, must not use
 * the cookie.
 */
export const isFromElsewhere = ({ headers, method }: IncomingMessage, origin: string): boolean => {
  const { "sec-fetch-dest": dest, "sec-fetch-mode": mode, "sec-fetch-site": site } = headers
  if (headers.origin !== undefined && headers.origin !== origin) return true
  if (site === undefined || site === "same-origin" || site === "none") return false
  return !(method === "GET" && mode === "navigate" && dest === "document")
}
