/**
 * Which pages of other origins may read the API: the CORS protocol of the Fetch standard. Such pages authenticate with an API
 * key. Cookies never count for them, since no reply has `Access-Control-Allow-Credentials`.
 */
import { HttpServerResponse } from "effect/http"
import type { Head } from "../request/Head.ts"
import type { Address } from "../Routes.ts"

/** How long a browser may keep the answer to a preflight. */
const MAX_AGE_SECONDS = 600

/** Headers that clients of the API send. */
const REQUEST_HEADERS = "Authorization, Content-Type, Idempotency-Key, Last-Event-ID, Mcp-Protocol-Version, Mcp-Session-Id, " +
  "traceparent, tracestate"

/** Headers that clients of the API read, beside those that the standard shows to every page. */
const REPLY_HEADERS = "Content-Disposition, ETag, Location, Mcp-Session-Id, RateLimit, RateLimit-Policy, Retry-After, WWW-Authenticate, " +
  "X-Request-Id"

/** The methods of an address that is unknown: its refusal is to be read like any other. */
const METHODS = ["GET", "POST", "DELETE"]

/** Paths beside the API: its description, the MCP server, and the metadata that a client without a key is sent to. */
const OPEN_PATHS = ["/openapi.json", "/mcp"]
const RESOURCE_METADATA = "/.well-known/oauth-protected-resource/"

const isOpen = (path: string | null): path is string =>
  path !== null && (path.startsWith("/api/public/v1/") || path.startsWith(RESOURCE_METADATA) || OPEN_PATHS.includes(path))

type Headers = Readonly<Record<string, string>>
const NONE: Headers = {}

export const make = (allowed: ReadonlyArray<string>) => {
  const origins = new Set(allowed)
  const allowedOrigin = ({ headers }: Head) => {
    const { origin } = headers
    return origin !== undefined && origins.has(origin) ? origin : null
  }
  return {
    /** The headers of every reply at this path. */
    headers: (request: Head, path: string | null, known: Headers): Headers => {
      if (origins.size === 0 || !isOpen(path)) return NONE
      const origin = allowedOrigin(request)
      const vary = known["vary"] === undefined ? "Origin" : `${known["vary"]}, Origin`
      return origin === null
        ? { vary }
        : { vary, "access-control-allow-origin": origin, "access-control-expose-headers": REPLY_HEADERS }
    },
    /** The answer to the question whether a page may send a request; `null`: it is no such question. */
    preflight: (
      request: Head,
      path: string | null,
      address: Address | null
    ): HttpServerResponse.HttpServerResponse | null => {
      if (request.method !== "OPTIONS" || request.headers["access-control-request-method"] === undefined) return null
      if (!isOpen(path) || allowedOrigin(request) === null) return null
      return HttpServerResponse.empty({
        status: 204,
        headers: {
          ...(address === null ? {} : { allow: address.methods.join(", ") }),
          "access-control-allow-methods": (address?.methods ?? METHODS).join(", "),
          "access-control-allow-headers": REQUEST_HEADERS,
          "access-control-max-age": String(MAX_AGE_SECONDS)
        }
      })
    }
  }
}
