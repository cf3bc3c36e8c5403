/** What a runner asks its worker for: ways out of a machine that has no network. */
import { Effect, Exit, type Fiber, Stream } from "effect"
import type { Channel } from "../wire/Channels.ts"
import type { Json } from "../wire/ChannelWire.ts"
import { Violation } from "../wire/Wire.ts"
import * as ChannelEffects from "./ChannelEffects.ts"

/** A connection that a process in the box opened. */
export interface WayOut {
  /** What the process says, until it ends its half or is gone. */
  readonly bytes: Stream.Stream<Uint8Array>
  /** Waits until the box may have it. */
  readonly write: (bytes: Uint8Array) => Effect.Effect<void>
  /** Nothing more is written. */
  readonly end: Effect.Effect<void>
}

/**
 * Carries one connection over the way of this name, until it succeeds; the connection is closed then, and reset where it fails: so a
 * way is refused. It is interrupted once the process's side is gone.
 */
export type Dial = (way: string, out: WayOut) => Effect.Effect<void, unknown>

const NAME = /^[a-z][a-z\d-]{0,31}$/u

/** Runs `dial` for a channel. Never throws but `Violation`. */
export const accept =
  (dial: Dial, link: () => ChannelEffects.Link, fork: (effect: Effect.Effect<void>) => Fiber.Fiber<void>) =>
  (channel: Channel, header: Json): void => {
    const { way } = header
    if (typeof way !== "string" || !NAME.test(way)) throw new Violation("a way without a name")
    // Whoever reads or writes what is gone is interrupted.
    const gone = Effect.interrupt
    const bytes = Stream.suspend(() => ChannelEffects.bytesOf(link(), channel, () => "gone")).pipe(
      Stream.catch(() => Stream.fromEffect(gone))
    )
    const out: WayOut = {
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
      // What the process still says is nobody's: its half ends when it does.
      Effect.andThen(Stream.runDrain(bytes))
    )
    fork(Effect.ignoreCause(Effect.raceFirst(carried, Effect.promise(() => channel.wasReset))))
  }
