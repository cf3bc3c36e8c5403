/** The run of a sandbox as a picture drawn to scale, with a table that says the same, and what each turn cost. */
import type { Principal } from "@slipway/domain/access/schema/Principal"
import type { Sandbox } from "@slipway/domain/sandbox/rules/Sandbox"
import type { SandboxEvent } from "@slipway/domain/sandbox/rules/SandboxEvent"
import { fromWire } from "@slipway/domain/sandbox/schema/SandboxEvent"
import { PAGE, SandboxEvents } from "@slipway/domain/sandbox/usecases/SandboxEvents"
import { LruCache } from "@slipway/domain/store/LruCache"
import { DateTime, Effect } from "effect"
import { columnHeads, html, type Html } from "../../html/Html.ts"
import { duration, moment } from "../../html/Moments.ts"
import { dollars, labels, tokensTold } from "../../shared/SandboxLabels.ts"
import * as Timeline from "./Timeline.ts"

/** The newest events of a log that are read. The time before them is one segment. */
const MOST_EVENTS = 10_000

/** Kept runs, of the sandboxes that were looked at last: only their new events are read. */
const MOST_RUNS = 100

const NAMES: Record<Timeline.Kind, string> = {
  earlier: "Earlier (details expired)",
  queue: "Waiting in the queue",
  boot: "Booting",
  clone: "Cloning repositories",
  setup: "Setup",
  agent: "Starting the agent",
  turn: "The agent thinks and writes",
  tool: "The agent's tools",
  person: "Waiting for a person",
  idle: "Between turns",
  ending: "Ending"
}

/** Types of events that change the timeline; others are not decoded. */
const COUNTS = new Set<SandboxEvent["type"]>(["sandbox.status", "sandbox.boot", "turn.started", "turn.updated", "turn.completed",
  "tool.updated", "approval.requested", "approval.resolved", "question.asked", "question.answered", "usage.updated"])

/** Units of the picture's width; its height is of the style. */
const WIDTH = 1000

const picture = (segments: ReadonlyArray<Timeline.Segment>, begin: number, whole: number): Html => {
  const at = (instant: number) => ((instant - begin) / whole * WIDTH).toFixed(2)
  const rects = segments.map(({ from, kind, to }) =>
    html`<rect class="${kind}" x="${at(from)}" width="${((to - from) / whole * WIDTH).toFixed(2)}" y="0" height="24"></rect>
`
  )
  return html`<svg class="timeline" viewBox="0 0 ${WIDTH} 24" preserveAspectRatio="none" role="img" aria-labelledby="timeline-summary">
${rects}</svg>`
}

/** The colour of a kind, for the table. */
const swatch = (kind: Timeline.Kind): Html =>
  html`<svg class="swatch" viewBox="0 0 10 10" aria-hidden="true"><rect class="${kind}" width="10" height="10"></rect></svg>`

/** As of `until`. */
export const render = (run: Timeline.Run, until: DateTime.Utc): Html => {
  const { segments, totals, turns } = run.told(until)
  const [first, last] = [segments[0], segments.at(-1)]
  const begin = first?.from ?? 0
  const whole = Math.max(1, (last?.to ?? 0) - begin)
  const rows = Timeline.KINDS.flatMap((kind) => {
    const millis = totals.get(kind)
    if (millis === undefined) return []
    const share = millis / whole * 100
    return [
      html`<tr><th scope="row">${swatch(kind)}
${NAMES[kind]}</th><td data-label="Time">${duration(millis)}</td>
<td data-label="Share">${share > 0 && share < 1 ? "under 1" : share.toFixed(0)} %</td></tr>
`
    ]
  })
  const ofTurns = turns.map(({ costMicroUsd, from, number, requests, state, to, tokens }) =>
    html`<tr><th scope="row">Turn ${number}</th><td data-label="State">${labels.turn[state]}</td>
<td data-label="Took">${duration((to ?? until.epochMilliseconds) - from)}</td>
<td data-label="Cost">${dollars(costMicroUsd)}</td><td data-label="Model requests">${requests}</td>
<td data-label="Tokens">${tokensTold(tokens) ?? "None"}</td></tr>
`
  )
  const byTurn = turns.length > 0 && html`<table class="rows"><caption>Cost by turn</caption>
<thead><tr>${columnHeads("Turn", "State", "Took", "Cost", "Model requests", "Tokens")}</tr></thead>
<tbody>${ofTurns}</tbody></table>`
  return html`<section id="timeline" data-piece="timeline" aria-labelledby="timeline-title">
<h2 id="timeline-title">Timeline</h2>
<p id="timeline-summary" class="fine">${duration(whole)} from ${moment(DateTime.makeUnsafe(begin))}, drawn to scale</p>
${picture(segments, begin, whole)}
<div class="timeline-tables">
<table class="rows"><caption>Where the time went</caption>
<thead><tr>${columnHeads("What", "Time", "Share")}</tr></thead>
<tbody>${rows}</tbody></table>
${byTurn}
</div>
</section>`
}

/** The placeholder until the stream, or the link, brings the picture. */
export const later = ({ id }: Sandbox): Html =>
  html`<section id="timeline" data-piece="timeline" aria-labelledby="timeline-title">
<h2 id="timeline-title">Timeline</h2>
<p><a href="/sandboxes/${id}?view=log">Show where the time went</a></p>
</section>`

const gone = html`<section id="timeline" data-piece="timeline" aria-labelledby="timeline-title">
<h2 id="timeline-title">Timeline</h2>
<p class="fine">The log expired.</p>
</section>`

/** Reads what is new of the log, and renders all of it. */
export const make = Effect.map(SandboxEvents, (events) => {
  const runs = new LruCache<string, Timeline.Run>(MOST_RUNS)

  return Effect.fnUntraced(function*(by: Principal, sandbox: Sandbox) {
    const { completedAt, createdAt, id, lastSeq } = sandbox
    const pageAfter = (after: number) =>
      events.list(by, id, { after, limit: PAGE }).pipe(
        // Events that are no longer kept are left out.
        Effect.catchTag("CursorExpired", () => events.list(by, id, { after: 0, limit: PAGE }))
      )
    let run = runs.get(id)
    let after = run?.seq ?? Math.max(0, lastSeq - MOST_EVENTS)
    while (after < lastSeq) {
      const page = yield* pageAfter(after)
      const [first, last] = [page[0], page.at(-1)]
      if (first === undefined || last === undefined || last.seq <= after) break
      run ??= new Timeline.Run(createdAt, first.seq - 1)
      for (const entry of page) if (COUNTS.has(entry.type)) run.add(fromWire(entry.wire))
      after = run.seq = Math.max(run.seq, last.seq)
    }
    if (run === undefined) return gone
    runs.set(id, run)
    return render(run, completedAt ?? (yield* DateTime.now))
  }, Effect.catchTags({ CursorAhead: Effect.die, CursorExpired: Effect.die, InvalidRequest: Effect.die }))
})
