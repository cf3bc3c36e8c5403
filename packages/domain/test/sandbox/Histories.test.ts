/** What holds of every sandbox, whatever is done to it and in which order. */
import { describe, it } from "@effect/vitest"
import { hostile, legal, play, thorough } from "@slipway/domain/testing/Histories"
import { checkHistories } from "@slipway/domain/testing/Laws"
import { register } from "@slipway/domain/testing/runners/Vitest"
import { SandboxResource, toResource } from "@slipway/http/api/SandboxResource"
import * as Schema from "effect/Schema"

register(checkHistories())

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
