/**
 * Reads and writes byte formats that are a sequence of frames: checkpoints, and the trees and homes in them. The bytes are untrusted
 * and arrive in pieces of any size. A format is a generator. It asks for bytes with {@link bytes} and similar functions, returns values
 * with {@link give}, and ends where the format ends.
 *
 * Memory holds only the frame that the format asks for, whose length it checks first, and the newest piece.
 */
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Pull from "effect/Pull"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"

/** The bytes cannot be read. Retrying does not help. */
export class FrameError extends Data.TaggedError("FrameError")<{
  /** `cut`: the end is missing. `not_ours`: another format, or an unknown version. */
  readonly reason: "cut" | "changed" | "too_large" | "not_ours"
  /** A sentence for people. */
  readonly detail: string
}> {
  override get message() {
    return this.detail
  }
}

/** A request for exactly `length` bytes, or for one to `length` bytes. */
interface Ask {
  readonly length: number
  readonly isWhole: boolean
}

type Asking<A> = Generator<Ask, A, Uint8Array>
/** A format whose values have the type `A`. */
export type Format<A> = Generator<Ask | { readonly value: A }, void, Uint8Array>

/** Exactly `length` bytes. The format has to check the length first, because all of them are kept in memory. */
export function* bytes(length: number): Asking<Uint8Array> {
  return yield { length, isWhole: true }
}

/** The next bytes: at least one and at most `length`. */
export function* some(length: number): Asking<Uint8Array> {
  return yield { length, isWhole: false }
}

/** Hands a value to the reader. */
export function* give<A>(value: A): Generator<{ readonly value: A }, void, Uint8Array> {
  yield { value }
}

/** The first bytes of a format. */
export function* magic(expected: Uint8Array, detail: string): Asking<Uint8Array> {
  const found = yield* bytes(expected.length)
  if (!isSame(found, expected)) throw new FrameError({ reason: "not_ours", detail })
  return found
}

/** A number that is not negative, highest byte first. Exact up to 2^53. */
export const numberIn = (bytes: Uint8Array): number => bytes.reduce((sum, byte) => sum * 256 + byte, 0)

/** `number` in so many bytes, highest first. */
export const numberOf = (number: number, length: number): Uint8Array =>
  Uint8Array.from({ length }, (_, i) => Math.floor(number / 256 ** (length - 1 - i)) % 256)

/** Whether both have the same bytes. */
export const isSame = (a: Uint8Array, b: Uint8Array): boolean => a.length === b.length && a.every((byte, i) => byte === b[i])

/** The parts as one array of bytes. */
export const joined = (parts: ReadonlyArray<Uint8Array>): Uint8Array => {
  const all = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0))
  let at = 0
  for (const part of parts) {
    all.set(part, at)
    at += part.length
  }
  return all
}

/** The bytes in parts of at most `length` bytes. */
export const split = (bytes: Uint8Array, length: number): ReadonlyArray<Uint8Array> =>
  Array.from({ length: Math.ceil(bytes.length / length) }, (_, i) => bytes.subarray(i * length, (i + 1) * length))

/** A header as JSON in UTF-8. */
export const jsonIn = <S extends Schema.Codec<unknown, unknown>>(schema: S, detail: string) => {
  const decode = Schema.decodeUnknownResult(Schema.fromJsonString(schema))
  return (bytes: Uint8Array): S["Type"] => {
    const decoded = decode(new TextDecoder().decode(bytes))
    if (Result.isFailure(decoded)) throw new FrameError({ reason: "not_ours", detail })
    return decoded.success
  }
}

/** Limits of a reader. */
export interface Options {
  /** The most bytes of all frames together. Default: no limit. */
  readonly maximumBytes?: number | undefined
}

/** Reads the bytes in pieces of any size. Throws {@link FrameError}, and throws it again at each later call. */
export class Reader<A> {
  readonly #format: Format<A>
  #left: number
  #pieces: Array<Uint8Array> = []
  #buffered = 0
  #next: IteratorResult<Ask | { readonly value: A }, void> | undefined
  #failed: unknown

  constructor(format: Format<A>, { maximumBytes = Number.POSITIVE_INFINITY }: Options = {}) {
    this.#format = format
    this.#left = maximumBytes
  }

  /** The values that can be read with `piece`. */
  *take(piece: Uint8Array): Generator<A, void> {
    if (this.#failed !== undefined) throw this.#failed
    this.#left -= piece.length
    if (this.#left < 0) this.#fail("too_large", "It is larger than it may be.")
    this.#pieces.push(piece)
    this.#buffered += piece.length
    for (let step = this.#step(); step !== undefined; step = this.#step()) yield step.value
  }

  /** Throws unless the format has ended. */
  finish(): void {
    for (const _ of this.take(new Uint8Array())) this.#fail("cut", "Values are left unread.")
    if (this.#next?.done !== true) this.#fail("cut", "It is cut.")
  }

  #fail(reason: FrameError["reason"], detail: string): never {
    this.#failed = new FrameError({ reason, detail })
    throw this.#failed
  }

  #resume(found?: Uint8Array) {
    try {
      this.#next = found === undefined ? this.#format.next() : this.#format.next(found)
    } catch (error) {
      this.#failed = error
      throw error
    }
  }

  /** The next value; `undefined`: more bytes are needed, or the format has ended. */
  #step(): { readonly value: A } | undefined {
    if (this.#next === undefined) this.#resume()
    for (;;) {
      const next = this.#next
      if (next === undefined || next.done === true) {
        if (this.#buffered > 0) this.#fail("changed", "It goes on after its end.")
        return undefined
      }
      if ("value" in next.value) {
        const { value } = next
        this.#resume(new Uint8Array())
        return value
      }
      const found = this.#found(next.value)
      if (found === undefined) return undefined
      this.#resume(found)
    }
  }

  #found({ isWhole, length }: Ask): Uint8Array | undefined {
    if (this.#buffered < (isWhole ? length : 1)) return undefined
    // A piece that has many frames is not copied for each of them.
    const all = this.#pieces.length === 1 ? this.#pieces[0]! : joined(this.#pieces)
    const found = all.subarray(0, length)
    this.#pieces = [all.subarray(length)].filter((rest) => rest.length > 0)
    this.#buffered -= found.length
    return found
  }
}

/** The next value of the format in these bytes; `undefined`: the format has ended, and with it the bytes. They are read on demand. */
export const reader = <A, E, R, E2>(
  content: Stream.Stream<Uint8Array, E, R>,
  format: Format<A>,
  options: Options & { readonly onError: (error: FrameError) => E2 }
): Effect.Effect<Effect.Effect<A | undefined, E | E2>, never, R | Scope.Scope> =>
  Effect.gen(function*() {
    const pull = yield* Stream.toPull(content)
    const all = new Reader(format, options)
    const isEnd = Symbol()
    /** Pieces that came and were not read yet. */
    let came: Iterator<Uint8Array> = [][Symbol.iterator]()
    let values: Iterator<A, void> | undefined
    const attempt = <B>(look: () => B) =>
      Effect.try({
        try: look,
        catch: (error) => {
          if (error instanceof FrameError) return options.onError(error)
          throw error
        }
      })
    const more = Pull.matchEffect(pull, {
      onSuccess: (pieces) => Effect.succeed<ReadonlyArray<Uint8Array> | typeof isEnd>(pieces),
      onFailure: (cause) => Effect.failCause(cause),
      onDone: () => Effect.succeed<ReadonlyArray<Uint8Array> | typeof isEnd>(isEnd)
    })
    return Effect.gen(function*() {
      for (;;) {
        const next = yield* attempt(() => values?.next())
        if (next !== undefined && next.done !== true) return next.value
        const piece = came.next()
        if (piece.done === true) {
          const pulled = yield* more
          if (pulled === isEnd) return yield* attempt(() => void all.finish())
          came = pulled[Symbol.iterator]()
          continue
        }
        values = all.take(piece.value)
      }
    })
  })
