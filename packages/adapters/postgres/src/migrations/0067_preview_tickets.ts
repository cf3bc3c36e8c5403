import { Effect } from "effect"
import { DatabaseSchema } from "../options/DatabaseSchema.ts"
import * as Schema from "../schema/Schema.ts"
import * as EarlierVersions from "./EarlierVersions.ts"

/** Columns and tables that came after 0066: the tickets of previews. */
export default Effect.gen(function*() {
  yield* EarlierVersions.addColumns("0066_artifacts")
  yield* Schema.create(yield* DatabaseSchema)
})
