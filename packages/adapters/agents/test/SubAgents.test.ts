import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import type { Ended } from "../src/Conversation.ts"
import * as SubAgents from "../src/SubAgents.ts"

const Step = Schema.Struct({ did: Schema.Literals(["begin", "end", "conclude"]), id: Schema.Literals(["a", "b", "c"]) })

describe("a turn with sub-agents", () => {
  it.prop("ends once: when the agent has concluded and nothing is open, however they follow on each other", [
    Schema.Array(Step).check(Schema.isMaxLength(20))
  ], ([steps]) => {
    const ends: Array<Ended> = []
    const subAgents = SubAgents.make((ended) => ends.push(ended))
    let [open, conclusion] = [new Set<string>(), undefined as string | undefined]
    for (const { did, id } of steps) {
      if (did === "begin" && ends.length === 0) open = new Set([...open, id])
      if (did === "end") open = new Set([...open].filter((one) => one !== id))
      if (did === "conclude") conclusion ??= id
      if (did === "conclude") subAgents.conclude({ finish: "error", failure: id })
      else subAgents[did](id)
      assert.strictEqual(ends.length, ends.length > 0 || conclusion !== undefined && open.size === 0 ? 1 : 0)
      assert.strictEqual(ends[0]?.failure, ends.length === 0 ? undefined : conclusion)
    }
    subAgents.reset()
    subAgents.conclude({ finish: "end_turn" })
    assert.deepStrictEqual(ends.at(-1), { finish: "end_turn" }, "the next prompt begins with none")
  })
})
