/**
 * The runner's side of channels of kind `port`: connections to servers of the sandbox on the loopback interface of its machine. Only a
 * listening socket that belongs to the sandbox's user is connected to, so the runner and other services of the machine are out of reach.
 */
import * as ListeningSockets from "@slipway/machine/ports/ListeningSockets"
import { once } from "node:events"
import { connect, type Socket } from "node:net"
import type { Json } from "../wire/ChannelWire.ts"
import type { Channel } from "../wire/OpenChannel.ts"
import type { SandboxUser } from "../wire/RunnerSettings.ts"
import { writer } from "./Writing.ts"

const CONNECT_MILLIS = 5_000

/** Connections of one session. Its other channels are left for processes and files. */
const MOST_PORTS = 32

const toWorker = async (socket: Socket, channel: Channel) => {
  for await (const bytes of socket.iterator({ destroyOnReturn: false })) await channel.write(bytes)
  channel.end()
}

const fromWorker = async (socket: Socket, channel: Channel) => {
  const write = writer(socket)
  for (let bytes = await channel.read(); bytes !== null; bytes = await channel.read()) await write(bytes)
  socket.end()
}

const carry = async (channel: Channel, host: string, port: number) => {
  const socket = connect({ host, port, allowHalfOpen: true })
  socket.on("error", () => {})
  void channel.wasReset.then(() => socket.connecting ? socket.destroy() : socket.resetAndDestroy())
  await once(socket, "connect", { signal: AbortSignal.timeout(CONNECT_MILLIS) }).catch((error: unknown) => {
    socket.destroy()
    throw error
  })
  channel.note({ isOpen: true })
  socket.once("close", () => {
    if (!socket.readableEnded || !socket.writableFinished) channel.reset({ code: "broken", message: "the connection broke" })
  })
  await Promise.all([toWorker(socket, channel), fromWorker(socket, channel)])
}

/** The handler of the channels of one session. Without a user the sandbox's sockets cannot be told from the runner's: all are refused. */
export const accept = (user: SandboxUser | undefined) => {
  let count = 0
  return (channel: Channel, { port }: Json): void => {
    const refuse = () => channel.reset({ code: "closed", message: "no server of the sandbox listens there" })
    if (user === undefined || typeof port !== "number" || !Number.isInteger(port) || port < 1 || port > 65_535) return refuse()
    if (count >= MOST_PORTS) return channel.reset({ code: "busy", message: "as many are open as may be" })
    count++
    const open = async () => {
      const found = ListeningSockets.at(port).find((socket) => socket.uid === user.uid && !ListeningSockets.isOf(process.pid, socket))
      if (found === undefined) return refuse()
      await carry(channel, found.host, port)
    }
    void open().catch(refuse).finally(() => count--)
  }
}
