/**
 * The public event log of a sandbox (docs/decisions/5). The same events are the aggregate's history: `evolve` in
 * `Sandbox.ts` folds them. Field case is that of the wire. Event types and `data` fields may be added, never removed.
 */
import { utf8Length } from "../../text/Utf8.ts"
import type { SandboxEvent } from "../schema/SandboxEvent.ts"

export type {
  ApprovalOutcome,
  ApprovalRequest,
  ApprovalResolver,
  ApprovalScope,
  CancelReason,
  CheckpointRepo,
  Initiator,
  QueuedMessage,
  RecordedEvent,
  RestoreCause,
  SandboxEvent,
  SandboxStatus,
  StatusReason,
  WireEvent
} from "../schema/SandboxEvent.ts"

/** The events of these types. */
export type SandboxEventOf<T extends SandboxEvent["type"]> = Extract<SandboxEvent, { readonly type: T }>

/**
 * Events that change sandbox, turn, approval, pull request or what waits. Each counts 1 in the sandbox's `revision`; text, tool,
 * usage, boot, setup, checkpoint and error events do not.
 */
export const changesRevision: Readonly<Record<SandboxEvent["type"], boolean>> = {
  "sandbox.status": true,
  "turn.started": true,
  "turn.updated": true,
  "turn.completed": true,
  "message.queued": true,
  "message.steered": true,
  "message.cancelled": true,
  "approval.requested": true,
  "approval.resolved": true,
  "pull_request.updated": true,
  "sandbox.restoring": true,
  "sandbox.restored": true,
  "sandbox.forked": false,
  "sandbox.checkpoint": false,
  "sandbox.boot": false,
  "setup.started": false,
  "sandbox.error": false,
  "message.updated": false,
  "message.completed": false,
  "tool.updated": false,
  "usage.updated": false
}

/** What a message's text has in the id of its part, after the message's. */
export const TEXT_PART = ":text"

/** How parts of the log are named. A tool call is of no message of the agent: `toolsOf` names the one of all calls of a turn. */
export const partId = {
  text: (messageId: string): string => `${messageId}${TEXT_PART}`,
  reasoning: (messageId: string): string => `${messageId}:thought`,
  tool: (callId: string): string => `tool:${callId}`,
  toolsOf: (turnId: string): string => `turn-tools:${turnId}`,
  usage: "usage"
} as const

/**
 * Events of the same part replace each other: after a turn only the last one need remain. `null`: never compacted.
 */
export const partOf = (event: SandboxEvent): string | null => {
  switch (event.type) {
    case "message.updated":
    case "tool.updated":
      return event.data.part_id
    case "usage.updated":
      return partId.usage
    default:
      return null
  }
}

/** Bytes of what {@link toWire} puts around an event. */
const ENVELOPE_BYTES = 115

/** Bytes the event takes in the log, to a few of its envelope. */
export const sizeOf = (event: SandboxEvent): number => ENVELOPE_BYTES + utf8Length(JSON.stringify(event))
