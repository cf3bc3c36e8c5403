/**
 * The sandbox aggregate: its status, its current turn, its pending approvals and its publications. Pure: `evolve` folds
 * the events of its log, with the times they were recorded at, so the same history always gives the same sandbox.
 * `Transition.ts` has the state machine, `TimeLimit.ts` what time does, `SystemCommand.ts` and `Command.ts` the commands.
 */
import { type DateTime, Schema } from "effect"
import { AgentRuntimeName } from "../models/AgentRuntimeName.ts"
import { ReasoningEffort } from "../models/ReasoningEffort.ts"
import { ToolApprovalMode } from "../models/ToolApprovalMode.ts"
import { noUsage, Usage } from "../models/Usage.ts"
import { SandboxId } from "../SandboxId.ts"
import { ActionState } from "../source/PullRequest.ts"
import { RepoName, RepoRef, sameRepo } from "../source/RepoRef.ts"
import { Counter, saturatingAdd, text } from "../Text.ts"
import { Timestamp } from "../Timestamp.ts"
import {
  ApprovalRequest,
  changesRevision,
  Initiator,
  PublicationTrouble,
  type SandboxEvent,
  type SandboxEventOf,
  SandboxStatus,
  sizeOf,
  StatusReason
} from "./SandboxEvent.ts"
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
  headSha: Schema.NullOr(Schema.String),
  state: Schema.NullOr(Schema.Literals(["open", "closed"])),
  draft: Schema.NullOr(Schema.Boolean),
  merged: Schema.NullOr(Schema.Boolean),
  /** Why the last publication failed; `null` while one runs and after it went through. */
  error: Schema.NullOr(PublicationTrouble)
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
  lastSeq: Counter,
  /** What the events so far take in the log, as `sizeOf` counts. */
  logBytes: Counter
})
export type Sandbox = typeof Sandbox.Type

/** No worker has anything left to do for it, until a terminate command. */
export const isSettled = (status: SandboxStatus): boolean => status === "succeeded" || status === "failed" || status === "terminated"

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
  lastSeq: 0,
  logBytes: 0
})

/** The first events of every sandbox. */
export const created: ReadonlyArray<SandboxEvent> = [{
  type: "sandbox.status",
  data: { status: "queued", previous: null, reason: null, initiator: "user" }
}]

const sentences: Partial<Record<StatusReason, string>> = {
  queue_timeout: "No worker was free in time.",
  boot_timeout: "The sandbox did not boot in time.",
  last_turn_failed: "The last turn failed and nothing followed it.",
  release_failed: "The host did not confirm that everything of the sandbox is gone."
}

const evolveTurn = (
  sandbox: Sandbox,
  event: SandboxEventOf<"turn.updated" | "turn.started" | "turn.completed">,
  at: DateTime.Utc
): Sandbox => {
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
        interruptRequested: false,
        began: { seq: sandbox.lastSeq, bytes: sandbox.logBytes }
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
          ...silent(turn),
          state: event.data.state,
          interruptRequested: turn.interruptRequested || event.data.reason === "interrupt"
        },
        idleSince: at
      }
  }
}

const silent = ({ speaking: _speaking, ...turn }: Turn): Turn => turn

/** A text begins or goes on; the next message, the next tool call or its own completion says that it is whole. */
const evolveMessage = (sandbox: Sandbox, event: SandboxEventOf<"message.updated" | "message.completed" | "tool.updated">): Sandbox => {
  const { turn } = sandbox
  if (turn === null || turn.id !== event.turn_id) return sandbox
  switch (event.type) {
    case "message.updated":
      return event.data.kind === "text"
        ? { ...sandbox, turn: { ...turn, speaking: event.data.message_id } }
        : event.data.message_id === turn.speaking
        ? sandbox
        : { ...sandbox, turn: silent(turn) }
    case "message.completed":
      return event.data.message_id === turn.speaking ? { ...sandbox, turn: silent(turn) } : sandbox
    case "tool.updated":
      // Calls begin as pending. What goes on beside a text says nothing of it.
      return event.data.status === "pending" ? { ...sandbox, turn: silent(turn) } : sandbox
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
    state: data.state ?? known?.state ?? null,
    draft: data.draft ?? known?.draft ?? null,
    merged: data.merged ?? known?.merged ?? null,
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
    case "message.updated":
    case "message.completed":
    case "tool.updated":
      return evolveMessage(sandbox, event)
    case "sandbox.boot":
      return sandbox
  }
}

/** Total: an event that means nothing in this state only counts. `at` is when the event was recorded. */
export const evolve = (sandbox: Sandbox, event: SandboxEvent, at: DateTime.Utc): Sandbox => {
  const next = apply(sandbox, event, at)
  return {
    ...next,
    revision: sandbox.revision + (changesRevision[event.type] ? 1 : 0),
    lastSeq: sandbox.lastSeq + 1,
    logBytes: saturatingAdd(sandbox.logBytes, sizeOf(event))
  }
}

/** `evolve` over events of one time, in order. */
export const evolveAll = (sandbox: Sandbox, events: ReadonlyArray<SandboxEvent>, at: DateTime.Utc): Sandbox =>
  events.reduce((current, event) => evolve(current, event, at), sandbox)

/** `undefined`: nothing was asked for yet. */
export const publicationOf = (sandbox: Sandbox, repo: RepoName): Publication | undefined =>
  sandbox.publications.find((publication) => sameRepo(publication.repo, repo))

/** Whether a worker still has to carry it out. */
export const isUnderWay = (publication: Publication | undefined): boolean =>
  publication?.actionState === "publishing" || publication?.actionState === "updating"
