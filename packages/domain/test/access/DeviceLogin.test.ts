import { assert, describe, it } from "@effect/vitest"
import {
  ask,
  DEVICE_KEY_LIFE,
  DEVICE_SCOPES,
  type DeviceLogin,
  deviceLoginForgottenAt,
  DeviceLoginRefused,
  isOpen,
  shownUserCode,
  UNNAMED_MACHINE,
  userCodeOf
} from "@slipway/domain/access/rules/DeviceLogin"
import { Machine } from "@slipway/domain/access/schema/DeviceLogin"
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"

const at = DateTime.makeUnsafe("2026-11-21T02:41:00.123Z")
const after = (seconds: number) => DateTime.add(at, { seconds })

const waiting: DeviceLogin = {
  machine: "ada's laptop",
  address: "192.0.2.7",
  createdAt: at,
  decision: null,
  pace: { interval: 5, lastAskedAt: null }
}
const approved: DeviceLogin = { ...waiting, decision: { _tag: "Approved", userId: "user_1", grantId: "grant-1" } }
const denied: DeviceLogin = { ...waiting, decision: { _tag: "Denied", userId: "user_1" } }

/** The answers to questions at these seconds, with the interval from then on. */
const answers = (login: DeviceLogin, ...seconds: ReadonlyArray<number>) => {
  let { pace } = login
  return seconds.map((second) => {
    const asked = ask({ ...login, pace }, after(second))
    pace = asked.pace
    return [Result.match(asked.answer, { onFailure: ({ because }) => because, onSuccess: ({ _tag }) => _tag }), pace.interval]
  })
}

describe("a device login", () => {
  it("gives a command that keeps to the interval the person's decision", () => {
    assert.deepStrictEqual(answers(waiting, 0, 5, 10), [["authorization_pending", 5], ["authorization_pending", 5], [
      "authorization_pending",
      5
    ]])
    assert.deepStrictEqual(answers(approved, 7), [["Approved", 5]])
    assert.deepStrictEqual(answers(denied, 7), [["access_denied", 5]])
  })

  it("gives a command that asks too soon slow_down only, and adds five seconds to its interval", () => {
    assert.deepStrictEqual(answers(approved, 0, 4.999, 14.998), [["Approved", 5], ["slow_down", 10], ["slow_down", 15]])
    assert.deepStrictEqual(answers(waiting, 0, 4, 14, 24), [["authorization_pending", 5], ["slow_down", 10], ["authorization_pending", 10],
      ["authorization_pending", 10]])
  })

  it("is over after ten minutes, whatever was said", () => {
    for (const login of [waiting, approved, denied]) assert.deepStrictEqual(answers(login, 600), [["expired_token", 5]])
    assert.deepStrictEqual(answers(approved, 599.999), [["Approved", 5]])
    assert.deepStrictEqual([isOpen(waiting, after(599.999)), isOpen(waiting, after(600)), isOpen(approved, at), isOpen(denied, at)], [
      true,
      false,
      false,
      false
    ])
  })

  it("has a code that people may type as they like", () => {
    assert.strictEqual(shownUserCode("WDJBMJHT"), "WDJB-MJHT")
    for (const typed of ["WDJB-MJHT", "wdjbmjht", " wdjb mjht\n", "W-D-J-B-M-J-H-T"]) assert.strictEqual(userCodeOf(typed), "WDJBMJHT")
    for (const typed of ["", "WDJB-MJH", "WDJB-MJHTT", "ADJB-MJHT", "WDJB_MJHT", "WDJB-MJH1", `WDJB${" ".repeat(100)}MJHT`]) {
      assert.isNull(userCodeOf(typed))
    }
  })

  it("tells the command what to do when it gets no key", () => {
    const messages = {
      authorization_pending: "The request is undecided. Ask again after the interval.",
      slow_down: "The command asked too soon. The interval is five seconds longer from now on.",
      access_denied: "The request was denied.",
      expired_token: "The request expired. Begin again.",
      invalid_grant: "The device code is unknown, or its key was fetched. Begin again."
    } as const
    for (const [because, message] of Object.entries(messages)) {
      assert.strictEqual(new DeviceLoginRefused({ because: because as keyof typeof messages }).message, message)
    }
  })

  it("is told from an unknown one for another ten minutes", () => assert.deepStrictEqual(deviceLoginForgottenAt(waiting), after(1200)))

  it("gives a key for sandboxes alone, for 90 days, to a machine that needs no name", () => {
    assert.deepStrictEqual(DEVICE_SCOPES, ["sandboxes"])
    assert.deepStrictEqual(DEVICE_KEY_LIFE, Duration.days(90))
    assert.strictEqual(UNNAMED_MACHINE, "a machine without a name")
    assert.isTrue(Schema.is(Machine)(UNNAMED_MACHINE))
  })

  it("has a code that is read in 64 characters at most", () => {
    assert.strictEqual(userCodeOf(`WDJB${" ".repeat(56)}MJHT`), "WDJBMJHT")
    assert.isNull(userCodeOf(`WDJB${" ".repeat(57)}MJHT`))
  })

  it("is for a machine with a name that can be shown", () => {
    const takes = Schema.is(Machine)
    for (const name of ["ada's laptop", "build-7.example", "büro", "x", "x".repeat(126)]) assert.isTrue(takes(name), name)
    for (const name of ["", " ", "a ", "a\nb", "a\u202eb", "a\u200bb", "x".repeat(127), "\ud800"]) assert.isFalse(takes(name), name)
  })
})
