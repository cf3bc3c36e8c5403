/** The checkpoints of a sandbox, as its page lists them: where it can go back to, and what a fork can start as. */
import type { Checkpoint } from "@slipway/domain/sandbox/ports/Checkpoints"
import { hasTrees, isSettled, type Sandbox } from "@slipway/domain/sandbox/rules/Sandbox"
import { isActive } from "@slipway/domain/sandbox/rules/Turn"
import { html, type Html } from "../../html/Html.ts"
import { moment } from "../../html/Moments.ts"

/** Whether the sandbox may go back to one now. */
const canGoBack = ({ restoring, status, turn }: Sandbox) => status === "running" && !isActive(turn) && restoring === null

const one = (sandbox: Sandbox, { checkpoint, createdAt }: Checkpoint): Html => {
  const address = `/sandboxes/${sandbox.id}`
  const which = html`<span class="unseen"> checkpoint ${checkpoint}</span>`
  const back = canGoBack(sandbox) && html`<a class="button quiet" href="${address}/restore?checkpoint=${checkpoint}">Restore${which}…</a>`
  return html`<li id="checkpoint-${checkpoint}"><span>Checkpoint ${checkpoint}</span> <span class="fine">${moment(createdAt)}</span>
<a class="button quiet" href="${address}/fork?checkpoint=${checkpoint}">Fork${which}…</a> ${back}</li>
`
}

export const render = (sandbox: Sandbox, checkpoints: ReadonlyArray<Checkpoint>): Html => {
  const none = isSettled(sandbox.status) || !hasTrees(sandbox) ? "No checkpoints." : "The first is saved after the first turn."
  const isSaving = sandbox.status === "running" && sandbox.owesCheckpoint && !isActive(sandbox.turn)
  const said = isSaving ? "Saving a checkpoint…" : checkpoints.length === 0 ? none : ""
  return html`<div id="checkpoints" data-piece="checkpoints">
${said !== "" && html`<p class="fine">${said}</p>`}
<ol class="checkpoints">${checkpoints.toReversed().map((checkpoint) => one(sandbox, checkpoint))}</ol>
</div>`
}
