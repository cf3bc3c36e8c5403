/** What holds of every sandbox, whatever is done to it and in which order. */
import { assert, describe, it } from "@effect/vitest"
import { isSettled } from "@slipway/domain/sandbox/Sandbox"
import type { SandboxEvent } from "@slipway/domain/sandbox/SandboxEvent"
import { Sandbox } from "@slipway/domain/sandbox/schema/Sandbox"
import { nextDeadline } from "@slipway/domain/sandbox/TimeLimit"
import { isActive } from "@slipway/domain/sandbox/Turn"
import { createdAt, type History, hostile, legal, limits, play, thorough } from "@slipway/domain/testing/Histories"
import { historyLaws } from "@slipway/domain/testing/Laws"
import { SandboxResource, toResource } from "@slipway/http/api/SandboxResource"
import * as DateTime from "effect/DateTime"
import * as Schema from "effect/Schema"

const states = ({ first, moments }: History) => [first, ...moments.map(({ after }) => after)]
const counts = ({ type }: SandboxEvent) =>
  /^(?:sandbox\.(?:status|restoring|restored)|message\.(?:queued|steered|cancelled)|turn\.|approval\.|pull_request\.)/u.test(type)

const always = (name: string, property: (history: History) => void) => {
  it.prop(`${name} (sensible)`, [legal], ([plan]) => property(play(plan)), thorough)
  it.prop(`${name} (hostile)`, [hostile], ([plan]) => property(play(plan)), thorough)
}

describe("every history", () => {
  for (const { holds, name } of historyLaws) always(name, holds)

  it.prop("sensible people are never refused by the machine", [legal], ([plan]) => {
    assert.deepStrictEqual(play(plan).moments.filter(({ refused }) => refused !== null), [])
  }, thorough)

  always("can be stored and read back", ({ sandbox }) => {
    const json = JSON.stringify(Schema.encodeSync(Sandbox)(sandbox))
    const { metadata, ...read } = Schema.decodeUnknownSync(Sandbox)(JSON.parse(json))
    assert.deepStrictEqual({ ...read, metadata: { ...metadata } }, sandbox)
  })

  always("counts every change of sandbox, turn, approval, pull request and tree in its revision, and every event in its log", (history) => {
    let revision = 1
    let lastSeq = 1
    for (const { after, events } of history.moments) {
      revision += events.filter(counts).length
      lastSeq += events.length
      assert.deepStrictEqual([after.revision, after.lastSeq], [revision, lastSeq])
    }
  })

  always("has no active turn once it is settled", (history) => {
    for (const { status, turn } of states(history)) assert.isFalse(isSettled(status) && isActive(turn))
  })

  always("has pending approvals exactly while its turn waits for them", (history) => {
    for (const { approvals, turn } of states(history)) {
      assert.strictEqual(approvals.length > 0, turn?.state === "awaiting_approval")
      assert.strictEqual(new Set(approvals.map(({ approval_id }) => approval_id)).size, approvals.length)
    }
  })

  always("tells the time it first ran and was first over, and never changes it", (history) => {
    let [startedAt, completedAt]: ReadonlyArray<DateTime.Utc | null> = [null, null]
    for (const { at, event } of history.log) {
      if (event.type !== "sandbox.status") continue
      if (event.data.status === "running") startedAt ??= at
      if (["succeeded", "failed", "terminated"].includes(event.data.status)) completedAt ??= at
    }
    assert.deepStrictEqual([history.sandbox.startedAt, history.sandbox.completedAt], [startedAt, completedAt])
  })

  always("shows an error exactly while it is failed, and fits the interface", (history) => {
    for (const sandbox of states(history)) {
      const resource = toResource(sandbox, "https://slipway.example")
      Schema.encodeSync(SandboxResource)(resource)
      assert.strictEqual(resource.error !== null, sandbox.status === "failed")
    }
  })
})

describe("commands of people, in every history", () => {
  const answered = ({ moments }: History) =>
    moments.flatMap((moment) => moment.result === null ? [] : [{ ...moment, result: moment.result }])

  always("a rejection says why and changes nothing; nothing else says why", (history) => {
    for (const { after, before, result: { outcome, rejection, revision } } of answered(history)) {
      assert.strictEqual(rejection !== undefined, outcome === "rejected")
      if (outcome !== "rejected") continue
      assert.strictEqual(after, before)
      assert.strictEqual(revision, before.revision)
    }
  })

  always("an applied one tells the revision after it", (history) => {
    for (const { after, result: { outcome, revision } } of answered(history)) {
      if (outcome === "applied") assert.strictEqual(revision, after.revision)
    }
  })

  always("terminate is never rejected, and the first one ends the sandbox", (history) => {
    history.moments.filter(({ did }) => did._tag === "Terminate").forEach(({ after, result }, i) => {
      assert.strictEqual(result?.outcome, i === 0 ? "applied" : "duplicate")
      if (i === 0) assert.include(["terminating", "terminated"], after.status)
    })
  })

  it.prop("terminating and releasing ends any sandbox for good", [hostile], ([plan]) => {
    const history = play(plan)
    history.person({ _tag: "Terminate" })
    if (history.sandbox.status === "terminating") history.system({ _tag: "Release" })
    // Only a release that the host refused for too long is not taken back by a repeated command.
    assert.include(["terminated", "failed"], history.sandbox.status)
    if (history.sandbox.status === "failed") assert.strictEqual(history.sandbox.reason, "release_failed")
  }, thorough)
})

describe("time limits, in every history", () => {
  const expire = (history: History) => history.system({ _tag: "Expire" })

  always("there is a next deadline exactly while something can expire", (history) => {
    const next = nextDeadline(history.sandbox, limits)
    assert.strictEqual(next === null, isSettled(history.sandbox.status))
    history.now = next ?? DateTime.add(history.now, { days: 365 })
    assert.strictEqual(expire(history).events.length > 0, next !== null)
  })

  always("nothing expires before the next deadline", (history) => {
    const next = nextDeadline(history.sandbox, limits)
    if (next === null) return
    history.now = DateTime.subtract(next, { milliseconds: 1 })
    assert.deepStrictEqual(expire(history).events, [])
  })

  always("expiring twice at one instant is expiring once", (history) => {
    expire(history)
    const { after, before, events } = expire(history)
    assert.deepStrictEqual(events, [])
    assert.strictEqual(after, before)
    const next = nextDeadline(after, limits)
    assert.isTrue(next === null || DateTime.isGreaterThan(next, history.now))
  })

  always("nothing of a sandbox lives on for ever", (history) => {
    for (let i = 0; i < 60; i++) {
      const next = nextDeadline(history.sandbox, limits)
      if (next === null) break
      history.now = DateTime.max(history.now, next)
      expire(history)
    }
    assert.isTrue(isSettled(history.sandbox.status))
    assert.isTrue(DateTime.isLessThanOrEqualTo(createdAt, history.now))
  })
})
