/** The name that a machine gives itself in a device login. */
import * as Schema from "effect/Schema"

/** Length of a machine's name, in UTF-16 units: twice the length of a host label. */
const MAX_MACHINE = 126

/** A name that is safe to display and valid as a key's name. */
export const Machine = Schema.String.check(
  Schema.isBetweenLength(1, MAX_MACHINE),
  Schema.makeFilter((name: string) => name.trim() === name && !/[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/u.test(name), {
    expected: "one line of visible text"
  })
)
