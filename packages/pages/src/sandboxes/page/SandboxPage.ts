/** `/sandboxes/:id`: one sandbox as it is at an event of its log, from where its stream goes on. */
import { principalOf } from "@slipway/domain/access/rules/Session"
import type { Principal } from "@slipway/domain/access/schema/Principal"
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { isSettled, type Sandbox } from "@slipway/domain/sandbox/rules/Sandbox"
import { Sandboxes } from "@slipway/domain/sandbox/usecases/Sandboxes"
import { Effect, Schema } from "effect"
import { html, type Html, type Later } from "../../html/Html.ts"
import * as Page from "../../layout/Page.ts"
import { Refused } from "../../layout/Refused.ts"
import { keysHelp, notifyButton } from "../../shared/ListTools.ts"
import { labels } from "../../shared/SandboxLabels.ts"
import type * as Conversation from "../conversation/Conversation.ts"
import * as Items from "../conversation/Items.ts"
import * as SandboxWindow from "../conversation/SandboxWindow.ts"
import * as TimelinePiece from "../timeline/TimelinePiece.ts"
import * as SandboxPieces from "./SandboxPieces.ts"

const decodeId = Schema.decodeUnknownOption(SandboxId)

export const noSandbox = Refused.notFound("There is no such sandbox.")

/** The sandbox that the address names. */
export const idOf = ({ params }: Pick<Page.Asked, "params">): Effect.Effect<SandboxId, Refused> =>
  Effect.mapError(Effect.fromOption(decodeId(params["sandboxId"])), () => noSandbox)

/** Links from a page below that of the sandbox. */
export const breadcrumb = ({ id, title }: Sandbox): Html =>
  html`<p class="fine"><a href="/sandboxes">Sandboxes</a> / <a href="/sandboxes/${id}">${title}</a></p>`

/** Bytes of the conversation on one page: its newest items. */
const CONVERSATION_BYTES = 384 * 1024

/** Messages of forms that lead back here. */
export const MESSAGES = {
  approved: "Approved.",
  approved_turn: "Approved, and all of this kind until the turn ends.",
  denied: "Denied.",
  interrupted: "The turn is being interrupted.",
  terminated: "The sandbox is being terminated.",
  sent: "Your message was sent.",
  queued: "Your message waits for its turn.",
  steers: "The agent gets your message as soon as it can take it.",
  taken_back: "Your message was taken back.",
  restoring: "Going back to the checkpoint.",
  published: "The pull request is up to date.",
  publishing: "The pull request is still being published.",
  nothing: "There is nothing to publish yet.",
  duplicate: "That was done before.",
  ...labels.rejection
}

interface Services {
  readonly sandboxes: typeof Sandboxes.Service
  readonly pieces: Effect.Success<typeof SandboxPieces.make>
  readonly windowOf: Effect.Success<typeof SandboxWindow.make>
}

/** The conversation of a sandbox whose events are no longer kept: its messages are. */
const messagesOf = Effect.fnUntraced(function*({ sandboxes }: Services, by: Principal, sandbox: Sandbox) {
  const messages = yield* sandboxes.messages(by, sandbox.id, { after: 0, limit: SandboxWindow.WINDOW })
  return messages.map(({ createdAt, id, role, text }): Conversation.Item => ({
    key: id,
    kind: role === "user" ? "prompt" : "text",
    text,
    at: createdAt,
    seq: 0
  }))
})

type View = "conversation" | "changes"

/** Renders the pieces of the page; `withTimeline`: with the timeline, which otherwise comes with the stream. */
const render = (pieces: Services["pieces"], parts: SandboxPieces.Shown, view: View, withTimeline: boolean) =>
  Effect.all({
    facts: pieces.facts.render(parts),
    line: pieces.line.render(parts),
    commands: pieces.commands.render(parts),
    approvals: pieces.approvals.render(parts),
    queue: pieces.queue.render(parts),
    message: pieces.message.render(parts),
    setup: pieces.setup.render(parts),
    waiting: pieces.waiting.render(parts),
    pulls: pieces.pulls.soon(parts),
    checkpoints: pieces.checkpoints.render(parts),
    timeline: withTimeline ? pieces.timeline.render(parts) : Effect.succeed(TimelinePiece.later(parts.sandbox)),
    changes: view === "changes" ? pieces.changes.soon(parts) : Effect.succeed(SandboxPieces.later("changes"))
  }, { concurrency: 3 })

/** The conversation as far as it fits on the page, and links to the rest of it. */
const toldOf = Effect.fnUntraced(function*(
  services: Services,
  by: Principal,
  sandbox: Sandbox,
  { conversation, first, hasOlder }: Effect.Success<ReturnType<Services["windowOf"]>>
) {
  const { items } = conversation
  const { createdAt, id, prompt, turn } = sandbox
  const isKept = items.length > 0
  const shown = isKept ? items : yield* messagesOf(services, by, sandbox)
  const waiting: ReadonlyArray<Conversation.Item> = turn === null && shown.every(({ kind }) => kind !== "prompt")
    ? [{ key: Items.FIRST_PROMPT, kind: "prompt", text: prompt, at: createdAt, seq: 0 }]
    : []
  const all = [...waiting, ...shown]
  return Items.render(all, `/sandboxes/${id}`, { bytes: CONVERSATION_BYTES }, (told, taken) => {
    const isWhole = taken.length === all.length
    const [firstTold] = taken
    // The event before the items that did not fit, or before those that were not read.
    const before = !isWhole && firstTold !== undefined
      ? Math.max(
        conversation.beganAt(firstTold) - 1,
        ...all.filter((item) => !taken.includes(item)).map((item) => conversation.beganAt(item))
      )
      : hasOlder
      ? first
      : 0
    return html`${!isKept && html`<p class="fine">The log expired; messages are kept.</p>`}
${!isKept && !isWhole && html`<p class="fine">Older messages are hidden.</p>`}
${before > 0 && isKept && html`<p><a href="/sandboxes/${id}?before=${before}">Earlier</a></p>`}
<ol class="conversation" id="conversation" data-piece="conversation">${told}</ol>`
  })
})

const workspace = (id: SandboxId, view: View, isEarlier: boolean, piece: Effect.Success<ReturnType<typeof render>>, told: Later): Html =>
  html`<nav class="views" aria-label="Parts of this page"><ul class="places">
<li><a href="/sandboxes/${id}"${view === "conversation" && html` aria-current="page"`}>Conversation</a></li>
<li><a href="/sandboxes/${id}?view=changes"${view === "changes" && html` aria-current="page"`}>Changes</a></li>
</ul></nav>
<div class="workspace" data-view="${view}">
<div class="talk">
${piece.setup}
<section aria-labelledby="conversation-title">
<h2 id="conversation-title" tabindex="-1">Conversation</h2>
${told}
${isEarlier && html`<p><a href="/sandboxes/${id}">Latest</a></p>`}
${piece.queue}
${piece.message}
</section>
</div>
<div class="work">
<section aria-labelledby="changes-title">
<h2 id="changes-title" tabindex="-1">Changes</h2>
<p><a href="/sandboxes/${id}/changes">Files changed</a></p>
${piece.changes}
<h3>Pull request</h3>
${piece.pulls}
<h3>Checkpoints</h3>
${piece.checkpoints}
</section>
</div>
</div>`

const get = (services: Services): Page.Handler<Page.Member> =>
  Effect.fnUntraced(
    function*(member, asked) {
      const id = yield* idOf(asked)
      const by = principalOf(member.visit)
      const sandbox = yield* services.sandboxes.get(by, id)
      const given = asked.url.searchParams.get("before") ?? ""
      if (given !== "" && !/^\d{1,15}$/u.test(given)) return yield* Refused.bad("That is no place in the conversation.")
      const isEarlier = given !== "" && Number(given) <= sandbox.lastSeq
      const end = isEarlier ? Number(given) : sandbox.lastSeq
      const view = asked.url.searchParams.get("view") === "changes" ? "changes" : "conversation"
      const [window, piece] = yield* Effect.all([
        services.windowOf(by, sandbox, end),
        render(services.pieces, SandboxPieces.shownTo(member, sandbox), view, asked.url.searchParams.has("timeline"))
      ], { concurrency: 2 })
      const told = yield* toldOf(services, by, sandbox, window)
      const over = isSettled(sandbox.status) && html` data-over`
      const live = html`<div id="live" hidden data-stream="/sandboxes/${id}/pieces" data-cursor="${sandbox.lastSeq}"${over}></div>`

      const body = html`<p class="fine"><a href="/sandboxes">Sandboxes</a></p>
<h1>${sandbox.title}</h1>
<div id="outcome" role="status">${Page.told(asked, MESSAGES, labels.rejection)}</div>
<p class="fine watch"><span id="connection" role="status"></span> <a id="refresh" href="/sandboxes/${id}">Refresh</a>
${!isEarlier && notifyButton}</p>
${piece.facts}
${piece.line}
${piece.commands}
${piece.approvals}
<p id="announcement" data-piece="announcement" class="unseen" role="status"></p>
${workspace(id, view, isEarlier, piece, told)}
${piece.timeline}
${piece.waiting}
${keysHelp}
${!isEarlier && live}`
      return Page.show(
        { title: sandbox.title, place: "sandboxes", body, scripts: isEarlier ? ["keys.js"] : ["live.js", "keys.js"] },
        member
      )
    },
    Effect.catchTags({ SandboxNotFound: () => Effect.fail(noSandbox), InvalidRequest: Effect.die })
  )

export const make = Effect.gen(function*() {
  return get({ sandboxes: yield* Sandboxes, pieces: yield* SandboxPieces.make, windowOf: yield* SandboxWindow.make })
})
