import { Effect } from "effect"
import { DatabaseSchema } from "../options/DatabaseSchema.ts"
import * as Schema from "../schema/Schema.ts"
import * as EarlierVersions from "./EarlierVersions.ts"

/** The whole schema, or the upgrade of an earlier version to it. */
export default Effect.gen(function*() {
  const schema = yield* DatabaseSchema
  const earlier = yield* EarlierVersions.find(schema)
  if (earlier !== null) yield* EarlierVersions.move(earlier, schema)
  yield* Schema.create(schema)
  if (earlier !== null) yield* EarlierVersions.fill(earlier)
})
