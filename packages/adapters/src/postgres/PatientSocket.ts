/**
 * Sockets to Postgres that give up a server which has become silent. Where packets are dropped or the server is stopped, the
 * kernel goes on for a quarter of an hour, and a driver that waits for an answer does so for as long.
 */
import { Duration, Redacted } from "effect"
import { type NetConnectOpts, Socket } from "node:net"
import { Duplex } from "node:stream"
import type { DatabaseLocation } from "./Database.ts"

/** How long an idle connection may lie before the kernel asks whether its peer is there: ten times, a second apart. */
const KEEP_ALIVE_MILLIS = 5_000

class PatientSocket extends Socket {
  /** Something was sent, and nothing has come since. */
  #waiting = false
  readonly #patience: NodeJS.Timeout

  constructor(silence: Duration.Duration) {
    super()
    this.#patience = setTimeout(() => {
      if (this.#waiting) this.destroy(new Error(`Postgres has sent nothing for ${Duration.format(silence)}`))
    }, Duration.toMillis(silence)).unref()
    this.once("close", () => clearTimeout(this.#patience))
  }

  #sent() {
    if (this.#waiting) return
    this.#waiting = true
    this.#patience.refresh()
  }

  override _write(...sent: Parameters<Duplex["_write"]>) {
    this.#sent()
    super._write(...sent)
  }

  override _writev(...sent: Parameters<NonNullable<Duplex["_writev"]>>) {
    this.#sent()
    super._writev?.(...sent)
  }

  override push(...received: Parameters<Duplex["push"]>) {
    this.#waiting = false
    return super.push(...received)
  }
}

/** Where the URL leads, as the driver reads it. */
const addressOf = (url: URL): NetConnectOpts => {
  const host = url.searchParams.get("host") ?? decodeURIComponent(url.hostname).replace(/^\[(.*)\]$/u, "$1")
  const port = Number(url.searchParams.get("port") ?? url.port) || 5432
  return host.startsWith("/")
    ? { path: `${host}/.s.PGSQL.${port}` }
    : { host: host === "" ? "localhost" : host, port, noDelay: true, keepAlive: true, keepAliveInitialDelay: KEEP_ALIVE_MILLIS }
}

const isEncrypted = (url: URL) => !["disable", null].includes(url.searchParams.get("sslmode"))

/** For the driver's `stream`: opens a socket that is destroyed when what it sent stays unanswered for `silence`. */
export const connecting = ({ path, url }: DatabaseLocation, silence: Duration.Duration) => (): Duplex => {
  const target = url === undefined ? null : new URL(Redacted.value(url))
  const socket = new PatientSocket(silence)
  socket.connect(path === undefined && target !== null ? addressOf(target) : { path: path ?? "" })
  // TLS takes a socket's handle away from under it, and a stream as it is.
  return target !== null && isEncrypted(target) ? Duplex.from({ readable: socket, writable: socket }) : socket
}
