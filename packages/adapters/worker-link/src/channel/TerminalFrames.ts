/**
 * The frames of a terminal in a channel: a byte for the kind, four for the length (big-endian), then the content: bytes of the terminal,
 * or JSON. Both sides read their own messages strictly; the other side is proven, but may be another version.
 */
import { ConnectionBroken } from "@slipway/domain/sandbox/ports/BoxConnection"
import { TerminalEnd, TerminalSize } from "@slipway/domain/sandbox/ports/Terminals"
import { Effect, Result, Schema, Stream } from "effect"

const BYTES = 0
const JSON_TEXT = 1
const HEAD = 5
/** Longer than the scrollback, which is the longest content. */
const MAX_CONTENT = 2 ** 20

/** To the worker. */
export const Asked = Schema.Union([
  Schema.Struct({ type: Schema.Literal("resize"), size: TerminalSize }),
  Schema.Struct({ type: Schema.Literal("end") })
])
/** From the worker. */
export const Told = Schema.Union([
  /** The first frame. */
  Schema.Struct({ type: Schema.Literal("attached"), terminal: Schema.Int }),
  Schema.Struct({ type: Schema.Literal("skipped"), count: Schema.Int }),
  Schema.Struct({ type: Schema.Literal("ended"), reason: TerminalEnd, code: Schema.NullOr(Schema.Int) })
])

export type Frame<A> = { readonly _tag: "Bytes"; readonly bytes: Uint8Array } | { readonly _tag: "Message"; readonly message: A }

const frame = (kind: number, content: Uint8Array): Uint8Array => {
  const whole = new Uint8Array(HEAD + content.length)
  whole[0] = kind
  new DataView(whole.buffer).setUint32(1, content.length)
  whole.set(content, HEAD)
  return whole
}

export const bytes = (content: Uint8Array): Uint8Array => frame(BYTES, content)

export const message = (content: typeof Asked.Type | typeof Told.Type): Uint8Array =>
  frame(JSON_TEXT, new TextEncoder().encode(JSON.stringify(content)))

/** Comes after the last bytes. */
const END = new Uint8Array()

/** The frames in a stream of bytes. Fails at an invalid one, and if the stream ends within one. */
export const read = <A, I>(schema: Schema.Codec<A, I>) => {
  const decode = Schema.decodeUnknownResult(Schema.fromJsonString(schema))
  const parse = (waiting: Uint8Array): Effect.Effect<readonly [Uint8Array, ReadonlyArray<Frame<A>>], ConnectionBroken> =>
    Effect.suspend(() => {
      const found: Array<Frame<A>> = []
      let at = 0
      while (waiting.length - at >= HEAD) {
        const kind = waiting[at]
        const length = new DataView(waiting.buffer, waiting.byteOffset + at).getUint32(1)
        // Before its content is waited for.
        if (kind !== BYTES && kind !== JSON_TEXT || length > MAX_CONTENT) return Effect.fail(new ConnectionBroken())
        if (waiting.length - at - HEAD < length) break
        const content = waiting.subarray(at + HEAD, at + HEAD + length)
        at += HEAD + length
        if (kind === BYTES) {
          found.push({ _tag: "Bytes", bytes: content })
          continue
        }
        const decoded = decode(new TextDecoder().decode(content))
        if (Result.isFailure(decoded)) return Effect.fail(new ConnectionBroken())
        found.push({ _tag: "Message", message: decoded.success })
      }
      return Effect.succeed([waiting.slice(at), found] as const)
    })
  return <E>(received: Stream.Stream<Uint8Array, E>): Stream.Stream<Frame<A>, E | ConnectionBroken> =>
    Stream.mapAccumEffect(Stream.concat(received, Stream.make(END)), (): Uint8Array => new Uint8Array(), (waiting, chunk) => {
      if (chunk === END) return waiting.length === 0 ? Effect.succeed([waiting, []] as const) : new ConnectionBroken()
      const all = new Uint8Array(waiting.length + chunk.length)
      all.set(waiting)
      all.set(chunk, waiting.length)
      return parse(all)
    })
}
