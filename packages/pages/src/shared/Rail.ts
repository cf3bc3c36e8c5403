/** The rail: the newest sandboxes of a grant by their states, beside a page that is wide enough. The layout shows it in the header. */
import { SandboxDashboard } from "@slipway/domain/sandbox/ports/SandboxDashboard"
import { attentionStateOf, stateWords } from "@slipway/domain/sandbox/rules/AttentionState"
import type { Sandbox } from "@slipway/domain/sandbox/rules/Sandbox"
import type { StoreUnavailable } from "@slipway/domain/store/StoreUnavailable"
import { visible } from "@slipway/domain/text/EscapeInvisible"
import { Context, Effect, Layer } from "effect"
import { html, type Html } from "../html/Html.ts"
import { stateBadge, STATES } from "./AttentionLabels.ts"
import * as SharedReadings from "./SharedReadings.ts"

/** The sandboxes of a rail, newest first. */
const MAX_SANDBOXES = 20
/** All pages of a grant share a reading for this long. */
const HOLDS_MILLIS = 2_000
/** Readings that are kept, one for each grant. */
const MAX_GRANTS = 200

/** `at`: the sandbox whose page it is on. */
const render = (sandboxes: ReadonlyArray<Sandbox>, at: string | null): Html => {
  const groups = STATES.map((state) => {
    const found = sandboxes.filter((sandbox) => attentionStateOf(sandbox) === state)
    const items = found.map(({ id, title }) => {
      const current = id === at && html` aria-current="page"`
      return html`
<li><a href="/sandboxes/${id}" title="${visible(title)}"${current}>${title}</a></li>`
    })
    const [first] = found
    return first !== undefined && html`<p>${stateBadge(first)}</p>
<ul aria-label="${stateWords[state]}">${items}
</ul>
`
  })
  const here = at !== null && html` data-at="${at}"`
  return html`<div class="rail" id="rail" data-piece="rail"${here}><a class="button quiet" href="/new">New</a>
${groups}</div>`
}

export class Rail extends Context.Service<Rail, {
  /** `at`: the sandbox whose page it is on. The sandboxes are as of a reading of the last two seconds. */
  of(grantId: string, at: string | null): Effect.Effect<Html, StoreUnavailable>
}>()("@slipway/pages/Rail") {
  static readonly layer = Layer.effect(
    Rail,
    Effect.gen(function*() {
      const dashboard = yield* SandboxDashboard
      const readings = SharedReadings.make<ReadonlyArray<Sandbox>, StoreUnavailable>(MAX_GRANTS, () => 1, yield* Effect.scope)
      const newest = { after: null, limit: MAX_SANDBOXES, attention: null, repo: null, search: "" }
      return Rail.of({
        of: (grantId, at) =>
          Effect.map(
            readings.read({
              key: grantId,
              state: "",
              isFresh: (_, ageMillis) => ageMillis < HOLDS_MILLIS,
              versionOf: () => "",
              find: dashboard.list(grantId, newest)
            }),
            (sandboxes) => render(sandboxes, at)
          )
      })
    })
  )
}
