/**
 * The MCP server at `/mcp`: Streamable HTTP with API keys (docs/mcp-server.md). Tools send their requests to this service itself, within
 * the process and with the key of the call, so scopes, limits, errors and the audit log are those of the API.
 */
import { InvalidRequest, Refusal, Unauthorized, UnsupportedMediaType } from "@slipway/api/shared/Errors"
import { CurrentPrincipal } from "@slipway/api/shared/Middleware"
import { SlipwayClient } from "@slipway/client"
import { fromHeader } from "@slipway/domain/access/rules/ApiKey"
import { Ids } from "@slipway/domain/ids/Ids"
import { ByteSize, Effect, Option, Redacted } from "effect"
import { HttpIncomingMessage, HttpRouter, HttpServerRequest, HttpServerResponse } from "effect/http"
import manifest from "../../package.json" with { type: "json" }
import { REALM } from "../server/access/Authenticate.ts"
import * as WebHandler from "../server/connection/WebHandler.ts"
import * as Wire from "../server/connection/Wire.ts"
import { json, respond } from "../server/reply/Respond.ts"
import { heartbeat } from "../server/reply/ServerSentEvents.ts"
import { Routes } from "../server/Routes.ts"
import { Settings } from "../server/Settings.ts"
import { errorOf, type Message, read, RpcError } from "./Message.ts"
import * as Peer from "./Peer.ts"
import { challengeOf, MCP_PATH } from "./ProtectedResource.ts"

/** The limit of every body of the API. */
const MAX_BODY = ByteSize.mebibytes(1)

/** Never asked: requests to it stay in this process. */
const WITHIN = "http://slipway.invalid"

const SESSION = "mcp-session-id"
const VERSION = "mcp-protocol-version"

/** Visible ASCII, as the protocol says; longer ones are not ours. */
const SESSION_ID = /^[\x21-\x7e]{1,100}$/u

const onlyKeys = Unauthorized.make("Send an API key: Authorization: Bearer <key>.", { "www-authenticate": REALM })
const foreignOrigin = new Refusal({ status: 403, code: "forbidden", reason: "Pages of this origin may not use MCP.", headers: {} })
const notAcceptable = new Refusal({
  status: 406,
  code: "invalid_request",
  reason: "Accept application/json and text/event-stream.",
  headers: {}
})
const SSE = { "content-type": "text/event-stream", "cache-control": "no-cache, no-transform", "x-accel-buffering": "no" }

const accepts = (request: HttpServerRequest.HttpServerRequest, type: string): boolean => {
  const accept = request.headers["accept"] ?? "*/*"
  return accept.includes(type) || accept.includes("*/*") || accept.includes(`${type.split("/", 1)[0]}/*`)
}

/** Why the request is refused before its body is read; `null`: it is not. */
const refusalOf = (request: HttpServerRequest.HttpServerRequest, origins: ReadonlySet<string>): Refusal | null => {
  const { headers } = request
  // A page that reaches this service by a name of its own (DNS rebinding) still says its own origin.
  if (headers["origin"] !== undefined && !origins.has(headers["origin"])) return foreignOrigin
  if (!/^application\/json(?:\s*;|$)/iu.test(headers["content-type"] ?? "")) {
    return UnsupportedMediaType.make("The body must be application/json.")
  }
  if (!accepts(request, "application/json")) return notAcceptable
  const version = headers[VERSION]
  if (version !== undefined && !Peer.isVersion(version)) {
    return InvalidRequest.make(`The MCP-Protocol-Version is one of ${Peer.VERSIONS.join(", ")}.`)
  }
  if (headers[SESSION] !== undefined && !SESSION_ID.test(headers[SESSION])) {
    return InvalidRequest.make("The Mcp-Session-Id is not one of this service.")
  }
  return null
}

/** Sends requests to the service itself. `peer`: the address of the client, by which requests are counted. */
const within = (handler: WebHandler.WebHandler, peer: string | null): typeof globalThis.fetch => (input, init) => {
  const request = new Request(input, init)
  return handler(request, new Wire.WebWire(request, peer))
}

/** A message, and the function that answers it. */
interface Asking {
  readonly wire: Wire.Wire
  readonly message: Message
  readonly answer: (signal: AbortSignal, send: (text: string) => void) => Promise<string | null>
}

/** How often a silent stream gets a comment, so that proxies keep it. */
const HEARTBEAT_MILLIS = 15_000

const frame = (text: string): string => `event: message\ndata: ${text}\n\n`

/** Progress, and then the answer, as a stream of events. Progress that the reader does not take in time is left out. */
const streamed = ({ answer, wire }: Asking) =>
  HttpServerResponse.stream(
    wire.body((outlet) =>
      Effect.promise(async (signal) => {
        let isFull = false
        const write = (text: string | Uint8Array) => {
          if (isFull) return
          isFull = !outlet.write(text)
          if (isFull) {
            outlet.onDrain(() => {
              isFull = false
            })
          }
        }
        write(heartbeat)
        const alive = setInterval(() => write(heartbeat), HEARTBEAT_MILLIS)
        try {
          const text = await answer(signal, (text) => write(frame(text)))
          if (text !== null && !signal.aborted) outlet.write(frame(text))
        } finally {
          clearInterval(alive)
        }
      })
    ),
    { headers: SSE }
  )

const reply = (asking: Asking, isStreamed: boolean) =>
  isStreamed
    ? Effect.succeed(streamed(asking))
    : Effect.map(Effect.promise((signal) => asking.answer(signal, () => {})), (text) =>
      // Notifications get no answer, and cancelled requests none either.
      text === null ? HttpServerResponse.empty({ status: 202 }) : json(text))

const unreadable = (error: unknown) =>
  error instanceof RpcError
    ? Effect.succeed(json(errorOf(null, error), { status: 400 }))
    : Effect.die(error)

const make = Effect.fnUntraced(function*(router: HttpRouter.HttpRouter) {
  const ids = yield* Ids
  const { allowedOrigins, publicUrl } = yield* Settings
  const origins = new Set([...allowedOrigins, new URL(publicUrl).origin])
  const calls = new Peer.CallsUnderWay()
  const context = yield* Effect.context<never>()
  const onDefect = (error: unknown) => Effect.runForkWith(context)(Effect.logError("a call of an MCP client failed", error))
  // Made with the first request: now the router does not have all routes yet.
  let handler: WebHandler.WebHandler | null = null
  const ofService = Effect.suspend(() =>
    handler === null
      ? Effect.tap(WebHandler.make(router.asHttpEffect()), (made) =>
        Effect.sync(() => {
          handler = made
        })).pipe(Effect.provideContext(context))
      : Effect.succeed(handler)
  )

  return Effect.gen(function*() {
    const request = yield* HttpServerRequest.HttpServerRequest
    // `Edge` put it there.
    const principal = yield* Effect.serviceOption(CurrentPrincipal)
    const wire = Wire.of(request)
    const given = fromHeader(wire.lines("authorization")[0])
    // A session of a browser does not count here.
    if (Option.isNone(principal) || principal.value.credential._tag !== "Key" || given._tag !== "Key") return respond(onlyKeys)
    const { keyId } = principal.value.credential
    const refusal = refusalOf(request, origins)
    if (refusal !== null) return respond(refusal)
    const text = yield* Effect.provideService(request.text, HttpIncomingMessage.MaxBodySize, MAX_BODY)
    const message = yield* Effect.try({ try: () => read(text), catch: (error) => error })
    const service = yield* ofService
    const address = Option.getOrNull(request.remoteAddress)
    const client = new SlipwayClient({
      baseUrl: WITHIN,
      apiKey: Redacted.value(given.key),
      fetch: within(service, address),
      retries: 0
    })
    // The session only tells the calls of one client from those of another with the same key. Nothing is kept for it.
    const caller = { key: keyId, client: request.headers[SESSION] ?? (yield* ids.uuid7) }
    const answer: Asking["answer"] = (signal, send) =>
      Peer.handle({ caller, calls, client, message, send, signal }, { onDefect, serverVersion: manifest.version })
    const isStreamed = Peer.isLong(message) && accepts(request, "text/event-stream")
    const response = yield* reply({ answer, message, wire }, isStreamed)
    const begins = message._tag === "Request" && message.request.method === "initialize"
    return begins ? HttpServerResponse.setHeader(response, SESSION, yield* ids.uuid7) : response
  }).pipe(Effect.catchIf((error) => error instanceof RpcError, unreadable))
})

export const layer = HttpRouter.use(Effect.fnUntraced(function*(router) {
  const { publicUrl } = yield* Settings
  const routes = yield* Routes
  routes.declareForKeys(MCP_PATH, ["POST"], "mcp", challengeOf(publicUrl))
  yield* router.add("POST", MCP_PATH, yield* make(router))
}))
