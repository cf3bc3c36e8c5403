/** The `node:http` server: its limits, and the error body for what Node would answer by itself (docs/decisions/1). */
import { HeadersTooLarge, InvalidRequest, NotFound, type Refusal, RequestTimeout } from "@slipway/api/shared/Errors"
import { Duration } from "effect"
import { createServer, type IncomingMessage, type Server, type ServerResponse, STATUS_CODES } from "node:http"
import type { Socket } from "node:net"

/** The address of a terminal, perhaps with a path in front of it. */
const TERMINAL = /\/sandboxes\/[^/?]+\/terminal(?:\?|$)/u

const isTerminal = ({ headers, url }: IncomingMessage) => headers.upgrade?.toLowerCase() === "websocket" && TERMINAL.test(url ?? "")

const limits = {
  /** From a request's first byte, or from the connection's beginning; the wait between requests is `keepAlive`. */
  headersTimeout: 10_000,
  /** The whole request, not its answer. */
  requestTimeout: 30_000,
  connectionsCheckingInterval: 2_000,
  maxHeaderSize: 16 * 1024,
  /** `Edge` refuses such a request, with a body. */
  requireHostHeader: false
}

const refusalOf = (code: string | undefined): Refusal =>
  code === "ERR_HTTP_REQUEST_TIMEOUT"
    ? RequestTimeout.make("The request did not arrive in time.")
    : code === "HPE_HEADER_OVERFLOW"
    ? HeadersTooLarge.make("The headers are larger than 16 KiB.")
    : InvalidRequest.make("The request is not valid HTTP.")

/** Writes the refusal past a response object, because there is none, and closes. */
const write = (socket: Socket, { code, message, status }: Refusal, requestId: string) => {
  const body = JSON.stringify({ error: { code, message } })
  socket.end([
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
    "Content-Type: application/json; charset=utf-8",
    `Content-Length: ${Buffer.byteLength(body)}`,
    "Cache-Control: no-store",
    "X-Content-Type-Options: nosniff",
    `X-Request-Id: ${requestId}`,
    "Connection: close",
    "",
    body
  ].join("\r\n"))
  // A client that goes on sending must not keep the connection.
  socket.once("finish", () => socket.destroySoon())
}

/** The unanswered requests of each connection, in their order. Runs for every request. */
const exchanges = (server: Server) => {
  const open = new WeakMap<Socket, Array<ServerResponse>>()
  // Node closes the idle ones once, when the server is closed; those that are answered later were busy then.
  const closeIdle = () => {
    if (!server.listening) setImmediate(() => server.closeIdleConnections())
  }
  server.on("request", ({ socket }, response) => {
    const here = open.get(socket)
    if (here === undefined) open.set(socket, [response])
    else {
      while (here[0]?.closed === true) here.shift()
      here.push(response)
    }
    response.on("close", closeIdle)
  })
  return (socket: Socket): ReadonlyArray<ServerResponse> => (open.get(socket) ?? []).filter(({ closed }) => !closed)
}

/**
 * Keeps requests that come before there is a listener, and hands them to the first one: a server listens a moment before its routes
 * exist, and Node drops a request without a listener.
 */
const holdEarly = (server: Server) => {
  const early: Array<ServerResponse> = []
  const hold = (_request: IncomingMessage, response: ServerResponse) => void early.push(response)
  server.on("request", hold)
  const answered = (event: string, answer: (request: IncomingMessage, response: ServerResponse) => void) => {
    if (event !== "request") return
    server.off("request", hold).off("newListener", answered)
    for (const response of early) answer(response.req, response)
  }
  server.on("newListener", answered)
}

/** Runs the action when all of them are answered, or broken off: at once where there are none. */
const after = (responses: ReadonlyArray<ServerResponse>, action: () => void) => {
  let left = responses.length
  if (left === 0) return action()
  for (const response of responses) {
    response.once("close", () => {
      if (--left === 0) action()
    })
  }
}

interface Options {
  /** Names a request that no handler ever saw. */
  readonly newRequestId: () => string
  /** How long a connection may wait for its next request. */
  readonly keepAlive: Duration.Duration
  /**
   * The requests that may change the protocol beside those for terminals. The offers of others are ignored (RFC 9110, section 7.8).
   */
  readonly upgrades?: (request: IncomingMessage) => boolean
}

export const make = ({ keepAlive, newRequestId, upgrades = () => false }: Options): Server => {
  const server = createServer({
    ...limits,
    shouldUpgradeCallback: (request) => isTerminal(request) || upgrades(request),
    keepAliveTimeout: Duration.toMillis(keepAlive)
  })
  const underWay = exchanges(server)
  const refused = new WeakSet<Socket>()

  /** Nothing after this is a request: what was asked before on the connection is answered, then comes the refusal. */
  const refuse = (socket: Socket, refusal: Refusal) => {
    if (refused.has(socket)) return
    refused.add(socket)
    const asked = underWay(socket)
    // The body of the last request cannot be read: the refusal is its answer, if it has none yet.
    const last = asked.at(-1)
    const broken = last !== undefined && !last.req.complete ? last : null
    after(broken === null ? asked : asked.slice(0, -1), () => {
      if (!socket.writable) return socket.destroy()
      if (broken === null || !broken.headersSent) return write(socket, refusal, newRequestId())
      return after([broken], () => socket.destroy())
    })
  }

  holdEarly(server)
  server.on("clientError", (error: NodeJS.ErrnoException, socket: Socket) => {
    if (error.code === "ECONNRESET" || !socket.writable) return socket.destroy()
    return refuse(socket, refusalOf(error.code))
  })
  // Node would answer 417 to any expectation but 100-continue; they may be ignored (RFC 9110, section 10.1.1).
  server.on("checkExpectation", (request, response) => server.emit("request", request, response))
  server.on("connect", (_request, socket: Socket) => refuse(socket, NotFound.make("There is nothing at this address.")))
  return server
}
