import { assert, describe, it } from "@effect/vitest"
import { given } from "@slipway/testing/histories/Histories"
import { specification } from "@slipway/testing/suite/GivenWhenThen"
import * as Result from "effect/Result"

type Moved = { readonly by: number }
/** Counts up to two. */
const counter = specification({
  initial: { n: 0 },
  decide: ({ n }, command: "up" | "stay"): Result.Result<ReadonlyArray<Moved>, { readonly _tag: "Full" }> =>
    command === "stay" ? Result.succeed([]) : n < 2 ? Result.succeed([{ by: 1 }]) : Result.fail({ _tag: "Full" }),
  evolve: ({ n }, { by }: Moved) => ({ n: n + by })
})

describe("a sentence about a decider", () => {
  it("holds for exactly the events of the last command, or its refusal", () => {
    counter([]).when("up").then([{ by: 1 }])
    counter([]).when("up", "stay").then([])
    counter([{ by: 1 }]).when("up", "up").then("Full")
    counter({ n: 2 }).when("up").then("Full")
  })

  it.each<readonly [string, () => void]>([
    ["other events", () => counter([]).when("up").then([{ by: 2 }])],
    ["events instead of none", () => counter([]).when("up").then([])],
    ["no events instead of some", () => counter([]).when("stay").then([{ by: 1 }])],
    ["events instead of a refusal", () => counter([]).when("up").then("Full")],
    ["a refusal instead of events", () => counter({ n: 2 }).when("up").then([{ by: 1 }])],
    ["a refusal of an earlier command", () => counter({ n: 2 }).when("up", "stay").then([])]
  ])("fails with %s", (_, sentence) => {
    assert.throws(sentence)
  })

  it("about a sandbox begins with a scene, and names why a command has no effect", () => {
    given("queued").when({ _tag: "Wait", minutes: 1439 }, { _tag: "Expire" }).then([])
    given("idle").when({ _tag: "Interrupt" }).then("no_active_turn")
    given("working").when({ _tag: "Interrupt" }, { _tag: "Interrupt" }).then("duplicate")
    given("working").when({ _tag: "Send", prompt: "Now!" }).then("TurnActive")
    given("terminated").when({ _tag: "StartBoot" }).then("IllegalTransition")
  })
})
