/**
 * The pieces of a sandbox's page: what of it is rendered again by itself while somebody looks. The page is made of them, its stream
 * tells the new ones after each event that changes them, and the answers of forms bring them along.
 */
import { principalOf } from "@slipway/domain/access/rules/Session"
import type { Principal } from "@slipway/domain/access/schema/Principal"
import { Artifacts } from "@slipway/domain/files/usecases/Artifacts"
import { canSteer } from "@slipway/domain/models/rules/Steering"
import { type Catalogue, ModelCatalogue } from "@slipway/domain/models/schema/ModelCatalogue"
import { KEPT_CHECKPOINTS } from "@slipway/domain/sandbox/ports/Checkpoints"
import { SandboxDashboard } from "@slipway/domain/sandbox/ports/SandboxDashboard"
import type { SandboxNotFound } from "@slipway/domain/sandbox/ports/SandboxStore"
import { coveredKind } from "@slipway/domain/sandbox/rules/Approval"
import { stateWordOf } from "@slipway/domain/sandbox/rules/AttentionState"
import { MAX_WAITING, queuedOf } from "@slipway/domain/sandbox/rules/MessageQueue"
import { questionsOf } from "@slipway/domain/sandbox/rules/Question"
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
import type { Member } from "../../layout/Page.ts"
import { placeInLine } from "../../shared/AttentionLabels.ts"
import { Rail } from "../../shared/Rail.ts"
import { labels } from "../../shared/SandboxLabels.ts"
import * as WaitingPiece from "../../shared/WaitingPiece.ts"
import * as ApprovalDiff from "../changes/ApprovalDiff.ts"
import { ChangesCache, type Reading } from "../changes/ChangesCache.ts"
import * as ChangesList from "../changes/ChangesList.ts"
import * as PromptFiles from "../create/PromptFiles.ts"
import * as TimelinePiece from "../timeline/TimelinePiece.ts"
import * as ArtifactItems from "./ArtifactItems.ts"
import * as Bar from "./Bar.ts"
import * as CheckpointList from "./CheckpointList.ts"
import { questionCards } from "./QuestionCards.ts"
import * as SandboxPulls from "./SandboxPulls.ts"
import * as SandboxSetup from "./SandboxSetup.ts"

/** The sandbox that a piece shows, and the person it is for. */
export interface Shown {
  readonly by: Principal
  readonly csrf: Html
  readonly sandbox: Sandbox
  /** The initial text of the message box. */
  readonly draft?: string
}

export const shownTo = (member: Member, sandbox: Sandbox): Shown => ({ by: principalOf(member.visit), csrf: member.csrf, sandbox })

interface Piece {
  /** Types of the events that change it. */
  readonly on: ReadonlyArray<SandboxEvent["type"]>
  /** Types of frequent events that change it: it is rendered again at most once in a while after them. */
  readonly often?: ReadonlyArray<SandboxEvent["type"]>
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
const ASKING = ["approval.requested", "approval.resolved", "question.asked", "question.answered"] as const
const QUEUE = ["message.queued", "message.steered", "message.cancelled"] as const

const hiddenUnless = (shown: boolean) => !shown && html` hidden`

/** Labels of the button that approves all calls of a kind. */
const allOf: Readonly<Record<ToolKind, string>> = {
  edit: "all edits until the turn ends",
  command: "all commands until the turn ends",
  network: "all network requests until the turn ends",
  mcp: "",
  other: ""
}

/** The question of a card. */
const QUESTIONS: Readonly<Record<ToolKind, string>> = {
  edit: "Make this edit?",
  command: "Run this command?",
  network: "Make this network request?",
  mcp: "Call this tool of an MCP server?",
  other: "Allow this?"
}

/** The place of a card among those that wait, with links to its neighbours. */
interface Place {
  readonly at: number
  readonly all: ReadonlyArray<ApprovalRequest>
}

const idOfCard = ({ approval_id }: ApprovalRequest) => `approval-${encodeURIComponent(approval_id)}`

const turning = ({ all, at }: Place): Html => {
  const link = (other: ApprovalRequest | undefined, sign: string, name: string) =>
    other !== undefined && html`<a href="#${idOfCard(other)}" aria-label="${name} approval">${sign}</a>`
  const [before, next] = [link(all[at - 1], "‹", "Previous"), link(all[at + 1], "›", "Next")]
  return html`<span class="turning">${before} ${at + 1}/${all.length} ${next}</span>`
}

/** `budget`: for a change as a table. */
export const approvalCard = (
  sandbox: Sandbox,
  approval: ApprovalRequest,
  csrf: Html,
  budget: Budget,
  place: Place | null = null
): Html => {
  const { approval_id, expires_at, kind, paths = [], preview = {}, tool } = approval
  const id = encodeURIComponent(approval_id)
  const covered = coveredKind(approval)
  const ofKind = covered !== null &&
    html`<button name="decision" value="approve_turn" class="quiet">Approve ${allOf[covered]}</button>`
  const change = preview.diff !== undefined && ApprovalDiff.render(preview.diff, budget)
  const iso = DateTime.formatIso(expires_at)
  // Nothing is said twice: neither the command, nor files that the title or the diff names.
  const { diff = "" } = preview
  const unsaid = paths.filter((path) => !tool.includes(path) && !diff.includes(`+++ ${path}\n`) && !diff.includes(`--- ${path}\n`))
  const isTitled = tool !== preview.command
  const mcp = preview.server !== undefined && html`<p class="fine">MCP server <code data-field="server">${preview.server}</code>, tool
<code data-field="tool">${preview.tool ?? ""}</code></p>`
  return html`<li class="approval" id="${idOfCard(approval)}" tabindex="-1">
<form method="post" action="/sandboxes/${sandbox.id}/approvals/${id}" data-live>${csrf}
<p class="asks"><span class="state wait">${QUESTIONS[kind ?? "other"]}</span>
<span class="fine">Expires <time datetime="${iso}">at ${iso.slice(11, 16)} UTC</time>, then denied</span>
${place !== null && place.all.length > 1 && turning(place)}</p>
<div class="asked">
${isTitled && html`<p><code>${tool}</code></p>`}
${unsaid.length > 0 && html`<p class="fine">${unsaid.join(", ")}</p>`}
${preview.cwd !== undefined && html`<p class="fine">In the folder <code data-field="cwd">${preview.cwd}</code></p>`}
${preview.command !== undefined && html`<pre data-field="command">${preview.command}</pre>`}
${preview.url !== undefined && html`<pre data-field="url">${preview.url}</pre>`}
${mcp}
${preview.arguments !== undefined && html`<pre data-field="arguments">${preview.arguments}</pre>`}
${change}
</div>
<div class="actions"><button name="decision" value="approve">Approve<span class="unseen"> ${tool}</span></button>
<button name="decision" value="deny" class="danger">Deny<span class="unseen"> ${tool}</span></button>
${ofKind}</div>
<details class="reason"><summary>Reason</summary>
<label for="reason-${id}">Reason for denying (optional, sent to the agent)</label>
<textarea id="reason-${id}" name="reason" rows="2" maxlength="2000"></textarea></details>
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
<p><a href="/sandboxes/${id}/approvals/${encodeURIComponent(approval_id)}">Review…<span class="unseen"> ${tool}</span></a></p>
</li>
`

/** People decide only on calls that they see in full: a call that does not fit, and those after it, have pages of their own. */
const approvalCards = (sandbox: Sandbox, csrf: Html, budget: Budget): Later => {
  const { approvals } = sandbox
  const card = (approval: ApprovalRequest) =>
    approvalCard(sandbox, approval, csrf, { bytes: budget.bytes / 2 }, { all: approvals, at: approvals.indexOf(approval) })
  return fit(approvals, budget, card, (cards) => {
    const others = approvals.slice(cards.length, cards.length + MAX_ELSEWHERE).map((approval) => elsewhere(sandbox, approval))
    const left = approvals.length - cards.length - others.length
    return html`<ul class="approvals">${cards}${others}</ul>
${left > 0 && html`<p class="fine">${left} more after these.</p>`}`
  })
}

const approvals = ({ csrf, sandbox }: Shown): Html =>
  html`<section id="approvals" data-piece="approvals" aria-labelledby="approvals-title"${hiddenUnless(sandbox.approvals.length > 0)}>
<h2 id="approvals-title" class="unseen" tabindex="-1">Needs your approval</h2>
${approvalCards(sandbox, csrf, { bytes: APPROVALS_BYTES })}</section>`

const questions = ({ csrf, sandbox }: Shown): Html =>
  html`<section id="questions" data-piece="questions" aria-labelledby="questions-title"${hiddenUnless(questionsOf(sandbox).length > 0)}>
<h2 id="questions-title" class="unseen" tabindex="-1">Needs your answer</h2>
${questionCards(sandbox, csrf)}</section>`

/** For screen readers. It leaves out the agent's text, which would never end. */
const announcement = ({ sandbox }: Shown): Html => {
  const { approvals, reason, status, turn } = sandbox
  const because = reason === null ? "" : ` ${labels.reason[reason]}`
  const [asked] = questionsOf(sandbox)
  const text = approvals.length > 0
    ? `The agent asks to be allowed: ${approvals.slice(0, MAX_ELSEWHERE).map(({ tool }) => tool).join("; ")}`
    : asked !== undefined
    ? `The agent asks: ${asked.questions.map(({ text }) => text).join(" ")}`
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
    html`<li id="waiting-${message_id}">
<p class="item-head"><span class="state wait">${steers ? "Steering" : position === 1 ? "Next" : "Queued"}</span>
<span>${position} of ${waiting.length}</span></p>
<div class="item-text">${beginningOf(text)}</div>
<form method="post" action="/sandboxes/${id}/messages/${message_id}/take-back" data-live>${csrf}
<button class="quiet">Cancel<span class="unseen"> message ${position}</span></button></form>
</li>
`
  )
  const problem = `The queue is full (${MAX_WAITING}). Cancel one or wait.`
  const full = waiting.length >= MAX_WAITING && html`<p class="problem" id="queue-full">${problem}</p>`
  return html`<section id="queue" data-piece="queue" aria-labelledby="queue-title"${hiddenUnless(waiting.length > 0)}>
<h3 id="queue-title" class="unseen" tabindex="-1">Queued messages</h3>
<ol class="waiting">${items}</ol>
${full}</section>`
}

/** `steers`: its agent takes messages during a turn. */
const message = ({ by, csrf, draft = "", sandbox: { id, status, turn, waiting } }: Shown, steers: boolean): Html => {
  const isBusy = isActive(turn)
  const described = [...(isBusy ? ["prompt-hint"] : []), ...(waiting.length >= MAX_WAITING ? ["queue-full"] : [])].join(" ")
  const hint = steers
    ? "The agent is working. Queue sends your message when it finishes; Steer hands it over now."
    : "The agent is working. Your message is sent when it finishes."
  // Queues also when idle: another person may have started a turn meanwhile.
  const buttons = isBusy
    ? html`<button name="whenBusy" value="queue">Queue</button>
${steers && html`<button name="whenBusy" value="steer" class="quiet">Steer</button>`}`
    : html`<button name="whenBusy" value="queue">Send</button>`
  const describedBy = described !== "" && html` aria-describedby="${described}"`
  return html`<form id="message" data-piece="message" method="post" action="/sandboxes/${id}/messages" enctype="multipart/form-data"
data-live data-draft="${`${by.grantId} ${by.userId} ${id}`}"${hiddenUnless(status === "running")}>${csrf}
<label for="prompt" class="unseen">Message the agent</label>
${isBusy && html`<p class="hint" id="prompt-hint">${hint}</p>`}
<textarea id="prompt" name="prompt" required rows="${draft.split("\n").length}" placeholder="Message the agent…"
data-longest="${MAX_PROMPT}" data-names="/sandboxes/${id}/files/names"${describedBy}>
${draft}</textarea>
${PromptFiles.field()}
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
  | "title"
  | "rename"
  | "pin"
  | "state"
  | "facts"
  | "line"
  | "commands"
  | "approvals"
  | "questions"
  | "queue"
  | "message"
  | "setup"
  | "pulls"
  | "artifacts"
  | "checkpoints"
  | "changes"
  | "timeline"
  | "waiting"
  | "rail"

/** Bytes of the lists of what changed. */
const CHANGES_BYTES = 192 * 1024

/** How long the first load waits for a source host. */
const PAGE_PATIENCE = Duration.millis(60)
/** How long the stream of an open page waits, since other pieces wait behind it. It asks again later. */
const HOST_PATIENCE = Duration.seconds(1)

const STILL_READING = "Loading changes…"

const isScripted = ({ models }: Catalogue, { sandbox }: Shown): boolean =>
  models.some(({ id, profile }) => id === sandbox.model && profile === "offline")

/** The changes of each repository, as `read` has them. */
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
<p class="fine">As of ${DateTime.formatIso(reading.at).slice(11, 19)} UTC. Refreshing… ${again}</p>`
    lists.push(html`${sandbox.repos.length > 1 && html`<h3>${fullName}</h3>`}
${list}${reading === null && html`<p>${again}</p>`}${isOld}
`)
  }
  const again = isAway && sandbox.status === "running" && html` data-again`
  return html`<div id="changes" data-piece="changes"${again}>${lists}</div>`
})

/** They are stored before the checkpoint of their turn is recorded. */
const artifactsPiece = (artifacts: typeof Artifacts.Service): Piece => ({
  on: ["sandbox.checkpoint"],
  isSlow: true,
  render: ({ by, sandbox: { id } }) => Effect.map(artifacts.list(by, id), (list) => ArtifactItems.render(id, list))
})

/** Pieces by name. A new piece also needs its place in `SandboxPage.ts`. */
export const make = Effect.gen(function*() {
  const sandboxes = yield* Sandboxes
  const dashboard = yield* SandboxDashboard
  const catalogue = yield* ModelCatalogue
  const pullsOf = yield* SandboxPulls.make
  const known = yield* ChangesCache
  const waitingOf = yield* WaitingPiece.make
  const railOf = yield* Rail
  const timelineOf = yield* TimelinePiece.make

  const pulls = ({ by, csrf, sandbox }: Shown, patience: Duration.Duration) =>
    Effect.map(pullsOf(by, sandbox, patience), (pulls) => SandboxPulls.render(sandbox, pulls, csrf))

  const pieces: Record<PieceName, Piece> & Record<"changes" | "pulls", Required<Pick<Piece, "soon">>> = {
    announcement: quick([...LIFE, ...ASKING], announcement),
    title: quick(["sandbox.renamed"], Bar.title),
    rename: quick(["sandbox.renamed"], Bar.rename),
    pin: {
      on: [],
      isSlow: true,
      render: Effect.fnUntraced(function*({ by, csrf, sandbox: { id } }) {
        const isArchived = (yield* dashboard.archived(by.grantId, [id])).has(id)
        return Bar.pin(id, csrf, (yield* dashboard.pins(by)).has(id), isArchived)
      })
    },
    state: quick([...LIFE, ...ASKING, "usage.updated", "pull_request.updated", "sandbox.restoring", "sandbox.restored"], Bar.state),
    facts: quick(
      [...LIFE, ...ASKING, "pull_request.updated", "sandbox.error", "sandbox.restored", "sandbox.restoring", "usage.updated"],
      (shown) => Bar.facts(shown, isScripted(catalogue, shown))
    ),
    line: {
      on: ["sandbox.status"],
      isSlow: true,
      changes: ({ status }) => status === "queued",
      render: Effect.fnUntraced(function*({ by, sandbox }) {
        const place = sandbox.status === "queued" ? placeInLine(sandbox, yield* dashboard.queue(by.grantId)) : ""
        return html`<p id="line" data-piece="line" class="fine"${hiddenUnless(place !== "")}>In line for a worker: ${place}.</p>`
      })
    },
    waiting: {
      on: [...LIFE, ...ASKING, "sandbox.renamed"],
      isSlow: true,
      render: ({ by }) => waitingOf(by.grantId)
    },
    rail: {
      on: [],
      // Later than a reading from before the event is used.
      often: [...LIFE, ...ASKING, "pull_request.updated", "sandbox.renamed"],
      isSlow: true,
      render: ({ by, sandbox }) => railOf.of(by, sandbox.id)
    },
    commands: quick([...LIFE, "pull_request.updated"], Bar.commands),
    approvals: quick([...LIFE, "approval.requested", "approval.resolved"], approvals),
    questions: quick([...LIFE, "question.asked", "question.answered"], questions),
    queue: quick([...LIFE, ...QUEUE], queue),
    message: quick([...LIFE, ...QUEUE], (shown) => message(shown, canSteer(catalogue, shown.sandbox))),
    setup: {
      on: ["sandbox.status", "setup.started", "sandbox.boot", "turn.started"],
      isSlow: true,
      changes: ({ status, turn }) => status === "creating" || turn?.state === "pending",
      render: Effect.fnUntraced(function*({ by, sandbox }) {
        return SandboxSetup.render(yield* sandboxes.setup(by, sandbox.id), yield* DateTime.now, sandbox)
      })
    },
    pulls: {
      on: ["sandbox.status", "pull_request.updated", "feedback.received", "feedback.paused", "feedback.resumed"],
      isSlow: true,
      isLate: true,
      render: (shown) => pulls(shown, HOST_PATIENCE),
      soon: (shown) => pulls(shown, PAGE_PATIENCE)
    },
    artifacts: artifactsPiece(yield* Artifacts),
    checkpoints: {
      on: [...LIFE, "sandbox.checkpoint", "sandbox.restoring", "sandbox.restored"],
      isSlow: true,
      render: Effect.fnUntraced(function*({ by, sandbox }) {
        const kept = sandboxes.checkpoints(by, sandbox.id, { after: 0, limit: KEPT_CHECKPOINTS })
        return CheckpointList.render(sandbox, yield* Effect.catchTag(kept, "InvalidRequest", Effect.die))
      })
    },
    timeline: {
      on: [...LIFE, "sandbox.boot", ...ASKING],
      isSlow: true,
      isLate: true,
      render: ({ by, sandbox }) => timelineOf(by, sandbox)
    },
    changes: {
      on: ["sandbox.status", "turn.completed", "sandbox.restored"],
      often: ["tool.updated"],
      isSlow: true,
      isLate: true,
      render: (shown) =>
        changesAs(shown, (repo) => Effect.map(known.read(shown.by, shown.sandbox, repo), (found) => ({ found, at: null }))),
      soon: (shown) => changesAs(shown, (repo) => known.soon(shown.by, shown.sandbox, repo))
    }
  }
  return pieces
})
