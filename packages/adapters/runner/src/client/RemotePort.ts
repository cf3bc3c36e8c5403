/** The worker's side of channels of kind `port`: connections to servers of the sandbox in its machine. */
import {
  type ByteConnection,
  ConnectionBroken,
  PortClosed,
  PortsUnsupported,
  TooManyConnections
} from "@slipway/domain/sandbox/ports/BoxConnection"
import { Effect, Stream } from "effect"
import { Violation } from "../wire/Wire.ts"
import * as ChannelEffects from "./ChannelEffects.ts"

/**
 * Connects to a port of the loopback interface of the runner's machine. The connection is reset when the scope closes, unless both sides
 * have ended. `knows`: whether the runner said that it knows ports; an older runner would end the session.
 */
export const connect = (link: ChannelEffects.Link, knows: () => boolean) =>
  Effect.fn("RunnerConnection.connect")(function*(port: number) {
    if (!knows()) return yield* new PortsUnsupported()
    const refused = ({ code }: { readonly code: string }) => code === "busy" ? new TooManyConnections() : new PortClosed({ port })
    const broken = () => new ConnectionBroken()
    const channel = yield* ChannelEffects.open(link, "port", { port }, refused)
    yield* ChannelEffects.oneNote(link, channel, ({ isOpen }) => {
      if (isOpen !== true) throw new Violation("a port that is not open")
    }, refused)
    const connection: ByteConnection = {
      received: Stream.mapError(ChannelEffects.bytesOf(link, channel, broken), broken),
      send: (bytes) => Effect.mapError(ChannelEffects.write(link, channel, bytes, broken), broken),
      endInput: Effect.sync(() => channel.end())
    }
    return connection
  })
