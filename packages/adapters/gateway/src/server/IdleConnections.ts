/** Connections that cost their owner nothing: each holds a descriptor and memory of the service. */
import type { Socket } from "node:net"

/** Connections on which no request is under way: at most so many, and the one that is idle for longest gives way. */
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

  /** It is busy, or closed. */
  remove(socket: Socket): void {
    this.#idle.delete(socket)
  }
}
