/** Requests by Node's HTTP client to the outside, through the operator's proxy if there is one. `fetch` has `Network.ts` for it. */
import { type Agent, type ClientRequest, request as httpRequest, type RequestOptions } from "node:http"
import { Agent as HttpsAgent, request as httpsRequest } from "node:https"
import { isIP, type Socket } from "node:net"
import type { Duplex } from "node:stream"
import type { ConnectionOptions, TLSSocket } from "node:tls"
import { authorization, type Environment, parse, proxyFor, type ProxySettings } from "./ProxySettings.ts"
import { connectThrough, ProxyFailed } from "./ProxyTunnel.ts"

const VARIABLES = ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "NO_PROXY", "no_proxy"]

let known: { readonly from: string; readonly settings: ProxySettings } | undefined

/** The settings of this process. Throws `InvalidProxy`, which a start reports. */
export const settings = (environment: Environment = process.env): ProxySettings => {
  const from = VARIABLES.map((name) => environment[name] ?? "").join("\n")
  if (known?.from !== from) known = { from, settings: parse(environment) }
  return known.settings
}

/** The proxies in use. */
export const proxies = (): ReadonlyArray<URL> => {
  const { http, https } = settings()
  return [...new Map([https, http].flatMap((proxy) => proxy === undefined ? [] : [[proxy.href, proxy]])).values()]
}

/** The proxy for requests to the address; `undefined`: it is reached directly. */
export const proxyOf = (url: URL): URL | undefined => proxyFor(settings(), url)

/**
 * Whether a name that has no address here may be requested: the proxy resolves it. Machines behind a proxy often know no names of the
 * outside. Then the proxy decides alone which addresses are reached.
 */
export const isResolvedByProxy = (url: URL): boolean => isIP(url.hostname.replace(/^\[|\]$/gu, "")) === 0 && proxyOf(url) !== undefined

/** An agent for https that connects through the proxy where there is one for the destination. Its connections are open. */
export class OutgoingAgent extends HttpsAgent {
  override createConnection(
    options: ConnectionOptions & { readonly host?: string; readonly port?: number | string },
    done: (error: Error | null, socket: Duplex) => void
  ): Duplex | null | undefined {
    const { host = "localhost", port = 443 } = options
    const proxy = proxyOf(new URL(`https://${isIP(host) === 6 ? `[${host}]` : host}:${port}`))
    if (proxy === undefined) return super.createConnection(options, done)
    const failed = (error: Error) => done(error, undefined as unknown as Duplex)
    connectThrough(proxy, { host, port: Number(port) }).then((socket) => {
      const over: ConnectionOptions = { ...options, socket }
      const secure = super.createConnection(over as typeof options) as TLSSocket
      secure.once("error", failed).once("secureConnect", () => {
        secure.off("error", failed)
        done(null, secure)
      })
    }, failed)
    return undefined
  }
}

/** Calls `then` when the connection is open, or at once. */
export const whenConnected = (socket: Socket, isSecure: boolean, then: () => void): void => {
  if (socket.connecting) socket.once(isSecure ? "secureConnect" : "connect", then)
  else then()
}

/** A request to an http address: its whole address goes to the proxy. */
const plain = (url: URL, proxy: URL, { agent, headers, method, signal }: OutgoingOptions): ClientRequest => {
  const signIn = authorization(proxy)
  const isSecure = proxy.protocol === "https:"
  return (isSecure ? httpsRequest : httpRequest)({
    ...method === undefined ? {} : { method },
    ...signal === undefined ? {} : { signal },
    agent: isSecure ? false : agent ?? false,
    protocol: proxy.protocol,
    host: proxy.hostname.replace(/^\[|\]$/gu, ""),
    port: proxy.port === "" ? isSecure ? 443 : 80 : proxy.port,
    path: url.href,
    setHost: false,
    headers: { ...headers, host: url.host, ...signIn === undefined ? {} : { "proxy-authorization": signIn } }
  })
}

export interface OutgoingOptions extends Pick<RequestOptions, "method" | "signal" | "lookup"> {
  readonly headers: Readonly<Record<string, string | number>>
  /** For https an {@link OutgoingAgent}. Default: a connection of its own. */
  readonly agent?: Agent
  /** Certificates that are trusted instead of the system's, PEM. */
  readonly ca?: string
}

/** Begins the request, as `http.request` does. `lookup` is not used for a request through the proxy. */
export const request = (url: URL, options: OutgoingOptions): ClientRequest => {
  if (url.protocol === "https:") return httpsRequest(url, { ...options, agent: options.agent ?? new OutgoingAgent() })
  const proxy = proxyOf(url)
  return proxy === undefined ? httpRequest(url, { ...options, agent: options.agent ?? false }) : plain(url, proxy, options)
}

/** The failure of the proxy that is the error, or its cause. */
export const proxyFailureIn = (error: unknown): ProxyFailed | undefined => {
  for (let cause = error; cause instanceof Error; cause = cause.cause) if (cause instanceof ProxyFailed) return cause
  return undefined
}
