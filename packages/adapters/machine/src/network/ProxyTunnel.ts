/** A connection through an HTTP proxy by CONNECT (RFC 9110, 9.3.6). The proxy resolves the name. */
import { codeOf } from "@slipway/domain/files/rules/SystemError"
import { connect as connectTcp, isIP, type Socket } from "node:net"
import { connect as connectTls } from "node:tls"
import { authorization, shown } from "./ProxySettings.ts"

/** Until the proxy has connected to the destination. Shorter than the times of those who connect, so that they can name the proxy. */
const CONNECT_MILLIS = 8000
/** Bytes of the head of its answer. */
const MAX_HEAD_BYTES = 16_384

/** The proxy did not connect. The message is a sentence for operators: it has the proxy's address, but not its user and password. */
export class ProxyFailed extends Error {
  /** For messages that show codes alone, such as `PROXY_STATUS_407`. */
  readonly code: string
  /** The same without addresses, for people who use the service. */
  readonly plain: string

  constructor(proxy: URL, code: string, problem: string) {
    super(`The proxy ${shown(proxy)} ${problem}.`)
    this.code = code
    this.plain = `The service's proxy ${problem}.`
  }
}

export interface Destination {
  /** A name or an address, without brackets. */
  readonly host: string
  readonly port: number
}

/** The problem that the status of the proxy's answer names. */
const problemOf = (status: number): string => {
  if (status === 407) return "refuses the user and the password of its variable, or lacks them (status 407)"
  if (status === 403) return "does not allow this destination (status 403)"
  if (status >= 500) return `does not reach the destination (status ${status})`
  return `refuses to connect (status ${status})`
}

/** A connection to the proxy itself, maybe not yet open. */
export const toProxy = (proxy: URL): Socket => {
  const host = proxy.hostname.replace(/^\[|\]$/gu, "")
  const port = proxy.port === "" ? proxy.protocol === "https:" ? 443 : 80 : Number(proxy.port)
  return proxy.protocol === "https:"
    ? connectTls({ host, port, ...isIP(host) === 0 ? { servername: host } : {}, ALPNProtocols: ["http/1.1"] })
    : connectTcp({ host, port })
}

/** Resolves when the connection to the proxy is open. Rejects with {@link ProxyFailed}. */
export const opened = (proxy: URL, socket: Socket, millis = CONNECT_MILLIS): Promise<Socket> =>
  new Promise((done, failed) => {
    const fail = (code: string, problem: string) => {
      clearTimeout(timer)
      socket.destroy()
      failed(new ProxyFailed(proxy, code, problem))
    }
    const timer = setTimeout(() => fail("PROXY_SILENT", `did not connect within ${millis / 1000} seconds`), millis)
    const broken = (error: unknown) => {
      const code = String(codeOf(error) ?? "no code")
      fail(`PROXY_${code}`, `cannot be reached (${code})`)
    }
    socket.once("error", broken).once(proxy.protocol === "https:" ? "secureConnect" : "connect", () => {
      clearTimeout(timer)
      socket.off("error", broken)
      done(socket)
    })
  })

/** The status in the head of an answer; 0: it is not HTTP. */
const statusIn = (head: string): number => Number(/^HTTP\/1\.[01] (\d{3})(?: |\r|$)/u.exec(head)?.[1] ?? 0)

/**
 * Connects to the destination through the proxy. The connection is open and no byte of it was read. Rejects with {@link ProxyFailed}, also
 * when the proxy is silent.
 */
export const connectThrough = (
  proxy: URL,
  { host, port }: Destination,
  { allowHalfOpen = false, millis = CONNECT_MILLIS }: { readonly millis?: number; readonly allowHalfOpen?: boolean } = {}
): Promise<Socket> =>
  new Promise((done, failed) => {
    const socket = toProxy(proxy)
    socket.allowHalfOpen = allowHalfOpen
    const fail = (code: string, problem: string) => {
      clearTimeout(timer)
      socket.destroy()
      failed(new ProxyFailed(proxy, code, problem))
    }
    const timer = setTimeout(() => fail("PROXY_SILENT", `did not connect within ${millis / 1000} seconds`), millis)
    const broken = (error: unknown) => {
      const code = String(codeOf(error) ?? "no code")
      fail(`PROXY_${code}`, `cannot be reached (${code})`)
    }
    const closed = () => fail("PROXY_CLOSED", "closed the connection")
    socket.on("error", broken)
    socket.once("end", closed).once("close", closed)
    let head = Buffer.alloc(0)
    const hear = (chunk: Buffer) => {
      head = Buffer.concat([head, chunk])
      const end = head.indexOf("\r\n\r\n")
      if (end < 0) {
        if (head.length > MAX_HEAD_BYTES) fail("PROXY_INVALID", "gives an invalid answer")
        return
      }
      const status = statusIn(head.subarray(0, end).toString("latin1"))
      if (status === 0) return fail("PROXY_INVALID", "gives an invalid answer")
      if (status < 200 || status > 299) return fail(`PROXY_STATUS_${status}`, problemOf(status))
      clearTimeout(timer)
      socket.off("data", hear).off("error", broken).off("end", closed).off("close", closed)
      socket.pause()
      // Some destinations speak first.
      if (head.length > end + 4) socket.unshift(head.subarray(end + 4))
      done(socket)
    }
    socket.on("data", hear)
    const target = `${isIP(host) === 6 ? `[${host}]` : host}:${port}`
    const signIn = authorization(proxy)
    socket.write(
      `CONNECT ${target} HTTP/1.1\r\nHost: ${target}\r\nUser-Agent: slipway\r\n` +
        `${signIn === undefined ? "" : `Proxy-Authorization: ${signIn}\r\n`}\r\n`
    )
  })
