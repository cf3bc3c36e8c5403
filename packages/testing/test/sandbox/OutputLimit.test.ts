import { assert, describe, it } from "@effect/vitest"
import {
  boundApproval,
  boundWork,
  CUT_MARK,
  OUTPUT_LIMIT,
  PART_BYTES,
  PENDING_APPROVALS,
  PENDING_BYTES,
  SANDBOX_BYTES,
  SANDBOX_EVENTS,
  TURN_BYTES,
  TURN_EVENTS
} from "@slipway/domain/sandbox/rules/OutputLimit"
import { evolveAll, type Sandbox } from "@slipway/domain/sandbox/rules/Sandbox"
import { type SandboxEvent, type SandboxEventOf, sizeOf } from "@slipway/domain/sandbox/rules/SandboxEvent"
import { decide, type SystemCommand } from "@slipway/domain/sandbox/rules/SystemCommand"
import { toWire } from "@slipway/domain/sandbox/schema/SandboxEvent"
import { utf8Length } from "@slipway/domain/text/Utf8"
import { createdAt, limits, reach } from "@slipway/testing/histories/Histories"
import * as DateTime from "effect/DateTime"
import * as Result from "effect/Result"

const { sandbox: working, turn } = reach("working")

const says = (text: string, message = "m"): SandboxEventOf<"message.updated"> => ({
  type: "message.updated",
  data: { part_id: `${message}:text`, message_id: message, kind: "text", text }
})
const works = (...events: ReadonlyArray<SandboxEventOf<"message.updated" | "tool.updated">>): SystemCommand => ({
  _tag: "RecordWork",
  turnId: turn,
  events
})
const asks = (id: string, paths: ReadonlyArray<string> = []): SystemCommand => ({
  _tag: "RequestApproval",
  turnId: turn,
  approval: { approval_id: id, tool: "write", paths }
})

const decided = (sandbox: Sandbox, command: SystemCommand): ReadonlyArray<SandboxEvent> =>
  Result.getOrThrow(decide(sandbox, command, { limits, now: createdAt }))
const after = (sandbox: Sandbox, command: SystemCommand) => evolveAll(sandbox, decided(sandbox, command), createdAt)

/** The turn has recorded so much, and the sandbox nothing but it. */
const having = (events: number, bytes: number): Sandbox => ({ ...working, lastSeq: began.seq + events, logBytes: began.bytes + bytes })
const began = working.turn?.began ?? { seq: 0, bytes: 0 }

const endOf = (events: ReadonlyArray<SandboxEvent>) => events.flatMap((event) => event.type === "turn.completed" ? [event.data] : [])
const toldOf = (events: ReadonlyArray<SandboxEvent>) =>
  events.flatMap((event) => event.type === "sandbox.error" ? [[event.data.code, event.data.retryable]] : [])
const end = { state: "failed", reason: OUTPUT_LIMIT, initiator: "policy" } as const

describe("what is recorded of an agent's work", () => {
  it("a text has 256 KiB at most, and a cut text ends with the mark, between two characters", () => {
    for (const text of ["x".repeat(PART_BYTES), "é".repeat(PART_BYTES / 2), "\u{1F680}".repeat(PART_BYTES / 4)]) {
      const whole = decided(working, works(says(text)))[0] as SandboxEventOf<"message.updated">
      assert.strictEqual(whole.data.text, text)
      const cut = decided(working, works(says(`${text}!`)))[0] as SandboxEventOf<"message.updated">
      assert.isTrue(cut.data.text.endsWith(CUT_MARK))
      assert.isTrue(cut.data.text.isWellFormed())
      assert.isTrue(text.startsWith(cut.data.text.slice(0, -CUT_MARK.length)))
      const bytes = utf8Length(cut.data.text)
      assert.isTrue(bytes <= PART_BYTES && bytes > PART_BYTES - 4, String(bytes))
    }
  })

  it("ids, names, errors and paths of any length are cut, those of our own drivers are not", () => {
    const long = "i".repeat(100_000)
    const call = { part_id: long, message_id: long, call_id: long, tool: long, status: "error", error: long } as const
    const event = boundWork({ type: "tool.updated", data: call })
    assert.isTrue(sizeOf(event) < 12_000, String(sizeOf(event)))
    assert.isTrue(sizeOf(boundWork({ type: "message.completed", data: { message_id: long, finish: "end_turn" } })) < 1000)
    const approval = boundApproval({ approval_id: long, tool: long, paths: Array.from({ length: 1000 }, () => long) })
    assert.strictEqual(approval.approval_id.length, 300)
    assert.isTrue(JSON.stringify(approval).length < 110_000)
    const ours = {
      part_id: `tool:${turn}:t1`,
      message_id: `turn-tools:${turn}`,
      call_id: `${turn}:t1`,
      tool: `${"t".repeat(200)}…`,
      status: "pending"
    } as const
    assert.deepStrictEqual(boundWork({ type: "tool.updated", data: ours }).data, ours)
  })

  it("is counted by the bytes it takes in the log, to a few", () => {
    for (const text of ["", "plain", "\u0001\"\\\n", "é\u{1F680}"]) {
      const event: SandboxEvent = { ...says(text), turn_id: turn }
      const wire = utf8Length(toWire(working.id, { seq: 12_345, at: createdAt, event }))
      assert.isTrue(Math.abs(wire - sizeOf(event)) < 10, `${wire} ${sizeOf(event)}`)
      assert.strictEqual(evolveAll(working, [event], createdAt).logBytes, working.logBytes + sizeOf(event))
    }
  })
})

describe("a turn", () => {
  it("records its last event, and with the next one ends as failed, once, and says why", () => {
    const more = works(says("more"))
    for (const full of [having(TURN_EVENTS - 1, 0), having(0, TURN_BYTES - sizeOf({ ...says("more"), turn_id: turn }))]) {
      assert.deepStrictEqual(decided(full, more).map(({ type }) => type), ["message.updated"])
      const events = decided(after(full, more), more)
      assert.deepStrictEqual(events.map(({ type }) => type), ["sandbox.error", "turn.completed"])
      assert.deepStrictEqual([toldOf(events), endOf(events)], [[[OUTPUT_LIMIT, true]], [end]])
      assert.deepStrictEqual(decided(evolveAll(after(full, more), events, createdAt), more), [])
    }
  })

  it("keeps of a batch what fits", () => {
    const events = decided(having(TURN_EVENTS - 2, 0), works(says("a"), says("b"), says("c"), says("d")))
    assert.deepStrictEqual(events.map(({ type }) => type), ["message.updated", "message.updated", "sandbox.error", "turn.completed"])
  })

  it("ends with more approvals at once than may wait, which leaves none pending", () => {
    let asking = working
    for (let i = 0; i < PENDING_APPROVALS; i++) asking = after(asking, asks(`call-${i}`))
    assert.strictEqual(asking.approvals.length, PENDING_APPROVALS)
    const events = decided(asking, asks("one more"))
    assert.deepStrictEqual([toldOf(events), endOf(events)], [[[OUTPUT_LIMIT, true]], [end]])
    assert.deepStrictEqual(evolveAll(asking, events, createdAt).approvals, [])

    const large = Array.from({ length: 100 }, () => "p".repeat(1000))
    let waiting = working
    for (let i = 0; waiting.turn?.state !== "failed"; i++) waiting = after(waiting, asks(`call-${i}`, large))
    assert.isTrue(waiting.logBytes - working.logBytes < PENDING_BYTES + 20_000)
    assert.deepStrictEqual(waiting.approvals, [])
  })

  it("ends with a message that is not read, once, and says why", () => {
    const refused = { _tag: "RefuseMessage", turnId: turn } as const
    const events = decided(working, refused)
    assert.deepStrictEqual(events.map(({ type }) => type), ["sandbox.error", "turn.completed"])
    assert.deepStrictEqual([toldOf(events), endOf(events)], [[[OUTPUT_LIMIT, true]], [end]])
    assert.deepStrictEqual(decided(evolveAll(working, events, createdAt), refused), [])
    assert.deepStrictEqual(decided(working, { ...refused, turnId: "another" }), [])
  })

  it("that was asked for before turns were counted is bounded by its sandbox alone", () => {
    const { began: _, ...old } = working.turn ?? assert.fail("no turn")
    const sandbox = { ...having(TURN_EVENTS, TURN_BYTES), turn: old }
    assert.deepStrictEqual(endOf(decided(sandbox, works(says("more")))), [])
    assert.deepStrictEqual(endOf(decided({ ...sandbox, logBytes: SANDBOX_BYTES }, works(says("more")))), [end])
  })

  it("counts from the message that asked for it", () => {
    const history = reach("idle")
    const before = history.sandbox
    history.person({ _tag: "Send", prompt: "And now?" })
    assert.deepStrictEqual(history.sandbox.turn?.began, { seq: before.lastSeq, bytes: before.logBytes })
  })
})

describe("a sandbox that has recorded all it may", () => {
  it.each([{ lastSeq: SANDBOX_EVENTS }, { logBytes: SANDBOX_BYTES }])(
    "ends each turn before an agent gets it, and says that another one is needed (%j)",
    (full) => {
      const pending = { ...reach("pending").sandbox, ...full }
      const events = decided(pending, { _tag: "StartTurn", turnId: turn })
      assert.deepStrictEqual(events.map(({ type }) => type), ["turn.started", "sandbox.error", "turn.completed"])
      assert.deepStrictEqual([toldOf(events), endOf(events)], [[[OUTPUT_LIMIT, false]], [end]])
      const ended = evolveAll(pending, events, createdAt)
      assert.strictEqual(ended.status, "running")
      assert.include(ended.error ?? "", "Create another one")
      const later = DateTime.add(createdAt, { minutes: 1 })
      assert.isTrue(Result.isSuccess(decide({ ...ended, idleSince: later }, { _tag: "Expire" }, { limits, now: later })))
    }
  )

  it("has room for several turns that are as large as they may be", () => {
    assert.isTrue(SANDBOX_EVENTS >= 4 * TURN_EVENTS && SANDBOX_BYTES >= 4 * TURN_BYTES && TURN_BYTES >= 100 * PART_BYTES)
  })
})
