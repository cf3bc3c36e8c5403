/**
 * The data on the wire, as in docs/interface.md, whose sections are named. Timestamps are UTC with three fraction digits,
 * `2026-11-21T02:41:00.123Z`. Values, such as types of events, may be added over time: ignore unknown ones.
 */

// Sandboxes -----------------------------------------------------------------------------------------------------

/** The status of a sandbox (section 3). `succeeded`, `failed` and `terminated` are its ends. */
export type SandboxStatus = "queued" | "creating" | "running" | "succeeded" | "failed" | "terminating" | "terminated"

/** Section 2.2. */
export interface RepoRef {
  /** `owner/name`, in any case. */
  readonly fullName: string
  /** The branch, tag or full commit id to start from. Absent: the default branch. */
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

/** The tokens of the usage; section 6. */
export interface TokenCounts {
  readonly input: number
  /** The part of `input` that the provider had in its cache. */
  readonly cachedInput: number
  /** Includes reasoning. */
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
  /** Active: a turn is pending, running or waiting for an approval or an answer. */
  readonly turn: { readonly active: boolean }
  readonly usage: Usage
  readonly metadata: { readonly [key: string]: string }
  /** Why it failed, as a sentence for people; otherwise `null`. */
  readonly error: string | null
  readonly createdAt: string
  /** The first time that it ran. */
  readonly startedAt: string | null
  /** The first time that it ended. */
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
  /** The `nextCursor` of the previous page. */
  readonly after?: string
  /** 1 to 100; default 100. */
  readonly limit?: number
  readonly status?: SandboxStatus
  /** Sandboxes with this repository, in any case. */
  readonly repo?: string
}

/** Section 4.2. */
export interface NewSandbox {
  /** 1 to 16 different repositories; case is ignored. */
  readonly repos: ReadonlyArray<RepoRef>
  /** 1 to 60000 characters. */
  readonly prompt: string
  /** Uploaded files for the prompt: at most 10. */
  readonly files?: ReadonlyArray<{ readonly id: string }>
  /** Absent: the catalogue's default. */
  readonly model?: string
  readonly reasoningEffort?: "none" | "low" | "medium" | "high" | "xhigh" | "max" | "ultra" | "ultracode"
  /** Absent: the prompt's first line. */
  readonly title?: string
  /** `prompt`: the agent asks before every edit and command. Default `auto`: it never asks. */
  readonly toolApprovalMode?: "auto" | "prompt"
  /** At most 16 pairs. */
  readonly metadata?: { readonly [key: string]: string }
  /** The feedback on its pull requests that becomes messages of the sandbox. Absent: as set for the repository, else no feedback. */
  readonly feedback?: Partial<FeedbackPolicy>
  /**
   * An open pull request, or a branch, to start from and to publish to: exactly one of the two. Its repository is one of `repos`, without
   * `ref`; with one repository `repo` may be left out.
   */
  readonly continue?: { readonly repo?: string; readonly pullRequest?: number; readonly branch?: string }
  /** The limit of its model costs in micro-USD, at least 1 and at most the operator's limit. Absent: the operator's limit alone. */
  readonly budgetMicroUsd?: number
  /**
   * Variables for setup and the agent, by name: at most 50, of 32 KiB together. They are not secret: the agent and everybody who sees the
   * sandbox can read them.
   */
  readonly environment?: { readonly [name: string]: string }
  /** Names of MCP servers of its repositories, at most 20. Absent: those that are on by default. */
  readonly mcpServers?: ReadonlyArray<string>
}

/** How a sandbox handles feedback on its pull requests. */
export interface FeedbackPolicy {
  /** Reviews and comments of people who may write to the repository: none, those with `@slipway`, or all. Default `off`. */
  readonly comments: "off" | "mention" | "all"
  /** `failing`: failing checks, once all checks of the commit are done. Default `off`. */
  readonly checks: "off" | "failing"
  /** Rounds without a word of a person, after which feedback is paused: 1 to 20. Default 3. */
  readonly rounds: number
  /** Whether the changes of a round are published. Default `true`. */
  readonly publish: boolean
}

/** The changes that a person wants: `text`, `comments` or `checks`. */
export interface ChangeRequest {
  /** May be left out with one repository. */
  readonly repo?: string
  readonly text?: string
  /** At most 100. */
  readonly comments?: ReadonlyArray<{
    readonly path: string
    /** Absent: all of the file. */
    readonly line?: number
    readonly text: string
  }>
  /** `true`: the agent gets the failing checks. */
  readonly checks?: boolean
}

/** A fork of a sandbox. Absent fields are taken from the original. */
export interface Fork {
  /** 1 to 60000 characters. */
  readonly prompt: string
  /** Uploaded files for the prompt: at most 10. Those of the original stay. */
  readonly files?: ReadonlyArray<{ readonly id: string }>
  /** A model of another runtime gets the messages so far as text. */
  readonly model?: string
  /** Absent: the original's effort, if the model has it. */
  readonly reasoningEffort?: NonNullable<NewSandbox["reasoningEffort"]>
  /** Absent: the prompt's first line. */
  readonly title?: string
  readonly toolApprovalMode?: "auto" | "prompt"
  /** At most 16 pairs. Absent: none. */
  readonly metadata?: { readonly [key: string]: string }
  /** The checkpoint that its trees start as. Absent: the newest. */
  readonly checkpoint?: number
}

/** Section 2.4. */
export interface CommandResult {
  /** Equal commands have equal ids. */
  readonly commandId: string
  /** The revision of the sandbox after the command. A rejected command does not change it. */
  readonly revision: number
  /** `applied`: this request did it; `duplicate`: an equal one had done it; `rejected`: not allowed now. */
  readonly outcome: "applied" | "duplicate" | "rejected"
  /** Present exactly if the outcome is `rejected`. */
  readonly rejection?:
    | "sandbox_terminal"
    | "no_active_turn"
    | "approval_expired"
    | "approval_already_resolved"
    | "question_expired"
    | "question_already_answered"
    | "turn_active"
    | "restore_active"
}

/** Options of an approval. */
export interface ApproveOptions {
  /** `turn`: also approves waiting and later calls of the same kind in this turn. Absent: only this tool call. */
  readonly scope?: "turn"
}

/** Options of a denial. */
export interface DenyOptions {
  /** The reason for the agent: 1 to 2000 characters. */
  readonly reason?: string
}

/** One body for both decisions; the server checks which options belong to which. */
export interface ApprovalDecision extends ApproveOptions, DenyOptions {
  readonly decision: "approve" | "deny"
}

/** Answers to one question: labels of its options, a text, or both. */
export interface QuestionAnswer {
  /** One label, or several if the question is `multiple`. */
  readonly labels?: ReadonlyArray<string>
  /** 1 to 10,000 characters, if the question allows a text. */
  readonly text?: string
}

/** The body of `answerQuestion`: exactly one of the two. */
export interface QuestionReply {
  /** By the `id` of the question. A question without an entry counts as not answered. */
  readonly answers?: { readonly [id: string]: QuestionAnswer }
  /** The agent goes on without an answer. */
  readonly dismiss?: true
}

// Messages ------------------------------------------------------------------------------------------------------

/** The body of `sendMessage`. */
export interface NewMessage {
  /** 1 to 60,000 characters. */
  readonly prompt: string
  /**
   * The treatment while a turn is active: `reject` (default), `queue` for a turn of its own after waiting messages, or `steer`: the
   * agent gets it as soon as it can take it.
   */
  readonly whenBusy?: "reject" | "queue" | "steer"
  /** Uploaded files: at most 10. */
  readonly files?: ReadonlyArray<{ readonly id: string }>
}

/** A file of a prompt. The agent finds it in `files` of its home. */
export interface AttachedFile {
  readonly id: string
  /** Without a folder. */
  readonly name: string
  /** `image/png`, `image/jpeg`, `image/gif` or `image/webp` if its bytes are such an image; else what the upload said. */
  readonly mediaType: string
  /** Bytes. */
  readonly size: number
}

/** An uploaded file. */
export interface PromptFile extends AttachedFile {
  readonly object: "file"
  /** In hex. */
  readonly sha256: string
  readonly createdAt: string
  /** The time of its deletion unless a prompt uses it before; `null`: it is kept for as long as the events of its sandbox. */
  readonly expiresAt: string | null
}

/** The name and type of an upload. */
export interface UploadOptions {
  /** Absent: the name of a `File`, else `file`. */
  readonly name?: string
  /** Absent: the type of a `Blob`. The bytes decide whether it is an image. */
  readonly mediaType?: string
}

/** The answer to `sendMessage`. */
export interface MessageResult extends CommandResult {
  /** The turn that the message starts or waits for. It is also the message's id. */
  readonly turnId: string
}

/** The answer to a request for changes. */
export interface ChangesRequested extends MessageResult {
  /** The sandbox that has the message: a new one if the asked one has finished. */
  readonly sandboxId: string
}

/** A prompt, or a complete text of the agent. */
export interface Message {
  readonly id: string
  readonly turnId: string
  readonly role: "user" | "assistant"
  readonly text: string
  /** The files of a prompt; else empty. */
  readonly files: ReadonlyArray<AttachedFile>
  /** The time when it was complete. */
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

/** A stored state from which a sandbox continues after its machine is lost. */
export interface Checkpoint {
  /** Counts from 1 within the sandbox. */
  readonly checkpoint: number
  /** The newest turn that had ended; `null`: none. */
  readonly turnId: string | null
  readonly createdAt: string
  /** Stored bytes. */
  readonly bytes: number
  /** The commit of each repository's tree. */
  readonly repos: ReadonlyArray<{ readonly repo: string; readonly sha: string }>
}

/** A page of `listCheckpoints`. */
export interface CheckpointPage {
  /** Oldest first. */
  readonly data: ReadonlyArray<Checkpoint>
  /** The `after` of the next page; `null` on the last page. */
  readonly nextCursor: string | null
}

/** A file that an agent left for people. */
export interface Artifact {
  /** Its path below the folder, with `/` between names. Written by the agent: do not use it as a path without a check. */
  readonly name: string
  /** By its first bytes: an image, a video or `text/plain`; everything else is `application/octet-stream`. */
  readonly mediaType: string
  readonly size: number
  /** In hex. */
  readonly sha256: string
  /** The turn at whose end these bytes were stored. */
  readonly turnId: string | null
  readonly createdAt: string
}

/** The artifacts of a sandbox: at most 50. */
export interface ArtifactList {
  /** By name. */
  readonly data: ReadonlyArray<Artifact>
  /** Why files of the last turn were not stored; `null`: all were. */
  readonly leftOut: string | null
}

/** The state of a sandbox's setup. */
export interface Setup {
  /** `none`: no repository of the sandbox has a setup, it has not begun, or its record was deleted. */
  readonly state: "none" | "running" | "succeeded" | "failed"
  readonly startedAt: string | null
  /** `null` while it runs. */
  readonly ms: number | null
  /** Whether its cache existed. */
  readonly cache: "hit" | "miss" | "none"
  /** The exit code of the failed command, otherwise 0; `null`: no command has exited, or a signal or a timeout ended it. */
  readonly exitCode: number | null
  /** The last MiB of the commands' output. */
  readonly output: string
}

/** A page of numbered items: messages, checkpoints, events of a sandbox, partner events. */
export interface PageQuery {
  /** The `nextCursor` of the previous page, or the id of the last event that was read. Absent: from the beginning. */
  readonly after?: number | string
  /** 1 to 100; default 100. */
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
  /** Digits: the cursor after this event. */
  readonly id: string
  /** Absent outside a turn. */
  readonly turn_id?: string
}

/** The cause of a change: a person's command, a time limit, the agent or its host, or the service itself. */
export type Initiator = "user" | "policy" | "provider" | "system"

/** The last four are final. */
export type TurnState =
  | "pending"
  | "running"
  | "awaiting_approval"
  | "awaiting_answer"
  | "succeeded"
  | "failed"
  | "interrupted"
  | "cancelled"

/** A waiting message. */
export interface QueuedMessage {
  /** Also the id of its turn. */
  readonly message_id: string
  /** From 1. */
  readonly position: number
  readonly text: string
  readonly author: { readonly id: string }
  /** The agent of the active turn gets it at once. */
  readonly steers: boolean
  /** Absent: none. */
  readonly files?: ReadonlyArray<AttachedFile>
}

/** A tool call that waits for a person. */
export interface ApprovalRequest {
  readonly approval_id: string
  /** The title of the tool call. */
  readonly tool: string
  readonly kind?: "edit" | "command" | "network" | "mcp" | "other"
  readonly paths?: ReadonlyArray<string>
  /** The edit deletes nothing and changes only plain, unprotected files of the trees, so it can be approved for the rest of the turn. */
  readonly plain?: true
  /** The effect of an approval. Only a diff may be cut. `cwd`: the folder of the command, if it is not the workspace. */
  readonly preview?: {
    readonly command?: string
    readonly cwd?: string
    readonly diff?: string
    readonly url?: string
    /** An MCP server, its tool, and the complete arguments as JSON. */
    readonly server?: string
    readonly tool?: string
    readonly arguments?: string
  }
  /** The approval counts as denied from then on. */
  readonly expires_at: string
}

/** A question of an agent. */
export interface Question {
  /** Within its request. */
  readonly id: string
  readonly text: string
  readonly header?: string
  /** Empty: only a text answers it. */
  readonly options: ReadonlyArray<{ readonly label: string; readonly description?: string }>
  readonly multiple: boolean
  readonly allows_text: boolean
}

/** Questions that wait for a person. */
export interface QuestionRequest {
  readonly question_id: string
  readonly questions: ReadonlyArray<Question>
  /** The agent goes on without an answer from then on. */
  readonly expires_at: string
}

/** A stored event, which can be read again. Identified by `type`. */
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
    /** The finished stage. `setup` can come later too, after trees were restored. */
    readonly stage: "provision" | "clone" | "setup" | "mcp" | "agent_start" | "ready"
    readonly ms: number
    readonly repo?: string
    /** With `mcp`: the MCP server that was looked at. */
    readonly server?: string
    /** With `clone`: folders of submodules that are empty. */
    readonly submodules?: ReadonlyArray<string>
    /** The same with the reason of each; absent from earlier servers. */
    readonly empty_submodules?: ReadonlyArray<{ readonly path: string; readonly reason: string }>
    /** With `clone`: files of which the tree has only the pointers of Git LFS. */
    readonly lfs_pointers?: number
    /** With `clone`: some of these files with the reason of each; left out by earlier versions. */
    readonly lfs_missing?: ReadonlyArray<{ readonly path: string; readonly reason: string }>
    /** With `setup`: whether its cache existed. */
    readonly cache?: "hit" | "miss" | "none"
    /** With `setup`: keys of the repository's file without effect. */
    readonly ignored?: ReadonlyArray<string>
    /** With `setup`: destinations that the repository asks for and that are not allowed, as `name:port`. */
    readonly egress_refused?: ReadonlyArray<string>
    /** With `setup`: the image that the repository asks for, if the sandbox has another one. */
    readonly image_refused?: string
    /** With `setup`: why it ran without the secrets in the repository's file, for people. */
    readonly secrets_withheld?: string
    /** With `setup`: why it failed, for people. */
    readonly error?: string
  }>
  /** The repositories' setups begin, in a boot or after trees were restored. */
  | Durable<"setup.started", {
    /** The time limit of all setups together, in milliseconds. */
    readonly limit_ms: number
  }>
  /** The sandbox started with the trees of another sandbox's checkpoint. */
  | Durable<"sandbox.forked", { readonly sandbox_id: string; readonly checkpoint: number }>
  | Durable<"sandbox.continued", {
    readonly repo: string
    /** The branch that it continues and publishes to. */
    readonly branch: string
    /** Its open pull request. */
    readonly pull_request?: number
    /** The finished sandbox that it continues by itself. */
    readonly sandbox_id?: string
  }>
  | Durable<"sandbox.syncing", { readonly repos: ReadonlyArray<string> }>
  | Durable<"sandbox.synced", {
    /** Branches that the agent's git has as `origin/…`. */
    readonly branches: ReadonlyArray<{ readonly repo: string; readonly branch: string; readonly sha: string }>
    /** Why some or all could not be had, for people. */
    readonly error?: string
  }>
  | Durable<"sandbox.checkpoint", {
    /** From 1; absent if the checkpoint failed. */
    readonly checkpoint?: number
    /** The newest turn that had ended. */
    readonly turn_id?: string
    readonly bytes?: number
    readonly ms?: number
    readonly repos?: ReadonlyArray<{ readonly repo: string; readonly sha: string }>
    /** Why it failed, for people. */
    readonly error?: string
  }>
  | Durable<"sandbox.restoring", { readonly checkpoint: number }>
  | Durable<"sandbox.restored", {
    /** Absent if no checkpoint could be restored. */
    readonly checkpoint?: number
    readonly cause: "machine_lost" | "machine_drained" | "command" | "fork"
    /** The turn whose changes were lost with its machine. */
    readonly lost_turn?: string
    /** Checkpoints that could not be read, newest first. */
    readonly damaged?: ReadonlyArray<number>
    /** Why the restore failed, for people. Trees and conversation have not changed. */
    readonly error?: string
  }>
  | Durable<"sandbox.renamed", { readonly title: string }>
  | Durable<"feedback.received", {
    readonly repo: string
    readonly kind: "review" | "comment" | "checks"
    /** The newest of it, or the pull request, for people. */
    readonly url: string
    /** Logins, at most 20. */
    readonly authors: ReadonlyArray<string>
    readonly count: number
    /** Ids at the source host. Each is delivered once. */
    readonly items: ReadonlyArray<string>
    readonly until: string
    /** Rounds since the last word of a person, with this one; 0: it is a person's word. */
    readonly round: number
    /** The new sandbox that goes on with it. Absent: this one does. */
    readonly sandbox_id?: string
  }>
  | Durable<"feedback.replied", {
    readonly repo: string
    /** Absent: the reply failed. */
    readonly url?: string
  }>
  | Durable<"feedback.paused", { readonly repo: string; readonly rounds: number; readonly reason?: string }>
  | Durable<"feedback.resumed", { readonly author: { readonly id: string } }>
  | Durable<"sandbox.error", { readonly code: string; readonly message: string; readonly retryable: boolean }>
  | Durable<"turn.started", {
    readonly prompt_id: string
    readonly text: string
    readonly files: ReadonlyArray<AttachedFile>
    readonly author: { readonly id: string }
  }>
  | Durable<"turn.updated", {
    readonly state: TurnState
    readonly previous: TurnState | null
    readonly text?: string
    readonly author?: { readonly id: string }
    readonly files?: ReadonlyArray<AttachedFile>
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
    /** The id of a turn that will not exist. */
    readonly message_id: string
    readonly text: string
    readonly author: { readonly id: string }
    readonly files?: ReadonlyArray<AttachedFile>
  }>
  | Durable<"message.cancelled", {
    readonly message_id: string
    readonly reason: "command" | "sandbox_ended" | "output_limit" | "budget_exceeded" | "no_credits"
  }>
  | Durable<"message.updated", {
    /** Events of one part replace each other. */
    readonly part_id: string
    readonly message_id: string
    /** `reasoning`: a thought of the model; `text`: its answer. */
    readonly kind: "text" | "reasoning"
    /** The whole part so far. */
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
    /** The call that started the sub-agent whose call it is. Absent: a call of the agent itself. */
    readonly parent_call_id?: string
    /** A tool of an MCP server. */
    readonly kind?: "mcp"
    readonly detail?: {
      readonly command?: string
      readonly paths?: ReadonlyArray<string>
      readonly output?: string
      /** An MCP server, its tool, and its arguments as JSON. */
      readonly server?: string
      readonly tool?: string
      readonly arguments?: string
    }
  }>
  | Durable<"plan.updated", {
    readonly part_id: string
    /** The whole plan of the turn, at most 100 steps; it replaces the one before. Empty: the agent dropped it. */
    readonly entries: ReadonlyArray<{ readonly text: string; readonly status: "pending" | "in_progress" | "completed" }>
  }>
  | Durable<"approval.requested", ApprovalRequest>
  | Durable<"approval.resolved", {
    readonly approval_id: string
    readonly outcome: "approved" | "denied"
    /**
     * `user`: a decision; `policy`: an earlier decision for the rest of the turn; the others deny, because a decision is no longer
     * possible.
     */
    readonly by: "user" | "policy" | "timeout" | "interrupt" | "terminate" | "turn_end"
    /** Other calls that the decision approves; absent: none. */
    readonly scope?: "turn"
    /** The person's reason for the denial. */
    readonly reason?: string
  }>
  | Durable<"question.asked", QuestionRequest>
  | Durable<"question.answered", {
    readonly question_id: string
    /** `user`: a person answered or dismissed it; the others: no person did. */
    readonly by: "user" | "timeout" | "interrupt" | "terminate" | "turn_end"
    /** Absent: there is no answer. */
    readonly answers?: { readonly [id: string]: QuestionAnswer }
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
    /** How the pushed commit was made from the files, after an earlier pull request was merged or closed. */
    readonly merges?: ReadonlyArray<{
      readonly onto: string
      /** `null`: the commit the sandbox started from. */
      readonly ancestor: string | null
    }>
    /** Folders of submodules with work that is not published. */
    readonly submodules?: ReadonlyArray<string>
    /** Changed files that are not published: Git LFS is to store them, and does not take their contents. */
    readonly lfs_left_out?: ReadonlyArray<string>
    /** Why they are not published, for people; if the reasons differ, one of them. */
    readonly lfs_reason?: string
    /** Labels and reviewers of the repository's settings that the source host did not take. */
    readonly left_out?: ReadonlyArray<string>
    /** As the source host had it then; absent while it is published, after a failure, and from servers that do not send it. */
    readonly pull_request?: PullRequest
    readonly error?: { readonly code: string; readonly message: string; readonly retry_after?: number }
  }>
  | Durable<"usage.updated", {
    readonly usage: Usage
    /** Totals too; absent if they were not counted, and from servers that do not send them. */
    readonly tokens?: TokenCounts
  }>

/** A sandbox at one moment. */
export interface Snapshot {
  readonly sandbox: Sandbox
  /** The newest turn; `null` before the first. */
  readonly turn: { readonly id: string; readonly state: TurnState } | null
  /** Totals, as in `usage.updated`. */
  readonly tokens: TokenCounts
  readonly resume_cursor: string
  readonly pending_approvals: ReadonlyArray<ApprovalRequest>
  readonly pending_questions: ReadonlyArray<QuestionRequest>
  /** Waiting messages, in the order of their turns. */
  readonly waiting_messages: ReadonlyArray<QueuedMessage>
}

/** Only in streams; not in the log. */
export type TransientEvent =
  /** The first frame of a stream without a cursor. */
  | Envelope<"snapshot", Snapshot>
  /** The status, after the stream has caught up with the log. */
  | Envelope<"sandbox.status", { readonly status: SandboxStatus }>
  /** The connection ends here; the client resumes automatically. */
  | Envelope<"stream.resync", { readonly reason: "shutdown" | "slow_reader"; readonly resume_cursor: string }>

/** An event of a stream, identified by `type`. */
export type StreamEvent = SandboxEvent | TransientEvent

/** A page of `listEvents`. An empty page is the present end. */
export interface EventPage {
  /** In the order of the log. */
  readonly data: ReadonlyArray<SandboxEvent>
  /** The id of the last event, or `after` for an empty page. */
  readonly nextCursor: string
}

// Files ---------------------------------------------------------------------------------------------------------

/** A repository of the sandbox. Optional if there is only one. */
export interface RepoQuery {
  readonly repo?: string
}

/** The changes to publish. */
export interface PublishRequest extends RepoQuery {
  /** Whether the pull request then becomes ready for review, also where there is nothing new to publish. Default `false`. */
  readonly ready?: boolean
}

/** Two versions of a tree: `base` is as the sandbox found it, `working` is the present tree, a number is a checkpoint. */
export interface DiffQuery extends RepoQuery {
  /** Default `base`. */
  readonly from?: "base" | "working" | number
  /** Default `working`. */
  readonly to?: "base" | "working" | number
  /** A file or a folder; absent: the whole tree. */
  readonly path?: string
}

/** The folder to list. */
export interface DirectoryQuery extends RepoQuery {
  /** Absent: the root. */
  readonly directory?: string
}

/** Compared with the commit that the sandbox started from. */
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
  /** Bytes; `null` except for plain, unprotected files. */
  readonly size: number | null
  /** Milliseconds since 1970; `null` if the file does not exist. */
  readonly mtimeMs: number | null
  readonly previousPath: string | null
}

/** Section 2.6. */
export interface FileTree {
  readonly directory: string
  readonly entries: ReadonlyArray<FileEntry>
  /** Why the listing is incomplete. */
  readonly partialWarnings: ReadonlyArray<"entries_truncated" | "unreadable_entries" | "invalid_names">
  /** `changed` is reserved. */
  readonly scope: "all" | "changed"
}

/** One side of a comparison of a file. */
export interface FileVersion {
  /** `null` when the file is binary. */
  readonly content: string | null
  readonly text: string | null
  /** The git blob id of these bytes. */
  readonly hash: string
  /** `working`, or the commit with this version. */
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
  /** The present version. */
  readonly working: FileVersion | null
  /** The last published version. */
  readonly head: FileVersion | null
  /** The version that the sandbox found. */
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
  /** A merged one is `closed` with `merged: true`. */
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

/** A comment on a pull request. `text`: the first 4,000 characters of a stranger's Markdown. */
export interface ReviewComment {
  readonly id: number
  readonly author: string
  /** The file of a comment on code; otherwise `null`. */
  readonly path: string | null
  /** The line when the comment was written, if the host knows it. */
  readonly line: number | null
  /** Whether the host says that the changes no longer have the line. */
  readonly outdated: boolean
  readonly text: string
  /** Whether the comment is longer: `url` has the rest. */
  readonly truncated: boolean
  readonly url: string
  readonly createdAt: string
  readonly updatedAt: string
}

/** A check of the newest commit, in the host's words. */
export interface ReviewCheck {
  readonly name: string
  readonly status: string
  /** `null` before it ended. */
  readonly conclusion: string | null
  readonly url: string
}

/** Comments with their texts, and checks, of a sandbox's pull request. */
export interface PullRequestReviews {
  readonly repository: string
  /** `null` before anything was published. */
  readonly pullRequest: {
    readonly number: number
    readonly url: string
    readonly title: string
    readonly state: "draft" | "open" | "merged" | "closed"
  } | null
  /** The newest 100, oldest first. */
  readonly comments: ReadonlyArray<ReviewComment>
  /** The number of all comments. */
  readonly commentCount: number
  readonly checks: {
    readonly state: PullRequestStatus["checks"]["state"]
    readonly label: string
    /** The first 200. */
    readonly data: ReadonlyArray<ReviewCheck>
    readonly count: number
  }
  readonly detailsPending: boolean
}

/** The sandbox's pull request, with its checks. */
export interface PullRequestStatus {
  /** `publishing`: the first publication is under way; `updating`: a later one; `failed`: the last one failed. */
  readonly actionState: "idle" | "publishing" | "updating" | "failed"
  /** The workflows and checks of the head commit. */
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
  /** `null` before the first publication. */
  readonly pullRequest: PullRequest | null
  readonly repository: string
  /** The source host is still computing some of it: ask again in a moment. */
  readonly detailsPending: boolean
}

// Partner events (sections 2.7 and 6.2) -------------------------------------------------------------------------

interface Told<T extends string, D> {
  /** The same in every delivery and every read. */
  readonly id: string
  /** From 1, without gaps, within the grant. */
  readonly sequence: number
  /** The time of recording. */
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
  /** The time of the fact, which may be long before its recording. */
  readonly occurredAt: string
}

/** Identified by `type`. */
export type PartnerEvent =
  | Told<"credit_claim.created", Claim & { readonly status: "pending"; readonly claimedAt: null }>
  | Told<"credit_claim.claimed", Claim & { readonly status: "claimed"; readonly claimedAt: string }>
  | Told<"project.connected", Attributed & { readonly projectId: string }>
  | Told<"task.started", Attributed & { readonly taskId: string; readonly projectId: string | null }>
  | Told<"pull_request.opened", Attributed & { readonly pullRequestId: string; readonly taskId: string; readonly projectId: string | null }>
  | Told<"conversion.paid", Attributed & { readonly conversionId: string }>

/** A page of the partner feed. An empty page is the present end. */
export interface PartnerPage {
  /** In ascending `sequence`. */
  readonly data: ReadonlyArray<PartnerEvent>
  /** The `sequence` of the last event, or `after` for an empty page. */
  readonly nextCursor: number
}
