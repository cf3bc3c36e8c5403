/**
 * The public event log of a sandbox (decisions, section 5). The same events are the aggregate's history: `evolve` in
 * `Sandbox.ts` folds them. Field case is that of the wire. Event types and `data` fields may be added, never removed.
 */
import { type DateTime, Schema } from "effect"
import { ActionState } from "../source/PullRequest.ts"
import { Counter } from "../Text.ts"
import { Timestamp } from "../Timestamp.ts"
import { ToolKind } from "./AgentRuntime.ts"
import { SandboxId } from "./SandboxId.ts"
import { TurnOutcome, TurnState } from "./Turn.ts"
import { Usage } from "./Usage.ts"

/** Where a sandbox is in its life (interface 3); `Transition.ts` has the legal steps. */
export const SandboxStatus = Schema.Literals([
  "queued", "creating", "running", "succeeded", "failed", "terminating", "terminated"
])
export type SandboxStatus = typeof SandboxStatus.Type

/** Who caused a change: a person's command, a time limit, the agent or its host, or the service itself. */
export const Initiator = Schema.Literals(["user", "policy", "provider", "system"])
export type Initiator = typeof Initiator.Type

/** Why it got there (decisions 2.1). */
export const StatusReason = Schema.Literals([
  "queue_timeout", "boot_timeout", "boot_failed", "clone_failed", "repo_not_accessible", "idle_timeout",
  "last_turn_failed", "agent_lost", "host_lost", "terminated", "max_lifetime", "grant_revoked", "release_failed"
])
export type StatusReason = typeof StatusReason.Type

/** What an agent asks to be allowed. */
export const ApprovalRequest = Schema.Struct({
  /** Equals the tool call's `call_id`. */
  approval_id: Schema.String,
  tool: Schema.String,
  kind: Schema.optionalKey(ToolKind),
  paths: Schema.optionalKey(Schema.Array(Schema.String)),
  /** Counts as denied from then on. */
  expires_at: Timestamp
})
export type ApprovalRequest = typeof ApprovalRequest.Type

/** How an approval ended. */
export const ApprovalOutcome = Schema.Literals(["approved", "denied"])
export type ApprovalOutcome = typeof ApprovalOutcome.Type

/** `user`: a decision; the others deny because nobody can decide any more. */
export const ApprovalResolver = Schema.Literals(["user", "timeout", "interrupt", "terminate", "turn_end"])
export type ApprovalResolver = typeof ApprovalResolver.Type

/** Why a publication did not go through. */
export const PublicationTrouble = Schema.Struct({
  /** The one its caller gets. */
  code: Schema.String,
  message: Schema.String,
  /** Seconds the source host asked us to wait. */
  retry_after: Schema.optionalKey(Counter)
})

const durable = <const T extends string, const F extends Schema.Struct.Fields>(type: T, data: F) =>
  Schema.Struct({
    type: Schema.Literal(type),
    /** Set inside a turn. */
    turn_id: Schema.optionalKey(Schema.String),
    data: Schema.Struct(data)
  })

/** Every durable event, as deciders make it: the envelope is added when it is recorded. */
export const SandboxEvent = Schema.Union([
  durable("sandbox.status", {
    status: SandboxStatus,
    previous: Schema.NullOr(SandboxStatus),
    reason: Schema.NullOr(StatusReason),
    initiator: Initiator
  }),
  durable("sandbox.boot", {
    stage: Schema.Literals(["provision", "clone", "setup", "agent_start", "ready"]),
    /** How long the stage took. */
    ms: Counter,
    repo: Schema.optionalKey(Schema.String)
  }),
  durable("sandbox.error", { code: Schema.String, message: Schema.String, retryable: Schema.Boolean }),
  durable("turn.started", {
    prompt_id: Schema.String,
    text: Schema.String,
    files: Schema.Array(Schema.Never),
    author: Schema.Struct({ id: Schema.String })
  }),
  durable("turn.updated", {
    state: TurnState,
    previous: Schema.NullOr(TurnState),
    /** With `pending`: the prompt and who sent it. */
    text: Schema.optionalKey(Schema.String),
    author: Schema.optionalKey(Schema.Struct({ id: Schema.String })),
    /** Set when a command asked for the turn's end and the agent is still to answer. */
    reason: Schema.optionalKey(Schema.Literal("interrupt")),
    initiator: Schema.optionalKey(Initiator)
  }),
  durable("turn.completed", {
    state: TurnOutcome,
    reason: Schema.optionalKey(Schema.String),
    initiator: Schema.optionalKey(Initiator)
  }),
  durable("message.updated", {
    part_id: Schema.String,
    message_id: Schema.String,
    kind: Schema.Literals(["text", "reasoning"]),
    text: Schema.String
  }),
  durable("message.completed", {
    message_id: Schema.String,
    finish: Schema.Literals(["end_turn", "max_tokens", "refusal", "cancelled", "error"])
  }),
  durable("tool.updated", {
    part_id: Schema.String,
    message_id: Schema.String,
    call_id: Schema.String,
    tool: Schema.String,
    status: Schema.Literals(["pending", "running", "completed", "error"]),
    error: Schema.optionalKey(Schema.String)
  }),
  durable("approval.requested", ApprovalRequest.fields),
  durable("approval.resolved", { approval_id: Schema.String, outcome: ApprovalOutcome, by: ApprovalResolver }),
  durable("pull_request.updated", {
    repo: Schema.String,
    action_state: ActionState,
    number: Schema.optionalKey(Counter),
    url: Schema.optionalKey(Schema.String),
    state: Schema.optionalKey(Schema.Literals(["open", "closed"])),
    draft: Schema.optionalKey(Schema.Boolean),
    merged: Schema.optionalKey(Schema.Boolean),
    head_ref: Schema.optionalKey(Schema.String),
    head_sha: Schema.optionalKey(Schema.String),
    error: Schema.optionalKey(PublicationTrouble)
  }),
  durable("usage.updated", { usage: Usage })
]).annotate({ identifier: "SandboxEvent" })
export type SandboxEvent = typeof SandboxEvent.Type
/** The events of these types. */
export type SandboxEventOf<T extends SandboxEvent["type"]> = Extract<SandboxEvent, { readonly type: T }>

/**
 * Events that change sandbox, turn, approval or pull request. Each counts 1 in the sandbox's `revision`; text, tool,
 * usage, boot and error events do not.
 */
export const changesRevision: Readonly<Record<SandboxEvent["type"], boolean>> = {
  "sandbox.status": true,
  "turn.started": true,
  "turn.updated": true,
  "turn.completed": true,
  "approval.requested": true,
  "approval.resolved": true,
  "pull_request.updated": true,
  "sandbox.boot": false,
  "sandbox.error": false,
  "message.updated": false,
  "message.completed": false,
  "tool.updated": false,
  "usage.updated": false
}

/**
 * Events of the same part replace each other: after a turn only the last one need remain. `null`: never compacted.
 */
export const partOf = (event: SandboxEvent): string | null => {
  switch (event.type) {
    case "message.updated":
    case "tool.updated":
      return event.data.part_id
    case "usage.updated":
      return "usage"
    default:
      return null
  }
}

/** An event as the log keeps it. `seq` starts at 1 and rises by one within the sandbox; the wire calls it `id`. */
export interface RecordedEvent {
  readonly seq: number
  readonly at: DateTime.Utc
  readonly event: SandboxEvent
}

const Envelope = Schema.Struct({
  object: Schema.Literal("sandbox.event"),
  version: Schema.Literal("v1"),
  id: Schema.String,
  ts: Timestamp,
  sandbox_id: SandboxId
})
const encodeEnvelope = Schema.encodeSync(Envelope)
const encodeEvent = Schema.encodeSync(SandboxEvent)
const decodeEnvelope = Schema.decodeUnknownSync(Envelope)
const decodeEvent = Schema.decodeUnknownSync(SandboxEvent)

/** The event's JSON on the wire. Encoded once, when it is recorded: the log and every reader share these bytes. */
export const toWire = (sandboxId: SandboxId, { at, event, seq }: RecordedEvent): string => {
  const head = encodeEnvelope({ object: "sandbox.event", version: "v1", id: String(seq), ts: at, sandbox_id: sandboxId })
  const { data, turn_id, type } = encodeEvent(event)
  return JSON.stringify({ ...head, type, data, ...(turn_id === undefined ? {} : { turn_id }) })
}

/** Reads back what {@link toWire} wrote. Throws on anything else: the log is ours, so that is a defect. */
export const fromWire = (wire: string): RecordedEvent => {
  const json: unknown = JSON.parse(wire)
  const { id, ts } = decodeEnvelope(json)
  return { seq: Number(id), at: ts, event: decodeEvent(json) }
}
