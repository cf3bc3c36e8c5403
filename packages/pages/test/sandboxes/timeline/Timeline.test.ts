import { assert, describe, it } from "@effect/vitest"
import type { RecordedEvent, SandboxEvent } from "@slipway/domain/sandbox/rules/SandboxEvent"
import { DateTime, Schema } from "effect"
import { duration } from "../../../src/html/Moments.ts"
import { type Kind, merged, Run, type Segment } from "../../../src/sandboxes/timeline/Timeline.ts"
import { render } from "../../../src/sandboxes/timeline/TimelinePiece.ts"

const begin = DateTime.makeUnsafe("2026-11-21T02:41:00.000Z")
const after = (seconds: number) => DateTime.add(begin, { seconds })

const status = (status: "queued" | "creating" | "running" | "succeeded"): SandboxEvent => ({
  type: "sandbox.status",
  data: { status, previous: null, reason: null, initiator: "system" }
})
const boot = (stage: "provision" | "clone" | "setup" | "agent_start" | "ready"): SandboxEvent => ({
  type: "sandbox.boot",
  data: { stage, ms: 1 }
})
const started: SandboxEvent = {
  type: "turn.started",
  turn_id: "turn",
  data: { prompt_id: "turn", text: "Say hello.", files: [], author: { id: "user" } }
}
const completed: SandboxEvent = { type: "turn.completed", turn_id: "turn", data: { state: "succeeded" } }
const tool = (call_id: string, status: "running" | "completed"): SandboxEvent => ({
  type: "tool.updated",
  data: { part_id: `tool:${call_id}`, message_id: "m", call_id, tool: "ls", status }
})
const asked: SandboxEvent = { type: "approval.requested", data: { approval_id: "a", tool: "rm", expires_at: after(999) } }
const resolved: SandboxEvent = { type: "approval.resolved", data: { approval_id: "a", outcome: "approved", by: "user" } }
const used = (costMicroUsd: number, llmRequestCount: number, tokens?: readonly [number, number, number]): SandboxEvent => {
  const [input = 0, cachedInput = 0, output = 0] = tokens ?? []
  return {
    type: "usage.updated",
    data: {
      usage: { costMicroUsd, llmRequestCount, creditsChargedMicros: 0 },
      ...(tokens === undefined ? {} : { tokens: { input, cachedInput, output } })
    }
  }
}

/** The view of events at these seconds, up to the last one. */
const told = (steps: ReadonlyArray<readonly [second: number, event: SandboxEvent]>, until: number, first = 0) => {
  const run = new Run(begin, first)
  steps.forEach(([second, event], i) => run.add({ seq: first + i + 1, at: after(second), event } satisfies RecordedEvent))
  return { run, ...run.told(after(until)) }
}
const inSeconds = (segments: ReadonlyArray<Segment>) =>
  segments.map(({ from, kind, to }) => [kind, (from - begin.epochMilliseconds) / 1000, (to - begin.epochMilliseconds) / 1000])

describe("the timeline of a run", () => {
  it("tells queue, boot stages, turns, tools, waiting for a person and what is between, each at its place", () => {
    const { run, segments, totals, turns } = told([
      [0, status("queued")],
      [10, status("creating")],
      [12, boot("provision")],
      [20, boot("clone")],
      [50, boot("setup")],
      [55, boot("agent_start")],
      [55, status("running")],
      [60, started],
      [70, tool("1", "running")],
      [75, asked],
      [90, resolved],
      [95, tool("1", "completed")],
      [96, used(1500, 2)],
      [100, completed],
      [101, used(2000, 3)],
      [120, started],
      [125, used(2600, 4)],
      [130, completed],
      [140, status("succeeded")]
    ], 140)
    assert.deepStrictEqual(inSeconds(segments), [
      ["queue", 0, 10],
      ["boot", 10, 12],
      ["clone", 12, 20],
      ["setup", 20, 50],
      ["agent", 50, 55],
      ["idle", 55, 60],
      ["turn", 60, 70],
      ["tool", 70, 75],
      ["person", 75, 90],
      ["tool", 90, 95],
      ["turn", 95, 100],
      ["idle", 100, 120],
      ["turn", 120, 130],
      ["idle", 130, 140]
    ])
    assert.deepStrictEqual([totals.get("tool"), totals.get("turn"), totals.get("idle")], [10_000, 25_000, 35_000])
    assert.deepStrictEqual(turns.map(({ costMicroUsd, number, requests, state }) => [number, state, costMicroUsd, requests]), [
      [1, "succeeded", 2000, 3],
      [2, "succeeded", 600, 1]
    ])
    const page = render(run, after(140)).toString()
    for (const said of ["2 min 20 s", "Waiting for a person", "15 s", "11 %", "$0.0020", "Cloning repositories"]) assert.include(page, said)
    // 75 s of 140 s, in thousandths.
    assert.include(page, `<rect class="person" x="535.71" width="107.14"`)
  })

  it("tells the tokens of each turn, also those charged after it ended, and leaves out uncounted ones", () => {
    const { run, turns } = told([
      [1, started],
      [2, used(100, 1, [12_000, 9000, 600])],
      [3, completed],
      [4, used(120, 2, [12_345, 9000, 678])],
      [5, started],
      // Told without tokens: what was counted stays as it was.
      [6, used(130, 3)],
      [7, used(140, 4, [12_355, 9000, 679])],
      [8, completed],
      [9, started],
      [10, used(150, 5)],
      [11, completed]
    ], 12)
    assert.deepStrictEqual(turns.map(({ tokens }) => tokens), [
      { input: 12_345, cachedInput: 9000, output: 678 },
      { input: 10, cachedInput: 0, output: 1 },
      { input: 0, cachedInput: 0, output: 0 }
    ])
    const page = render(run, after(12)).toString()
    for (const said of ["12,345 in, 9,000 of them cached, 678 out", "10 in, 1 out"]) {
      assert.include(page, `<td data-label="Tokens">${said}</td>`)
    }
    assert.include(page, `<td data-label="Model requests">1</td>\n<td data-label="Tokens">None</td></tr>`)
  })

  it("tells no fewer than no tokens when a total goes back or is as large as it gets", () => {
    const most = Number.MAX_SAFE_INTEGER
    const { turns } = told([[1, started], [2, used(1, 1, [most, most, most])], [3, used(1, 1, [5, 5, 5])], [4,
      used(1, 1, [most, most, most])]], 5)
    assert.deepStrictEqual(turns.map(({ tokens }) => tokens), [{ input: most, cachedInput: most, output: most }])
  })

  it("goes on to now, and calls what it did not read earlier", () => {
    const open = told([[5, status("creating")], [9, status("running")], [10, started]], 30)
    assert.deepStrictEqual(inSeconds(open.segments).at(-1), ["turn", 10, 30])
    assert.isNull(open.turns[0]?.to)
    assert.deepStrictEqual(inSeconds(told([[40, started], [50, completed]], 60, 7).segments), [
      ["earlier", 0, 40],
      ["turn", 40, 50],
      ["earlier", 50, 60]
    ])
  })

  it("says how long in the words of people", () => {
    assert.deepStrictEqual([0, 5640, 12_000, 184_000, 3_720_000].map(duration), ["0.0 s", "5.6 s", "12 s", "3 min 4 s", "1 h 2 min"])
  })

  const EVENTS: Readonly<Record<string, SandboxEvent>> = {
    creating: status("creating"),
    running: status("running"),
    succeeded: status("succeeded"),
    clone: boot("clone"),
    ready: boot("ready"),
    started,
    completed,
    begun: tool("1", "running"),
    ended: tool("1", "completed"),
    asked,
    resolved
  }
  const Step = Schema.Struct({
    event: Schema.Literals(["creating", "running", "succeeded", "clone", "ready", "started", "completed", "begun", "ended", "asked",
      "resolved"]),
    // Clocks of processes differ: time may run back.
    pause: Schema.Int.check(Schema.isBetween({ minimum: -3, maximum: 500 }))
  })

  it.prop(
    "its segments follow each other without a gap and add up to the whole, as its totals do, whatever happened",
    [Schema.Array(Step)],
    ([steps]) => {
      let second = 0
      const { segments, totals } = told(
        steps.map(({ event, pause }) => [second += pause, EVENTS[event] ?? started] as const),
        second + 1000
      )
      let at = begin.epochMilliseconds
      for (const { from, to } of segments) {
        assert.strictEqual(from, at)
        assert.isAbove(to, from)
        at = to
      }
      assert.strictEqual(at, after(second + 1000).epochMilliseconds)
      assert.strictEqual([...totals.values()].reduce((sum, millis) => sum + millis, 0), at - begin.epochMilliseconds)
    },
    { arbitrary: { runs: 200 } }
  )

  it("is bounded for 10,000 events: short segments are merged, and what is long stays as it was", () => {
    const steps: Array<readonly [number, SandboxEvent]> = [[1, status("creating")], [2, status("running")], [3, started]]
    for (let i = 0; i < 5000; i++) steps.push([10 + i, tool(String(i), "running")], [10.2 + i, tool(String(i), "completed")])
    steps.push([5020, asked], [9000, resolved])
    const { segments, totals } = told(steps, 9500)
    assert.isAtMost(segments.length, 901)
    assert.deepInclude(inSeconds(segments), ["person", 5020, 9000])
    assert.closeTo(totals.get("tool") ?? 0, 1_000_000, 1)
    const kinds = new Set<Kind>(merged(segments).map(({ kind }) => kind))
    assert.isTrue(kinds.has("turn"))
  })
})
