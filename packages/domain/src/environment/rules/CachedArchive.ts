/** Folders of a cache as bytes: a line of JSON that names them, then a tar archive of GNU's kind, which is not there for none. */
import * as Effect from "effect/Effect"
import * as Pull from "effect/Pull"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { type CachePath, show } from "./CachePath.ts"

const Header = Schema.fromJsonString(Schema.Struct({ format: Schema.Literal(1), paths: Schema.Array(Schema.String) }))
const decodeHeader = Schema.decodeUnknownResult(Header)
/** 32 paths of 1,023 characters, each escaped. */
const MAX_HEADER_BYTES = 256 * 1024
const NEWLINE = 10

export const header = (paths: ReadonlyArray<CachePath>): Uint8Array =>
  new TextEncoder().encode(`${JSON.stringify({ format: 1, paths: paths.map(show) })}\n`)

/** As tar calls it in the archive: those of the home begin with `./`, so that the same path in the tree is another one. */
const memberOf = ({ base, path }: CachePath) => base === "home" ? `./${path}` : path

/** Arguments of tar for the folders, each with the one it is in. A path may begin with a dash. */
export const members = (paths: ReadonlyArray<CachePath>, baseOf: (path: CachePath) => string): ReadonlyArray<string> =>
  paths.flatMap((path) => ["-C", baseOf(path), `--add-file=${memberOf(path)}`])

const joined = (a: Uint8Array, b: Uint8Array) => {
  const all = new Uint8Array(a.length + b.length)
  all.set(a)
  all.set(b, a.length)
  return all
}

/**
 * What the header names, as `show` has it, and the archive: to be read while the scope is open. `invalid`: the failure, of the end of
 * a sentence whose subject is the folders.
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
