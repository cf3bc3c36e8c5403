/** Who calls, and whether now (decisions, sections 9 and 10). Runs before anything is routed. */
import * as NodeHttpServerRequest from "@effect/platform-node/NodeHttpServerRequest"
import { Clock, Effect, Option } from "effect"
import type { HttpServerRequest } from "effect/http"
import { Access } from "@slipway/domain/access/Access"
import { fromHeader } from "@slipway/domain/access/ApiKey"
import { RateLimited, Unauthorized } from "../api/Errors.ts"
import { Settings } from "./Settings.ts"

export const REALM = `Bearer realm="slipway"`

const missing = Unauthorized.make("Send an API key: Authorization: Bearer <key>.", { "www-authenticate": REALM })
/** One answer for malformed, unknown, expired and revoked keys. */
const invalid = Unauthorized.make("The API key is not valid.", {
  "www-authenticate": `${REALM}, error="invalid_token", error_description="The API key is not valid."`
})

/** Lines of a header as they came. Node keeps the first of some headers and joins others. */
export const headerLines = (request: HttpServerRequest.HttpServerRequest, name: string): ReadonlyArray<string> => {
  const { rawHeaders } = NodeHttpServerRequest.toIncomingMessage(request)
  const lines: Array<string> = []
  for (let i = 0; i < rawHeaders.length; i += 2) {
    if (rawHeaders[i]?.length === name.length && rawHeaders[i]?.toLowerCase() === name) lines.push(rawHeaders[i + 1] ?? "")
  }
  return lines
}

const WINDOW_MILLIS = 60_000

/** Addresses of which the failures are remembered. */
const MAX_ADDRESSES = 10_000

/** The last failures of one address: as many as are allowed in a window, the oldest at `next`. */
interface Ring {
  readonly at: Float64Array
  next: number
}

/** Counts what each address had refused within the last minute, at most `limit`. */
const failures = (limit: number) => {
  const byAddress = new Map<string, Ring>()
  /** Seconds until one more failure is answered as one; 0: at once. */
  return (address: string, now: number): number => {
    const ring = byAddress.get(address) ?? { at: new Float64Array(limit).fill(-Infinity), next: 0 }
    const oldest = ring.at[ring.next] ?? -Infinity
    if (oldest > now - WINDOW_MILLIS) return Math.max(1, Math.ceil((oldest + WINDOW_MILLIS - now) / 1000))
    ring.at[ring.next] = now
    ring.next = (ring.next + 1) % limit
    byAddress.delete(address)
    byAddress.set(address, ring)
    // The least recently seen address comes first.
    const [first] = byAddress.keys()
    if (byAddress.size > MAX_ADDRESSES && first !== undefined) byAddress.delete(first)
    return 0
  }
}

/** Makes the check of one request: whose key it is and how its rate stands, or the refusal. */
export const make = Effect.gen(function*() {
  const access = yield* Access
  const { refusedKeysPerMinute, requestsPerMinute } = yield* Settings
  const fail = failures(refusedKeysPerMinute)

  const refuse = Effect.fnUntraced(function*(request: HttpServerRequest.HttpServerRequest) {
    const wait = fail(Option.getOrElse(request.remoteAddress, () => ""), yield* Clock.currentTimeMillis)
    return yield* wait === 0
      ? invalid
      : RateLimited.make("Too many keys that are not valid came from this address.", { "retry-after": String(wait) })
  })

  return Effect.fnUntraced(function*(request: HttpServerRequest.HttpServerRequest) {
    const lines = headerLines(request, "authorization")
    const credential = fromHeader(lines[0])
    if (credential._tag === "None" && lines.length < 2) return yield* missing
    if (credential._tag !== "Key" || lines.length > 1) return yield* refuse(request)
    return (yield* access.admit(credential.key, requestsPerMinute)) ?? (yield* refuse(request))
  })
})
