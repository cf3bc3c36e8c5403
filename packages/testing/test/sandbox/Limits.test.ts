import { assert, describe, it } from "@effect/vitest"
import { Policy } from "@slipway/domain/sandbox/rules/Policy"
import { evolve } from "@slipway/domain/sandbox/rules/Sandbox"
import { decide } from "@slipway/domain/sandbox/rules/SystemCommand"
import { nextDeadline } from "@slipway/domain/sandbox/rules/TimeLimit"
import { createdAt, type History, limits, reach, request, type Scene } from "@slipway/testing/histories/Histories"
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"

const turn = reach("working").turn
const expire = (history: History) => history.system({ _tag: "Expire" }).events
const status = (to: string, previous: string, reason: string, initiator = "policy") => ({
  type: "sandbox.status",
  data: { status: to, previous, reason, initiator }
})
/** A queued sandbox has no data on any host, so its end is immediate. */
const released = (scene: Scene) => scene === "queued" ? [status("terminated", "terminating", "max_lifetime")] : []
const inTurn = (type: string, data: object) => ({ type, turn_id: turn, data })

it.effect("the defaults are those of the decisions", () =>
  Effect.gen(function*() {
    assert.deepStrictEqual(yield* Policy, limits)
  }))

describe("a limit", () => {
  const rows: ReadonlyArray<readonly [Scene, Duration.Duration, ReadonlyArray<object>]> = [
    ["queued", Duration.hours(24), [status("failed", "queued", "queue_timeout")]],
    ["creating", Duration.minutes(10), [status("failed", "creating", "boot_timeout")]],
    ["idle", Duration.hours(24), [status("succeeded", "running", "idle_timeout")]],
    ["stuck", Duration.hours(24), [status("failed", "running", "last_turn_failed")]],
    ["asking", Duration.minutes(30), [
      inTurn("approval.resolved", { approval_id: "call-1", outcome: "denied", by: "timeout" }),
      inTurn("turn.updated", { state: "running", previous: "awaiting_approval" })
    ]],
    ["working", Duration.hours(2), [inTurn("turn.completed", { state: "failed", reason: "turn_timeout", initiator: "policy" })]],
    ["interrupting", Duration.hours(2), [inTurn("turn.completed", { state: "failed", reason: "turn_timeout", initiator: "policy" })]],
    ["pending", Duration.days(30), [status("terminating", "running", "max_lifetime")]],
    ["terminating", Duration.minutes(10), [
      inTurn("turn.completed", { state: "interrupted", reason: "terminated", initiator: "user" }),
      status("failed", "terminating", "release_failed", "provider")
    ]]
  ]
  for (const [scene, limit, events] of rows) {
    it(`${scene}: nothing happens a millisecond before ${Duration.format(limit)}`, () => {
      const history = reach(scene)
      assert.deepStrictEqual(nextDeadline(history.sandbox, limits), DateTime.addDuration(createdAt, limit))
      assert.deepStrictEqual(expire(history.wait(Duration.subtract(limit, Duration.millis(1)))), [])
    })
    it(`${scene}: after ${Duration.format(limit)} it is applied, once`, () => {
      const history = reach(scene).wait(limit)
      assert.deepStrictEqual<ReadonlyArray<object>>(expire(history), events)
      assert.deepStrictEqual(expire(history), [])
    })
  }

  it.each<Scene>(["succeeded", "failed", "terminated"])("nothing expires of a sandbox that is %s", (scene) => {
    const history = reach(scene)
    assert.isNull(nextDeadline(history.sandbox, limits))
    assert.deepStrictEqual(expire(history.wait("365 days")), [])
  })

  it.each<Scene>(["queued", "creating", "pending", "working", "asking", "idle"])("of 30 days ends a sandbox that is %s", (scene) => {
    const far = Duration.days(365)
    const longer = { ...limits, queue: far, boot: far, idle: far, turn: far, approval: far }
    const { sandbox } = reach(scene)
    const at = (now: DateTime.Utc) => Result.getOrThrow(decide(sandbox, { _tag: "Expire" }, { limits: longer, now }))
    const end = DateTime.add(createdAt, { days: 30 })
    const events = at(end).filter(({ type }) => type === "sandbox.status")
    assert.deepStrictEqual<ReadonlyArray<object>>(events, [status("terminating", sandbox.status, "max_lifetime"), ...released(scene)])
    if (scene !== "asking") assert.deepStrictEqual(at(DateTime.subtract(end, { milliseconds: 1 })), [])
  })
})

describe("a limit counts from", () => {
  it("the first lease for boot, and one taken over does not begin it again", () => {
    const history = reach("queued").wait("50 minutes")
    history.system({ _tag: "StartBoot" })
    history.wait("6 minutes").system({ _tag: "StartBoot" })
    assert.deepStrictEqual(nextDeadline(history.sandbox, limits), DateTime.add(createdAt, { minutes: 60 }))
  })

  describe("the first lease for boot, and does not count the time of setups:", () => {
    const start = (minutes: number) => ({ _tag: "StartSetup", limit: Duration.minutes(minutes) }) as const
    const end = { _tag: "ReportBoot", data: { stage: "setup", ms: 1, repo: "acme/shop", cache: "none" } } as const
    const minutesOf = ({ sandbox }: History) => Duration.toMinutes(DateTime.distance(createdAt, nextDeadline(sandbox, limits) ?? createdAt))

    it("a running setup extends the boot by its limit, an ended one by its duration", () => {
      const history = reach("creating").wait("2 minutes")
      history.system(start(30))
      assert.strictEqual(minutesOf(history), 40)
      assert.deepStrictEqual(expire(history.wait("28 minutes")), [])
      history.system(end)
      assert.strictEqual(minutesOf(history), 38)
      // The report of the next repository says nothing more.
      history.wait("1 minute").system(end)
      assert.strictEqual(minutesOf(history), 38)
      assert.deepStrictEqual<ReadonlyArray<object>>(expire(history.wait("7 minutes")), [status("failed", "creating", "boot_timeout")])
    })

    it("a setup that ended by an earlier clock than it began took no time, and shortens no boot", () => {
      const history = reach("creating")
      history.system(start(30))
      const reported = { type: "sandbox.boot", data: end.data } as const
      const ended = evolve(history.sandbox, reported, DateTime.subtract(createdAt, { minutes: 5 }))
      assert.deepStrictEqual(ended.setupTime, { spentMs: 0, run: null })
      assert.deepStrictEqual(nextDeadline(ended, limits), DateTime.add(createdAt, { minutes: 10 }))
    })

    it("a setup that hangs ends the boot at its limit", () => {
      const history = reach("creating")
      history.system(start(60))
      assert.deepStrictEqual(expire(history.wait(Duration.millis(70 * 60_000 - 1))), [])
      assert.deepStrictEqual<ReadonlyArray<object>>(expire(history.wait("1 milli")), [status("failed", "creating", "boot_timeout")])
    })

    it("a setup that restarts after a lost worker has its full time again, and all runs together have an hour", () => {
      const history = reach("creating")
      history.system(start(30))
      history.wait("20 minutes").system(start(30))
      assert.strictEqual(minutesOf(history), 60)
      history.wait("40 minutes").system(start(30))
      assert.strictEqual(minutesOf(history), 70)
      history.wait("9 minutes").system(start(30))
      assert.strictEqual(minutesOf(history), 70)
    })

    it("no other stage has more time, nor a setup that runs again in a running sandbox", () => {
      const history = reach("creating")
      for (const stage of ["provision", "clone", "agent_start"] as const) {
        history.system({ _tag: "ReportBoot", data: { stage, ms: 1 } })
      }
      assert.strictEqual(minutesOf(history), 10)
      const idle = reach("idle")
      idle.system(start(60))
      assert.isNull(idle.sandbox.setupTime)
      assert.strictEqual(minutesOf(idle), 24 * 60)
    })
  })

  it("the agent's taking the prompt for a turn, whatever was approved meanwhile", () => {
    const history = reach("pending").wait("40 minutes")
    history.system({ _tag: "StartTurn", turnId: turn })
    history.wait("10 minutes").system(request(turn, "call-1"))
    history.wait("10 minutes").person({ _tag: "Decide", approvalId: "call-1", decision: "approve" })
    assert.deepStrictEqual(nextDeadline(history.sandbox, limits), DateTime.add(createdAt, { minutes: 160 }))
  })

  it("each approval's own request", () => {
    const history = reach("asking").wait("10 minutes")
    history.system(request(turn, "call-2"))
    history.wait("20 minutes")
    assert.deepStrictEqual(history.system({ _tag: "Expire" }).after.approvals.map(({ approval_id }) => approval_id), ["call-2"])
    assert.strictEqual(history.sandbox.turn?.state, "awaiting_approval")
    history.wait("10 minutes")
    assert.strictEqual(history.system({ _tag: "Expire" }).after.turn?.state, "running")
  })

  it("the end of the last turn for the idle window; a message begins a new one", () => {
    const history = reach("working").wait("1 hour")
    assert.deepStrictEqual(expire(history), [])
    history.system({ _tag: "EndTurn", turnId: turn, state: "failed" })
    history.wait("23 hours").person({ _tag: "Send", prompt: "Again." })
    assert.deepStrictEqual(expire(history.wait("24 hours")), [])
    const second = history.turn
    history.system({ _tag: "StartTurn", turnId: second })
    history.system({ _tag: "EndTurn", turnId: second, state: "succeeded" })
    assert.deepStrictEqual(expire(history.wait("1439 minutes")), [])
    assert.deepStrictEqual<ReadonlyArray<object>>(expire(history.wait("1 minute")), [status("succeeded", "running", "idle_timeout")])
  })

  it.each(["working", "pending"] as const)("the interrupt that ended a turn that was %s, and the sandbox then succeeds", (scene) => {
    const history = reach(scene).wait("20 minutes")
    history.person({ _tag: "Interrupt" })
    history.system({ _tag: "EndTurn", turnId: turn, state: "interrupted" })
    assert.deepStrictEqual(expire(history.wait("1439 minutes")), [])
    assert.deepStrictEqual<ReadonlyArray<object>>(expire(history.wait("1 minute")), [status("succeeded", "running", "idle_timeout")])
  })

  it("the start where there was no turn yet", () => {
    const history = reach("creating").wait("5 minutes")
    history.system({ _tag: "FinishBoot", turnId: history.turn })
    const { sandbox } = history
    assert.deepStrictEqual(
      nextDeadline({ ...sandbox, turn: null, idleSince: null }, limits),
      DateTime.add(createdAt, { hours: 24, minutes: 5 })
    )
  })

  it("its pending approval does not let a sandbox idle", () => {
    const history = reach("working").wait("1 hour")
    history.system(request(turn, "call-1"))
    assert.deepStrictEqual(expire(history.wait(Duration.subtract(limits.approval, Duration.millis(1)))), [])
  })
})

describe("a publication that is under way", () => {
  const publishing = (scene: Scene) => {
    const history = reach(scene)
    history.system({ _tag: "ReportPublication", data: { repo: "acme/shop", action_state: "publishing" } })
    return history
  }
  const told = (history: History) => expire(history).filter(({ type }) => type === "pull_request.updated")

  const ended = (history: History) =>
    history.system({ _tag: "ReportPublication", data: { repo: "acme/shop", action_state: "idle", number: 1, head_sha: "abc" } })
  const gone = [{
    type: "pull_request.updated",
    data: { repo: "acme/shop", action_state: "failed", error: { code: "sandbox_not_running", message: "The sandbox is not running." } }
  }]

  it.each<Scene>(["idle", "stuck"])("keeps a sandbox that is %s from idling, and its end begins the window anew", (scene) => {
    const history = publishing(scene)
    assert.deepStrictEqual(expire(history.wait("48 hours")), [])
    ended(history)
    assert.deepStrictEqual(nextDeadline(history.sandbox, limits), DateTime.add(createdAt, { hours: 72 }))
    assert.strictEqual(expire(history.wait("24 hours")).at(-1)?.type, "sandbox.status")
  })

  it("that ends in a turn begins no window", () => {
    const history = publishing("working").wait("1 hour")
    ended(history)
    assert.isNull(history.sandbox.idleSince)
  })

  it("ends with the sandbox at the end of its lifetime, and fails", () => {
    assert.deepStrictEqual(nextDeadline(publishing("idle").sandbox, limits), DateTime.addDuration(createdAt, limits.lifetime))
    assert.deepStrictEqual<ReadonlyArray<object>>(told(publishing("idle").wait(limits.lifetime)), gone)
  })

  it("goes on while the sandbox does", () => {
    assert.deepStrictEqual(told(publishing("asking").wait(limits.approval)), [])
    assert.deepStrictEqual(told(publishing("working").wait(limits.turn)), [])
  })
})

describe("when several are due at once", () => {
  it("the lifetime comes first, and what it ends cannot expire any more", () => {
    for (const [scene, from] of [["queued", "queued"], ["creating", "creating"], ["idle", "running"]] as const) {
      assert.deepStrictEqual<ReadonlyArray<object>>(expire(reach(scene).wait("31 days")), [
        status("terminating", from, "max_lifetime"),
        ...released(scene)
      ])
    }
  })

  it("approvals expire before the turn that asked for them, oldest first; the idle window begins only then", () => {
    const history = reach("asking")
    history.system(request(turn, "call-2"))
    history.wait("3 hours")
    assert.deepStrictEqual<ReadonlyArray<object>>(expire(history), [
      inTurn("approval.resolved", { approval_id: "call-1", outcome: "denied", by: "timeout" }),
      inTurn("approval.resolved", { approval_id: "call-2", outcome: "denied", by: "timeout" }),
      inTurn("turn.updated", { state: "running", previous: "awaiting_approval" }),
      inTurn("turn.completed", { state: "failed", reason: "turn_timeout", initiator: "policy" })
    ])
    assert.strictEqual(history.sandbox.status, "running")
    assert.deepStrictEqual(nextDeadline(history.sandbox, limits), DateTime.add(history.now, { hours: 24 }))
  })

  it("the next deadline is the earliest of all", () => {
    const history = reach("working").wait("1 hour")
    history.system(request(turn, "call-1"))
    assert.deepStrictEqual(nextDeadline(history.sandbox, limits), DateTime.add(createdAt, { minutes: 90 }))
    history.wait("45 minutes").system(request(turn, "call-2"))
    history.person({ _tag: "Decide", approvalId: "call-1", decision: "deny" })
    assert.deepStrictEqual(nextDeadline(history.sandbox, limits), DateTime.add(createdAt, { minutes: 120 }))
  })
})
