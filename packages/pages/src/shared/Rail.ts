/**
 * The rail: a person's pinned sandboxes and the newest ones of the grant by their states, beside a page that is wide enough. The layout
 * shows it in the header.
 */
import { type Pinning, SandboxDashboard } from "@slipway/domain/sandbox/ports/SandboxDashboard"
import { attentionStateOf, stateWords } from "@slipway/domain/sandbox/rules/AttentionState"
import type { Sandbox } from "@slipway/domain/sandbox/rules/Sandbox"
import type { StoreUnavailable } from "@slipway/domain/store/StoreUnavailable"
import { Context, Effect, Layer } from "effect"
import { html, type Html } from "../html/Html.ts"
import { stateBadge, STATES } from "./AttentionLabels.ts"
import * as SharedReadings from "./SharedReadings.ts"

/** The sandboxes of a rail, newest first, and as many pinned ones. */
const MAX_SANDBOXES = 20
/** All pages of a grant share a reading for this long. Pages of a person share one of the pinned sandboxes. */
const HOLDS_MILLIS = 2_000
/** Readings that are kept, one for each grant and one for each person in it. */
const MAX_READINGS = 400

/** `at`: the sandbox whose page it is on. */
const render = (newest: ReadonlyArray<Sandbox>, pinned: ReadonlyArray<Sandbox>, at: string | null): Html => {
  const group = (name: string, head: Html, found: ReadonlyArray<Sandbox>) => {
    const items = found.map(({ id, title }) => {
      const current = id === at && html` aria-current="page"`
      return html`
<li><a href="/sandboxes/${id}" title="${title}"${current}>${title}</a></li>`
    })
    return html`<p>${head}</p>
<ul aria-label="${name}">${items}
</ul>
`
  }
  const others = newest.filter(({ id }) => pinned.every((one) => one.id !== id))
  const groups = STATES.map((state) => {
    const found = others.filter((sandbox) => attentionStateOf(sandbox) === state)
    const [first] = found
    return first !== undefined && group(stateWords[state], stateBadge(first), found)
  })
  const here = at !== null && html` data-at="${at}"`
  return html`<div class="rail" id="rail" data-piece="rail"${here}><a class="button quiet" href="/new">New</a>
${pinned.length > 0 && group("Pinned", html`<span class="state">Pinned</span>`, pinned)}${groups}</div>`
}

export class Rail extends Context.Service<Rail, {
  /** `at`: the sandbox whose page it is on. The sandboxes are as of a reading of the last two seconds. */
  of(by: Pinning, at: string | null): Effect.Effect<Html, StoreUnavailable>
}>()("@slipway/pages/Rail") {
  static readonly layer = Layer.effect(
    Rail,
    Effect.gen(function*() {
      const dashboard = yield* SandboxDashboard
      const readings = SharedReadings.make<ReadonlyArray<Sandbox>, StoreUnavailable>(MAX_READINGS, () => 1, yield* Effect.scope)
      const newest = { after: null, limit: MAX_SANDBOXES, attention: null, repo: null, search: "" }
      const read = (key: string, find: Effect.Effect<ReadonlyArray<Sandbox>, StoreUnavailable>, state = "") =>
        readings.read({
          key,
          state,
          isFresh: (last, ageMillis) => ageMillis < HOLDS_MILLIS && last.version === state,
          versionOf: () => state,
          find
        })
      return Rail.of({
        of: Effect.fnUntraced(function*({ grantId, userId }, at) {
          // The person sees a pin at once.
          const pins = Array.from(yield* dashboard.pins({ grantId, userId })).sort().join()
          const pinned = pins === ""
            ? []
            : yield* read(`${grantId} ${userId}`, dashboard.list(grantId, { ...newest, pinnedBy: userId }), pins)
          return render(yield* read(grantId, dashboard.list(grantId, newest)), pinned, at)
        })
      })
    })
  )
}
