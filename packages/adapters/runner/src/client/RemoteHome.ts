/** Reads and writes the home in a machine of a runner. Bytes that are not a `HomeArchive` are refused in both directions. */
import { FrameError, Reader } from "@slipway/domain/files/rules/Frames"
import { records } from "@slipway/machine/home/HomeArchive"
import { Effect, Stream } from "effect"
import type { Reason } from "../wire/ChannelWire.ts"
import { Violation } from "../wire/Wire.ts"
import * as ChannelEffects from "./ChannelEffects.ts"
import { HomeRefused, type RunnerError } from "./RunnerErrors.ts"

const refusedBy = ({ code, message }: Reason) =>
  new HomeRefused({ reason: code === "too_large" || code === "too_slow" || code === "damaged" ? code : "failed", detail: message })

/** Checks that the bytes are an archive. Throws {@link FrameError}. `areas`: its paths so far. */
const watcher = () => {
  const reader = new Reader(records())
  const areas: Array<string> = []
  return {
    areas,
    take: (bytes: Uint8Array) => {
      for (const record of reader.take(bytes)) if (record.tag === "area") areas.push(record.path)
    },
    finish: () => reader.finish()
  }
}

/** The files at these paths. The stream ends only after an archive of exactly these paths, with at most the bytes asked for. */
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
            if (error instanceof FrameError) throw new Violation(`an invalid home: ${error.message}`)
            throw error
          }
        })
      const whole = watched(() => {
        seen.finish()
        if (seen.areas.join("\0") === paths.join("\0")) return
        throw new FrameError({ reason: "not_ours", detail: "It is of other paths." })
      })
      return ChannelEffects.bytesOf(link, channel, refusedBy).pipe(
        Stream.mapEffect((bytes) =>
          watched(() => {
            size += bytes.length
            if (size > maximumBytes) throw new FrameError({ reason: "too_large", detail: "It is more than was asked for." })
            seen.take(bytes)
            return bytes
          })
        ),
        Stream.concat(Stream.drain(Stream.fromEffect(whole)))
      )
    }))

/** Fails with `damaged`, before the runner has the last bytes, if `content` is not an archive. */
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
          if (!(error instanceof FrameError)) throw error
          return new HomeRefused({ reason: "damaged", detail: error.message })
        }
      })
    yield* Stream.runForEach(
      content,
      (bytes) => Effect.andThen(watched(() => seen.take(bytes)), ChannelEffects.write(link, channel, bytes, refusedBy))
    )
    yield* watched(seen.finish)
    channel.end()
    yield* written
  }, Effect.scoped)
