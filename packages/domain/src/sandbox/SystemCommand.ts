/** What the service itself does to a sandbox: booting, recording what the agent does, ending. People's commands are in `Command.ts`. */
import { type DateTime, Result } from "effect"
import type { Usage } from "../models/Usage.ts"
import { admit, admitApproval, boundApproval, boundWork, endForMessage, endIfFull } from "./OutputLimit.ts"
import type { Limits } from "./Policy.ts"
import { evolve, type Sandbox } from "./Sandbox.ts"
import type { ApprovalRequest, Initiator, SandboxEvent, SandboxEventOf } from "./SandboxEvent.ts"
import { after, expire } from "./TimeLimit.ts"
import { endTurn, IllegalTransition, live, moveTo, turnPending, turnUpdated } from "./Transition.ts"
import { isActive, type Turn, type TurnOutcome, turnTransitions, type TurnState } from "./Turn.ts"

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
  /** The agent sent a message larger than its driver reads, which ends the turn. */
  | { readonly _tag: "RefuseMessage"; readonly turnId: string }
  | { readonly _tag: "ReportUsage"; readonly usage: Usage }
  /** Applies every limit whose time has come. */
  | { readonly _tag: "Expire" }
  | { readonly _tag: "RevokeGrant" }
  /** The host confirmed that nothing of a terminating sandbox is left. */
  | { readonly _tag: "Release" }
  | { readonly _tag: "ReportPublication"; readonly data: SandboxEventOf<"pull_request.updated">["data"] }

/** What the service's own decisions depend on beside the sandbox. */
export interface Context {
  readonly now: DateTime.Utc
  readonly limits: Limits
}

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
      return sandbox.status === "creating" ? Result.succeed([]) : moveTo(sandbox, "leased")
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
      if (state !== "pending") return Result.succeed([])
      const started: SandboxEvent = {
        type: "turn.started",
        turn_id: id,
        data: { prompt_id: id, text: prompt, files: [], author: { id: authorId } }
      }
      return Result.succeed([started, ...endIfFull(evolve(sandbox, started, now))])
    }
    case "RecordWork":
      return Result.succeed(
        isActive(sandbox.turn) && sandbox.turn.id === command.turnId && sandbox.turn.startedAt !== null
          ? admit(sandbox, command.events.map((event) => ({ ...boundWork(event), turn_id: command.turnId })))
          : []
      )
    case "RequestApproval": {
      const { turnId } = command
      const approval = boundApproval(command.approval)
      if (sandbox.status !== "running" || !inTurn(sandbox, turnId, "awaiting_approval")) return refuse(command._tag, sandbox)
      if (sandbox.approvals.some(({ approval_id }) => approval_id === approval.approval_id)) return Result.succeed([])
      const requested: SandboxEventOf<"approval.requested"> = {
        type: "approval.requested",
        turn_id: turnId,
        data: { ...approval, expires_at: after(now, limits.approval) }
      }
      // Nobody may decide for a turn that is being ended, so the request is answered at once.
      if (sandbox.turn.interruptRequested) {
        return Result.succeed(admitApproval(sandbox, requested, [{
          type: "approval.resolved",
          turn_id: turnId,
          data: { approval_id: approval.approval_id, outcome: "denied", by: "interrupt" }
        }]))
      }
      return Result.succeed(
        admitApproval(sandbox, requested, sandbox.turn.state === "running" ? [turnUpdated(sandbox.turn, "awaiting_approval")] : [])
      )
    }
    case "EndTurn": {
      const { initiator, reason, state, turnId } = command
      if (sandbox.turn?.id !== turnId) return Result.succeed([])
      return Result.succeed(endTurn(sandbox, state, {
        ...(reason === undefined ? {} : { reason }),
        ...(initiator === undefined ? {} : { initiator })
      }))
    }
    case "RefuseMessage":
      return Result.succeed(sandbox.turn?.id === command.turnId ? endForMessage(sandbox) : [])
    case "ReportUsage":
      return Result.succeed([{ type: "usage.updated", data: { usage: command.usage } }])
    case "Expire":
      return expire(sandbox, limits, now)
    case "RevokeGrant":
      return live.includes(sandbox.status) ? moveTo(sandbox, "grant_revoked") : Result.succeed([])
    case "Release":
      return sandbox.status === "terminated" ? Result.succeed([]) : moveTo(sandbox, "released")
    case "ReportPublication":
      return Result.succeed([{ type: "pull_request.updated", data: command.data }])
  }
}
