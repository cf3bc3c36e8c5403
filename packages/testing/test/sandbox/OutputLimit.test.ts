import { assert, describe, it } from "@effect/vitest"
import {
  boundApproval,
  boundWork,
  CUT_MARK,
  PART_BYTES,
  PENDING_APPROVALS,
  PENDING_BYTES,
  SANDBOX_BYTES,
  SANDBOX_EVENTS,
  TURN_BYTES,
  TURN_EVENTS
} from "@slipway/domain/sandbox/rules/OutputLimit"
import { evolveAll, type Sandbox } from "@slipway/domain/sandbox/rules/Sandbox"
import { type ApprovalRequest, type SandboxEvent, type SandboxEventOf, sizeOf } from "@slipway/domain/sandbox/rules/SandboxEvent"
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
const asks = (id: string, more: Pick<ApprovalRequest, "paths" | "preview"> = {}): SystemCommand => ({
  _tag: "RequestApproval",
  turnId: turn,
  approval: { approval_id: id, tool: "write", ...more }
})

const decided = (sandbox: Sandbox, command: SystemCommand): ReadonlyArray<SandboxEvent> =>
  Result.getOrThrow(decide(sandbox, command, { limits, now: createdAt }))
const after = (sandbox: Sandbox, command: SystemCommand) => evolveAll(sandbox, decided(sandbox, command), createdAt)

/** The turn has recorded so much, and the sandbox nothing but it. */
const having = (events: number, bytes: number): Sandbox => ({ ...working, lastSeq: began.seq + events, logBytes: began.bytes + bytes })
const began = working.turn?.began ?? { seq: 0, bytes: 0 }

const endOf = (events: ReadonlyArray<SandboxEvent>) => events.flatMap((event) => event.type === "turn.completed" ? [event.data] : [])
const toldOf = (events: ReadonlyArray<SandboxEvent>) => events.filter(({ type }) => type === "sandbox.error")
const told = (message: string, retryable = true) => [
  { type: "sandbox.error", turn_id: turn, data: { code: "output_limit", message, retryable } }
]
const TURN = told("The agent wrote more than 50000 events or 128 MiB in one turn, so the turn was ended.")
const SANDBOX = told("This sandbox has recorded 250000 events or 512 MiB, the most that one may. Create another one to go on.", false)
const APPROVALS = told("The agent asked for too much at once, so the turn was ended.")
const MESSAGE = told("The agent sent a message that is too large, so the turn was ended.")
const end = { state: "failed", reason: "output_limit", initiator: "policy" } as const

describe("the limits", () => {
  it("are those of docs/decisions/5", () => {
    const MIB = 1_048_576
    assert.deepStrictEqual(
      { PART_BYTES, TURN_EVENTS, TURN_BYTES, SANDBOX_EVENTS, SANDBOX_BYTES, PENDING_APPROVALS, PENDING_BYTES },
      {
        PART_BYTES: MIB / 4,
        TURN_EVENTS: 50_000,
        TURN_BYTES: 128 * MIB,
        SANDBOX_EVENTS: 250_000,
        SANDBOX_BYTES: 512 * MIB,
        PENDING_APPROVALS: 100,
        PENDING_BYTES: MIB
      }
    )
  })
})

describe("what is recorded of an agent's work", () => {
  it("a text has 256 KiB at most, and a cut text ends with the mark, between two characters", () => {
    for (const text of ["x".repeat(PART_BYTES), "é".repeat(PART_BYTES / 2), "\u{1F680}".repeat(PART_BYTES / 4)]) {
      const whole = decided(working, works(says(text)))[0] as SandboxEventOf<"message.updated">
      assert.strictEqual(whole.data.text, text)
      const cut = decided(working, works(says(`${text}!`)))[0] as SandboxEventOf<"message.updated">
      assert.isTrue(cut.data.text.endsWith("\n[cut here: a text is recorded up to 256 KiB]"))
      assert.isTrue(cut.data.text.isWellFormed())
      assert.isTrue(text.startsWith(cut.data.text.slice(0, -CUT_MARK.length)))
      const bytes = utf8Length(cut.data.text)
      assert.isTrue(bytes <= PART_BYTES && bytes > PART_BYTES - 4, String(bytes))
    }
  })

  it("ids, names, errors and paths of any length are cut, those of our own drivers are not", () => {
    const long = "i".repeat(100_000)
    const cut = (bytes: number) => `${"i".repeat(bytes - 3)}…`
    const name = cut(1000)
    const id = "i".repeat(300)
    const paths = Array.from({ length: 101 }, (_, i) => `${i}`.padEnd(2000, "i"))
    const names = paths.slice(0, 100).map((path) => `${path.slice(0, 997)}…`)
    const call = {
      part_id: long,
      message_id: long,
      call_id: long,
      tool: long,
      status: "error",
      error: long,
      detail: { command: long, paths, output: long }
    } as const
    assert.deepStrictEqual(boundWork({ type: "tool.updated", data: call }).data, {
      part_id: id,
      message_id: id,
      call_id: id,
      tool: name,
      status: "error",
      error: cut(8 * 1024),
      detail: { command: cut(64 * 1024), paths: names, output: cut(8 * 1024) }
    })
    assert.deepStrictEqual(boundWork({ ...says("text"), data: { ...says("text").data, part_id: long, message_id: long } }).data, {
      part_id: id,
      message_id: id,
      kind: "text",
      text: "text"
    })
    const steps = Array.from({ length: 101 }, () => ({ text: "\u{1F680}".repeat(600), status: "pending" as const }))
    const { data: plan } = boundWork({ type: "plan.updated", data: { part_id: long, entries: steps } })
    assert.deepStrictEqual("entries" in plan ? [plan.entries.length, plan.part_id.length, plan.entries[0]?.text.length] : [], [
      100,
      300,
      2 * 499 + 1
    ])
    assert.deepStrictEqual(boundWork({ type: "message.completed", data: { message_id: long, finish: "end_turn" } }).data, {
      message_id: id,
      finish: "end_turn"
    })
    assert.deepStrictEqual(boundApproval({ approval_id: long, tool: long, paths }), { approval_id: id, tool: name, paths: names })
    const ours = {
      part_id: `tool:${turn}:t1`,
      message_id: `turn-tools:${turn}`,
      call_id: `${turn}:t1`,
      tool: `${"t".repeat(200)}…`,
      status: "pending",
      detail: {}
    } as const
    assert.deepStrictEqual(boundWork({ type: "tool.updated", data: ours }).data, ours)
  })

  it("is counted by the bytes it takes in the log with an id of five digits", () => {
    for (const text of ["", "plain", "\u0001\"\\\n", "é\u{1F680}"]) {
      const event: SandboxEvent = { ...says(text), turn_id: turn }
      const wire = utf8Length(toWire(working.id, { seq: 12_345, at: createdAt, event }))
      assert.strictEqual(sizeOf(event), wire)
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
      assert.deepStrictEqual([toldOf(events), endOf(events)], [TURN, [end]])
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
    assert.deepStrictEqual([toldOf(events), endOf(events)], [APPROVALS, [end]])
    assert.deepStrictEqual(evolveAll(asking, events, createdAt).approvals, [])
  })

  it("may ask for approvals of 1 MiB in all, and show 64 KiB of one", () => {
    const requests = (sandbox: Sandbox, command: SystemCommand) => decided(sandbox, command)[0]?.type === "approval.requested"
    const { approvals: [first = assert.fail()] } = after(working, asks("first"))
    const pending = (approvals: Sandbox["approvals"]) => utf8Length(JSON.stringify(approvals)) + sizeOf(decided(working, asks("next"))[0]!)
    const left = PENDING_BYTES - pending([{ ...first, tool: "" }])
    assert.isTrue(requests({ ...working, approvals: [{ ...first, tool: "t".repeat(left) }] }, asks("next")))
    assert.isFalse(requests({ ...working, approvals: [{ ...first, tool: "t".repeat(left + 1) }] }, asks("next")))

    const command = "c".repeat(64 * 1024 - 4)
    assert.isTrue(requests(working, asks("shown", { preview: { command, cwd: "éé" } })))
    assert.isFalse(requests(working, asks("shown", { preview: { command, cwd: "ééé" } })))
  })

  it("ends with a message that is not read, once, and says why", () => {
    const refused = { _tag: "RefuseMessage", turnId: turn } as const
    const events = decided(working, refused)
    assert.deepStrictEqual(events.map(({ type }) => type), ["sandbox.error", "turn.completed"])
    assert.deepStrictEqual([toldOf(events), endOf(events)], [MESSAGE, [end]])
    assert.deepStrictEqual(decided(evolveAll(working, events, createdAt), refused), [])
    assert.deepStrictEqual(decided(working, { ...refused, turnId: "another" }), [])
  })

  it("that was asked for before turns were counted is bounded by its sandbox alone", () => {
    const { began: _, ...old } = working.turn ?? assert.fail("no turn")
    const sandbox = { ...having(TURN_EVENTS, TURN_BYTES), turn: old }
    assert.deepStrictEqual(endOf(decided(sandbox, works(says("more")))), [])
    const more = works(says("more"))
    for (const full of [{ lastSeq: SANDBOX_EVENTS - 1 }, { logBytes: SANDBOX_BYTES - sizeOf({ ...says("more"), turn_id: turn }) }]) {
      assert.deepStrictEqual(endOf(decided({ ...sandbox, ...full }, more)), [])
      assert.deepStrictEqual(endOf(decided(after({ ...sandbox, ...full }, more), more)), [end])
    }
  })

  it("counts from the message that asked for it", () => {
    const history = reach("idle")
    const before = history.sandbox
    history.person({ _tag: "Send", prompt: "And now?" })
    assert.deepStrictEqual(history.sandbox.turn?.began, { seq: before.lastSeq, bytes: before.logBytes })
  })
})

describe("a sandbox that has recorded all it may", () => {
  const pending = reach("pending").sandbox
  const start = { _tag: "StartTurn", turnId: turn } as const
  const started = sizeOf(decided(pending, start)[0] ?? assert.fail())

  it("gives an agent each turn in which one event may be recorded", () => {
    for (const room of [{ lastSeq: SANDBOX_EVENTS - 2 }, { logBytes: SANDBOX_BYTES - started - 1 }]) {
      assert.deepStrictEqual(decided({ ...pending, ...room }, start).map(({ type }) => type), ["turn.started"])
    }
  })

  it.each([{ lastSeq: SANDBOX_EVENTS - 1 }, { logBytes: SANDBOX_BYTES - started }])(
    "ends each turn before an agent gets it, and says that another one is needed (%j)",
    (bound) => {
      const full = { ...pending, ...bound }
      const events = decided(full, start)
      assert.deepStrictEqual(events.map(({ type }) => type), ["turn.started", "sandbox.error", "turn.completed"])
      assert.deepStrictEqual([toldOf(events), endOf(events)], [SANDBOX, [end]])
      const ended = evolveAll(full, events, createdAt)
      assert.strictEqual(ended.status, "running")
      assert.include(ended.error ?? "", "Create another one")
      const later = DateTime.add(createdAt, { minutes: 1 })
      assert.isTrue(Result.isSuccess(decide({ ...ended, idleSince: later }, { _tag: "Expire" }, { limits, now: later })))
    }
  )
})
