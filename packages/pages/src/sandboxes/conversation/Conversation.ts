/** The conversation of a sandbox as its page shows it: one item for each part, in the order in which the parts began. */
import type { RecordedEvent } from "@slipway/domain/sandbox/rules/SandboxEvent"
import type { TurnOutcome } from "@slipway/domain/sandbox/rules/Turn"
import { DateTime, Effect } from "effect"
import { beginning, type Budget, fit } from "../../html/Fit.ts"
import { html, type Html, type Later, type Part } from "../../html/Html.ts"
import * as Render from "../../html/Render.ts"
import { labels } from "../../shared/SandboxLabels.ts"
import * as Markdown from "../../text/Markdown.ts"

export interface Item {
  /** Items of one key replace each other. */
  readonly key: string
  readonly kind: keyof typeof labels.who
  readonly text: string
  /** How a tool call stands. */
  readonly state: string
  readonly at: DateTime.Utc
  /** The event that told it last; 0: none did. */
  readonly seq: number
}

/** One tool call, from its events. */
interface ToolCall {
  readonly tool: string
  /** How it stands. */
  readonly state: string
  readonly decision: string
  readonly error: string
  /** The whole command, if the name does not say it. */
  readonly command: string
  readonly output: string
}

const unknown: ToolCall = { tool: "A tool call", state: "", decision: "", error: "", command: "", output: "" }

/** How a turn ended, and why. */
const because = (state: TurnOutcome, reason: string | undefined): string => {
  const said = reason === undefined ? "" : labels.turnReason[reason] ?? reason
  return said === "" || state === "succeeded" ? labels.turn[state] : `${labels.turn[state]}: ${said}`
}

/** `null`: nothing to show. `calls`: by their id. */
const itemOf = ({ at, event, seq }: RecordedEvent, calls: Map<string, ToolCall>): Item | null => {
  const item = (key: string, kind: Item["kind"], text: string, state = ""): Item => ({ key, kind, text, state, at, seq })
  const call = (id: string, more: Partial<ToolCall>) => {
    const known = { ...unknown, ...calls.get(id), ...more }
    calls.set(id, known)
    // An agent that says no more than that it was denied says nothing new.
    const error = known.error.toLowerCase() === known.decision.toLowerCase() ? "" : known.error
    const command = known.command === known.tool ? "" : known.command
    const lines = [known.tool, command, known.decision, error, known.output.replace(/(?<!\n)\n+$/u, "")]
    return item(`tool:${id}`, "tool", lines.filter((line) => line !== "").join("\n"), known.state)
  }
  const { data, type } = event
  switch (type) {
    case "sandbox.status":
      return item(
        `event:${seq}`,
        data.status === "failed" ? "problem" : "note",
        data.reason === null ? labels.status[data.status] : `${labels.status[data.status]}. ${labels.reason[data.reason]}`
      )
    case "setup.started":
      return item(`event:${seq}`, "note", `Setup began; it may take ${Math.ceil(data.limit_ms / 60_000)} min`)
    case "sandbox.boot":
      if (data.error !== undefined) {
        return item(`event:${seq}`, "problem", `Setup${data.repo === undefined ? "" : ` of ${data.repo}`} failed. ${data.error}`)
      }
      return item(
        `event:${seq}`,
        "note",
        `Boot: ${data.stage}${data.repo === undefined ? "" : ` ${data.repo}`}, ${data.ms} ms` +
          (data.submodules === undefined ? "" : `. Submodules are left empty: ${data.submodules.join(", ")}`)
      )
    case "sandbox.forked":
      return item(`event:${seq}`, "note", `Goes on from checkpoint ${data.checkpoint} of ${data.sandbox_id}`)
    case "sandbox.checkpoint":
      return data.error === undefined ? null : item(`event:${seq}`, "problem", `No checkpoint: ${data.error}`)
    case "sandbox.restoring":
      return item(`event:${seq}`, "note", `Checkpoint ${data.checkpoint} was asked for`)
    case "sandbox.restored":
      return data.checkpoint === undefined
        ? item(`event:${seq}`, "problem", `Nothing was restored; files and conversation are as they were. ${data.error}`)
        : item(
          `event:${seq}`,
          data.lost_turn === undefined ? "note" : "problem",
          `${labels.restored[data.cause]} Files and conversation are those of checkpoint ${data.checkpoint}.`
        )
    case "sandbox.error":
      return item(`event:${seq}`, "problem", data.message)
    // A queued message is not part of the conversation yet.
    case "message.queued":
    case "message.cancelled":
      return null
    case "message.steered":
      return item(`prompt:${data.message_id}`, "prompt", data.text)
    case "turn.started":
      return item(`prompt:${event.turn_id}`, "prompt", data.text)
    case "turn.updated":
      return data.text !== undefined
        ? item(`prompt:${event.turn_id}`, "prompt", data.text)
        : data.reason === "interrupt"
        ? item(`interrupt:${event.turn_id}`, "note", "An interrupt was asked for")
        : null
    case "turn.completed":
      return item(`turn:${event.turn_id}`, data.state === "failed" ? "problem" : "note", because(data.state, data.reason))
    case "message.updated":
      return item(data.part_id, data.kind, data.text)
    case "message.completed":
      return data.finish === "end_turn" ? null : item(`finish:${data.message_id}`, "note", labels.finish[data.finish])
    case "tool.updated":
      return call(data.call_id, {
        tool: data.tool,
        state: labels.tool[data.status],
        error: data.error ?? "",
        ...(data.detail?.command === undefined ? {} : { command: data.detail.command }),
        ...(data.detail?.output === undefined ? {} : { output: data.detail.output })
      })
    case "approval.requested":
      return call(data.approval_id, { tool: data.tool, ...(data.preview?.command === undefined ? {} : { command: data.preview.command }) })
    case "approval.resolved": {
      const more = data.reason ?? (data.scope === undefined ? labels.approvalBy[data.by] : labels.approvedForTurn)
      return call(data.approval_id, { decision: more === "" ? labels.approval[data.outcome] : `${labels.approval[data.outcome]}: ${more}` })
    }
    case "pull_request.updated":
      return item(
        `event:${seq}`,
        data.error === undefined ? "note" : "problem",
        [
          `Pull request of ${data.repo}`,
          data.number === undefined ? "" : ` #${data.number}`,
          data.error === undefined
            ? labels.action[data.action_state] === "" ? "" : `: ${labels.action[data.action_state]}`
            : `: ${data.error.message}`,
          data.submodules === undefined ? "" : `. Not published, as they are in submodules: files in ${data.submodules.join(", ")}`
        ].join("")
      )
    case "usage.updated":
      return null
  }
}

const OVER = [labels.tool.completed, labels.tool.error]

/** Tool calls that are remembered between two takes; beyond it, finished ones are forgotten. */
const KEPT_CALLS = 50

/** Takes events in their order. Each event of a message has all of its text so far: only the last one is kept. */
export class Conversation {
  #items = new Map<string, Item>()
  readonly #calls = new Map<string, ToolCall>()
  /** By key: the first event of each item. */
  readonly #began = new Map<string, number>()

  add(event: RecordedEvent): void {
    const item = itemOf(event, this.#calls)
    if (item === null) return
    if (!this.#items.has(item.key)) this.#began.set(item.key, event.seq)
    this.#items.set(item.key, item)
  }

  /** The first event that told it. */
  beganAt({ key, seq }: Item): number {
    return this.#began.get(key) ?? seq
  }

  get items(): ReadonlyArray<Item> {
    return [...this.#items.values()]
  }

  /** The items that are new or changed since the last time. What later events tell of the same tool calls still adds to what is known. */
  take(): ReadonlyArray<Item> {
    const { items } = this
    this.#items = new Map()
    this.#began.clear()
    for (const [id, { state }] of this.#calls) {
      if (this.#calls.size <= KEPT_CALLS) break
      if (OVER.includes(state)) this.#calls.delete(id)
    }
    return items
  }
}

/** Texts of agents are Markdown. Prompts are shown as typed, because the agent got them so. */
const isMarkdown = (kind: Item["kind"]): boolean => kind === "text" || kind === "reasoning"

/** Bytes of one item's text: the rest of it has a page of its own. */
const ITEM_BYTES = 64 * 1024

/** `address`: of the sandbox's page. */
const rendered = ({ at, key, kind, seq, state, text }: Item, address: string): Later => {
  const render = isMarkdown(kind) ? Markdown.render : beginning
  return render(text, { bytes: ITEM_BYTES }, (shown, length) => {
    const iso = DateTime.formatIso(at)
    const hidden = state === "" && html` hidden`
    const rest = new URLSearchParams({ item: key, at: String(seq), from: String(length) })
    const more = length < text.length && html`
<p class="fine">${text.length - length} more characters are not shown. <a href="${address}/text?${rest.toString()}">Show the rest</a></p>`
    return html`<li class="item ${kind}" data-key="${key}">
<p class="item-head"><span class="who">${labels.who[kind]}</span> <span class="state"${hidden}>${state}</span>
<time datetime="${iso}">${iso.slice(11, 19)}</time></p>
<div class="item-text">${shown}</div>${more}
</li>
`
  })
}

/** The newest items that fit, in their order: the first ones are left out. */
export const render = (items: ReadonlyArray<Item>, address: string, budget: Budget, done: (shown: ReadonlyArray<Html>) => Part): Later =>
  fit(items.toReversed(), budget, (item) => rendered(item, address), (shown) => done(shown.toReversed()))

/** The key of the prompt before its turn has a name. */
export const FIRST_PROMPT = "prompt:first"

const firstIsGone = html`<li data-key="${FIRST_PROMPT}" data-gone></li>`

/** Bytes of items that are sent together. */
const TOGETHER_BYTES = 256 * 1024

/** The changed items, in parts, for a page that has the earlier ones: items of one key replace each other. */
export const changes = Effect.fnUntraced(function*(items: ReadonlyArray<Item>, address: string) {
  const parts: Array<Array<Html>> = [items.some(({ kind }) => kind === "prompt") ? [firstIsGone] : []]
  let left = TOGETHER_BYTES
  for (const item of items) {
    const made = yield* Render.html(rendered(item, address))
    const bytes = Buffer.byteLength(String(made))
    if (bytes > left) {
      parts.push([])
      left = TOGETHER_BYTES
    }
    left -= bytes
    parts.at(-1)?.push(made)
  }
  return parts.filter((part) => part.length > 0).map((part) => html`<ol data-piece="conversation" data-changes>${part}</ol>`)
})
