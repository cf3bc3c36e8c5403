/** `/sandboxes/:id`: one sandbox as it is at an event of its log, from where `live.js` goes on. */
import type { Principal } from "@slipway/domain/access/Principal"
import { principalOf } from "@slipway/domain/access/Session"
import type { Sandbox } from "@slipway/domain/sandbox/Sandbox"
import { Sandboxes } from "@slipway/domain/sandbox/Sandboxes"
import { type ApprovalRequest, fromWire } from "@slipway/domain/sandbox/SandboxEvent"
import { PAGE, SandboxEvents } from "@slipway/domain/sandbox/SandboxEvents"
import { bytesOf } from "@slipway/domain/sandbox/SandboxStore"
import { isActive } from "@slipway/domain/sandbox/Turn"
import { SandboxId } from "@slipway/domain/SandboxId"
import { DateTime, Effect, Schema } from "effect"
import { html, type Html } from "../Html.ts"
import { moment } from "../Moments.ts"
import * as Page from "../Page.ts"
import { Refused } from "../Refused.ts"
import * as Conversation from "./Conversation.ts"
import { dollars, statusBadge } from "./SandboxList.ts"
import * as SandboxPulls from "./SandboxPulls.ts"
import { words } from "./SandboxWords.ts"

/** Events of the log that one page shows, unless they have more than {@link WINDOW_BYTES}: then the newest of them. */
const WINDOW = 500
/** Bytes of the log that one page shows, and of what is read in vain to find out. */
const WINDOW_BYTES = 1024 * 1024

const decodeId = Schema.decodeUnknownOption(SandboxId)

export const noSandbox = Refused.notFound("There is no such sandbox.")

/** The sandbox that the address names. */
export const idOf = ({ params }: Page.Asked): Effect.Effect<SandboxId, Refused> =>
  Effect.mapError(Effect.fromOption(decodeId(params["sandboxId"])), () => noSandbox)

/** What forms say when they come back here. */
export const MESSAGES = {
  approved: "Approved.",
  denied: "Denied.",
  interrupted: "The turn is being interrupted.",
  terminated: "The sandbox is being terminated.",
  sent: "Your message was sent.",
  published: "The pull request is up to date.",
  publishing: "The pull request is still being published.",
  nothing: "There is nothing to publish yet.",
  duplicate: "That was done before.",
  ...words.rejection
}

/** Filled in by `live.js` for an approval that comes later. */
const approvalCard = (sandbox: SandboxId, approval: ApprovalRequest | null, csrf: Html): Html => {
  const { approval_id = "", expires_at = null, kind = "", paths = [], preview = {}, tool = "" } = approval ?? {}
  const expires = expires_at !== null && html`Counts as denied from ${DateTime.formatIso(expires_at).slice(11, 16)} UTC`
  return html`<li class="approval" data-approval="${approval_id}">
<form method="post" action="/sandboxes/${sandbox}/approvals/${encodeURIComponent(approval_id)}">${csrf}
<p><span class="state wait" data-field="kind"${kind === "" && html` hidden`}>${kind}</span> <code data-field="tool">${tool}</code></p>
<p class="fine" data-field="paths">${paths.join(", ")}</p>
<pre data-field="command">${preview.command ?? ""}</pre>
<pre data-field="url">${preview.url ?? ""}</pre>
<pre data-field="diff">${preview.diff ?? ""}</pre>
<p class="fine" data-field="expires">${expires}</p>
<div class="actions"><button name="decision" value="approve">Approve<span class="unseen" data-field="about"> ${tool}</span></button>
<button name="decision" value="deny" class="danger">Deny<span class="unseen" data-field="about"> ${tool}</span></button></div>
</form>
</li>
`
}

const facts = (sandbox: Sandbox): Html => {
  const reason = sandbox.reason !== null && words.reason[sandbox.reason]
  const repos = sandbox.repos.map(({ fullName, ref }, i) => html`${i > 0 && ", "}${fullName}${ref !== undefined && html` at ${ref}`}`)
  const { costMicroUsd, llmRequestCount } = sandbox.usage
  return html`<dl class="facts">
<dt>Status</dt><dd><span id="status">${statusBadge(sandbox.status)}</span> <span id="reason">${reason}</span></dd>
<dt>Turn</dt><dd id="turn">${sandbox.turn === null ? "None yet" : words.turn[sandbox.turn.state]}</dd>
<dt>Repositories</dt><dd>${repos}</dd>
<dt>Model</dt><dd>${sandbox.model} (${sandbox.agentRuntime})</dd>
<dt>Cost</dt><dd><span id="cost">${dollars(costMicroUsd)}</span>, <span id="requests">${llmRequestCount}</span> model requests</dd>
<dt>Created</dt><dd>${moment(sandbox.createdAt)}</dd>
${sandbox.startedAt !== null && html`<dt>Started</dt><dd>${moment(sandbox.startedAt)}</dd>`}
${sandbox.completedAt !== null && html`<dt>Ended</dt><dd>${moment(sandbox.completedAt)}</dd>`}
</dl>`
}

const hiddenUnless = (shown: boolean) => !shown && html` hidden`

const commands = (sandbox: Sandbox, csrf: Html): Html => {
  const { id, status, turn } = sandbox
  const whileTurn = hiddenUnless(status === "running" && isActive(turn))
  const whileAlive = hiddenUnless(["queued", "creating", "running"].includes(status))
  return html`<div class="actions">
<form method="post" action="/sandboxes/${id}/interrupt" data-api="interrupt" data-when="turn"${whileTurn}>${csrf}
<button class="quiet">Interrupt the turn</button></form>
<a class="button danger" href="/sandboxes/${id}/terminate" data-when="alive"${whileAlive}>Terminate…</a>
</div>
<p id="outcome" role="status"></p>`
}

const messageForm = ({ id, status, turn }: Sandbox, csrf: Html): Html =>
  html`
<form method="post" action="/sandboxes/${id}/messages" data-when="idle"${hiddenUnless(status === "running" && !isActive(turn))}>${csrf}
<div class="field"><label for="prompt">Follow-up</label>
<textarea id="prompt" name="prompt" required maxlength="60000"></textarea></div>
<button>Send</button>
</form>`

export const make = Effect.gen(function*() {
  const sandboxes = yield* Sandboxes
  const events = yield* SandboxEvents
  const pullsOf = yield* SandboxPulls.make

  /** Up to `size` events before the event `end`, and whether there are older ones. `null`: they are too large for one page. */
  const read = Effect.fnUntraced(function*(by: Principal, sandbox: Sandbox, end: number, size: number) {
    const conversation = new Conversation.Conversation()
    let after = Math.max(0, end - size)
    const hasOlder = after > 0
    for (let bytes = 0;;) {
      const page = yield* events.list(by, sandbox.id, { after, limit: PAGE }).pipe(
        // What is no longer kept is not shown.
        Effect.catchTag("CursorExpired", () => events.list(by, sandbox.id, { after: 0, limit: PAGE }))
      )
      for (const { seq, wire } of page) if (seq <= end) conversation.add(fromWire(wire))
      for (const entry of page) bytes += bytesOf.entry(entry)
      const last = page.at(-1)?.seq ?? end
      if (last >= end) return { conversation, hasOlder, first: end - size }
      if (bytes >= WINDOW_BYTES) return null
      after = last
    }
  })

  /** The log is read forwards only, so a window that turns out too large is tried again with half as many events. */
  const windowOf = Effect.fnUntraced(function*(by: Principal, sandbox: Sandbox, end: number) {
    for (let size = WINDOW;; size = Math.max(1, Math.floor(size / 2))) {
      const window = yield* read(by, sandbox, end, size)
      if (window !== null) return window
    }
  })

  /** Of a sandbox whose events are no longer kept: what was said stays. */
  const messagesOf = Effect.fnUntraced(function*(by: Principal, sandbox: Sandbox) {
    const messages = yield* sandboxes.messages(by, sandbox.id, { after: 0, limit: WINDOW })
    return messages.map(({ createdAt, id, role, text }): Conversation.Item => ({
      key: id,
      kind: role === "user" ? "prompt" : "text",
      text,
      state: "",
      at: createdAt
    }))
  })

  const get: Page.Handler<Page.Member> = Effect.fnUntraced(
    function*(member, asked) {
      const id = yield* idOf(asked)
      const by = principalOf(member.visit)
      const sandbox = yield* sandboxes.get(by, id)
      const given = asked.url.searchParams.get("before") ?? ""
      if (given !== "" && !/^\d{1,15}$/u.test(given)) return yield* Refused.bad("That is no place in the conversation.")
      const isEarlier = given !== "" && Number(given) <= sandbox.lastSeq
      const end = isEarlier ? Number(given) : sandbox.lastSeq
      const { conversation: { calls, items }, first, hasOlder } = yield* windowOf(by, sandbox, end)
      const shown = items.length > 0 ? items : yield* messagesOf(by, sandbox)
      const waiting: ReadonlyArray<Conversation.Item> = sandbox.turn === null && shown.every(({ kind }) => kind !== "prompt")
        ? [{ key: "prompt:first", kind: "prompt", text: sandbox.prompt, state: "", at: sandbox.createdAt }]
        : []
      const pulls = yield* pullsOf(by, sandbox)
      const state = {
        cursor: sandbox.lastSeq,
        status: sandbox.status,
        turn: isActive(sandbox.turn) ? sandbox.turn.state : null,
        calls
      }
      const live = html`${Conversation.template}
<template id="approval-template">${approvalCard(id, null, member.csrf)}</template>
<div id="live" hidden data-sandbox="${id}" data-state="${JSON.stringify(state)}" data-words="${JSON.stringify(words)}"></div>`

      const body = html`<p class="fine"><a href="/sandboxes">Sandboxes</a></p>
<h1>${sandbox.title}</h1>
${Page.told(asked, MESSAGES)}
<p class="fine"><span id="connection" role="status"></span> <a id="refresh" href="/sandboxes/${id}">Refresh</a></p>
${facts(sandbox)}
<p id="error" class="problem"${sandbox.error === null && html` hidden`}>${sandbox.error}</p>
${commands(sandbox, member.csrf)}
<section id="approvals" aria-labelledby="approvals-title"${hiddenUnless(sandbox.approvals.length > 0)}>
<h2 id="approvals-title" tabindex="-1">Waiting for you</h2>
<ul class="approvals" id="approval-list">${sandbox.approvals.map((approval) => approvalCard(id, approval, member.csrf))}</ul>
</section>
<p id="announcement" class="unseen" role="status"></p>
<section aria-labelledby="conversation-title">
<h2 id="conversation-title" tabindex="-1">Conversation</h2>
${items.length === 0 && html`<p class="fine">What happened here is no longer kept. What was said is.</p>`}
${hasOlder && items.length > 0 && html`<p><a href="/sandboxes/${id}?before=${first}">Earlier</a></p>`}
<ol class="conversation" id="conversation">${Conversation.render([...waiting, ...shown])}</ol>
${isEarlier && html`<p><a href="/sandboxes/${id}">Latest</a></p>`}
${messageForm(sandbox, member.csrf)}
</section>
<section aria-labelledby="changes-title">
<h2 id="changes-title">Changes</h2>
<p><a href="/sandboxes/${id}/changes">Files changed</a></p>
<h3>Pull request</h3>
${SandboxPulls.render(sandbox, pulls, member.csrf)}
</section>
${!isEarlier && live}`
      return Page.show({ title: sandbox.title, place: "sandboxes", body, scripts: isEarlier ? [] : ["live.js"] }, member)
    },
    Effect.catchTags({
      SandboxNotFound: () => Effect.fail(noSandbox),
      CursorAhead: Effect.die,
      CursorExpired: Effect.die,
      InvalidRequest: Effect.die
    })
  )
  return get
})
