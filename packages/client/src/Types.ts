/**
 * What goes over the wire, as docs/interface.md says it: its sections are named. Timestamps are UTC with three fraction
 * digits, `2026-11-21T02:41:00.123Z`. Values may be added over time, such as types of events: ignore what you do not know.
 */

// Sandboxes -----------------------------------------------------------------------------------------------------

/** Where a sandbox is in its life (section 3). It is finished as `succeeded`, `failed` or `terminated`. */
export type SandboxStatus = "queued" | "creating" | "running" | "succeeded" | "failed" | "terminating" | "terminated"

/** Section 2.2. */
export interface RepoRef {
  /** `owner/name`, in any case of letters. */
  readonly fullName: string
  /** Branch, tag or full commit id to start from. Left out: the default branch. */
  readonly ref?: string
}

/** Section 2.3. Eventually consistent. */
export interface Usage {
  readonly llmRequestCount: number
  /** Millionths of a US dollar. */
  readonly costMicroUsd: number
  /** Millionths of a credit. */
  readonly creditsChargedMicros: number
}

/** What usage is of, in tokens; section 6. */
export interface TokenCounts {
  readonly input: number
  /** Those of `input` that a provider had in its cache. */
  readonly cachedInput: number
  /** Reasoning included. */
  readonly output: number
}

/** Section 2.1. */
export interface Sandbox {
  readonly id: string
  readonly worktreeId: string
  readonly object: "sandbox"
  readonly status: SandboxStatus
  readonly title: string
  readonly repos: ReadonlyArray<RepoRef>
  /** The model's id in the catalogue. */
  readonly model: string | null
  readonly agentRuntime: "opencode" | "codex" | "claude" | "grok"
  /** Active: a turn is pending, running or waits for an approval. */
  readonly turn: { readonly active: boolean }
  readonly usage: Usage
  readonly metadata: { readonly [key: string]: string }
  /** Why it failed, a sentence for people; `null` unless it did. */
  readonly error: string | null
  readonly createdAt: string
  /** When it first ran. */
  readonly startedAt: string | null
  /** When it first was succeeded, failed or terminated. */
  readonly completedAt: string | null
  readonly links: { readonly self: string; readonly events: string; readonly messages: string }
}

/** A page of `listSandboxes`. */
export interface SandboxPage {
  /** Newest first. */
  readonly data: ReadonlyArray<Sandbox>
  /** The `after` of the next page; `null` on the last page. */
  readonly nextCursor: string | null
}

/** Section 4.1. */
export interface SandboxQuery {
  /** The `nextCursor` of the page before. */
  readonly after?: string
  /** 1 to 100; 100 when left out. */
  readonly limit?: number
  readonly status?: SandboxStatus
  /** Sandboxes that have this repository, in any case of letters. */
  readonly repo?: string
}

/** Section 4.2. */
export interface NewSandbox {
  /** 1 to 16, which differ in more than case. */
  readonly repos: ReadonlyArray<RepoRef>
  /** 1 to 60000 characters. */
  readonly prompt: string
  /** Left out: the catalogue's default. */
  readonly model?: string
  readonly reasoningEffort?: "none" | "low" | "medium" | "high" | "xhigh" | "max" | "ultra" | "ultracode"
  /** Left out: the prompt's first line. */
  readonly title?: string
  /** `prompt`: the agent asks before it edits or runs anything. Left out: `auto`, it never asks. */
  readonly toolApprovalMode?: "auto" | "prompt"
  /** At most 16 pairs. */
  readonly metadata?: { readonly [key: string]: string }
}

/** A fork of a sandbox. What is left out is as in that sandbox. */
export interface Fork {
  /** 1 to 60000 characters. */
  readonly prompt: string
  /** Also one of another runtime, which is told the messages so far. */
  readonly model?: string
  /** Left out: as in the sandbox, if the model has that. */
  readonly reasoningEffort?: NonNullable<NewSandbox["reasoningEffort"]>
  /** Left out: the prompt's first line. */
  readonly title?: string
  readonly toolApprovalMode?: "auto" | "prompt"
  /** At most 16 pairs. Left out: none. */
  readonly metadata?: { readonly [key: string]: string }
  /** What its trees start as. Left out: the newest one. */
  readonly checkpoint?: number
}

/** Section 2.4. */
export interface CommandResult {
  /** Equal commands have equal ids. */
  readonly commandId: string
  /** Of the sandbox after the command; unchanged by a rejected one. */
  readonly revision: number
  /** `applied`: this request did it; `duplicate`: an equal one did before; `rejected`: it is not legal now. */
  readonly outcome: "applied" | "duplicate" | "rejected"
  /** There if the outcome is `rejected`, and only then. */
  readonly rejection?:
    | "sandbox_terminal"
    | "no_active_turn"
    | "approval_expired"
    | "approval_already_resolved"
    | "turn_active"
    | "restore_active"
}

/** What goes with an approval. */
export interface ApproveOptions {
  /** `turn`: also what else of the same kind waits, or is asked for until the turn ends. Left out: this tool call alone. */
  readonly scope?: "turn"
}

/** What goes with a denial. */
export interface DenyOptions {
  /** Why, for the agent: 1 to 2000 characters. */
  readonly reason?: string
}

/** One body for both: which of them goes with which decision is the server's rule. */
export interface ApprovalDecision extends ApproveOptions, DenyOptions {
  readonly decision: "approve" | "deny"
}

// Messages ------------------------------------------------------------------------------------------------------

/** The body of `sendMessage`. */
export interface NewMessage {
  /** 1 to 60,000 characters. */
  readonly prompt: string
  /**
   * What becomes of it while a turn is active: `reject` (left out: that), `queue` for a turn of its own after those that wait, or
   * `steer`: the agent has it as soon as it can take it.
   */
  readonly whenBusy?: "reject" | "queue" | "steer"
}

/** The answer to `sendMessage`. */
export interface MessageResult extends CommandResult {
  /** The turn the message starts, or waits for. It names the message too. */
  readonly turnId: string
}

/** A prompt, or a whole text of the agent. */
export interface Message {
  readonly id: string
  readonly turnId: string
  readonly role: "user" | "assistant"
  readonly text: string
  /** When it was whole. */
  readonly createdAt: string
}

/** A page of `listMessages`. */
export interface MessagePage {
  /** Oldest first. */
  readonly data: ReadonlyArray<Message>
  /** The `after` of the next page; `null` on the last page. */
  readonly nextCursor: string | null
}

// Checkpoints ---------------------------------------------------------------------------------------------------

/** What a sandbox goes on from when its machine is gone. */
export interface Checkpoint {
  /** Counts from 1 within the sandbox. */
  readonly checkpoint: number
  /** The newest turn that had ended; `null`: there was none. */
  readonly turnId: string | null
  readonly createdAt: string
  /** How much is stored of it. */
  readonly bytes: number
  /** The commit of each repository's tree as it was. */
  readonly repos: ReadonlyArray<{ readonly repo: string; readonly sha: string }>
}

/** A page of `listCheckpoints`. */
export interface CheckpointPage {
  /** Oldest first. */
  readonly data: ReadonlyArray<Checkpoint>
  /** The `after` of the next page; `null` on the last page. */
  readonly nextCursor: string | null
}

/** How the setup of a sandbox stands. */
export interface Setup {
  /** `none`: no repository of the sandbox has one, it has not begun, or it is forgotten. */
  readonly state: "none" | "running" | "succeeded" | "failed"
  readonly startedAt: string | null
  /** `null` while it runs. */
  readonly ms: number | null
  /** Whether what it fills was there already. */
  readonly cache: "hit" | "miss" | "none"
  /** Of the command that failed, else 0; `null` while none has ended so, or where a signal or the time ended it. */
  readonly exitCode: number | null
  /** The last MiB of what its commands wrote. */
  readonly output: string
}

/** A page of what is numbered: messages, checkpoints, events of a sandbox, partner events. */
export interface PageQuery {
  /** The `nextCursor` of the page before, or the id of the last event that was read; the beginning when left out. */
  readonly after?: number | string
  /** 1 to 100; 100 when left out. */
  readonly limit?: number
}

// Events of a sandbox (section 6.1) -----------------------------------------------------------------------------

/** Section 2.4a. */
interface Envelope<T extends string, D> {
  readonly object: "sandbox.event"
  readonly version: "v1"
  readonly ts: string
  readonly sandbox_id: string
  readonly type: T
  readonly data: D
}

interface Durable<T extends string, D> extends Envelope<T, D> {
  /** Digits: the cursor that resumes after this event. */
  readonly id: string
  /** Left out outside of a turn. */
  readonly turn_id?: string
}

/** Who caused a change: a person's command, a time limit, the agent or its host, or the service itself. */
export type Initiator = "user" | "policy" | "provider" | "system"

/** The last four are final. */
export type TurnState = "pending" | "running" | "awaiting_approval" | "succeeded" | "failed" | "interrupted" | "cancelled"

/** A message that waits for its turn. */
export interface QueuedMessage {
  /** Equals the id of the turn that it gets. */
  readonly message_id: string
  /** Counts from 1. */
  readonly position: number
  readonly text: string
  readonly author: { readonly id: string }
  /** The agent of the active turn is to have it at once. */
  readonly steers: boolean
}

/** A tool call that waits for a person. */
export interface ApprovalRequest {
  readonly approval_id: string
  /** What the agent wants to do, for display. */
  readonly tool: string
  readonly kind?: "edit" | "command" | "network" | "other"
  readonly paths?: ReadonlyArray<string>
  /** The edit deletes nothing and changes plain, unprotected files of the trees alone: it can be approved for the rest of the turn. */
  readonly plain?: true
  /** What will happen if it is approved. Only a diff may be cut. `cwd`: the folder of the command, where it is not the workspace. */
  readonly preview?: { readonly command?: string; readonly cwd?: string; readonly diff?: string; readonly url?: string }
  /** Counts as denied from then on. */
  readonly expires_at: string
}

/** A durable event: it is in the log, and can be read again. Told apart by `type`. */
export type SandboxEvent =
  | Durable<"sandbox.status", {
    readonly status: SandboxStatus
    readonly previous: SandboxStatus | null
    readonly reason:
      | "queue_timeout"
      | "boot_timeout"
      | "boot_failed"
      | "clone_failed"
      | "repo_not_accessible"
      | "idle_timeout"
      | "last_turn_failed"
      | "agent_lost"
      | "host_lost"
      | "terminated"
      | "max_lifetime"
      | "grant_revoked"
      | "release_failed"
      | null
    readonly initiator: Initiator
  }>
  | Durable<"sandbox.boot", {
    /** The stage that is done. `setup` comes later too, where trees were made again. */
    readonly stage: "provision" | "clone" | "setup" | "agent_start" | "ready"
    readonly ms: number
    readonly repo?: string
    /** With `clone`: folders of submodules, which are left empty. */
    readonly submodules?: ReadonlyArray<string>
    /** With `setup`: whether what it fills was there already. */
    readonly cache?: "hit" | "miss" | "none"
    /** With `setup`: keys of the repository's file that do not count. */
    readonly ignored?: ReadonlyArray<string>
    /** With `setup`: what the repository would like to reach and may not, as `name:port`. */
    readonly egress_refused?: ReadonlyArray<string>
    /** With `setup`: the image that the repository asks for, where the sandbox has another one. */
    readonly image_refused?: string
    /** With `setup`: why it ran without the secrets that the repository's file names, for people. */
    readonly secrets_withheld?: string
    /** With `setup`: why it failed, for people. */
    readonly error?: string
  }>
  /** The repositories' setups begin: in a boot, or where trees were made again. */
  | Durable<"setup.started", {
    /** What they may take together, milliseconds. */
    readonly limit_ms: number
  }>
  /** The sandbox started with the trees of another one's checkpoint. */
  | Durable<"sandbox.forked", { readonly sandbox_id: string; readonly checkpoint: number }>
  | Durable<"sandbox.checkpoint", {
    /** Counts from 1; left out where it could not be taken. */
    readonly checkpoint?: number
    /** The newest turn that had ended. */
    readonly turn_id?: string
    readonly bytes?: number
    readonly ms?: number
    readonly repos?: ReadonlyArray<{ readonly repo: string; readonly sha: string }>
    /** Why it could not be taken, for people. */
    readonly error?: string
  }>
  | Durable<"sandbox.restoring", { readonly checkpoint: number }>
  | Durable<"sandbox.restored", {
    /** Left out where none could be restored. */
    readonly checkpoint?: number
    readonly cause: "machine_lost" | "machine_drained" | "command" | "fork"
    /** The turn whose changes are gone with its machine. */
    readonly lost_turn?: string
    /** Checkpoints that were tried first and could not be read, the newest first. */
    readonly damaged?: ReadonlyArray<number>
    /** Why nothing was restored, for people. Trees and conversation are as they were. */
    readonly error?: string
  }>
  | Durable<"sandbox.error", { readonly code: string; readonly message: string; readonly retryable: boolean }>
  | Durable<"turn.started", {
    readonly prompt_id: string
    readonly text: string
    readonly files: ReadonlyArray<never>
    readonly author: { readonly id: string }
  }>
  | Durable<"turn.updated", {
    readonly state: TurnState
    readonly previous: TurnState | null
    readonly text?: string
    readonly author?: { readonly id: string }
    readonly reason?: "interrupt"
    readonly initiator?: Initiator
  }>
  | Durable<"turn.completed", {
    readonly state: "succeeded" | "failed" | "interrupted" | "cancelled"
    /** A word, or a sentence for people. */
    readonly reason?: string
    readonly initiator?: Initiator
  }>
  | Durable<"message.queued", QueuedMessage>
  | Durable<"message.steered", {
    /** It gets no turn of its own. */
    readonly message_id: string
    readonly text: string
    readonly author: { readonly id: string }
  }>
  | Durable<"message.cancelled", {
    readonly message_id: string
    readonly reason: "command" | "sandbox_ended" | "output_limit" | "budget_exceeded" | "no_credits"
  }>
  | Durable<"message.updated", {
    /** Events of one part replace each other. */
    readonly part_id: string
    readonly message_id: string
    /** `reasoning` is what the model thinks, `text` what it says. */
    readonly kind: "text" | "reasoning"
    /** All of the part so far. */
    readonly text: string
  }>
  | Durable<"message.completed", {
    readonly message_id: string
    readonly finish: "end_turn" | "max_tokens" | "refusal" | "cancelled" | "error"
  }>
  | Durable<"tool.updated", {
    readonly part_id: string
    readonly message_id: string
    readonly call_id: string
    readonly tool: string
    readonly status: "pending" | "running" | "completed" | "error"
    readonly error?: string
    readonly detail?: { readonly command?: string; readonly paths?: ReadonlyArray<string>; readonly output?: string }
  }>
  | Durable<"approval.requested", ApprovalRequest>
  | Durable<"approval.resolved", {
    readonly approval_id: string
    readonly outcome: "approved" | "denied"
    /** `user`: a decision; `policy`: one made for the rest of the turn; the others deny because nobody can decide any more. */
    readonly by: "user" | "policy" | "timeout" | "interrupt" | "terminate" | "turn_end"
    /** What else of its kind is approved with it; left out: nothing. */
    readonly scope?: "turn"
    /** Why a person denied it. */
    readonly reason?: string
  }>
  | Durable<"pull_request.updated", {
    readonly repo: string
    readonly action_state: PullRequestStatus["actionState"]
    readonly number?: number
    readonly url?: string
    readonly state?: "open" | "closed"
    readonly draft?: boolean
    readonly merged?: boolean
    readonly head_ref?: string
    readonly head_sha?: string
    /** How what was pushed was made of the files, after an earlier pull request was merged or closed. */
    readonly merges?: ReadonlyArray<{
      readonly onto: string
      /** `null`: the commit the sandbox started from. */
      readonly ancestor: string | null
    }>
    /** Folders of submodules in which there are files: these are not published. */
    readonly submodules?: ReadonlyArray<string>
    readonly error?: { readonly code: string; readonly message: string; readonly retry_after?: number }
  }>
  | Durable<"usage.updated", {
    readonly usage: Usage
    /** Totals as well; left out where nobody counts them, and by servers that do not tell them. */
    readonly tokens?: TokenCounts
  }>

/** A sandbox at one moment. */
export interface Snapshot {
  readonly sandbox: Sandbox
  /** The newest turn; `null` before the first. */
  readonly turn: { readonly id: string; readonly state: TurnState } | null
  /** Totals, as `usage.updated` has them. */
  readonly tokens: TokenCounts
  readonly resume_cursor: string
  readonly pending_approvals: ReadonlyArray<ApprovalRequest>
  /** Messages that wait, in the order of their turns. */
  readonly waiting_messages: ReadonlyArray<QueuedMessage>
}

/** Only in streams; not in the log. */
export type TransientEvent =
  /** First frame of a stream without a cursor. */
  | Envelope<"snapshot", Snapshot>
  /** The status, once the stream has caught up with the log. */
  | Envelope<"sandbox.status", { readonly status: SandboxStatus }>
  /** The connection ends here; the client resumes by itself. */
  | Envelope<"stream.resync", { readonly reason: "shutdown" | "slow_reader"; readonly resume_cursor: string }>

/** What a stream brings, told apart by `type`. */
export type StreamEvent = SandboxEvent | TransientEvent

/** A page of `listEvents`. An empty page is the end for now. */
export interface EventPage {
  /** In the order they happened. */
  readonly data: ReadonlyArray<SandboxEvent>
  /** The id of the last event, or `after` when there was none. */
  readonly nextCursor: string
}

// Files ---------------------------------------------------------------------------------------------------------

/** Which of the sandbox's repositories; may be left out when there is one. */
export interface RepoQuery {
  readonly repo?: string
}

/** Two versions of a tree: `base` is as the sandbox found it, `working` as it is, a number a checkpoint. */
export interface DiffQuery extends RepoQuery {
  /** Left out: `base`. */
  readonly from?: "base" | "working" | number
  /** Left out: `working`. */
  readonly to?: "base" | "working" | number
  /** A file or a folder; left out: all of it. */
  readonly path?: string
}

/** The folder to list. */
export interface DirectoryQuery extends RepoQuery {
  /** Left out: the root. */
  readonly directory?: string
}

/** Compared with the commit the sandbox started from. */
export type FileStatus = "added" | "deleted" | "modified" | "renamed" | "untracked"

/** Section 2.6. */
export interface FileEntry {
  readonly name: string
  /** Relative to the repository. */
  readonly path: string
  readonly depth: number
  readonly kind: "file" | "directory" | "symlink" | "submodule"
  /** `null`: unchanged, or ignored by git. */
  readonly status: FileStatus | null
  readonly additions: number
  readonly deletions: number
  /** Bytes; `null` unless a regular file that is not protected. */
  readonly size: number | null
  /** Milliseconds since 1970; `null` when the file is not there. */
  readonly mtimeMs: number | null
  readonly previousPath: string | null
}

/** Section 2.6. */
export interface FileTree {
  readonly directory: string
  readonly entries: ReadonlyArray<FileEntry>
  /** What the listing leaves out, and why. */
  readonly partialWarnings: ReadonlyArray<"entries_truncated" | "unreadable_entries" | "invalid_names">
  /** `changed` is reserved. */
  readonly scope: "all" | "changed"
}

/** One side of a comparison of a file. */
export interface FileVersion {
  /** `null` when the file is binary. */
  readonly content: string | null
  readonly text: string | null
  /** The id git gives a blob of these bytes. */
  readonly hash: string
  /** `working`, or the commit that holds this version. */
  readonly ref: string
  readonly size: number
  readonly binary: boolean
}

/** One file as text (docs/decisions/8). */
export interface FileContent {
  readonly path: string
  readonly repo: string
  readonly status: FileStatus | null
  readonly binary: boolean
  readonly size: number | null
  readonly previousPath: string | null
  readonly editable: false
  readonly editReason: string
  /** As it is now. */
  readonly working: FileVersion | null
  /** As published last. */
  readonly head: FileVersion | null
  /** As the sandbox found it. */
  readonly base: FileVersion | null
  /** Reserved. */
  readonly reviewHead: FileVersion | null
}

// Pull requests (section 2.5) -----------------------------------------------------------------------------------

/** A pull request as the source host describes it. */
export interface PullRequest {
  readonly id: number
  readonly nodeId: string
  readonly number: number
  readonly url: string
  readonly title: string
  /** `closed` with `merged: true` is a merged one. */
  readonly state: "open" | "closed"
  readonly draft: boolean
  readonly merged: boolean
  readonly baseRef: string
  readonly headRef: string
  readonly headSha: string
  readonly createdAt: string
  readonly updatedAt: string
  readonly additions: number
  readonly deletions: number
  readonly changedFiles: number
}

/** `conclusion` and `status` are the source host's own words. */
export interface WorkflowRun {
  readonly id: number
  readonly name: string
  readonly conclusion?: string
  readonly createdAt: string
  readonly event: string
  readonly headBranch: string
  readonly headSha: string
  readonly runNumber: number
  readonly status: string
  readonly updatedAt: string
  readonly url: string
}

/** `conclusion` and `status` are the source host's own words. */
export interface CheckRun {
  readonly id: number
  readonly name: string
  readonly completedAt?: string
  readonly conclusion?: string
  readonly startedAt?: string
  readonly status: string
  readonly url: string
}

/** The sandbox's pull request, with its checks. */
export interface PullRequestStatus {
  /** `publishing`: the first publication is under way; `updating`: a later one; `failed`: the last one failed. */
  readonly actionState: "idle" | "publishing" | "updating" | "failed"
  /** What runs on the head commit. */
  readonly checks: {
    readonly label: string
    readonly runs: ReadonlyArray<WorkflowRun>
    readonly checkRuns: ReadonlyArray<CheckRun>
    readonly state: "idle" | "pending" | "success" | "failure" | "error"
    readonly error?: string
    readonly updatedAt?: string
  }
  /** Oldest first. */
  readonly comments: ReadonlyArray<{
    readonly id: number
    readonly title: string
    readonly author: string
    readonly authorAvatarUrl: string
    readonly createdAt: string
    readonly updatedAt: string
    readonly url: string
  }>
  /** `null` before anything was published. */
  readonly pullRequest: PullRequest | null
  readonly repository: string
  /** Some of it is not known yet: ask again in a moment. */
  readonly detailsPending: boolean
}

// Partner events (sections 2.7 and 6.2) -------------------------------------------------------------------------

interface Told<T extends string, D> {
  /** The same in every delivery and every reading. */
  readonly id: string
  /** From 1, without gaps, within the grant. */
  readonly sequence: number
  /** When it was recorded. */
  readonly createdAt: string
  readonly type: T
  readonly data: D
}

interface Lead {
  readonly claimId: string
  readonly leadId: string
  readonly variant: string
}

interface Claim extends Lead {
  readonly creditAmount: number
  readonly createdAt: string
}

interface Attributed extends Lead {
  /** When it happened, which may be long before it was recorded. */
  readonly occurredAt: string
}

/** Told apart by `type`. */
export type PartnerEvent =
  | Told<"credit_claim.created", Claim & { readonly status: "pending"; readonly claimedAt: null }>
  | Told<"credit_claim.claimed", Claim & { readonly status: "claimed"; readonly claimedAt: string }>
  | Told<"project.connected", Attributed & { readonly projectId: string }>
  | Told<"task.started", Attributed & { readonly taskId: string; readonly projectId: string | null }>
  | Told<"pull_request.opened", Attributed & { readonly pullRequestId: string; readonly taskId: string; readonly projectId: string | null }>
  | Told<"conversion.paid", Attributed & { readonly conversionId: string }>

/** A page of the partner feed. An empty page is the end for now. */
export interface PartnerPage {
  /** In ascending `sequence`. */
  readonly data: ReadonlyArray<PartnerEvent>
  /** The `sequence` of the last event, or `after` when there was none. */
  readonly nextCursor: number
}
