/** What a machine calls itself. */
import * as Schema from "effect/Schema"

/** Of a machine's name, in UTF-16 units: twice what a host's label may have. */
const MAX_MACHINE = 126

/** A name that can be shown, and be that of a key. */
export const Machine = Schema.String.check(
  Schema.isBetweenLength(1, MAX_MACHINE),
  Schema.makeFilter((name: string) => name.trim() === name && !/[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/u.test(name), {
    expected: "one line of visible text"
  })
)
