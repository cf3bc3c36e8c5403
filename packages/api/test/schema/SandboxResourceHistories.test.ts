/** The resource of a sandbox fits its schema in every history. */
import { describe, it } from "@effect/vitest"
import { SandboxResource, toResource } from "@slipway/api/schema/SandboxResource"
import { hostile, legal, play, thorough } from "@slipway/testing/histories/Histories"
import * as Schema from "effect/Schema"

describe("the resource of a sandbox, in every history", () => {
  for (const [people, plans] of [["sensible", legal], ["hostile", hostile]] as const) {
    it.prop(`fits the interface (${people} people)`, [plans], ([plan]) => {
      const { first, moments } = play(plan)
      for (const sandbox of [first, ...moments.map(({ after }) => after)]) {
        Schema.encodeSync(SandboxResource)(toResource(sandbox, "https://slipway.example"))
      }
    }, thorough)
  }
})
