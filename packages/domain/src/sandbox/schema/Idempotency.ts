/** The key of a request that may be repeated. */
import * as Schema from "effect/Schema"

/** Chosen by the caller: 1 to 255 printable ASCII characters, taken raw. Unique per grant and route. */
export const IdempotencyKey = Schema.String.check(
  Schema.isPattern(/^[\x20-\x7e]{1,255}$/u, { expected: "1 to 255 printable ASCII characters" })
).pipe(Schema.brand("IdempotencyKey"))
export type IdempotencyKey = typeof IdempotencyKey.Type
