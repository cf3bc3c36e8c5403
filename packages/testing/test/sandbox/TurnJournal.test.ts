import { assert, describe, it } from "@effect/vitest"
import { NAMESPACE, type Uuid } from "@slipway/domain/ids/Ids"
import { addUsage, noUsage } from "@slipway/domain/models/rules/Usage"
import type { AgentEvent } from "@slipway/domain/sandbox/ports/AgentRuntime"
import type { BoxLimit } from "@slipway/domain/sandbox/rules/BoxLimit"
import { partId } from "@slipway/domain/sandbox/rules/SandboxEvent"
import type { SystemCommand } from "@slipway/domain/sandbox/rules/SystemCommand"
import * as TurnJournal from "@slipway/domain/sandbox/rules/TurnJournal"
import { arbitrary } from "@slipway/testing/histories/Arbitraries"
import { thorough } from "@slipway/testing/histories/Histories"
import * as Arbitrary from "effect/Arbitrary"
import * as Duration from "effect/Duration"
import * as Schema from "effect/Schema"

const turnId: Uuid = NAMESPACE
const MIB = 1024 * 1024
const MESSAGE = 250
const USAGE = 5000
const before = { llmRequestCount: 2, costMicroUsd: 30, creditsChargedMicros: 7 }
const counted = { input: 900, cachedInput: 300, output: 77 }
const options: TurnJournal.Options = {
  turnId,
  before: { usage: before, tokens: counted },
  intervals: { message: Duration.millis(MESSAGE), usage: Duration.millis(USAGE) },
  showsDetail: true
}
/** When the turns below begin that are of arbitrary events; the others do at 0. */
const START = 1000

const says = (messageId: string, text: string, kind: "text" | "reasoning" = "text"): AgentEvent => ({
  _tag: "MessageUpdated",
  messageId,
  kind,
  text
})
const calls = (callId: string, status: "pending" | "running" | "completed" | "error"): AgentEvent => ({
  _tag: "ToolUpdated",
  callId,
  tool: "shell",
  status
})
const asks: AgentEvent = { _tag: "ApprovalRequested", approvalId: "1", tool: "edit", preview: { command: "rm a" } }
const spends = (costMicroUsd: number): AgentEvent => ({ _tag: "UsageReported", llmRequestCount: 1, costMicroUsd })

/** Keeps one journal, as a worker does that writes in no time. */
const keep = (changes: Partial<TurnJournal.Options> = {}) => {
  let journal = TurnJournal.begin({ ...options, ...changes }, 0)
  return {
    add: (...events: ReadonlyArray<AgentEvent>) => {
      for (const event of events) journal = TurnJournal.add(journal, event)
    },
    meter: (llmRequestCount: number, costMicroUsd: number, tokens = counted) => {
      journal = TurnJournal.meter(journal, { usage: { ...before, llmRequestCount, costMicroUsd }, tokens })
    },
    meet: (limit: BoxLimit) => {
      journal = TurnJournal.meet(journal, limit)
    },
    end: (ending: TurnJournal.Ending) => {
      journal = TurnJournal.end(journal, ending)
    },
    /** Takes the entries recorded `after` milliseconds from the turn's beginning. */
    take: (after: number) => {
      const taking = TurnJournal.take(journal, after)
      journal = taking.journal
      return taking.commands
    },
    nextDue: (after: number) => TurnJournal.take(journal, after).nextDue,
    isFull: () => TurnJournal.isFull(journal),
    isFinished: () => TurnJournal.isFinished(journal)
  }
}

/** A line for each thing that is recorded. */
const told = (commands: ReadonlyArray<SystemCommand>): ReadonlyArray<string> =>
  commands.flatMap((command) => {
    if (command._tag === "ReportUsage") return [`usage ${command.usage.llmRequestCount} ${command.usage.costMicroUsd}`]
    if (command._tag === "RequestApproval") return [`asks ${command.approval.approval_id}`]
    if (command._tag === "EndTurn") return [command.state]
    if (command._tag !== "RecordWork") return [command._tag]
    return command.events.map((event) => {
      switch (event.type) {
        case "message.updated":
          return `${event.data.part_id} ${event.data.text}`
        case "tool.updated":
          return `${event.data.part_id} ${event.data.status}`
        case "plan.updated":
          return `${event.data.part_id} ${event.data.entries.map(({ text }) => text).join()}`
        case "message.completed":
          return `${event.data.message_id} ${event.data.finish}`
      }
    })
  })

describe("what is recorded of a turn", () => {
  it("names each part after its message or call, and all calls of a turn as of one message", () => {
    const journal = keep()
    journal.add(says("m", "Hm", "reasoning"), says("m", "Hi"), calls("c", "pending"))
    const data = journal.take(0).flatMap((command) => command._tag === "RecordWork" ? command.events.map((event) => event.data) : [])
    assert.deepStrictEqual(data, [
      { part_id: "m:thought", message_id: "m", kind: "reasoning", text: "Hm" },
      { part_id: "m:text", message_id: "m", kind: "text", text: "Hi" },
      { part_id: "tool:c", message_id: `turn-tools:${turnId}`, call_id: "c", tool: "shell", status: "pending" }
    ])
  })

  it("has what calls do and write only where it is shown", () => {
    const detail = { command: "cat b" }
    const does: AgentEvent = { _tag: "ToolUpdated", callId: "c", tool: "shell", status: "running", detail }
    for (const showsDetail of [true, false]) {
      const journal = keep({ showsDetail })
      journal.add(does, asks)
      const json = JSON.stringify(journal.take(0))
      assert.deepStrictEqual([json.includes("cat b"), json.includes("rm a")], [showsDetail, showsDetail])
    }
  })
})

describe("a text", () => {
  it("is recorded at once, then with its newest words, 250 ms after it was", () => {
    const journal = keep()
    journal.add(says("m", "I"))
    assert.deepStrictEqual(told(journal.take(10)), ["m:text I"])
    journal.add(spends(1), says("m", "I lo"), says("m", "I look"))
    assert.strictEqual(journal.nextDue(20), 260)
    assert.deepStrictEqual(told(journal.take(259)), [])
    assert.deepStrictEqual(told(journal.take(260)), ["m:text I look"])
    journal.add(says("m", "I look on"))
    assert.strictEqual(journal.nextDue(400), 510)
  })

  it("waits a millisecond for each 16 characters where that is longer", () => {
    const journal = keep()
    journal.add(says("m", "I"))
    journal.take(0)
    journal.add(says("m", "x".repeat(8000)))
    assert.strictEqual(journal.nextDue(0), 500)
  })

  it("goes first, and at once, when another text or a call begins", () => {
    for (const [next, line] of [[says("n", "And"), "n:text And"], [calls("c", "pending"), "tool:c pending"]] as const) {
      const journal = keep()
      journal.add(says("m", "I"))
      journal.take(0)
      journal.add(says("m", "I look"), next)
      assert.deepStrictEqual(told(journal.take(1)), ["m:text I look", line])
    }
  })

  it("does not go for an approval or for usage", () => {
    const journal = keep()
    journal.add(says("m", "I"))
    journal.take(0)
    journal.add(says("m", "I look"), asks, spends(1))
    assert.deepStrictEqual(journal.take(1), [
      { _tag: "RequestApproval", turnId, approval: { approval_id: "1", tool: "edit", preview: { command: "rm a" } } }
    ])
    assert.strictEqual(journal.nextDue(1), MESSAGE)
  })
})

it("a plan is recorded at once, then its newest state 250 ms after it was, whatever else begins, and at the end of the turn", () => {
  const plans = (text: string): AgentEvent => ({ _tag: "PlanUpdated", entries: [{ text, status: "pending" }] })
  const journal = keep()
  journal.add(plans("a"))
  assert.deepStrictEqual(told(journal.take(0)), [`plan:${turnId} a`])
  journal.add(plans("b"), calls("c", "pending"), plans("d"))
  assert.deepStrictEqual(told(journal.take(MESSAGE - 1)), ["tool:c pending"])
  assert.deepStrictEqual(told(journal.take(MESSAGE)), [`plan:${turnId} d`])
  journal.add(plans("e"))
  journal.end({ state: "succeeded" })
  assert.deepStrictEqual(told(journal.take(MESSAGE)), [`plan:${turnId} e`, "tool:c error", "succeeded"])
})

it("a call keeps the call that it is of, also when it is closed with the turn", () => {
  const journal = keep()
  journal.add(calls("a", "pending"), { _tag: "ToolUpdated", callId: "b", parentCallId: "a", tool: "shell", status: "pending" })
  journal.end({ state: "succeeded" })
  const data = journal.take(0).flatMap((command) => command._tag === "RecordWork" ? command.events.map((event) => event.data) : [])
  const parents = data.flatMap((one) => "call_id" in one ? [[one.call_id, one.status, one.parent_call_id ?? null]] : [])
  assert.deepStrictEqual(parents, [["a", "pending", null], ["b", "pending", "a"], ["a", "error", null], ["b", "error", "a"]])
})

describe("usage", () => {
  it("is told with its tokens once it is metered, also when only these are more, and without them as the agent tells it", () => {
    const journal = keep()
    journal.meter(2, 30)
    assert.strictEqual(journal.nextDue(0), null)
    const tokens = { ...counted, output: 78 }
    journal.meter(2, 30, tokens)
    assert.deepStrictEqual(journal.take(USAGE), [{ _tag: "ReportUsage", usage: before, tokens }])
    for (const [i, name] of (["input", "cachedInput"] as const).entries()) {
      journal.meter(2, 30, { ...tokens, [name]: 901 })
      assert.strictEqual(journal.take((i + 2) * USAGE).length, 1, name)
    }
    const unmetered = keep()
    unmetered.add(spends(1))
    assert.notProperty(unmetered.take(USAGE)[0], "tokens")
  })

  it("is reported 5 s after the turn began, with what was used before it, and by the agent only until it is metered", () => {
    const journal = keep()
    journal.add(spends(1), says("m", "I"), spends(2))
    const metered = keep()
    metered.meter(2, 30)
    assert.strictEqual(metered.nextDue(0), null)
    assert.strictEqual(journal.nextDue(0), USAGE)
    journal.take(0)
    assert.deepStrictEqual(journal.take(USAGE), [
      { _tag: "ReportUsage", usage: { llmRequestCount: 3, costMicroUsd: 32, creditsChargedMicros: 7 } }
    ])
    journal.meter(3, 40)
    journal.add(spends(3))
    assert.deepStrictEqual(told(journal.take(2 * USAGE)), ["usage 3 40"])
    journal.meter(3, 40)
    assert.strictEqual(journal.nextDue(2 * USAGE), null)
    journal.meter(4, 40)
    assert.deepStrictEqual(told(journal.take(3 * USAGE)), ["usage 4 40"])
    journal.meter(4, 50)
    assert.deepStrictEqual(told(journal.take(4 * USAGE)), ["usage 4 50"])
    const corrected = keep()
    corrected.add(spends(1))
    corrected.meter(2, 30)
    assert.deepStrictEqual(told(corrected.take(USAGE)), ["usage 2 30"])
    const later = TurnJournal.add(TurnJournal.begin(options, START), spends(1))
    assert.strictEqual(TurnJournal.take(later, START).nextDue, START + USAGE)
  })
})

it("a limit of the box is recorded at once, and not after the turn", () => {
  const journal = keep()
  journal.meet("out_of_memory")
  assert.deepStrictEqual(journal.take(0), [{ _tag: "ReportBoxLimit", turnId, limit: "out_of_memory" }])
  journal.end({ state: "failed" })
  journal.meet("too_many_processes")
  assert.deepStrictEqual(told(journal.take(0)), ["failed"])
})

describe("the end of a turn", () => {
  it("closes what is open in the order it was opened, completes the last message, and makes all of it due", () => {
    const journal = keep()
    assert.isFalse(journal.isFinished())
    journal.add(says("m", "I"), calls("1", "pending"), calls("2", "pending"), calls("3", "running"), calls("1", "running"), spends(1))
    journal.add(calls("2", "completed"), calls("2", "pending"), says("n", "And"))
    journal.take(0)
    journal.add(says("n", "And so"))
    journal.end({ state: "succeeded" })
    assert.isFalse(journal.isFinished())
    assert.deepStrictEqual(told(journal.take(0)), [
      "usage 3 31",
      "n:text And so",
      "tool:1 error",
      "tool:3 error",
      "tool:2 error",
      "n end_turn",
      "succeeded"
    ])
    assert.isTrue(journal.isFinished())
    journal.add(says("n", "And so on"), calls("4", "pending"))
    journal.meter(9, 90)
    assert.isTrue(journal.isFinished())
  })

  it("says how and why the turn ended, and of a message that is not read only that", () => {
    const ended = (ending: TurnJournal.Ending) => {
      const journal = keep()
      journal.add(calls("c", "running"), says("m", "I"))
      journal.take(0)
      journal.end(ending)
      return journal.take(0)
    }
    const why = { state: "failed", reason: "agent_lost", initiator: "provider" } as const
    assert.deepStrictEqual(ended({ ...why, finish: "max_tokens" }), [
      {
        _tag: "RecordWork",
        turnId,
        events: [{
          type: "tool.updated",
          data: {
            part_id: "tool:c",
            message_id: `turn-tools:${turnId}`,
            call_id: "c",
            tool: "shell",
            status: "error",
            error: "the turn ended first"
          }
        }]
      },
      { _tag: "RecordWork", turnId, events: [{ type: "message.completed", data: { message_id: "m", finish: "max_tokens" } }] },
      { _tag: "EndTurn", turnId, ...why }
    ])
    const refused = ended({ state: "failed", tooLarge: true })
    assert.deepStrictEqual(told(refused), ["tool:c error", "m error", "RefuseMessage"])
    assert.deepStrictEqual(refused.at(-1), { _tag: "RefuseMessage", turnId })
    const silent = keep()
    silent.end({ state: "interrupted" })
    assert.deepStrictEqual(told(silent.take(0)), ["interrupted"])
  })
})

describe("a journal that no worker takes from", () => {
  it("is full with 256 entries, or a MiB of them, which goes into a transaction by itself", () => {
    const many = keep()
    for (let i = 1; i <= 255; i++) many.add(calls(`${i}`, "completed"))
    assert.isFalse(many.isFull())
    many.add(calls("256", "completed"))
    assert.isTrue(many.isFull())
    assert.strictEqual(many.take(0).length, 256)
    assert.isFalse(many.isFull())

    const large = keep()
    large.add(says("m", "x".repeat(MIB)))
    assert.isTrue(large.isFull())
    large.add(says("m", "x".repeat(MIB - 1)))
    assert.isFalse(large.isFull())
    large.add(says("m", "x".repeat(MIB)), calls("c", "pending"), calls("c", "running"))
    assert.strictEqual(large.nextDue(0), 0)
    assert.strictEqual(large.take(0).length, 1)
    assert.isFalse(large.isFull())
    assert.deepStrictEqual(told(large.take(0)), ["tool:c pending", "tool:c running"])
  })
})

// ---------------------------------------------------------------------------------------------------------------
// Whatever an agent does

/** One of few, so that events meet. */
const few = (id: string) => `${id.length % 3}`

/** The agent's action after some milliseconds. A `busy` worker takes nothing meanwhile. */
interface Step {
  readonly event: AgentEvent
  readonly wait: number
  readonly busy: boolean
}

const steps: Arbitrary.Arbitrary<ReadonlyArray<Step>> = Arbitrary.map(
  Arbitrary.array(
    Arbitrary.all({
      event: arbitrary("AgentEvent"),
      wait: Arbitrary.schema(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 400 }))),
      busy: Arbitrary.schema(Schema.Boolean)
    }),
    { maxLength: 40 }
  ),
  (arbitraries) =>
    arbitraries.map(({ event, ...step }, index) => {
      switch (event._tag) {
        case "MessageUpdated":
          return { ...step, event: { ...event, messageId: few(event.messageId), text: `${index}` } }
        case "ToolUpdated":
          return { ...step, event: { ...event, callId: few(event.callId), tool: `${index}` } }
        case "ApprovalRequested":
          return { ...step, event: { ...event, approvalId: `${index}` } }
        case "QuestionAsked":
          return { ...step, event: { ...event, questionId: `${index}` } }
        case "MessageSteered":
          return { ...step, event: { ...event, messageId: `${index}` } }
        case "PlanUpdated":
          return { ...step, event: { ...event, entries: [{ text: `${index}`, status: "pending" }] } }
        case "UsageReported":
          return { ...step, event }
      }
    })
)

/** A recorded entry with its time. `of`: its part, approval or steering message. */
interface Line {
  readonly of: string
  readonly at: number
  readonly value: unknown
}

const linesOf = (commands: ReadonlyArray<SystemCommand>, at: number): ReadonlyArray<Line> =>
  commands.flatMap((command): ReadonlyArray<Line> => {
    if (command._tag === "ReportUsage") return [{ of: partId.usage, at, value: command.usage }]
    if (command._tag === "RequestApproval") return [{ of: `approval ${command.approval.approval_id}`, at, value: command.approval }]
    if (command._tag === "AskQuestion") return [{ of: `question ${command.question.question_id}`, at, value: command.question }]
    if (command._tag === "RecordSteer") return [{ of: `steer ${command.messageId}`, at, value: command }]
    if (command._tag !== "RecordWork") return [{ of: "end", at, value: command }]
    return command.events.map((event) => ({ of: event.type === "message.completed" ? "whole" : event.data.part_id, at, value: event.data }))
  })

/** The entry of a journal without intervals, except for the end: each event immediately. */
const unthrottled = (event: AgentEvent): Line => {
  const at = 0
  switch (event._tag) {
    case "MessageUpdated": {
      const { kind, messageId: message_id, text } = event
      const part_id = partId[kind](message_id)
      return { of: part_id, at, value: { part_id, message_id, kind, text } }
    }
    case "ToolUpdated": {
      const { _tag, callId: call_id, parentCallId, ...rest } = event
      const part_id = partId.tool(call_id)
      const parent = parentCallId === undefined ? {} : { parent_call_id: parentCallId }
      return { of: part_id, at, value: { part_id, message_id: partId.toolsOf(turnId), call_id, ...rest, ...parent } }
    }
    case "PlanUpdated": {
      const part_id = partId.plan(turnId)
      return { of: part_id, at, value: { part_id, entries: event.entries } }
    }
    case "ApprovalRequested": {
      const { _tag, approvalId: approval_id, ...rest } = event
      return { of: `approval ${approval_id}`, at, value: { approval_id, ...rest } }
    }
    case "QuestionAsked":
      return { of: `question ${event.questionId}`, at, value: { question_id: event.questionId, questions: event.questions } }
    case "MessageSteered":
      return { of: `steer ${event.messageId}`, at, value: { _tag: "RecordSteer", turnId, messageId: event.messageId } }
    case "UsageReported": {
      const { _tag, ...used } = event
      return { of: partId.usage, at, value: addUsage(before, { ...noUsage, ...used }) }
    }
  }
}

/** All entries of such a journal. */
const expected = (plan: ReadonlyArray<Step>): ReadonlyArray<Line> => {
  const lines: Array<Line> = []
  const open = new Map<string, Extract<AgentEvent, { _tag: "ToolUpdated" }>>()
  let message: string | null = null
  for (const { event } of plan) {
    lines.push(unthrottled(event))
    if (event._tag === "MessageUpdated") message = event.messageId
    if (event._tag !== "ToolUpdated") continue
    if (event.status === "completed" || event.status === "error") open.delete(event.callId)
    else open.set(event.callId, event)
  }
  for (const call of open.values()) lines.push(unthrottled({ ...call, status: "error", error: "the turn ended first" }))
  if (message !== null) lines.push({ of: "whole", at: 0, value: { message_id: message, finish: "end_turn" } })
  return [...lines, { of: "end", at: 0, value: { _tag: "EndTurn", turnId, state: "succeeded" } }]
}

/** Each part once, in the order in which they began, as it is in the end; and what the sandbox used, which is told when its time comes. */
const folded = (lines: ReadonlyArray<Line>) => {
  const parts = new Map(lines.map(({ of, value }) => [of, value]))
  const usage = parts.get(partId.usage)
  parts.delete(partId.usage)
  return { parts: Array.from(parts), usage }
}

const ofCalls = (lines: ReadonlyArray<Line>) => lines.filter(({ of }) => of.startsWith("tool:")).map(({ value }) => value)

/** Plays a turn to its end with a worker that takes whenever the journal wants it, unless it is busy. */
const run = (plan: ReadonlyArray<Step>) => {
  let journal = TurnJournal.begin(options, START)
  let now = START
  const lines: Array<Line> = []
  /** Recorded sooner than they may be, although neither anything else had begun nor the turn had ended. */
  const tooSoon: Array<Line> = []
  const last = new Map<string, number>([[partId.usage, START]])
  const waiting = new Set<string>()
  const whole = new Set<string>()
  const take = () => {
    const { commands, journal: left, nextDue } = TurnJournal.take(journal, now)
    journal = left
    for (const line of linesOf(commands, now)) {
      const { of } = line
      const pause = of === partId.usage ? USAGE : waiting.delete(of) ? MESSAGE : 0
      const isLast = whole.delete(of) || journal.ended
      if (!isLast && now - (last.get(of) ?? Number.NEGATIVE_INFINITY) < pause) tooSoon.push(line)
      last.set(of, now)
      lines.push(line)
    }
    return nextDue
  }
  for (const { busy, event, wait } of plan) {
    const until = now + wait
    if (!busy) {
      for (let next = take(); next !== null && next <= until; next = take()) {
        assert.isAbove(next, now)
        assert.deepStrictEqual(TurnJournal.take(journal, next - 1).commands, [])
        now = next
      }
    }
    now = until
    journal = TurnJournal.add(journal, event)
    if (event._tag !== "ApprovalRequested" && event._tag !== "PlanUpdated" && event._tag !== "UsageReported") {
      const { of } = unthrottled(event)
      for (const part of waiting) if (part !== of) whole.add(part)
      if (event._tag === "MessageUpdated") waiting.add(of)
    }
    if (event._tag === "PlanUpdated") waiting.add(partId.plan(turnId))
    if (!busy) take()
  }
  journal = TurnJournal.end(journal, { state: "succeeded" })
  take()
  return { journal, lines, tooSoon }
}

describe("whatever an agent does, and however busy the worker is", () => {
  it.prop("what is recorded comes to what a journal would record that waits for nothing, parts in their order", [steps], ([plan]) => {
    const { journal, lines } = run(plan)
    assert.deepStrictEqual(folded(lines), folded(expected(plan)))
    assert.isTrue(TurnJournal.isFinished(journal))
    assert.strictEqual(journal.characters, 0)
  }, thorough)

  it.prop("every update of a call is recorded, in order, and none is open after the end", [steps], ([plan]) => {
    const { lines } = run(plan)
    assert.deepStrictEqual(ofCalls(lines), ofCalls(expected(plan)))
    for (const [part, value] of folded(lines).parts) {
      if (part.startsWith("tool:")) assert.include(["completed", "error"], (value as { readonly status: string }).status)
    }
  }, thorough)

  it.prop("what was said before a call, or before what steers was taken, is recorded before it", [steps], ([plan]) => {
    const said = new Map<string, number>()
    for (const { of, value } of run(plan).lines) {
      const data = value as { readonly text?: string; readonly tool?: string; readonly messageId?: string }
      if (data.text !== undefined) said.set(of, Number(data.text))
      if (!of.startsWith("tool:") && !of.startsWith("steer ")) continue
      for (const { event } of plan.slice(0, Number(data.tool ?? data.messageId))) {
        if (event._tag === "MessageUpdated") assert.isAtLeast(said.get(unthrottled(event).of) ?? -1, Number(event.text))
      }
    }
  }, thorough)

  it.prop("no part is updated twice within its interval, but for its last text", [steps], ([plan]) => {
    assert.deepStrictEqual(run(plan).tooSoon, [])
  }, thorough)
})
