import { assert, describe, it } from "@effect/vitest"
import {
  afterBoot,
  afterRun,
  type Automation,
  bootOf,
  creationKey,
  dueRun,
  enabled,
  limitOf,
  nextRun,
  PAUSED_AFTER,
  runId
} from "@slipway/domain/automation/rules/Automation"
import { AutomationSettings, type Trigger } from "@slipway/domain/automation/schema/Automation"
import type { Sandbox } from "@slipway/domain/sandbox/rules/Sandbox"
import { reader } from "@slipway/domain/text/InvalidRequest"
import * as DateTime from "effect/DateTime"
import * as Result from "effect/Result"

const utc = (iso: string) => DateTime.makeUnsafe(iso)
const daily = (cron: string, timeZone = "Europe/Berlin"): Trigger => ({ type: "schedule", cron, timeZone })
/** The next times of a schedule, one after the other. */
const times = (trigger: Trigger, after: string, count: number) => {
  const found: Array<string> = []
  for (let at = utc(after); found.length < count;) {
    const next = nextRun(trigger, at)
    if (next === null) break
    found.push(DateTime.formatIso(next))
    at = next
  }
  return found
}

const settings = {
  name: "Nightly",
  trigger: daily("0 7 * * 1-5"),
  repos: [{ fullName: "acme/shop" }],
  prompt: "Update the dependencies.",
  toolApprovalMode: "auto",
  maxRunning: 1,
  maxPerDay: 20
} as const satisfies AutomationSettings
const automation: Automation = {
  id: "0193aaaa-0000-7000-8000-000000000001",
  grantId: "0193aaaa-0000-7000-8000-000000000002",
  createdBy: "user_01J00000000000000000000000",
  test: false,
  createdAt: utc("2026-11-01T00:00:00Z"),
  settings,
  failures: 0,
  paused: null,
  dueAt: utc("2026-11-02T06:00:00Z")
}

describe("times of schedules", () => {
  it("follow the clock of their zone", () => {
    assert.deepStrictEqual(times(daily("0 7 * * 1-5"), "2026-10-23T12:00:00Z", 2), ["2026-10-26T06:00:00.000Z", "2026-10-27T06:00:00.000Z"])
    assert.deepStrictEqual(times(daily("0 7 * * 1-5"), "2026-10-22T12:00:00Z", 1), ["2026-10-23T05:00:00.000Z"])
  })

  it("in a gap of the clock count once, after the gap", () => {
    assert.deepStrictEqual(times(daily("30 2 * * *"), "2026-03-28T12:00:00Z", 2), ["2026-03-29T01:30:00.000Z", "2026-03-30T00:30:00.000Z"])
    assert.deepStrictEqual(times(daily("0 2,3 * * *"), "2026-03-28T12:00:00Z", 2), ["2026-03-29T01:00:00.000Z", "2026-03-30T00:00:00.000Z"])
  })

  it("that the clock repeats count once, the first time", () => {
    assert.deepStrictEqual(times(daily("30 2 * * *"), "2026-10-24T12:00:00Z", 2), ["2026-10-25T00:30:00.000Z", "2026-10-26T01:30:00.000Z"])
  })

  it("belong to schedules alone", () => assert.isNull(nextRun({ type: "webhook" }, utc("2026-03-28T12:00:00Z"))))
})

describe("a schedule", () => {
  it("is due at its time and not before, and not while it is paused", () => {
    assert.isNull(dueRun(automation, utc("2026-11-02T05:59:59.999Z")))
    assert.isNotNull(dueRun(automation, utc("2026-11-02T06:00:00Z")))
    assert.isNull(dueRun({ ...automation, paused: { at: automation.createdAt, reason: "paused" } }, utc("2026-11-02T06:00:00Z")))
  })

  it("makes one run of all times that were missed, and goes on after the present", () => {
    const due = dueRun(automation, utc("2026-11-05T12:00:00Z"))
    assert.strictEqual(due?.beginning.triggerId, "schedule/2026-11-02T06:00:00.000Z")
    assert.deepStrictEqual(due?.next, utc("2026-11-06T06:00:00Z"))
  })

  it("starts with its next time when it is enabled", () => {
    assert.deepStrictEqual(enabled(automation, utc("2026-11-05T12:00:00Z")), {
      failures: 0,
      paused: null,
      dueAt: utc("2026-11-06T06:00:00Z")
    })
  })
})

describe("runs", () => {
  const at = utc("2026-11-05T12:00:00Z")
  const refused = { type: "refused", code: "repo_not_accessible", message: "No." } as const

  it("are limited at once and by the day", () => {
    assert.isNull(limitOf({ maxRunning: 2, maxPerDay: 5 }, { running: 1, today: 4 }))
    assert.strictEqual(limitOf({ maxRunning: 2, maxPerDay: 5 }, { running: 2, today: 4 }), "running")
    assert.strictEqual(limitOf({ maxRunning: 2, maxPerDay: 5 }, { running: 1, today: 5 }), "day")
  })

  it("pause their automation after five in a row that could not start", () => {
    const after = (failures: number) => afterRun({ failures, paused: null }, refused, at)
    assert.deepStrictEqual(after(PAUSED_AFTER - 2), { failures: 4, paused: null })
    assert.deepStrictEqual(after(PAUSED_AFTER - 1), { failures: 5, paused: { at, reason: "failures" } })
    assert.deepStrictEqual(afterRun({ failures: 4, paused: null }, { type: "skipped", limit: "day" }, at), { failures: 4, paused: null })
    assert.strictEqual(PAUSED_AFTER, 5)
  })

  it("that start end the row, and keep a person's pause", () => {
    const paused = { at, reason: "paused" } as const
    const started = { type: "started", sandboxId: "c_0123456789ab" } as never
    assert.deepStrictEqual(afterRun({ failures: 4, paused }, started, at), { failures: 4, paused })
    assert.deepStrictEqual(afterBoot({ failures: 4, paused }, "booted", at), { failures: 0, paused })
    assert.deepStrictEqual(afterRun({ failures: 4, paused }, refused, at), { failures: 5, paused })
  })

  it("whose sandbox cannot boot count like those that could not start", () => {
    const progress = { failures: 4, paused: null }
    assert.deepStrictEqual(afterBoot(progress, "failed", at), { failures: 5, paused: { at, reason: "failures" } })
    assert.deepStrictEqual(afterBoot({ ...progress, failures: 3 }, "failed", at), { failures: 4, paused: null })
    assert.deepStrictEqual(afterBoot(progress, "none", at), progress)
    const boots = (status: Sandbox["status"], startedAt: DateTime.Utc | null = null) => bootOf({ status, startedAt })
    assert.deepStrictEqual([boots("queued"), boots("creating"), boots("terminating")], [null, null, null])
    assert.deepStrictEqual([boots("failed"), boots("terminated"), bootOf(null)], ["failed", "none", "none"])
    assert.deepStrictEqual([boots("running", at), boots("failed", at), boots("terminating", at)], ["booted", "booted", "booted"])
  })

  it("have one id and one key for each event of an automation", () => {
    const ids = { derive: (name: string) => name }
    assert.notStrictEqual(runId(ids, "a", "x"), runId(ids, "b", "x"))
    assert.notStrictEqual(runId(ids, "a", "x"), runId(ids, "a", "y"))
    assert.strictEqual(creationKey("0193aaaa-0000-7000-8000-000000000001"), "automation/0193aaaa-0000-7000-8000-000000000001")
  })
})

describe("settings", () => {
  const read = reader(AutomationSettings, "automation")
  const refusal = (more: object) =>
    Result.match(read({ ...settings, ...more }), { onFailure: ({ message }) => message, onSuccess: () => "" })

  it("have defaults", () => {
    const { maxPerDay: _d, maxRunning: _r, toolApprovalMode: _t, ...least } = settings
    const found = Result.getOrThrow(read({ ...least, trigger: { type: "schedule", cron: "0 7 * * *" } }))
    assert.deepInclude(found, { maxRunning: 1, maxPerDay: 20, toolApprovalMode: "auto", trigger: daily("0 7 * * *", "UTC") })
  })

  it("refuse placeholders that their trigger cannot fill in", () => {
    assert.include(refusal({ prompt: "Fix {{issue.title}}." }), "{{issue.title}}")
    assert.include(refusal({ trigger: { type: "mention" }, prompt: "{{payload.a}}" }), "{{payload.a}}")
    assert.include(refusal({ trigger: { type: "webhook" }, prompt: "{{payload}}" }), "{{payload}}")
    assert.include(refusal({ trigger: { type: "webhook" }, prompt: "{{payload.a.b.c.d.e.f.g.h.i}}" }), "payload")
    assert.strictEqual(refusal({ trigger: { type: "webhook" }, prompt: "{{ payload.a-b.0.c_d }} {{run.time}}" }), "")
    assert.strictEqual(refusal({ trigger: { type: "label", label: "slipway" }, prompt: "{{issue.body}} {{label}}" }), "")
    assert.strictEqual(refusal({ trigger: { type: "mention" }, prompt: "{{comment.body}} {{comment.author}}" }), "")
    assert.include(refusal({ prompt: "{{run.time}}".repeat(21) }), "20 placeholders")
  })

  it("refuse schedules that have no times, that run by the second, and unknown zones", () => {
    for (
      const cron of ["", "0 7 * *", "* * * * * *", "61 * * * *", "0 0 30 2 *", "0 0 31 4,6 *", "0 0 29 2 *", "0 0 31 2 */2", "0  7 * * *"]
    ) {
      assert.include(refusal({ trigger: { type: "schedule", cron } }), "trigger.cron", cron)
    }
    assert.strictEqual(refusal({ trigger: { type: "schedule", cron: "0 0 31 2 1" } }), "")
    for (const timeZone of ["", "Mars/Olympus", "Europe/Berlin\0", "x".repeat(65)]) {
      assert.include(refusal({ trigger: { type: "schedule", cron: "0 7 * * *", timeZone } }), "trigger.timeZone", timeZone)
    }
  })

  it("refuse what is out of bounds", () => {
    for (
      const more of [{ maxRunning: 0 }, { maxRunning: 21 }, { maxPerDay: 201 }, { maxPerDay: 1.5 }, { repos: [] }, { name: " " }, {
        name: "a\nb"
      }, { prompt: " " }, { prompt: "x".repeat(20_001) }, { trigger: { type: "label", label: "" } }, { trigger: { type: "push" } }, {
        unknown: 1
      }]
    ) {
      assert.notStrictEqual(refusal(more), "", JSON.stringify(more))
    }
  })
})
