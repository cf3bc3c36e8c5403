/** Reads and writes the home in a machine of a runner. Bytes that are not a `HomeArchive` are refused in both directions. */
import { Damaged, Reader } from "@slipway/machine/home/HomeArchive"
import { Effect, Stream } from "effect"
import type { Reason } from "../wire/ChannelWire.ts"
import { Violation } from "../wire/Wire.ts"
import * as ChannelEffects from "./ChannelEffects.ts"
import { HomeRefused, type RunnerError } from "./RunnerErrors.ts"

const refusedBy = ({ code, message }: Reason) =>
  new HomeRefused({ reason: code === "too_large" || code === "too_slow" || code === "damaged" ? code : "failed", detail: message })

/** Reads over what comes, to see that it is an archive. Throws {@link Damaged}. */
const watcher = () => {
  const reader = new Reader()
  return {
    take: (bytes: Uint8Array) => {
      for (const _ of reader.take(bytes)) { /* what it says is the sandbox's */ }
    },
    finish: () => reader.finish()
  }
}

/** What is at these paths. The last bytes are only there where all before them were an archive of these paths, and no more than asked. */
export const read =
  (link: ChannelEffects.Link) =>
  (paths: ReadonlyArray<string>, options: { readonly maximumBytes: number }): Stream.Stream<Uint8Array, HomeRefused | RunnerError> =>
    Stream.unwrap(Effect.gen(function*() {
      const { maximumBytes } = options
      const channel = yield* ChannelEffects.open(link, "home", { read: paths, maximumBytes }, refusedBy)
      channel.end()
      const seen = watcher()
      let size = 0
      const watched = <A>(look: () => A) =>
        ChannelEffects.checked(link, () => {
          try {
            return look()
          } catch (error) {
            if (error instanceof Damaged) throw new Violation(`a home that is none: ${error.message}`)
            throw error
          }
        })
      const whole = watched(() => {
        const areas = seen.finish()
        if (areas.length !== paths.length || areas.some((area, i) => area !== paths[i])) throw new Damaged("It is of other paths.")
      })
      return ChannelEffects.bytesOf(link, channel, refusedBy).pipe(
        Stream.mapEffect((bytes) =>
          watched(() => {
            size += bytes.length
            if (size > maximumBytes) throw new Damaged("It is more than was asked for.")
            seen.take(bytes)
            return bytes
          })
        ),
        Stream.concat(Stream.drain(Stream.fromEffect(whole)))
      )
    }))

/** Fails with `damaged` before the runner has the end of what is no archive. */
export const write = (link: ChannelEffects.Link) =>
  Effect.fn("RunnerClient.writeHome")(function*<E, R>(content: Stream.Stream<Uint8Array, E, R>) {
    const channel = yield* ChannelEffects.open(link, "home", { write: true }, refusedBy)
    const written = ChannelEffects.oneNote(link, channel, ({ isWritten }) => {
      if (isWritten !== true) throw new Violation("a home that was not written")
    }, refusedBy)
    const seen = watcher()
    const watched = (look: () => void) =>
      Effect.try({
        try: look,
        catch: (error) => {
          if (!(error instanceof Damaged)) throw error
          return new HomeRefused({ reason: "damaged", detail: error.message })
        }
      })
    yield* Stream.runForEach(
      content,
      (bytes) => Effect.andThen(watched(() => seen.take(bytes)), ChannelEffects.write(link, channel, bytes, refusedBy))
    )
    yield* watched(() => void seen.finish())
    channel.end()
    yield* written
  }, Effect.scoped)
