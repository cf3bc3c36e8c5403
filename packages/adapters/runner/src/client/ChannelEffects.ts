/** Channels as Effects, for one connection. */
import { Deferred, Effect, type Scope, Stream } from "effect"
import type { Json, Kind, Reason } from "../wire/ChannelWire.ts"
import { type Channel, ChannelReset } from "../wire/OpenChannel.ts"
import type { Peer } from "../wire/Peer.ts"
import { Violation } from "../wire/Wire.ts"
import { type RunnerError, RunnerViolation } from "./RunnerErrors.ts"

export interface Link {
  readonly peer: Peer
  /** Fails once the connection has ended, and never succeeds. */
  readonly ended: Effect.Effect<never, RunnerError>
}

const reasonOf = (error: unknown): Reason => {
  if (error instanceof ChannelReset) return error.reason
  throw error
}

/** If the connection ended, its error replaces that of the channel. */
const failing = <E>(link: Link, reason: Reason, otherwise: (reason: Reason) => E): Effect.Effect<never, E | RunnerError> =>
  link.peer.isOver ? link.ended : Effect.fail(otherwise(reason))

/** Waits for room. The channel is reset when the scope closes, unless it has ended. */
export const open = <E>(link: Link, kind: Kind, header: Json, otherwise: (reason: Reason) => E): Effect.Effect<
  Channel,
  E | RunnerError,
  Scope.Scope
> => {
  const { channels } = link.peer
  const opened = Effect.acquireRelease(
    Effect.try({ try: () => channels.openNow(kind, header), catch: reasonOf }).pipe(
      Effect.catch((reason) => failing(link, reason, otherwise))
    ),
    (channel) => Effect.sync(() => channel?.reset({ code: "released", message: "the caller is gone" }))
  )
  return Effect.flatMap(
    Effect.promise(() => channels.vacancy()),
    () => Effect.flatMap(opened, (channel) => channel === undefined ? open(link, kind, header, otherwise) : Effect.succeed(channel))
  )
}

/** All bytes until the end. Unread bytes stay for the next reader. */
export const bytesOf = <E>(link: Link, channel: Channel, otherwise: (reason: Reason) => E): Stream.Stream<Uint8Array, E | RunnerError> => {
  const next: Effect.Effect<readonly [Uint8Array, undefined] | undefined, E | RunnerError> = Effect.suspend(() => {
    try {
      const bytes = channel.take()
      if (bytes === undefined) return Effect.flatMap(Effect.promise(() => channel.arrival()), () => next)
      return Effect.succeed(bytes === null ? undefined : [bytes, undefined] as const)
    } catch (error) {
      return failing(link, reasonOf(error), otherwise)
    }
  })
  return Stream.unfold(undefined, () => next)
}

/** Waits until the other side accepts the bytes. */
export const write = <E>(link: Link, channel: Channel, bytes: Uint8Array, otherwise: (reason: Reason) => E): Effect.Effect<
  void,
  E | RunnerError
> =>
  Effect.catch(
    Effect.tryPromise({ try: () => channel.write(bytes), catch: reasonOf }),
    (reason) => failing(link, reason, otherwise)
  )

/** The result of `check`, which reads a message of the other side. A `Violation` that it throws ends the connection. */
export const checked = <A>(link: Link, check: () => A): Effect.Effect<A, RunnerViolation> =>
  Effect.suspend(() => {
    try {
      return Effect.succeed(check())
    } catch (error) {
      if (!(error instanceof Violation)) throw error
      link.peer.violated(error)
      return Effect.fail(new RunnerViolation({ detail: error.message }))
    }
  })

/** Fails with the reason of the channel's reset. */
export const reset = <E>(link: Link, channel: Channel, otherwise: (reason: Reason) => E): Effect.Effect<never, E | RunnerError> =>
  Effect.flatMap(Effect.promise(() => channel.wasReset), (reason) => failing(link, reason, otherwise))

/** Listens to notes; a `Violation` that the listener throws ends the connection. */
export const listen = (link: Link, channel: Channel, listener: (note: Json) => void): void =>
  channel.onNote((note) => {
    try {
      listener(note)
    } catch (error) {
      if (!(error instanceof Violation)) throw error
      link.peer.violated(error)
    }
  })

/** The result of `decode` for the only note of the channel. `decode` throws `Violation`. */
export const oneNote = <A, E>(link: Link, channel: Channel, decode: (note: Json) => A, otherwise: (reason: Reason) => E): Effect.Effect<
  A,
  E | RunnerError
> =>
  Effect.suspend(() => {
    const noted = Deferred.makeUnsafe<A>()
    listen(link, channel, (note) => {
      const value = decode(note)
      if (!Deferred.doneUnsafe(noted, Effect.succeed(value))) throw new Violation("a second note where there is one")
    })
    return Effect.raceFirst(Deferred.await(noted), reset(link, channel, otherwise))
  })
