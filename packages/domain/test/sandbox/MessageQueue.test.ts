import { assert, describe, it } from "@effect/vitest"
import { queuedOf, textOf, without } from "@slipway/domain/sandbox/rules/MessageQueue"
import { finishes } from "@slipway/domain/sandbox/rules/Turn"
import { MessageId } from "@slipway/domain/sandbox/schema/Command"
import { WaitingMessage, WaitingText, WhenBusy } from "@slipway/domain/sandbox/schema/MessageQueue"
import { Turn } from "@slipway/domain/sandbox/schema/Turn"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"

const [first, second] = [{ id: "m1", authorId: "ada", steers: true }, { id: "m2", authorId: "bob", steers: false }]
const queue = { waiting: [first, second], waitingTexts: [{ id: "m2", text: "Second" }, { id: "m1", text: "First" }] }

describe("the waiting messages", () => {
  it("have places from 1 and their own texts, for clients", () =>
    assert.deepStrictEqual(queuedOf(queue), [
      { message_id: "m1", position: 1, text: "First", author: { id: "ada" }, steers: true },
      { message_id: "m2", position: 2, text: "Second", author: { id: "bob" }, steers: false }
    ]))

  it("have no text where it is not known", () => assert.strictEqual(textOf({ waitingTexts: [] }, "m1"), ""))

  it("go with their texts", () =>
    assert.deepStrictEqual(without(queue, "m1"), { waiting: [second], waitingTexts: [{ id: "m2", text: "Second" }] }))

  it("are stored whole", () => {
    assert.isTrue(Schema.is(WaitingMessage)(first))
    assert.isTrue(Schema.is(WaitingText)({ id: "m1", text: "" }))
    for (const missing of ["id", "authorId", "steers"] as const) {
      const { [missing]: _, ...rest } = first
      assert.isFalse(Schema.is(WaitingMessage)(rest), missing)
    }
    for (const rest of [{ id: "m1" }, { text: "First" }]) assert.isFalse(Schema.is(WaitingText)(rest))
  })

  it("have UUIDs, whose case is ignored", () => {
    const read = Schema.decodeUnknownResult(MessageId)
    const id = "0192f5a0-5c3e-4b1c-9b7e-2f4a8c6d1e00"
    assert.deepStrictEqual(read(id.toUpperCase()), Result.succeed(id))
    assert.isTrue(Result.isFailure(read("m1")))
  })

  it("are refused, queued or steer", () => assert.deepStrictEqual(WhenBusy.literals, ["reject", "queue", "steer"]))
})

describe("a turn", () => {
  it("says in its last message how it ended", () =>
    assert.deepStrictEqual(finishes, {
      succeeded: "end_turn",
      interrupted: "cancelled",
      cancelled: "cancelled",
      failed: "error"
    }))

  it("is read from storage as it was written, with all it may have", () => {
    const least = {
      n: 1,
      id: "t",
      prompt: "p",
      authorId: "ada",
      state: "running",
      startedAt: "2026-11-21T02:41:00.123Z",
      interruptRequested: false
    }
    const most = {
      ...least,
      after: "s",
      began: { seq: 1, bytes: 2 },
      speaking: "m",
      spokeAt: 3,
      approvedKinds: ["command"]
    }
    for (const turn of [least, most, { ...least, startedAt: null }]) {
      assert.deepStrictEqual<unknown>(Schema.encodeSync(Turn)(Schema.decodeUnknownSync(Turn)(turn)), turn)
    }
  })
})
