/** The bytes of a cache: a line of JSON with the folders, then a GNU tar archive. Without folders there is no archive. */
import * as Effect from "effect/Effect"
import * as Pull from "effect/Pull"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { type CachePath, show } from "./CachePath.ts"

const Header = Schema.fromJsonString(Schema.Struct({ format: Schema.Literal(1), paths: Schema.Array(Schema.String) }))
const decodeHeader = Schema.decodeUnknownResult(Header)
/** Enough for 32 paths of 1,023 characters, each escaped. */
const MAX_HEADER_BYTES = 256 * 1024
const NEWLINE = 10

/** The first line of a cache with these folders. */
export const header = (paths: ReadonlyArray<CachePath>): Uint8Array =>
  new TextEncoder().encode(`${JSON.stringify({ format: 1, paths: paths.map(show) })}\n`)

/** The path in the archive. Paths of the home begin with `./`, so that the same path in the tree is a different one. */
const memberOf = ({ base, path }: CachePath) => base === "home" ? `./${path}` : path

/** Arguments of tar for the folders, each with its base folder. A path may begin with a dash. */
export const members = (paths: ReadonlyArray<CachePath>, baseOf: (path: CachePath) => string): ReadonlyArray<string> =>
  paths.flatMap((path) => ["-C", baseOf(path), `--add-file=${memberOf(path)}`])

const joined = (a: Uint8Array, b: Uint8Array) => {
  const all = new Uint8Array(a.length + b.length)
  all.set(a)
  all.set(b, a.length)
  return all
}

/**
 * Returns the paths of the header, formatted as by `show`, and the archive, which must be read while the scope is open. `invalid` makes
 * the error from the end of a sentence whose subject is the folders.
 */
export const opened = Effect.fnUntraced(function*<E, E2>(bytes: Stream.Stream<Uint8Array, E>, invalid: (detail: string) => E2) {
  const pull = yield* Stream.toPull(bytes)
  let buffered: Uint8Array = new Uint8Array()
  for (;;) {
    const end = buffered.indexOf(NEWLINE)
    if (end >= 0) {
      const found = decodeHeader(new TextDecoder().decode(buffered.subarray(0, end)))
      if (Result.isFailure(found)) return yield* Effect.fail(invalid("they are of another version of the service."))
      const archive = Stream.concat(Stream.make<[Uint8Array]>(buffered.subarray(end + 1)), Stream.fromPull(Effect.succeed(pull)))
      return { paths: found.success.paths, archive }
    }
    const more = yield* Pull.matchEffect(pull, {
      onSuccess: (chunks) => Effect.succeed(chunks),
      onFailure: (cause) => Effect.failCause(cause),
      onDone: () => Effect.succeed(null)
    })
    if (more === null || buffered.length > MAX_HEADER_BYTES) return yield* Effect.fail(invalid("they are cut."))
    buffered = more.reduce(joined, buffered)
  }
})
