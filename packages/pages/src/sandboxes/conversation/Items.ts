/** The items of a conversation as HTML: messages as text, steps as rows that open. */
import { DateTime, Effect, Struct } from "effect"
import { beginning, type Budget, fit } from "../../html/Fit.ts"
import { html, type Html, type Later, type Part } from "../../html/Html.ts"
import { duration } from "../../html/Moments.ts"
import * as Render from "../../html/Render.ts"
import * as Markdown from "../../text/Markdown.ts"
import { type Call, type Item, type Kind, type Stage, STAGES } from "./Conversation.ts"

/** Bytes of one item's text: the rest of it has a page of its own. */
const ITEM_BYTES = 64 * 1024

const NAMES: Record<Stage, string> = { queue: "Queue", sandbox: "Sandbox", clone: "Clone", setup: "Setup", agent: "Agent" }

const timeOf = ({ at }: Item): Html => {
  const iso = DateTime.formatIso(at)
  return html`<time datetime="${iso}">${iso.slice(11, 16)}</time>`
}

const took = (millis: number | undefined): Html | false =>
  millis !== undefined && millis >= 50 && html`<span class="took">${duration(millis)}</span>`

/** The text of an item within its bytes, by `render`, with a link to the rest of it. */
const textOf = (item: Item, address: string, text: string, render: typeof beginning, done: (shown: Html) => Part): Later =>
  render(text, { bytes: ITEM_BYTES }, (shown, length) => {
    const before = item.text.length - text.length
    const rest = new URLSearchParams({ item: item.key, at: String(item.seq), from: String(before + length) })
    const more = length < text.length && html`
<p class="fine">${text.length - length} more characters hidden. <a href="${address}/text?${rest.toString()}">Show the rest</a></p>`
    return done(html`${shown}${more}`)
  })

/** Lines of a prompt before the rest of it is folded, and characters that count as so many lines. */
const PROMPT_LINES = 12
const PROMPT_CHARACTERS = PROMPT_LINES * 90

/** Where the part of a prompt ends that is always shown. */
const foldOf = (text: string): number => {
  let end = 0
  for (let line = 0; line < PROMPT_LINES; line++) {
    const next = text.indexOf("\n", end)
    if (next < 0 || next > PROMPT_CHARACTERS) return text.length <= PROMPT_CHARACTERS ? text.length : Math.max(end, PROMPT_CHARACTERS)
    end = next + 1
  }
  return end
}

const prompt = (item: Item, address: string): Part =>
  textOf(item, address, item.text, beginning, (shown) => {
    const { text } = item
    const fold = foldOf(text)
    const head = html`<p class="item-head"><span class="who">You</span> ${timeOf(item)}</p>`
    const { files = [] } = item
    const named = files.length > 0 && html`<p class="fine">${files.length === 1 ? "File" : "Files"}: ${files.join(", ")}</p>`
    if (fold >= text.length) return html`${head}<div class="item-text">${shown}</div>${named}`
    const end = (text.codePointAt(fold - 1) ?? 0) > 0xffff ? fold - 1 : fold
    return html`${head}<div class="item-text">${text.slice(0, end).trimEnd()} …</div>
<details class="all"><summary>Show all</summary><div class="item-text">${shown}</div></details>${named}`
  })

const text = (item: Item, address: string): Part =>
  textOf(item, address, item.text, Markdown.render, (shown) => html`<span class="unseen">Agent</span><div class="item-text">${shown}</div>`)

const reasoning = (item: Item, address: string): Part =>
  textOf(item, address, item.text, Markdown.render, (shown) => {
    const { ms = 0 } = item
    return html`<details class="row"><summary><span class="what">Thought${ms >= 1000 && ` for ${duration(ms)}`}</span></summary>
<div class="item-text">${shown}</div></details>`
  })

const STATES: Record<Call["state"], readonly [sign: string, word: string]> = {
  waits: ["", "waiting"],
  runs: ["", "running"],
  asks: ["", "needs your approval"],
  done: ["✓", "done"],
  failed: ["✗", "failed"],
  denied: ["✗", "denied"]
}

/** Titles up to this length fit into a row: a longer one opens. */
const SHORT_TITLE = 60
/** Characters of a title: more of it is text like the rest. */
const MAX_TITLE = 300

const tool = (item: Item, address: string): Part => {
  const { call = { state: "done", paths: [], isCommand: false, depth: 0 }, text } = item
  const first = text.slice(0, MAX_TITLE).split("\n", 1).join("")
  const isWhole = first.length < MAX_TITLE
  const title = isWhole ? first : `${first.toWellFormed()}…`
  const body = isWhole ? text.slice(first.length + 1) : text
  const [sign, word] = STATES[call.state]
  const state = sign === "" || call.state === "denied"
    ? html`<span class="stands ${call.state}">${sign} ${word}</span>`
    : html`<span class="stands ${call.state}"><span aria-hidden="true">${sign}</span><span class="unseen">${word}</span></span>`
  const icon = html`<span class="icon" aria-hidden="true">${call.isCommand ? "$" : call.paths.length > 0 ? "✎" : "·"}</span>`
  const line = html`${icon}<code class="what">${title}</code>${took(item.ms)}${state}`
  if (body === "" && title.length <= SHORT_TITLE) return html`<div class="row"><div class="summary">${line}</div></div>`
  const isOpen = call.state === "runs" || call.state === "failed"
  return textOf(item, address, body, beginning, (shown) => {
    const output = body !== "" &&
      html`<div class="output-box" data-tail tabindex="0" role="group" aria-label="Output"><pre class="item-text">
${shown}</pre></div>`
    return html`<details class="row"${isOpen && html` open`}><summary>${line}</summary>
${output}</details>`
  })
}

const STEPS = { completed: ["✓", "done"], in_progress: ["▸", "under way"], pending: ["○", "to do"] } as const

const plan = ({ plan = [], text }: Item): Part => {
  const [head = ""] = text.split("\n", 1)
  const steps = plan.map(({ status, text }) => {
    const [sign, word] = STEPS[status]
    return html`<li class="${status}"><span aria-hidden="true">${sign}</span><span class="unseen">${word}: </span> ${text}</li>`
  })
  return html`<p class="plan-head">${head}</p>${steps.length > 0 && html`<ul class="plan-steps">${steps}</ul>`}`
}

const boot = ({ boot, text }: Item, address: string): Part => {
  if (boot === undefined) return null
  const { done, ms, since, stage } = boot
  const stages = STAGES.filter((one) => one !== "setup" || done.setup !== undefined || stage === "setup")
  if (stage === null) {
    const told = stages.filter((one) => one !== "queue" && done[one] !== undefined)
      .map((one) => html`<li>${NAMES[one]} <span class="took">${duration(done[one] ?? 0)}</span></li>`)
    const line = ms === null ? "Did not start" : `Started in ${duration(ms)}`
    const output = done.setup !== undefined && html`<p class="fine"><a href="${address}/text?item=setup">Output of the setup</a></p>`
    return html`<details class="row"><summary><span class="what">${line}</span></summary>
<ul class="stages">${told}</ul>${output}${text !== "" && html`<p class="fine">${text}</p>`}</details>`
  }
  const segments = STAGES.map((one) => {
    const state = done[one] !== undefined && one !== stage ? "done" : one === stage ? "now" : "next"
    return html`<li class="${state}"${state === "now" && html` aria-current="step"`}>${NAMES[one]}${took(done[one])}</li>`
  })
  return html`<p class="starting"><strong>Starting…</strong> <span class="took" data-since="${DateTime.formatIso(since)}"></span></p>
<ol class="segments">${segments}</ol>`
}

const note = (item: Item, address: string): Part =>
  textOf(item, address, item.text, beginning, (shown) => {
    const output = item.isOfSetup === true && html` <a href="${address}/text?item=setup">Show its output</a>`
    return html`<div class="item-text">${shown}${output}</div>`
  })

const end = (item: Item, address: string): Part =>
  textOf(item, address, item.text, beginning, (shown) => html`<span class="item-text">${shown}</span>${took(item.ms)}${timeOf(item)}`)

const checkpoint = ({ checkpoint, text }: Item, address: string): Part => {
  const said = html`<span class="item-text">${text}</span>`
  if (checkpoint === undefined) return said
  const which = html`<span class="unseen"> checkpoint ${checkpoint}</span>`
  return html`${said}
<a class="restore" href="${address}/restore?checkpoint=${checkpoint}">Restore${which}…</a>
<a href="${address}/fork?checkpoint=${checkpoint}">Fork${which}…</a>`
}

/** The item without links to pages that change something. */
export const readOnly = (item: Item): Item => Struct.omit(item, ["checkpoint"])

/** The content of the `<li>` of each kind of item. */
const VIEWS: Record<Kind, (item: Item, address: string) => Part> = {
  prompt,
  text,
  reasoning,
  tool,
  plan,
  boot,
  end,
  checkpoint,
  note,
  problem: note
}

/** `address`: of the sandbox's page. */
const rendered = (item: Item, address: string): Html => {
  const { call, key, kind, ms } = item
  // For the script that folds rows: see `steps.js`.
  const done = call !== undefined && (call.state === "done" || call.state === "denied") &&
    html` data-done data-ms="${ms ?? 0}" data-paths="${call.paths.join("\n")}"`
  const nested = call !== undefined && call.depth > 0 && html` data-depth="${call.depth}"`
  return html`<li class="item ${kind}" data-key="${key}"${nested}${done}>
${VIEWS[kind](item, address)}
</li>
`
}

/** Fewer finished rows in a row are not folded. */
const LEAST_STEPS = 3

const isRow = ({ kind }: Item): boolean => kind === "tool" || kind === "reasoning"
const mayFold = ({ call, kind }: Item): boolean => kind === "reasoning" || call?.state === "done" || call?.state === "denied"

/** `7 steps · 3 files · 12 s`. `steps.js` says the same. */
const summaryOf = (items: ReadonlyArray<Item>): string => {
  const calls = items.filter(({ kind }) => kind === "tool")
  const files = new Set(calls.flatMap(({ call }) => call?.paths ?? [])).size
  const ms = calls.reduce((sum, { ms = 0 }) => sum + ms, 0)
  return [`${calls.length} steps`, files === 0 ? "" : files === 1 ? "1 file" : `${files} files`, ms < 1000 ? "" : duration(ms)]
    .filter((part) => part !== "").join(" · ")
}

/** Rows of finished steps between two messages become one row, which opens. */
const folded = (items: ReadonlyArray<Item>, shown: ReadonlyArray<Html>): ReadonlyArray<Html> => {
  const result: Array<Html> = []
  for (let at = 0; at < items.length;) {
    let next = at
    for (let item = items[next]; item !== undefined && mayFold(item); item = items[next]) next++
    const run = items.slice(at, next)
    const follows = items[next]
    if (follows !== undefined && !isRow(follows) && run.filter(({ kind }) => kind === "tool").length >= LEAST_STEPS) {
      result.push(html`<li class="steps"><details><summary>${summaryOf(run)}</summary>
<ol>${shown.slice(at, next)}</ol></details></li>
`)
    } else {
      if (next === at) next++
      result.push(...shown.slice(at, next))
    }
    at = next
  }
  return result
}

/** The first prompt stays above the start that it waited for. */
const ordered = (items: ReadonlyArray<Item>): ReadonlyArray<Item> => {
  const first = items.find(({ kind }) => kind === "prompt")
  return items[0]?.kind !== "boot" || first === undefined ? items : [first, ...items.filter((item) => item !== first)]
}

/** The newest items that fit, in their order: the first ones are left out. `done` gets them, and what was made of them. */
export const render = (
  items: ReadonlyArray<Item>,
  address: string,
  budget: Budget,
  done: (shown: ReadonlyArray<Html>, taken: ReadonlyArray<Item>) => Part
): Later =>
  fit(ordered(items).toReversed(), budget, (item) => rendered(item, address), (shown, taken) => {
    const told = taken.toReversed()
    return done(folded(told, shown.toReversed()), told)
  })

/** The key of the prompt before its turn has a name. */
export const FIRST_PROMPT = "prompt:first"

/** Bytes of items that are sent together. */
const TOGETHER_BYTES = 256 * 1024

/** The changed items, in parts, for a page that has the earlier ones: items of one key replace each other. */
export const changes = Effect.fnUntraced(function*(items: ReadonlyArray<Item>, address: string) {
  const first = items.find(({ kind }) => kind === "prompt")
  const parts: Array<Array<Html>> = [
    first === undefined ? [] : [html`<li data-key="${FIRST_PROMPT}" data-becomes="${first.key}"></li>`]
  ]
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
