/** Commands of the service itself: booting, recording the agent's work, ending. People's commands are in `Command.ts`. */
import type * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Result from "effect/Result"
import type { TokenCounts, Usage } from "../../models/rules/Usage.ts"
import { SERVICE_AUTHOR } from "../../source/rules/FeedbackState.ts"
import { coveredKind } from "./Approval.ts"
import { type BoxLimit, tell } from "./BoxLimit.ts"
import { textOf } from "./MessageQueue.ts"
import { admit, admitApproval, admitQuestion, boundApproval, boundQuestion, boundWork, endForMessage, endIfFull } from "./OutputLimit.ts"
import type { Limits } from "./Policy.ts"
import { type QuestionRequest, questionsOf } from "./Question.ts"
import { dateOf, evolve, type Sandbox } from "./Sandbox.ts"
import type { ApprovalRequest, Initiator, SandboxEvent, SandboxEventOf } from "./SandboxEvent.ts"
import { after, expire, MAX_SETUP } from "./TimeLimit.ts"
import {
  cancelWaiting,
  closeTurn,
  endTurn,
  IllegalTransition,
  live,
  moveTo,
  nextTurn,
  stateWith,
  turnPending,
  turnUpdated
} from "./Transition.ts"
import { isActive, type Turn, type TurnOutcome, turnTransitions, type TurnState } from "./Turn.ts"

type Work = Extract<SandboxEvent["type"], "message.updated" | "message.completed" | "plan.updated" | "tool.updated">

/** A command of the service itself. */
export type SystemCommand =
  /** A worker took the lease and begins to boot. */
  | { readonly _tag: "StartBoot" }
  | { readonly _tag: "ReportBoot"; readonly data: SandboxEventOf<"sandbox.boot">["data"] }
  /** The repositories' setups begin, in a boot or after trees were restored. Together they may take `limit`, at most `MAX_SETUP`. */
  | { readonly _tag: "StartSetup"; readonly limit: Duration.Duration }
  /** Box, clones and agent are ready. `turnId` is the id of the first turn. */
  | { readonly _tag: "FinishBoot"; readonly turnId: string }
  /** The boot failed, or agent or host failed permanently. `error` is a sentence for people without secrets. */
  | {
    readonly _tag: "Fail"
    readonly reason: "boot_failed" | "clone_failed" | "repo_not_accessible" | "agent_lost" | "host_lost"
    readonly error: string
    readonly retryable: boolean
  }
  /** The agent took the prompt of the pending turn. */
  | { readonly _tag: "StartTurn"; readonly turnId: string }
  /** The agent's work. Ignored unless that turn is active: late events of an ended turn are dropped. */
  | { readonly _tag: "RecordWork"; readonly turnId: string; readonly events: ReadonlyArray<SandboxEventOf<Work>> }
  | {
    readonly _tag: "RequestApproval"
    readonly turnId: string
    readonly approval: Omit<ApprovalRequest, "expires_at">
  }
  /** The agent asks a person. */
  | {
    readonly _tag: "AskQuestion"
    readonly turnId: string
    readonly question: Omit<QuestionRequest, "expires_at">
  }
  | {
    readonly _tag: "EndTurn"
    readonly turnId: string
    readonly state: TurnOutcome
    readonly reason?: string
    readonly initiator?: Initiator
  }
  /** The agent took a waiting message that steers. Ignored unless that turn is active. */
  | { readonly _tag: "RecordSteer"; readonly turnId: string; readonly messageId: string }
  /** The sandbox's programs reached a limit of its box. Ignored unless that turn is active. */
  | { readonly _tag: "ReportBoxLimit"; readonly turnId: string; readonly limit: BoxLimit }
  /** The agent sent a message above the size limit of its driver, which ends the turn. */
  | { readonly _tag: "RefuseMessage"; readonly turnId: string }
  | {
    readonly _tag: "ReportUsage"
    readonly usage: Usage
    /** Absent: unknown, because an agent's own report has no tokens. */
    readonly tokens?: TokenCounts
  }
  /** Applies every expired time limit. */
  | { readonly _tag: "Expire" }
  | { readonly _tag: "RevokeGrant" }
  /** The host confirmed that a terminating sandbox has no data left. */
  | { readonly _tag: "Release" }
  | { readonly _tag: "ReportPublication"; readonly data: SandboxEventOf<"pull_request.updated">["data"] }
  /** A checkpoint was stored, or failed. Its number is the next one. `workedTurns`: the count when reading its files began. */
  | {
    readonly _tag: "RecordCheckpoint"
    readonly data: Omit<SandboxEventOf<"sandbox.checkpoint">["data"], "turn_id">
    readonly workedTurns?: number
  }
  /** Trees and conversation were restored from a checkpoint. A turn with an agent on another machine has ended. */
  | {
    readonly _tag: "RecordRestore"
    readonly data: Omit<SandboxEventOf<"sandbox.restored">["data"], "checkpoint" | "error" | "lost_turn"> & { readonly checkpoint: number }
  }
  /** The checkpoint that a person wants cannot be read, and nothing has changed. `error` is a sentence for people without secrets. */
  | { readonly _tag: "FailRestore"; readonly error: string; readonly damaged: ReadonlyArray<number> }
  /** The host's newest commits were brought to the agent's git, or could not be. Ignored unless that is asked for. */
  | { readonly _tag: "RecordSync"; readonly data: SandboxEventOf<"sandbox.synced">["data"] }

/** Further input of the service's decisions. */
export interface Context {
  readonly now: DateTime.Utc
  readonly limits: Limits
}

/** The number of the newest turn that an agent may have worked on. */
export const workedTurns = ({ turn }: Sandbox): number => turn === null ? 0 : turn.startedAt === null ? turn.n - 1 : turn.n

/** The newest ended turn. A later turn counts only if no agent has taken it. */
export const lastEnded = ({ turn }: Sandbox): string | undefined =>
  turn === null || isActive(turn) && turn.startedAt !== null ? undefined : isActive(turn) ? turn.after : turn.id

const refuse = (command: string, sandbox: Sandbox) =>
  Result.fail(new IllegalTransition({ command, state: `${sandbox.status}/${sandbox.turn?.state ?? "no turn"}` }))

const inTurn = (sandbox: Sandbox, turnId: string, to: TurnState): sandbox is Sandbox & { readonly turn: Turn } =>
  sandbox.turn !== null && sandbox.turn.id === turnId && turnTransitions[sandbox.turn.state].includes(to)

/** The immediate answer to an approval request; `null`: a person decides. */
const answerOf = ({ approvedKinds, interruptRequested }: Turn, request: Pick<ApprovalRequest, "kind" | "plain">) => {
  // A turn that is being interrupted takes no decisions.
  if (interruptRequested) return { outcome: "denied", by: "interrupt" } as const
  const kind = coveredKind(request)
  return kind !== null && approvedKinds?.includes(kind) === true ? { outcome: "approved", by: "policy" } as const : null
}

type CommandOf<Tag extends SystemCommand["_tag"]> = Extract<SystemCommand, { readonly _tag: Tag }>
type Decided = Result.Result<ReadonlyArray<SandboxEvent>, IllegalTransition>

const startTurn = (sandbox: Sandbox, command: CommandOf<"StartTurn">, now: DateTime.Utc): Decided => {
  if (sandbox.status !== "running" || !inTurn(sandbox, command.turnId, "running")) return refuse(command._tag, sandbox)
  const { authorId, files = [], id, prompt, state } = sandbox.turn
  // After a crash a second agent gets the prompt again: the same turn, already started.
  if (state !== "pending") return Result.succeed([])
  const started: SandboxEvent = {
    type: "turn.started",
    turn_id: id,
    data: { prompt_id: id, text: prompt, files, author: { id: authorId } }
  }
  return Result.succeed([started, ...endIfFull(evolve(sandbox, started, now))])
}

const requestApproval = (
  sandbox: Sandbox,
  command: CommandOf<"RequestApproval">,
  { limits, now }: Context
): Decided => {
  const { turnId } = command
  const approval = boundApproval(command.approval)
  if (sandbox.status !== "running" || !inTurn(sandbox, turnId, "awaiting_approval")) return refuse(command._tag, sandbox)
  if (sandbox.approvals.some(({ approval_id }) => approval_id === approval.approval_id)) return Result.succeed([])
  const requested: SandboxEventOf<"approval.requested"> = {
    type: "approval.requested",
    turn_id: turnId,
    data: { ...approval, expires_at: after(dateOf(sandbox, now), limits.approval) }
  }
  const answer = answerOf(sandbox.turn, approval)
  if (answer !== null) {
    return Result.succeed(admitApproval(sandbox, requested, [{
      type: "approval.resolved",
      turn_id: turnId,
      data: { approval_id: approval.approval_id, ...answer }
    }]))
  }
  return Result.succeed(
    admitApproval(sandbox, requested, sandbox.turn.state === "awaiting_approval" ? [] : [turnUpdated(sandbox.turn, "awaiting_approval")])
  )
}

const askQuestion = (sandbox: Sandbox, command: CommandOf<"AskQuestion">, { limits, now }: Context): Decided => {
  const { turnId } = command
  const question = boundQuestion(command.question)
  if (sandbox.status !== "running" || !inTurn(sandbox, turnId, "awaiting_answer")) return refuse(command._tag, sandbox)
  const { turn } = sandbox
  const pending = questionsOf(sandbox)
  if (pending.some(({ question_id }) => question_id === question.question_id)) return Result.succeed([])
  const asked: SandboxEventOf<"question.asked"> = {
    type: "question.asked",
    turn_id: turnId,
    data: { ...question, expires_at: after(dateOf(sandbox, now), limits.approval) }
  }
  // A turn that is being interrupted takes no answers.
  if (turn.interruptRequested) {
    const data = { question_id: question.question_id, by: "interrupt" } as const
    return Result.succeed(admitQuestion(sandbox, asked, [{ type: "question.answered", turn_id: turnId, data }]))
  }
  const state = stateWith(sandbox.approvals.length, pending.length + 1)
  return Result.succeed(admitQuestion(sandbox, asked, state === turn.state ? [] : [turnUpdated(turn, state)]))
}

const recordCheckpoint = (sandbox: Sandbox, command: CommandOf<"RecordCheckpoint">): Decided => {
  const { data } = command
  if (sandbox.status !== "running" && sandbox.status !== "terminating") return refuse(command._tag, sandbox)
  // An agent worked meanwhile, so a newer checkpoint is still needed.
  if (command.workedTurns !== undefined && command.workedTurns !== workedTurns(sandbox)) return refuse(command._tag, sandbox)
  if (data.checkpoint !== undefined && data.checkpoint !== sandbox.checkpoint + 1) return refuse(command._tag, sandbox)
  const turnId = lastEnded(sandbox)
  return Result.succeed([{ type: "sandbox.checkpoint", data: { ...data, ...(turnId === undefined ? {} : { turn_id: turnId }) } }])
}

const recordRestore = (sandbox: Sandbox, command: CommandOf<"RecordRestore">): Decided => {
  const { data } = command
  if (sandbox.status !== "running" && sandbox.status !== "creating") return refuse(command._tag, sandbox)
  // The checkpoint of a fork belongs to the original sandbox. Any other sandbox has none while it boots.
  if (data.cause !== "fork" && (data.checkpoint < 1 || data.checkpoint > sandbox.checkpoint)) return refuse(command._tag, sandbox)
  const { turn } = sandbox
  const isLost = isActive(turn) && turn.startedAt !== null
  return Result.succeed([
    ...(isLost ? closeTurn(sandbox, "failed", { reason: "machine_lost", initiator: "provider" }) : []),
    { type: "sandbox.restored", data: { ...data, ...(isLost ? { lost_turn: turn.id } : {}) } },
    ...(isLost ? nextTurn(sandbox) : [])
  ])
}

/** The first message of a sandbox that goes on with feedback is the service's. */
const firstTurn = ({ createdBy, feedback, files, prompt }: Sandbox, id: string) =>
  turnPending(id, prompt, feedback?.round?.turnId === id ? SERVICE_AUTHOR : createdBy, files)

/** The events of the command; empty if nothing has to change. */
export const decide = (
  sandbox: Sandbox,
  command: SystemCommand,
  { limits, now }: Context
): Decided => {
  switch (command._tag) {
    case "StartBoot":
      // Another worker's boot starts again without an event.
      return sandbox.status === "creating" ? Result.succeed([]) : moveTo(sandbox, "leased")
    case "ReportBoot":
      return sandbox.status === "creating" ||
          sandbox.status === "running" && (command.data.stage === "setup" || command.data.stage === "mcp")
        ? Result.succeed([{ type: "sandbox.boot", data: command.data }])
        : refuse(command._tag, sandbox)
    case "StartSetup":
      return sandbox.status === "creating" || sandbox.status === "running"
        ? Result.succeed([{
          type: "setup.started",
          data: { limit_ms: Math.ceil(Duration.toMillis(Duration.min(command.limit, MAX_SETUP))) }
        }])
        : refuse(command._tag, sandbox)
    case "FinishBoot":
      return Result.map(moveTo(sandbox, "ready"), (events) => [...events, firstTurn(sandbox, command.turnId)])
    case "Fail":
      return Result.map(moveTo(sandbox, command.reason), (events) => [
        { type: "sandbox.error", data: { code: command.reason, message: command.error, retryable: command.retryable } },
        ...events
      ])
    case "StartTurn":
      return startTurn(sandbox, command, now)
    case "RecordWork":
      return Result.succeed(
        isActive(sandbox.turn) && sandbox.turn.id === command.turnId && sandbox.turn.startedAt !== null
          ? admit(sandbox, command.events.map((event) => ({ ...boundWork(event), turn_id: command.turnId })))
          : []
      )
    case "RequestApproval":
      return requestApproval(sandbox, command, { limits, now })
    case "AskQuestion":
      return askQuestion(sandbox, command, { limits, now })
    case "EndTurn": {
      const { initiator, reason, state, turnId } = command
      if (sandbox.turn?.id !== turnId) return Result.succeed([])
      const more = { ...(reason === undefined ? {} : { reason }), ...(initiator === undefined ? {} : { initiator }) }
      // A caller without budget or credits cannot send messages, so waiting ones get no turn either.
      return Result.succeed(
        initiator === "policy" && (reason === "budget_exceeded" || reason === "no_credits")
          ? [...closeTurn(sandbox, state, more), ...cancelWaiting(sandbox, reason)]
          : endTurn(sandbox, state, more)
      )
    }
    case "RecordSteer": {
      const { messageId, turnId } = command
      const message = sandbox.waiting.find(({ id, steers }) => id === messageId && steers)
      const { turn } = sandbox
      if (message === undefined || !isActive(turn) || turn.id !== turnId || turn.startedAt === null) return Result.succeed([])
      return Result.succeed([{
        type: "message.steered",
        turn_id: turnId,
        data: {
          message_id: messageId,
          text: textOf(sandbox, messageId),
          author: { id: message.authorId },
          ...(message.files === undefined ? {} : { files: message.files })
        }
      }])
    }
    case "ReportBoxLimit":
      return Result.succeed(tell(sandbox, command.turnId, command.limit))
    case "RefuseMessage":
      return Result.succeed(sandbox.turn?.id === command.turnId ? endForMessage(sandbox) : [])
    case "ReportUsage":
      return Result.succeed([{
        type: "usage.updated",
        data: { usage: command.usage, ...(command.tokens === undefined ? {} : { tokens: command.tokens }) }
      }])
    case "Expire":
      return expire(sandbox, limits, now)
    case "RevokeGrant":
      return live.includes(sandbox.status) ? moveTo(sandbox, "grant_revoked") : Result.succeed([])
    case "Release":
      return sandbox.status === "terminated" ? Result.succeed([]) : moveTo(sandbox, "released")
    case "RecordCheckpoint":
      return recordCheckpoint(sandbox, command)
    case "RecordRestore":
      return recordRestore(sandbox, command)
    case "FailRestore": {
      const { damaged, error } = command
      if (sandbox.status !== "running") return refuse(command._tag, sandbox)
      return Result.succeed(
        sandbox.restoring === null ? [] : [{ type: "sandbox.restored", data: { cause: "command", damaged, error } }]
      )
    }
    case "RecordSync":
      return Result.succeed(sandbox.syncing ? [{ type: "sandbox.synced", data: command.data }] : [])
    case "ReportPublication":
      return Result.succeed([{ type: "pull_request.updated", data: command.data }])
  }
}
