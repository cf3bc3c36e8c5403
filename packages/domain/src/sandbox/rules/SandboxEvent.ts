/**
 * Rules about the events of a sandbox's public log (docs/decisions/5), which are also the history of the aggregate: `evolve` in
 * `Sandbox.ts` folds them.
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
  FeedbackKind,
  Initiator,
  QueuedMessage,
  RecordedEvent,
  RestoreCause,
  SandboxEvent,
  SandboxStatus,
  StatusReason,
  SyncedBranch,
  WireEvent
} from "../schema/SandboxEvent.ts"

/** The events of these types. */
export type SandboxEventOf<T extends SandboxEvent["type"]> = Extract<SandboxEvent, { readonly type: T }>

/**
 * Events that change the sandbox, turn, approvals, pull requests or waiting messages. Each adds 1 to the sandbox's `revision`. Text,
 * tool, plan, usage, boot, setup, checkpoint and error events do not.
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
  "question.asked": true,
  "question.answered": true,
  "pull_request.updated": true,
  "sandbox.restoring": true,
  "sandbox.restored": true,
  "sandbox.renamed": true,
  "feedback.received": true,
  "feedback.replied": true,
  "feedback.paused": true,
  "feedback.resumed": true,
  "sandbox.forked": false,
  "sandbox.continued": false,
  "sandbox.syncing": true,
  "sandbox.synced": true,
  "sandbox.checkpoint": false,
  "sandbox.boot": false,
  "setup.started": false,
  "sandbox.error": false,
  "message.updated": false,
  "message.completed": false,
  "tool.updated": false,
  "plan.updated": false,
  "usage.updated": false
}

/** The suffix of the part id of a message's text. */
export const TEXT_PART = ":text"

/** The ids of log parts. Tool calls belong to no agent message: `toolsOf` is the message id of all calls of a turn. */
export const partId = {
  text: (messageId: string): string => `${messageId}${TEXT_PART}`,
  reasoning: (messageId: string): string => `${messageId}:thought`,
  tool: (callId: string): string => `tool:${callId}`,
  plan: (turnId: string): string => `plan:${turnId}`,
  toolsOf: (turnId: string): string => `turn-tools:${turnId}`,
  usage: "usage"
} as const

/** The part of an event. Events of a part replace each other, so that after a turn only the last has to remain. `null`: never replaced. */
export const partOf = (event: SandboxEvent): string | null => {
  switch (event.type) {
    case "message.updated":
    case "tool.updated":
    case "plan.updated":
      return event.data.part_id
    case "usage.updated":
      return partId.usage
    default:
      return null
  }
}

/** Bytes of the envelope that {@link toWire} adds, with an id of five digits. */
const ENVELOPE_BYTES = 115

/** Bytes of the event in the log, as if its id had five digits. */
export const sizeOf = (event: SandboxEvent): number => ENVELOPE_BYTES + utf8Length(JSON.stringify(event))
