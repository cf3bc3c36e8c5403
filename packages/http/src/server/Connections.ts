/**
 * The connections of the server: how many one address may have, how many requests of one address may be under way, and
 * the deadline of every reply: who takes nothing of what was sent for too long is cut.
 */
import { Context, Duration, Effect, Layer } from "effect"
import type { IncomingHttpHeaders, Server } from "node:http"
import type { Socket } from "node:net"
import { clientOf, limitKey, nobody, type Trust } from "./ClientAddress.ts"
import { descriptorLimit } from "./DescriptorLimit.ts"
import { Settings } from "./Settings.ts"

/** Of the descriptors this process may open, those that connections may take: files, the store and others need some too. */
const CONNECTIONS_SHARE = 0.9

/** Of those connections, the most that one address may have, whatever the setting says. */
const ADDRESS_SHARE = 0.5

/** How often it is looked at what readers took. */
const TICK_MILLIS = 500

/** Of the handle beneath a socket, which Node's own timeouts go by; not in its types. */
interface Handle {
  /** Handed to the system, or waiting for it. */
  readonly bytesWritten: number
  /** Waiting for it. */
  readonly writeQueueSize: number
}
const handleOf = (socket: Socket) => (socket as Socket & { readonly _handle?: Handle | null })._handle ?? null

/** What the reader took of a connection, when that was last more than before. */
interface Progress {
  taken: number
  at: number
}

/** Counts by name, and forgets names of which there is none. */
class Counter {
  readonly #counts = new Map<string, number>()
  of(name: string): number {
    return this.#counts.get(name) ?? 0
  }
  add(name: string, by: 1 | -1): void {
    const count = this.of(name) + by
    if (count === 0) this.#counts.delete(name)
    else this.#counts.set(name, count)
  }
}

export class Connections extends Context.Service<Connections, {
  /** Bounds and watches the connections of a server that does not listen yet. */
  guard(server: Server): void
  /** Whom a request came from: see `clientOf`. */
  clientOf(request: { readonly headers: IncomingHttpHeaders; readonly socket: Pick<Socket, "remoteAddress"> }): string
  /** Counts a request of the address until its response is closed. `false`: too many are under way. */
  enter(address: string, response: { once(event: "close", listener: () => void): unknown }): boolean
}>()("@slipway/http/Connections") {
  static readonly layer = Layer.effect(
    Connections,
    Effect.map(
      Settings,
      ({ connectionsPerAddress, patience, trustedProxies }) => make(connectionsPerAddress, Duration.toMillis(patience), trustedProxies)
    )
  )
}

const make = (connectionsPerAddress: number, patienceMillis: number, isProxy: Trust): Connections["Service"] => {
  const descriptors = descriptorLimit()
  const total = Math.floor(descriptors * CONNECTIONS_SHARE)
  const perAddress = Math.min(connectionsPerAddress, Math.floor(total * ADDRESS_SHARE))
  const connections = new Counter()
  const underWay = new Counter()
  const progress = new Map<Socket, Progress>()

  const accept = (socket: Socket) => {
    const peer = clientOf(socket.remoteAddress, undefined, nobody)
    const from = limitKey(peer)
    // A proxy has the connections of all its clients. Theirs are counted by their requests.
    const counted = !isProxy(peer)
    if (counted && connections.of(from) >= perAddress) return socket.destroy()
    if (counted) connections.add(from, 1)
    progress.set(socket, { taken: 0, at: performance.now() })
    return socket.once("close", () => {
      if (counted) connections.add(from, -1)
      progress.delete(socket)
    })
  }

  const cutStalled = () => {
    const now = performance.now()
    for (const [socket, last] of progress) {
      const handle = handleOf(socket)
      const waiting = handle?.writeQueueSize ?? 0
      const taken = (handle?.bytesWritten ?? 0) - waiting
      if (waiting > 0 && taken === last.taken) {
        if (now - last.at >= patienceMillis) socket.destroy()
      } else {
        last.taken = taken
        last.at = now
      }
    }
  }

  return {
    guard: (server) => {
      if (Number.isFinite(total)) server.maxConnections = total
      // Before Node's own listener, which would begin to read.
      server.prependListener("connection", accept)
      const timer = setInterval(cutStalled, Math.min(TICK_MILLIS, patienceMillis)).unref()
      server.once("close", () => clearInterval(timer))
    },
    clientOf: ({ headers, socket }) => {
      const forwardedFor = headers["x-forwarded-for"]
      return clientOf(socket.remoteAddress, typeof forwardedFor === "string" ? forwardedFor : undefined, isProxy)
    },
    enter: (address, response) => {
      const from = limitKey(address)
      if (underWay.of(from) >= perAddress) return false
      underWay.add(from, 1)
      response.once("close", () => underWay.add(from, -1))
      return true
    }
  }
}
