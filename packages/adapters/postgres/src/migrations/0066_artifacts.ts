import { Effect } from "effect"
import { DatabaseSchema } from "../options/DatabaseSchema.ts"
import * as Schema from "../schema/Schema.ts"
import * as EarlierVersions from "./EarlierVersions.ts"

/** Columns and tables that came after 0065: the artifacts of sandboxes. */
export default Effect.gen(function*() {
  yield* EarlierVersions.addColumns("0065_several_hosts")
  yield* Schema.create(yield* DatabaseSchema)
})
