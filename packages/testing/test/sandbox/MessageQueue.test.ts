import { assert, describe, it } from "@effect/vitest"
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import {
  cancelMessage,
  MessageNotFound,
  MessageNotWaiting,
  QueueFull,
  sendMessage,
  SteeringUnsupported
} from "@slipway/domain/sandbox/rules/Command"
import { MAX_WAITING, steersOf, type WhenBusy } from "@slipway/domain/sandbox/rules/MessageQueue"
import { evolveAll } from "@slipway/domain/sandbox/rules/Sandbox"
import type { SandboxEvent } from "@slipway/domain/sandbox/rules/SandboxEvent"
import { decide } from "@slipway/domain/sandbox/rules/SystemCommand"
import { turnId } from "@slipway/domain/sandbox/rules/Turn"
import { creation, type History, ids, limits, reach, recordCheckpoint, request, type Scene } from "@slipway/testing/histories/Histories"
import * as Result from "effect/Result"

const idOf = (n: number) => turnId(ids, creation.id, n)
const send = (history: History, prompt: string, whenBusy: WhenBusy = "queue") => history.person({ _tag: "Send", prompt, whenBusy })
const end = (history: History, more: { readonly reason?: string; readonly initiator?: "policy" } = {}) =>
  history.system({ _tag: "EndTurn", turnId: history.turn, state: "succeeded", ...more })
const waiting = ({ sandbox }: History) => sandbox.waiting.map(({ id, steers }) => `${id.split("/").at(-1)}${steers ? " steers" : ""}`)
const typesOf = (events: ReadonlyArray<SandboxEvent>) => events.map(({ type }) => type)

/** Two messages that wait for their turns (2 and 3), and a steering one (4). */
const busy = (scene: Scene = "working") => {
  const history = reach(scene)
  send(history, "Second")
  send(history, "Third")
  send(history, "Steer", "steer")
  return history
}

describe("a message while a turn is active", () => {
  it("is refused, waits for its turn, or comes before those that do, as it asks", () => {
    const history = reach("working")
    assert.strictEqual(send(history, "No", "reject").refused, "TurnActive")
    assert.deepStrictEqual(send(history, "Second").events, [{
      type: "message.queued",
      data: { message_id: idOf(2), position: 1, text: "Second", author: { id: "user-2" }, steers: false }
    }])
    assert.deepInclude(send(history, "Third").events[0]?.data, { message_id: idOf(3), position: 2 })
    assert.deepInclude(send(history, "Steer", "steer").events[0]?.data, { message_id: idOf(4), position: 1, steers: true })
    assert.deepInclude(send(history, "Steer on", "steer").events[0]?.data, { message_id: idOf(5), position: 2, steers: true })
    assert.deepStrictEqual(waiting(history), ["4 steers", "5 steers", "2", "3"])
    assert.deepStrictEqual(steersOf(history.sandbox).map(({ text }) => text), ["Steer", "Steer on"])
  })

  it("is refused unless it asks for more", () => {
    const decided = sendMessage(ids, "P", "user-1").decide({
      sandbox: reach("working").sandbox,
      receipt: null,
      approval: null,
      isMessage: false
    })
    assert.strictEqual(Result.isFailure(decided) && decided.failure._tag, "TurnActive")
  })

  it("starts the next turn at once when none is active, however it asks", () => {
    for (const whenBusy of ["reject", "queue", "steer"] as const) {
      const { after, events } = send(reach("idle"), "Next", whenBusy)
      assert.deepStrictEqual(typesOf(events), ["turn.updated"])
      assert.deepInclude(after.turn, { id: idOf(2), prompt: "Next", state: "pending" })
    }
  })

  it("waits in any state of the turn, and nowhere but in a running sandbox", () => {
    for (const scene of ["pending", "working", "asking", "interrupting"] as const) assert.isNull(send(reach(scene), "Next").refused)
    for (const scene of ["queued", "creating", "succeeded", "failed", "terminating", "terminated"] as const) {
      assert.strictEqual(send(reach(scene), "Next").refused, "SandboxNotRunning")
    }
  })

  it("is refused when ten wait, and not when one of them is gone", () => {
    const history = reach("working")
    for (let n = 0; n < MAX_WAITING; n++) assert.isNull(send(history, `${n}`).refused)
    assert.strictEqual(send(history, "Eleventh").refused, "QueueFull")
    assert.strictEqual(send(history, "Eleventh", "steer").refused, "QueueFull")
    history.person({ _tag: "Cancel", messageId: idOf(5) })
    assert.isNull(send(history, "Eleventh").refused)
    // The number of a withdrawn message is never used again.
    assert.strictEqual(history.sandbox.waiting.at(-1)?.id, idOf(12))
  })

  it("steers only where the agent can take it, and is queued anywhere", () => {
    const { sandbox } = reach("working")
    const ask = (whenBusy: WhenBusy) =>
      sendMessage(ids, "P", "user-1", { whenBusy, canSteer: () => false }).decide({
        sandbox,
        receipt: null,
        approval: null,
        isMessage: false
      })
    assert.strictEqual(Result.isFailure(ask("steer")) && Result.getOrThrow(Result.flip(ask("steer")))._tag, "SteeringUnsupported")
    assert.isTrue(Result.isSuccess(ask("queue")))
  })
})

describe("a message that waits", () => {
  it("gets its turn in the decision that ends the one before, what steers first", () => {
    const history = busy()
    const { events } = end(history)
    assert.deepStrictEqual(typesOf(events), ["turn.completed", "turn.updated"])
    assert.deepInclude(history.sandbox.turn, { id: idOf(4), n: 2, prompt: "Steer", authorId: "user-2", state: "pending", after: idOf(1) })
    for (const n of [2, 3]) {
      history.system({ _tag: "StartTurn", turnId: history.turn })
      end(history)
      assert.strictEqual(history.turn, idOf(n))
    }
    assert.deepStrictEqual([history.sandbox.waiting, history.sandbox.waitingTexts], [[], []])
    history.system({ _tag: "StartTurn", turnId: history.turn })
    end(history)
    assert.strictEqual(send(history, "Fifth").after.turn?.id, idOf(5))
  })

  it("gets it however that one ended: by itself, a person, time, too much output, or with its machine", () => {
    const ends: ReadonlyArray<(history: History) => unknown> = [
      (history) => history.system({ _tag: "EndTurn", turnId: history.turn, state: "failed" }),
      (history) => history.wait(limits.turn).system({ _tag: "Expire" }),
      (history) => history.system({ _tag: "RefuseMessage", turnId: history.turn }),
      (history) => history.system({ _tag: "RecordRestore", data: { checkpoint: 1, cause: "machine_lost" } })
    ]
    for (const ending of ends) {
      const history = reach("idle")
      history.system(recordCheckpoint(1))
      send(history, "Second")
      history.system({ _tag: "StartTurn", turnId: history.turn })
      send(history, "Third")
      ending(history)
      assert.deepInclude(history.sandbox.turn, { id: idOf(3), state: "pending" })
    }
    const interrupted = busy("pending")
    assert.deepStrictEqual(typesOf(interrupted.person({ _tag: "Interrupt" }).events), ["turn.completed", "turn.updated"])
    assert.strictEqual(interrupted.turn, idOf(4))
  })

  it("is not cancelled by an interrupt, and goes on when the agent obeyed", () => {
    const history = busy()
    history.person({ _tag: "Interrupt" })
    assert.deepStrictEqual(waiting(history), ["4 steers", "2", "3"])
    history.system({ _tag: "EndTurn", turnId: history.turn, state: "interrupted" })
    assert.strictEqual(history.turn, idOf(4))
  })

  it("keeps no approval from expiring, after which the queue goes on", () => {
    const history = reach("asking")
    send(history, "Second")
    history.wait(limits.approval).system({ _tag: "Expire" })
    assert.strictEqual(history.sandbox.turn?.state, "running")
    end(history)
    assert.strictEqual(history.turn, idOf(2))
  })

  it("is cancelled with whatever ends its sandbox, before the end is told", () => {
    const ends: ReadonlyArray<(history: History) => unknown> = [
      (history) => history.person({ _tag: "Terminate" }),
      (history) => history.system({ _tag: "RevokeGrant" }),
      (history) => history.wait(limits.lifetime).system({ _tag: "Expire" }),
      (history) => history.system({ _tag: "Fail", reason: "agent_lost", error: "E.", retryable: false })
    ]
    for (const ending of ends) {
      const history = busy("asking")
      ending(history)
      const events = history.moments.at(-1)?.events ?? []
      assert.deepStrictEqual(
        events.flatMap((event) => event.type === "message.cancelled" ? [event.data] : []),
        [4, 2, 3].map((n) => ({ message_id: idOf(n), reason: "sandbox_ended" as const }))
      )
      assert.isBelow(events.findLastIndex(({ type }) => type === "message.cancelled"), typesOf(events).indexOf("sandbox.status"))
      assert.deepStrictEqual([history.sandbox.waiting, history.sandbox.waitingTexts, history.sandbox.turnless], [[], [], 3])
    }
  })

  it("is cancelled when the turn before it ended because nothing more may be spent", () => {
    for (const reason of ["budget_exceeded", "no_credits"] as const) {
      const history = busy()
      const { after, events } = end(history, { reason, initiator: "policy" })
      assert.deepStrictEqual(typesOf(events), ["turn.completed", "message.cancelled", "message.cancelled", "message.cancelled"])
      assert.deepInclude(events.at(-1)?.data, { message_id: idOf(3), reason })
      assert.deepStrictEqual([after.turn?.state, after.waiting], ["succeeded", []])
      // An agent that says so of itself says nothing of the budget.
      assert.strictEqual(end(busy(), { reason }).after.turn?.id, idOf(4))
    }
  })

  it("keeps a sandbox from being restored: its turn is active", () => {
    const history = reach("idle")
    history.system(recordCheckpoint(1))
    send(history, "Second")
    send(history, "Third")
    assert.deepInclude(history.person({ _tag: "Restore", checkpoint: 1 }).result, { outcome: "rejected", rejection: "turn_active" })
  })

  it("leaves the turn that ended in the checkpoint that is taken before its own", () => {
    const history = busy()
    end(history)
    assert.deepInclude(history.system(recordCheckpoint(1)).events[0]?.data, { turn_id: idOf(1) })
  })
})

describe("a message that steers", () => {
  const record = (history: History, n: number, turn = history.turn) =>
    history.system({ _tag: "RecordSteer", turnId: turn, messageId: idOf(n) })

  it("is of the turn whose agent took it, and gets none of its own", () => {
    const history = busy()
    assert.deepStrictEqual(record(history, 4).events, [{
      type: "message.steered",
      turn_id: idOf(1),
      data: { message_id: idOf(4), text: "Steer", author: { id: "user-2" } }
    }])
    assert.deepStrictEqual([waiting(history), history.sandbox.turnless], [["2", "3"], 1])
    assert.deepStrictEqual(record(history, 4).events, [])
    end(history)
    assert.strictEqual(history.turn, idOf(2))
  })

  it("is taken in the turn that runs alone: not before it began, after it ended, nor when it was queued or taken back", () => {
    const pending = busy("pending")
    assert.deepStrictEqual(record(pending, 4).events, [])
    const ended = busy()
    end(ended)
    assert.deepStrictEqual(record(ended, 4, idOf(1)).events, [])
    const history = busy()
    assert.deepStrictEqual(record(history, 4, idOf(2)).events, [])
    assert.deepStrictEqual(record(history, 2).events, [])
    history.person({ _tag: "Cancel", messageId: idOf(4) })
    assert.deepStrictEqual(record(history, 4).events, [])
  })
})

describe("taking a message back", () => {
  const cancel = (history: History, messageId: string) => history.person({ _tag: "Cancel", messageId })
  const whyNot = (history: History, messageId: string) => {
    const { sandbox } = history
    const isMessage = history.isMessage(messageId)
    const decided = cancelMessage(ids, messageId).decide({ sandbox, receipt: null, approval: null, isMessage })
    return Result.isFailure(decided) ? decided.failure : null
  }

  it("takes it out of the line, once", () => {
    const history = busy()
    const { events, result } = cancel(history, idOf(2))
    assert.deepStrictEqual(events, [{ type: "message.cancelled", data: { message_id: idOf(2), reason: "command" } }])
    assert.strictEqual(result?.outcome, "applied")
    assert.deepStrictEqual(waiting(history), ["4 steers", "3"])
    assert.deepStrictEqual(cancel(history, idOf(2)).result, { ...result, outcome: "duplicate" })
  })

  it("says what is so when it waits no longer, and knows no other", () => {
    const history = busy()
    assert.deepInclude(whyNot(history, idOf(1)), { _tag: "MessageNotWaiting", isActive: true })
    end(history)
    assert.deepInclude(whyNot(history, idOf(1)), { _tag: "MessageNotWaiting", isActive: false })
    assert.deepInclude(whyNot(history, idOf(4)), { _tag: "MessageNotWaiting", isActive: true })
    for (const unknown of [idOf(5), idOf(0), "m1", turnId(ids, SandboxId.make("c_zzzzzzzzzzzz"), 2)]) {
      assert.strictEqual(whyNot(history, unknown)?._tag, "MessageNotFound")
    }
  })

  it("knows the first prompt from its turn on, and messages whose turns are over", () => {
    assert.strictEqual(whyNot(reach("queued"), idOf(1))?._tag, "MessageNotFound")
    const history = busy()
    end(history)
    history.system({ _tag: "StartTurn", turnId: history.turn })
    end(history)
    for (const n of [1, 4]) assert.deepInclude(whyNot(history, idOf(n)), { _tag: "MessageNotWaiting", isActive: false })
    assert.strictEqual(cancelMessage(ids, "m1").messageId, "m1")
  })

  it("says why it is refused", () => {
    for (
      const [error, message] of [
        [new MessageNotFound(), "No such message."],
        [new MessageNotWaiting({ isActive: true }), "The turn of this message is active already. Interrupt it to stop it."],
        [new MessageNotWaiting({ isActive: false }),
          "This message waits no longer: its turn is over, its agent has it, or it was cancelled."],
        [new QueueFull(), "10 messages wait already. Take one back, or wait for the next turn."],
        [new SteeringUnsupported(), "The agent of this sandbox takes no message while a turn is active. Queue the message instead."]
      ] as const
    ) assert.strictEqual(error.message, message)
  })

  it("derives no ids of earlier prompts, however many there were", () => {
    const history = busy()
    const sandbox = { ...history.sandbox, turnless: 100_000 }
    let derived = 0
    const counting = { derive: (name: string) => (derived++, ids.derive(name)) }
    cancelMessage(counting, "m1").decide({ sandbox, receipt: null, approval: null, isMessage: false })
    assert.isAtMost(derived, 1)
  })

  it("is possible while an approval waits", () => {
    const history = reach("working")
    send(history, "Second")
    history.system(request(history.turn, "call-9"))
    assert.strictEqual(cancel(history, idOf(2)).result?.outcome, "applied")
  })
})

it("nothing is left to wait when a sandbox has recorded all that it may", () => {
  const { sandbox } = busy("pending")
  const full = { ...sandbox, logBytes: Number.MAX_SAFE_INTEGER }
  const decided = Result.getOrThrow(decide(full, { _tag: "StartTurn", turnId: idOf(1) }, { now: sandbox.createdAt, limits }))
  assert.deepStrictEqual(typesOf(decided), [
    "turn.started",
    "sandbox.error",
    "turn.completed",
    "message.cancelled",
    "message.cancelled",
    "message.cancelled"
  ])
  assert.deepStrictEqual(evolveAll(full, decided, sandbox.createdAt).waiting, [])
})
