/** The HTTP server of the gateway: finds the session of a request by its token, and lets it in or refuses it. */
import { ModelGatewayError } from "@slipway/domain/models/ports/ModelGateway"
import { loopback } from "@slipway/machine/network/Loopback"
import { Cause, Effect } from "effect"
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http"
import type { Socket } from "node:net"
import { type Protocol, protocols } from "../protocols/Protocol.ts"
import { refuse } from "./Exchange.ts"
import { IdleConnections } from "./IdleConnections.ts"
import * as Refusals from "./Refusals.ts"
import { serve } from "./ServeRequest.ts"
import { type Gateway, inTrace, type Session } from "./Session.ts"

/** From a connection's start, or its first byte, to the end of a request's head. */
const HEAD_MILLIS = 15_000

/** Idle connections without a valid token so far, of all clients together. */
const IDLE_STRANGERS = 256

/** How long the rest of a refused request is read and dropped, because an agent that is still writing would not see the answer. */
const LINGER_MILLIS = 5000

/** The pause after each dropped chunk of at most 64 KiB, because reading takes processor time from others. */
const DROP_MILLIS = 4

/** The sessions of a gateway by the digest of their token: the time of a lookup reveals nothing about a token. */
export type Sessions = Map<string, Session>

/** Ends the connection of an answered request whose body is still being sent. */
const linger = (request: IncomingMessage) => {
  if (request.complete || request.destroyed) return
  const timer = setTimeout(() => request.socket.destroy(), LINGER_MILLIS)
  request.on("data", () => {
    request.pause()
    setTimeout(() => request.resume(), DROP_MILLIS)
  })
  request.once("close", () => clearTimeout(timer))
}

const tokenOf = ({ headers }: IncomingMessage): string => {
  const key = headers["x-api-key"]
  if (typeof key === "string") return key
  return /^Bearer +(\S+)$/iu.exec(headers.authorization ?? "")?.[1] ?? ""
}

/** The protocol for errors to a client without a session. */
const protocolOf = (path: string): Protocol =>
  path.startsWith(protocols["anthropic-messages"].route) ? protocols["anthropic-messages"] : protocols["openai-chat"]

const listen = (server: Server, where: { readonly port: 0 } | { readonly socket: string }) =>
  Effect.callback<void, ModelGatewayError>((resume) => {
    const failed = (cause: Error) =>
      resume(Effect.fail(new ModelGatewayError({ detail: `The model gateway cannot listen: ${cause.message}`, retryable: false })))
    server.once("error", failed)
    server.listen("socket" in where ? { path: where.socket } : { host: loopback(), port: where.port }, () => {
      server.off("error", failed)
      resume(Effect.void)
    })
  })

const listModel = ({ upstream }: Session, response: ServerResponse) => {
  response.writeHead(200, { "content-type": "application/json", "cache-control": "no-store" })
  const model = {
    id: upstream.model,
    object: "model",
    type: "model",
    created: 0,
    owned_by: "slipway",
    display_name: upstream.model
  }
  return response.end(JSON.stringify({ object: "list", data: [model], has_more: false }))
}

/** `owners`: to which idle connections each connection belongs when no request is under way on it. */
const handle = (
  gateway: Gateway,
  sessions: Sessions,
  owners: WeakMap<Socket, IdleConnections>,
  request: IncomingMessage,
  response: ServerResponse
) => {
  const path = (request.url ?? "/").split("?", 1)[0] ?? "/"
  const session = sessions.get(gateway.ids.digest(tokenOf(request)))
  const protocol = session?.protocol ?? protocolOf(path)
  const refused = ({ headers, ...error }: Refusals.Refusal) => refuse(response, protocol, error, headers)
  request.on("error", () => response.destroy())
  response.on("error", () => response.destroy())
  response.once("finish", () => linger(request))
  if (session === undefined) return refused(Refusals.unknownToken)
  owners.get(request.socket)?.remove(request.socket)
  owners.set(request.socket, session.idle)
  response.once("close", () => session.idle.add(request.socket))
  if (request.method === "GET" && path === "/v1/models") return listModel(session, response)
  const isFree = protocol.free.includes(path) && !session.destination.lacks.includes(path)
  if (request.method !== "POST" || path !== protocol.route && !isFree) return refused(Refusals.unknownAddress)
  const debt = session.refusals.debtMillis(performance.now())
  if (debt > 0) return refused(Refusals.tooManyRefused(debt))
  const entry = session.door.enter()
  if (entry === null) return refused(Refusals.tooManyUnderWay)
  session.run(
    serve(gateway, session, entry, request, response, path, isFree).pipe(
      inTrace(session),
      Effect.tapCause((cause) => Cause.hasInterruptsOnly(cause) ? Effect.void : Effect.logError("the model gateway failed", cause)),
      Effect.ignoreCause,
      Effect.ensuring(Effect.sync(entry.leave))
    )
  )
}

/** Starts servers for the sessions, each until its scope closes. They share the limit of idle connections. */
export const make = (gateway: Gateway, sessions: Sessions) => {
  const strangers = new IdleConnections(IDLE_STRANGERS)
  const owners = new WeakMap<Socket, IdleConnections>()
  return (where: Parameters<typeof listen>[1]) =>
    Effect.acquireRelease(
      Effect.gen(function*() {
        const server = createServer({
          // Longer than agents keep a connection for reuse.
          keepAliveTimeout: 75_000,
          headersTimeout: HEAD_MILLIS,
          // Only for refused requests that are still being sent: `bodyMillis` ends all others earlier.
          requestTimeout: HEAD_MILLIS + 2 * gateway.bodyMillis,
          connectionsCheckingInterval: 5000
        }, (request, response) => handle(gateway, sessions, owners, request, response))
        server.on("connection", (connection) => {
          owners.set(connection, strangers)
          strangers.add(connection)
          connection.once("close", () => owners.get(connection)?.remove(connection))
        })
        yield* listen(server, where)
        return server
      }),
      (server) =>
        Effect.callback<void>((resume) => {
          server.close(() => resume(Effect.void))
          server.closeAllConnections()
        })
    )
}
