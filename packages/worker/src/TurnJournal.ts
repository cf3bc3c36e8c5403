/**
 * What an agent did in one turn and the store does not know yet, in order. Texts and usage wait for their interval, and
 * a newer one takes the place of one that still waits, so the journal stays short however fast the agent talks.
 */
import type { Uuid } from "@slipway/domain/Ids"
import { addUsage, type Usage } from "@slipway/domain/models/Usage"
import { type AgentEvent, finishes, type TurnEnd } from "@slipway/domain/sandbox/AgentRuntime"
import { type Initiator, partId, type SandboxEventOf } from "@slipway/domain/sandbox/SandboxEvent"
import type { SystemCommand } from "@slipway/domain/sandbox/SystemCommand"
import type { TurnOutcome } from "@slipway/domain/sandbox/Turn"
import { Duration } from "effect"
import type { Timings } from "./Timing.ts"

type Work = SandboxEventOf<"message.updated" | "message.completed" | "tool.updated">
type ToolUpdate = Omit<SandboxEventOf<"tool.updated">["data"], "part_id" | "message_id" | "call_id">

/** From this many unwritten entries on the agent waits for the store. */
const BACKLOG = 256

interface Entry {
  /** What a newer entry replaces; `null`: nothing is ever replaced. */
  readonly part: string | null
  command: SystemCommand
  size: number
  /** Epoch milliseconds. */
  due: number
}

/** Characters that are written in one transaction, unless a single entry has more, and from which on the agent waits. */
const WRITE_CHARACTERS = 1024 * 1024
/**
 * Characters of a long text that are written in a millisecond on average: an event has all of the text so far, so long texts
 * are written ever more seldom, and a turn that streams costs the log 16 KiB a second at most.
 */
const CHARACTERS_PER_MILLI = 16

/** Characters of the command, about. Texts are long and are replaced with every word, so only they are not written out. */
const sizeOf = (command: SystemCommand): number => {
  if (command._tag !== "RecordWork") return JSON.stringify(command).length
  return command.events.reduce(
    (size, event) => size + (event.type === "message.updated" ? event.data.text.length : JSON.stringify(event.data).length),
    0
  )
}

export class TurnJournal {
  /** Approvals the agent waits for. */
  readonly waiting = new Set<string>()
  #ended = false
  #entries: Array<Entry> = []
  #size = 0
  readonly #written = new Map<string, number>()
  /** The message that the agent wrote last. */
  #message: string | null = null
  /** Calls that have not ended. */
  readonly #tools = new Map<string, ToolUpdate>()
  readonly #turnId: Uuid
  readonly #before: Usage
  #last: Usage
  #metered = false
  readonly #timing: Pick<Timings, "message" | "usage">
  readonly #showsDetail: boolean

  /**
   * `usage`: what the sandbox had used before the turn. `now` in epoch milliseconds, here and below. `showsDetail`: whether
   * what tool calls do and write is told.
   */
  constructor(turnId: Uuid, usage: Usage, timing: Pick<Timings, "message" | "usage">, now: number, showsDetail = true) {
    this.#showsDetail = showsDetail
    this.#turnId = turnId
    this.#before = usage
    this.#last = usage
    this.#timing = timing
    // Short turns report what they used once, at their end.
    this.#written.set(partId.usage, now)
  }

  /** Whether there is so much that is not taken yet that the agent has to wait. */
  get isFull(): boolean {
    return this.#entries.length >= BACKLOG || this.#size >= WRITE_CHARACTERS
  }

  /** Whether `end` was called and everything has been taken. */
  get finished(): boolean {
    return this.#ended && this.#entries.length === 0
  }

  /** When the next entry falls due; `null`: none waits. */
  get nextDue(): number | null {
    return this.#entries.reduce<number | null>((first, { due }) => first === null || due < first ? due : first, null)
  }

  add(event: AgentEvent): void {
    if (this.#ended) return
    switch (event._tag) {
      case "MessageUpdated": {
        const { kind, messageId, text } = event
        const part = partId[kind](messageId)
        this.#message = messageId
        this.#hurry(part)
        this.#replace(
          part,
          this.#timing.message,
          this.#record({
            type: "message.updated",
            data: { part_id: part, message_id: messageId, kind, text }
          })
        )
        return
      }
      case "ToolUpdated": {
        const { _tag, callId, detail, ...rest } = event
        const tool: ToolUpdate = { ...rest, ...(detail === undefined || !this.#showsDetail ? {} : { detail }) }
        if (tool.status === "completed" || tool.status === "error") this.#tools.delete(callId)
        else this.#tools.set(callId, tool)
        this.#tool(callId, tool)
        return
      }
      case "ApprovalRequested": {
        const { _tag, approvalId, preview, ...rest } = event
        const request = { ...rest, ...(preview === undefined || !this.#showsDetail ? {} : { preview }) }
        this.waiting.add(approvalId)
        this.#push({ _tag: "RequestApproval", turnId: this.#turnId, approval: { approval_id: approvalId, ...request } })
        return
      }
      case "UsageReported": {
        const { costMicroUsd, llmRequestCount } = event
        if (!this.#metered) this.#report(addUsage(this.#before, { llmRequestCount, costMicroUsd, creditsChargedMicros: 0 }))
        return
      }
    }
  }

  /** What the sandbox has used by now. What the agent itself says of it counts no more. */
  meter(usage: Usage): void {
    this.#metered = true
    if (this.#ended || usage.costMicroUsd === this.#last.costMicroUsd && usage.llmRequestCount === this.#last.llmRequestCount) return
    this.#report(usage)
  }

  /**
   * Closes what the agent left open, completes the turn's last message and ends the turn. Everything is due at once.
   * `tooLarge`: by a message of the agent's that is not read; the reason is then told by the rule that ends it.
   */
  end({ finish, tooLarge = false, ...end }: Pick<TurnEnd, "finish" | "reason"> & {
    readonly state: TurnOutcome
    readonly initiator?: Initiator
    readonly tooLarge?: boolean
  }): void {
    for (const [callId, tool] of this.#tools) this.#tool(callId, { ...tool, status: "error", error: "the turn ended first" })
    for (const entry of this.#entries) entry.due = 0
    if (this.#message !== null) {
      this.#push(this.#record({ type: "message.completed", data: { message_id: this.#message, finish: finish ?? finishes[end.state] } }))
    }
    this.#push(tooLarge ? { _tag: "RefuseMessage", turnId: this.#turnId } : { _tag: "EndTurn", turnId: this.#turnId, ...end })
    this.#ended = true
  }

  /** Removes what is due, in order: all of it, or as much as goes into one transaction. */
  take(now: number): ReadonlyArray<SystemCommand> {
    const due: Array<Entry> = []
    let size = 0
    for (const entry of this.#entries) {
      if (entry.due > now) continue
      if (size >= WRITE_CHARACTERS) break
      due.push(entry)
      size += entry.size
    }
    this.#size -= size
    const taken = new Set(due)
    this.#entries = this.#entries.filter((entry) => !taken.has(entry))
    for (const { part } of due) if (part !== null) this.#written.set(part, now)
    return due.map(({ command }) => command)
  }

  #report(usage: Usage): void {
    this.#last = usage
    this.#replace(partId.usage, this.#timing.usage, { _tag: "ReportUsage", usage })
  }

  #record(event: Work): SystemCommand {
    return { _tag: "RecordWork", turnId: this.#turnId, events: [event] }
  }

  #add(entry: Entry): void {
    this.#entries.push(entry)
    this.#size += entry.size
  }

  #push(command: SystemCommand): void {
    this.#add({ part: null, command, size: sizeOf(command), due: 0 })
  }

  #replace(part: string, interval: Duration.Duration, command: SystemCommand): void {
    const entry = this.#entries.find((waiting) => waiting.part === part)
    const size = sizeOf(command)
    if (entry !== undefined) {
      this.#size += size - entry.size
      entry.command = command
      entry.size = size
    } else {
      const written = this.#written.get(part)
      const pause = Math.max(Duration.toMillis(interval), size / CHARACTERS_PER_MILLI)
      this.#add({ part, command, size, due: written === undefined ? 0 : written + pause })
    }
  }

  /** What began before the part is whole: its last text goes first, whenever it would have been due. */
  #hurry(part: string): void {
    for (const entry of this.#entries) if (entry.part !== null && entry.part !== part && entry.part !== partId.usage) entry.due = 0
  }

  #tool(callId: string, tool: ToolUpdate): void {
    const part = partId.tool(callId)
    this.#hurry(part)
    this.#push(this.#record({
      type: "tool.updated",
      data: { part_id: part, message_id: partId.toolsOf(this.#turnId), call_id: callId, ...tool }
    }))
  }
}
