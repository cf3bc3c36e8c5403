import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { judge, rules } from "@slipway/http/conformance/Suite"
import { World } from "@slipway/http/conformance/World"
import { RealServer } from "./RealServer.ts"

layer(RealServer.layer, { excludeTestServices: true, timeout: "60 seconds" })("the suite", (it) => {
  it.effect("finds nothing missing in the service", () =>
    Effect.gen(function*() {
      const world = new World(yield* RealServer)
      const missed: Array<string> = []
      for (const rule of rules) {
        const at = Date.now()
        const { detail, verdict } = yield* Effect.promise(() => judge(rule, world))
        if (verdict !== "ok") missed.push(`${verdict} ${rule.id}: ${detail}`)
        if (Date.now() - at > 400) missed.push(`SLOW ${rule.id} ${Date.now() - at}`)
      }
      assert.deepStrictEqual(missed, [])
    }), 120_000)
})
