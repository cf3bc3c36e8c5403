/** The way of the global `fetch`: through the operator's proxy where there is one for the destination. */
import { isIP } from "node:net"
import { connect as connectTls } from "node:tls"
import { Agent, Dispatcher, ProxyAgent, setGlobalDispatcher } from "undici"
import { proxyOf } from "./OutgoingRequest.ts"
import { authorization } from "./ProxySettings.ts"
import { connectThrough } from "./ProxyTunnel.ts"

/** Until a destination is connected, directly. */
const CONNECT_MILLIS = 10_000

class OutgoingDispatcher extends Dispatcher {
  readonly #direct = new Agent({ connect: { timeout: CONNECT_MILLIS } })
  /** For https. */
  readonly #tunnelled = new Agent({
    connect: ({ hostname, port, servername }, done) => {
      const host = hostname.replace(/^\[|\]$/gu, "")
      const failed = (error: Error) => done(error, null)
      const proxy = proxyOf(new URL(`https://${hostname}:${port || 443}`))
      if (proxy === undefined) return failed(new Error("the destination has no proxy"))
      connectThrough(proxy, { host, port: Number(port || 443) }).then((socket) => {
        const secure = connectTls({
          socket,
          ALPNProtocols: ["http/1.1"],
          ...isIP(host) === 0 ? { servername: servername || host } : {}
        })
        secure.once("error", failed).once("secureConnect", () => {
          secure.off("error", failed)
          done(null, secure)
        })
      }, failed)
    }
  })
  /** For http, by the proxy's address. */
  readonly #forwarded = new Map<string, ProxyAgent>()

  override dispatch(options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): boolean {
    const origin = new URL(String(options.origin))
    const proxy = proxyOf(origin)
    if (proxy === undefined) return this.#direct.dispatch(options as Agent.DispatchOptions, handler)
    if (origin.protocol === "https:") return this.#tunnelled.dispatch(options as Agent.DispatchOptions, handler)
    const known = this.#forwarded.get(proxy.href)
    const token = authorization(proxy)
    const agent = known ?? new ProxyAgent({ uri: proxy.origin, proxyTunnel: false, ...token === undefined ? {} : { token } })
    if (known === undefined) this.#forwarded.set(proxy.href, agent)
    return agent.dispatch(options as Agent.DispatchOptions, handler)
  }

  #all(): ReadonlyArray<Dispatcher> {
    return [this.#direct, this.#tunnelled, ...this.#forwarded.values()]
  }

  override async close(): Promise<void> {
    await Promise.all(this.#all().map((one) => one.close()))
  }

  override async destroy(): Promise<void> {
    await Promise.all(this.#all().map((one) => one.destroy()))
  }
}

/** From now on, `fetch` of this process uses the proxy of the present variables. */
export const install = (): void => setGlobalDispatcher(new OutgoingDispatcher())
