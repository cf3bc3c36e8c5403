import { Effect } from "effect"
import { DatabaseSchema } from "../options/DatabaseSchema.ts"
import * as Schema from "../schema/Schema.ts"
import * as EarlierVersions from "./EarlierVersions.ts"

/** Columns and tables that came after 0061. A database that 0061 has just made, or upgraded to this version, has them already. */
export default Effect.gen(function*() {
  yield* EarlierVersions.addColumns("0061_schema")
  yield* Schema.create(yield* DatabaseSchema)
  yield* EarlierVersions.fill("0061_schema")
})
