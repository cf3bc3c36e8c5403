/** `/sandboxes/:id/read`: what happened in a sandbox and follows, for members of its grant. Nothing on it changes the sandbox. */
import { principalOf } from "@slipway/domain/access/rules/Session"
import { isSettled, type Sandbox } from "@slipway/domain/sandbox/rules/Sandbox"
import { isActive } from "@slipway/domain/sandbox/rules/Turn"
import { Sandboxes } from "@slipway/domain/sandbox/usecases/Sandboxes"
import { Effect } from "effect"
import { html, type Html } from "../../html/Html.ts"
import * as Page from "../../layout/Page.ts"
import * as SandboxWindow from "../conversation/SandboxWindow.ts"
import { endOf, idOf, noSandbox, toldOf } from "./SandboxPage.ts"
import * as SandboxPieces from "./SandboxPieces.ts"

/** The pieces of the page, which its stream renders again. None has a form. */
export const PIECES = ["title", "state", "line", "changes", "announcement", "waiting", "rail"] as const

/** For browsers without scripts: the page loads again while the agent works. */
const withoutScripts = ({ status, turn }: Sandbox): Html | false =>
  (status === "queued" || status === "creating" || isActive(turn)) && html`<noscript><meta http-equiv="refresh" content="10"></noscript>`

export const make = Effect.gen(function*() {
  const sandboxes = yield* Sandboxes
  const pieces = yield* SandboxPieces.make
  const windowOf = yield* SandboxWindow.make
  const get: Page.Handler<Page.Member> = Effect.fnUntraced(
    function*(member, asked) {
      const id = yield* idOf(asked)
      const by = principalOf(member.visit)
      const sandbox = yield* sandboxes.get(by, id)
      const { end, isEarlier } = yield* endOf(asked, sandbox)
      const parts = SandboxPieces.shownTo(member, sandbox)
      const { changes, rail, waiting, window } = yield* Effect.all({
        window: windowOf(by, sandbox, end),
        changes: pieces.changes.soon(parts),
        waiting: pieces.waiting.render(parts),
        rail: pieces.rail.render(parts)
      }, { concurrency: 3 })
      const told = yield* toldOf({ sandboxes }, by, sandbox, window, true)
      const repos = sandbox.repos.map(({ fullName, ref }, i) => html`${i > 0 && ", "}${fullName}${ref !== undefined && html` at ${ref}`}`)
      const over = isSettled(sandbox.status) && html` data-over`
      const live = html`<div id="live" hidden data-stream="/sandboxes/${id}/read/pieces" data-cursor="${sandbox.lastSeq}"${over}></div>`
      const body = html`<div class="review">
<div class="bar">
<a class="back" href="/sandboxes" aria-label="Sandboxes"><span aria-hidden="true">‹</span></a>
${yield* pieces.title.render(parts)}
${yield* pieces.state.render(parts)}
<span id="connection" class="connection" role="status"></span>
</div>
<div class="thread">
<p class="fine">${repos}. This page is read-only. <a href="/sandboxes/${id}">Open the sandbox</a></p>
${!isEarlier && withoutScripts(sandbox)}
<section aria-labelledby="changes-title">
<h2 id="changes-title">Changes</h2>
${changes}
<p><a href="/sandboxes/${id}/changes">Files changed</a>, <a href="/sandboxes/${id}/artifacts">artifacts</a></p>
</section>
<section aria-labelledby="conversation-title">
<h2 id="conversation-title" tabindex="-1">Conversation</h2>
${told}
${yield* pieces.line.render(parts)}
${isEarlier && html`<p><a href="/sandboxes/${id}/read">Latest</a></p>`}
</section>
</div>
</div>
${yield* pieces.announcement.render(parts)}
${waiting}
${!isEarlier && live}`
      return Page.show(
        { title: sandbox.title, place: "sandboxes", body, rail: html`${rail}`, scripts: isEarlier ? [] : ["live.js"] },
        member
      )
    },
    Effect.catchTags({ SandboxNotFound: () => Effect.fail(noSandbox), InvalidRequest: Effect.die })
  )
  return get
})
