import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import type { AgentEvent } from "@slipway/domain/sandbox/AgentRuntime"
import { assertWellFormed } from "@slipway/domain/testing/AgentRuntimeContract"
import { make } from "@slipway/adapters/agents/TurnEvents"

const Call = Schema.Literals(["c1", "c2", "c3"])
const Status = Schema.Literals(["pending", "running", "completed", "error"])
const Report = Schema.TaggedUnion({
  Chunk: {
    kind: Schema.Literals(["text", "reasoning"]),
    nativeId: Schema.NullOr(Schema.Literals(["n1", "n2"])),
    text: Schema.String
  },
  Tool: { call: Call, status: Schema.optionalKey(Status), title: Schema.optionalKey(Schema.String) },
  Ask: { call: Call, status: Schema.optionalKey(Status) },
  Deny: { call: Call },
  Interrupt: {}
})
const Finish = Schema.Literals(["end_turn", "max_tokens", "refusal", "cancelled", "error"])

const tell = (reports: ReadonlyArray<typeof Report.Type>, finish: typeof Finish.Type): ReadonlyArray<AgentEvent> => {
  const turn = make("turn")
  const told = reports.flatMap((report): ReadonlyArray<AgentEvent> => {
    switch (report._tag) {
      case "Chunk":
        return turn.chunk(report.kind, report.nativeId, report.text)
      case "Tool":
        return turn.tool(report.call, report)
      case "Ask":
        return turn.ask(report.call, report).events
      case "Deny":
        turn.deny(report.call)
        return []
      case "Interrupt":
        turn.interrupt()
        return []
    }
  })
  const end = turn.end(finish)
  assert.deepStrictEqual(
    [...turn.end(finish), ...turn.chunk("text", null, "late"), ...turn.tool("c1", { status: "error" })],
    []
  )
  return [...told, ...end]
}

describe("TurnEvents", () => {
  it.prop(
    "makes a well-formed turn of whatever an agent reports",
    [Schema.Array(Report), Finish],
    ([reports, finish]) => {
      assertWellFormed(tell(reports, finish))
    },
    { arbitrary: { runs: 500 } }
  )

  it.prop(
    "completes no call after an interrupt",
    [Schema.Array(Report), Finish],
    ([reports, finish]) => {
      const at = reports.findIndex(({ _tag }) => _tag === "Interrupt")
      const before = at < 0 ? reports : reports.slice(0, at)
      const completed = (events: ReadonlyArray<AgentEvent>) =>
        events.filter((event) => event._tag === "ToolUpdated" && event.status === "completed").length
      assert.strictEqual(
        completed(tell([...before, { _tag: "Interrupt" }, ...reports], finish)),
        completed(tell(before, finish))
      )
    },
    { arbitrary: { runs: 300 } }
  )

  it("names a second question about the same call apart from the first", () => {
    const turn = make("turn")
    assert.strictEqual(turn.ask("c1", {}).approvalId, "turn:t1")
    assert.strictEqual(turn.ask("c1", {}).approvalId, "turn:t1:2")
    assert.strictEqual(turn.ask("c2", {}).approvalId, "turn:t2")
  })

  it("remembers what an earlier report said about a call", () => {
    const turn = make("turn")
    turn.tool("c1", { title: "Write a.txt", kind: "edit", paths: ["a.txt"] })
    assert.deepStrictEqual(turn.ask("c1", {}).events, [
      { _tag: "ApprovalRequested", approvalId: "turn:t1", tool: "Write a.txt", kind: "edit", paths: ["a.txt"] }
    ])
  })

  it("shows a denied call as denied, even when the runtime reports it as completed", () => {
    const turn = make("turn")
    turn.ask("c1", {})
    turn.deny("c1")
    assert.deepStrictEqual(turn.tool("c1", { status: "completed" }), [
      { _tag: "ToolUpdated", callId: "turn:t1", tool: "tool", status: "error", error: "denied" }
    ])
  })

  it("cuts long titles and keeps them on one line", () => {
    const [event] = make("turn").tool("c1", { title: `a\n\tb${"x".repeat(300)}` })
    assert.strictEqual(event?._tag === "ToolUpdated" ? event.tool : "", `a b${"x".repeat(197)}…`)
  })
})
