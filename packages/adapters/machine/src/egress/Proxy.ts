/**
 * The way out of one sandbox: an HTTP server on a unix socket of its own, so the socket says whose requests they are.
 *
 *     CONNECT name:port     to what the allow list names. The name is resolved here, and every address it has is checked
 *     GET /…, POST /…       to the gateway of its model or of its MCP servers, while the sandbox has a session with it
 *     GET http://name/…     to what the allow list names with this port, 80 where the address has none: looked up and checked as above
 *
 * Nothing of a connection is looked into. If the operator has a proxy for a destination, the connection goes through it, and names that
 * are not known here are resolved by it. The box never learns of it.
 */
import { destination } from "@slipway/domain/environment/rules/Destination"
import { lookup as resolve } from "node:dns/promises"
import {
  Agent,
  createServer,
  type IncomingMessage,
  request as send,
  type RequestOptions,
  type Server,
  type ServerResponse
} from "node:http"
import { connect, type Socket } from "node:net"
import { type Duplex, finished } from "node:stream"
import { isResolvedByProxy, proxyOf } from "../network/OutgoingRequest.ts"
import { authorization } from "../network/ProxySettings.ts"
import { connectThrough, opened, ProxyFailed, toProxy } from "../network/ProxyTunnel.ts"
import { isPublic } from "./Addresses.ts"
import type { AllowList } from "./AllowList.ts"

interface Refusal {
  /** The requested destination, at most 200 characters. */
  readonly target: string
  readonly reason:
    | "not allowed"
    | "not a public address"
    | "not resolved"
    | "not reached"
    | "no model session"
    | "too many connections"
    | "not understood"
}

export interface Options {
  readonly allow: AllowList
  /** Where the gateway for this path listens for this sandbox: that of its model or of its MCP servers. `undefined` without a session. */
  readonly gateway: (path: string) => URL | undefined
  readonly refused: (refusal: Refusal) => void
  /** Takes a `CONNECT` of a bridge for its ports; `false`: it is another one. */
  readonly ports?: (target: string, client: Duplex, head: Buffer) => boolean
  /** Addresses of a name. */
  readonly lookup?: (name: string) => Promise<ReadonlyArray<string>>
  readonly mayConnect?: (address: string) => boolean
  /** The most connections of one box at the same time. Default 128: package managers open about fifty. */
  readonly maxConnections?: number
  /** Until a connection has said what it wants. Default 10 seconds. */
  readonly headMillis?: number
}

const MAX_CONNECTIONS = 128
const HEAD_MILLIS = 10_000
/** For all of a request to the gateway, which has a shorter one of its own. */
const REQUEST_MILLIS = 90_000
const CONNECT_MILLIS = 10_000
const IDLE_MILLIS = 300_000

/** Headers of this connection alone (RFC 9110, 7.6.1), or for a proxy. */
const HOP_BY_HOP = new Set([
  "connection",
  "keep-alive",
  "proxy-authenticate",
  "proxy-authorization",
  "proxy-connection",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
  "host"
])

const printable = (text: string) => text.slice(0, 200).replace(/[^\x20-\x7e]/gu, "?")

const statusOf = (reason: Refusal["reason"]): number => reason === "not resolved" || reason === "not reached" ? 502 : 403

const ADVICE: Partial<Record<Refusal["reason"], string>> = {
  "not allowed": "not on the list of what sandboxes may reach, which its operator keeps",
  "not resolved": "a name that cannot be resolved",
  "not reached": "not reachable"
}

const explanation = (target: string, reason: Refusal["reason"]): string => `Slipway: ${printable(target)} is ${ADVICE[reason] ?? reason}.`

/** Connects to the first address that answers. */
const connectTo = async (addresses: ReadonlyArray<string>, port: number): Promise<Socket | undefined> => {
  for (const host of addresses) {
    const socket = connect({ host, port, allowHalfOpen: true })
    const connected = await new Promise<boolean>((done) => {
      const timer = setTimeout(() => done(false), CONNECT_MILLIS)
      socket.once("connect", () => {
        clearTimeout(timer)
        done(true)
      })
      socket.once("error", () => {
        clearTimeout(timer)
        done(false)
      })
    })
    if (connected) return socket
    socket.destroy()
  }
  return undefined
}

/** Ends `other` once `one` is over: what `one` said to its end arrives first. Of a half that was cut off, nothing is left to arrive. */
const follow = (one: Duplex, other: Duplex) =>
  finished(one, (error) => {
    // Both halves have ended: so has the pipe to `other`.
    if (!error) return
    if (!one.readableEnded) return void other.destroy()
    finished(other, { readable: false }, () => other.destroy())
    other.resume()
  })

/** Each half ends by itself: bytes that a slow reader has not taken yet outlive the connection that sent them. */
const join = (client: Duplex, upstream: Socket, head: Buffer) => {
  const idle = setTimeout(() => {
    client.destroy()
    upstream.destroy()
  }, IDLE_MILLIS)
  let open = 2
  for (const [one, other] of [[client, upstream], [upstream, client]] as const) {
    for (const event of ["data", "drain"]) one.on(event, () => idle.refresh())
    one.once("close", () => --open === 0 && clearTimeout(idle))
    follow(one, other)
  }
  client.write("HTTP/1.1 200 Connection established\r\n\r\n")
  upstream.write(head)
  upstream.pipe(client)
  client.pipe(upstream)
}

/** The destination of a request for `http://name:port/path`; `undefined`: it has no name. */
const plainTarget = (url: string) => {
  if (!/^http:\/\//iu.test(url) || !URL.canParse(url)) return undefined
  const { hostname, pathname, port, search, username } = new URL(url)
  const to = username === "" ? destination(`${hostname}:${port === "" ? 80 : port}`) : undefined
  return to === undefined ? undefined : { ...to, path: `${pathname}${search}` }
}

const headersOf = (message: IncomingMessage) =>
  Object.fromEntries(
    Object.entries(message.headersDistinct).filter(([name]) => !HOP_BY_HOP.has(name)).map(([name, values]) => [name, values ?? []])
  )

export interface Proxy {
  /** Not yet listening. */
  readonly server: Server
  /** Takes a connection that did not come to its socket, and is closed where there are as many as may be. */
  readonly take: (connection: Duplex) => void
  /** Also ends the connections it has made. */
  readonly close: () => void
}

interface State extends Pick<Options, "allow" | "gateway" | "refused"> {
  readonly lookup: NonNullable<Options["lookup"]>
  readonly mayConnect: NonNullable<Options["mayConnect"]>
  /** A connection for each request: nothing of one can be taken for the beginning of another. */
  readonly agent: Agent
  /** Connections of clients, and those that were made for them. */
  readonly sockets: Set<Duplex>
}

const deny = ({ refused }: State, refusal: Refusal) => refused({ ...refusal, target: printable(refusal.target) })

interface Reached {
  readonly socket: Socket
  /** The connection leads to this proxy, which forwards plain requests. */
  readonly forwardedBy?: URL
}

/** The connection through the operator's proxy; `undefined`: there is none. */
const through = async (proxy: URL, to: NonNullable<ReturnType<typeof destination>>, isPlain: boolean): Promise<Reached | undefined> => {
  const connection = isPlain ? opened(proxy, toProxy(proxy)) : connectThrough(proxy, to, { allowHalfOpen: true })
  const socket = await connection.catch((error: unknown) => {
    if (error instanceof ProxyFailed) return undefined
    throw error
  })
  return socket === undefined ? undefined : isPlain ? { socket, forwardedBy: proxy } : { socket }
}

/** Connects to a destination that is on the allow list; otherwise the reason for the refusal. `isPlain`: for a request by http. */
const reach = async (
  { allow, lookup, mayConnect, sockets }: State,
  to: ReturnType<typeof destination>,
  isPlain = false
): Promise<Reached | Refusal["reason"]> => {
  if (to === undefined || !allow.has(`${to.host}:${to.port}`)) return "not allowed"
  const url = new URL(`${isPlain ? "http" : "https"}://${to.host}:${to.port}`)
  // A dot at the end keeps the resolver from trying the machine's own domains.
  const addresses = await lookup(`${to.host}.`).catch(() => [])
  if (addresses.length === 0 && !isResolvedByProxy(url)) return "not resolved"
  // One address that is not public is enough: the owner of the name could choose among them.
  if (!addresses.every(mayConnect)) return "not a public address"
  const proxy = proxyOf(url)
  const socket = proxy === undefined ? await connectTo(addresses, to.port) : undefined
  const reached = proxy === undefined ? socket === undefined ? undefined : { socket } : await through(proxy, to, isPlain)
  if (reached === undefined) return "not reached"
  sockets.add(reached.socket)
  reached.socket.once("close", () => sockets.delete(reached.socket))
  return reached
}

const forward = async (state: State, request: IncomingMessage, response: ServerResponse) => {
  const { method, url = "" } = request
  const refuse = (reason: Refusal["reason"], status: number, help: string) => {
    deny(state, { target: `${method} ${url}`, reason })
    if (response.headersSent) return response.destroy()
    response.writeHead(status, help, { "content-type": "text/plain", connection: "close" }).end(`${help}\n`)
  }
  const { "content-length": length, "transfer-encoding": encoding } = request.headers
  // Without one of these there is none, in any method.
  const hasBody = encoding !== undefined || length !== undefined && length !== "0"
  const isModels = url.startsWith("/")
  if (hasBody && method !== "POST" && isModels || encoding !== undefined && encoding.toLowerCase() !== "chunked") {
    return refuse("not understood", 400, "Only a POST may have a body, chunked or of a stated length.")
  }
  const upstreamOf = async (): Promise<RequestOptions | undefined> => {
    if (isModels) {
      const target = state.gateway(url)
      if (target !== undefined) return { agent: state.agent, host: target.hostname.replace(/^\[|\]$/gu, ""), port: target.port, path: url }
      return void refuse("no model session", 403, "This sandbox has no session with a model or an MCP server.")
    }
    const target = plainTarget(url)
    const reached = await reach(state, target, true)
    if (typeof reached === "string") {
      return void refuse(reached, statusOf(reached), explanation(target === undefined ? url : `${target.host}:${target.port}`, reached))
    }
    const { forwardedBy, socket } = reached
    socket.setTimeout(IDLE_MILLIS, () => socket.destroy())
    const signIn = forwardedBy === undefined ? undefined : authorization(forwardedBy)
    return {
      createConnection: () => socket,
      path: forwardedBy === undefined ? target?.path : new URL(url).href,
      setHost: false,
      ...signIn === undefined ? {} : { headers: { "proxy-authorization": signIn } }
    }
  }
  const to = await upstreamOf()
  if (to === undefined) return
  const headers = {
    ...to.headers,
    ...headersOf(request),
    ...isModels ? {} : { host: new URL(url).host, connection: "close" },
    ...(encoding === undefined ? {} : { "transfer-encoding": "chunked" })
  }
  const upstream = send({ ...to, method, headers }, (answer) => {
    response.writeHead(answer.statusCode ?? 502, headersOf(answer))
    answer.pipe(response)
    answer.once("error", () => response.destroy())
  })
  upstream.once(
    "error",
    () => refuse("not reached", 502, isModels ? "The gateway cannot be reached." : explanation(new URL(url).host, "not reached"))
  )
  response.once("close", () => upstream.destroy())
  if (response.destroyed) upstream.destroy()
  else if (hasBody) request.pipe(upstream)
  else upstream.end()
}

const tunnel = async (state: State, request: IncomingMessage, client: Duplex, head: Buffer) => {
  const target = request.url ?? ""
  const reached = await reach(state, destination(target))
  if (typeof reached === "string") {
    deny(state, { target, reason: reached })
    const help = explanation(target, reached)
    // Most programs show the words of the first line alone.
    return void client.end(
      `HTTP/1.1 ${statusOf(reached)} ${help}\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n${help}\n`
    )
  }
  if (client.destroyed) return void reached.socket.destroy()
  join(client, reached.socket, head)
}

export const make = (options: Options): Proxy => {
  const { allow, gateway, headMillis = HEAD_MILLIS, maxConnections = MAX_CONNECTIONS, mayConnect = isPublic, refused } = options
  const lookup = options.lookup ?? (async (name: string) => (await resolve(name, { all: true })).map(({ address }) => address))
  const state: State = { allow, gateway, lookup, mayConnect, refused, agent: new Agent({ keepAlive: false }), sockets: new Set() }
  const { agent, sockets } = state
  const server = createServer({
    requestTimeout: REQUEST_MILLIS,
    headersTimeout: headMillis,
    connectionsCheckingInterval: Math.min(headMillis, 5000),
    maxHeaderSize: 65_536,
    insecureHTTPParser: false
  }, (request, response) => {
    forward(state, request, response).catch(() => response.destroy())
  })
  server.maxConnections = maxConnections
  let taken = 0
  let isClosed = false
  server.on("drop", () => deny(state, { target: "", reason: "too many connections" }))
  server.on("connection", (socket) => {
    sockets.add(socket)
    socket.once("close", () => sockets.delete(socket))
    socket.on("error", () => socket.destroy())
  })
  server.on("connect", (request, client, head) => {
    if (options.ports?.(request.url ?? "", client, head) === true) return
    tunnel(state, request, client, head).catch(() => client.destroy())
  })
  server.on("clientError", (_, socket) => {
    if (socket.writable) socket.end("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n", () => socket.destroy())
    else socket.destroy()
  })
  return {
    server,
    take: (connection) => {
      // A dropped client still gets the reason.
      connection.on("error", () => {})
      if (isClosed) return void connection.destroy()
      if (taken >= maxConnections) {
        deny(state, { target: "", reason: "too many connections" })
        return void connection.destroy()
      }
      taken++
      connection.once("close", () => taken--)
      server.emit("connection", connection)
    },
    close: () => {
      isClosed = true
      server.close()
      for (const socket of sockets) socket.destroy()
      agent.destroy()
    }
  }
}
