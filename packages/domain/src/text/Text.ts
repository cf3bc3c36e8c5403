/** Strings and counters with the limits of the interface. */
import * as Schema from "effect/Schema"

const isStorable = Schema.makeFilter(
  (value: string) => !value.includes("\0") && value.isWellFormed(),
  { expected: "well-formed Unicode without NUL", toJsonSchema: () => [{}, true] }
)

const isCodePointLength = (minimum: number, maximum: number) =>
  Schema.makeFilter(
    (value: string) => {
      // A code point is one or two UTF-16 units, so most texts need no counting.
      if (value.length >= 2 * minimum && value.length <= maximum) return true
      let count = 0
      // A refused text may be far longer, so the count ends with the first character too many.
      for (const _ of value) if (++count > maximum) return false
      return count >= minimum
    },
    {
      expected: `${minimum} to ${maximum} characters`,
      toJsonSchema: () => ({ minLength: minimum, maxLength: maximum }),
      arbitraryConstraint: { minLength: minimum, maxLength: maximum }
    }
  )

/**
 * A string of `minimum` to `maximum` Unicode code points (as JSON Schema counts, not UTF-16 units), without NUL and lone surrogates,
 * which Postgres cannot store. Every other character is kept unchanged.
 */
export const text = (minimum: number, maximum: number) => Schema.String.check(isStorable, isCodePointLength(minimum, maximum))

/** Like {@link text} but with any characters, for values that are looked up and never stored. */
export const characters = (minimum: number, maximum: number) => Schema.String.check(isCodePointLength(minimum, maximum))

/** Any string Postgres can store: well-formed, no NUL. */
export const StorableText = Schema.String.check(isStorable)

/** A whole number from 0 to 2^53−1, the range of every counter of the interface. */
export const Counter = Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER }))
