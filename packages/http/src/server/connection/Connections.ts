/**
 * The connections of the server: how many one address may have, how many requests of one address may be under way, and
 * the deadline of every reply: who takes nothing of what was sent for too long is cut.
 */
import { networkOf } from "@slipway/domain/access/rules/Network"
import { Context, Duration, Effect, Layer } from "effect"
import type { Headers } from "effect/http"
import type { Server } from "node:http"
import type { Socket } from "node:net"
import { clientOf, trustNone, type Trust } from "../ClientAddress.ts"
import { Settings } from "../Settings.ts"
import { descriptorLimit } from "./DescriptorLimit.ts"
import { type Reader, SocketReader, type Wire } from "./Wire.ts"

/** The share of this process's descriptors that connections may take: files, the store and others need some too. */
const CONNECTIONS_SHARE = 0.9

/** The share of those connections that one address may have at most, also if the setting says more. */
const ADDRESS_SHARE = 0.5

/** How often it is looked at what readers took. */
const TICK_MILLIS = 500

/** How much the reader has taken from a connection, and when that last grew. */
interface Progress {
  taken: number
  at: number
}

/** Counts by name, and forgets names of which there is none. */
export class Counter {
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
  clientOf(headers: Headers.Headers, wire: Pick<Wire, "peer">): string
  /** Counts a request of the address until its reply is closed. `false`: too many are under way. */
  enter(address: string, wire: Wire): boolean
}>()("@slipway/http/Connections") {
  static readonly layer = Layer.effect(
    Connections,
    Effect.gen(function*() {
      const { connectionsPerAddress, patience, trustedProxies } = yield* Settings
      const patienceMillis = Duration.toMillis(patience)
      const { connections, cutStalled } = make(connectionsPerAddress, patienceMillis, trustedProxies)
      yield* Effect.acquireRelease(
        Effect.sync(() => setInterval(cutStalled, Math.min(TICK_MILLIS, patienceMillis)).unref()),
        (timer) => Effect.sync(() => clearInterval(timer))
      )
      return connections
    })
  )
}

const make = (connectionsPerAddress: number, patienceMillis: number, isProxy: Trust) => {
  const descriptors = descriptorLimit()
  const total = Math.floor(descriptors * CONNECTIONS_SHARE)
  const perAddress = Math.min(connectionsPerAddress, Math.floor(total * ADDRESS_SHARE))
  const connections = new Counter()
  const underWay = new Counter()
  const progress = new Map<Reader, Progress>()
  /** Whether readers are watched from the beginning of their connection. */
  let guarding = false

  /** Until what it gives is called. */
  const watch = (reader: Reader) => {
    progress.set(reader, { taken: 0, at: performance.now() })
    return () => progress.delete(reader)
  }

  const accept = (socket: Socket) => {
    const peer = clientOf(socket.remoteAddress, undefined, trustNone)
    const from = networkOf(peer)
    // A proxy has the connections of all its clients. Theirs are counted by their requests.
    const counted = !isProxy(peer)
    if (counted && connections.of(from) >= perAddress) return socket.destroy()
    if (counted) connections.add(from, 1)
    const unwatch = watch(new SocketReader(socket))
    return socket.once("close", () => {
      if (counted) connections.add(from, -1)
      unwatch()
    })
  }

  const cutStalled = () => {
    const now = performance.now()
    for (const [reader, last] of progress) {
      const { taken, waiting } = reader
      if (waiting > 0 && taken === last.taken) {
        if (now - last.at >= patienceMillis) reader.cut()
      } else {
        last.taken = taken
        last.at = now
      }
    }
  }

  return {
    cutStalled,
    connections: Connections.of({
      guard: (server) => {
        guarding = true
        if (Number.isFinite(total)) server.maxConnections = total
        // Before Node's own listener, which would begin to read.
        server.prependListener("connection", accept)
      },
      clientOf: (headers, { peer }) => clientOf(peer ?? undefined, headers["x-forwarded-for"], isProxy),
      enter: (address, wire) => {
        // Clients without a peer address cannot be told apart, so they are not counted: one could use up the allowance of all.
        const from = wire.peer === null ? null : networkOf(address)
        if (from !== null && underWay.of(from) >= perAddress) return false
        if (from !== null) underWay.add(from, 1)
        const unwatch = guarding ? null : watch(wire.reader)
        wire.onClose(() => {
          if (from !== null) underWay.add(from, -1)
          unwatch?.()
        })
        return true
      }
    })
  }
}
