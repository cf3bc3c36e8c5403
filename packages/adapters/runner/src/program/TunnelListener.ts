/**
 * The runner's side of egress tunnels: ports of the loopback interface, in a machine without a network, whose connections go through the
 * worker as channels of kind `dial`. Only the worker knows the destination of a tunnel.
 */
import { once } from "node:events"
import { createServer, type Server, type Socket } from "node:net"
import { setTimeout } from "node:timers/promises"
import type { Channels } from "../wire/Channels.ts"
import type { Channel } from "../wire/OpenChannel.ts"
import type { Way } from "../wire/RunnerSettings.ts"
import { writer } from "./Writing.ts"

/** Connections of one tunnel at once, with those that wait for a channel; more are closed. */
const MOST_CONNECTIONS = 128

const toWorker = async (socket: Socket, channel: Channel) => {
  for await (const bytes of socket) await channel.write(bytes)
  channel.end()
}

const fromWorker = async (socket: Socket, channel: Channel) => {
  const write = writer(socket)
  for (let bytes = await channel.read(); bytes !== null; bytes = await channel.read()) await write(bytes)
  socket.end()
}

/** Tunnels that one runner opens in a second: a fifth of the number at which its worker ends the session. */
const WAYS_A_SECOND = 100

/** When the next connection may open a channel. */
let nextAt = 0

/** Delays connections, so that a program that opens them in a loop does not end its own machine's session. */
const turn = async () => {
  const now = performance.now()
  const at = nextAt = Math.max(nextAt + 1000 / WAYS_A_SECOND, now - 1000)
  if (at > now) await setTimeout(at - now)
}

const carry = async (socket: Socket, name: string, channels: Channels) => {
  await turn()
  if (socket.destroyed) return
  const channel = await channels.open("dial", { way: name })
  if (socket.destroyed) return channel.reset({ code: "closed", message: "its connection was closed" })
  void channel.wasReset.then(() => socket.destroy())
  socket.once("close", () => channel.reset({ code: "closed", message: "its connection was closed" }))
  await Promise.all([toWorker(socket, channel), fromWorker(socket, channel)])
}

/** Opens the port. `channels`: those of the present session; without one, connections are closed. */
export const open = async ({ name, port }: Way, channels: () => Channels | undefined): Promise<Server> => {
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    socket.on("error", () => {})
    const there = channels()
    if (there === undefined) socket.destroy()
    else void carry(socket, name, there).catch(() => socket.destroy())
  })
  server.maxConnections = MOST_CONNECTIONS
  server.listen({ host: "127.0.0.1", port })
  await once(server, "listening")
  return server
}
