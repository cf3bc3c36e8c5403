/** An example of each schema of the public OpenAPI document, by its name. A test holds them against the schemas. */

const sandboxId = "c_k3v9p2m7x4qa"
const turnId = "0f8c9d0e-9d1b-5a3e-8c55-2f3d5b1c7a10"
const nextTurnId = "7d3e1f52-41a6-5c0b-9a94-6e0f7c2d8b31"
const messageId = "5b0c4a52-6a8e-4f0d-9d3f-0c7d1b1a2e34"
const at = "2026-11-21T02:41:03.004Z"
const sha = "9fceb02d0ae598e95dc970b74767f19372d61af8"

const file = { id: "file_k3v9p2m7x4qa", name: "design.png", mediaType: "image/png", size: 48_213 }

const usage = { llmRequestCount: 3, costMicroUsd: 41_250, creditsChargedMicros: 0 }
const tokens = { input: 12_345, cachedInput: 9_000, output: 678 }
const repo = { fullName: "acme/shop", ref: "main" }

const sandbox = {
  id: sandboxId,
  worktreeId: "w_k3v9p2m7x4qa",
  object: "sandbox",
  status: "queued",
  title: "Fix the flaky checkout test",
  repos: [repo],
  model: "offline/demo",
  agentRuntime: "opencode",
  turn: { active: false },
  usage: { llmRequestCount: 0, costMicroUsd: 0, creditsChargedMicros: 0 },
  metadata: { ticket: "SHOP-42" },
  error: null,
  createdAt: "2026-11-21T02:41:00.123Z",
  startedAt: null,
  completedAt: null,
  links: {
    self: `https://slipway.example/api/public/v1/sandboxes/${sandboxId}`,
    events: `https://slipway.example/api/public/v1/sandboxes/${sandboxId}/events`,
    messages: `https://slipway.example/api/public/v1/sandboxes/${sandboxId}/messages`
  }
}

let lastId = 0
const event = (type: string, data: object, inTurn = true) => ({
  object: "sandbox.event",
  version: "v1",
  id: String(++lastId),
  ts: at,
  sandbox_id: sandboxId,
  type,
  ...(inTurn ? { turn_id: turnId } : {}),
  data
})
const transient = (type: string, data: object) => ({ object: "sandbox.event", version: "v1", ts: at, sandbox_id: sandboxId, type, data })

const approval = {
  approval_id: "call_7",
  tool: "Edit src/checkout.test.ts",
  kind: "edit",
  paths: ["src/checkout.test.ts"],
  plain: true,
  expires_at: at
}

const question = {
  question_id: "turn_3:q1",
  questions: [{
    id: "1",
    text: "Which database should the tests use?",
    header: "Database",
    options: [{ label: "Postgres", description: "As in production." }, { label: "SQLite" }],
    multiple: false,
    allows_text: true
  }],
  expires_at: at
}

const queued = { message_id: nextTurnId, position: 1, text: "Then update the changelog.", author: { id: "user_1" }, steers: false }

const events = {
  SandboxStatusEvent: event("sandbox.status", { status: "running", previous: "creating", reason: null, initiator: "system" }, false),
  SandboxBootEvent: event("sandbox.boot", { stage: "clone", ms: 812, repo: "acme/shop" }, false),
  SetupStartedEvent: event("setup.started", { limit_ms: 600_000 }, false),
  SandboxForkedEvent: event("sandbox.forked", { sandbox_id: sandboxId, checkpoint: 3 }, false),
  SandboxContinuedEvent: event("sandbox.continued", { repo: "acme/shop", branch: "slipway/c_abcdefgh2345", pull_request: 12 }, false),
  SandboxSyncingEvent: event("sandbox.syncing", { repos: ["acme/shop"] }, false),
  SandboxSyncedEvent: event("sandbox.synced", { branches: [{ repo: "acme/shop", branch: "main", sha }] }, false),
  SandboxCheckpointEvent: event("sandbox.checkpoint", {
    checkpoint: 3,
    turn_id: turnId,
    bytes: 48_213,
    ms: 140,
    repos: [{ repo: "acme/shop", sha }]
  }, false),
  SandboxRestoringEvent: event("sandbox.restoring", { checkpoint: 2 }, false),
  SandboxRestoredEvent: event("sandbox.restored", { checkpoint: 3, cause: "machine_lost", lost_turn: turnId }, false),
  SandboxRenamedEvent: event("sandbox.renamed", { title: "Flaky checkout test" }, false),
  FeedbackReceivedEvent: event("feedback.received", {
    repo: "acme/shop",
    kind: "review",
    url: "https://github.com/acme/shop/pull/12#discussion_r901",
    authors: ["maria"],
    count: 2,
    items: ["review_comment:901", "review_comment:902"],
    until: "2026-11-21T02:41:00.123Z",
    round: 0
  }),
  FeedbackRepliedEvent: event("feedback.replied", {
    repo: "acme/shop",
    url: "https://github.com/acme/shop/pull/12#issuecomment-77"
  }, false),
  FeedbackPausedEvent: event("feedback.paused", { repo: "acme/shop", rounds: 3 }, false),
  FeedbackResumedEvent: event("feedback.resumed", { author: { id: "user_1" } }, false),
  SandboxErrorEvent: event("sandbox.error", { code: "clone_failed", message: "could not clone acme/shop", retryable: true }, false),
  MessageQueuedEvent: event("message.queued", queued, false),
  MessageSteeredEvent: event("message.steered", {
    message_id: nextTurnId,
    text: "Leave the old API as it is.",
    author: { id: "user_1" }
  }),
  MessageCancelledEvent: event("message.cancelled", { message_id: nextTurnId, reason: "command" }, false),
  TurnStartedEvent: event("turn.started", { prompt_id: turnId, text: "Fix the flaky checkout test.", files: [], author: { id: "user_1" } }),
  TurnUpdatedEvent: event("turn.updated", { state: "awaiting_approval", previous: "running" }),
  TurnCompletedEvent: event("turn.completed", { state: "succeeded" }),
  MessageUpdatedEvent: event("message.updated", {
    part_id: `${messageId}:text`,
    message_id: messageId,
    kind: "text",
    text: "I found the race."
  }),
  MessageCompletedEvent: event("message.completed", { message_id: messageId, finish: "end_turn" }),
  ToolUpdatedEvent: event("tool.updated", {
    part_id: "tool:call_7",
    message_id: `turn-tools:${turnId}`,
    call_id: "call_7",
    tool: "Edit src/checkout.test.ts",
    status: "completed"
  }),
  PlanUpdatedEvent: event("plan.updated", {
    part_id: `plan:${turnId}`,
    entries: [{ text: "Find the race", status: "completed" }, { text: "Fix it", status: "in_progress" }]
  }),
  ApprovalRequestedEvent: event("approval.requested", approval),
  ApprovalResolvedEvent: event("approval.resolved", { approval_id: "call_7", outcome: "approved", by: "user" }),
  QuestionAskedEvent: event("question.asked", question),
  QuestionAnsweredEvent: event("question.answered", { question_id: "turn_3:q1", by: "user", answers: { 1: { labels: ["Postgres"] } } }),
  PullRequestUpdatedEvent: event("pull_request.updated", {
    repo: "acme/shop",
    action_state: "idle",
    number: 7,
    url: "https://github.com/acme/shop/pull/7",
    state: "open",
    draft: true,
    merged: false,
    head_ref: `slipway/${sandboxId}`,
    head_sha: sha
  }, false),
  UsageUpdatedEvent: event("usage.updated", { usage, tokens }),
  SnapshotEvent: transient("snapshot", {
    sandbox,
    turn: { id: turnId, state: "awaiting_approval" },
    tokens,
    resume_cursor: "11",
    pending_approvals: [approval],
    pending_questions: [question],
    waiting_messages: [queued]
  }),
  StreamResyncEvent: transient("stream.resync", { reason: "shutdown", resume_cursor: "11" })
}

const pullRequest = {
  id: 2_001_234,
  nodeId: "PR_kwDOA1b2c84",
  number: 7,
  url: "https://github.com/acme/shop/pull/7",
  title: "Fix the flaky checkout test",
  state: "open",
  draft: true,
  merged: false,
  baseRef: "main",
  headRef: `slipway/${sandboxId}`,
  headSha: sha,
  createdAt: at,
  updatedAt: at,
  additions: 12,
  deletions: 3,
  changedFiles: 1
}
const workflowRun = {
  id: 91,
  name: "CI",
  createdAt: "2026-11-21T02:44:10Z",
  event: "push",
  headBranch: `slipway/${sandboxId}`,
  headSha: sha,
  runNumber: 118,
  status: "in_progress",
  updatedAt: "2026-11-21T02:44:30Z",
  url: "https://github.com/acme/shop/actions/runs/91"
}
const checkRun = {
  id: 92,
  name: "test",
  completedAt: "2026-11-21T02:46:00Z",
  conclusion: "success",
  startedAt: "2026-11-21T02:44:12Z",
  status: "completed",
  url: "https://github.com/acme/shop/runs/92"
}
const checks = {
  label: "1 of 2 checks passed",
  runs: [workflowRun],
  checkRuns: [checkRun],
  state: "pending",
  updatedAt: "2026-11-21T02:46:00Z"
}
const comment = {
  id: 93,
  title: "src/checkout.test.ts",
  author: "ada-l",
  authorAvatarUrl: "https://avatars.githubusercontent.com/u/1",
  createdAt: "2026-11-21T02:50:00Z",
  updatedAt: "2026-11-21T02:50:00Z",
  url: "https://github.com/acme/shop/pull/7#discussion_r93"
}

const entry = {
  name: "checkout.test.ts",
  path: "src/checkout.test.ts",
  depth: 1,
  kind: "file",
  status: "modified",
  additions: 12,
  deletions: 3,
  size: 2_048,
  mtimeMs: 1_795_228_863_004,
  previousPath: null
}
const version = {
  content: "export {}\n",
  text: "export {}\n",
  hash: "cb0ff5c3b541f646105198ee23ac0fc3d805023e",
  ref: "working",
  size: 10,
  binary: false
}

const artifact = {
  name: "screenshots/cart.png",
  mediaType: "image/png",
  size: 48213,
  sha256: "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
  turnId,
  createdAt: "2026-11-21T02:41:00.123Z"
}

const checkpoint = {
  checkpoint: 1,
  turnId,
  createdAt: at,
  bytes: 18_211,
  repos: [{ repo: "acme/shop", sha: "3f1c9a2b7d5e8f60112233445566778899aabbcc" }]
}
const message = { id: messageId, turnId, role: "assistant", text: "I found the race.", files: [], createdAt: at }
const command = { commandId: "4b5a1f0e-6f0b-5a52-9d0c-0a6a3c0f2f11", revision: 4, outcome: "applied" }

const lead = { claimId: "0197f1a0-0000-7000-8000-000000000001", leadId: "lead-1", variant: "b" }
const claim = { ...lead, creditAmount: 5, createdAt: at }
const attributed = { ...lead, occurredAt: at }
const derived = "6ba7b810-9dad-51d1-80b4-00c04fd430c8"
const fact = (sequence: number, type: string, data: object) => ({
  id: "0197f1a0-0000-7000-8000-000000000002",
  sequence,
  type,
  data,
  createdAt: at
})

const facts = {
  CreditClaimCreatedEvent: fact(1, "credit_claim.created", { ...claim, status: "pending", claimedAt: null }),
  CreditClaimClaimedEvent: fact(2, "credit_claim.claimed", { ...claim, status: "claimed", claimedAt: at }),
  ProjectConnectedEvent: fact(3, "project.connected", { ...attributed, projectId: "project-1" }),
  TaskStartedEvent: fact(4, "task.started", { ...attributed, taskId: sandboxId, projectId: "project-1" }),
  PullRequestOpenedEvent: fact(5, "pull_request.opened", { ...attributed, pullRequestId: derived, taskId: sandboxId, projectId: null }),
  ConversionPaidEvent: fact(6, "conversion.paid", { ...attributed, conversionId: derived })
}

/** Example values by the name of their schema in the document. */
export const examples: Readonly<Record<string, unknown>> = {
  ...events,
  ...facts,
  Sandbox: sandbox,
  SandboxPage: { data: [sandbox], nextCursor: null },
  CreateSandbox: {
    repos: [repo],
    prompt: "Fix the flaky checkout test.",
    metadata: { ticket: "SHOP-42" },
    budgetMicroUsd: 2_500_000,
    environment: { REGION: "eu" }
  },
  Continue: { pullRequest: 12 },
  RepoRef: repo,
  Usage: usage,
  ForkSandbox: { prompt: "Try it without a retry.", checkpoint: 2, metadata: { ticket: "SHOP-42" } },
  RestoreCheckpoint: { checkpoint: 2 },
  ApprovalDecision: { decision: "deny", reason: "Keep the old signature: the plugin uses it." },
  QuestionReply: { answers: { 1: { labels: ["Postgres"] } } },
  CommandResult: command,
  SendMessage: { prompt: "Now make it look like this.", files: [{ id: file.id }] },
  FileRef: { id: file.id },
  AttachedFile: file,
  PromptFile: {
    ...file,
    object: "file",
    sha256: "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    createdAt: "2026-11-21T02:41:00.123Z",
    expiresAt: "2026-11-22T02:41:00.123Z"
  },
  RequestChanges: {
    text: "Please keep the old signature.",
    comments: [{ path: "src/cart.ts", line: 12, text: "This drops the rounding." }]
  },
  FeedbackChoice: { comments: "all", checks: "failing", rounds: 3 },
  MessageResult: { ...command, turnId },
  ChangesRequested: { ...command, turnId, sandboxId },
  Message: message,
  MessagePage: { data: [message], nextCursor: null },
  Checkpoint: checkpoint,
  Setup: {
    state: "failed",
    startedAt: "2026-11-21T02:41:00.123Z",
    ms: 4_120,
    cache: "none",
    exitCode: 1,
    output: "$ npm ci\nnpm error code E404\n"
  },
  Artifact: artifact,
  ArtifactList: { data: [artifact], leftOut: null },
  CheckpointPage: { data: [checkpoint], nextCursor: null },
  SandboxEventEnvelope: events.TurnCompletedEvent,
  SandboxEventPage: { data: [events.TurnStartedEvent, events.TurnCompletedEvent], nextCursor: events.TurnCompletedEvent.id },
  PublishPullRequest: { repo: "acme/shop" },
  PullRequest: pullRequest,
  WorkflowRun: workflowRun,
  CheckRun: checkRun,
  Checks: checks,
  PullRequestComment: comment,
  PullRequestStatus: { actionState: "idle", checks, comments: [comment], pullRequest, repository: "acme/shop", detailsPending: false },
  FileEntry: entry,
  FileTree: { directory: "src", entries: [entry], partialWarnings: [], scope: "all" },
  FileVersion: version,
  FileContent: {
    path: "src/empty.ts",
    repo: "acme/shop",
    status: "untracked",
    binary: false,
    size: 10,
    previousPath: null,
    editable: false,
    editReason: "The files of a sandbox are read-only here.",
    working: version,
    head: null,
    base: null,
    reviewHead: null
  },
  PartnerEvent: facts.TaskStartedEvent,
  PartnerEventPage: { data: [facts.TaskStartedEvent], nextCursor: 4 },
  Timestamp: at,
  Health: { status: "ok" },
  Readiness: { status: "ok" },
  Error: { error: { code: "invalid_request", message: "repos[0].fullName: owner/name expected" } }
}
