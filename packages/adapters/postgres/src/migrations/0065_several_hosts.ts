import { Effect } from "effect"
import { DatabaseSchema } from "../options/DatabaseSchema.ts"
import * as Schema from "../schema/Schema.ts"
import * as EarlierVersions from "./EarlierVersions.ts"

/** Columns and tables of several source hosts, which came after 0064. */
export default Effect.gen(function*() {
  yield* EarlierVersions.addColumns("0064_files_tools_questions")
  yield* Schema.create(yield* DatabaseSchema)
})
