/** Connections to the loopback interface of this process's network. */
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { type ByteConnection, PortClosed, TooManyConnections } from "@slipway/domain/sandbox/ports/BoxConnection"
import { Effect, type Scope } from "effect"
import { connect, type Socket } from "node:net"
import * as SocketConnection from "../network/SocketConnection.ts"

/** Connections into one box at the same time. Browsers open six for an origin, and a proxy that speaks HTTP/2 many more. */
const MAX_CONNECTIONS = 64

const CONNECT_MILLIS = 5_000

/** Ends the connection: with a reset, unless both sides said that it is over. */
const close = (socket: Socket): void => {
  if (socket.readableEnded && socket.writableEnded) socket.destroySoon()
  else socket.resetAndDestroy()
}

/** A connection that lasts as long as the scope. */
export const open = (host: "127.0.0.1" | "::1", port: number): Effect.Effect<ByteConnection, PortClosed, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.callback<Socket, PortClosed>((resume) => {
      const socket = connect({ host, port, allowHalfOpen: true })
      const fail = () => {
        socket.destroy()
        resume(Effect.fail(new PortClosed({ port })))
      }
      const timer = setTimeout(fail, CONNECT_MILLIS)
      socket.once("error", fail)
      socket.once("connect", () => {
        clearTimeout(timer)
        socket.off("error", fail)
        resume(Effect.succeed(socket.on("error", () => {})))
      })
      socket.once("close", () => clearTimeout(timer))
      return Effect.sync(() => socket.destroy())
    }),
    (socket) => Effect.sync(() => close(socket)),
    { interruptible: true }
  ).pipe(Effect.map(SocketConnection.of))

/** Counts the connections of each sandbox. */
export const counter = () => {
  const counts = new Map<SandboxId, number>()
  const add = (id: SandboxId, by: 1 | -1) => {
    const count = (counts.get(id) ?? 0) + by
    if (count === 0) counts.delete(id)
    else counts.set(id, count)
  }
  /** Counts a connection until the scope closes. */
  return (id: SandboxId): Effect.Effect<void, TooManyConnections, Scope.Scope> =>
    Effect.acquireRelease(
      Effect.suspend(() => (counts.get(id) ?? 0) >= MAX_CONNECTIONS ? new TooManyConnections() : Effect.sync(() => add(id, 1))),
      () => Effect.sync(() => add(id, -1))
    )
}
