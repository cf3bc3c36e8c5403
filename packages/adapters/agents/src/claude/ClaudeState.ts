/** The state of a session with claude, and sending frames to it. */
import type { PromptImage } from "@slipway/domain/sandbox/ports/AgentRuntime"
import type { PlanEntry } from "@slipway/domain/sandbox/rules/ToolCall"
import { Effect } from "effect"
import type { Conversation, Ended } from "../Conversation.ts"
import type { JsonLines } from "../stdio/JsonLines.ts"
import type { WorkspacePaths } from "../WorkspacePaths.ts"
import type * as Claude from "./Claude.ts"

export interface Approval {
  readonly request: string
  readonly input: Claude.Input
}

export interface ClaudeState {
  readonly lines: JsonLines
  readonly conversation: Conversation<Approval>
  readonly paths: WorkspacePaths
  /** Whether calls wait for a person. */
  readonly asks: boolean
  sequence: number
  /** Answers to our control requests, by request; `null`: granted. */
  readonly answers: Map<string, string | null>
  /** Named at the beginning of the first turn only. */
  sessionId: string | null
  messageId: string
  requests: number
  /** Cost of the session at the end of the turn before, in dollars; `null`: unknown, because another process had that turn. */
  costBefore: number | null
  /** The cost of the turn so far, in micro-dollars. */
  spent: number
  /**
   * Steering texts that the model does not have yet. Claude passes a text that comes during a tool call together with its result. A
   * later text becomes claude's next turn, right after the `result` of the present one (2.1.332). For us that is the same turn: it
   * continues until this set is empty.
   */
  readonly untold: Set<string>
  /**
   * Calls of sub-agents that needed an approval and have no result yet, with the sub-agent. Claude reports no result for calls of
   * sub-agents (2.1.332), so an allowed call is completed when its sub-agent has ended.
   */
  readonly unreported: Map<string, string>
  /** Calls of the agent itself that change its list of tasks and have no result yet. */
  readonly taskCalls: Map<string, Claude.TaskCall>
  /** The tasks of the session, by claude's id. */
  readonly tasks: Map<string, PlanEntry>
  /** The `result` after which claude still has to report the state of these texts. */
  provisional: Ended | null
}

/** For the next prompt. */
export const reset = (state: ClaudeState) => {
  state.requests = state.spent = 0
  state.untold.clear()
  state.unreported.clear()
  state.taskCalls.clear()
  state.provisional = null
}

/** Sends a control request. Returns its id. */
export const request = (state: ClaudeState, subtype: string, about: object = {}) =>
  Effect.suspend(() => {
    const request_id = `slipway-${++state.sequence}`
    const frame = { type: "control_request", request_id, request: { subtype, ...about } }
    return Effect.as(Effect.forkChild(state.lines.send(frame), { startImmediately: true }), request_id)
  })

export const respond = ({ lines }: ClaudeState, request_id: string, response: object) =>
  lines.send({ type: "control_response", response: { request_id, ...response } })

/** Interrupts the turn and drops the texts behind it, which claude would run as the next turn. */
export const interrupt = (state: ClaudeState) => Effect.asVoid(request(state, "interrupt", { cancel_queued: true }))

/** Does not wait: a busy agent reads only after we have read. */
export const say = ({ lines }: ClaudeState, text: string, images: ReadonlyArray<PromptImage>, about: object = {}) => {
  const pictures = images.map(({ data, mediaType }) => ({
    type: "image",
    source: { type: "base64", media_type: mediaType, data: Buffer.from(data).toString("base64") }
  }))
  const message = { role: "user", content: [...pictures, { type: "text", text }] }
  const frame = { type: "user", session_id: "", parent_tool_use_id: null, ...about, message }
  return Effect.asVoid(Effect.forkChild(lines.send(frame), { startImmediately: true }))
}

export const concluded = (state: ClaudeState, ended: Ended) => {
  state.untold.clear()
  state.provisional = null
  state.conversation.ended(ended)
}
