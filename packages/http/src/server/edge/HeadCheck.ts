/**
 * Checks a request by its head, without Effect's runtime, so that refusals without a look at the store cost little: a flood of them must
 * not keep others waiting. Every reply gets its headers here, and is counted here (docs/decisions/1). `Edge` has the rest.
 */
import { HeadersTooLarge, InvalidRequest, RateLimited, Refusal } from "@slipway/api/shared/Errors"
import type { RateSlot } from "@slipway/domain/access/ports/AccessStore"
import * as RootSpan from "@slipway/domain/observability/RootSpan"
import type { StoreUnavailable } from "@slipway/domain/store/StoreUnavailable"
import { Clock, Context, Effect, Layer } from "effect"
import { Cookies, type Headers, type HttpServerResponse } from "effect/http"
import type { IncomingMessage, ServerResponse } from "node:http"
import * as Authenticate from "../access/Authenticate.ts"
import { Connections } from "../connection/Connections.ts"
import { LiveResponses } from "../connection/LiveResponses.ts"
import * as Wire from "../connection/Wire.ts"
import { Previews } from "../preview/Previews.ts"
import { respond } from "../reply/Respond.ts"
import type { Head } from "../request/Head.ts"
import { newRequestId } from "../RequestId.ts"
import { type Address, Routes } from "../Routes.ts"
import { basePathOf, Settings } from "../Settings.ts"
import * as Cors from "./Cors.ts"
import * as RequestMetrics from "./RequestMetrics.ts"

/** Seconds after which a store that was lost is worth another try. */
export const STORE_RETRY_SECONDS = "1"

/**
 * The target without its query, decoded exactly as the router does (a `;` begins the query too), so that the scope is asked for the
 * same address that answers. `null`: it is no path, or its percent-encoding is broken.
 */
const pathOf = (target: string): string | null => {
  const end = target.search(/[?;#]/u)
  const path = end < 0 ? target : target.slice(0, end)
  if (!path.startsWith("/")) return null
  if (!path.includes("%")) return path
  try {
    decodeURIComponent(path)
    return decodeURI(path)
  } catch {
    return null
  }
}

/** RFC 3986, section 3.2.2, with a port: an address in brackets, or a name, without the delimiters that the letter allows in one. */
const HOST = /^(?:\[[\da-f:.]+\]|(?:[\w.~-]|%[\da-f]{2})+)(?::\d{0,5})?$/iu

/** The limit of our own server, checked here for requests that a host has read. */
const MAX_HEADER_BYTES = 16 * 1024

/**
 * Faults of a request that Node's parser lets pass. A server that reads such a request otherwise than the proxy in front of it can be
 * made to answer another client's request (RFC 9112, sections 3.2, 6.1 and 11.2).
 */
const malformed = ({ headers }: Head, hosts: ReadonlyArray<string>, wire: Wire.Wire): Refusal | null => {
  const { version } = wire
  if (version === null) return wire.headBytes() > MAX_HEADER_BYTES ? HeadersTooLarge.make("The headers are larger than 16 KiB.") : null
  if (version !== "1.1" && version !== "1.0") return InvalidRequest.make("The HTTP version must be 1.1 or 1.0.")
  const [host] = hosts
  if (host === undefined && version === "1.1") return InvalidRequest.make("The Host header is missing.")
  if (hosts.length > 1) return InvalidRequest.make("Send one Host header.")
  if (host !== undefined && !HOST.test(host)) return InvalidRequest.make("The Host header is no host.")
  const encoding = headers["transfer-encoding"]
  if (encoding !== undefined && encoding.toLowerCase() !== "chunked") return InvalidRequest.make("The only transfer encoding is chunked.")
  return null
}

const tooManyUnderWay = RateLimited.make("Too many requests from this address are under way.", { "retry-after": "1" })

/** `target` within the service: without the path in front of it, which a proxy or a framework may leave there. */
const withinBase = (target: string, base: string): string => {
  if (base === "" || !target.startsWith(base)) return target
  const rest = target.slice(base.length)
  return rest.startsWith("/") ? rest : rest === "" || rest.startsWith("?") ? `/${rest}` : target
}

/** `Answered`: still without the headers of `finished`. `Asked`: who asks, where a scope is needed. */
type Outcome =
  | { readonly _tag: "Answered"; readonly response: HttpServerResponse.HttpServerResponse }
  | { readonly _tag: "Preview" }
  | { readonly _tag: "Asked"; readonly caller: Effect.Effect<Authenticate.Caller, StoreUnavailable> | null }

/** A request whose head was checked. */
export interface Checked {
  readonly requestId: string
  /** The client's; empty: unknown. */
  readonly clientAddress: string
  /** The target within the service. */
  readonly url: string
  /** Decoded; `null`: it is no path. */
  readonly path: string | null
  /** `null`: there is no such address. */
  readonly address: Address | null
  readonly outcome: Outcome
  /** Counts the reply, and gives the headers that it has to have. Once for each request. */
  finished(response: HttpServerResponse.HttpServerResponse, rate: RateSlot | null): Record<string, string>
}

export class HeadCheck extends Context.Service<HeadCheck, {
  /** Checks the head of a request of any host; of a request that `answer` has checked, it gives what that found. */
  check(head: Head, wire: Wire.Wire): Checked
  /** Answers a request of Node's server by its head. `false`: `Edge` has to answer it. */
  answer(message: IncomingMessage, response: ServerResponse): boolean
}>()("@slipway/http/HeadCheck") {
  static readonly layer = Layer.effect(HeadCheck, Effect.suspend(() => make))
}

const hasBody = ({ headers }: IncomingMessage): boolean =>
  headers["content-length"] !== undefined || headers["transfer-encoding"] !== undefined

const headOf = ({ headers, method = "", url = "" }: IncomingMessage): Head => ({
  method,
  url,
  headers: headers as Headers.Headers,
  get cookies() {
    return Cookies.parseHeader(headers.cookie ?? "")
  }
})

const make = Effect.gen(function*() {
  const live = yield* LiveResponses
  const connections = yield* Connections
  const routes = yield* Routes
  const previews = yield* Previews
  const settings = yield* Settings
  const { allowedOrigins, publicUrl, requestsPerMinute } = settings
  const cors = Cors.make(allowedOrigins)
  const base = basePathOf(publicUrl)
  const prefix = settings.prefix ?? base
  const authenticate = yield* Authenticate.make
  const count = yield* RequestMetrics.make
  const isCollected = yield* RootSpan.Collected
  const clock = yield* Clock.Clock
  const policy = `"default";q=${requestsPerMinute};w=60`

  const check = (head: Head, wire: Wire.Wire): Checked => {
    const { headers, method } = head
    const begunAt = clock.currentTimeNanosUnsafe()
    const requestId = newRequestId()
    const clientAddress = connections.clientOf(headers, wire)
    const url = withinBase(wire.mount + head.url, prefix)
    const path = pathOf(url)
    const address = path === null ? null : routes.at(path)

    const outcome = (): Outcome => {
      const answered = (response: HttpServerResponse.HttpServerResponse): Outcome => ({ _tag: "Answered", response })
      const hosts = wire.lines("host")
      const fault = malformed(head, hosts, wire)
      if (fault !== null) {
        // The end of such a request is unknown.
        wire.closeAfter()
        return answered(respond(fault))
      }
      if (!connections.enter(clientAddress, wire)) return answered(respond(tooManyUnderWay))
      // Nothing else answers on a preview's origin, and a preview adds no header of ours to what a box says.
      // The host may also be in the target of the request.
      if (wire.version !== null && (previews.isFor(headers["host"]) || hosts.some(previews.isFor))) return { _tag: "Preview" }
      // A browser asks without the key whether a page may send one.
      const preflight = cors.preflight(head, path, address)
      if (preflight !== null) return answered(preflight)
      // Beneath `/api/` an address that cannot be read is guarded like all that are not there.
      const scope = address === null ? routes.scopeAt(path ?? url) : address.scope
      const asked = scope === null ? null : authenticate(head, wire, clientAddress, scope)
      return asked instanceof Refusal ? answered(respond(asked)) : { _tag: "Asked", caller: asked }
    }

    const finished = (response: HttpServerResponse.HttpServerResponse, rate: RateSlot | null) => {
      const { headers: known, status } = response
      const seconds = Number(clock.currentTimeNanosUnsafe() - begunAt) / 1e9
      count({ method, area: address?.area ?? "other", status, seconds })
      const added: Record<string, string> = {
        ...cors.headers(head, path, known),
        "cache-control": known["cache-control"] ?? "no-store",
        "x-content-type-options": "nosniff",
        "x-request-id": requestId
      }
      if (known["content-type"] === "application/json") added["content-type"] = "application/json; charset=utf-8"
      if (status === 503 && known["retry-after"] === undefined) added["retry-after"] = STORE_RETRY_SECONDS
      const challenge = status === 401 ? known["www-authenticate"] : undefined
      const more = address?.challenge ?? null
      if (challenge !== undefined && more !== null) added["www-authenticate"] = `${challenge}, ${more}`
      // Our own pages name each other from the root of the service.
      const location = known["location"]
      if (base !== "" && location?.startsWith("/") === true) added["location"] = base + location
      // Otherwise a busy connection would outlive the server's patience and be cut between two requests.
      if (wire.version !== null && live.isShuttingDown()) added["connection"] = "close"
      if (rate !== null) {
        added["ratelimit-policy"] = policy
        added["ratelimit"] = `"default";r=${rate.remaining};t=${rate.resetSeconds}`
      }
      return added
    }

    return { requestId, clientAddress, url, path, address, outcome: outcome(), finished }
  }

  const checked = new WeakMap<object, Checked>()

  return HeadCheck.of({
    check: (head, wire) => checked.get(wire.source) ?? check(head, wire),
    answer: (message, response) => {
      // Effect begins the span, reads the body, and knows absolute targets.
      if (isCollected || hasBody(message) || message.url?.startsWith("/") !== true) return false
      const found = check(headOf(message), Wire.ofNode(message, response))
      if (found.outcome._tag !== "Answered") {
        checked.set(message, found)
        return false
      }
      const { body, headers: known, status } = found.outcome.response
      response.writeHead(status, { ...known, ...found.finished(found.outcome.response, null) })
      response.end(body._tag === "Uint8Array" ? body.text ?? body.body : undefined)
      return true
    }
  })
})
