/** Limits idle connections: each takes a file descriptor and memory of the service. */
import type { Socket } from "node:net"

/** Connections without a running request. At the limit, the longest idle one is closed. */
export class IdleConnections {
  readonly #most: number
  readonly #idle = new Set<Socket>()

  constructor(most: number) {
    this.#most = most
  }

  add(socket: Socket): void {
    if (socket.destroyed) return
    this.#idle.add(socket)
    const [oldest] = this.#idle
    if (this.#idle.size <= this.#most || oldest === undefined) return
    this.#idle.delete(oldest)
    oldest.destroy()
  }

  /** The connection has a request, or is closed. */
  remove(socket: Socket): void {
    this.#idle.delete(socket)
  }
}
