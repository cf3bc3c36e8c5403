/** What holds of every sandbox, whatever is done to it and in which order. */
import { assert, describe, it } from "@effect/vitest"
import { DateTime, Schema } from "effect"
import type { Approval } from "@slipway/domain/sandbox/Approval"
import { evolve, initial, isSettled, Sandbox } from "@slipway/domain/sandbox/Sandbox"
import { nextDeadline } from "@slipway/domain/sandbox/TimeLimit"
import { fromWire, type SandboxEvent, toWire } from "@slipway/domain/sandbox/SandboxEvent"
import { SandboxResource, toResource } from "@slipway/domain/sandbox/SandboxResource"
import { isActive } from "@slipway/domain/sandbox/Turn"
import { createdAt, creation, type History, hostile, isAsked, legal, limits, play, thorough } from "@slipway/domain/testing/Histories"

/** `from>to reason/initiator` of every change of decisions 2.1 that names its cause. */
const changes = new Set([
  "queued>creating null/system", "queued>failed queue_timeout/policy", "creating>running null/system",
  "creating>failed boot_timeout/policy", "creating>failed boot_failed/provider", "creating>failed clone_failed/provider",
  "creating>failed repo_not_accessible/provider", "running>succeeded idle_timeout/policy", "running>failed last_turn_failed/policy",
  "running>failed agent_lost/provider", "running>failed host_lost/provider", "terminating>failed release_failed/provider",
  ...["queued", "creating", "running", "succeeded", "failed"].map((from) => `${from}>terminating terminated/user`),
  ...["queued", "creating", "running"].flatMap((from) => [
    `${from}>terminating max_lifetime/policy`, `${from}>terminating grant_revoked/policy`
  ]),
  "terminating>terminated terminated/user", "terminating>terminated max_lifetime/policy", "terminating>terminated grant_revoked/policy"
])

/** Decisions 2.2. */
const steps = new Set([
  "pending>running", "pending>cancelled", "running>running", "running>awaiting_approval", "awaiting_approval>running",
  ...["running", "awaiting_approval"].flatMap((from) => ["succeeded", "failed", "interrupted"].map((to) => `${from}>${to}`))
])

const states = ({ first, moments }: History) => [first, ...moments.map(({ after }) => after)]
const eventsOf = (history: History) => history.log.map(({ event }) => event)
const of = <T extends SandboxEvent["type"]>(type: T) => (event: SandboxEvent): event is Extract<SandboxEvent, { type: T }> =>
  event.type === type
const counts = ({ type }: SandboxEvent) => /^(?:sandbox\.status|turn\.|approval\.|pull_request\.)/u.test(type)

const always = (name: string, property: (history: History) => void) => {
  it.prop(`${name} (sensible)`, [legal], ([plan]) => property(play(plan)), thorough)
  it.prop(`${name} (hostile)`, [hostile], ([plan]) => property(play(plan)), thorough)
}

describe("every history", () => {
  it.prop("sensible people are never refused by the machine", [legal], ([plan]) => {
    assert.deepStrictEqual(play(plan).moments.filter(({ refused }) => refused !== null), [])
  }, thorough)

  always("changes its status only as decisions 2.1 say", (history) => {
    let status: string | null = null
    for (const { data } of eventsOf(history).filter(of("sandbox.status"))) {
      assert.strictEqual(data.previous, status)
      if (status !== null) assert.include(changes, `${status}>${data.status} ${data.reason}/${data.initiator}`)
      status = data.status
    }
    assert.strictEqual(history.sandbox.status, status)
  })

  always("once terminated stays terminated", ({ moments }) => {
    for (const { after, before } of moments) if (before.status === "terminated") assert.strictEqual(after.status, "terminated")
  })

  always("moves its turns only as decisions 2.2 say, one at a time", (history) => {
    let turn: { readonly id: string | undefined; readonly state: string } | null = null
    let n = 0
    for (const event of eventsOf(history)) {
      if (event.type !== "turn.updated" && event.type !== "turn.started" && event.type !== "turn.completed") continue
      if (event.type === "turn.updated" && event.data.state === "pending") {
        assert.isTrue(turn === null || !["pending", "running", "awaiting_approval"].includes(turn.state))
        n += 1
        assert.strictEqual(event.turn_id, `${creation.id}/turn/${n}`)
        turn = { id: event.turn_id, state: "pending" }
        continue
      }
      const state: string = event.type === "turn.started" ? "running" : event.data.state
      assert.strictEqual(event.turn_id, turn?.id)
      assert.include(steps, `${turn?.state}>${state}`)
      if (event.type === "turn.updated") assert.strictEqual(event.data.previous, turn?.state)
      turn = { id: event.turn_id, state }
    }
    assert.strictEqual(history.sandbox.turn?.state, turn?.state)
  })

  always("is the fold of what its log says", (history) => {
    const wires = history.log.map(({ at, event }, i) => toWire(creation.id, { seq: i + 1, at, event }))
    const folded = wires.reduce((state, wire) => {
      const { at, event } = fromWire(wire)
      return evolve(state, event, at)
    }, initial(creation))
    assert.deepStrictEqual(folded, history.sandbox)
  })

  always("can be stored and read back", ({ sandbox }) => {
    const json = JSON.stringify(Schema.encodeSync(Sandbox)(sandbox))
    const { metadata, ...read } = Schema.decodeUnknownSync(Sandbox)(JSON.parse(json))
    assert.deepStrictEqual({ ...read, metadata: { ...metadata } }, sandbox)
  })

  always("counts every change of sandbox, turn, approval and pull request in its revision, and every event in its log", (history) => {
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

  always("resolves every approval once, and only one that was requested", (history) => {
    const pending = new Set<string>()
    for (const event of eventsOf(history)) {
      if (event.type === "approval.requested") pending.add(event.data.approval_id)
      if (event.type === "approval.resolved") assert.isTrue(pending.delete(event.data.approval_id))
    }
    assert.deepStrictEqual(Array.from(pending), history.sandbox.approvals.map(({ approval_id }) => approval_id))
  })

  always("keeps the first decision on an approval", (history) => {
    const resolved = eventsOf(history).filter(of("approval.resolved")).map(({ data }) => data)
    const expected = resolved.map(({ approval_id, by, outcome }): Approval => ({ approvalId: approval_id, outcome, by }))
    assert.sameDeepMembers(history.approvals.filter(({ outcome }) => outcome !== null), expected)
    for (const { before, did, events, result } of history.moments) {
      if (did._tag !== "Decide" || result === null) continue
      const pending = before.approvals.some(({ approval_id }) => approval_id === did.approvalId)
      assert.strictEqual(result.outcome === "applied", pending)
      assert.strictEqual(events.length > 0, pending)
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
  const answered = ({ moments }: History) => moments.flatMap((moment) => moment.result === null ? [] : [{ ...moment, result: moment.result }])

  always("repeating one at once changes nothing and finds the first answer", (history) => {
    const last = history.moments.at(-1)
    if (last === undefined || last.result === null || !isAsked(last.did)) return
    const again = history.person(last.did)
    assert.strictEqual(again.after, again.before)
    // A message sent again would be the next one; it has to wait for the turn.
    if (last.did._tag === "Send") return assert.strictEqual(again.refused, "TurnActive")
    assert.deepStrictEqual(again.result, last.result.outcome === "applied" ? { ...last.result, outcome: "duplicate" } : last.result)
  })

  always("one identity is applied at most once, and its duplicates carry the first answer", (history) => {
    const first = new Map<string, number>()
    for (const { events, result: { commandId, outcome, revision } } of answered(history)) {
      if (outcome === "applied") {
        assert.isFalse(first.has(commandId))
        first.set(commandId, revision)
        continue
      }
      assert.deepStrictEqual(events, [])
      if (outcome === "duplicate") assert.strictEqual(first.get(commandId), revision)
    }
  })

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
