import { Effect } from "effect"
import { DatabaseSchema } from "../options/DatabaseSchema.ts"
import * as Schema from "../schema/Schema.ts"
import * as EarlierVersions from "./EarlierVersions.ts"

/** Columns and tables of agents with files, tools and questions, which came after 0063. */
export default Effect.gen(function*() {
  yield* EarlierVersions.addColumns("0063_feedback_and_automations")
  yield* Schema.create(yield* DatabaseSchema)
  yield* EarlierVersions.fill("0063_feedback_and_automations")
})
