/** A row of the table `sandboxes` as the domain's sandbox. */
import { Sandbox } from "@slipway/domain/sandbox/schema/Sandbox"
import { Schema } from "effect"
import { Instant } from "./Instant.ts"
import { Int8 } from "./Int8.ts"

/** `null` first: trying a date before it takes ten times as long, and most sandboxes of a list have some. */
const InstantOrNull = Schema.Union([Schema.Null, Instant])

/** A row of `sandboxes` under the names of the domain. JSON columns hold the domain's own encoding. */
export const SandboxRow = Schema.Struct({
  ...Sandbox.fields,
  createdAt: Instant,
  statusAt: Instant,
  startedAt: InstantOrNull,
  completedAt: InstantOrNull,
  idleSince: InstantOrNull,
  revision: Int8,
  lastSeq: Int8,
  turnless: Int8,
  logBytes: Int8
})
/** Of what lies in the database only the shape is checked: the rules for values were, when they were written. Throws. */
export const decodeSandbox = Schema.decodeUnknownSync(SandboxRow, { disableChecks: true })

/** The columns of {@link SandboxRow} but for texts that wait, of the table as `s`. */
const ALL_BUT_TEXTS = `
  s.id, s.grant_id AS "grantId", s.created_by AS "createdBy", s.created_at AS "createdAt", s.title, s.repos, s.prompt,
  s.model, s.agent_runtime AS "agentRuntime", s.reasoning_effort AS "reasoningEffort",
  s.tool_approval_mode AS "toolApprovalMode", s.metadata, s.status, s.reason, s.initiator,
  s.status_at AS "statusAt", s.started_at AS "startedAt", s.completed_at AS "completedAt", s.error, s.turn,
  s.idle_since AS "idleSince", s.approvals, s.publications, s.usage, s.tokens, s.revision, s.last_seq AS "lastSeq",
  s.log_bytes AS "logBytes", s.checkpoint, s.owes_checkpoint AS "owesCheckpoint", s.pinned, s.restoring,
  s.restores, s.origin, s.setup_time AS "setupTime", s.waiting, s.turnless`

/** The columns of {@link SandboxRow}, of the table as `s`. */
export const COLUMNS = `${ALL_BUT_TEXTS}, s.waiting_texts AS "waitingTexts"`

/** As {@link COLUMNS}, of many at once: large texts are left where they are. */
export const LIST_COLUMNS = `${ALL_BUT_TEXTS}, '[]'::jsonb AS "waitingTexts"`
