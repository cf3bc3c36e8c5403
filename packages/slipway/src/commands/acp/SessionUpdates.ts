/** The events of a sandbox as updates of an editor's session. Texts of agents come with control characters by name. */
import type { SessionUpdate, ToolCallContent } from "@agentclientprotocol/sdk"
import type { AttachedFile, StreamEvent } from "@slipway/client"
import { visible } from "@slipway/domain/text/EscapeInvisible"
import { labels } from "@slipway/pages/shared/SandboxLabels"
import { line, seconds } from "../terminal/EventText.ts"
import { text } from "./PatchContent.ts"
import * as ToolCalls from "./ToolCalls.ts"

type Of<T extends StreamEvent["type"]> = Extract<StreamEvent, { type: T }>

/** The tool call that shows the start of the sandbox. */
const BOOT = "slipway:boot"

const STAGES: Readonly<Record<string, string>> = { provision: "sandbox", clone: "clone", setup: "setup", agent_start: "agent" }

/** A word of this agent itself, set apart from the words of the sandbox's agent. */
export const note = (said: string, messageId?: string): SessionUpdate => ({
  sessionUpdate: "agent_message_chunk",
  content: { type: "text", text: `\n\n> ${said.replaceAll("\n", "\n> ")}\n\n` },
  ...(messageId === undefined ? {} : { messageId })
})

const filesOf = (files: ReadonlyArray<Pick<AttachedFile, "name">> = []): string =>
  files.length === 0 ? "" : `\n\nFiles: ${files.map(({ name }) => line(name)).join(", ")}`

/** The updates of one session, in the order of the log. Each event is given once. */
export class SessionUpdates {
  readonly #place: ToolCalls.Place
  /** The texts so far, by part. */
  readonly #parts = new Map<string, string>()
  /** Calls that the editor knows, with the comparisons that their approvals showed. */
  readonly #calls = new Map<string, ReadonlyArray<ToolCallContent>>()
  #boot: Array<string> | null = null

  constructor(place: ToolCalls.Place) {
    this.#place = place
  }

  /** `isOwn`: whether the editor sent the prompt of the turn, and so shows it already. */
  of(event: StreamEvent, isOwn: (turnId: string) => boolean): ReadonlyArray<SessionUpdate> {
    switch (event.type) {
      case "sandbox.status":
        return this.#status(event)
      case "sandbox.boot":
        return this.#stage(event)
      case "sandbox.error":
        return [this.#note(event, line(event.data.message))]
      case "sandbox.renamed":
        return [{ sessionUpdate: "session_info_update", title: line(event.data.title), updatedAt: event.ts }]
      case "sandbox.restored":
        return this.#restored(event)
      case "turn.started":
        return isOwn(event.data.prompt_id) ? [] : [this.#prompt(event, event.data)]
      case "message.steered":
        return isOwn(event.data.message_id) ? [] : [this.#prompt(event, event.data)]
      case "message.queued":
        return isOwn(event.data.message_id)
          ? [this.#note(event, `The message waits for its turn (position ${event.data.position}): another turn is active.`)]
          : []
      case "turn.completed":
        this.#parts.clear()
        this.#calls.clear()
        return []
      case "message.updated":
        return this.#message(event)
      case "tool.updated":
        return [this.#tool(event)]
      case "plan.updated":
        return [{
          sessionUpdate: "plan",
          entries: event.data.entries.map(({ status, text }) => ({ content: line(text), priority: "medium", status }))
        }]
      case "approval.requested":
        return [this.#approval(event)]
      case "pull_request.updated":
        return this.#pullRequest(event)
      default:
        return []
    }
  }

  #note(event: StreamEvent, said: string): SessionUpdate {
    return note(said, "id" in event ? `slipway:${event.id}` : undefined)
  }

  #prompt(
    event: StreamEvent & { readonly id: string },
    data: { readonly text: string; readonly files?: ReadonlyArray<AttachedFile> }
  ): SessionUpdate {
    return {
      sessionUpdate: "user_message_chunk",
      content: { type: "text", text: `${visible(data.text)}${filesOf(data.files)}` },
      messageId: `slipway:${event.id}`
    }
  }

  #status(event: Of<"sandbox.status">): ReadonlyArray<SessionUpdate> {
    // The status that only says that the stream has caught up.
    if (!("previous" in event.data)) return []
    const { reason, status } = event.data
    const title = labels.status[status] ?? line(status)
    const isStarting = status === "queued" || status === "creating"
    if (isStarting) {
      const isKnown = this.#boot !== null
      this.#boot ??= []
      return isKnown ? [] : [{ sessionUpdate: "tool_call", toolCallId: BOOT, title, kind: "other", status: "in_progress" }]
    }
    const boot = this.#boot
    this.#boot = null
    const why = reason === null ? "" : ` ${labels.reason[reason] ?? line(reason)}`
    const done = boot === null ? [] : [{
      sessionUpdate: "tool_call_update" as const,
      toolCallId: BOOT,
      title,
      status: status === "running" ? "completed" as const : "failed" as const
    }]
    return status === "running" ? done : [...done, this.#note(event, `Sandbox: ${title}.${why}`)]
  }

  #stage(event: Of<"sandbox.boot">): ReadonlyArray<SessionUpdate> {
    const { error, ms, repo, server = "", stage } = event.data
    if (error !== undefined) {
      const of = stage === "mcp" ? `The MCP server ${line(server)} is missing` : `Setup${repo === undefined ? "" : ` of ${line(repo)}`}`
      return [this.#note(event, `${of}: ${line(error)}`)]
    }
    const name = STAGES[stage]
    if (name === undefined || this.#boot === null) return []
    this.#boot.push(`${name}${repo === undefined ? "" : ` ${line(repo)}`} ${seconds(ms)}`)
    return [{ sessionUpdate: "tool_call_update", toolCallId: BOOT, content: [text(this.#boot.join(", "))] }]
  }

  #restored(event: Of<"sandbox.restored">): ReadonlyArray<SessionUpdate> {
    const { cause, error, lost_turn: lost } = event.data
    if (error !== undefined) return [this.#note(event, `Nothing was restored: ${line(error)}`)]
    return [this.#note(event, `${labels.restored[cause] ?? line(cause)}${lost === undefined ? "" : " The changes of its turn are lost."}`)]
  }

  /** The new end of a text. A text that does not begin as before is sent whole. */
  #message(event: Of<"message.updated">): ReadonlyArray<SessionUpdate> {
    const { kind, part_id, text: whole } = event.data
    const before = this.#parts.get(part_id) ?? ""
    this.#parts.set(part_id, whole)
    const goesOn = whole.startsWith(before)
    const added = goesOn ? whole.slice(before.length) : `\n\n${whole}`
    if (added === "") return []
    const sessionUpdate = kind === "reasoning" ? "agent_thought_chunk" : "agent_message_chunk"
    return [{ sessionUpdate, content: { type: "text", text: visible(added) }, messageId: part_id }]
  }

  #tool({ data }: Of<"tool.updated">): SessionUpdate {
    const shown = this.#calls.get(data.call_id)
    this.#calls.set(data.call_id, shown ?? [])
    const call = ToolCalls.ofTool(this.#place, data, shown)
    return shown === undefined ? { sessionUpdate: "tool_call", ...call } : { sessionUpdate: "tool_call_update", ...call }
  }

  #approval({ data }: Of<"approval.requested">): SessionUpdate {
    const isKnown = this.#calls.has(data.approval_id)
    this.#calls.set(data.approval_id, ToolCalls.comparisons(this.#place, data))
    const call = ToolCalls.ofApproval(this.#place, data)
    return isKnown ? { sessionUpdate: "tool_call_update", ...call } : { sessionUpdate: "tool_call", ...call }
  }

  #pullRequest(event: Of<"pull_request.updated">): ReadonlyArray<SessionUpdate> {
    const { action_state, error, repo, url } = event.data
    if (error !== undefined) return [this.#note(event, `Publishing ${line(repo)}: ${line(error.message)}`)]
    return url === undefined || action_state !== "idle" ? [] : [this.#note(event, `Pull request of ${line(repo)}: ${line(url)}`)]
  }
}
