/** The `node:http` server: its limits, and the error body for what Node would answer by itself (docs/decisions/1). */
import { HeadersTooLarge, InvalidRequest, NotFound, type Refusal, RequestTimeout } from "@slipway/api/shared/Errors"
import { Duration } from "effect"
import { type IncomingMessage, Server, type ServerOptions, type ServerResponse, STATUS_CODES } from "node:http"
import type { Socket } from "node:net"
import { newRequestId } from "../RequestId.ts"

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
const write = (socket: Socket, { code, message, status }: Refusal) => {
  const body = JSON.stringify({ error: { code, message } })
  socket.end([
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
    "Content-Type: application/json; charset=utf-8",
    `Content-Length: ${Buffer.byteLength(body)}`,
    "Cache-Control: no-store",
    "X-Content-Type-Options: nosniff",
    `X-Request-Id: ${newRequestId()}`,
    "Connection: close",
    "",
    body
  ].join("\r\n"))
  // A client that goes on sending must not keep the connection.
  socket.once("finish", () => socket.destroySoon())
}

type Answer = (request: IncomingMessage, response: ServerResponse) => boolean

class RequestServer extends Server {
  readonly #answer: Answer
  /** The unanswered requests of each connection, in their order. */
  readonly #open = new WeakMap<Socket, Array<ServerResponse>>()
  /** Requests that came before there was a listener: a server listens a moment before its routes exist. `null`: there is one. */
  #early: Array<ServerResponse> | null = []

  constructor(options: ServerOptions, answer: Answer) {
    super(options)
    this.#answer = answer
    this.on("newListener", (event: string, listener: (request: IncomingMessage, response: ServerResponse) => void) => {
      if (event !== "request") return
      for (const response of this.#early ?? []) listener(response.req, response)
      this.#early = null
    })
  }

  underWay(socket: Socket): ReadonlyArray<ServerResponse> {
    return (this.#open.get(socket) ?? []).filter(({ closed }) => !closed)
  }

  /** Node closes the idle ones once, when the server is closed; those that are answered later were busy then. */
  readonly #closeIdle = () => {
    if (!this.listening) setImmediate(() => this.closeIdleConnections())
  }

  #remember({ socket }: IncomingMessage, response: ServerResponse) {
    const here = this.#open.get(socket)
    if (here === undefined) this.#open.set(socket, [response])
    else {
      while (here[0]?.closed === true) here.shift()
      here.push(response)
    }
    response.on("close", this.#closeIdle)
  }

  /** Before any listener: one of them cannot keep a request from the others. */
  override emit(event: string, ...args: Array<any>): boolean {
    if (event !== "request") return super.emit(event, ...args)
    const [request, response]: [IncomingMessage, ServerResponse] = args as never
    this.#remember(request, response)
    if (this.#early !== null) return this.#early.push(response) > 0
    try {
      if (this.#answer(request, response)) return true
    } catch {
      // It would end the process here. The listeners meet the same fault, tell the log, and answer 500.
    }
    return super.emit(event, request, response)
  }
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
  /** How long a connection may wait for its next request. */
  readonly keepAlive: Duration.Duration
  /**
   * The requests that may change the protocol beside those for terminals. The offers of others are ignored (RFC 9110, section 7.8).
   */
  readonly upgrades?: (request: IncomingMessage) => boolean
  /** Answers a request before the listeners see it, or returns false. */
  readonly answer?: Answer
}

export const make = ({ answer = () => false, keepAlive, upgrades = () => false }: Options): Server => {
  const server = new RequestServer({
    ...limits,
    shouldUpgradeCallback: (request) => isTerminal(request) || upgrades(request),
    keepAliveTimeout: Duration.toMillis(keepAlive)
  }, answer)
  const refused = new WeakSet<Socket>()

  /** Nothing after this is a request: what was asked before on the connection is answered, then comes the refusal. */
  const refuse = (socket: Socket, refusal: Refusal) => {
    if (refused.has(socket)) return
    refused.add(socket)
    const asked = server.underWay(socket)
    // The body of the last request cannot be read: the refusal is its answer, if it has none yet.
    const last = asked.at(-1)
    const broken = last !== undefined && !last.req.complete ? last : null
    after(broken === null ? asked : asked.slice(0, -1), () => {
      if (!socket.writable) return socket.destroy()
      if (broken === null || !broken.headersSent) return write(socket, refusal)
      return after([broken], () => socket.destroy())
    })
  }

  server.on("clientError", (error: NodeJS.ErrnoException, socket: Socket) => {
    if (error.code === "ECONNRESET" || !socket.writable) return socket.destroy()
    return refuse(socket, refusalOf(error.code))
  })
  // Node would answer 417 to any expectation but 100-continue; they may be ignored (RFC 9110, section 10.1.1).
  server.on("checkExpectation", (request, response) => server.emit("request", request, response))
  server.on("connect", (_request, socket: Socket) => refuse(socket, NotFound.make("There is nothing at this address.")))
  return server
}
