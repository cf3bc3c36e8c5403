/**
 * What an agent did in one turn and the store does not know yet, in order. Texts and usage wait for their interval, and
 * a newer one takes the place of one that still waits, so the journal stays short however fast the agent talks.
 */
import { Duration } from "effect"
import type { Uuid } from "@slipway/domain/Ids"
import type { AgentEvent } from "@slipway/domain/sandbox/AgentRuntime"
import type { SystemCommand } from "@slipway/domain/sandbox/SystemCommand"
import type { SandboxEventOf } from "@slipway/domain/sandbox/SandboxEvent"
import type { TurnOutcome } from "@slipway/domain/sandbox/Turn"
import { addUsage, type Usage } from "@slipway/domain/sandbox/Usage"
import type { Timings } from "./Timing.ts"

type Work = SandboxEventOf<"message.updated" | "message.completed" | "tool.updated">
type Finish = SandboxEventOf<"message.completed">["data"]["finish"]

interface Entry {
  /** What a newer entry replaces; `null`: nothing is ever replaced. */
  readonly part: string | null
  command: SystemCommand
  /** Epoch milliseconds. */
  due: number
}

/** How messages end that the agent left open. */
const finishes: Readonly<Record<TurnOutcome, Finish>> = {
  succeeded: "end_turn",
  interrupted: "cancelled",
  cancelled: "cancelled",
  failed: "error"
}

const USAGE = "usage"

export class TurnJournal {
  /** Approvals the agent waits for. */
  readonly waiting = new Set<string>()
  #ended = false
  #entries: Array<Entry> = []
  readonly #written = new Map<string, number>()
  readonly #parts = new Map<string, Set<string>>()
  readonly #tools = new Map<string, string>()
  readonly #turnId: Uuid
  readonly #before: Usage
  #last: Usage
  #metered = false
  readonly #timing: Pick<Timings, "message" | "usage">

  /** `usage`: what the sandbox had used before the turn. `now` in epoch milliseconds, here and below. */
  constructor(turnId: Uuid, usage: Usage, timing: Pick<Timings, "message" | "usage">, now: number) {
    this.#turnId = turnId
    this.#before = usage
    this.#last = usage
    this.#timing = timing
    // Short turns report what they used once, at their end.
    this.#written.set(USAGE, now)
  }

  /** Entries that are not taken yet. */
  get size(): number {
    return this.#entries.length
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
        const part = `${messageId}:${kind === "text" ? "text" : "thought"}`
        const parts = this.#parts.get(messageId) ?? new Set()
        this.#parts.set(messageId, parts.add(part))
        this.#replace(part, this.#timing.message, this.#record({
          type: "message.updated",
          data: { part_id: part, message_id: messageId, kind, text }
        }))
        return
      }
      case "MessageCompleted":
        this.#complete(event.messageId, event.finish)
        return
      case "ToolUpdated": {
        const { _tag, callId, ...tool } = event
        if (tool.status === "completed" || tool.status === "error") this.#tools.delete(callId)
        else this.#tools.set(callId, tool.tool)
        this.#tool(callId, tool)
        return
      }
      case "ApprovalRequested": {
        const { _tag, approvalId, ...request } = event
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

  /** Closes what the agent left open and ends the turn. Everything is due at once. */
  end(end: { readonly state: TurnOutcome; readonly reason?: string; readonly initiator?: "user" | "policy" | "provider" | "system" }): void {
    for (const messageId of Array.from(this.#parts.keys())) this.#complete(messageId, finishes[end.state])
    for (const [callId, tool] of this.#tools) this.#tool(callId, { tool, status: "error", error: "the turn ended first" })
    for (const entry of this.#entries) entry.due = 0
    this.#push({ _tag: "EndTurn", turnId: this.#turnId, ...end })
    this.#ended = true
  }

  /** Removes what is due, in order. */
  take(now: number): ReadonlyArray<SystemCommand> {
    const due = this.#entries.filter((entry) => entry.due <= now)
    this.#entries = this.#entries.filter((entry) => entry.due > now)
    for (const { part } of due) if (part !== null) this.#written.set(part, now)
    return due.map(({ command }) => command)
  }

  #report(usage: Usage): void {
    this.#last = usage
    this.#replace(USAGE, this.#timing.usage, { _tag: "ReportUsage", usage })
  }

  #record(event: Work): SystemCommand {
    return { _tag: "RecordWork", turnId: this.#turnId, events: [event] }
  }

  #push(command: SystemCommand): void {
    this.#entries.push({ part: null, command, due: 0 })
  }

  #replace(part: string, interval: Duration.Duration, command: SystemCommand): void {
    const entry = this.#entries.find((waiting) => waiting.part === part)
    if (entry !== undefined) entry.command = command
    else {
      const written = this.#written.get(part)
      this.#entries.push({ part, command, due: written === undefined ? 0 : written + Duration.toMillis(interval) })
    }
  }

  #tool(callId: string, tool: { readonly tool: string; readonly status: "pending" | "running" | "completed" | "error"; readonly error?: string }): void {
    this.#push(this.#record({
      type: "tool.updated",
      data: { part_id: `tool:${callId}`, message_id: `turn-tools:${this.#turnId}`, call_id: callId, ...tool }
    }))
  }

  #complete(messageId: string, finish: Finish): void {
    // Its last text goes first, whenever it would have been due.
    for (const entry of this.#entries) if (entry.part !== null && this.#parts.get(messageId)?.has(entry.part)) entry.due = 0
    this.#parts.delete(messageId)
    this.#push(this.#record({ type: "message.completed", data: { message_id: messageId, finish } }))
  }
}
