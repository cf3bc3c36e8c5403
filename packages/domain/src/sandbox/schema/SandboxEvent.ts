/**
 * The events of a sandbox's log (docs/decisions/5), as they are stored and sent. Fields have the names of the wire. Event types and
 * `data` fields may be added, never removed.
 */
import type * as DateTime from "effect/DateTime"
import * as Schema from "effect/Schema"
import { SandboxId } from "../../ids/SandboxId.ts"
import { TokenCounts, Usage } from "../../models/schema/Usage.ts"
import { ActionState, PullRequest } from "../../source/schema/PullRequest.ts"
import { RepoName } from "../../source/schema/RepoRef.ts"
import { Counter } from "../../text/Text.ts"
import { Timestamp, timestamp } from "../../time/Timestamp.ts"
import { Finish } from "./AgentEvent.ts"
import { PlanEntry } from "./Plan.ts"
import { AttachedFile } from "./PromptFile.ts"
import { Answers, QuestionRequest, QuestionResolver } from "./Question.ts"
import { Detail, Preview, ToolKind } from "./ToolCall.ts"
import { TurnOutcome, TurnState } from "./Turn.ts"

/** The status of a sandbox (docs/interface.md 3). `Transition.ts` has the allowed transitions. */
export const SandboxStatus = Schema.Literals([
  "queued",
  "creating",
  "running",
  "succeeded",
  "failed",
  "terminating",
  "terminated"
])
export type SandboxStatus = typeof SandboxStatus.Type

/** The cause of a change: a person's command, a time limit, the agent or its host, or the service itself. */
export const Initiator = Schema.Literals(["user", "policy", "provider", "system"])
export type Initiator = typeof Initiator.Type

/** The reason of a status (docs/decisions/2.1). */
export const StatusReason = Schema.Literals([
  "queue_timeout",
  "boot_timeout",
  "boot_failed",
  "clone_failed",
  "repo_not_accessible",
  "idle_timeout",
  "last_turn_failed",
  "agent_lost",
  "host_lost",
  "terminated",
  "max_lifetime",
  "grant_revoked",
  "release_failed"
])
export type StatusReason = typeof StatusReason.Type

/** An agent's request for an approval. */
export const ApprovalRequest = Schema.Struct({
  approval_id: Schema.String.annotateKey({ description: "Id of the request; equals the tool call's `call_id`." }),
  tool: Schema.String.annotateKey({ description: "The intended action, for display." }),
  kind: Schema.optionalKey(ToolKind).annotateKey({ description: "Kind of the call, if the runtime tells it." }),
  paths: Schema.optionalKey(Schema.Array(Schema.String)).annotateKey({ description: "Its files, relative to the workspace." }),
  plain: Schema.optionalKey(Schema.Literal(true)).annotateKey({
    description:
      "The edit changes only plain, unprotected files of the trees and deletes none: it can be approved for the rest of the turn."
  }),
  preview: Schema.optionalKey(Preview).annotateKey({
    description: "What an approval will do; left out if the operator disabled it."
  }),
  expires_at: timestamp("Time after which it counts as denied.")
})
export type ApprovalRequest = typeof ApprovalRequest.Type

/** The result of an approval. */
export const ApprovalOutcome = Schema.Literals(["approved", "denied"])
export type ApprovalOutcome = typeof ApprovalOutcome.Type

/** `user`: a decision; `policy`: a decision for the rest of the turn; the others deny, because a decision is no longer possible. */
export const ApprovalResolver = Schema.Literals(["user", "policy", "timeout", "interrupt", "terminate", "turn_end"])
export type ApprovalResolver = typeof ApprovalResolver.Type

/** The approvals that a decision covers besides its own: `turn`, later ones of the same kind in the same turn. */
export const ApprovalScope = Schema.Literals(["turn"])
export type ApprovalScope = typeof ApprovalScope.Type

/** Like `MergeStep` of the working trees. */
export const Merges = Schema.Array(Schema.Struct({
  onto: Schema.String.annotateKey({ description: "The base branch's commit that the changes were merged with." }),
  ancestor: Schema.NullOr(Schema.String).annotateKey({
    description: "The common ancestor; `null`: the sandbox's start commit."
  })
}))

/** Why a publication failed. */
export const PublicationTrouble = Schema.Struct({
  code: Schema.String.annotateKey({ description: "The one its caller gets." }),
  message: Schema.String.annotateKey({ description: "For people." }),
  retry_after: Schema.optionalKey(Counter).annotateKey({ description: "Seconds that the source host asks to wait." })
})

/**
 * Why a waiting message gets no turn. `command`: its sender withdrew it. `sandbox_ended`: the sandbox ended. The others ended the turn
 * before it and would also have ended its own.
 */
export const CancelReason = Schema.Literals(["command", "sandbox_ended", "output_limit", "budget_exceeded", "no_credits"])
export type CancelReason = typeof CancelReason.Type

/** Why the trees of a sandbox were restored from a checkpoint. */
export const RestoreCause = Schema.Literals(["machine_lost", "machine_drained", "command", "fork"])
export type RestoreCause = typeof RestoreCause.Type

/** The kinds of feedback. */
export const FeedbackKind = Schema.Literals(["review", "comment", "checks"])
export type FeedbackKind = typeof FeedbackKind.Type

/** A repository's tree in a checkpoint. */
export const CheckpointRepo = Schema.Struct({
  repo: RepoName.annotateKey({ description: "`owner/name`." }),
  sha: Schema.String.annotateKey({ description: "The commit of the tree. No branch of the repository has it." })
})
export type CheckpointRepo = typeof CheckpointRepo.Type

/** A branch of the source host in the agent's git. */
export const SyncedBranch = Schema.Struct({
  repo: RepoName.annotateKey({ description: "`owner/name`." }),
  branch: Schema.String.annotateKey({ description: "The agent's git has it as `origin/<branch>`." }),
  sha: Schema.String.annotateKey({ description: "Its newest commit." })
})
export type SyncedBranch = typeof SyncedBranch.Type

/** The files of a prompt in its events. */
const someFiles = Schema.optionalKey(Schema.Array(AttachedFile))

const Author = Schema.Struct({ id: Schema.String.annotateKey({ description: "Id of a user." }) })

/** A waiting message, as it is sent. */
export const QueuedMessage = Schema.Struct({
  message_id: Schema.String.annotateKey({ description: "Id of the message, and of its turn." }),
  position: Counter.annotateKey({ description: "Turns until its own, from 1, unless an agent takes it before." }),
  text: Schema.String.annotateKey({ description: "The message." }),
  author: Author.annotateKey({ description: "Who sent it." }),
  steers: Schema.Boolean.annotateKey({ description: "Whether it is for the agent of the active turn." }),
  files: someFiles.annotateKey({ description: "Its files; left out without any." })
})
export type QueuedMessage = typeof QueuedMessage.Type

const durable = <const T extends string, const F extends Schema.Struct.Fields>(type: T, data: F) =>
  Schema.Struct({
    type: Schema.Literal(type).annotateKey({ description: "What happened." }),
    turn_id: Schema.optionalKey(Schema.String).annotateKey({ description: "The turn it happened in; left out outside of one." }),
    data: Schema.Struct(data).annotateKey({ description: "What there is to know of it." })
  })

const EmptySubmodule = Schema.Struct({
  path: Schema.String.annotateKey({ description: "The folder, from the top of the repository. At most 500 characters." }),
  reason: Schema.String.annotateKey({ description: "Why it is empty, for people. At most 500 characters." })
})

const LfsMissing = Schema.Struct({
  path: Schema.String.annotateKey({ description: "The file, from the top of the repository. At most 500 characters." }),
  reason: Schema.String.annotateKey({ description: "Why it has no content, for people. At most 500 characters." })
})

/** Every stored event, as deciders return it. Recording adds the envelope. */
export const SandboxEvent = Schema.Union([
  durable("sandbox.status", {
    status: SandboxStatus.annotateKey({ description: "The new status." }),
    previous: Schema.NullOr(SandboxStatus).annotateKey({ description: "The status before; `null` for a new sandbox." }),
    reason: Schema.NullOr(StatusReason).annotateKey({ description: "The reason of the status, if any." }),
    initiator: Initiator.annotateKey({ description: "Who caused it." })
  }),
  durable("sandbox.boot", {
    stage: Schema.Literals(["provision", "clone", "setup", "mcp", "agent_start", "ready"]).annotateKey({
      description:
        "The completed stage. `setup` also comes after the boot, when trees were made again. `mcp`: one MCP server was looked at."
    }),
    ms: Counter.annotateKey({ description: "Duration of the stage, milliseconds." }),
    repo: Schema.optionalKey(Schema.String).annotateKey({ description: "The repository of the stage, if any." }),
    server: Schema.optionalKey(Schema.String).annotateKey({ description: "With `mcp`: the name of the server." }),
    submodules: Schema.optionalKey(Schema.Array(Schema.String)).annotateKey({
      description: "With `clone`: folders of submodules that are empty. At most 32."
    }),
    empty_submodules: Schema.optionalKey(Schema.Array(EmptySubmodule)).annotateKey({
      description: "With `clone`: the same folders with the reason of each; left out by earlier versions."
    }),
    lfs_pointers: Schema.optionalKey(Counter).annotateKey({
      description: "With `clone`: files of which the tree has only the pointers of Git LFS; left out without any."
    }),
    lfs_missing: Schema.optionalKey(Schema.Array(LfsMissing)).annotateKey({
      description: "With `clone`: some of these files with the reason of each, at most 32; left out by earlier versions."
    }),
    cache: Schema.optionalKey(Schema.Literals(["hit", "miss", "none"])).annotateKey({
      description: "With `setup`: whether the cache had its folders; `none` if nothing is cached."
    }),
    ignored: Schema.optionalKey(Schema.Array(Schema.String)).annotateKey({
      description: "With `setup`: ignored keys of the repository's file."
    }),
    egress_refused: Schema.optionalKey(Schema.Array(Schema.String)).annotateKey({
      description: "With `setup`: destinations that the operator does not allow, as `name:port`."
    }),
    image_refused: Schema.optionalKey(Schema.String).annotateKey({
      description: "With `setup`: the requested image, if the sandbox has another one."
    }),
    secrets_withheld: Schema.optionalKey(Schema.String).annotateKey({
      description: "With `setup`: why it ran without its secrets, for people."
    }),
    error: Schema.optionalKey(Schema.String).annotateKey({
      description: "With `setup`: why it failed, for people; the status says whether the sandbox goes on. With `mcp`: why the agent " +
        "does not have the server."
    })
  }),
  durable("setup.started", {
    limit_ms: Counter.annotateKey({
      description: "Time limit of all setups together, milliseconds. `sandbox.boot` with `setup` reports each end."
    })
  }),
  durable("sandbox.forked", {
    sandbox_id: SandboxId.annotateKey({ description: "The sandbox whose checkpoint it starts with." }),
    checkpoint: Counter.annotateKey({ description: "The checkpoint of that sandbox." })
  }),
  durable("sandbox.continued", {
    repo: RepoName.annotateKey({ description: "`owner/name`." }),
    branch: Schema.String.annotateKey({ description: "The branch that it continues and publishes to." }),
    pull_request: Schema.optionalKey(Counter).annotateKey({ description: "The open pull request of the branch; left out without one." }),
    sandbox_id: Schema.optionalKey(SandboxId).annotateKey({
      description: "The finished sandbox that it continues by itself; left out if a caller asked for the branch."
    })
  }),
  durable("sandbox.syncing", {
    repos: Schema.Array(RepoName).annotateKey({ description: "The repositories whose newest commits a worker gets." })
  }),
  durable("sandbox.synced", {
    branches: Schema.Array(SyncedBranch).annotateKey({
      description: "The branches that the agent's git now has as `origin/…`; those that are missing at the host are left out."
    }),
    error: Schema.optionalKey(Schema.String).annotateKey({ description: "Why some or all could not be had, for people." })
  }),
  durable("sandbox.checkpoint", {
    checkpoint: Schema.optionalKey(Counter).annotateKey({ description: "Counts from 1; left out on failure." }),
    turn_id: Schema.optionalKey(Schema.String).annotateKey({ description: "The last ended turn." }),
    bytes: Schema.optionalKey(Counter).annotateKey({ description: "Stored bytes." }),
    ms: Schema.optionalKey(Counter).annotateKey({ description: "Duration, milliseconds." }),
    repos: Schema.optionalKey(Schema.Array(CheckpointRepo)).annotateKey({ description: "The tree of each repository." }),
    error: Schema.optionalKey(Schema.String).annotateKey({
      description: "Why it failed, for people. The sandbox works on; its newer changes are only on its machine."
    })
  }),
  durable("sandbox.restoring", {
    checkpoint: Counter.annotateKey({ description: "The checkpoint to restore." })
  }),
  durable("sandbox.restored", {
    checkpoint: Schema.optionalKey(Counter).annotateKey({
      description: "The restored checkpoint; left out if none could be restored."
    }),
    cause: RestoreCause.annotateKey({ description: "Why." }),
    lost_turn: Schema.optionalKey(Schema.String).annotateKey({ description: "The turn whose changes were lost with the machine." }),
    damaged: Schema.optionalKey(Schema.Array(Counter)).annotateKey({
      description: "Unreadable checkpoints that were tried first, newest first."
    }),
    error: Schema.optionalKey(Schema.String).annotateKey({
      description: "Why nothing was restored, for people. Trees and conversation are unchanged."
    })
  }),
  durable("sandbox.renamed", {
    title: Schema.String.annotateKey({ description: "The new title." })
  }),
  durable("sandbox.error", {
    code: Schema.String.annotateKey({ description: "For programs; codes may be added." }),
    message: Schema.String.annotateKey({ description: "For people." }),
    retryable: Schema.Boolean.annotateKey({ description: "Whether another try may succeed." })
  }),
  durable("turn.started", {
    prompt_id: Schema.String.annotateKey({ description: "Id of the prompt, and of the turn." }),
    text: Schema.String.annotateKey({ description: "The prompt." }),
    files: Schema.Array(AttachedFile).annotateKey({ description: "The files of the prompt. The agent finds them below its home." }),
    author: Author.annotateKey({ description: "Who sent the prompt." })
  }),
  durable("turn.updated", {
    state: TurnState.annotateKey({ description: "The new state." }),
    previous: Schema.NullOr(TurnState).annotateKey({ description: "The state before; `null` for a new turn." }),
    text: Schema.optionalKey(Schema.String).annotateKey({ description: "With `pending`: the prompt." }),
    author: Schema.optionalKey(Author).annotateKey({ description: "With `pending`: who sent the prompt." }),
    files: someFiles.annotateKey({ description: "With `pending`: the files of the prompt; left out without any." }),
    reason: Schema.optionalKey(Schema.Literal("interrupt")).annotateKey({
      description: "Set when a command asked for the turn's end and the agent has not ended it yet."
    }),
    initiator: Schema.optionalKey(Initiator).annotateKey({ description: "Who caused it." })
  }),
  durable("turn.completed", {
    state: TurnOutcome.annotateKey({ description: "How the turn ended." }),
    reason: Schema.optionalKey(Schema.String).annotateKey({
      description: "The reason, if any: a word or a sentence for people."
    }),
    initiator: Schema.optionalKey(Initiator).annotateKey({ description: "Initiator of the end, unless the agent." })
  }),
  durable("message.updated", {
    part_id: Schema.String.annotateKey({ description: "Events of one part replace each other." }),
    message_id: Schema.String.annotateKey({ description: "The message that the part belongs to." }),
    kind: Schema.Literals(["text", "reasoning"]).annotateKey({ description: "`reasoning`: the model's thoughts; `text`: its answer." }),
    text: Schema.String.annotateKey({ description: "The whole text of the part so far." })
  }),
  durable("message.queued", QueuedMessage.fields),
  durable("message.steered", {
    message_id: Schema.String.annotateKey({ description: "The message. It gets no turn of its own." }),
    text: Schema.String.annotateKey({ description: "The message." }),
    author: Author.annotateKey({ description: "Who sent it." }),
    files: someFiles.annotateKey({ description: "Its files; left out without any." })
  }),
  durable("message.cancelled", {
    message_id: Schema.String.annotateKey({ description: "The message. It gets no turn." }),
    reason: CancelReason.annotateKey({ description: "Why; reasons may be added." })
  }),
  // Earlier messages of a turn are final when its next part begins.
  durable("message.completed", {
    message_id: Schema.String.annotateKey({ description: "The last message of the turn." }),
    finish: Finish.annotateKey({ description: "Why the model stopped." })
  }),
  durable("tool.updated", {
    part_id: Schema.String.annotateKey({ description: "Events of one part replace each other." }),
    message_id: Schema.String.annotateKey({ description: "Groups the tool calls of a turn." }),
    call_id: Schema.String.annotateKey({ description: "Names the call." }),
    tool: Schema.String.annotateKey({ description: "The action, for display." }),
    status: Schema.Literals(["pending", "running", "completed", "error"]).annotateKey({ description: "Where the call is." }),
    error: Schema.optionalKey(Schema.String).annotateKey({ description: "Why it failed, for people." }),
    parent_call_id: Schema.optionalKey(Schema.String).annotateKey({
      description: "The call that started the sub-agent whose call it is; left out for calls of the agent itself."
    }),
    kind: Schema.optionalKey(Schema.Literal("mcp")).annotateKey({ description: "`mcp`: a tool of an MCP server." }),
    detail: Schema.optionalKey(Detail).annotateKey({ description: "Its command, files and output; left out if the operator disabled it." })
  }),
  durable("plan.updated", {
    part_id: Schema.String.annotateKey({ description: "Events of one part replace each other: a turn has one plan." }),
    entries: Schema.Array(PlanEntry).annotateKey({ description: "The steps in order, at most 100; empty: the agent dropped its plan." })
  }),
  durable("approval.requested", ApprovalRequest.fields),
  durable("approval.resolved", {
    approval_id: Schema.String.annotateKey({ description: "The request that is resolved." }),
    outcome: ApprovalOutcome.annotateKey({ description: "The decision." }),
    by: ApprovalResolver.annotateKey({
      description: "`user`: a decision; `policy`: a decision for the turn; the others deny because no decision is possible any more."
    }),
    scope: Schema.optionalKey(ApprovalScope).annotateKey({
      description: "`turn`: until the turn ends, `policy` approves other requests of the same `kind`. Left out: only this request."
    }),
    reason: Schema.optionalKey(Schema.String).annotateKey({
      description: "The person's reason for a denial, which the agent gets."
    })
  }),
  durable("question.asked", QuestionRequest.fields),
  durable("question.answered", {
    question_id: Schema.String.annotateKey({ description: "The request that is over." }),
    by: QuestionResolver.annotateKey({
      description: "`user`: a person answered, or dismissed it; the others: no person did, because an answer is no longer possible."
    }),
    answers: Schema.optionalKey(Answers).annotateKey({
      description: "The person's answers by the `id` of their question; left out: the agent was told that there is no answer."
    })
  }),
  durable("pull_request.updated", {
    repo: Schema.String.annotateKey({ description: "`owner/name`." }),
    action_state: ActionState.annotateKey({ description: "How publishing stands." }),
    number: Schema.optionalKey(Counter).annotateKey({ description: "Its number in the repository." }),
    url: Schema.optionalKey(Schema.String).annotateKey({ description: "Its page, for people." }),
    state: Schema.optionalKey(Schema.Literals(["open", "closed"])).annotateKey({
      description: "Merged: `closed` with `merged: true`."
    }),
    draft: Schema.optionalKey(Schema.Boolean).annotateKey({ description: "Whether it is a draft." }),
    merged: Schema.optionalKey(Schema.Boolean).annotateKey({ description: "Whether it was merged." }),
    head_ref: Schema.optionalKey(Schema.String).annotateKey({ description: "The branch that was pushed." }),
    head_sha: Schema.optionalKey(Schema.String).annotateKey({ description: "The commit that was pushed." }),
    merges: Schema.optionalKey(Merges).annotateKey({
      description: "The merges of the pushed commit, after an earlier pull request was merged or closed; else left out."
    }),
    submodules: Schema.optionalKey(Schema.Array(Schema.String)).annotateKey({
      description: "Folders of submodules with work that is not published: their files differ from their commit, or the commit does not " +
        "exist where they come from. At most 32."
    }),
    lfs_left_out: Schema.optionalKey(Schema.Array(Schema.String)).annotateKey({
      description:
        "Changed files that are not published: the repository gives them to Git LFS, whose server does not take their contents. " +
        "At most 32."
    }),
    lfs_reason: Schema.optionalKey(Schema.String).annotateKey({
      description: "Why they are not published, for people; if the reasons differ, one of them. At most 500 characters."
    }),
    left_out: Schema.optionalKey(Schema.Array(Schema.String)).annotateKey({
      description: "Labels and reviewers of the repository's settings that the source host did not take. At most 35."
    }),
    pull_request: Schema.optionalKey(PullRequest).annotateKey({
      description: "As the source host had it then; left out while one is published, and where publishing failed."
    }),
    error: Schema.optionalKey(PublicationTrouble).annotateKey({ description: "Why publishing failed." })
  }),
  durable("feedback.received", {
    repo: Schema.String.annotateKey({ description: "`owner/name`." }),
    kind: FeedbackKind.annotateKey({ description: "What it is of: a review, comments, or only failing checks." }),
    url: Schema.String.annotateKey({ description: "The newest of it, or the pull request, for people." }),
    authors: Schema.Array(Schema.String).annotateKey({ description: "Logins of who wrote it, at most 20." }),
    count: Counter.annotateKey({ description: "Comments, reviews and commits with failing checks." }),
    items: Schema.Array(Schema.String).annotateKey({ description: "Their ids at the source host. Each is delivered once." }),
    until: timestamp("Time of the newest of them."),
    round: Counter.annotateKey({ description: "Rounds since the last word of a person, with this one; 0: it is a person's word." }),
    sandbox_id: Schema.optionalKey(SandboxId).annotateKey({
      description: "The new sandbox that goes on with it; left out if this one does, by the turn `turn_id`."
    })
  }),
  durable("feedback.replied", {
    repo: Schema.String.annotateKey({ description: "`owner/name`." }),
    url: Schema.optionalKey(Schema.String).annotateKey({ description: "The reply on the pull request; left out where it failed." })
  }),
  durable("feedback.paused", {
    repo: Schema.String.annotateKey({ description: "`owner/name`." }),
    rounds: Counter.annotateKey({ description: "Rounds since the last word of a person." }),
    reason: Schema.optionalKey(Schema.String).annotateKey({
      description: "Why no new sandbox goes on with the pull request of this finished one, for people; left out after the last round."
    })
  }),
  durable("feedback.resumed", {
    author: Author.annotateKey({ description: "Who wants more rounds." })
  }),
  durable("usage.updated", {
    usage: Usage.annotateKey({ description: "Totals of the sandbox." }),
    tokens: Schema.optionalKey(TokenCounts).annotateKey({
      description: "Totals of the sandbox in tokens; left out if they are not counted."
    })
  })
]).annotate({ identifier: "SandboxEvent" })
export type SandboxEvent = typeof SandboxEvent.Type
/** An event as it is stored in the log. `seq` starts at 1 and rises by one within the sandbox; the wire calls it `id`. */
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
/** An event as readers get it. */
export type WireEvent = typeof Envelope.Encoded & typeof SandboxEvent.Encoded
const encodeEnvelope = Schema.encodeSync(Envelope)
const encodeEvent = Schema.encodeSync(SandboxEvent)
const decodeEnvelope = Schema.decodeUnknownSync(Envelope)
const decodeEvent = Schema.decodeUnknownSync(SandboxEvent)

/** The event's JSON on the wire. It is encoded once, when it is recorded; the log and every reader share these bytes. */
export const toWire = (sandboxId: SandboxId, { at, event, seq }: RecordedEvent): string => {
  const head = encodeEnvelope({ object: "sandbox.event", version: "v1", id: String(seq), ts: at, sandbox_id: sandboxId })
  const { data, turn_id, type } = encodeEvent(event)
  return JSON.stringify({ ...head, type, data, turn_id })
}

/** Decodes the text of {@link toWire}. Throws for any other text: the log has only our own, so that is a defect. */
export const fromWire = (wire: string): RecordedEvent => {
  const json: unknown = JSON.parse(wire)
  const { id, ts } = decodeEnvelope(json)
  return { seq: Number(id), at: ts, event: decodeEvent(json) }
}
