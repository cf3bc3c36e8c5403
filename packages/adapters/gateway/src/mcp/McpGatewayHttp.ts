/**
 * `McpGateway` as a server on a loopback port. Agents use it like their servers, at `/mcp/NAME`. Each message is read, a call of a tool is
 * decided, and the credential is added on the way to the server's own address. Requests of servers to the client are refused.
 */
import { Ids } from "@slipway/domain/ids/Ids"
import { McpGateway, McpGatewayError, type McpSession, type McpTarget } from "@slipway/domain/mcp/ports/McpGateway"
import { loopback, loopbackUrl } from "@slipway/machine/network/Loopback"
import { Effect, FiberSet, Layer, Redacted, type Scope } from "effect"
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"
import { Admission, type Bounds, type Door } from "../server/Admission.ts"
import { readBody } from "../server/ReadBody.ts"
import * as McpAsking from "./McpAsking.ts"
import * as McpExchange from "./McpExchange.ts"
import { errorOf } from "./McpMessages.ts"
import { reply } from "./McpReply.ts"
import { isCommand, type ServerInUse } from "./McpServerInUse.ts"
import * as McpStdio from "./McpStdio.ts"
import * as McpStdioExchange from "./McpStdioExchange.ts"
import { type Destinations, LIMITS, type McpLimits } from "./McpUpstream.ts"

export interface Options extends Destinations {
  readonly limits?: Partial<McpLimits>
  readonly bounds?: Partial<Bounds>
  /** Milliseconds from a request's head to the end of its body. Default 30 seconds: it comes from this machine. */
  readonly bodyMillis?: number
}

/** Each client keeps a stream open for each server, beside its calls. */
const BOUNDS: Bounds = { requests: 64, bytes: 16 * 1024 * 1024, totalBytes: 128 * 1024 * 1024 }

const TOKEN_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
/** 62^43 is more than 2^256. */
const TOKEN_LENGTH = 43

/** Characters of arguments that a person is asked about. More cannot be shown. */
const MAX_ARGUMENTS = 1024 * 1024

interface Opened {
  readonly servers: ReadonlyMap<string, ServerInUse>
  readonly asking: McpAsking.Asking
  readonly door: Door
  readonly run: (request: Effect.Effect<void>) => void
}

interface Gateway {
  readonly ids: Ids["Service"]
  readonly options: Options
  readonly limits: McpLimits
  readonly sessions: Map<string, Opened>
}

/** A server as the session uses it. The command of one is started later, and ends with the scope. */
const useOf = (target: McpTarget, limits: McpLimits): Effect.Effect<ServerInUse, never, Scope.Scope> =>
  "start" in target
    ? Effect.map(McpStdio.make(target, limits), (stdio) => ({ target, stdio, tools: null }))
    : Effect.succeed({ target, stdio: null, tools: null, keys: [] })

const tokenOf = ({ headers }: IncomingMessage): string => /^Bearer +(\S+)$/iu.exec(headers.authorization ?? "")?.[1] ?? ""

const refuse = (response: ServerResponse, status: number, message: string, headers: Readonly<Record<string, string>> = {}) =>
  reply(response, status, errorOf(null, message), headers)

const serve = Effect.fnUntraced(
  function*(
    { ids, limits, options }: Gateway,
    { asking, door }: Opened,
    server: ServerInUse,
    request: IncomingMessage,
    response: ServerResponse
  ) {
    const entry = door.enter()
    if (entry === null) return refuse(response, 429, "Too many requests are under way.", { "retry-after": "1" })
    const ended = new AbortController()
    response.once("close", () => ended.abort())
    const ask = (tool: string, given: unknown) => {
      const text = JSON.stringify(given, null, 2)
      if (text.length > MAX_ARGUMENTS) return Effect.succeed("Its arguments are too large to be shown to a person.")
      return Effect.flatMap(ids.uuid7, (id) => asking.ask({ id: `mcp:${id}`, server: server.target.name, tool, arguments: text }))
    }
    const exchanging = { server, request, response, limits, destinations: options, signal: ended.signal, ask }
    const work = Effect.gen(function*() {
      if (request.method !== "POST") return yield* McpExchange.other(exchanging, request.method === "GET" ? "GET" : "DELETE")
      const body = yield* readBody(
        { bodyMillis: options.bodyMillis ?? 30_000, maximumBytes: limits.requestBytes },
        request,
        entry,
        () => {}
      )
      if (body === "gone") return
      if (body === "too large") return refuse(response, 413, `A request may have ${limits.requestBytes} bytes.`, { connection: "close" })
      if (body === "too much") return refuse(response, 429, "The requests under way have too many bytes.", { "retry-after": "1" })
      if (body === "too slow") return refuse(response, 408, "The request did not arrive in time.", { connection: "close" })
      yield* McpExchange.post(exchanging, body.toString("utf8"))
    })
    const left = Effect.callback<void>((resume) => {
      if (ended.signal.aborted) resume(Effect.void)
      ended.signal.addEventListener("abort", () => resume(Effect.void), { once: true })
    })
    yield* Effect.raceFirst(work, left).pipe(Effect.ensuring(Effect.sync(() => {
      ended.abort()
      entry.leave()
      if (!response.writableEnded) response.destroy()
    })))
  }
)

const handle = (gateway: Gateway, request: IncomingMessage, response: ServerResponse) => {
  request.on("error", () => response.destroy())
  response.on("error", () => response.destroy())
  const path = (request.url ?? "/").split("?", 1)[0] ?? "/"
  const session = gateway.sessions.get(gateway.ids.digest(tokenOf(request)))
  // Not 401: clients would look for a way to sign in.
  if (session === undefined) return refuse(response, 403, "The token is not valid here.", { connection: "close" })
  const [, name = ""] = /^\/mcp\/([a-z0-9-]+)$/u.exec(path) ?? []
  const server = session.servers.get(name)
  if (server === undefined) return refuse(response, 404, "There is no such MCP server.", { connection: "close" })
  if (!["DELETE", "GET", "POST"].includes(request.method ?? "")) return refuse(response, 405, "The method is not known.", { allow: "POST" })
  session.run(
    serve(gateway, session, server, request, response).pipe(
      Effect.tapCause((cause) => Effect.logDebug("a request to an MCP server ended", cause)),
      Effect.ignoreCause
    )
  )
}

const listen = (gateway: Gateway) =>
  Effect.acquireRelease(
    Effect.callback<Server, McpGatewayError>((resume) => {
      const server = createServer(
        { keepAliveTimeout: 75_000, headersTimeout: 15_000, requestTimeout: 90_000 },
        (request, response) => handle(gateway, request, response)
      )
      server.once(
        "error",
        (cause) => resume(Effect.fail(new McpGatewayError({ detail: `The gateway of MCP servers cannot listen: ${cause.message}` })))
      )
      server.listen({ host: loopback(), port: 0 }, () => resume(Effect.succeed(server)))
    }),
    (server) =>
      Effect.callback<void>((resume) => {
        server.close(() => resume(Effect.void))
        server.closeAllConnections()
      })
  )

export const layer = (options: Options): Layer.Layer<McpGateway, McpGatewayError, Ids> =>
  Layer.effect(
    McpGateway,
    Effect.gen(function*() {
      const ids = yield* Ids
      const gateway: Gateway = { ids, options, limits: { ...LIMITS, ...options.limits }, sessions: new Map() }
      const server = yield* listen(gateway)
      const { port } = server.address() as AddressInfo
      const admission = new Admission({ ...BOUNDS, ...options.bounds })
      return McpGateway.of({
        open: Effect.fn("McpGateway.open")(function*({ servers }) {
          const token = yield* ids.random(TOKEN_ALPHABET, TOKEN_LENGTH)
          const digest = ids.digest(token)
          const requests = yield* FiberSet.make<void>()
          const run = yield* FiberSet.runtime(requests)()
          const asking = McpAsking.make()
          const inUse = yield* Effect.forEach(servers, (target) => useOf(target, gateway.limits))
          const opened: Opened = {
            servers: new Map(inUse.map((server) => [server.target.name, server])),
            asking,
            door: admission.open(),
            run
          }
          yield* Effect.acquireRelease(
            Effect.sync(() => gateway.sessions.set(digest, opened)),
            () =>
              Effect.sync(() => {
                gateway.sessions.delete(digest)
                opened.door.close()
              })
          )
          const session: McpSession = {
            access: { baseUrl: `${loopbackUrl(port)}/mcp`, token: Redacted.make(token) },
            look: (name) => {
              const found = opened.servers.get(name)
              return found === undefined
                ? Effect.succeed("It is unknown here.")
                : isCommand(found)
                ? McpStdioExchange.look(found)
                : McpExchange.look({ server: found, limits: gateway.limits, destinations: options })
            },
            attend: asking.attend,
            decide: asking.decide
          }
          return session
        })
      })
    })
  )
