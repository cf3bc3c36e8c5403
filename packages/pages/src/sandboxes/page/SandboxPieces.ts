/**
 * The pieces of a sandbox's page: what of it is rendered again by itself while somebody looks. The page is made of them, its stream
 * tells the new ones after each event that changes them, and the answers of forms bring them along.
 */
import { principalOf } from "@slipway/domain/access/rules/Session"
import type { Principal } from "@slipway/domain/access/schema/Principal"
import { canSteer } from "@slipway/domain/models/rules/Steering"
import { ModelCatalogue } from "@slipway/domain/models/schema/ModelCatalogue"
import { KEPT_CHECKPOINTS } from "@slipway/domain/sandbox/ports/Checkpoints"
import { SandboxDashboard } from "@slipway/domain/sandbox/ports/SandboxDashboard"
import type { SandboxNotFound } from "@slipway/domain/sandbox/ports/SandboxStore"
import { coveredKind } from "@slipway/domain/sandbox/rules/Approval"
import { stateWordOf } from "@slipway/domain/sandbox/rules/AttentionState"
import { MAX_WAITING, queuedOf } from "@slipway/domain/sandbox/rules/MessageQueue"
import type { Sandbox } from "@slipway/domain/sandbox/rules/Sandbox"
import type { ApprovalRequest, SandboxEvent } from "@slipway/domain/sandbox/rules/SandboxEvent"
import type { ToolKind } from "@slipway/domain/sandbox/rules/ToolCall"
import { isActive } from "@slipway/domain/sandbox/rules/Turn"
import { MAX_PROMPT } from "@slipway/domain/sandbox/schema/Command"
import { Sandboxes } from "@slipway/domain/sandbox/usecases/Sandboxes"
import type { RepoName } from "@slipway/domain/source/schema/RepoRef"
import type { StoreUnavailable } from "@slipway/domain/store/StoreUnavailable"
import { DateTime, Duration, Effect } from "effect"
import { type Budget, fit } from "../../html/Fit.ts"
import { html, type Html, type Later, type Part } from "../../html/Html.ts"
import { moment } from "../../html/Moments.ts"
import type { Member } from "../../layout/Page.ts"
import { placeInLine, stateBadge } from "../../shared/AttentionLabels.ts"
import { dollars, labels, tokensTold } from "../../shared/SandboxLabels.ts"
import * as WaitingPiece from "../../shared/WaitingPiece.ts"
import * as ApprovalDiff from "../changes/ApprovalDiff.ts"
import { ChangesCache, type Reading } from "../changes/ChangesCache.ts"
import * as ChangesList from "../changes/ChangesList.ts"
import * as TimelinePiece from "../timeline/TimelinePiece.ts"
import * as CheckpointList from "./CheckpointList.ts"
import * as SandboxPulls from "./SandboxPulls.ts"
import * as SandboxSetup from "./SandboxSetup.ts"

/** The sandbox that a piece shows, and the person it is for. */
export interface Shown {
  readonly by: Principal
  readonly csrf: Html
  readonly sandbox: Sandbox
}

export const shownTo = (member: Member, sandbox: Sandbox): Shown => ({ by: principalOf(member.visit), csrf: member.csrf, sandbox })

interface Piece {
  /** Types of the events that change it. */
  readonly on: ReadonlyArray<SandboxEvent["type"]>
  /** Needs more than the sandbox's row: other pieces do not wait for it. */
  readonly isSlow: boolean
  /** Too slow for the first load: the page has {@link later} in its place, and the stream sends it first. */
  readonly isLate?: boolean
  /** Renders the part that is ready in time for a page that is being loaded. */
  readonly soon?: Piece["render"]
  /** Whether it changes without an event: then it is rendered again and again. */
  readonly changes?: (sandbox: Sandbox) => boolean
  /**
   * One element with `data-piece` and an `id`, by which it is found on the page; with `data-again`, where it could not be made just now
   * and no event will tell when it can.
   */
  readonly render: (shown: Shown) => Effect.Effect<Part, SandboxNotFound | StoreUnavailable>
}

const LIFE = ["sandbox.status", "turn.started", "turn.updated", "turn.completed"] as const
const QUEUE = ["message.queued", "message.steered", "message.cancelled"] as const

/** Characters of an error that are shown. */
const MAX_SENTENCE = 2_000

const hiddenUnless = (shown: boolean) => !shown && html` hidden`

const facts = ({ sandbox }: Shown): Html => {
  const reason = sandbox.reason !== null && labels.reason[sandbox.reason]
  const repos = sandbox.repos.map(({ fullName, ref }, i) => html`${i > 0 && ", "}${fullName}${ref !== undefined && html` at ${ref}`}`)
  const { costMicroUsd, llmRequestCount } = sandbox.usage
  const tokens = tokensTold(sandbox.tokens)
  const { origin } = sandbox
  const from = origin !== null && html`<a href="/sandboxes/${origin.sandboxId}">Checkpoint ${origin.checkpoint} of ${origin.sandboxId}</a>`
  const fact = (name: string, value: Html) =>
    html`
<div><dt>${name}</dt><dd>${value}</dd></div>`
  return html`<div id="facts" data-piece="facts"><dl class="strip">
${fact("State", html`<span id="status">${stateBadge(sandbox)}</span> <span id="reason">${reason}</span>`)}
${fact("Turn", html`<span id="turn">${sandbox.turn === null ? "None" : labels.turn[sandbox.turn.state]}</span>`)}
${fact("Repositories", html`${repos}`)}
${fact("Model", html`${sandbox.model} (${sandbox.agentRuntime})`)}
${fact("Cost", html`<span id="cost">${dollars(costMicroUsd)}</span>, <span id="requests">${llmRequestCount}</span> model requests`)}
${from !== false && fact("Fork of", from)}
${tokens !== null && fact("Tokens", html`<span id="tokens">${tokens}</span>`)}
${fact("Created", moment(sandbox.createdAt))}
${sandbox.startedAt !== null && fact("Started", moment(sandbox.startedAt))}
${sandbox.completedAt !== null && fact("Ended", moment(sandbox.completedAt))}
</dl>
<p id="error" class="problem"${hiddenUnless(sandbox.error !== null)}>${sandbox.error?.slice(0, MAX_SENTENCE) ?? null}</p></div>`
}

const commands = ({ csrf, sandbox: { id, status, turn } }: Shown): Html => {
  const whileTurn = hiddenUnless(status === "running" && isActive(turn))
  const whileAlive = hiddenUnless(["queued", "creating", "running"].includes(status))
  return html`<div class="actions" id="commands" data-piece="commands">
<form method="post" action="/sandboxes/${id}/interrupt" data-live${whileTurn}>${csrf}
<button class="quiet">Interrupt the turn</button></form>
<a class="button danger" href="/sandboxes/${id}/terminate"${whileAlive}>Terminate…</a>
</div>`
}

/** Labels of the button that approves all calls of a kind. */
const allOf: Readonly<Record<ToolKind, string>> = {
  edit: "all edits this turn (plain files)",
  command: "all commands this turn",
  network: "all network requests this turn",
  other: ""
}

/** `budget`: for a change as a table. `scope`: tells it from cards of other sandboxes on the same page. */
export const approvalCard = (sandbox: Sandbox, approval: ApprovalRequest, csrf: Html, budget: Budget, scope = ""): Html => {
  const { approval_id, expires_at, kind, paths = [], preview = {}, tool } = approval
  const id = encodeURIComponent(approval_id)
  const covered = coveredKind(approval)
  const ofKind = covered !== null &&
    html`<button name="decision" value="approve_turn" class="quiet">Approve ${allOf[covered]}</button>`
  const change = preview.diff !== undefined && ApprovalDiff.render(preview.diff, budget)
  return html`<li class="approval" id="approval-${scope}${id}">
<form method="post" action="/sandboxes/${sandbox.id}/approvals/${id}" data-live>${csrf}
<p>${kind !== undefined && html`<span class="state wait">${kind}</span> `}<code>${tool}</code></p>
${paths.length > 0 && html`<p class="fine">${paths.join(", ")}</p>`}
${preview.cwd !== undefined && html`<p class="fine">In the folder <code data-field="cwd">${preview.cwd}</code></p>`}
${preview.command !== undefined && html`<pre data-field="command">${preview.command}</pre>`}
${preview.url !== undefined && html`<pre data-field="url">${preview.url}</pre>`}
${change}
<p class="fine">Counts as denied from ${DateTime.formatIso(expires_at).slice(11, 16)} UTC</p>
<div class="actions"><button name="decision" value="approve">Approve<span class="unseen"> ${tool}</span></button>
${ofKind}
<button name="decision" value="deny" class="danger">Deny<span class="unseen"> ${tool}</span></button></div>
<div class="field"><label for="reason-${scope}${id}">Why not? The agent is told (optional)</label>
<textarea id="reason-${scope}${id}" name="reason" rows="2" maxlength="2000"></textarea></div>
</form>
</li>
`
}

/** Bytes of the approvals on one page. */
export const APPROVALS_BYTES = 160 * 1024
/** Approvals without space on the page that are listed as links to pages of their own. */
const MAX_ELSEWHERE = 10

const elsewhere = ({ id }: Sandbox, { approval_id, tool }: ApprovalRequest): Html =>
  html`<li class="approval">
<p><code>${tool}</code></p>
<p><a href="/sandboxes/${id}/approvals/${encodeURIComponent(approval_id)}">Look at it and decide<span class="unseen"> ${tool}</span></a></p>
</li>
`

/** People decide only on calls that they see in full: a call that does not fit, and those after it, have pages of their own. */
export const approvalCards = (sandbox: Sandbox, csrf: Html, budget: Budget, scope = ""): Later => {
  const { approvals } = sandbox
  const card = (approval: ApprovalRequest) => approvalCard(sandbox, approval, csrf, { bytes: budget.bytes / 2 }, scope)
  return fit(approvals, budget, card, (cards) => {
    const others = approvals.slice(cards.length, cards.length + MAX_ELSEWHERE).map((approval) => elsewhere(sandbox, approval))
    const left = approvals.length - cards.length - others.length
    return html`<ul class="approvals">${cards}${others}</ul>
${left > 0 && html`<p class="fine">${left} more wait: they are shown once these are decided.</p>`}`
  })
}

const approvals = ({ csrf, sandbox }: Shown): Html =>
  html`<section id="approvals" data-piece="approvals" aria-labelledby="approvals-title"${hiddenUnless(sandbox.approvals.length > 0)}>
<h2 id="approvals-title" tabindex="-1">Waiting for you</h2>
${approvalCards(sandbox, csrf, { bytes: APPROVALS_BYTES })}</section>`

/** For screen readers. It leaves out the agent's text, which would never end. */
const announcement = ({ sandbox }: Shown): Html => {
  const { approvals, reason, status, turn } = sandbox
  const because = reason === null ? "" : ` ${labels.reason[reason]}`
  const text = approvals.length > 0
    ? `The agent asks to be allowed: ${approvals.slice(0, MAX_ELSEWHERE).map(({ tool }) => tool).join("; ")}`
    : status !== "running"
    ? `${stateWordOf(sandbox)}.${because}`
    : turn === null || isActive(turn)
    ? ""
    : labels.turn[turn.state]
  return html`<p id="announcement" data-piece="announcement" class="unseen" role="status">${text}</p>`
}

/** Characters of a queued message that are shown. */
const SHOWN_CHARACTERS = 600

const beginningOf = (text: string): string => text.length <= SHOWN_CHARACTERS ? text : `${text.slice(0, SHOWN_CHARACTERS).toWellFormed()}…`

const queue = ({ csrf, sandbox }: Shown): Html => {
  const { id } = sandbox
  const waiting = queuedOf(sandbox)
  const items = waiting.map(({ message_id, position, steers, text }) =>
    html`<li id="waiting-${message_id}" class="item prompt">
<p class="item-head"><span class="state wait">${steers ? "Steers" : position === 1 ? "Next" : "Waits"}</span>
<span>${position} of ${waiting.length}</span></p>
<div class="item-text">${beginningOf(text)}</div>
<form method="post" action="/sandboxes/${id}/messages/${message_id}/take-back" data-live>${csrf}
<button class="quiet">Take back<span class="unseen"> message ${position}</span></button></form>
</li>
`
  )
  const problem = `${MAX_WAITING} messages wait, which is as many as may. Take one back, or wait for the next turn.`
  const full = waiting.length >= MAX_WAITING && html`<p class="problem" id="queue-full">${problem}</p>`
  return html`<section id="queue" data-piece="queue" aria-labelledby="queue-title"${hiddenUnless(waiting.length > 0)}>
<h3 id="queue-title" tabindex="-1">Waiting messages</h3>
<ol class="waiting">${items}</ol>
${full}</section>`
}

/** `steers`: its agent takes messages during a turn. */
const message = ({ by, csrf, sandbox: { id, status, turn, waiting } }: Shown, steers: boolean): Html => {
  const isBusy = isActive(turn)
  const described = [...(isBusy ? ["prompt-hint"] : []), ...(waiting.length >= MAX_WAITING ? ["queue-full"] : [])].join(" ")
  const hint = steers
    ? "A turn is active. Queued, your message waits for a turn of its own. Steering, the agent gets it as soon as it can take it."
    : "A turn is active: your message waits for a turn of its own."
  // Queues also when idle: another person may have started a turn meanwhile.
  const buttons = isBusy
    ? html`<button name="whenBusy" value="queue">Queue</button>
${steers && html`<button name="whenBusy" value="steer" class="quiet">Steer</button>`}`
    : html`<button name="whenBusy" value="queue">Send</button>`
  return html`<form id="message" data-piece="message" method="post" action="/sandboxes/${id}/messages" data-live
data-draft="${`${by.grantId} ${by.userId} ${id}`}"${hiddenUnless(status === "running")}>${csrf}
<div class="field"><label for="prompt">Follow-up</label>
${isBusy && html`<p class="hint" id="prompt-hint">${hint}</p>`}
<textarea id="prompt" name="prompt" required data-longest="${MAX_PROMPT}"${described !== "" && html` aria-describedby="${described}"`}>
</textarea></div>
<div class="actions">${buttons}</div>
</form>`
}

/** The placeholder of a piece that comes with the stream. */
export const later = (name: PieceName): Html => html`<div id="${name}" data-piece="${name}"></div>`

/** A piece that needs nothing but the sandbox. */
const quick = (on: Piece["on"], render: (shown: Shown) => Part): Piece => ({
  on,
  isSlow: false,
  render: (shown) => Effect.sync(() => render(shown))
})

export type PieceName =
  | "announcement"
  | "facts"
  | "line"
  | "commands"
  | "approvals"
  | "queue"
  | "message"
  | "setup"
  | "pulls"
  | "checkpoints"
  | "changes"
  | "timeline"
  | "waiting"

/** Bytes of the lists of what changed. */
const CHANGES_BYTES = 192 * 1024

/** How long the first load waits for a source host. */
const PAGE_PATIENCE = Duration.millis(60)
/** How long the stream of an open page waits, since other pieces wait behind it. It asks again later. */
const HOST_PATIENCE = Duration.seconds(1)

const STILL_READING = "They are being read."

/** Pieces by name. A new piece also needs its place in `SandboxPage.ts`. */
export const make = Effect.gen(function*() {
  const sandboxes = yield* Sandboxes
  const dashboard = yield* SandboxDashboard
  const catalogue = yield* ModelCatalogue
  const pullsOf = yield* SandboxPulls.make
  const known = yield* ChangesCache
  const waitingOf = yield* WaitingPiece.make
  const timelineOf = yield* TimelinePiece.make

  const changesAs = Effect.fnUntraced(function*<E>(
    { sandbox }: Shown,
    read: (repo: RepoName) => Effect.Effect<Reading | null, E>
  ) {
    const address = `/sandboxes/${sandbox.id}`
    const budget = { bytes: CHANGES_BYTES }
    let isAway = false
    const lists: Array<Html> = []
    for (const { fullName } of sandbox.repos) {
      const reading = yield* read(fullName)
      const found = reading?.found ?? STILL_READING
      // Git runs in the sandbox's box, which is made anew after going back to a checkpoint.
      if (typeof found === "string" || found.partialWarnings.includes("unreadable_entries")) isAway = true
      const list = typeof found === "string"
        ? html`<p>${found}</p>`
        : ChangesList.render(found, ChangesList.linkTo(sandbox, fullName), budget, ChangesList.listOf(sandbox, fullName))
      const again = html`<a href="${address}?view=changes">Load the page again</a>`
      const isOld = reading !== null && reading.at !== null && html`
<p class="fine">As of ${DateTime.formatIso(reading.at).slice(11, 19)} UTC; they are being read again. ${again}</p>`
      lists.push(html`${sandbox.repos.length > 1 && html`<h3>${fullName}</h3>`}
${list}${reading === null && html`<p>${again}</p>`}${isOld}
`)
    }
    const again = isAway && sandbox.status === "running" && html` data-again`
    return html`<div id="changes" data-piece="changes"${again}>${lists}</div>`
  })

  const pulls = ({ by, csrf, sandbox }: Shown, patience: Duration.Duration) =>
    Effect.map(pullsOf(by, sandbox, patience), (pulls) => SandboxPulls.render(sandbox, pulls, csrf))

  const pieces: Record<PieceName, Piece> & Record<"changes" | "pulls", Required<Pick<Piece, "soon">>> = {
    announcement: quick([...LIFE, "approval.requested", "approval.resolved"], announcement),
    facts: quick(
      [...LIFE, "approval.requested", "approval.resolved", "pull_request.updated", "sandbox.error", "sandbox.restored", "sandbox.restoring",
        "usage.updated"],
      facts
    ),
    line: {
      on: ["sandbox.status"],
      isSlow: true,
      changes: ({ status }) => status === "queued",
      render: Effect.fnUntraced(function*({ by, sandbox }) {
        const place = sandbox.status === "queued" ? placeInLine(sandbox, yield* dashboard.queue(by.grantId)) : ""
        return html`<p id="line" data-piece="line" class="fine"${hiddenUnless(place !== "")}>Waits for a worker: ${place}.</p>`
      })
    },
    waiting: { on: [...LIFE, "approval.requested", "approval.resolved"], isSlow: true, render: ({ by }) => waitingOf(by.grantId) },
    commands: quick(LIFE, commands),
    approvals: quick([...LIFE, "approval.requested", "approval.resolved"], approvals),
    queue: quick([...LIFE, ...QUEUE], queue),
    message: quick([...LIFE, ...QUEUE], (shown) => message(shown, canSteer(catalogue, shown.sandbox))),
    setup: {
      on: ["sandbox.status", "setup.started", "sandbox.boot"],
      isSlow: true,
      changes: ({ status, turn }) => status === "creating" || turn?.state === "pending",
      render: Effect.fnUntraced(function*({ by, sandbox: { id } }) {
        return SandboxSetup.render(yield* sandboxes.setup(by, id), yield* DateTime.now, `/sandboxes/${id}`)
      })
    },
    pulls: {
      on: ["sandbox.status", "pull_request.updated"],
      isSlow: true,
      isLate: true,
      render: (shown) => pulls(shown, HOST_PATIENCE),
      soon: (shown) => pulls(shown, PAGE_PATIENCE)
    },
    checkpoints: {
      on: [...LIFE, "sandbox.checkpoint", "sandbox.restoring", "sandbox.restored"],
      isSlow: true,
      render: Effect.fnUntraced(function*({ by, sandbox }) {
        const kept = sandboxes.checkpoints(by, sandbox.id, { after: 0, limit: KEPT_CHECKPOINTS })
        return CheckpointList.render(sandbox, yield* Effect.catchTag(kept, "InvalidRequest", Effect.die))
      })
    },
    timeline: {
      on: [...LIFE, "sandbox.boot", "approval.requested", "approval.resolved"],
      isSlow: true,
      isLate: true,
      render: ({ by, sandbox }) => timelineOf(by, sandbox)
    },
    changes: {
      on: ["sandbox.status", "turn.completed", "sandbox.restored"],
      isSlow: true,
      isLate: true,
      render: (shown) =>
        changesAs(shown, (repo) => Effect.map(known.read(shown.by, shown.sandbox, repo), (found) => ({ found, at: null }))),
      soon: (shown) => changesAs(shown, (repo) => known.soon(shown.by, shown.sandbox, repo))
    }
  }
  return pieces
})
