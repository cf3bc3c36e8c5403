/**
 * The events of a sandbox as text for a terminal. Texts of agents are indented, so that they do not look like our lines, and control
 * characters are shown by name.
 */
import type { ApprovalRequest, CommandResult, StreamEvent, TokenCounts, Usage } from "@slipway/client"
import { visible } from "@slipway/domain/text/EscapeInvisible"
import { inOneLine } from "@slipway/domain/text/Lines"
import { labels, tokensTold } from "@slipway/pages/shared/SandboxLabels"
import type { styleText } from "node:util"

type Style = Parameters<typeof styleText>[0]
/** Colours a text if colours are wanted. */
export type Paint = (style: Style, text: string) => string

/** Lines of a tool's output that are shown, from its end. */
const OUTPUT_LINES = 12
const LINE_CHARACTERS = 300

/** An untrusted text in one line. */
export const line = (text: string): string => visible(inOneLine(text))
const short = (text: string): string => text.length <= LINE_CHARACTERS ? text : `${text.slice(0, LINE_CHARACTERS).toWellFormed()}…`
const block = (text: string, prefix: string): string =>
  visible(text).replace(/\n$/u, "").split("\n").map((one) => `${prefix}${one}\n`).join("")

const lastLines = (text: string): string => {
  const lines = text.replace(/\n$/u, "").split("\n")
  const left = lines.slice(-OUTPUT_LINES).map(short)
  return lines.length === left.length ? left.join("\n") : `… ${lines.length - left.length} lines before\n${left.join("\n")}`
}

export const seconds = (millis: number): string =>
  millis < 60_000 ? `${(millis / 1000).toFixed(1)} s` : `${Math.floor(millis / 60_000)} min ${Math.round(millis % 60_000 / 1000)} s`

/** US dollars, with more digits below a cent. */
export const usd = (microUsd: number): string => {
  const dollars = microUsd / 1_000_000
  return `$${dollars.toFixed(dollars > 0 && dollars < 0.01 ? 6 : 2)}`
}

/** The cost of models. `tokens`: `null` if the server did not send them. */
export const cost = ({ costMicroUsd, llmRequestCount }: Usage, tokens: TokenCounts | null): string => {
  const requests = llmRequestCount === 1 ? "request" : "requests"
  const counts = tokens === null ? null : tokensTold(tokens)
  return `${usd(costMicroUsd)}, ${llmRequestCount} ${requests} to models` +
    (counts === null ? "" : ` · tokens: ${counts}`)
}

/** A patch with the usual colours. */
export const patch = (paint: Paint, text: string): string =>
  visible(text).split("\n").map((one) => {
    if (/^(?:\+\+\+|---|diff |index )/u.test(one)) return paint("bold", one)
    if (one.startsWith("@@")) return paint("cyan", one)
    return one.startsWith("+") ? paint("green", one) : one.startsWith("-") ? paint("red", one) : one
  }).join("\n")

/** Everything that a person must see before a decision, never cut. */
export const approval = (paint: Paint, { kind, paths, preview, tool }: ApprovalRequest): string => {
  const inside = (text: string) => block(text, "  │ ")
  const { command, cwd, diff, url } = preview ?? {}
  return `${paint(["yellow", "bold"], `? The agent asks: ${line(tool)}`)}${kind === undefined ? "" : ` (${kind})`}\n` +
    (paths === undefined || paths.length === 0 ? "" : `  files: ${paths.map((path) => line(path)).join(", ")}\n`) +
    (cwd === undefined ? "" : `  folder: ${line(cwd)}\n`) +
    (command === undefined ? "" : inside(command)) +
    (url === undefined ? "" : inside(url)) +
    (diff === undefined ? "" : `${patch(paint, diff.replace(/\n$/u, "")).replaceAll(/^/gmu, "  │ ")}\n`)
}

/** The title of an approval in one line. */
export const title = ({ tool }: ApprovalRequest): string => short(line(tool))

/** The sentence for a rejected command. */
export const rejection = (word: CommandResult["rejection"]): string =>
  word === undefined ? "It is not possible now." : labels.rejection[word] ?? line(word)

const cancelled: Readonly<Record<string, string>> = {
  command: "somebody took it back",
  sandbox_ended: "the sandbox ended",
  output_limit: "the sandbox wrote as much as one may",
  budget_exceeded: "a budget is used up",
  no_credits: "the credits are used up"
}

const bootStages: Readonly<Record<string, string>> = {
  provision: "made a box",
  clone: "cloned",
  setup: "set up",
  agent_start: "started the agent"
}

/** The texts shown so far. */
interface Told {
  readonly paint: Paint
  /** The texts so far of unfinished messages' parts. */
  readonly parts: Map<string, string>
  /** Statuses of open tool calls. */
  readonly calls: Map<string, string>
  /** The part whose text ends at the cursor. */
  open: string | undefined
  turnBegan: number | undefined
}

const lines = (told: Told, text: string): string => {
  const before = told.open === undefined ? "" : "\n"
  told.open = undefined
  return before + text
}
const note = (told: Told, text: string) => lines(told, `${told.paint("dim", `· ${text}`)}\n`)
const problem = (told: Told, text: string) => lines(told, `${told.paint("red", `✗ ${text}`)}\n`)

const message = (told: Told, part: string, kind: "text" | "reasoning", text: string): string => {
  const { paint, parts } = told
  const before = parts.get(part)
  parts.set(part, text)
  const style = (added: string) => kind === "reasoning" ? paint("dim", added) : added
  const indented = (added: string) => style(visible(added).replaceAll("\n", "\n  "))
  if (before !== undefined && told.open === part && text.startsWith(before)) return indented(text.slice(before.length))
  if (before === text || text === "") return ""
  // A text that changed, or that other lines interrupted, continues or is repeated on new lines.
  const added = before !== undefined && text.startsWith(before) ? text.slice(before.length) : text
  const shown = lines(told, `  ${indented(added)}`)
  told.open = part
  return shown
}

const tool = (
  told: Told,
  { call_id, detail, error, status, tool: title }: Extract<StreamEvent, { type: "tool.updated" }>["data"]
): string => {
  const { calls, paint } = told
  const name = line(title)
  const before = calls.get(call_id)
  calls.set(call_id, status)
  let text = ""
  if (before === undefined) {
    const command = detail?.command
    const about = command !== undefined && !title.includes(command.trim()) ? block(lastLines(command), "  $ ") : ""
    text += `${paint("cyan", `▸ ${name}`)}\n${paint("dim", about)}`
  }
  if (status === "completed" || status === "error") {
    calls.delete(call_id)
    const output = detail?.output ?? ""
    if (output.trim() !== "") text += paint("dim", block(lastLines(output), "  │ "))
    if (status === "error") text += `${paint("red", `  ✗ ${line(error ?? "It failed.")}`)}\n`
  }
  return lines(told, text)
}

const turnCompleted = (told: Told, { data: { reason, state }, ts }: Extract<StreamEvent, { type: "turn.completed" }>): string => {
  const { paint, turnBegan } = told
  const took = turnBegan === undefined ? "" : ` after ${seconds(Date.parse(ts) - turnBegan)}`
  told.turnBegan = undefined
  told.parts.clear()
  told.calls.clear()
  if (state === "succeeded") return lines(told, `${paint("green", `✓ The turn succeeded${took}.`)}\n`)
  const why = reason === undefined ? "" : ` ${labels.turnReason[reason] ?? line(reason)}`
  return problem(told, `The turn ${state === "failed" ? "failed" : `was ${line(state)}`}${took}.${why}`)
}

const textOf = (told: Told, event: StreamEvent): string => {
  const { paint } = told
  switch (event.type) {
    case "sandbox.status": {
      if (!("previous" in event.data)) return ""
      const { reason, status } = event.data
      const why = reason === null ? "" : ` ${labels.reason[reason] ?? line(reason)}`
      return status === "failed"
        ? problem(told, `The sandbox failed.${why}`)
        : note(told, `${labels.status[status] ?? line(status)}.${why}`)
    }
    case "sandbox.boot": {
      const { cache, error, ms, repo, stage, submodules } = event.data
      if (error !== undefined) return problem(told, `Setup${repo === undefined ? "" : ` of ${line(repo)}`}: ${line(error)}`)
      const done = bootStages[stage]
      if (done === undefined) return ""
      const hit = cache === "hit" ? ", from a cache" : ""
      const empty = submodules === undefined ? "" : `; submodules are left empty: ${submodules.map(line).join(", ")}`
      return note(told, `${done}${repo === undefined ? "" : ` ${line(repo)}`} in ${seconds(ms)}${hit}${empty}`)
    }
    case "setup.started":
      return note(told, "runs the setup")
    case "sandbox.forked":
      return note(told, `starts as checkpoint ${event.data.checkpoint} of ${line(event.data.sandbox_id)}`)
    case "sandbox.restoring":
      return note(told, `goes back to checkpoint ${event.data.checkpoint}`)
    case "sandbox.restored": {
      const { cause, error } = event.data
      return error === undefined ? note(told, labels.restored[cause] ?? line(cause)) : problem(told, line(error))
    }
    case "sandbox.error":
      return problem(told, line(event.data.message))
    case "turn.started":
      told.turnBegan = Date.parse(event.ts)
      return lines(told, `${paint("bold", block(event.data.text, "> ").trimEnd())}\n`)
    case "message.queued": {
      const { position, steers, text } = event.data
      return note(told, `${steers ? "steers" : `waits as number ${position}`}: ${short(line(text))}`)
    }
    case "message.steered":
      return lines(told, `${paint("bold", block(event.data.text, "> ").trimEnd())}\n`)
    case "message.cancelled":
      return note(told, `a message that waited was cancelled: ${cancelled[event.data.reason] ?? line(event.data.reason)}`)
    case "turn.completed":
      return turnCompleted(told, event)
    case "message.updated":
      return message(told, event.data.part_id, event.data.kind, event.data.text)
    case "message.completed": {
      const finish = labels.finish[event.data.finish] ?? ""
      return finish === "" ? lines(told, "") : problem(told, finish)
    }
    case "tool.updated":
      return tool(told, event.data)
    case "approval.requested":
      return lines(told, approval(paint, event.data))
    case "approval.resolved": {
      const { by, outcome, reason, scope } = event.data
      const why = reason !== undefined ? line(reason) : scope !== undefined ? labels.approvedForTurn : labels.approvalBy[by] ?? line(by)
      return note(told, `${labels.approval[outcome] ?? line(outcome)}${why === "" ? "" : `: ${why}`}`)
    }
    case "pull_request.updated": {
      const { action_state, error, repo, submodules, url } = event.data
      if (error !== undefined) return problem(told, `Publishing ${line(repo)}: ${line(error.message)}`)
      if (url === undefined || action_state !== "idle") return note(told, `publishes ${line(repo)}`)
      const left = submodules === undefined
        ? ""
        : `; not published, as they are in submodules: files in ${submodules.map(line).join(", ")}`
      return note(told, `pull request ${line(url)}${left}`)
    }
    case "stream.resync":
      return note(told, "the server restarts; following again")
    // Callers show snapshots. Other types of events are not for people.
    default:
      return ""
  }
}

/** A function that takes events in order and returns the text for each, which may be empty. */
export const make = (paint: Paint) => {
  const told: Told = { paint, parts: new Map(), calls: new Map(), open: undefined, turnBegan: undefined }
  // `end`: the end of a line that may still be open, when nothing else comes.
  return Object.assign((event: StreamEvent) => textOf(told, event), { end: () => lines(told, "") })
}
