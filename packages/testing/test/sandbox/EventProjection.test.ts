import { assert, describe, it } from "@effect/vitest"
import type { Message } from "@slipway/domain/sandbox/ports/SandboxStore"
import { projectionOf, withMessages } from "@slipway/domain/sandbox/rules/EventProjection"
import { evolveAll, type Sandbox } from "@slipway/domain/sandbox/rules/Sandbox"
import { partId, type SandboxEvent } from "@slipway/domain/sandbox/rules/SandboxEvent"
import { turnId } from "@slipway/domain/sandbox/rules/Turn"
import { createdAt as at, ids, reach } from "@slipway/testing/histories/Histories"
import * as Arbitrary from "effect/Arbitrary"
import * as Schema from "effect/Schema"

const { sandbox: running, turn } = reach("working")
const said = (id: string, text: string, kind: "text" | "reasoning" = "text"): SandboxEvent => ({
  type: "message.updated",
  turn_id: turn,
  data: { part_id: partId[kind](id), message_id: id, kind, text }
})
const completed = (id: string): SandboxEvent => ({
  type: "message.completed",
  turn_id: turn,
  data: { message_id: id, finish: "end_turn" }
})
const tool = (call: string, status: "pending" | "completed"): SandboxEvent => ({
  type: "tool.updated",
  turn_id: turn,
  data: { part_id: partId.tool(call), message_id: partId.toolsOf(turn), call_id: call, tool: "ls", status }
})
const asked = (call: string): SandboxEvent => ({
  type: "approval.requested",
  turn_id: turn,
  data: { approval_id: call, tool: "ls", kind: "edit", expires_at: at }
})
const resolved = (call: string, outcome: "approved" | "denied"): SandboxEvent => ({
  type: "approval.resolved",
  turn_id: turn,
  data: { approval_id: call, outcome, by: "user" }
})

/** The rows of an empty store after these transactions. */
const stored = (transactions: ReadonlyArray<ReadonlyArray<SandboxEvent>>) => {
  let sandbox: Sandbox = running
  let messages: ReadonlyArray<Message> = []
  const texts = new Map<string, string>()
  const approvals = new Map<string, unknown>()
  const log: Array<string> = []
  for (const events of transactions) {
    const recording = projectionOf(sandbox, events, at)
    sandbox = recording.sandbox
    messages = withMessages(messages, recording.messages, (id) => texts.get(id), at)
    for (const [id, text] of recording.texts) texts.set(id, text)
    for (const approval of recording.approvals) approvals.set(approval.approvalId, approval)
    log.push(...recording.entries.map(({ seq, type, wire }) => `${seq} ${type} ${wire}`))
  }
  return { sandbox, messages, approvals, log }
}
const texts = (...transactions: ReadonlyArray<ReadonlyArray<SandboxEvent>>) =>
  stored(transactions).messages.map(({ id, text }) => [id, text])

describe("what is recorded of events", () => {
  it("numbers entries on from the sandbox's last, names their parts, and has the state with them", () => {
    const events = [said("m1", "Hi"), tool("1", "pending"), completed("m1")]
    const { entries, sandbox } = projectionOf(running, events, at)
    const next = running.lastSeq + 1
    assert.deepStrictEqual(entries.map(({ part, seq, type }) => [seq, type, part]), [
      [next, "message.updated", "m1:text"],
      [next + 1, "tool.updated", "tool:1"],
      [next + 2, "message.completed", null]
    ])
    assert.deepStrictEqual(sandbox, evolveAll(running, events, at))
  })

  it("lists a message as soon as it is whole: when it is said to be, at the next part, at the turn's end", () => {
    assert.deepStrictEqual(texts([said("m1", "I look.")]), [])
    assert.deepStrictEqual(texts([said("m1", "I look."), completed("m1")]), [["m1", "I look."]])
    assert.deepStrictEqual(texts([said("m1", "I look."), said("m2", "And")]), [["m1", "I look."]])
    assert.deepStrictEqual(texts([said("m1", "I look."), tool("1", "pending")]), [["m1", "I look."]])
    assert.deepStrictEqual(texts([said("m1", "I look."), tool("1", "completed")]), [])
    const end: SandboxEvent = { type: "turn.completed", turn_id: turn, data: { state: "succeeded" } }
    assert.deepStrictEqual(texts([said("m1", "I look.")], [end]), [["m1", "I look."]])
  })

  it("lists a continued message at its old place with all of its text, and no message that only thought", () => {
    const on = [said("m1", "One"), said("m2", "Two"), said("m1", "One more"), completed("m1"), completed("m2")]
    assert.deepStrictEqual(texts(on), [["m1", "One more"], ["m2", "Two"]])
    assert.deepStrictEqual(texts([said("m1", "hm", "reasoning"), completed("m1")]), [])
  })

  it("lists what was being said before what interrupts it, and numbers both, each message after those before it", () => {
    const id = turnId(ids, running.id, 2)
    const queued: SandboxEvent = {
      type: "message.queued",
      data: { message_id: id, position: 1, text: "No, so.", author: { id: "user-2" }, steers: true }
    }
    const taken: SandboxEvent = {
      type: "message.steered",
      turn_id: turn,
      data: { message_id: id, text: "No, so.", author: { id: "user-2" } }
    }
    const events = [queued, said("m1", "One"), said("m2", "Two"), taken, said("m2", "Two more"), said("m3", "Three"), completed("m3")]
    for (const { messages } of [stored([events]), stored(events.map((event) => [event]))]) {
      assert.deepStrictEqual(messages.map(({ seq, text }) => [seq - running.lastSeq, text]), [
        [2, "One"],
        [3, "Two more"],
        [4, "No, so."],
        [6, "Three"]
      ])
    }
  })

  it("lists a prompt as its turn begins, beside an agent's message with the id of the prompt", () => {
    const id = turnId(ids, running.id, 2)
    const author = { id: "user-1" }
    const events: ReadonlyArray<SandboxEvent> = [
      said("m1", "One"),
      said(id, "I am you."),
      { type: "turn.completed", turn_id: turn, data: { state: "succeeded" } },
      { type: "turn.updated", turn_id: id, data: { state: "pending", previous: null, text: "And now?", author } },
      { type: "turn.started", turn_id: id, data: { prompt_id: id, text: "And now?", files: [], author } },
      { ...said(id, "I am still you."), turn_id: id },
      { ...completed(id), turn_id: id }
    ]
    const first = { turnId: turn, role: "assistant", createdAt: at }
    assert.deepStrictEqual<ReadonlyArray<object>>(stored([events]).messages, [
      { ...first, seq: running.lastSeq + 1, id: "m1", text: "One" },
      { ...first, seq: running.lastSeq + 2, id, text: "I am still you." },
      { ...first, seq: running.lastSeq + 5, id, turnId: id, role: "user", text: "And now?" }
    ])
  })

  it("has a message at most twice: without a text, and with its newest one", () => {
    const { sandbox } = projectionOf(running, [said("m1", "One"), completed("m1")], at)
    const again = [completed("m1"), completed("m1"), said("m1", "One more"), completed("m1"), said("m1", "One more thing"), completed("m1")]
    assert.deepStrictEqual(projectionOf(sandbox, again, at).messages.map(({ seq, text }) => [seq - sandbox.lastSeq, text]), [
      [1, null],
      [3, "One more thing"]
    ])
  })

  it("has each approval once, as it stands in the end", () => {
    const { approvals } = projectionOf(running, [asked("1"), asked("2"), resolved("1", "denied")], at)
    assert.deepStrictEqual(approvals, [
      { approvalId: "1", outcome: "denied", by: "user" },
      { approvalId: "2", outcome: null, by: null }
    ])
  })
})

const Call = Schema.Literals(["1", "2"])
const Id = Schema.Literals(["m1", "m2", "m3", turn])
const Happening = Schema.Union([
  Schema.Struct({ say: Id, text: Schema.Literals(["a", "ab", "abc"]) }),
  Schema.Struct({ think: Id }),
  Schema.Struct({ end: Id }),
  Schema.Struct({ call: Call, status: Schema.Literals(["pending", "completed"]) }),
  Schema.Struct({ ask: Call }),
  Schema.Struct({ resolve: Call, outcome: Schema.Literals(["approved", "denied"]) })
])
const eventOf = (did: typeof Happening.Type): SandboxEvent =>
  "say" in did
    ? said(did.say, did.text)
    : "think" in did
    ? said(did.think, "hm", "reasoning")
    : "end" in did
    ? completed(did.end)
    : "call" in did
    ? tool(did.call, did.status)
    : "ask" in did
    ? asked(did.ask)
    : resolved(did.resolve, did.outcome)
const happenings = Arbitrary.array(Arbitrary.all({ event: Arbitrary.schema(Happening), cut: Arbitrary.schema(Schema.Boolean) }), {
  maxLength: 24
})

it.prop(
  "however events are cut into transactions, the same is stored",
  [happenings],
  ([given]) => {
    const all = given.map(({ event }) => eventOf(event))
    const cut: Array<Array<SandboxEvent>> = [[]]
    given.forEach(({ cut: ends }, i) => {
      cut.at(-1)?.push(all[i]!)
      if (ends) cut.push([])
    })
    assert.deepStrictEqual(stored(cut), stored([all]))
    assert.deepStrictEqual(stored(all.map((event) => [event])), stored([all]))
  },
  { arbitrary: { runs: 300 } }
)
