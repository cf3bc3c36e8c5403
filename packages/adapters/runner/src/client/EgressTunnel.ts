/** The worker's side of egress tunnels, which lead out of a machine without a network. */
import { Effect, Exit, type Fiber, Stream } from "effect"
import type { Json } from "../wire/ChannelWire.ts"
import type { Channel } from "../wire/OpenChannel.ts"
import { Violation } from "../wire/Wire.ts"
import * as ChannelEffects from "./ChannelEffects.ts"

/** A connection that a process in the box opened. */
export interface EgressTunnel {
  /** The bytes of the process, until it ends its half or is gone. */
  readonly bytes: Stream.Stream<Uint8Array>
  /** Waits until the box accepts the bytes. */
  readonly write: (bytes: Uint8Array) => Effect.Effect<void>
  /** Nothing more is written. */
  readonly end: Effect.Effect<void>
}

/**
 * Carries one connection through the tunnel of this name. When the effect succeeds the connection is closed, when it fails it is reset: a
 * tunnel is refused by failing. It is interrupted once the process's side is gone.
 */
export type Dial = (way: string, out: EgressTunnel) => Effect.Effect<void, unknown>

const NAME = /^[a-z][a-z\d-]{0,31}$/u

/** Runs `dial` for a channel. Throws only `Violation`. */
export const accept =
  (dial: Dial, link: () => ChannelEffects.Link, fork: (effect: Effect.Effect<void>) => Fiber.Fiber<void>) =>
  (channel: Channel, header: Json): void => {
    const { way } = header
    if (typeof way !== "string" || !NAME.test(way)) throw new Violation("a tunnel without a name")
    // Reading from or writing to a closed tunnel interrupts the caller.
    const gone = Effect.interrupt
    const bytes = Stream.suspend(() => ChannelEffects.bytesOf(link(), channel, () => "gone")).pipe(
      Stream.catch(() => Stream.fromEffect(gone))
    )
    const out: EgressTunnel = {
      bytes,
      write: (bytes) => Effect.catch(Effect.tryPromise(() => channel.write(bytes)), () => gone),
      end: Effect.sync(() => channel.end())
    }
    const carried = Effect.suspend(() => dial(way, out)).pipe(
      Effect.onExit((exit) =>
        Effect.sync(() => {
          if (Exit.isFailure(exit)) channel.reset({ code: "refused", message: "the worker does not carry it" })
          else channel.end()
        })
      ),
      // Drop what the process still sends, until it ends its half.
      Effect.andThen(Stream.runDrain(bytes))
    )
    fork(Effect.ignoreCause(Effect.raceFirst(carried, Effect.promise(() => channel.wasReset))))
  }
