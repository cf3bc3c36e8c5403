/**
 * Turns what an agent reports during one turn, in whatever dialect, into the domain's events: whole texts, ids of our
 * own, tools that only move forward. Every driver feeds one of these; it knows no protocol and does nothing itself.
 */
import type { AgentEvent, ToolKind } from "@slipway/domain/sandbox/AgentRuntime"
import type { Uuid } from "@slipway/domain/Ids"

export type Finish = Extract<AgentEvent, { readonly _tag: "MessageCompleted" }>["finish"]
type MessageKind = Extract<AgentEvent, { readonly _tag: "MessageUpdated" }>["kind"]
export type ToolStatus = Extract<AgentEvent, { readonly _tag: "ToolUpdated" }>["status"]
type Events = ReadonlyArray<AgentEvent>

/** What a runtime says about a tool call. Absent means unchanged. */
export interface ToolReport {
  readonly title?: string | undefined
  readonly kind?: ToolKind | undefined
  /** Relative to the workspace. */
  readonly paths?: ReadonlyArray<string> | undefined
  readonly status?: ToolStatus | undefined
}

interface Tool {
  readonly callId: string
  title: string
  kind: ToolKind | undefined
  paths: ReadonlyArray<string> | undefined
  status: ToolStatus
  asked: number
  /** Why the call ends in an error, whatever the runtime says of it from now on. */
  doom: string | undefined
}

export interface TurnEvents {
  /**
   * A piece of a message. A change of `kind` or of `nativeId` begins a new message; runtimes that do not name their
   * messages pass null.
   */
  chunk(kind: MessageKind, nativeId: string | null, text: string): Events
  /** A report about the call the runtime names `nativeId`. Reports that would move it backwards change nothing. */
  tool(nativeId: string, report: ToolReport): Events
  /** The runtime asks whether it may go on with a call. One call may be asked about several times. */
  ask(nativeId: string, report: ToolReport): { readonly approvalId: string; readonly events: Events }
  /** The call of this native id was denied: it ends in an error. */
  deny(nativeId: string): void
  /** The person wants the turn to end: open calls end in an error, even those the runtime reports as completed. */
  interrupt(): void
  /** Closes what is open. Nothing is reported afterwards. */
  end(finish: Finish): Events
}

const ranks: Record<ToolStatus, number> = { pending: 0, running: 1, completed: 2, error: 2 }
const isOpen = ({ status }: Tool) => ranks[status] < 2

const MAX_TITLE_CHARACTERS = 200

/** Text as the store can keep it. */
const storable = (text: string) => text.toWellFormed().replaceAll("\0", "\uFFFD")

const displayed = (title: string) => {
  const line = storable(title).replace(/\s+/gu, " ").trim()
  return line.length <= MAX_TITLE_CHARACTERS ? line : `${line.slice(0, MAX_TITLE_CHARACTERS).toWellFormed()}…`
}

/** `turnId` makes the ids of messages and calls unique within the sandbox: agents repeat theirs in every process. */
export const make = (turnId: Uuid): TurnEvents => {
  let messages = 0
  let message:
    | { readonly messageId: string; readonly nativeId: string | null; readonly kind: MessageKind; text: string }
    | undefined
  const tools = new Map<string, Tool>()
  let interrupted = false
  let ended = false

  const closeMessage = (finish: Finish): Array<AgentEvent> => {
    if (message === undefined) return []
    const { messageId } = message
    message = undefined
    return [{ _tag: "MessageCompleted", messageId, finish }]
  }

  const updated = ({ callId, doom, status, title }: Tool): AgentEvent => ({
    _tag: "ToolUpdated",
    callId,
    tool: title,
    status,
    ...(status === "error" && doom !== undefined ? { error: doom } : {})
  })

  const advance = (tool: Tool, status: ToolStatus): Array<AgentEvent> => {
    if (ranks[status] <= ranks[tool.status]) return []
    tool.status = tool.doom !== undefined && status === "completed" ? "error" : status
    return [updated(tool)]
  }

  const report = (
    nativeId: string,
    { kind, paths, status, title }: ToolReport
  ): { readonly tool: Tool; readonly events: Array<AgentEvent> } => {
    const known = tools.get(nativeId)
    const tool: Tool = known ?? {
      callId: `${turnId}:t${tools.size + 1}`,
      title: "tool",
      kind: undefined,
      paths: undefined,
      status: "pending",
      asked: 0,
      doom: interrupted ? "interrupted" : undefined
    }
    if (title !== undefined && title.trim() !== "") tool.title = displayed(title)
    if (kind !== undefined) tool.kind = kind
    if (paths !== undefined && paths.length > 0) tool.paths = paths.map(storable)
    const advanced = status === undefined ? [] : advance(tool, status)
    if (known !== undefined) return { tool, events: advanced }
    tools.set(nativeId, tool)
    const first: Array<AgentEvent> = [...closeMessage("end_turn"), updated({ ...tool, status: "pending" })]
    return { tool, events: [...first, ...advanced] }
  }

  return {
    chunk: (kind, nativeId, text) => {
      if (ended) return []
      const continues = message !== undefined && message.kind === kind && message.nativeId === nativeId
      const events = continues ? [] : closeMessage("end_turn")
      if (message === undefined) {
        // Some runtimes open a message with nothing in it and never come back to it.
        if (text === "") return events
        message = { messageId: `${turnId}:m${++messages}`, nativeId, kind, text: "" }
      }
      message.text += text
      // A chunk may end within a character, whose first half then waits for the next.
      const whole = message.text.replace(/[\uD800-\uDBFF]$/, "")
      return [...events, { _tag: "MessageUpdated", messageId: message.messageId, kind, text: storable(whole) }]
    },

    tool: (nativeId, update) => (ended ? [] : report(nativeId, update).events),

    ask: (nativeId, update) => {
      const { events, tool } = report(nativeId, { ...update, status: undefined })
      tool.asked++
      const approvalId = tool.asked === 1 ? tool.callId : `${tool.callId}:${tool.asked}`
      const { kind, paths, title } = tool
      return {
        approvalId,
        events: [
          ...events,
          {
            _tag: "ApprovalRequested",
            approvalId,
            tool: title,
            ...(kind === undefined ? {} : { kind }),
            ...(paths === undefined ? {} : { paths })
          }
        ]
      }
    },

    deny: (nativeId) => {
      const tool = tools.get(nativeId)
      if (tool !== undefined && isOpen(tool)) tool.doom = "denied"
    },

    interrupt: () => {
      interrupted = true
      for (const tool of tools.values()) if (isOpen(tool)) tool.doom ??= "interrupted"
    },

    end: (finish) => {
      if (ended) return []
      ended = true
      const events = closeMessage(finish)
      for (const tool of tools.values()) {
        if (!isOpen(tool)) continue
        tool.doom ??= finish === "error" ? "the turn failed" : "the turn ended first"
        events.push(...advance(tool, "error"))
      }
      return events
    }
  }
}
