/** Strings and counters as the interface counts and refuses them. */
import * as Schema from "effect/Schema"

const countCodePoints = (text: string): number => {
  let count = 0
  for (const _ of text) count++
  return count
}

const isStorable = Schema.makeFilter(
  (value: string) => !value.includes("\0") && value.isWellFormed(),
  { expected: "well-formed Unicode without NUL", toJsonSchema: () => [{}, true] }
)

const isCodePointLength = (minimum: number, maximum: number) =>
  Schema.makeFilter(
    (value: string) => {
      // A code point is one or two UTF-16 units, so most lengths need no counting.
      if (value.length < minimum || value.length > 2 * maximum) return false
      if (value.length >= 2 * minimum && value.length <= maximum) return true
      const count = countCodePoints(value)
      return count >= minimum && count <= maximum
    },
    {
      expected: `${minimum} to ${maximum} characters`,
      toJsonSchema: () => ({ minLength: minimum, maxLength: maximum }),
      arbitraryConstraint: { minLength: minimum, maxLength: maximum }
    }
  )

/**
 * A string of `minimum` to `maximum` Unicode code points (as JSON Schema counts, not UTF-16 units), without NUL and
 * without a lone surrogate: Postgres can store neither. Every other character is kept as it came.
 */
export const text = (minimum: number, maximum: number) => Schema.String.check(isStorable, isCodePointLength(minimum, maximum))

/** As {@link text}, but with any characters at all: for what is looked up and never stored. */
export const characters = (minimum: number, maximum: number) => Schema.String.check(isCodePointLength(minimum, maximum))

/** Any string Postgres can store: well-formed, no NUL. */
export const StorableText = Schema.String.check(isStorable)

/** A whole number from 0 to 2^53−1, the range of every counter of the interface. */
export const Counter = Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER }))

/** Adds without leaving the range of {@link Counter}: our own counters saturate instead of overflowing. */
export const saturatingAdd = (a: number, b: number): number => Math.min(a + b, Number.MAX_SAFE_INTEGER)

/** Bytes of the text in UTF-8. A lone surrogate counts as what it is replaced with. */
export const utf8Length = (value: string): number => {
  let bytes = value.length
  for (let i = 0; i < value.length; i++) {
    const unit = value.charCodeAt(i)
    if (unit < 0x80) continue
    if (unit < 0x800) bytes += 1
    else if (unit < 0xd800 || unit > 0xdbff || (value.charCodeAt(i + 1) & 0xfc00) !== 0xdc00) bytes += 2
    else {
      // Four bytes for a pair of two units.
      bytes += 2
      i++
    }
  }
  return bytes
}

/**
 * The text when it has at most `maximum` bytes in UTF-8; otherwise its beginning with `mark` at the end, `maximum` bytes at
 * most together. Never cuts a character in two.
 */
export const cut = (value: string, maximum: number, mark: string): string => {
  // No unit takes more than three bytes.
  if (value.length * 3 <= maximum || utf8Length(value) <= maximum) return value
  let left = maximum - utf8Length(mark)
  let end = 0
  for (const character of value) {
    left -= utf8Length(character)
    if (left < 0) break
    end += character.length
  }
  // Joined and cut again, so that it is a string of its own: a slice would keep all of the long one in memory (V8).
  return (` ${value.slice(0, end)}${mark}`).slice(1)
}
