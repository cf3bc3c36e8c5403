import { assert, describe, it } from "@effect/vitest"
import { metSince } from "@slipway/domain/sandbox/rules/BoxLimit"
import { evolveAll } from "@slipway/domain/sandbox/rules/Sandbox"
import { decide } from "@slipway/domain/sandbox/rules/SystemCommand"
import { createdAt, limits, reach } from "@slipway/testing/histories/Histories"
import * as Result from "effect/Result"

const { sandbox: working, turn } = reach("working")

describe("a limit of the box that programs of a turn meet", () => {
  it("is a limit that was reached since the turn began, the limit that ends programs first", () => {
    const before = { outOfMemory: 1, tooManyProcesses: 2 }
    assert.deepStrictEqual(metSince(before, before), [])
    assert.deepStrictEqual(metSince(before, { outOfMemory: 2, tooManyProcesses: 2 }), ["out_of_memory"])
    assert.deepStrictEqual(metSince(before, { outOfMemory: 2, tooManyProcesses: 3 }), ["out_of_memory", "too_many_processes"])
    // The box was made anew.
    assert.deepStrictEqual(metSince(before, { outOfMemory: 0, tooManyProcesses: 0 }), [])
  })

  it("is told in that turn, which goes on, and in no other", () => {
    for (
      const [limit, message] of [
        ["out_of_memory", "The sandbox ran out of memory, so programs of it were ended."],
        ["too_many_processes", "The sandbox has too many processes: it could start no more of them."]
      ] as const
    ) {
      const met = (turnId: string, sandbox = working) =>
        Result.getOrThrow(decide(sandbox, { _tag: "ReportBoxLimit", turnId, limit }, { limits, now: createdAt }))
      const events = met(turn)
      assert.deepStrictEqual(events, [{ type: "sandbox.error", turn_id: turn, data: { code: limit, message, retryable: true } }])
      const after = evolveAll(working, events, createdAt)
      assert.deepStrictEqual([after.status, after.turn?.state, after.revision], ["running", "running", working.revision])
      assert.deepStrictEqual(met("another"), [])
      assert.deepStrictEqual(met(turn, reach("idle").sandbox), [])
    }
  })
})
