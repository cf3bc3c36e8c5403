/** What was said and done in a sandbox, as its page shows it: one item for each part, in the order in which they began. */
import type { RecordedEvent } from "@slipway/domain/sandbox/SandboxEvent"
import type { TurnOutcome } from "@slipway/domain/sandbox/Turn"
import { DateTime } from "effect"
import { html, type Html } from "../Html.ts"
import { words } from "./SandboxWords.ts"

export interface Item {
  /** Items of one key replace each other. */
  readonly key: string
  readonly kind: keyof typeof words.who
  readonly text: string
  /** How a tool call stands. */
  readonly state: string
  readonly at: DateTime.Utc
}

/** What several events tell of one tool call. */
interface ToolCall {
  readonly tool: string
  /** How it stands. */
  readonly state: string
  readonly decision: string
  readonly error: string
  /** What it does in full, where that is not its name. */
  readonly command: string
  readonly output: string
}

const unknown: ToolCall = { tool: "A tool call", state: "", decision: "", error: "", command: "", output: "" }

/** How a turn ended, and why. */
const because = (state: TurnOutcome, reason: string | undefined): string => {
  const said = reason === undefined ? "" : words.turnReason[reason] ?? reason
  return said === "" || state === "succeeded" ? words.turn[state] : `${words.turn[state]}: ${said}`
}

/** `null`: nothing to show. `calls`: by their id. `live.js` has the same for events that come later. */
const itemOf = ({ at, event, seq }: RecordedEvent, calls: Map<string, ToolCall>): Item | null => {
  const item = (key: string, kind: Item["kind"], text: string, state = ""): Item => ({ key, kind, text, state, at })
  const call = (id: string, more: Partial<ToolCall>) => {
    const known = { ...unknown, ...calls.get(id), ...more }
    calls.set(id, known)
    // An agent that says no more than that it was denied says nothing new.
    const error = known.error.toLowerCase() === known.decision.toLowerCase() ? "" : known.error
    const command = known.command === known.tool ? "" : known.command
    const lines = [known.tool, command, known.decision, error, known.output.replace(/\n+$/u, "")]
    return item(`tool:${id}`, "tool", lines.filter((line) => line !== "").join("\n"), known.state)
  }
  const { data, type } = event
  switch (type) {
    case "sandbox.status":
      return item(
        `event:${seq}`,
        data.status === "failed" ? "problem" : "note",
        data.reason === null ? words.status[data.status] : `${words.status[data.status]}. ${words.reason[data.reason]}`
      )
    case "sandbox.boot":
      return item(`event:${seq}`, "note", `Boot: ${data.stage}${data.repo === undefined ? "" : ` ${data.repo}`}, ${data.ms} ms`)
    case "sandbox.error":
      return item(`event:${seq}`, "problem", data.message)
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
      return data.finish === "end_turn" ? null : item(`finish:${data.message_id}`, "note", words.finish[data.finish])
    case "tool.updated":
      return call(data.call_id, {
        tool: data.tool,
        state: words.tool[data.status],
        error: data.error ?? "",
        ...(data.detail?.command === undefined ? {} : { command: data.detail.command }),
        ...(data.detail?.output === undefined ? {} : { output: data.detail.output })
      })
    case "approval.requested":
      return call(data.approval_id, { tool: data.tool, ...(data.preview?.command === undefined ? {} : { command: data.preview.command }) })
    case "approval.resolved": {
      const by = words.approvalBy[data.by]
      return call(data.approval_id, { decision: by === "" ? words.approval[data.outcome] : `${words.approval[data.outcome]}: ${by}` })
    }
    case "pull_request.updated":
      return item(
        `event:${seq}`,
        data.error === undefined ? "note" : "problem",
        [
          `Pull request of ${data.repo}`,
          data.number === undefined ? "" : ` #${data.number}`,
          data.error === undefined
            ? words.action[data.action_state] === "" ? "" : `: ${words.action[data.action_state]}`
            : `: ${data.error.message}`
        ].join("")
      )
    case "usage.updated":
      return null
  }
}

const OVER = [words.tool.completed, words.tool.error]

/** Takes events in their order. Each event of a message has all of its text so far: only the last one is kept. */
export class Conversation {
  readonly #items = new Map<string, Item>()
  readonly #calls = new Map<string, ToolCall>()

  add(event: RecordedEvent): void {
    const item = itemOf(event, this.#calls)
    if (item !== null) this.#items.set(item.key, item)
  }

  get items(): ReadonlyArray<Item> {
    return [...this.#items.values()]
  }

  /** The tool calls that go on, by their id. */
  get calls(): ReadonlyArray<readonly [id: string, call: ToolCall]> {
    return [...this.#calls].filter(([, { state }]) => !OVER.includes(state))
  }
}

const rendered = ({ key, kind, state, text }: Omit<Item, "at">, at: Html): Html => {
  const hidden = state === "" && html` hidden`
  return html`<li class="item ${kind}" data-key="${key}">
<p class="item-head"><span class="who">${words.who[kind]}</span> <span class="state"${hidden}>${state}</span> ${at}</p>
<div class="item-text">${text}</div>
</li>
`
}

export const render = (items: ReadonlyArray<Item>): ReadonlyArray<Html> =>
  items.map((item) => {
    const iso = DateTime.formatIso(item.at)
    return rendered(item, html`<time datetime="${iso}">${iso.slice(11, 19)}</time>`)
  })

const blank = rendered({ key: "", kind: "note", text: "", state: "" }, html`<time></time>`)

/** What `live.js` fills in for a new item. */
export const template: Html = html`<template id="item-template">${blank}</template>`
