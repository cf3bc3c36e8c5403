import { assert, describe, it } from "@effect/vitest"
import { worktreeId } from "@slipway/domain/ids/SandboxId"
import { CheckpointNotFound } from "@slipway/domain/sandbox/ports/Checkpoints"
import {
  ApprovalNotFound,
  decideApproval,
  interrupt as interruption,
  rename as renaming,
  restore as restoration,
  SandboxNotRunning,
  sendMessage,
  terminate as termination,
  TurnActive
} from "@slipway/domain/sandbox/rules/Command"
import type { SandboxEvent, StatusReason } from "@slipway/domain/sandbox/rules/SandboxEvent"
import { turnId } from "@slipway/domain/sandbox/rules/Turn"
import { CommandResult, Prompt, Rejection, Title } from "@slipway/domain/sandbox/schema/Command"
import { creation, decider, type History, ids, limits, reach, recordCheckpoint, request, Scene } from "@slipway/testing/histories/Histories"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"

const { id } = creation
const turn = `${id}/turn/1`
const over: ReadonlyArray<Scene> = ["succeeded", "failed", "terminating", "terminated"]
const typesOf = (events: ReadonlyArray<SandboxEvent>) => events.map(({ type }) => type)
const decide = (decision: "approve" | "deny", approvalId = "call-1") => ({ _tag: "Decide", approvalId, decision }) as const
const terminate = { _tag: "Terminate" } as const
const interrupt = { _tag: "Interrupt" } as const
const send = { _tag: "Send", prompt: "And now?" } as const

describe("names", () => {
  // Names, not UUIDs: `ids` of the histories shows what is derived.
  it("turn n, its prompt and the working trees are named after the sandbox", () => {
    assert.strictEqual(turnId(ids, id, 3), "c_abcdefgh2345/turn/3")
    assert.strictEqual(worktreeId(id), "w_abcdefgh2345")
  })

  it("a command's identity is the one of docs/decisions/3", () => {
    const named = (scene: Scene, asked: Parameters<History["person"]>[0]) => reach(scene).person(asked).result?.commandId
    assert.strictEqual(named("working", terminate), `${id}/terminate`)
    assert.strictEqual(named("working", interrupt), `${id}/interrupt/${turn}`)
    assert.strictEqual(named("pending", interrupt), `${id}/interrupt/${turn}`)
    assert.strictEqual(named("queued", interrupt), `${id}/interrupt/none/1`)
    assert.strictEqual(named("idle", interrupt), `${id}/interrupt/none/${reach("idle").sandbox.revision}`)
    assert.strictEqual(named("asking", decide("approve")), `${id}/approval/call-1/approve`)
    assert.strictEqual(named("asking", decide("deny")), `${id}/approval/call-1/deny`)
    assert.strictEqual(named("idle", send), `${id}/message/2`)
  })
})

describe("a command", () => {
  it("names an approval only when it decides one", () => {
    const named = [termination(ids), interruption(ids), decideApproval(ids, "call-1", { decision: "deny" }, decider),
      sendMessage(ids, "P", "user-1"), restoration(ids, 1, true), renaming(ids, "T")]
    assert.deepStrictEqual(named.map(({ approvalId }) => approvalId), [null, null, "call-1", null, null, null])
  })

  it("that is refused says so in a sentence", () => {
    for (const error of [new ApprovalNotFound(), new CheckpointNotFound(), new SandboxNotRunning(), new TurnActive()]) {
      assert.match(error.message, /^[A-Z].*\.$/u)
    }
  })
})

describe("terminate", () => {
  it.each<Scene>(["queued", "creating", "pending", "working", "interrupting", "idle", "stuck", "succeeded", "failed"])(
    "is applied to a sandbox that is %s, and counts once",
    (scene) => {
      const { after, before, events, result } = reach(scene).person(terminate)
      const data = { status: "terminating", previous: before.status, reason: "terminated", initiator: "user" } as const
      // A queued sandbox has no data on any host, so it is released at once.
      const released = { ...data, status: "terminated", previous: "terminating" } as const
      const ends = scene === "queued" ? [data, released] : [data]
      assert.deepStrictEqual(events, ends.map((data) => ({ type: "sandbox.status", data })))
      assert.deepStrictEqual(result, { commandId: `${id}/terminate`, revision: before.revision + ends.length, outcome: "applied" })
      assert.strictEqual(after.revision, before.revision + ends.length)
    }
  )

  it("denies what waits for approval, in its own transaction", () => {
    const { after, before, events, result } = reach("asking").person(terminate)
    assert.deepStrictEqual(events, [
      { type: "approval.resolved", turn_id: turn, data: { approval_id: "call-1", outcome: "denied", by: "terminate" } },
      { type: "turn.updated", turn_id: turn, data: { state: "running", previous: "awaiting_approval" } },
      { type: "sandbox.status", data: { status: "terminating", previous: "running", reason: "terminated", initiator: "user" } }
    ])
    assert.strictEqual(result?.revision, before.revision + 3)
    assert.deepStrictEqual(after.approvals, [])
  })

  it("is a duplicate ever after, with the first answer", () => {
    const history = reach("working")
    const first = history.person(terminate).result
    assert.strictEqual(first?.outcome, "applied")
    const again = { ...first, outcome: "duplicate" }
    assert.deepStrictEqual<object | null>(history.person(terminate).result, again)
    history.system({ _tag: "Release" })
    assert.deepStrictEqual<object | null>(history.person(terminate).result, again)
    assert.deepStrictEqual(history.moments.at(-1)?.events, [])
  })

  it("is a duplicate also when the host refused to release", () => {
    const history = reach("terminating").wait(limits.release)
    history.system({ _tag: "Expire" })
    assert.strictEqual(history.sandbox.status, "failed")
    assert.strictEqual(history.person(terminate).result?.outcome, "duplicate")
  })

  it("is applied to a sandbox that time or a revoked grant already ends, and changes nothing of it", () => {
    const history = reach("working")
    history.system({ _tag: "RevokeGrant" })
    const ending = history.person(terminate)
    assert.deepStrictEqual(ending.result, { commandId: `${id}/terminate`, revision: ending.before.revision, outcome: "applied" })
    assert.deepStrictEqual([ending.events, ending.after.reason], [[], "grant_revoked" satisfies StatusReason])
    const ended = reach("queued")
    ended.system({ _tag: "RevokeGrant" })
    ended.system({ _tag: "Release" })
    assert.strictEqual(ended.person(terminate).result?.outcome, "applied")
    assert.strictEqual(ended.person(terminate).result?.outcome, "duplicate")
  })
})

describe("interrupt", () => {
  const asked = { reason: "interrupt", initiator: "user" } as const

  it("asks for the end of a running turn", () => {
    const { after, before, events, result } = reach("working").person(interrupt)
    assert.deepStrictEqual(events, [{ type: "turn.updated", turn_id: turn, data: { state: "running", previous: "running", ...asked } }])
    assert.deepStrictEqual(result, { commandId: `${id}/interrupt/${turn}`, revision: before.revision + 1, outcome: "applied" })
    assert.isTrue(after.turn?.interruptRequested)
  })

  it("denies what waits for approval", () => {
    const history = reach("asking")
    history.system(request(turn, "call-2"))
    const { after, events } = history.person(interrupt)
    assert.deepStrictEqual(events, [
      { type: "approval.resolved", turn_id: turn, data: { approval_id: "call-1", outcome: "denied", by: "interrupt" } },
      { type: "approval.resolved", turn_id: turn, data: { approval_id: "call-2", outcome: "denied", by: "interrupt" } },
      { type: "turn.updated", turn_id: turn, data: { state: "running", previous: "awaiting_approval", ...asked } }
    ])
    assert.deepStrictEqual(after.approvals, [])
  })

  it("cancels a turn that no agent has taken", () => {
    const { after, events } = reach("pending").person(interrupt)
    assert.deepStrictEqual(events, [{ type: "turn.completed", turn_id: turn, data: { state: "cancelled", ...asked } }])
    assert.strictEqual(after.status, "running")
  })

  it.each<Scene>(["working", "asking", "pending"])("is a duplicate of the first one, also after the turn has ended (%s)", (scene) => {
    const history = reach(scene)
    const first = history.person(interrupt).result
    const again = { ...first, outcome: "duplicate" }
    assert.deepStrictEqual<object | null>(history.person(interrupt).result, again)
    history.system({ _tag: "EndTurn", turnId: turn, state: "interrupted" })
    assert.deepStrictEqual<object | null>(history.person(interrupt).result, again)
    history.person(terminate)
    assert.deepStrictEqual<object | null>(history.person(interrupt).result, again)
  })

  it("of the next turn is another command", () => {
    const history = reach("interrupting")
    history.system({ _tag: "EndTurn", turnId: turn, state: "interrupted" })
    history.person(send)
    const next = history.person(interrupt).result
    assert.deepStrictEqual([next?.outcome, next?.commandId], ["applied", `${id}/interrupt/${id}/turn/2`])
  })

  it.each(over)("is rejected as sandbox_terminal while %s", (scene) => {
    const { before, events, result } = reach(scene).person(interrupt)
    assert.deepStrictEqual([result?.outcome, result?.rejection, result?.revision], ["rejected", "sandbox_terminal", before.revision])
    assert.deepStrictEqual(events, [])
  })

  it.each<Scene>(["queued", "creating", "idle", "stuck"])("is rejected as no_active_turn while %s", (scene) => {
    const history = reach(scene)
    const { before, events, result } = history.person(interrupt)
    assert.deepStrictEqual<object | null>(result, {
      commandId: `${id}/interrupt/none/${before.revision}`,
      revision: before.revision,
      outcome: "rejected",
      rejection: "no_active_turn"
    })
    assert.deepStrictEqual(events, [])
    assert.deepStrictEqual(history.person(interrupt).result, result)
  })
})

describe("a decision on an approval", () => {
  it.each(["approve", "deny"] as const)("%s is applied to a pending one; the turn goes on", (decision) => {
    const { before, events, result } = reach("asking").person(decide(decision))
    const outcome = decision === "approve" ? "approved" : "denied"
    assert.deepStrictEqual(events, [
      { type: "approval.resolved", turn_id: turn, data: { approval_id: "call-1", outcome, by: "user" } },
      { type: "turn.updated", turn_id: turn, data: { state: "running", previous: "awaiting_approval" } }
    ])
    assert.deepStrictEqual([result?.outcome, result?.revision], ["applied", before.revision + 2])
  })

  it.each(Scene.literals)("is not found when the agent never asked (%s)", (scene) => {
    const { after, before, refused, result } = reach(scene).person(decide("approve", "unknown"))
    assert.deepStrictEqual([refused, result], ["ApprovalNotFound", null])
    assert.strictEqual(after, before)
  })

  it("that comes again is a duplicate with the first answer, whatever happened since", () => {
    for (const decision of ["approve", "deny"] as const) {
      const history = reach("asking")
      const first = history.person(decide(decision)).result
      const again = { ...first, outcome: "duplicate" }
      assert.deepStrictEqual<object | null>(history.person(decide(decision)).result, again)
      history.system({ _tag: "EndTurn", turnId: turn, state: "succeeded" })
      assert.deepStrictEqual<object | null>(history.person(decide(decision)).result, again)
      history.person(terminate)
      history.system({ _tag: "Release" })
      assert.deepStrictEqual<object | null>(history.person(decide(decision)).result, again)
    }
  })

  it("that is the opposite of the first one is rejected: the first wins", () => {
    const history = reach("asking")
    history.person(decide("deny"))
    const late = history.person(decide("approve"))
    assert.deepStrictEqual([late.result?.outcome, late.result?.rejection], ["rejected", "approval_already_resolved"])
    assert.deepStrictEqual([late.result?.revision, late.events], [late.before.revision, []])
    assert.deepStrictEqual(history.approvals, [{ approvalId: "call-1", outcome: "denied", by: "user" }])
  })

  it.each(["approve", "deny"] as const)("%s after its time is rejected as approval_expired", (decision) => {
    const history = reach("asking").wait(limits.approval)
    history.system({ _tag: "Expire" })
    assert.strictEqual(history.person(decide(decision)).result?.rejection, "approval_expired")
  })

  it.each(["approve", "deny"] as const)("%s after an interrupt or the turn's end is rejected as approval_already_resolved", (decision) => {
    for (const act of [interrupt, null]) {
      const history = reach("asking")
      if (act === null) history.system({ _tag: "EndTurn", turnId: turn, state: "succeeded" })
      else history.person(act)
      assert.strictEqual(history.person(decide(decision)).result?.rejection, "approval_already_resolved")
    }
  })

  it.each(["approve", "deny"] as const)("%s on an ended sandbox is rejected as sandbox_terminal, for any resolver", (decision) => {
    const history = reach("asking")
    history.person(terminate)
    assert.strictEqual(history.person(decide(decision)).result?.rejection, "sandbox_terminal")
    const expired = reach("asking").wait(limits.approval)
    expired.system({ _tag: "Expire" })
    expired.person(terminate)
    expired.system({ _tag: "Release" })
    assert.strictEqual(expired.person(decide(decision)).result?.rejection, "sandbox_terminal")
    const failed = reach("asking")
    failed.system({ _tag: "Fail", reason: "host_lost", error: "E.", retryable: false })
    assert.strictEqual(failed.person(decide(decision)).result?.rejection, "sandbox_terminal")
  })
})

describe("a denial with a reason", () => {
  const reason = "Not there."
  const because = { _tag: "Decide", approvalId: "call-1", decision: "deny", reason } as const
  const denied = { type: "approval.resolved", turn_id: turn, data: { approval_id: "call-1", outcome: "denied", by: "user", reason } }
  const goesOn = { type: "turn.updated", turn_id: turn, data: { state: "running", previous: "awaiting_approval" } }

  it("is kept with the approval, and first of all its own", () => {
    const history = reach("asking")
    assert.strictEqual(history.person(because).result?.outcome, "applied")
    assert.deepStrictEqual(history.approvals, [{ approvalId: "call-1", outcome: "denied", by: "user", reason }])
    const again = history.person({ ...because, reason: "Another one." })
    assert.deepStrictEqual([again.result?.outcome, again.events], ["duplicate", []])
    assert.deepStrictEqual(history.approvals[0]?.reason, reason)
  })

  it.each(["steer", "message"] as const)("waits as a message of the person who denied, to be told by %s", (telling) => {
    const { sandbox } = reach("asking")
    const approval = { approvalId: "call-1", outcome: null, by: null }
    const command = decideApproval(ids, "call-1", { decision: "deny", reason }, { userId: "user-3", tellingOf: () => telling })
    const verdict = Result.getOrThrow(command.decide({ sandbox, receipt: null, approval, isMessage: false }))
    const text = "Denied: write\n\nNot there."
    const data = { message_id: `${id}/turn/2`, position: 1, text, author: { id: "user-3" }, steers: telling === "steer" }
    assert.deepStrictEqual<unknown>(verdict, { outcome: "applied", events: [denied, goesOn, { type: "message.queued", data }] })
  })

  it("waits nowhere for an agent that is told with the denial", () => {
    const { sandbox } = reach("asking")
    const approval = { approvalId: "call-1", outcome: null, by: null }
    const command = decideApproval(ids, "call-1", { decision: "deny", reason }, { userId: "user-3", tellingOf: () => "answer" })
    const verdict = Result.getOrThrow(command.decide({ sandbox, receipt: null, approval, isMessage: false }))
    assert.deepStrictEqual<unknown>(verdict, { outcome: "applied", events: [denied, goesOn] })
  })

  it("is refused where ten messages wait, and changes nothing; one without a reason is not", () => {
    const history = reach("asking")
    for (let n = 0; n < 10; n++) history.person({ _tag: "Send", prompt: `${n}`, whenBusy: "queue" })
    const { after, before, refused } = history.person(because)
    assert.strictEqual(refused, "QueueFull")
    assert.strictEqual(after, before)
    assert.strictEqual(history.person(decide("deny")).result?.outcome, "applied")
  })
})

describe("an approval for the rest of the turn", () => {
  const all = (approvalId = "call-1") => ({ _tag: "Decide", approvalId, decision: "approve", scope: "turn" }) as const
  const byPolicy = (approval_id: string) =>
    ({ type: "approval.resolved", turn_id: turn, data: { approval_id, outcome: "approved", by: "policy" } }) as const

  it("covers what waits of the same kind, and leaves the rest to people", () => {
    const history = reach("asking")
    history.system(request(turn, "call-2", "command"))
    history.system(request(turn, "call-3"))
    const { after, events } = history.person(all())
    assert.deepStrictEqual(events, [
      { type: "approval.resolved", turn_id: turn, data: { approval_id: "call-1", outcome: "approved", by: "user", scope: "turn" } },
      byPolicy("call-3")
    ])
    assert.deepStrictEqual([after.approvals.map(({ approval_id }) => approval_id), after.turn?.state], [["call-2"], "awaiting_approval"])
    assert.deepStrictEqual(typesOf(history.person(decide("deny", "call-2")).events), ["approval.resolved", "turn.updated"])
  })

  it("approves what the turn asks for of that kind from then on; the turn never waits for it", () => {
    const history = reach("asking")
    history.person(all())
    const { after, events } = history.system(request(turn, "call-2"))
    assert.deepStrictEqual(typesOf(events), ["approval.requested", "approval.resolved"])
    assert.deepStrictEqual(events[1], byPolicy("call-2"))
    assert.deepStrictEqual([after.turn?.state, after.approvals], ["running", []])
    assert.deepStrictEqual(history.approvals.at(-1), { approvalId: "call-2", outcome: "approved", by: "policy" })
    assert.strictEqual(history.system(request(turn, "call-3", "command")).after.turn?.state, "awaiting_approval")
    assert.strictEqual(history.person(decide("deny", "call-2")).result?.rejection, "approval_already_resolved")
  })

  it("ends with its turn", () => {
    const history = reach("asking")
    history.person(all())
    history.system({ _tag: "EndTurn", turnId: turn, state: "succeeded" })
    history.person(send)
    history.system({ _tag: "StartTurn", turnId: history.turn })
    assert.deepStrictEqual(typesOf(history.system(request(history.turn, "call-2")).events), ["approval.requested", "turn.updated"])
  })

  it("gives way to an interrupt and to the end of the sandbox", () => {
    const history = reach("asking")
    history.person(all())
    history.person(interrupt)
    const { events } = history.system(request(turn, "call-2"))
    assert.deepStrictEqual(events.flatMap(({ data, type }) => type === "approval.resolved" ? [data.by] : []), ["interrupt"])
    history.person(terminate)
    assert.strictEqual(history.system(request(turn, "call-3")).refused, "IllegalTransition")
  })

  it("is refused for what is of no kind that says what it does", () => {
    const history = reach("working")
    history.system(request(turn, "call-1", "other"))
    history.system({ _tag: "RequestApproval", turnId: turn, approval: { approval_id: "call-2", tool: "write" } })
    for (const call of ["call-1", "call-2"]) {
      const { after, before, refused } = history.person(all(call))
      assert.strictEqual(refused, "ScopeUnsupported")
      assert.strictEqual(after, before)
      assert.strictEqual(history.person(decide("approve", call)).result?.outcome, "applied")
    }
  })

  it("is refused with the reason: an edit that is not plain, or a call of no kind", () => {
    const history = reach("working")
    history.system(request(turn, "call-1", "edit", false))
    history.system(request(turn, "call-2", "other"))
    const messages = ["call-1", "call-2"].map((approvalId) => {
      const decided = decideApproval(ids, approvalId, { decision: "approve", scope: "turn" }, decider).decide({
        sandbox: history.sandbox,
        receipt: null,
        approval: { approvalId, outcome: null, by: null },
        isMessage: false
      })
      return Result.isFailure(decided) ? decided.failure.message : null
    })
    assert.deepStrictEqual(messages, [
      "The edit deletes a file, or changes a file that is protected or outside the repositories. Approve it alone.",
      "The agent does not say of which kind this is. Approve it alone."
    ])
  })

  it("leaves edits that are not plain to people, and cannot begin with one", () => {
    const history = reach("asking")
    history.system(request(turn, "call-2", "edit", false))
    const { after, before, refused } = history.person(all("call-2"))
    assert.strictEqual(refused, "ScopeUnsupported")
    assert.strictEqual(after, before)
    history.person(all())
    assert.deepStrictEqual(history.sandbox.approvals.map(({ approval_id }) => approval_id), ["call-2"])
    assert.deepStrictEqual(typesOf(history.system(request(turn, "call-3", "edit", false)).events), ["approval.requested"])
    assert.strictEqual(history.person(decide("approve", "call-2")).result?.outcome, "applied")
    assert.deepStrictEqual(typesOf(history.system(request(turn, "call-4")).events), ["approval.requested", "approval.resolved"])
  })

  it("lets what still waits expire as ever", () => {
    const history = reach("asking")
    history.system(request(turn, "call-2", "command"))
    history.person(all())
    history.wait(limits.approval)
    const { events } = history.system({ _tag: "Expire" })
    assert.deepStrictEqual(events[0]?.data, { approval_id: "call-2", outcome: "denied", by: "timeout" })
  })
})

describe("a message", () => {
  it.each<Scene>(["idle", "stuck"])("starts the next turn while %s", (scene) => {
    const history = reach(scene)
    const { after, before, events, result } = history.person(send)
    const next = `${id}/turn/2`
    assert.deepStrictEqual(events, [{
      type: "turn.updated",
      turn_id: next,
      data: { state: "pending", previous: null, text: "And now?", author: { id: "user-2" } }
    }])
    assert.deepStrictEqual(result, { commandId: `${id}/message/2`, revision: before.revision + 1, outcome: "applied" })
    assert.deepStrictEqual([after.turn?.n, after.turn?.id, after.turn?.prompt, after.turn?.authorId], [2, next, "And now?", "user-2"])
  })

  it.each<Scene>(["pending", "working", "asking", "interrupting"])("must wait while the turn is %s", (scene) => {
    assert.strictEqual(reach(scene).person(send).refused, "TurnActive")
  })

  it.each<Scene>(["queued", "creating", ...over])("is refused while %s: the sandbox is not running", (scene) => {
    assert.strictEqual(reach(scene).person(send).refused, "SandboxNotRunning")
  })

  it("is the first one where there was no turn yet", () => {
    const sandbox = { ...reach("idle").sandbox, turn: null }
    const message = sendMessage(ids, "P", "user-1")
    assert.strictEqual(message.identity(sandbox), `${id}/message/1`)
    const verdict = Result.getOrThrow(message.decide({ sandbox, receipt: null, approval: null, isMessage: false }))
    assert.strictEqual(verdict.outcome === "applied" ? verdict.events[0]?.turn_id : null, turn)
  })

  it("may follow a cancelled turn at once", () => {
    const history = reach("pending")
    history.person(interrupt)
    assert.strictEqual(history.person(send).result?.outcome, "applied")
  })

  it("is 1 to 60000 characters", () => {
    const accepts = Schema.is(Prompt)
    assert.deepStrictEqual(["", "x", "x".repeat(60_000), "x".repeat(60_001)].map((text) => accepts(text)), [false, true, true, false])
  })
})

describe("restore", () => {
  const restore = (n: number) => ({ _tag: "Restore", checkpoint: n }) as const
  /** It did two turns and nothing is to do. */
  const twice = () => {
    const history = reach("idle")
    history.system(recordCheckpoint(1))
    history.person(send)
    history.system({ _tag: "StartTurn", turnId: history.turn })
    history.system({ _tag: "EndTurn", turnId: history.turn, state: "succeeded" })
    history.system(recordCheckpoint(2))
    return history
  }

  it("asks a worker for it, under a name of the checkpoint and how often it was restored", () => {
    const { after, before, events, result } = twice().person(restore(1))
    assert.deepStrictEqual(events, [{ type: "sandbox.restoring", data: { checkpoint: 1 } }])
    assert.deepStrictEqual(result, { commandId: `${id}/restore/1/0`, revision: before.revision + 1, outcome: "applied" })
    assert.deepStrictEqual([after.restoring, after.status], [1, "running"])
  })

  it("is a duplicate until it is carried out, whatever checkpoint is taken meanwhile", () => {
    const history = twice()
    const first = history.person(restore(1)).result
    const again = { ...first, outcome: "duplicate" }
    assert.deepStrictEqual<object | null>(history.person(restore(1)).result, again)
    history.system(recordCheckpoint(3))
    assert.deepStrictEqual<object | null>(history.person(restore(1)).result, again)
  })

  it("is another command once it was carried out, though no checkpoint could be taken of that", () => {
    const history = twice()
    for (const [n, checkpoint] of [1, 2, 1, 1].entries()) {
      const { before, result } = history.person(restore(checkpoint))
      assert.deepStrictEqual(result, {
        commandId: `${id}/restore/${checkpoint}/${n}`,
        revision: before.revision + 1,
        outcome: "applied"
      })
      history.system({ _tag: "RecordRestore", data: { checkpoint, cause: "command" } })
      history.system({ _tag: "RecordCheckpoint", data: { error: "too large" } })
    }
  })

  it("is rejected while another one is under way, while a turn is active, and when the sandbox is over", () => {
    const rejection = (history: History, n = 1) => history.person(restore(n)).result?.rejection
    const history = twice()
    history.person(restore(1))
    assert.strictEqual(rejection(history, 2), "restore_active")
    for (const scene of ["pending", "working", "asking", "interrupting"] as const) {
      assert.strictEqual(rejection(reach(scene)), "turn_active")
    }
    history.person(send)
    assert.strictEqual(rejection(history, 2), "turn_active")
    assert.deepInclude(history.person(restore(1)).result, { outcome: "duplicate" })
    for (const scene of over) assert.strictEqual(rejection(reach(scene)), "sandbox_terminal")
  })

  it("is refused before the sandbox runs, and for what is no checkpoint of it, or none that is kept", () => {
    for (const scene of ["queued", "creating"] as const) assert.strictEqual(reach(scene).person(restore(1)).refused, "SandboxNotRunning")
    for (const n of [0, 3, Number.MAX_SAFE_INTEGER]) assert.strictEqual(twice().person(restore(n)).refused, "CheckpointNotFound")
    const gone = restoration(ids, 1, false).decide({ sandbox: twice().sandbox, receipt: null, approval: null, isMessage: false })
    assert.strictEqual(Result.isFailure(gone) && gone.failure._tag, "CheckpointNotFound")
  })

  it("may have been rejected before, under the same name", () => {
    const history = reach("idle")
    history.system(recordCheckpoint(1))
    history.person(send)
    const rejected = history.person(restore(1)).result
    history.system({ _tag: "StartTurn", turnId: history.turn })
    history.system({ _tag: "EndTurn", turnId: history.turn, state: "succeeded" })
    const { result } = history.person(restore(1))
    assert.deepStrictEqual([result?.commandId, result?.outcome], [rejected?.commandId, "applied"])
  })
})

describe("the answer", () => {
  const accepts = Schema.is(CommandResult)
  const commandId = "9ca5d5ad-254d-58f1-8385-9aae8e1bda6d"
  it("rejects for the reasons of docs/decisions/3", () => {
    assert.deepStrictEqual(Rejection.literals, [
      "sandbox_terminal",
      "no_active_turn",
      "approval_expired",
      "approval_already_resolved",
      "question_expired",
      "question_already_answered",
      "turn_active",
      "restore_active"
    ])
  })

  it("is a UUID, a revision of 0 to 2^53−1 and an outcome", () => {
    for (const outcome of ["applied", "duplicate"]) assert.isTrue(accepts({ commandId, revision: 1, outcome }))
    assert.isTrue(accepts({ commandId, revision: Number.MAX_SAFE_INTEGER, outcome: "rejected", rejection: "sandbox_terminal" }))
    assert.isFalse(accepts({ commandId: "terminate", revision: 1, outcome: "applied" }))
    assert.isFalse(accepts({ commandId, revision: -1, outcome: "applied" }))
    assert.isFalse(accepts({ commandId, revision: 1.5, outcome: "applied" }))
    assert.isFalse(accepts({ commandId, revision: 1, outcome: "done" }))
    assert.isFalse(accepts({ commandId, revision: 1, outcome: "rejected", rejection: undefined }))
  })
})

describe("rename", () => {
  const rename = (title: string) => ({ _tag: "Rename", title }) as const

  it("gives the title, under a name of the title and how often it changed", () => {
    for (const scene of Scene.literals) {
      const { after, before, events, result } = reach(scene).person(rename("Prices"))
      assert.deepStrictEqual(events, [{ type: "sandbox.renamed", data: { title: "Prices" } }])
      assert.deepStrictEqual(result, { commandId: `${id}/rename/0/Prices`, revision: before.revision + 1, outcome: "applied" })
      assert.deepStrictEqual([after.title, after.status, after.turn], ["Prices", before.status, before.turn])
    }
  })

  it("is a duplicate while the sandbox has that title, and another command after another one", () => {
    const history = reach("idle")
    const answers = ["Prices", "Prices", "Sums", "Prices", "Prices"].map((title) => history.person(rename(title)).result)
    assert.deepStrictEqual(answers.map((answer) => [answer?.commandId, answer?.outcome]), [
      [`${id}/rename/0/Prices`, "applied"],
      [`${id}/rename/0/Prices`, "duplicate"],
      [`${id}/rename/1/Sums`, "applied"],
      [`${id}/rename/2/Prices`, "applied"],
      [`${id}/rename/2/Prices`, "duplicate"]
    ])
  })

  it("to the title of the creation changes nothing", () => {
    const history = reach("working")
    const { before, events, result } = history.person(rename(creation.title))
    assert.deepStrictEqual([events, result?.outcome, result?.revision], [[], "applied", before.revision])
    assert.strictEqual(history.person(rename(creation.title)).result?.outcome, "duplicate")
    assert.strictEqual(history.person(rename("Prices")).result?.outcome, "applied")
  })

  it("takes 1 to 120 characters", () => {
    const accepts = Schema.is(Title)
    assert.deepStrictEqual(["", "x", "𝔘".repeat(120), "x".repeat(121)].map((text) => accepts(text)), [false, true, true, false])
  })
})
