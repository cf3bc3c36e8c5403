/**
 * Translates an agent's reports of one turn into the domain's events: complete texts, our own ids, tools that only move forward. Every
 * driver feeds one of these. It knows no protocol and has no effects.
 */
import type { Uuid } from "@slipway/domain/ids/Ids"
import type { AgentEvent, Finish } from "@slipway/domain/sandbox/ports/AgentRuntime"
import { isPlainEdit } from "@slipway/domain/sandbox/rules/Approval"
import * as ToolCall from "@slipway/domain/sandbox/rules/ToolCall"
import { Result } from "effect"
import { PartText } from "./PartText.ts"

type MessageKind = Extract<AgentEvent, { readonly _tag: "MessageUpdated" }>["kind"]
export type ToolStatus = Extract<AgentEvent, { readonly _tag: "ToolUpdated" }>["status"]
type Events = ReadonlyArray<AgentEvent>

/** A runtime's report about a tool call, unchanged. Absent fields keep their values. */
export interface ToolReport extends ToolCall.ToolCall {
  readonly title?: string | undefined
  readonly status?: ToolStatus | undefined
  /** The name and arguments of an unknown tool. */
  readonly input?: string | undefined
  /** The runtime's id of the call that started the sub-agent whose call it is. Unknown and later calls are ignored. */
  readonly parent?: string | undefined
}

interface Tool {
  readonly callId: string
  /** Its number in the turn. */
  readonly n: number
  parentCallId: string | undefined
  title: string
  call: ToolCall.ToolCall
  input: string | undefined
  /** The paths as the agent named them. Shown paths may be redacted. */
  names: ReadonlyArray<string>
  /** The description of its effect was too long to keep. */
  tooLarge: boolean
  status: ToolStatus
  asked: number
  /** Why the call ends in an error, whatever the runtime reports later. */
  doom: string | undefined
}

/** The agent waits for a decision, or the call is `refused` with a sentence because a person could not see its effect. */
export type Asked = { readonly approvalId: string; readonly events: Events } | Refused

interface Refused {
  readonly refused: string
  readonly events: Events
}

export interface TurnEvents {
  readonly turnId: Uuid
  /**
   * A piece of a message. A message is a thought, a text, or a text after a thought. Any other change of `kind` begins a new message,
   * and so does a change of `nativeId` within a kind. Runtimes without message ids pass null.
   */
  chunk(kind: MessageKind, nativeId: string | null, text: string): Events
  /** A report about the call with the runtime's id `nativeId`. Reports that would move it backwards change nothing. */
  tool(nativeId: string, report: ToolReport): Events
  /** The agent's present plan, unchanged. A plan that is shown already is not told again. */
  plan(entries: ReadonlyArray<ToolCall.PlanEntry>): Events
  /** The runtime asks for permission for a call. It may ask repeatedly. */
  ask(nativeId: string, report: ToolReport): Asked
  /** Denies the runtime's request at once, with a sentence as the reason. */
  refuse(nativeId: string, report: ToolReport, reason: string): Refused
  /** The call with this native id was denied: it ends in an error. */
  deny(nativeId: string): void
  /** A person interrupted the turn: open calls end in an error, even if the runtime reports them as completed. */
  interrupt(): void
  /** Closes everything that is open. Later reports are ignored. */
  end(finish: Finish): Events
}

const ranks: Record<ToolStatus, number> = { pending: 0, running: 1, completed: 2, error: 2 }
const isOpen = ({ status }: Tool) => ranks[status] < 2

/** Characters of a call's description that are kept: more than is ever shown. */
const MAX_INPUT = 2 * ToolCall.PREVIEW_BYTES
const MAX_OUTPUT = 8 * ToolCall.OUTPUT_BYTES

/** The state of one turn's events. */
interface State {
  readonly turnId: Uuid
  readonly redacted: (text: string) => string
  readonly folders: ReadonlyArray<string>
  readonly tools: Map<string, Tool>
  messages: number
  message:
    | { readonly messageId: string; readonly nativeId: string | null; readonly kind: MessageKind; readonly text: PartText }
    | undefined
  /** The plan as it was told last, as JSON. */
  plan: string
  interrupted: boolean
  ended: boolean
}

const updated = ({ call, callId, doom, parentCallId, status, title }: Tool): AgentEvent => {
  const detail = ToolCall.detail(call)
  return {
    _tag: "ToolUpdated",
    callId,
    tool: title,
    status,
    ...(parentCallId === undefined ? {} : { parentCallId }),
    ...(status === "error" && doom !== undefined ? { error: doom } : {}),
    ...(call.mcp === undefined ? {} : { kind: "mcp" as const }),
    ...(detail === undefined ? {} : { detail })
  }
}

const advance = (tool: Tool, status: ToolStatus): Array<AgentEvent> => {
  if (ranks[status] <= ranks[tool.status]) return []
  tool.status = tool.doom !== undefined && status === "completed" ? "error" : status
  return [updated(tool)]
}

/** Updates the data of the call. Fields that the report lacks stay unchanged. */
const learn = (
  redacted: State["redacted"],
  tool: Tool,
  { command, cwd, diff, input, kind, mcp, output, paths, removes, title, url }: ToolReport
) => {
  const cleaned = (text: string | undefined) => text === undefined ? undefined : redacted(text.slice(0, MAX_INPUT).toWellFormed())
  const before = tool.call
  if (title !== undefined && title.trim() !== "") tool.title = ToolCall.shownTitle(redacted(title.slice(0, MAX_INPUT)))
  // Measured before redaction, which may shorten it.
  tool.tooLarge ||= [command, cwd, input, mcp?.arguments, url].some((text) => text !== undefined && text.length > ToolCall.PREVIEW_BYTES)
  tool.input = cleaned(input) ?? tool.input
  if (paths !== undefined && paths.length > 0) tool.names = paths
  const cut = diff !== undefined && diff.length > MAX_INPUT ? ToolCall.DIFF_CUT : ""
  tool.call = {
    kind: kind ?? before.kind,
    paths: paths !== undefined && paths.length > 0 ? paths.map((path) => redacted(path)) : before.paths,
    command: cleaned(command) ?? before.command,
    cwd: cleaned(cwd) ?? before.cwd,
    removes: removes ?? before.removes,
    diff: diff === undefined ? before.diff : `${cleaned(diff)}${cut}`,
    url: cleaned(url) ?? before.url,
    mcp: mcp === undefined ? before.mcp : { ...mcp, arguments: cleaned(mcp.arguments) ?? "" },
    output: output === undefined ? before.output : redacted(output.slice(-MAX_OUTPUT).toWellFormed())
  }
}

const report = (state: State, nativeId: string, said: ToolReport): { readonly tool: Tool; readonly events: Array<AgentEvent> } => {
  const known = state.tools.get(nativeId)
  const tool: Tool = known ?? {
    callId: `${state.turnId}:t${state.tools.size + 1}`,
    n: state.tools.size + 1,
    parentCallId: undefined,
    title: "tool",
    call: {},
    input: undefined,
    names: [],
    tooLarge: false,
    status: "pending",
    asked: 0,
    doom: state.interrupted ? "interrupted" : undefined
  }
  learn(state.redacted, tool, said)
  // A parent began before its calls, so that no call is its own ancestor.
  const parent = said.parent === undefined ? undefined : state.tools.get(said.parent)
  if (parent !== undefined && parent.n < tool.n) tool.parentCallId ??= parent.callId
  const advanced = said.status === undefined ? [] : advance(tool, said.status)
  if (known !== undefined) return { tool, events: advanced }
  state.tools.set(nativeId, tool)
  state.message = undefined
  return { tool, events: [updated({ ...tool, status: "pending" }), ...advanced] }
}

const refuse = (state: State, nativeId: string, said: ToolReport, reason: string): Refused => {
  const { events, tool } = report(state, nativeId, { ...said, status: undefined })
  tool.doom = `denied: ${reason}`
  return { refused: reason, events: [...events, ...advance(tool, "error")] }
}

const plan = (state: State, given: ReadonlyArray<ToolCall.PlanEntry>): Events => {
  if (state.ended) return []
  const entries = ToolCall.shownPlan(
    given.slice(0, 2 * ToolCall.PLAN_ENTRIES).map(({ status, text }) => ({
      text: state.redacted(text.slice(0, 4 * ToolCall.PLAN_TEXT).toWellFormed()),
      status
    }))
  )
  const told = JSON.stringify(entries)
  if (told === state.plan) return []
  state.plan = told
  return [{ _tag: "PlanUpdated", entries }]
}

const chunk = (state: State, kind: MessageKind, nativeId: string | null, text: string): Events => {
  if (state.ended) return []
  let { message } = state
  if (message !== undefined && (message.kind !== kind || message.nativeId !== nativeId)) {
    message = message.kind === "reasoning" && kind === "text"
      ? { messageId: message.messageId, kind, nativeId, text: new PartText() }
      : undefined
  }
  // Some runtimes open an empty message and never use it.
  if (message === undefined && text !== "") {
    message = { messageId: `${state.turnId}:m${++state.messages}`, nativeId, kind, text: new PartText() }
  }
  state.message = message
  if (message === undefined || !message.text.add(text)) return []
  return [{ _tag: "MessageUpdated", messageId: message.messageId, kind, text: message.text.text }]
}

const ask = (state: State, nativeId: string, update: ToolReport): Asked => {
  const { events, tool } = report(state, nativeId, { ...update, status: undefined })
  const { call, input, names, title, tooLarge } = tool
  const { command, diff, kind, mcp, url } = call
  // A call without another preview is shown by its arguments.
  const shown = command === undefined && diff === undefined && mcp === undefined && url === undefined ? { ...call, command: input } : call
  const preview = tooLarge ? Result.fail(ToolCall.TOO_LARGE) : ToolCall.preview(shown)
  if (Result.isFailure(preview)) {
    const { events: ended, refused } = refuse(state, nativeId, {}, preview.failure)
    return { refused, events: [...events, ...ended] }
  }
  tool.asked++
  const approvalId = tool.asked === 1 ? tool.callId : `${tool.callId}:${tool.asked}`
  const paths = call.paths === undefined ? undefined : ToolCall.shownPaths(call.paths)
  // If a name is changed for display, it may hide another file.
  const isPlain = isPlainEdit({ ...call, paths: names }, state.folders) && names.every((name, i) => name === paths?.[i])
  return {
    approvalId,
    events: [
      ...events,
      {
        _tag: "ApprovalRequested",
        approvalId,
        tool: title,
        ...(kind === undefined ? {} : { kind }),
        ...(paths === undefined ? {} : { paths }),
        ...(isPlain ? { plain: true } : {}),
        ...(Object.keys(preview.success).length === 0 ? {} : { preview: preview.success })
      }
    ]
  }
}

const deny = ({ tools }: State, nativeId: string) => {
  const tool = tools.get(nativeId)
  if (tool !== undefined && isOpen(tool)) tool.doom = "denied"
}

const interrupt = (state: State) => {
  state.interrupted = true
  for (const tool of state.tools.values()) if (isOpen(tool)) tool.doom ??= "interrupted"
}

const end = (state: State, finish: Finish): Events => {
  if (state.ended) return []
  state.ended = true
  const events: Array<AgentEvent> = []
  for (const tool of state.tools.values()) {
    if (!isOpen(tool)) continue
    tool.doom ??= finish === "error" ? "the turn failed" : "the turn ended first"
    events.push(...advance(tool, "error"))
  }
  return events
}

/**
 * `turnId` makes ids of messages and calls unique within the sandbox, because agents repeat theirs in every process. `redacted` removes
 * secrets by value: redaction by shape could hide a command's effect. `folders`: of the repositories, below the workspace.
 */
export const make = (
  turnId: Uuid,
  redacted: (text: string) => string = (text) => text,
  folders: ReadonlyArray<string> = []
): TurnEvents => {
  const state: State = {
    turnId,
    redacted,
    folders,
    tools: new Map(),
    messages: 0,
    message: undefined,
    plan: "[]",
    interrupted: false,
    ended: false
  }
  return {
    turnId,
    chunk: (kind, nativeId, text) => chunk(state, kind, nativeId, text),
    tool: (nativeId, update) => (state.ended ? [] : report(state, nativeId, update).events),
    plan: (entries) => plan(state, entries),
    refuse: (nativeId, said, reason) => refuse(state, nativeId, said, reason),
    ask: (nativeId, update) => ask(state, nativeId, update),
    deny: (nativeId) => deny(state, nativeId),
    interrupt: () => interrupt(state),
    end: (finish) => end(state, finish)
  }
}
