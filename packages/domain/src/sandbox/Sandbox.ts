/**
 * The sandbox aggregate: its state machine (decisions 2.1), its current turn, its pending approvals and its
 * publications. Pure: `decide` turns a command into events or refuses it, `evolve` folds an event into the state.
 * Time and ids arrive with the command, so the same history always gives the same sandbox.
 */
import { DateTime, type Duration, Result, Schema } from "effect"
import { ActionState } from "../source/PullRequest.ts"
import { RepoName, RepoRef } from "../source/RepoRef.ts"
import { Counter, text } from "../Text.ts"
import { Timestamp } from "../Timestamp.ts"
import { AgentRuntimeName, ReasoningEffort, ToolApprovalMode } from "./AgentRuntime.ts"
import type { Limits } from "./Policy.ts"
import {
  ApprovalRequest,
  type ApprovalResolver,
  changesRevision,
  Initiator,
  type SandboxEvent,
  type SandboxEventOf,
  SandboxStatus,
  StatusReason
} from "./SandboxEvent.ts"
import { SandboxId } from "./SandboxId.ts"
import { isActive, Turn, turnTransitions, type TurnOutcome, type TurnState } from "./Turn.ts"
import { noUsage, Usage } from "./Usage.ts"

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
  headSha: Schema.NullOr(Schema.String),
  /** Why the last publication failed; `null` while one runs and after it went through. */
  error: Schema.NullOr(Schema.Struct({ code: Schema.String, message: Schema.String }))
})
export type Publication = typeof Publication.Type

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
  createdAt: Timestamp
})
export type Creation = typeof Creation.Type

export const Sandbox = Schema.Struct({
  ...Creation.fields,
  status: SandboxStatus,
  reason: Schema.NullOr(StatusReason),
  initiator: Initiator,
  /** When `status` was entered. */
  statusAt: Timestamp,
  /** First entry to running. */
  startedAt: Schema.NullOr(Timestamp),
  /** First entry to succeeded, failed or terminated. */
  completedAt: Schema.NullOr(Timestamp),
  /** A sentence for people: why it `failed`, or the newest trouble it got over. */
  error: Schema.NullOr(Schema.String),
  /** The newest turn, ended or not; `null` before running. */
  turn: Schema.NullOr(Turn),
  /** When the last turn ended; the idle window counts from here. */
  idleSince: Schema.NullOr(Timestamp),
  /** Pending ones only, oldest first. */
  approvals: Schema.Array(ApprovalRequest),
  publications: Schema.Array(Publication),
  usage: Usage,
  /** 1 at creation, +1 per event that `changesRevision`. */
  revision: Counter,
  /** `seq` of the newest event: the cursor a snapshot hands out. */
  lastSeq: Counter
})
export type Sandbox = typeof Sandbox.Type

// ---------------------------------------------------------------------------------------------------------------
// Transitions

interface Cause {
  readonly to: SandboxStatus
  readonly from: ReadonlyArray<SandboxStatus>
  readonly initiator: Initiator
}
const live: ReadonlyArray<SandboxStatus> = ["queued", "creating", "running"]

/** Every legal change of status, by its reason (decisions 2.1). Nothing else is legal; `terminated` is final. */
export const transitions = {
  claimed: { from: ["queued"], to: "creating", initiator: "system" },
  ready: { from: ["creating"], to: "running", initiator: "system" },
  queue_timeout: { from: ["queued"], to: "failed", initiator: "policy" },
  boot_timeout: { from: ["creating"], to: "failed", initiator: "policy" },
  boot_failed: { from: ["creating"], to: "failed", initiator: "provider" },
  clone_failed: { from: ["creating"], to: "failed", initiator: "provider" },
  repo_not_accessible: { from: ["creating"], to: "failed", initiator: "provider" },
  idle_timeout: { from: ["running"], to: "succeeded", initiator: "policy" },
  last_turn_failed: { from: ["running"], to: "failed", initiator: "policy" },
  agent_lost: { from: ["running"], to: "failed", initiator: "provider" },
  host_lost: { from: ["running"], to: "failed", initiator: "provider" },
  terminated: { from: [...live, "succeeded", "failed"], to: "terminating", initiator: "user" },
  max_lifetime: { from: live, to: "terminating", initiator: "policy" },
  grant_revoked: { from: live, to: "terminating", initiator: "policy" },
  released: { from: ["terminating"], to: "terminated", initiator: "system" },
  release_failed: { from: ["terminating"], to: "failed", initiator: "provider" }
} as const satisfies Record<Exclude<StatusReason, never> | "claimed" | "ready" | "released", Cause>
export type TransitionCause = keyof typeof transitions

/** No worker has anything left to do for it, until a terminate command. */
export const isSettled = (status: SandboxStatus): boolean =>
  status === "succeeded" || status === "failed" || status === "terminated"

/** The command is not legal in the present state. Retrying it unchanged cannot succeed. */
export class IllegalTransition extends Schema.TaggedError<IllegalTransition>()("IllegalTransition", {
  command: Schema.String,
  state: Schema.String
}) {
  override get message() {
    return `${this.command} is not possible while ${this.state}`
  }
}

// ---------------------------------------------------------------------------------------------------------------
// Commands

type Work = Extract<SandboxEvent["type"], "message.updated" | "message.completed" | "tool.updated">

/** What the service itself does to a sandbox. The commands of people are in `Command.ts`. */
export type SystemCommand =
  /** A worker took the lease and begins to boot. */
  | { readonly _tag: "StartBoot" }
  | { readonly _tag: "ReportBoot"; readonly data: SandboxEventOf<"sandbox.boot">["data"] }
  /** Box, clones and agent are ready. `turnId` names the first turn. */
  | { readonly _tag: "FinishBoot"; readonly turnId: string }
  /** Boot went wrong, or agent or host are gone for good. `error` is a sentence for people, free of secrets. */
  | {
    readonly _tag: "Fail"
    readonly reason: "boot_failed" | "clone_failed" | "repo_not_accessible" | "agent_lost" | "host_lost"
    readonly error: string
    readonly retryable: boolean
  }
  /** The agent took the prompt of the pending turn. */
  | { readonly _tag: "StartTurn"; readonly turnId: string }
  /** What the agent did. Ignored unless that turn is active: a late event of an ended turn is dropped. */
  | { readonly _tag: "RecordWork"; readonly turnId: string; readonly events: ReadonlyArray<SandboxEventOf<Work>> }
  | {
    readonly _tag: "RequestApproval"
    readonly turnId: string
    readonly approval: Omit<ApprovalRequest, "expires_at">
  }
  | {
    readonly _tag: "EndTurn"
    readonly turnId: string
    readonly state: TurnOutcome
    readonly reason?: string
    readonly initiator?: Initiator
  }
  | { readonly _tag: "ReportUsage"; readonly usage: Usage }
  /** Applies every limit whose time has come. */
  | { readonly _tag: "Expire" }
  | { readonly _tag: "RevokeGrant" }
  /** The host confirmed that nothing of a terminating sandbox is left. */
  | { readonly _tag: "Release" }
  | { readonly _tag: "ReportPublication"; readonly data: SandboxEventOf<"pull_request.updated">["data"] }

export interface Context {
  readonly now: DateTime.Utc
  readonly limits: Limits
}

// ---------------------------------------------------------------------------------------------------------------
// Events, built in one place each

const statusEvent = (sandbox: Sandbox, cause: TransitionCause): SandboxEvent => {
  const { initiator, to } = transitions[cause]
  return {
    type: "sandbox.status",
    data: {
      status: to,
      previous: sandbox.status,
      // A released sandbox carries the reason and initiator that began its end.
      reason: cause === "released" ? sandbox.reason : cause === "claimed" || cause === "ready" ? null : cause,
      initiator: cause === "released" ? sandbox.initiator : initiator
    }
  }
}

/** Pending approvals resolved as denied, oldest first. */
export const denyApprovals = (sandbox: Sandbox, by: ApprovalResolver): Array<SandboxEvent> =>
  sandbox.approvals.map(({ approval_id }) => ({
    type: "approval.resolved",
    ...(sandbox.turn === null ? {} : { turn_id: sandbox.turn.id }),
    data: { approval_id, outcome: "denied", by }
  }))

export const turnUpdated = (turn: Turn, state: TurnState, more: { readonly reason?: "interrupt"; readonly initiator?: Initiator } = {}): SandboxEvent => ({
  type: "turn.updated",
  turn_id: turn.id,
  data: { state, previous: turn.state, ...more }
})

/** The first step of the next turn. */
export const turnPending = (turnId: string, text: string, authorId: string): SandboxEvent => ({
  type: "turn.updated",
  turn_id: turnId,
  data: { state: "pending", previous: null, text, author: { id: authorId } }
})

const endTurn = (
  sandbox: Sandbox,
  state: TurnOutcome,
  more: { readonly reason?: string; readonly initiator?: Initiator },
  by: ApprovalResolver = "turn_end"
): Array<SandboxEvent> => {
  if (!isActive(sandbox.turn)) return []
  const { id } = sandbox.turn
  // An agent never took a pending turn, so however it ends, it was cancelled.
  const outcome = sandbox.turn.state === "pending" ? "cancelled" : state === "cancelled" ? "interrupted" : state
  return [...denyApprovals(sandbox, by), { type: "turn.completed", turn_id: id, data: { state: outcome, ...more } }]
}

/** The change of status and what must end before it. */
export const moveTo = (sandbox: Sandbox, cause: TransitionCause): Result.Result<Array<SandboxEvent>, IllegalTransition> => {
  const { from, initiator, to } = transitions[cause]
  if (!(from as ReadonlyArray<SandboxStatus>).includes(sandbox.status)) {
    return Result.fail(new IllegalTransition({ command: cause, state: sandbox.status }))
  }
  const before = to === "terminating" ?
    // The worker ends the turn once the agent is gone; nobody can decide an approval any more.
    [
      ...denyApprovals(sandbox, "terminate"),
      ...(sandbox.turn?.state === "awaiting_approval" ? [turnUpdated(sandbox.turn, "running")] : [])
    ]
    // However its release went, a turn that is left ends with what began the end of its sandbox.
    : sandbox.status === "terminating" ?
    endTurn(sandbox, "interrupted", { reason: sandbox.reason ?? "terminated", initiator: sandbox.initiator }, "terminate")
    : to === "failed" ?
    endTurn(sandbox, "failed", { reason: cause, initiator })
    : []
  return Result.succeed([...before, statusEvent(sandbox, cause)])
}

const sentences: Partial<Record<StatusReason, string>> = {
  queue_timeout: "No worker was free in time.",
  boot_timeout: "The sandbox did not boot in time.",
  last_turn_failed: "The last turn failed and nothing followed it.",
  release_failed: "The host did not confirm that everything of the sandbox is gone."
}

// ---------------------------------------------------------------------------------------------------------------
// Time limits

const after = (start: DateTime.Utc, limit: Duration.Duration) => DateTime.addDuration(start, limit)

interface Deadline {
  readonly at: DateTime.Utc
  readonly expire: (sandbox: Sandbox) => Result.Result<Array<SandboxEvent>, IllegalTransition>
}

/** The limits that apply in the present state, in the order in which they are to be applied. */
const deadlines = (sandbox: Sandbox, limits: Limits): ReadonlyArray<Deadline> => {
  const found: Array<Deadline> = []
  const { createdAt, idleSince, status, statusAt, turn } = sandbox
  if (live.includes(status)) {
    found.push({ at: after(createdAt, limits.lifetime), expire: (s) => moveTo(s, "max_lifetime") })
  }
  if (status === "queued") found.push({ at: after(createdAt, limits.queue), expire: (s) => moveTo(s, "queue_timeout") })
  if (status === "creating") found.push({ at: after(statusAt, limits.boot), expire: (s) => moveTo(s, "boot_timeout") })
  if (status === "terminating") {
    found.push({ at: after(statusAt, limits.release), expire: (s) => moveTo(s, "release_failed") })
  }
  if (status !== "running") return found
  for (const approval of sandbox.approvals) {
    found.push({
      at: approval.expires_at,
      expire: (s) => Result.succeed(resolveApproval(s, approval.approval_id, "denied", "timeout"))
    })
  }
  if (isActive(turn)) {
    if (turn.startedAt !== null) {
      found.push({
        at: after(turn.startedAt, limits.turn),
        expire: (s) => Result.succeed(endTurn(s, "failed", { reason: "turn_timeout", initiator: "policy" }))
      })
    }
  } else if (sandbox.approvals.length === 0) {
    found.push({
      at: after(idleSince ?? statusAt, limits.idle),
      expire: (s) => moveTo(s, turn?.state === "failed" ? "last_turn_failed" : "idle_timeout")
    })
  }
  return found
}

/** When `Expire` has something to do next; `null`: never, as long as nothing changes. Stored with the state. */
export const nextDeadline = (sandbox: Sandbox, limits: Limits): DateTime.Utc | null =>
  deadlines(sandbox, limits).reduce<DateTime.Utc | null>(
    (first, { at }) => first === null || DateTime.isLessThan(at, first) ? at : first,
    null
  )

/** A resolved approval, and the turn's going on when it was the last one pending. */
export const resolveApproval = (
  sandbox: Sandbox,
  approvalId: string,
  outcome: "approved" | "denied",
  by: ApprovalResolver
): Array<SandboxEvent> => {
  const { turn } = sandbox
  const others = sandbox.approvals.some(({ approval_id }) => approval_id !== approvalId)
  const inTurn = turn === null ? {} : { turn_id: turn.id }
  return [
    { type: "approval.resolved", ...inTurn, data: { approval_id: approvalId, outcome, by } },
    ...(turn?.state === "awaiting_approval" && !others ? [turnUpdated(turn, "running")] : [])
  ]
}

// ---------------------------------------------------------------------------------------------------------------
// decide

const refuse = (command: string, sandbox: Sandbox) =>
  Result.fail(new IllegalTransition({ command, state: `${sandbox.status}/${sandbox.turn?.state ?? "no turn"}` }))

const inTurn = (sandbox: Sandbox, turnId: string, to: TurnState): sandbox is Sandbox & { readonly turn: Turn } =>
  sandbox.turn !== null && sandbox.turn.id === turnId && turnTransitions[sandbox.turn.state].includes(to)

/** What the command changes, as events; empty when it has nothing left to do. */
export const decide = (
  sandbox: Sandbox,
  command: SystemCommand,
  { limits, now }: Context
): Result.Result<ReadonlyArray<SandboxEvent>, IllegalTransition> => {
  switch (command._tag) {
    case "StartBoot":
      // A boot taken over from a lost worker starts again without another event.
      return sandbox.status === "creating" ? Result.succeed([]) : moveTo(sandbox, "claimed")
    case "ReportBoot":
      return sandbox.status === "creating"
        ? Result.succeed([{ type: "sandbox.boot", data: command.data }])
        : refuse(command._tag, sandbox)
    case "FinishBoot":
      return Result.map(moveTo(sandbox, "ready"), (events) => [
        ...events,
        turnPending(command.turnId, sandbox.prompt, sandbox.createdBy)
      ])
    case "Fail":
      return Result.map(moveTo(sandbox, command.reason), (events) => [
        { type: "sandbox.error", data: { code: command.reason, message: command.error, retryable: command.retryable } },
        ...events
      ])
    case "StartTurn": {
      if (sandbox.status !== "running" || !inTurn(sandbox, command.turnId, "running")) return refuse(command._tag, sandbox)
      const { authorId, id, prompt, state } = sandbox.turn
      // A prompt handed to a second agent after a crash is the same turn, already started.
      return Result.succeed(state !== "pending" ? [] : [{
        type: "turn.started",
        turn_id: id,
        data: { prompt_id: id, text: prompt, files: [], author: { id: authorId } }
      }])
    }
    case "RecordWork":
      return Result.succeed(
        isActive(sandbox.turn) && sandbox.turn.id === command.turnId && sandbox.turn.startedAt !== null
          ? command.events.map((event) => ({ ...event, turn_id: command.turnId }))
          : []
      )
    case "RequestApproval": {
      const { approval, turnId } = command
      if (sandbox.status !== "running" || !inTurn(sandbox, turnId, "awaiting_approval")) return refuse(command._tag, sandbox)
      if (sandbox.approvals.some(({ approval_id }) => approval_id === approval.approval_id)) return Result.succeed([])
      const requested: SandboxEvent = {
        type: "approval.requested",
        turn_id: turnId,
        data: { ...approval, expires_at: after(now, limits.approval) }
      }
      // Nobody may decide for a turn that is being ended, so the request is answered at once.
      if (sandbox.turn.interruptRequested) {
        return Result.succeed([requested, {
          type: "approval.resolved",
          turn_id: turnId,
          data: { approval_id: approval.approval_id, outcome: "denied", by: "interrupt" }
        }])
      }
      return Result.succeed([
        requested,
        ...(sandbox.turn.state === "running" ? [turnUpdated(sandbox.turn, "awaiting_approval")] : [])
      ])
    }
    case "EndTurn": {
      const { initiator, reason, state, turnId } = command
      if (sandbox.turn?.id !== turnId) return Result.succeed([])
      return Result.succeed(endTurn(sandbox, state, {
        ...(reason === undefined ? {} : { reason }),
        ...(initiator === undefined ? {} : { initiator })
      }))
    }
    case "ReportUsage":
      return Result.succeed([{ type: "usage.updated", data: { usage: command.usage } }])
    case "Expire": {
      const events: Array<SandboxEvent> = []
      let current = sandbox
      // One limit may end what another would have: look again after each.
      for (;;) {
        const due = deadlines(current, limits).find(({ at }) => DateTime.isLessThanOrEqualTo(at, now))
        if (due === undefined) return Result.succeed(events)
        const decided = due.expire(current)
        if (Result.isFailure(decided)) return Result.fail(decided.failure)
        events.push(...decided.success)
        current = evolveAll(current, decided.success, now)
      }
    }
    case "RevokeGrant":
      return live.includes(sandbox.status) ? moveTo(sandbox, "grant_revoked") : Result.succeed([])
    case "Release":
      return sandbox.status === "terminated" ? Result.succeed([]) : moveTo(sandbox, "released")
    case "ReportPublication":
      return Result.succeed([{ type: "pull_request.updated", data: command.data }])
  }
}

// ---------------------------------------------------------------------------------------------------------------
// evolve

/** A sandbox that was just asked for, before its first event. */
export const initial = (creation: Creation): Sandbox => ({
  ...creation,
  status: "queued",
  reason: null,
  initiator: "user",
  statusAt: creation.createdAt,
  startedAt: null,
  completedAt: null,
  error: null,
  turn: null,
  idleSince: null,
  approvals: [],
  publications: [],
  usage: noUsage,
  revision: 0,
  lastSeq: 0
})

/** The first events of every sandbox. */
export const created: ReadonlyArray<SandboxEvent> = [{
  type: "sandbox.status",
  data: { status: "queued", previous: null, reason: null, initiator: "user" }
}]

const evolveTurn = (sandbox: Sandbox, event: SandboxEventOf<"turn.updated" | "turn.started" | "turn.completed">, at: DateTime.Utc): Sandbox => {
  const { turn } = sandbox
  const id = event.turn_id
  if (event.type === "turn.updated" && event.data.state === "pending" && id !== undefined) {
    return {
      ...sandbox,
      turn: {
        n: (turn?.n ?? 0) + 1,
        id,
        prompt: event.data.text ?? "",
        authorId: event.data.author?.id ?? "",
        state: "pending",
        startedAt: null,
        interruptRequested: false
      },
      idleSince: null
    }
  }
  if (turn === null || turn.id !== id) return sandbox
  switch (event.type) {
    case "turn.started":
      return {
        ...sandbox,
        turn: { ...turn, state: "running", startedAt: at }
      }
    case "turn.updated":
      return {
        ...sandbox,
        turn: {
          ...turn,
          state: event.data.state,
          interruptRequested: turn.interruptRequested || event.data.reason === "interrupt"
        }
      }
    case "turn.completed":
      return {
        ...sandbox,
        turn: {
          ...turn,
          state: event.data.state,
          interruptRequested: turn.interruptRequested || event.data.reason === "interrupt"
        },
        idleSince: at
      }
  }
}

const evolveStatus = (sandbox: Sandbox, { data }: SandboxEventOf<"sandbox.status">, at: DateTime.Utc): Sandbox => ({
  ...sandbox,
  status: data.status,
  reason: data.reason,
  initiator: data.initiator,
  statusAt: at,
  startedAt: sandbox.startedAt ?? (data.status === "running" ? at : null),
  completedAt: sandbox.completedAt ?? (isSettled(data.status) ? at : null),
  error: data.status !== "failed" ? null : (data.reason === null ? undefined : sentences[data.reason]) ?? sandbox.error
})

const evolvePublication = (sandbox: Sandbox, { data }: SandboxEventOf<"pull_request.updated">): Sandbox => {
  const same = (publication: Publication) => publication.repo.toLowerCase() === data.repo.toLowerCase()
  const known = sandbox.publications.find(same)
  const next: Publication = {
    repo: known?.repo ?? data.repo,
    actionState: data.action_state,
    number: data.number ?? known?.number ?? null,
    headSha: data.head_sha ?? known?.headSha ?? null,
    error: data.error ?? null
  }
  return {
    ...sandbox,
    publications: known === undefined
      ? [...sandbox.publications, next]
      : sandbox.publications.map((publication) => same(publication) ? next : publication)
  }
}

const apply = (sandbox: Sandbox, event: SandboxEvent, at: DateTime.Utc): Sandbox => {
  switch (event.type) {
    case "sandbox.status":
      return evolveStatus(sandbox, event, at)
    case "sandbox.error":
      return { ...sandbox, error: event.data.message }
    case "turn.started":
    case "turn.updated":
    case "turn.completed":
      return evolveTurn(sandbox, event, at)
    case "approval.requested":
      return { ...sandbox, approvals: [...sandbox.approvals, event.data] }
    case "approval.resolved":
      return { ...sandbox, approvals: sandbox.approvals.filter(({ approval_id }) => approval_id !== event.data.approval_id) }
    case "pull_request.updated":
      return evolvePublication(sandbox, event)
    case "usage.updated":
      return { ...sandbox, usage: event.data.usage }
    case "sandbox.boot":
    case "message.updated":
    case "message.completed":
    case "tool.updated":
      return sandbox
  }
}

/** Total: an event that means nothing in this state only counts. `at` is when the event was recorded. */
export const evolve = (sandbox: Sandbox, event: SandboxEvent, at: DateTime.Utc): Sandbox => {
  const next = apply(sandbox, event, at)
  return {
    ...next,
    revision: sandbox.revision + (changesRevision[event.type] ? 1 : 0),
    lastSeq: sandbox.lastSeq + 1
  }
}

export const evolveAll = (sandbox: Sandbox, events: ReadonlyArray<SandboxEvent>, at: DateTime.Utc): Sandbox =>
  events.reduce((current, event) => evolve(current, event, at), sandbox)
