/** How the setup of a sandbox stands and what it wrote, as its page shows it. */
import type { SetupCache, SetupState, SetupStatus } from "@slipway/domain/sandbox/ports/Setups"
import type { Sandbox } from "@slipway/domain/sandbox/rules/Sandbox"
import type { DateTime } from "effect"
import { ending } from "../../html/Fit.ts"
import { html, type Later } from "../../html/Html.ts"

/** Bytes of the output that are shown, the last ones. */
const SHOWN_BYTES = 64 * 1024

const labels = {
  state: { none: "", running: "Running", succeeded: "Succeeded", failed: "Failed" } satisfies Record<SetupState, string>,
  /** Class of the state's badge. */
  tone: { none: "", running: "wait", succeeded: "good", failed: "bad" } satisfies Record<SetupState, string>,
  cache: { hit: "from a cache", miss: "not cached", none: "" } satisfies Record<SetupCache, string>
}

const duration = (ms: number): string => {
  const seconds = Math.round(ms / 1000)
  return ms < 1000 ? `${ms} ms` : seconds < 60 ? `${seconds} s` : `${Math.floor(seconds / 60)} min ${seconds % 60} s`
}

const about = ({ cache, exitCode, ms, startedAt, state }: SetupStatus, now: DateTime.Utc): string => {
  const time = ms !== null
    ? duration(ms)
    : state === "running" && startedAt !== null
    ? `${duration(Math.max(0, now.epochMilliseconds - startedAt.epochMilliseconds))} so far`
    : ""
  const code = state === "failed" && exitCode !== null ? `exit code ${exitCode}` : ""
  return [time, labels.cache[cache], code].filter((part) => part !== "").join(", ")
}

/** Shown while it is of interest: it runs, or it failed and no turn began. The conversation leads to its output afterwards. */
export const render = (setup: SetupStatus, now: DateTime.Utc, { id, turn }: Sandbox): Later => {
  const { output, state } = setup
  const isShown = state === "running" || state === "failed" && (turn === null || turn.state === "pending")
  const hiddenIfWhole = (length: number) => length === output.length && html` hidden`
  return ending(
    output,
    { bytes: SHOWN_BYTES },
    (shown, length) =>
      html`<section id="setup" data-piece="setup" aria-labelledby="setup-title"${!isShown && html` hidden`}>
<h2 id="setup-title" class="unseen">Setup</h2>
<p>Setup <span class="state ${labels.tone[state]}" role="status">${labels.state[state]}</span> <span>${about(setup, now)}</span></p>
<details open><summary>Output</summary>
<p class="fine"${hiddenIfWhole(length)}>Only the end is shown. <a href="/sandboxes/${id}/text?item=setup">Show all</a></p>
<div class="output-box" id="setup-output" data-tail tabindex="0" role="region" aria-label="Output of the setup"><pre>
${shown}</pre></div>
</details>
</section>`
  )
}
