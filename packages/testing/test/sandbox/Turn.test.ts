import { assert, describe, it } from "@effect/vitest"
import { decide, type SystemCommand } from "@slipway/domain/sandbox/rules/SystemCommand"
import { isActive, turnTransitions } from "@slipway/domain/sandbox/rules/Turn"
import { TurnOutcome, TurnState } from "@slipway/domain/sandbox/schema/Turn"
import {
  type Asked,
  createdAt,
  creation,
  given,
  type History,
  inquiry,
  isAsked,
  limits,
  reach,
  REPLY,
  request,
  type Scene
} from "@slipway/testing/histories/Histories"
import * as DateTime from "effect/DateTime"
import * as Result from "effect/Result"

const turn = reach("working").turn
const end = (state: "succeeded" | "failed" | "interrupted" | "cancelled"): SystemCommand => ({ _tag: "EndTurn", turnId: turn, state })
const lost: SystemCommand = { _tag: "Fail", reason: "agent_lost", error: "E.", retryable: false }
const approve: Asked = { _tag: "Decide", approvalId: "call-1", decision: "approve" }

const does = (history: History, command: SystemCommand | Asked) => isAsked(command) ? history.person(command) : history.system(command)

/** Decisions 2.2, for every state of a turn: where it goes; `null`: nothing happens; `refused`. */
const table: ReadonlyArray<readonly [string, SystemCommand | Asked, Partial<Record<Scene, TurnState | null | "refused">>]> = [
  ["the agent takes the prompt", { _tag: "StartTurn", turnId: turn }, {
    pending: "running",
    working: null,
    asking: null,
    inquiring: null,
    interrupting: null,
    idle: "refused",
    stuck: "refused",
    terminating: "refused"
  }],
  ["an approval is requested", request(turn, "call-2"), {
    pending: "refused",
    working: "awaiting_approval",
    asking: "awaiting_approval",
    inquiring: "awaiting_approval",
    interrupting: "running",
    idle: "refused",
    stuck: "refused",
    terminating: "refused"
  }],
  ["the last approval is resolved", approve, { asking: "running" }],
  ["a question is asked", inquiry(turn, "question-2"), {
    pending: "refused",
    working: "awaiting_answer",
    asking: "awaiting_approval",
    inquiring: "awaiting_answer",
    interrupting: "running",
    idle: "refused",
    stuck: "refused",
    terminating: "refused"
  }],
  ["the last question is answered", { _tag: "Answer", questionId: "question-1", reply: REPLY }, { inquiring: "running" }],
  ["the agent succeeds", end("succeeded"), {
    pending: "cancelled",
    working: "succeeded",
    asking: "succeeded",
    inquiring: "succeeded",
    interrupting: "succeeded",
    idle: null,
    stuck: null,
    terminating: "succeeded"
  }],
  ["the agent fails", end("failed"), {
    pending: "cancelled",
    working: "failed",
    asking: "failed",
    inquiring: "failed",
    interrupting: "failed",
    idle: null,
    stuck: null,
    terminating: "failed"
  }],
  ["the agent stops as asked", end("interrupted"), {
    pending: "cancelled",
    working: "interrupted",
    asking: "interrupted",
    inquiring: "interrupted",
    interrupting: "interrupted",
    idle: null,
    stuck: null,
    terminating: "interrupted"
  }],
  ["it is cancelled", end("cancelled"), {
    pending: "cancelled",
    working: "interrupted",
    asking: "interrupted",
    inquiring: "interrupted",
    interrupting: "interrupted",
    idle: null,
    stuck: null,
    terminating: "interrupted"
  }],
  ["the agent is lost", lost, {
    pending: "cancelled",
    working: "failed",
    asking: "failed",
    inquiring: "failed",
    interrupting: "failed",
    idle: "succeeded",
    stuck: "failed"
  }],
  ["an interrupt", { _tag: "Interrupt" }, {
    pending: "cancelled",
    working: "running",
    asking: "running",
    inquiring: "running",
    interrupting: null,
    idle: null,
    stuck: null
  }],
  ["the host has released everything", { _tag: "Release" }, { terminating: "interrupted" }]
]

describe("turns", () => {
  it("have the states and outcomes of docs/decisions/2.2", () => {
    assert.deepStrictEqual(TurnState.literals, ["pending", "running", "awaiting_approval", "awaiting_answer", "succeeded", "failed",
      "interrupted", "cancelled"])
    assert.deepStrictEqual(TurnOutcome.literals, ["succeeded", "failed", "interrupted", "cancelled"])
  })

  it("the steps are those of docs/decisions/2.2, and an ended turn never starts again", () => {
    assert.deepStrictEqual(turnTransitions.pending, ["running", "cancelled"])
    const running = ["awaiting_answer", "awaiting_approval", "failed", "interrupted", "running", "succeeded"]
    assert.deepStrictEqual([...turnTransitions.running].sort(), running)
    assert.deepStrictEqual([...turnTransitions.awaiting_approval].sort(), running)
    assert.deepStrictEqual([...turnTransitions.awaiting_answer].sort(), running)
    for (const state of ["succeeded", "failed", "interrupted", "cancelled"] as const) assert.deepStrictEqual(turnTransitions[state], [])
  })

  it("pending, running, awaiting_approval and awaiting_answer are active; before running there is none", () => {
    const { sandbox } = reach("working")
    const active = TurnState.literals.filter((state) => sandbox.turn !== null && isActive({ ...sandbox.turn, state }))
    assert.deepStrictEqual(active, ["pending", "running", "awaiting_approval", "awaiting_answer"])
    assert.isFalse(isActive(null))
    for (const scene of ["queued", "creating", "failed"] as const) assert.isNull(reach(scene).sandbox.turn)
  })

  for (const [what, command, effects] of table) {
    for (const [scene, effect] of Object.entries(effects) as Array<[Scene, TurnState | null | "refused"]>) {
      it(`${what}, ${scene}: ${effect ?? "nothing"}`, () => {
        const history = reach(scene)
        const moment = does(history, command)
        if (effect === "refused") return assert.strictEqual(moment.refused, "IllegalTransition")
        assert.isNull(moment.refused)
        if (effect === null) return assert.deepStrictEqual(moment.events, [])
        assert.isAbove(moment.events.length, 0)
        assert.strictEqual(moment.after.turn?.state, effect)
      })
    }
  }

  it("a turn that starts shows its prompt and author, and remembers when", () => {
    const history = reach("pending").wait("3 minutes")
    const { after, events } = history.system({ _tag: "StartTurn", turnId: turn })
    assert.deepStrictEqual(events, [{
      type: "turn.started",
      turn_id: turn,
      data: { prompt_id: turn, text: creation.prompt, files: [], author: { id: creation.createdBy } }
    }])
    assert.deepStrictEqual(after.turn?.startedAt, DateTime.add(createdAt, { minutes: 3 }))
  })

  it("a turn ending never changes the status", () => {
    for (const state of ["succeeded", "failed", "interrupted"] as const) {
      const data = { state, reason: "Because.", initiator: "provider" } as const
      given("working").when({ _tag: "EndTurn", turnId: turn, ...data }).then([{ type: "turn.completed", turn_id: turn, data }])
    }
  })

  it("a turn that ends without a reason tells none", () => {
    given("working").when(end("succeeded")).then([{ type: "turn.completed", turn_id: turn, data: { state: "succeeded" } }])
  })

  it("none can be started where there is none", () => {
    const refused = decide({ ...reach("idle").sandbox, turn: null }, { _tag: "StartTurn", turnId: turn }, { limits, now: createdAt })
    assert.isTrue(Result.isFailure(refused) && refused.failure._tag === "IllegalTransition")
  })

  it("work of another turn and work after the end is dropped", () => {
    const events = [{ type: "message.completed", data: { message_id: "m", finish: "end_turn" } }] as const
    const recorded = (scene: Scene, turnId: string) => given(scene).when({ _tag: "RecordWork", turnId, events })
    for (const scene of ["working", "asking"] as const) recorded(scene, turn).then([{ ...events[0], turn_id: turn }])
    recorded("working", "another").then([])
    for (const scene of ["queued", "pending", "idle", "stuck", "succeeded", "terminated"] as const) recorded(scene, turn).then([])
  })

  it("a command about another turn changes nothing", () => {
    given("working").when({ _tag: "EndTurn", turnId: "another", state: "failed" }).then([])
    given("working").when({ _tag: "StartTurn", turnId: "another" }).then("IllegalTransition")
    given("working").when(request("another", "call-1")).then("IllegalTransition")
  })

  it("what ends with the sandbox says why", () => {
    const released = reach("terminating").system({ _tag: "Release" })
    assert.deepStrictEqual(released.events[0], {
      type: "turn.completed",
      turn_id: turn,
      data: { state: "interrupted", reason: "terminated", initiator: "user" }
    })
    const refused = reach("terminating").wait(limits.release).system({ _tag: "Expire" })
    assert.deepStrictEqual(refused.events[0], released.events[0])
    const early = reach("pending")
    early.person({ _tag: "Terminate" })
    assert.deepStrictEqual(early.system({ _tag: "Release" }).events[0], {
      type: "turn.completed",
      turn_id: turn,
      data: { state: "cancelled", reason: "terminated", initiator: "user" }
    })
  })
})

describe("approvals", () => {
  const expiresAt = DateTime.addDuration(createdAt, limits.approval)

  it("a request shows what it is about and when it expires, and the turn waits", () => {
    const { after, events } = reach("working").system(request(turn, "call-1"))
    const data = { approval_id: "call-1", tool: "write", kind: "edit", paths: ["a.txt"], plain: true, expires_at: expiresAt } as const
    assert.deepStrictEqual(events, [
      { type: "approval.requested", turn_id: turn, data },
      { type: "turn.updated", turn_id: turn, data: { state: "awaiting_approval", previous: "running" } }
    ])
    assert.deepStrictEqual(after.approvals, [data])
  })

  it("a request that comes twice is one request", () => {
    given("asking").when(request(turn, "call-1")).then([])
  })

  it("the turn goes on only when the last of several is resolved", () => {
    const decided = (approval_id: string, outcome: "approved" | "denied") =>
      ({ type: "approval.resolved", turn_id: turn, data: { approval_id, outcome, by: "user" } }) as const
    const deny: Asked = { _tag: "Decide", approvalId: "call-2", decision: "deny" }
    given("asking").when(request(turn, "call-2"), deny).then([decided("call-2", "denied")])
    given("asking").when(request(turn, "call-2"), deny, approve).then([
      decided("call-1", "approved"),
      { type: "turn.updated", turn_id: turn, data: { state: "running", previous: "awaiting_approval" } }
    ])
  })

  it("an approval that is requested while the turn is being interrupted is denied at once", () => {
    const { after, events } = reach("interrupting").system(request(turn, "call-1"))
    assert.strictEqual(events[0]?.type, "approval.requested")
    assert.deepStrictEqual<ReadonlyArray<object>>(events.slice(1), [
      { type: "approval.resolved", turn_id: turn, data: { approval_id: "call-1", outcome: "denied", by: "interrupt" } }
    ])
    assert.deepStrictEqual([after.approvals, after.turn?.state], [[], "running"])
  })

  it.each<readonly [string, (history: History) => unknown, string]>([
    ["interrupt", (history) => history.person({ _tag: "Interrupt" }), "interrupt"],
    ["terminate", (history) => history.person({ _tag: "Terminate" }), "terminate"],
    ["the end of the turn", (history) => history.system(end("succeeded")), "turn_end"],
    ["the loss of the agent", (history) => history.system(lost), "turn_end"],
    ["time", (history) => history.wait(limits.approval).system({ _tag: "Expire" }), "timeout"]
  ])("%s denies every pending one, oldest first", (_, act, by) => {
    const history = reach("asking")
    history.system(request(turn, "call-2"))
    act(history)
    const resolved = history.moments.at(-1)?.events.filter(({ type }) => type === "approval.resolved")
    assert.deepStrictEqual<ReadonlyArray<object> | undefined>(
      resolved?.map(({ data }) => data),
      ["call-1", "call-2"].map((approval_id) => ({ approval_id, outcome: "denied", by }))
    )
    assert.deepStrictEqual(history.sandbox.approvals, [])
    assert.notStrictEqual(history.sandbox.turn?.state, "awaiting_approval")
  })
})
