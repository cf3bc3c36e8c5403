import { assert, describe, it } from "@effect/vitest"
import type { AgentEvent } from "@slipway/domain/sandbox/ports/AgentRuntime"
import { CUT_MARK, PART_BYTES } from "@slipway/domain/sandbox/rules/OutputLimit"
import { utf8Length } from "@slipway/domain/text/Utf8"
import { assertWellFormed } from "@slipway/testing/contracts/sandbox/AgentRuntimeContract"
import { Schema } from "effect"
import { type Asked, make, type ToolReport } from "../src/TurnEvents.ts"

const Call = Schema.Literals(["c1", "c2", "c3"])
const Status = Schema.Literals(["pending", "running", "completed", "error"])
const Report = Schema.TaggedUnion({
  Chunk: {
    kind: Schema.Literals(["text", "reasoning"]),
    nativeId: Schema.NullOr(Schema.Literals(["n1", "n2"])),
    text: Schema.String
  },
  Tool: {
    call: Call,
    status: Schema.optionalKey(Status),
    title: Schema.optionalKey(Schema.String),
    parent: Schema.optionalKey(Call)
  },
  Plan: { entries: Schema.Array(Schema.Struct({ text: Schema.String, status: Schema.Literals(["pending", "in_progress", "completed"]) })) },
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
      case "Plan":
        return turn.plan(report.entries)
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
    [...turn.end(finish), ...turn.chunk("text", null, "late"), ...turn.tool("c1", { status: "error" }),
      ...turn.plan([{ text: "late", status: "pending" }])],
    []
  )
  return [...told, ...end]
}

const approvalOf = (asked: Asked) => "approvalId" in asked ? asked.approvalId : asked.refused

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
    assert.strictEqual(approvalOf(turn.ask("c1", {})), "turn:t1")
    assert.strictEqual(approvalOf(turn.ask("c1", {})), "turn:t1:2")
    assert.strictEqual(approvalOf(turn.ask("c2", {})), "turn:t2")
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
    assert.strictEqual(event?._tag === "ToolUpdated" ? event.tool : "", `a ⏎ b${"x".repeat(195)}…`)
  })

  const asked = (report: ToolReport, redacted?: (text: string) => string) => make("turn", redacted).ask("c1", report)
  const previewOf = (made: Asked) => made.events.flatMap((event) => event._tag === "ApprovalRequested" ? [event.preview] : [])[0]

  it("asks with the whole command, however its title is cut", () => {
    const command = `npm test # ${"x".repeat(300)}\necho PWNED \u202e`
    const made = asked({ kind: "command", title: command, command })
    assert.deepStrictEqual(previewOf(made), { command: `npm test # ${"x".repeat(300)}\necho PWNED ⟨RIGHT-TO-LEFT OVERRIDE⟩` })
    assert.deepStrictEqual(previewOf(asked({ kind: "command", title: "git", command: "a\r\nb" })), { command: "a⟨CR⟩\nb" })
  })

  it("refuses at once what cannot be shown, ends the call with the reason, and asks for no approval", () => {
    const made = asked({ kind: "command", title: "x", command: `true ${"#".repeat(70_000)}\necho PWNED` })
    assert.deepStrictEqual(made.events.map((event) => event._tag === "ToolUpdated" ? event.status : event._tag), ["pending", "error"])
    const [, ended] = made.events
    assert.match(ended?._tag === "ToolUpdated" ? ended.error ?? "" : "", /^denied: It is larger than 64 KiB/u)
    assert.match(approvalOf(asked({ kind: "command", title: "x" })), /does not say what it would run/u)
  })

  it("does not take a command for short because secrets were taken out of it", () => {
    const made = asked(
      { kind: "command", command: `${"s3cret-s3cret".repeat(20_000)}\necho PWNED` },
      (text) => text.replaceAll("s3cret-s3cret", "-")
    )
    assert.match(approvalOf(made), /larger than 64 KiB/u)
  })

  it("takes secrets out of what it shows, and nothing else", () => {
    const redacted = (text: string) => text.replaceAll("s3cret-s3cret", "[redacted]")
    const report = { kind: "command", title: "a s3cret-s3cret", command: "curl -H token=$(rm -rf ~) s3cret-s3cret" } as const
    const made = asked(report, redacted)
    assert.deepStrictEqual(previewOf(made), { command: "curl -H token=$(rm -rf ~) [redacted]" })
    assert.notInclude(JSON.stringify(made), "s3cret")
    const turn = make("turn", redacted)
    turn.tool("c1", report)
    assert.notInclude(JSON.stringify(turn.tool("c1", { status: "completed", output: "it is s3cret-s3cret" })), "s3cret")
  })

  it("shows a tool that it does not know by what it is called with", () => {
    assert.deepStrictEqual(previewOf(asked({ kind: "other", title: "deploy", input: "{ \"to\": \"production\" }" })), {
      command: "{ \"to\": \"production\" }"
    })
  })

  it("tells with each update what the call does, and at its end what it wrote", () => {
    const turn = make("turn")
    turn.tool("c1", { title: "ls", kind: "command", command: "ls\n-l" })
    assert.deepStrictEqual(turn.tool("c1", { status: "completed", output: "a\nb\n" }), [
      { _tag: "ToolUpdated", callId: "turn:t1", tool: "ls", status: "completed", detail: { command: "ls\n-l", output: "a\nb\n" } }
    ])
  })

  it("has thought and text of one answer in one message, and begins another one for what comes then", () => {
    const turn = make("turn")
    const idOf = (kind: "text" | "reasoning", nativeId: string | null, text = "x") =>
      turn.chunk(kind, nativeId, text).map((event) => event._tag === "MessageUpdated" ? `${event.messageId} ${event.text}` : "").join()
    assert.strictEqual(idOf("reasoning", "n1"), "turn:m1 x")
    assert.strictEqual(idOf("reasoning", "n1"), "turn:m1 xx")
    assert.strictEqual(idOf("text", "n2"), "turn:m1 x")
    assert.strictEqual(idOf("text", "n2"), "turn:m1 xx")
    assert.strictEqual(idOf("reasoning", "n3"), "turn:m2 x")
    assert.strictEqual(idOf("text", null), "turn:m2 x")
    assert.strictEqual(idOf("text", "n4"), "turn:m3 x")
    turn.tool("c1", { status: "running" })
    assert.strictEqual(idOf("text", "n4"), "turn:m4 x")
  })
})

describe("a text that never ends", () => {
  it("is cut at 256 KiB, mark included, and costs nothing from then on", () => {
    for (const [piece, times] of [["é".repeat(999), 2000], ["x".repeat(12_000_000), 3]] as const) {
      const events = make("turn")
      const told = Array.from({ length: times }, () => events.chunk("text", "m", piece)).flat()
      const last = told.at(-1)
      assert.isTrue(last?._tag === "MessageUpdated" && last.text.endsWith(CUT_MARK) && utf8Length(last.text) <= PART_BYTES)
      assert.isTrue(told.length < 200, String(told.length))
      // The next message begins afresh.
      assert.deepInclude(events.chunk("text", "n", "hello").at(-1), { _tag: "MessageUpdated", text: "hello" })
    }
  })
})
