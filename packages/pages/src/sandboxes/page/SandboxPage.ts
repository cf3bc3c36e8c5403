/** `/sandboxes/:id`: one sandbox as it is at an event of its log, from where its stream goes on. */
import { principalOf } from "@slipway/domain/access/rules/Session"
import type { Principal } from "@slipway/domain/access/schema/Principal"
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { Terminals } from "@slipway/domain/sandbox/ports/Terminals"
import { isSettled, type Sandbox } from "@slipway/domain/sandbox/rules/Sandbox"
import { Sandboxes } from "@slipway/domain/sandbox/usecases/Sandboxes"
import { Effect, Option, Schema } from "effect"
import { html, type Html, type Later } from "../../html/Html.ts"
import * as Page from "../../layout/Page.ts"
import { Refused } from "../../layout/Refused.ts"
import { notifyButton } from "../../shared/ListTools.ts"
import { linkTo } from "../../shared/PullLabels.ts"
import { labels } from "../../shared/SandboxLabels.ts"
import type * as Conversation from "../conversation/Conversation.ts"
import * as Items from "../conversation/Items.ts"
import * as SandboxWindow from "../conversation/SandboxWindow.ts"
import * as TimelinePiece from "../timeline/TimelinePiece.ts"
import * as MessageCommands from "./MessageCommands.ts"
import * as SandboxPieces from "./SandboxPieces.ts"

const decodeId = Schema.decodeUnknownOption(SandboxId)

export const noSandbox = Refused.notFound("Sandbox not found.")

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
  approved_turn: "Approved, and all further ones of this kind until the turn ends.",
  denied: "Denied.",
  answered: "Answered.",
  dismissed: "Dismissed. The agent goes on without an answer.",
  interrupted: "Stopping…",
  terminated: "Ending the sandbox…",
  sent: "Sent.",
  queued: "Queued.",
  steers: "Steering…",
  taken_back: "Removed from the queue.",
  restoring: "Restoring the checkpoint…",
  renamed: "Renamed.",
  fixing: "The agent gets the failing checks.",
  resumed: "Feedback continues.",
  pinned: "Pinned.",
  unpinned: "Unpinned.",
  opened: "Draft pull request opened.",
  published: "Pull request updated.",
  ready: "Pull request marked as ready for review.",
  publishing: "Publishing…",
  nothing: "Nothing to publish yet.",
  duplicate: "Already done.",
  like_publish: "Sent to the agent. To publish, send /publish alone.",
  like_stop: "Sent to the agent. To stop it, send /stop alone.",
  like_fork: "Sent to the agent. To fork, send /fork alone.",
  ...labels.rejection
}

/** The messages after a form. If the form opened a pull request, it is that of `repo`. */
export const outcomesOf = (sandbox: Sandbox, repo: string | null): Readonly<Record<keyof typeof MESSAGES, Html | string>> => {
  const opened = sandbox.publications.find((one) => one.repo.toLowerCase() === repo?.toLowerCase() && one.number !== null)
  if (opened === undefined) return MESSAGES
  const kind = opened.draft === false ? "Pull request" : "Draft pull request"
  return { ...MESSAGES, opened: html`${kind} ${linkTo(opened.url, `#${opened.number}`)} opened.` }
}

interface Services {
  /** Whether this service has terminals. */
  readonly hasTerminals: boolean
  readonly sandboxes: typeof Sandboxes.Service
  readonly pieces: Effect.Success<typeof SandboxPieces.make>
  readonly windowOf: Effect.Success<typeof SandboxWindow.make>
}

/** The conversation of a sandbox whose events are no longer kept: its messages are. */
const messagesOf = Effect.fnUntraced(function*({ sandboxes }: Pick<Services, "sandboxes">, by: Principal, sandbox: Sandbox) {
  const messages = yield* sandboxes.messages(by, sandbox.id, { after: 0, limit: SandboxWindow.WINDOW })
  return messages.map(({ createdAt, id, role, text }): Conversation.Item => ({
    key: id,
    kind: role === "user" ? "prompt" : "text",
    text,
    at: createdAt,
    seq: 0
  }))
})

/** The views, in the order of their tabs. The conversation is one beside the others where there is room. */
const VIEWS = [
  { view: "conversation", name: "Chat" },
  { view: "changes", name: "Changes" },
  { view: "pull", name: "Pull request" },
  { view: "artifacts", name: "Artifacts" },
  { view: "checkpoints", name: "Checkpoints" },
  { view: "log", name: "Log" }
] as const
type View = typeof VIEWS[number]["view"]

/** Renders the pieces of the page. Others than the shown view has come with the stream where they are slow. */
const render = (pieces: Services["pieces"], parts: SandboxPieces.Shown, view: View) =>
  Effect.all({
    title: pieces.title.render(parts),
    rename: pieces.rename.render(parts),
    pin: pieces.pin.render(parts),
    state: pieces.state.render(parts),
    facts: pieces.facts.render(parts),
    line: pieces.line.render(parts),
    commands: pieces.commands.render(parts),
    approvals: pieces.approvals.render(parts),
    questions: pieces.questions.render(parts),
    queue: pieces.queue.render(parts),
    message: pieces.message.render(parts),
    setup: pieces.setup.render(parts),
    waiting: pieces.waiting.render(parts),
    rail: pieces.rail.render(parts),
    pulls: pieces.pulls.soon(parts),
    artifacts: pieces.artifacts.render(parts),
    checkpoints: pieces.checkpoints.render(parts),
    timeline: view === "log" ? pieces.timeline.render(parts) : Effect.succeed(TimelinePiece.later(parts.sandbox)),
    changes: view === "changes" ? pieces.changes.soon(parts) : Effect.succeed(SandboxPieces.later("changes"))
  }, { concurrency: 3 })

/** The event that the page ends with, and whether later ones exist. */
export const endOf = Effect.fnUntraced(function*({ url }: Page.Asked, { lastSeq }: Sandbox) {
  const given = url.searchParams.get("before") ?? ""
  if (given !== "" && !/^\d{1,15}$/u.test(given)) return yield* Refused.bad("This link is out of date.")
  const isEarlier = given !== "" && Number(given) <= lastSeq
  return { isEarlier, end: isEarlier ? Number(given) : lastSeq }
})

/** The conversation as far as it fits on the page, and links to the rest of it. `isReadOnly`: without links to what changes something. */
export const toldOf = Effect.fnUntraced(function*(
  services: Pick<Services, "sandboxes">,
  by: Principal,
  sandbox: Sandbox,
  { conversation, first, hasOlder }: Effect.Success<ReturnType<Services["windowOf"]>>,
  isReadOnly = false
) {
  const items = isReadOnly ? conversation.items.map(Items.readOnly) : conversation.items
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
${before > 0 && isKept && html`<p class="earlier"><a href="/sandboxes/${id}${isReadOnly && "/read"}?before=${before}">Earlier</a></p>`}
<ol class="conversation" id="conversation" data-piece="conversation">${told}</ol>`
  })
})

type Pieces = Effect.Success<ReturnType<typeof render>>

/** `hasTerminal`: whether this reader may open one. */
const tabs = (id: SandboxId, shown: View, hasTerminal: boolean): Html => {
  const items = VIEWS.map(({ name, view }) => {
    const query = view !== "conversation" && `?view=${view}`
    return html`
<li><a href="/sandboxes/${id}${query}" data-to="${view}"${view === shown && html` aria-current="page"`}>${name}</a></li>`
  })
  const terminal = hasTerminal && html`
<li><a href="/sandboxes/${id}/terminal">Terminal</a></li>`
  return html`<nav class="views" aria-label="Parts of this page"><ul class="places">${items}${terminal}
</ul></nav>`
}

/** For browsers without scripts. */
const withoutScripts = ({ id, status }: Sandbox): Html =>
  html`<noscript><a class="button quiet" href="/sandboxes/${id}">Refresh</a>
${(status === "queued" || status === "creating") && html`<meta http-equiv="refresh" content="5">`}</noscript>`

const bar = (sandbox: Sandbox, piece: Pieces, isEarlier: boolean): Html =>
  html`<div class="bar">
<a class="back" href="/sandboxes" aria-label="Sandboxes"><span aria-hidden="true">‹</span></a>
${piece.title}
${piece.state}
<span id="connection" class="connection" role="status"></span>
${withoutScripts(sandbox)}
${piece.commands}
<details class="menu"><summary class="button quiet" aria-label="More about this sandbox">⋯</summary>
<div class="menu-body">
${!isEarlier && notifyButton}
${piece.pin}
${piece.rename}
<p><a href="/sandboxes/${sandbox.id}/preview">Previews</a></p>
<p><a href="/sandboxes/${sandbox.id}/read">Read-only page</a></p>
${piece.facts}
</div></details>
</div>`

/** The parts of the work, of which the view shows one. */
const work = (id: SandboxId, view: View, piece: Pieces): Html => {
  const load = view !== "changes" && html`<noscript><a href="/sandboxes/${id}?view=changes">Load changes</a></noscript>`
  return html`<section class="work" aria-labelledby="work-title">
<h2 id="work-title" class="unseen" tabindex="-1">Work</h2>
<section class="part changes-part" aria-labelledby="changes-title">
<h3 id="changes-title" tabindex="-1">Changes</h3>
<p class="actions"><a class="button quiet" href="/sandboxes/${id}/changes">Files changed</a></p>
${piece.changes}
${load}
</section>
<section class="part pull-part" aria-labelledby="pull-title">
<h3 id="pull-title">Pull request</h3>
${piece.pulls}
</section>
<section class="part artifacts-part" aria-labelledby="artifacts-title">
<h3 id="artifacts-title">Artifacts</h3>
${piece.artifacts}
</section>
<section class="part checkpoints-part" aria-labelledby="checkpoints-title">
<h3 id="checkpoints-title">Checkpoints</h3>
${piece.checkpoints}
</section>
<div class="part log-part">${piece.timeline}</div>
</section>`
}

interface Framing {
  readonly view: View
  readonly isEarlier: boolean
  readonly hasTerminal: boolean
}

const workspace = (
  sandbox: Sandbox,
  { hasTerminal, isEarlier, view }: Framing,
  piece: Pieces,
  told: Later,
  outcome: Html | null
): Html =>
  html`<div class="workspace" data-view="${view}">
${bar(sandbox, piece, isEarlier)}
${tabs(sandbox.id, view, hasTerminal)}
<section class="talk" aria-labelledby="conversation-title">
<div class="reel" id="reel" tabindex="0" role="group" aria-label="Messages">
<div class="thread">
<h2 id="conversation-title" class="unseen" tabindex="-1">Conversation</h2>
${told}
${piece.line}
${piece.setup}
${isEarlier && html`<p><a href="/sandboxes/${sandbox.id}">Latest</a></p>`}
<div id="latest"></div>
</div>
</div>
<a id="unread" class="pill" href="#latest" hidden></a>
</section>
<section class="dock" aria-label="Answers and messages">
${piece.approvals}
${piece.questions}
<div id="outcome" role="status">${outcome}</div>
${piece.queue}
${piece.message}
${MessageCommands.options}
</section>
${work(sandbox.id, view, piece)}
</div>`

const get = (services: Services): Page.Handler<Page.Member> =>
  Effect.fnUntraced(
    function*(member, asked) {
      const id = yield* idOf(asked)
      const by = principalOf(member.visit)
      const sandbox = yield* services.sandboxes.get(by, id)
      const { end, isEarlier } = yield* endOf(asked, sandbox)
      const wanted = asked.url.searchParams.get("view")
      const { view } = VIEWS.find((one) => one.view === wanted) ?? VIEWS[0]
      const [window, piece] = yield* Effect.all([
        services.windowOf(by, sandbox, end),
        render(services.pieces, SandboxPieces.shownTo(member, sandbox), view)
      ], { concurrency: 2 })
      const told = yield* toldOf(services, by, sandbox, window)
      const over = isSettled(sandbox.status) && html` data-over`
      const live = html`<div id="live" hidden data-stream="/sandboxes/${id}/pieces" data-cursor="${sandbox.lastSeq}"${over}></div>`

      const messages = outcomesOf(sandbox, asked.url.searchParams.get("repo"))
      const outcome = Page.told(asked, messages, labels.rejection)
      const hasTerminal = services.hasTerminals && member.visit.place.role !== "viewer"
      const body = html`${workspace(sandbox, { view, isEarlier, hasTerminal }, piece, told, outcome)}
<p id="announcement" data-piece="announcement" class="unseen" role="status"></p>
${piece.waiting}
${!isEarlier && live}`
      return Page.show(
        { title: sandbox.title, place: "sandboxes", body, rail: html`${piece.rail}`, scripts: isEarlier ? [] : ["live.js"] },
        member
      )
    },
    Effect.catchTags({ SandboxNotFound: () => Effect.fail(noSandbox), InvalidRequest: Effect.die })
  )

export const make = Effect.gen(function*() {
  const hasTerminals = Option.isSome(yield* Effect.serviceOption(Terminals))
  return get({ hasTerminals, sandboxes: yield* Sandboxes, pieces: yield* SandboxPieces.make, windowOf: yield* SandboxWindow.make })
})
