import { Effect } from "effect"
import { DatabaseSchema } from "../options/DatabaseSchema.ts"
import * as Schema from "../schema/Schema.ts"
import * as EarlierVersions from "./EarlierVersions.ts"

/** Columns and tables of feedback, notifications, automations and deletion, which came after 0062. */
export default Effect.gen(function*() {
  yield* EarlierVersions.addColumns("0062_additions")
  yield* Schema.create(yield* DatabaseSchema)
  yield* EarlierVersions.fill("0062_additions")
})
