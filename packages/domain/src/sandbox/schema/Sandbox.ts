/** The stored state of a sandbox beside its log, as `evolve` in `../rules/Sandbox.ts` computes it. */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { SandboxVariables } from "../../environment/schema/SandboxVariables.ts"
import { SandboxId } from "../../ids/SandboxId.ts"
import { McpServerNames } from "../../mcp/schema/McpServer.ts"
import { AgentRuntimeName } from "../../models/schema/AgentRuntimeName.ts"
import { ReasoningEffort } from "../../models/schema/ReasoningEffort.ts"
import { ToolApprovalMode } from "../../models/schema/ToolApprovalMode.ts"
import { TokenCounts, Usage } from "../../models/schema/Usage.ts"
import { FeedbackState } from "../../source/schema/FeedbackState.ts"
import { ActionState, PullRequest } from "../../source/schema/PullRequest.ts"
import { RepoName, RepoRef } from "../../source/schema/RepoRef.ts"
import { Counter, text } from "../../text/Text.ts"
import { Timestamp } from "../../time/Timestamp.ts"
import { WaitingMessage, WaitingText } from "./MessageQueue.ts"
import { ApprovalRequest, Initiator, Merges, PublicationTrouble, SandboxStatus, StatusReason } from "./SandboxEvent.ts"
import { Turn } from "./Turn.ts"

/** Free strings of the client: at most 16 pairs, kept unchanged. */
export const Metadata = Schema.Record(
  text(1, 64).check(Schema.makeFilter((key: string) => key !== "__proto__", {
    expected: "a key other than __proto__",
    toJsonSchema: () => [{}, true]
  })),
  text(0, 1000)
).check(Schema.isMaxProperties(16))

/** A repository's pull request, as in the last `pull_request.updated`. */
export const Publication = Schema.Struct({
  repo: RepoName,
  actionState: ActionState,
  number: Schema.NullOr(Counter),
  /** The address of its page at the host. Absent in rows of earlier versions. */
  url: Schema.optionalKey(Schema.String),
  /** As the source host had it at the last publication or change; missing in what was stored before this was kept. */
  pullRequest: Schema.optionalKey(PullRequest),
  headSha: Schema.NullOr(Schema.String),
  state: Schema.NullOr(Schema.Literals(["open", "closed"])),
  draft: Schema.NullOr(Schema.Boolean),
  merged: Schema.NullOr(Schema.Boolean),
  /** When it was first seen as merged. Absent before, and where an earlier version saw it. */
  mergedAt: Schema.optionalKey(Timestamp),
  /**
   * The commit last pushed for this pull request, whatever was restored since. Absent before the first push and in rows of earlier
   * versions.
   */
  pushed: Schema.optionalKey(Schema.Struct({ headRef: Schema.String, sha: Schema.String, merges: Merges })),
  /** Why the last publication failed; `null` while one runs and after a success. */
  error: Schema.NullOr(PublicationTrouble)
})
export type Publication = typeof Publication.Type

/** The checkpoint that a fork starts with. Its sandbox is of the same grant. */
export const Origin = Schema.Struct({ sandboxId: SandboxId, checkpoint: Counter })
export type Origin = typeof Origin.Type

/** The branch that a sandbox continues: its tree starts there, and it publishes there (docs/decisions/24). */
export const Continues = Schema.Struct({
  /** Spelled as in the sandbox's repositories. */
  repo: RepoName,
  branch: Schema.String,
  /** The open pull request of the branch; `null`: it had none. */
  pullRequest: Schema.NullOr(Counter),
  /** The newest commit of the branch at the creation. The tree starts from the newest one at its boot. */
  headSha: Schema.String,
  /** The finished sandbox whose pull request it continues by itself. Absent: a caller asked for the branch. */
  sandboxId: Schema.optionalKey(SandboxId),
  /** The pull request as the host had it at the creation. */
  details: Schema.optionalKey(PullRequest)
})
export type Continues = typeof Continues.Type

/** The fields that are set at creation. Only the title and the state of feedback can change. */
export const Creation = Schema.Struct({
  id: SandboxId,
  grantId: Schema.String,
  /** The user of the key that created it. */
  createdBy: Schema.String,
  title: Schema.String,
  repos: Schema.Array(RepoRef),
  prompt: Schema.String,
  model: Schema.String,
  agentRuntime: AgentRuntimeName,
  reasoningEffort: Schema.NullOr(ReasoningEffort),
  toolApprovalMode: ToolApprovalMode,
  metadata: Metadata,
  /** `null`: it starts with the present state of its repositories. */
  origin: Schema.NullOr(Origin),
  /** The first state of the feedback on its pull requests (docs/decisions/24). Absent or `null`: none is asked for. */
  feedback: Schema.optionalKey(Schema.NullOr(FeedbackState)),
  /** The MCP servers that the creation chose. Absent: those that are on by default (docs/decisions/23). */
  mcpServers: Schema.optionalKey(McpServerNames),
  /** `null`: it publishes to a branch of its own. */
  continues: Schema.NullOr(Continues).pipe(Schema.withDecodingDefaultKey(Effect.succeed(null))),
  /** Its own limit of model costs, in micro-USD. Absent or `null`: the operator's alone. */
  budgetMicroUsd: Schema.optionalKey(Schema.NullOr(Counter)),
  /** Plain variables for setup and the agent. Absent: none. */
  environment: Schema.optionalKey(SandboxVariables),
  createdAt: Timestamp
})
export type Creation = typeof Creation.Type

/** The part of a boot that setups take. It does not count for the time limit of a boot. */
export const SetupTime = Schema.Struct({
  /** Milliseconds of finished runs, including runs of lost workers. */
  spentMs: Counter,
  /** The present run and its limit; `null`: none. */
  run: Schema.NullOr(Schema.Struct({ since: Timestamp, limitMs: Counter }))
})
export type SetupTime = typeof SetupTime.Type

/** The state computed from the sandbox's events. It is stored beside the log, so reading it never folds events. */
export const Sandbox = Schema.Struct({
  ...Creation.fields,
  /** The present state of feedback; `null`: none is asked for. */
  feedback: Schema.NullOr(FeedbackState).pipe(Schema.withDecodingDefaultKey(Effect.succeed(null))),
  budgetMicroUsd: Schema.NullOr(Counter).pipe(Schema.withDecodingDefaultKey(Effect.succeed(null))),
  environment: SandboxVariables.pipe(Schema.withDecodingDefaultKey(Effect.succeed({}))),
  status: SandboxStatus,
  reason: Schema.NullOr(StatusReason),
  initiator: Initiator,
  /** The time of entering `status`. */
  statusAt: Timestamp,
  /** The first time of entering `running`. */
  startedAt: Schema.NullOr(Timestamp),
  /** Set while it is `creating`; `null`: no setup began. */
  setupTime: Schema.NullOr(SetupTime),
  /** The first time of entering `succeeded`, `failed` or `terminated`. */
  completedAt: Schema.NullOr(Timestamp),
  /** A sentence for people: why it `failed`, or the newest problem that it recovered from. */
  error: Schema.NullOr(Schema.String),
  /** The newest turn, active or ended; `null` before `running`. */
  turn: Schema.NullOr(Turn),
  /**
   * Waiting messages in the order of their turns; steering ones come first. In a running sandbox there are some only while a turn is
   * active.
   */
  waiting: Schema.Array(WaitingMessage),
  /** Their texts, up to 600,000 characters. Lists of sandboxes leave them out. */
  waitingTexts: Schema.Array(WaitingText),
  /** The number of waiting messages that got no turn: they were cancelled, or an agent took them into another turn. */
  turnless: Counter,
  /** The end of the last turn or, if later, of the last publication. The idle timeout starts here. */
  idleSince: Schema.NullOr(Timestamp),
  /** Only pending approvals, oldest first. */
  approvals: Schema.Array(ApprovalRequest),
  publications: Schema.Array(Publication),
  usage: Usage,
  /** The tokens of {@link Usage}, as far as they were counted. Agents without a gateway have none. */
  tokens: TokenCounts,
  /** The newest checkpoint; 0: none. */
  checkpoint: Counter,
  /** Trees or conversation may have changed since the newest checkpoint, and no attempt at a new one was made since. */
  owesCheckpoint: Schema.Boolean,
  /** The newest attempt at a checkpoint failed, so data of its machine is in no checkpoint. */
  pinned: Schema.Boolean,
  /** The checkpoint that a person wants restored and that no worker has restored yet. */
  restoring: Schema.NullOr(Counter),
  /** Somebody asked for the newest commits of its branches, and no worker has brought them yet (docs/decisions/24). */
  syncing: Schema.Boolean.pipe(Schema.withDecodingDefaultKey(Effect.succeed(false))),
  /** The number of finished syncs, whatever their result. */
  syncs: Counter.pipe(Schema.withDecodingDefaultKey(Effect.succeed(0))),
  /** The number of finished restores, whatever their result. */
  restores: Counter,
  /** The number of new titles since the creation. */
  renames: Counter.pipe(Schema.withDecodingDefaultKey(Effect.succeed(0))),
  /** 1 at creation, plus 1 per event with `changesRevision`. */
  revision: Counter,
  /** `seq` of the newest event, which is the cursor of a snapshot. */
  lastSeq: Counter,
  /** The time of the newest event; later events have no earlier time. `null`: no event, or a row of an earlier version. */
  recordedAt: Schema.NullOr(Timestamp).pipe(Schema.withDecodingDefaultKey(Effect.succeed(null))),
  /** Bytes of all events in the log, counted by `sizeOf`. */
  logBytes: Counter
})
export type Sandbox = typeof Sandbox.Type
