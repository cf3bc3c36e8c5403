import { assert, describe, it } from "@effect/vitest"
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import {
  afterNotification,
  lineAfter,
  notificationBody,
  notificationId,
  NOTIFICATIONS,
  notificationTypes,
  REFUSING_TIME,
  standingOf
} from "@slipway/domain/partner/rules/Notification"
import { type Outcome, WAITS } from "@slipway/domain/partner/rules/Webhook"
import { NOTIFICATION_TYPES } from "@slipway/domain/partner/schema/NotificationType"
import * as DateTime from "effect/DateTime"
import { createHash } from "node:crypto"

const at = DateTime.makeUnsafe("2026-11-22T02:41:00.123Z")
const after = (minutes: number) => DateTime.add(at, { minutes })
const id = SandboxId.make("c_abcdefghijkl")
const answered = (status: number): Outcome => ({ _tag: "Answered", status, retryAfter: null, body: null })

describe("a notification", () => {
  it("has an id that everybody can compute", () => {
    const hash = createHash("sha1").update(Buffer.from(NOTIFICATIONS.replaceAll("-", ""), "hex")).update(`${id}/12`).digest("hex")
    const variant = (Number.parseInt(hash.slice(16, 18), 16) & 0x3f | 0x80).toString(16)
    const expected = `${hash.slice(0, 8)}-${hash.slice(8, 12)}-5${hash.slice(13, 16)}-${variant}${hash.slice(18, 20)}-${hash.slice(20, 32)}`
    assert.strictEqual(notificationId(id, 12), expected)
    assert.strictEqual(NOTIFICATIONS, "394a10f9-63c2-4153-8661-c29c08db4464")
  })

  it("is of the types of its event", () => {
    const ofStatus = (status: string) => notificationTypes("sandbox.status", JSON.stringify({ data: { status } }))
    assert.deepStrictEqual(["queued", "creating", "running", "failed", "succeeded", "terminating", "terminated"].map(ofStatus), [
      [],
      [],
      ["sandbox.running"],
      ["sandbox.failed", "sandbox.ended"],
      ["sandbox.ended"],
      [],
      ["sandbox.ended"]
    ])
    const own = NOTIFICATION_TYPES.filter((type) => !type.startsWith("sandbox."))
    for (const type of own) assert.deepStrictEqual(notificationTypes(type, "{}"), [type])
    assert.deepStrictEqual(notificationTypes("message.updated", "{}"), [])
  })

  it("has the event as it is in the log, and the sandbox", () => {
    const wire = `{"id":"12","data":{"a \\"quote\\"":"}"}}`
    const sandbox = { title: "t", status: "running" as const, repos: [{ fullName: "acme/shop" }], metadata: { a: "b" } }
    assert.strictEqual(
      notificationBody({ sandboxId: id, seq: 12, type: "turn.completed", wire, sandbox }),
      `{"id":"12","data":{"a \\"quote\\"":"}"},"sandbox":{"id":"${id}","title":"t","status":"running",` +
        `"repos":[{"fullName":"acme/shop"}],"metadata":{"a":"b"}}}`
    )
  })
})

describe("an attempt at a notification", () => {
  it("is followed by a retry, at last by the next event, and by an end where the receiver is gone", () => {
    assert.deepStrictEqual(afterNotification(3, answered(204), at, 0), { _tag: "Delivered" })
    assert.deepStrictEqual(afterNotification(1, answered(500), at, 0), { _tag: "Retry", at: DateTime.add(at, { seconds: 5 }) })
    assert.deepStrictEqual(afterNotification(WAITS.length, answered(500), at, 0)._tag, "Retry")
    assert.deepStrictEqual(afterNotification(WAITS.length + 1, answered(500), at, 0), { _tag: "Skip" })
    assert.deepStrictEqual(afterNotification(1, answered(410), at, 0), { _tag: "Gone" })
  })

  it("moves its line on", () => {
    const made = { attempt: 2, seq: 5, dueAt: at }
    const line = { dueAt: at, newest: 7 }
    assert.deepStrictEqual(lineAfter(made, { _tag: "Delivered" }, after(1), line), { cursor: 5, failures: 0, dueAt: after(1) })
    assert.deepStrictEqual(lineAfter(made, { _tag: "Skip" }, after(1), { ...line, newest: 5 }), { cursor: 5, failures: 0, dueAt: null })
    assert.deepStrictEqual(lineAfter(made, { _tag: "Retry", at: after(9) }, after(1), line), { cursor: 4, failures: 2, dueAt: after(9) })
    assert.deepStrictEqual(lineAfter(made, { _tag: "Gone" }, after(1), line), { cursor: 4, failures: 2, dueAt: after(1) })
    for (const next of [{ _tag: "Skip" }, { _tag: "Gone" }, { _tag: "Retry", at: after(9) }] as const) {
      assert.deepStrictEqual(lineAfter(made, next, after(2), { ...line, dueAt: after(1) }), { cursor: 4, failures: 0, dueAt: after(1) })
    }
  })

  it("disables an endpoint that accepted nothing for a day", () => {
    const retry = { _tag: "Retry" as const, at }
    const end = DateTime.addDuration(at, REFUSING_TIME)
    assert.deepStrictEqual(standingOf(null, retry, at, false), { refusingSince: at, disable: null })
    const before = DateTime.subtract(end, { milliseconds: 1 })
    assert.deepStrictEqual(standingOf(at, retry, before, false), { refusingSince: at, disable: null })
    assert.deepStrictEqual(standingOf(at, { _tag: "Skip" }, end, false), { refusingSince: at, disable: "not_accepting" })
    assert.deepStrictEqual(standingOf(at, retry, end, true), { refusingSince: at, disable: null })
    assert.deepStrictEqual(standingOf(at, { _tag: "Delivered" }, end, false), { refusingSince: null, disable: null })
    assert.deepStrictEqual(standingOf(null, { _tag: "Gone" }, at, false), { refusingSince: at, disable: "gone" })
  })
})
