/**
 * The events of a sandbox as text for a terminal. Texts of agents are indented, so that they do not look like our lines, and control
 * characters are shown by name.
 */
import type { ApprovalRequest, CommandResult, Question, QuestionRequest, StreamEvent, TokenCounts, Usage } from "@slipway/client"
import { visible } from "@slipway/domain/text/EscapeInvisible"
import { inOneLine } from "@slipway/domain/text/Lines"
import { labels, tokensTold } from "@slipway/pages/shared/SandboxLabels"
import type { styleText } from "node:util"
import * as Markdown from "./Markdown.ts"

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

/** The files of a prompt, below its text. */
const filesOf = ({ files = [] }: { readonly files?: ReadonlyArray<{ readonly name: string }> }): string =>
  files.length === 0 ? "" : `> Files: ${files.map(({ name }) => line(name)).join(", ")}\n`

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
  const { arguments: given, command, cwd, diff, server, tool: called, url } = preview ?? {}
  return `${paint(["yellow", "bold"], `? The agent asks: ${line(tool)}`)}${kind === undefined ? "" : ` (${kind})`}\n` +
    (paths === undefined || paths.length === 0 ? "" : `  files: ${paths.map((path) => line(path)).join(", ")}\n`) +
    (cwd === undefined ? "" : `  folder: ${line(cwd)}\n`) +
    (command === undefined ? "" : inside(command)) +
    (url === undefined ? "" : inside(url)) +
    (server === undefined ? "" : `  MCP server: ${line(server)}, tool: ${line(called ?? "")}\n`) +
    (given === undefined ? "" : inside(given)) +
    (diff === undefined ? "" : `${patch(paint, diff.replace(/\n$/u, "")).replaceAll(/^/gmu, "  │ ")}\n`)
}

/** One question with its numbered options. */
export const question = (paint: Paint, { header, options, text }: Question): string =>
  `${paint(["yellow", "bold"], `? The agent asks${header === undefined ? "" : `: ${line(header)}`}`)}\n${block(text, "  ")}` +
  options.map(({ description, label }, index) =>
    `  ${index + 1}  ${line(label)}${description === undefined ? "" : paint("dim", ` · ${line(description)}`)}\n`
  ).join("")

/** All questions of a request. */
export const questions = (paint: Paint, { questions }: QuestionRequest): string => questions.map((one) => question(paint, one)).join("")

/** The title of an approval in one line. */
export const title = ({ tool }: ApprovalRequest): string => short(line(tool))

/** The sentence for a rejected command. */
export const rejection = (word: CommandResult["rejection"]): string =>
  word === undefined ? "Not possible right now." : labels.rejection[word] ?? line(word)

const cancelled: Readonly<Record<string, string>> = {
  command: "by a person",
  sandbox_ended: "the sandbox ended",
  output_limit: "the sandbox hit its output limit",
  budget_exceeded: "budget used up",
  no_credits: "the credits are used up"
}

const bootStages: Readonly<Record<string, string>> = {
  provision: "sandbox",
  clone: "clone",
  setup: "setup",
  agent_start: "agent"
}

interface Boot {
  readonly began: number
  /** The stages that are done, with their times. */
  readonly stages: Array<string>
}

/** The texts shown so far. */
interface Told {
  readonly paint: Paint
  /** The texts so far of unfinished messages' parts. */
  readonly parts: Map<string, string>
  /** Statuses of open tool calls. */
  readonly calls: Map<string, string>
  /** Questions that wait for an answer, by the id of their request. */
  readonly asked: Map<string, ReadonlyArray<Question>>
  /** How deep the calls of the turn are nested below the agent's own. */
  readonly depths: Map<string, number>
  /** The plan as it was shown last. */
  plan: Of<"plan.updated">["data"]["entries"]
  /** Calls that were denied: the agent's own words for it say nothing new. */
  readonly denied: Set<string>
  /** Whether the caller draws the boot while it lasts, with {@link EventText.booting}. */
  readonly isLive: boolean
  boot: Boot | null
  /** The part whose text was shown last. */
  open: string | undefined
  /** Whether the cursor is behind a text. */
  isWithinLine: boolean
  /** Renders whole lines of an agent's Markdown; `null`: texts are shown as they come. */
  readonly markdown: Markdown.Lines | null
  /** The beginning of a line of Markdown that has not ended. */
  pending: string
  turnBegan: number | undefined
}

const lines = (told: Told, text: string): string => {
  const { isWithinLine, markdown, pending } = told
  Object.assign(told, { open: undefined, isWithinLine: false, pending: "" })
  if (markdown !== null && pending !== "") return `  ${markdown(pending)}\n${text}`
  return (isWithinLine ? "\n" : "") + text
}
const note = (told: Told, text: string) => lines(told, `${told.paint("dim", `· ${text}`)}\n`)
const problem = (told: Told, text: string) => lines(told, `${told.paint("red", `✗ ${text}`)}\n`)

/** The lines of a Markdown text that have ended. The rest waits for its end. */
const wholeLines = (told: Told, markdown: Markdown.Lines, added: string): string => {
  const all = `${told.pending}${added}`.split("\n")
  told.pending = all.pop() ?? ""
  return all.map((one) => `  ${markdown(one)}\n`).join("")
}

const message = (told: Told, part: string, kind: "text" | "reasoning", text: string): string => {
  const { paint, parts } = told
  const before = parts.get(part)
  parts.set(part, text)
  const style = (added: string) => kind === "reasoning" ? paint("dim", added) : added
  const indented = (added: string) => style(visible(added).replaceAll("\n", "\n  "))
  if ((told.markdown === null || kind === "reasoning") && before !== undefined && told.open === part && text.startsWith(before)) {
    return indented(text.slice(before.length))
  }
  if (before === text || text === "") return ""
  // A text that changed, or that other lines interrupted, continues or is repeated on new lines.
  const added = before !== undefined && text.startsWith(before) ? text.slice(before.length) : text
  if (told.markdown !== null && kind === "text") {
    const ended = told.open === part && added !== text ? "" : lines(told, "")
    told.open = part
    return ended + wholeLines(told, told.markdown, added)
  }
  const shown = lines(told, `  ${indented(added)}`)
  told.open = part
  told.isWithinLine = true
  return shown
}

/** Deeper calls are not indented further. */
const MAX_DEPTH = 4

const tool = (
  told: Told,
  { call_id, detail, error, parent_call_id: parent, status, tool: title }: Extract<StreamEvent, { type: "tool.updated" }>["data"]
): string => {
  const { calls, depths, paint } = told
  if (parent !== undefined) depths.set(call_id, Math.min((depths.get(parent) ?? 0) + 1, MAX_DEPTH))
  const indent = "  ".repeat(depths.get(call_id) ?? 0)
  const nested = (shown: string) => indent === "" ? shown : shown.replaceAll(/^(?=.)/gmu, indent)
  const name = line(title)
  const before = calls.get(call_id)
  calls.set(call_id, status)
  let text = ""
  if (before === undefined) {
    const command = detail?.command ?? detail?.arguments
    const about = command !== undefined && !title.includes(command.trim()) ? block(lastLines(command), "  $ ") : ""
    text += `${paint("cyan", `▸ ${name}`)}\n${paint("dim", about)}`
  }
  if (status === "completed" || status === "error") {
    calls.delete(call_id)
    const output = detail?.output ?? ""
    if (told.denied.delete(call_id)) return lines(told, nested(text))
    if (output.trim() !== "") text += paint("dim", block(lastLines(output), "  │ "))
    if (status === "error") text += `${paint("red", `  ✗ ${line(error ?? "It failed.")}`)}\n`
  }
  return lines(told, nested(text))
}

const STEPS = { completed: "✓", in_progress: "▸", pending: "○" } as const

/** The whole plan at first, then the steps that are new or changed. */
const plan = (told: Told, { entries }: Of<"plan.updated">["data"]): string => {
  const { paint, plan: before } = told
  told.plan = entries
  const known = new Map(before.map(({ status, text }) => [text, status]))
  const news = entries.filter(({ status, text }) => known.get(text) !== status)
  if (news.length === 0) return entries.length === 0 && before.length > 0 ? note(told, "The agent dropped its plan") : ""
  const done = entries.filter(({ status }) => status === "completed").length
  const steps = news.map(({ status, text }) => `  ${STEPS[status]} ${line(text)}\n`)
  return lines(told, paint("dim", `· Plan: ${done} of ${entries.length} done\n${steps.join("")}`))
}

const turnCompleted = (told: Told, { data: { reason, state }, ts }: Extract<StreamEvent, { type: "turn.completed" }>): string => {
  const { paint, turnBegan } = told
  const took = turnBegan === undefined ? "" : ` after ${seconds(Date.parse(ts) - turnBegan)}`
  told.turnBegan = undefined
  told.parts.clear()
  told.calls.clear()
  told.depths.clear()
  told.plan = []
  told.denied.clear()
  if (state === "succeeded") return lines(told, `${paint("green", `✓ The turn succeeded${took}.`)}\n`)
  const why = reason === undefined ? "" : ` ${labels.turnReason[reason] ?? line(reason)}`
  return problem(told, `The turn ${state === "failed" ? "failed" : `was ${line(state)}`}${took}.${why}`)
}

type Of<T extends StreamEvent["type"]> = Extract<StreamEvent, { type: T }>

const statusText = (told: Told, event: Of<"sandbox.status">): string => {
  if (!("previous" in event.data)) return ""
  const { reason, status } = event.data
  if (status === "queued" || status === "creating") {
    const isFirst = told.boot === null
    told.boot ??= { began: Date.parse(event.ts), stages: [] }
    return isFirst && reason === null && !told.isLive ? note(told, labels.status[status]) : ""
  }
  if (status === "running" && told.boot !== null) {
    const { began, stages } = told.boot
    told.boot = null
    const took = seconds(Date.parse(event.ts) - began)
    return note(told, `${labels.status[status]} in ${took}${stages.length === 0 ? "" : `: ${stages.join(", ")}`}`)
  }
  told.boot = null
  const why = reason === null ? "" : ` ${labels.reason[reason] ?? line(reason)}`
  return status === "failed"
    ? problem(told, `The sandbox failed.${why}`)
    : note(told, `${labels.status[status] ?? line(status)}.${why}`)
}

/** A stage of the boot, or a setup that ran again. */
const bootText = (told: Told, { data }: Of<"sandbox.boot">): string => {
  const { cache, empty_submodules: reasons, error, lfs_missing: missing, lfs_pointers: pointers, ms, repo, server = "", stage } = data
  const { submodules } = data
  if (stage === "mcp") return error === undefined ? "" : note(told, `The MCP server ${line(server)} is missing: ${line(error)}`)
  if (error !== undefined) return problem(told, `Setup${repo === undefined ? "" : ` of ${line(repo)}`}: ${line(error)}`)
  const done = bootStages[stage]
  if (done === undefined) return ""
  const about = `${done}${repo === undefined ? "" : ` ${line(repo)}`} ${seconds(ms)}${cache === "hit" ? " (cached)" : ""}`
  const folders = reasons?.map(({ path, reason }) => `${path}: ${reason}`) ?? submodules
  const empty = folders === undefined
    ? ""
    : note(told, `Submodules are empty: ${folders.map(line).join(reasons === undefined ? ", " : " ")}`)
  const why = missing?.[0] === undefined ? "" : `, such as ${line(missing[0].path)}. ${line(missing[0].reason)}`
  const lfs = pointers === undefined ? "" : note(told, `Files without content, as Git LFS stores it: ${pointers}${why}`)
  // A setup may run again later.
  if (told.boot === null) return note(told, about) + empty + lfs
  told.boot.stages.push(about)
  return empty + lfs
}

const approvalResolved = (told: Told, { data }: Of<"approval.resolved">): string => {
  const { approval_id, by, outcome, reason, scope } = data
  if (outcome === "denied") told.denied.add(approval_id)
  const why = reason !== undefined ? line(reason) : scope !== undefined ? labels.approvedForTurn : labels.approvalBy[by] ?? line(by)
  return note(told, `${labels.approval[outcome] ?? line(outcome)}${why === "" ? "" : `: ${why}`}`)
}

const questionAnswered = (told: Told, { data: { answers, by, question_id } }: Of<"question.answered">): string => {
  const asked = told.asked.get(question_id)
  told.asked.delete(question_id)
  return note(told, answers === undefined ? labels.unanswered[by] ?? line(by) : `Answered: ${line(labels.answers(answers, asked))}`)
}

const publishingText = (told: Told, { data }: Of<"pull_request.updated">): string => {
  const { action_state, error, lfs_left_out: lfs, lfs_reason: lfsReason, repo, submodules, url } = data
  if (error !== undefined) return problem(told, `Publishing ${line(repo)}: ${line(error.message)}`)
  if (url === undefined || action_state !== "idle") return note(told, `Publishing ${line(repo)}`)
  const left = submodules === undefined
    ? ""
    : `; not published, as it is in submodules: work in ${submodules.map(line).join(", ")}`
  const large = lfs === undefined ?
    "" :
    `; not published, as Git LFS is to store it: ${lfs.map(line).join(", ")}${lfsReason === undefined ? "" : `. ${line(lfsReason)}`}`
  return note(told, `Pull request ${line(url)}${left}${large}`)
}

const feedbackText = (
  told: Told,
  { data, type }: Of<"feedback.received" | "feedback.replied" | "feedback.paused" | "feedback.resumed">
): string => {
  switch (type) {
    case "feedback.received":
      return note(told, line(labels.feedback(data)))
    case "feedback.replied":
      return note(told, data.url === undefined ? "The reply on the pull request failed." : `Replied: ${line(data.url)}`)
    case "feedback.paused":
      return note(told, line(labels.paused(data)))
    case "feedback.resumed":
      return note(told, "Feedback goes on.")
  }
}

const textOf = (told: Told, event: StreamEvent): string => {
  const { paint } = told
  switch (event.type) {
    case "sandbox.status":
      return statusText(told, event)
    case "sandbox.boot":
      return bootText(told, event)
    case "setup.started":
      return told.isLive ? "" : note(told, "Running the setup")
    case "sandbox.forked":
      return note(told, `Forked from checkpoint ${event.data.checkpoint} of ${line(event.data.sandbox_id)}`)
    case "sandbox.continued": {
      const { branch, pull_request, repo } = event.data
      return note(
        told,
        `Continues ${pull_request === undefined ? "" : `pull request #${pull_request}, `}branch ${line(branch)} of ${line(repo)}`
      )
    }
    case "sandbox.syncing":
      return note(told, "Getting the newest commits")
    case "sandbox.synced": {
      const { branches, error } = event.data
      const got = branches.map(({ branch, sha }) => `origin/${line(branch)} ${sha.slice(0, 7)}`).join(", ")
      return error === undefined ? note(told, `Newest commits: ${got}`) : problem(told, line(error))
    }
    case "sandbox.restoring":
      return note(told, `Restoring checkpoint ${event.data.checkpoint}`)
    case "sandbox.restored": {
      const { cause, error } = event.data
      return error === undefined ? note(told, labels.restored[cause] ?? line(cause)) : problem(told, line(error))
    }
    case "sandbox.renamed":
      return note(told, `Renamed: ${line(event.data.title)}`)
    case "feedback.received":
    case "feedback.replied":
    case "feedback.paused":
    case "feedback.resumed":
      return feedbackText(told, event)
    case "sandbox.error":
      return problem(told, line(event.data.message))
    case "turn.started":
      told.turnBegan = Date.parse(event.ts)
      return lines(told, `${paint("bold", block(event.data.text, "> ").trimEnd())}\n${filesOf(event.data)}`)
    case "message.queued": {
      const { position, steers, text } = event.data
      return note(told, `${steers ? "Steering" : `Queued as number ${position}`}: ${short(line(text))}`)
    }
    case "message.steered":
      return lines(told, `${paint("bold", block(event.data.text, "> ").trimEnd())}\n${filesOf(event.data)}`)
    case "message.cancelled":
      return note(told, `Queued message cancelled: ${cancelled[event.data.reason] ?? line(event.data.reason)}`)
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
    case "plan.updated":
      return plan(told, event.data)
    case "approval.requested":
      return lines(told, approval(paint, event.data))
    case "approval.resolved":
      return approvalResolved(told, event)
    case "question.asked":
      told.asked.set(event.data.question_id, event.data.questions)
      return lines(told, questions(paint, event.data))
    case "question.answered":
      return questionAnswered(told, event)
    case "pull_request.updated":
      return publishingText(told, event)
    case "stream.resync":
      return note(told, "The server restarts; following again")
    // Callers show snapshots. Other types of events are not for people.
    default:
      return ""
  }
}

/** The texts of the events of one sandbox. */
export interface EventText {
  /** The text of the next event, which may be empty. */
  (event: StreamEvent): string
  /** The rest of a line that is still open, at the end of the events. */
  readonly end: () => string
  /** The boot in one line; `null`: the sandbox is not booting. */
  readonly booting: (now: number) => string | null
}

/** `isRendered`: Markdown becomes styles. `isLive`: the caller draws the boot while it lasts. */
export const make = (paint: Paint, { isLive = false, isRendered = false } = {}): EventText => {
  const told: Told = {
    paint,
    parts: new Map(),
    calls: new Map(),
    asked: new Map(),
    depths: new Map(),
    plan: [],
    denied: new Set(),
    isLive,
    boot: null,
    open: undefined,
    isWithinLine: false,
    markdown: isRendered ? Markdown.make(paint) : null,
    pending: "",
    turnBegan: undefined
  }
  return Object.assign((event: StreamEvent) => textOf(told, event), {
    end: () => lines(told, ""),
    booting: (now: number) =>
      told.boot === null
        ? null
        : `Starting… ${Math.max(0, Math.floor((now - told.boot.began) / 1000))} s${told.boot.stages.map((stage) => ` · ${stage}`).join("")}`
  })
}
