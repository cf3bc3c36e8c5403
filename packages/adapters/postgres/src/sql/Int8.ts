/** `bigint` columns. */
import { Schema, SchemaTransformation } from "effect"

/** `bigint` in a row, number in memory: exact up to 2^53−1, which is all we write. */
export const Int8 = Schema.BigInt.pipe(
  Schema.decodeTo(Schema.Int, SchemaTransformation.transform({ decode: Number, encode: (n) => BigInt(n) }))
)
