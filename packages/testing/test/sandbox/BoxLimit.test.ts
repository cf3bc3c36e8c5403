import { assert, describe, it } from "@effect/vitest"
import { metSince } from "@slipway/domain/sandbox/rules/BoxLimit"
import { given, reach, type Scene } from "@slipway/testing/histories/Histories"

const { turn } = reach("working")

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
      const met = (scene: Scene, turnId: string) => given(scene).when({ _tag: "ReportBoxLimit", turnId, limit })
      met("working", turn).then([{ type: "sandbox.error", turn_id: turn, data: { code: limit, message, retryable: true } }])
      met("working", "another").then([])
      met("idle", turn).then([])
    }
  })
})
