/** The agent's plan of a turn, as it is stored and sent. */
import * as Schema from "effect/Schema"

/** Where a step of a plan is. */
export const PlanStatus = Schema.Literals(["pending", "in_progress", "completed"])
export type PlanStatus = typeof PlanStatus.Type

/** One step of a plan. */
export const PlanEntry = Schema.Struct({
  text: Schema.String.annotateKey({ description: "The step in one line, for display: at most 500 characters." }),
  status: PlanStatus.annotateKey({ description: "Where the step is." })
})
export type PlanEntry = typeof PlanEntry.Type
