/** A sandbox as stores keep it beside its log: what `evolve` in `../Sandbox.ts` makes. */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { SandboxId } from "../../ids/SandboxId.ts"
import { AgentRuntimeName } from "../../models/schema/AgentRuntimeName.ts"
import { ReasoningEffort } from "../../models/schema/ReasoningEffort.ts"
import { ToolApprovalMode } from "../../models/schema/ToolApprovalMode.ts"
import { TokenCounts, Usage } from "../../models/schema/Usage.ts"
import { ActionState } from "../../source/schema/PullRequest.ts"
import { RepoName, RepoRef } from "../../source/schema/RepoRef.ts"
import { Counter, text } from "../../text/Text.ts"
import { Timestamp } from "../../time/Timestamp.ts"
import { WaitingMessage, WaitingText } from "./MessageQueue.ts"
import { ApprovalRequest, Initiator, Merges, PublicationTrouble, SandboxStatus, StatusReason } from "./SandboxEvent.ts"
import { Turn } from "./Turn.ts"

/** Free-form strings of the client: at most 16 pairs, kept as they came. */
export const Metadata = Schema.Record(
  text(1, 64).check(Schema.makeFilter((key: string) => key !== "__proto__", {
    expected: "a key other than __proto__",
    toJsonSchema: () => [{}, true]
  })),
  text(0, 1000)
).check(Schema.isMaxProperties(16))

/** A repository's pull request as the last `pull_request.updated` told it. */
export const Publication = Schema.Struct({
  repo: RepoName,
  actionState: ActionState,
  number: Schema.NullOr(Counter),
  /** Its page, as the host says; missing in what was stored before this was kept. */
  url: Schema.optionalKey(Schema.String),
  headSha: Schema.NullOr(Schema.String),
  state: Schema.NullOr(Schema.Literals(["open", "closed"])),
  draft: Schema.NullOr(Schema.Boolean),
  merged: Schema.NullOr(Schema.Boolean),
  /**
   * What Slipway pushed last for this pull request, whatever was restored since; missing before, and in what was stored before this
   * was kept.
   */
  pushed: Schema.optionalKey(Schema.Struct({ headRef: Schema.String, sha: Schema.String, merges: Merges })),
  /** Why the last publication failed; `null` while one runs and after it went through. */
  error: Schema.NullOr(PublicationTrouble)
})
export type Publication = typeof Publication.Type

/** The checkpoint that a fork starts with, of a sandbox of the same grant. */
export const Origin = Schema.Struct({ sandboxId: SandboxId, checkpoint: Counter })
export type Origin = typeof Origin.Type

/** What a creation fixes for ever. */
export const Creation = Schema.Struct({
  id: SandboxId,
  grantId: Schema.String,
  /** User of the key that created it. */
  createdBy: Schema.String,
  title: Schema.String,
  repos: Schema.Array(RepoRef),
  prompt: Schema.String,
  model: Schema.String,
  agentRuntime: AgentRuntimeName,
  reasoningEffort: Schema.NullOr(ReasoningEffort),
  toolApprovalMode: ToolApprovalMode,
  metadata: Metadata,
  /** `null`: it starts with its repositories as they are. */
  origin: Schema.NullOr(Origin),
  createdAt: Timestamp
})
export type Creation = typeof Creation.Type

/** The time of a boot that is its setups': the limit of a boot does not count it. */
export const SetupTime = Schema.Struct({
  /** What runs that are over took, or one that a lost worker left, milliseconds. */
  spentMs: Counter,
  /** The one that goes on, and what it may take; `null`: none. */
  run: Schema.NullOr(Schema.Struct({ since: Timestamp, limitMs: Counter }))
})
export type SetupTime = typeof SetupTime.Type

/** A sandbox as its events made it. Reading one is never a fold: stores keep this beside the log. */
export const Sandbox = Schema.Struct({
  ...Creation.fields,
  status: SandboxStatus,
  reason: Schema.NullOr(StatusReason),
  initiator: Initiator,
  /** When `status` was entered. */
  statusAt: Timestamp,
  /** First entry to running. */
  startedAt: Schema.NullOr(Timestamp),
  /** While it is creating; `null`: no setup began. */
  setupTime: Schema.NullOr(SetupTime),
  /** First entry to succeeded, failed or terminated. */
  completedAt: Schema.NullOr(Timestamp),
  /** A sentence for people: why it `failed`, or the newest trouble it got over. */
  error: Schema.NullOr(Schema.String),
  /** The newest turn, ended or not; `null` before running. */
  turn: Schema.NullOr(Turn),
  /** Messages that wait, in the order of their turns: what steers comes first. While it runs, only beside an active turn. */
  waiting: Schema.Array(WaitingMessage),
  /** Their texts, up to 600,000 characters: a list of sandboxes leaves them out. */
  waitingTexts: Schema.Array(WaitingText),
  /** How many waited and got no turn: they were cancelled, or an agent took them into another one. */
  turnless: Counter,
  /** When the last turn or, where that was later, the last publication ended; the idle window counts from here. */
  idleSince: Schema.NullOr(Timestamp),
  /** Pending ones only, oldest first. */
  approvals: Schema.Array(ApprovalRequest),
  publications: Schema.Array(Publication),
  usage: Usage,
  /** What {@link Usage} is of, in tokens, as far as they were counted: no agent without a gateway has any. */
  tokens: TokenCounts,
  /** The newest checkpoint; 0: there is none. */
  checkpoint: Counter,
  /** Something of the trees or the conversation may be in no checkpoint, and nobody has tried yet. */
  owesCheckpoint: Schema.Boolean,
  /** The newest try at a checkpoint failed: what its machine has of it is in none. */
  pinned: Schema.Boolean,
  /** The checkpoint that a person wants back and no worker has restored yet. */
  restoring: Schema.NullOr(Counter),
  /** How often a worker was done with what a person wanted back, whatever came of it. */
  restores: Counter,
  /** 1 at creation, +1 per event that `changesRevision`. */
  revision: Counter,
  /** `seq` of the newest event: the cursor a snapshot hands out. */
  lastSeq: Counter,
  /** When the newest event was recorded: none is recorded before it. `null`: there is none, or an earlier version wrote it. */
  recordedAt: Schema.NullOr(Timestamp).pipe(Schema.withDecodingDefaultKey(Effect.succeed(null))),
  /** What the events so far take in the log, as `sizeOf` counts. */
  logBytes: Counter
})
export type Sandbox = typeof Sandbox.Type
