/**
 * A company's network: the names of the outside lead to servers of this machine, but only its proxy knows them. The proxy wants a user and
 * a password.
 */
import { Effect, type Scope } from "effect"
import { createServer, type IncomingMessage, request as send, type RequestListener, type Server } from "node:http"
import { createServer as createTlsServer } from "node:https"
import { type AddressInfo, connect, type Socket } from "node:net"
import type { Duplex } from "node:stream"
import * as tls from "node:tls"
import { getGlobalDispatcher, setGlobalDispatcher } from "undici"
import * as ProxiedFetch from "../src/network/ProxiedFetch.ts"
import * as TrustedAuthorities from "../src/network/TrustedAuthorities.ts"
import { type Authority, authority } from "./Authority.ts"

/** The proxy's password. It must not get out. */
export const CANARY = "canary@of:the/proxy%9"
const USER = "slipway"
const SIGNED_IN = `Basic ${Buffer.from(`${USER}:${CANARY}`).toString("base64")}`

/** `works`; a status for every request; silence; the end of the connection; an answer that is not HTTP. */
type Behaviour = "works" | number | "silent" | "closes" | "garbage"

/** The names of the authority's certificate. */
const NAMES = ["*.outside.test", "localhost", "sts.eu-west-1.amazonaws.com", "sts.googleapis.com"]

const VARIABLES = ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "NO_PROXY", "no_proxy"]

const listening = (server: Server) =>
  Effect.acquireRelease(
    Effect.callback<number>((resume) => {
      server.listen(0, "127.0.0.1", () => resume(Effect.succeed((server.address() as AddressInfo).port)))
    }),
    () =>
      Effect.sync(() => {
        server.close()
        server.closeAllConnections()
      })
  )

export interface CompanyNetwork {
  /** With the user and the password. */
  readonly proxy: string
  /** The host and the port of the proxy. */
  readonly proxyHost: string
  /** The requests of the proxy, such as `CONNECT api.outside.test:443`. */
  readonly asked: Array<string>
  readonly behave: (behaviour: Behaviour) => void
  readonly authority: Authority
  /** From now on the name leads to the port of this machine. */
  readonly name: (destination: string, port: number) => void
  /** Serves https at the name, one of the certificate. */
  readonly https: (name: string, listener: RequestListener) => Effect.Effect<void, never, Scope.Scope>
}

const handle = (asked: Array<string>, names: ReadonlyMap<string, number>, behaviour: () => Behaviour) => {
  const refused = (request: IncomingMessage, client: Duplex): boolean => {
    asked.push(`${request.method} ${request.url}`)
    const now = behaviour()
    if (now === "silent") return true
    if (now === "closes") client.destroy()
    else if (now === "garbage") client.end("SSH-2.0-OpenSSH_9.2\r\n\r\n")
    else if (now !== "works") client.end(`HTTP/1.1 ${now} No\r\nconnection: close\r\ncontent-length: ${CANARY.length}\r\n\r\n${CANARY}`)
    else if (request.headers["proxy-authorization"] !== SIGNED_IN) {
      const wants = "proxy-authenticate: Basic realm=\"proxy\"\r\nconnection: close\r\ncontent-length: 0"
      client.end(`HTTP/1.1 407 Proxy Authentication Required\r\n${wants}\r\n\r\n`)
    } else return false
    return true
  }
  const open = new Set<Duplex>()
  const server = createServer((request, response) => {
    if (refused(request, request.socket)) return
    const url = new URL(request.url ?? "")
    const port = names.get(`${url.hostname}:${url.port || "80"}`)
    if (port === undefined) return void response.writeHead(502).end()
    const { "proxy-authorization": _, ...headers } = request.headers
    const path = `${url.pathname}${url.search}`
    const onwards = send({ host: "127.0.0.1", port, path, method: request.method, headers, agent: false }, (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers)
      answer.pipe(response)
    })
    onwards.on("error", () => response.destroy())
    request.pipe(onwards)
  })
  server.on("connect", (request: IncomingMessage, client: Duplex) => {
    open.add(client)
    client.on("error", () => {})
    if (refused(request, client)) return
    const port = names.get(request.url ?? "")
    if (port === undefined) return void client.end("HTTP/1.1 502 Bad Gateway\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")
    const upstream: Socket = connect(port, "127.0.0.1", () => {
      client.write("HTTP/1.1 200 Connection established\r\n\r\n")
      upstream.pipe(client)
      client.pipe(upstream)
    })
    open.add(upstream)
    upstream.on("error", () => client.destroy())
  })
  return { server, end: () => open.forEach((one) => one.destroy()) }
}

/** Without variables: {@link joined} sets them. */
export const start = Effect.gen(function*() {
  const made = yield* authority(...NAMES.map((name) => `DNS:${name}`))
  const names = new Map<string, number>()
  const asked: Array<string> = []
  let behaviour: Behaviour = "works"
  const { end, server } = handle(asked, names, () => behaviour)
  const port = yield* listening(server)
  yield* Effect.addFinalizer(() => Effect.sync(end))
  const network: CompanyNetwork = {
    proxy: `http://${USER}:${encodeURIComponent(CANARY)}@127.0.0.1:${port}`,
    proxyHost: `127.0.0.1:${port}`,
    asked,
    behave: (next) => void (behaviour = next),
    authority: made,
    name: (destination, to) => void names.set(destination, to),
    https: (name, listener) =>
      Effect.map(listening(createTlsServer({ key: made.key, cert: made.cert }, listener)), (to) => void names.set(`${name}:443`, to))
  }
  return network
})

/** Sets variables of this process until the scope closes; all others of proxies are not set. */
export const withVariables = (variables: Readonly<Record<string, string>>) =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const before = VARIABLES.map((name) => [name, process.env[name]] as const)
      for (const name of VARIABLES) delete process.env[name]
      Object.assign(process.env, variables)
      return before
    }),
    (before) =>
      Effect.sync(() => {
        for (const [name, value] of before) {
          if (value === undefined) delete process.env[name]
          else process.env[name] = value
        }
      })
  )

/** `fetch` of this process uses the proxy until the scope closes. */
export const fetching = Effect.acquireRelease(
  Effect.sync(() => {
    const before = getGlobalDispatcher()
    ProxiedFetch.install()
    return before
  }),
  (before) => Effect.promise(() => getGlobalDispatcher().destroy()).pipe(Effect.andThen(Effect.sync(() => setGlobalDispatcher(before))))
)

/** This process, git and boxes trust the authorities of the file until the scope closes. */
export const trusting = (file: string) =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const before = tls.getCACertificates("default")
      TrustedAuthorities.install(file)
      return before
    }),
    (before) =>
      Effect.sync(() => {
        TrustedAuthorities.uninstall()
        tls.setDefaultCACertificates(before)
      })
  )

/** This process is in the network, and trusts its authority, until the scope closes. */
export const joined = Effect.gen(function*() {
  const network = yield* start
  yield* withVariables({ HTTPS_PROXY: network.proxy, HTTP_PROXY: network.proxy })
  yield* fetching
  yield* trusting(network.authority.file)
  return network
})
