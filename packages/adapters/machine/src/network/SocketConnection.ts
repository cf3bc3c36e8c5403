/** A socket as a `ByteConnection`. */
import { type ByteConnection, ConnectionBroken } from "@slipway/domain/sandbox/ports/BoxConnection"
import { Effect, Stream } from "effect"
import type { Duplex } from "node:stream"

/** The next bytes, read on demand; `undefined` at the end. */
const next = (socket: Duplex) =>
  Effect.callback<Uint8Array | undefined, ConnectionBroken>((resume) => {
    const stop = () => socket.off("readable", look).off("end", look).off("close", look)
    const done = (result: Effect.Effect<Uint8Array | undefined, ConnectionBroken>) => {
      stop()
      resume(result)
    }
    const look = () => {
      const chunk: Buffer | null = socket.read()
      if (chunk !== null) return done(Effect.succeed(chunk))
      if (socket.readableEnded) return done(Effect.undefined)
      if (socket.destroyed) done(Effect.fail(new ConnectionBroken()))
    }
    socket.on("readable", look).on("end", look).on("close", look)
    look()
    return Effect.sync(stop)
  })

/** The socket must allow half-open connections, and its caller closes it. Errors of the socket break the connection. */
export const of = (socket: Duplex): ByteConnection => {
  socket.on("error", () => {})
  return {
    received: Stream.unfold(
      undefined,
      () => Effect.map(next(socket), (chunk) => chunk === undefined ? undefined : [chunk, undefined] as const)
    ),
    send: (bytes) =>
      Effect.callback((resume) => {
        socket.write(bytes, (error) => resume(error ? Effect.fail(new ConnectionBroken()) : Effect.void))
      }),
    endInput: Effect.sync(() => {
      socket.end()
    })
  }
}

/** Fails when the socket closes before everything was sent on it. */
export const broken = (socket: Duplex): Effect.Effect<never, ConnectionBroken> =>
  Effect.callback((resume) => {
    const look = () => {
      if (!socket.writableFinished || !socket.readableEnded) resume(Effect.fail(new ConnectionBroken()))
    }
    if (socket.destroyed) return look()
    socket.once("close", look)
    return Effect.sync(() => socket.off("close", look))
  })
