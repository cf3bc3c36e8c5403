/**
 * The commands of people (docs/decisions/3, 18 and 22): terminate, interrupt, decide an approval, answer a question, send a message,
 * withdraw a waiting message, restore a checkpoint, rename. Each has a natural identity, so that a repetition finds the first. Every
 * command is decided under the lock of its sandbox and stored before it is answered.
 */
import * as Data from "effect/Data"
import * as Result from "effect/Result"
import type { Ids, Uuid } from "../../ids/Ids.ts"
import type { DenialTelling } from "../../models/rules/Steering.ts"
import type { Rejection } from "../schema/Command.ts"
import type { AttachedFile } from "../schema/PromptFile.ts"
import { type Approval, type ApprovalDecision, coveredKind, denialMessage, outcomeOf } from "./Approval.ts"
import { isWaiting, MAX_WAITING, placeOf, type WhenBusy } from "./MessageQueue.ts"
import { misfitOf, type QuestionReply, type QuestionState, questionsOf, replyText } from "./Question.ts"
import { isSettled, type Sandbox } from "./Sandbox.ts"
import type { SandboxEvent } from "./SandboxEvent.ts"
import { closeQuestion, closeRequests, moveTo, nextTurn, resolveApprovals, turnPending, turnUpdated } from "./Transition.ts"
import { isActive, turnId } from "./Turn.ts"

export type { CommandResult, Rejection } from "../schema/Command.ts"

/** The stored record of a command, found by its identity. */
export interface Receipt {
  readonly commandId: Uuid
  /** The revision of the sandbox after the command. A rejected command does not change it. */
  readonly revision: number
  readonly outcome: "applied" | "rejected"
  /** The turn that the command started or waits for; `null`: it was no message, or was rejected. */
  readonly turnId: Uuid | null
}

/** The sandbox has no such checkpoint, or it was deleted. */
export class CheckpointNotFound extends Data.TaggedError("CheckpointNotFound") {
  override get message() {
    return "No such checkpoint."
  }
}

/** No such approval in this sandbox. */
export class ApprovalNotFound extends Data.TaggedError("ApprovalNotFound") {
  override get message() {
    return "No such approval."
  }
}
/** No such question in this sandbox. */
export class QuestionNotFound extends Data.TaggedError("QuestionNotFound") {
  override get message() {
    return "No such question."
  }
}
/** The answers do not fit the questions. `detail`: a sentence that says why. Nothing was recorded; other answers may fit. */
export class AnswerInvalid extends Data.TaggedError("AnswerInvalid")<{ readonly detail: string }> {
  override get message() {
    return this.detail
  }
}
/** Calls like this one cannot be approved for the rest of the turn. `isEdit`: the call is an edit, but not of plain files. */
export class ScopeUnsupported extends Data.TaggedError("ScopeUnsupported")<{ readonly isEdit: boolean }> {
  override get message() {
    return this.isEdit
      ? "The edit deletes a file, or changes a file that is protected or outside the repositories. Approve it alone."
      : "The agent does not say of which kind this is. Approve it alone."
  }
}
/** The sandbox is not running, so it cannot take messages, show files or publish. */
export class SandboxNotRunning extends Data.TaggedError("SandboxNotRunning") {
  override get message() {
    return "The sandbox is not running."
  }
}
/** A turn is active, so the message would have to wait. */
export class TurnActive extends Data.TaggedError("TurnActive") {
  override get message() {
    return "A turn is active. Wait for its end or interrupt it."
  }
}
/** The queue of waiting messages is full. A retry helps after one was withdrawn or got its turn. */
export class QueueFull extends Data.TaggedError("QueueFull") {
  override get message() {
    return `${MAX_WAITING} messages wait already. Take one back, or wait for the next turn.`
  }
}
/** The sandbox's agent takes no messages during a turn. */
export class SteeringUnsupported extends Data.TaggedError("SteeringUnsupported") {
  override get message() {
    return "The agent of this sandbox takes no message while a turn is active. Queue the message instead."
  }
}
/** The sandbox has no message of a person with this id. */
export class MessageNotFound extends Data.TaggedError("MessageNotFound") {
  override get message() {
    return "No such message."
  }
}
/** The message no longer waits, so it cannot be withdrawn. `isActive`: its own turn is active. */
export class MessageNotWaiting extends Data.TaggedError("MessageNotWaiting")<{ readonly isActive: boolean }> {
  override get message() {
    return this.isActive
      ? "The turn of this message is active already. Interrupt it to stop it."
      : "This message waits no longer: its turn is over, its agent has it, or it was cancelled."
  }
}

/** The result of a command. `duplicate`: an equal command took effect before. */
export type Verdict =
  | { readonly outcome: "applied"; readonly events: ReadonlyArray<SandboxEvent> }
  | { readonly outcome: "duplicate" }
  | { readonly outcome: "rejected"; readonly rejection: Rejection }

/** The input of a decision, read under the lock of the sandbox. */
export interface Current {
  readonly sandbox: Sandbox
  /** The receipt with the command's identity. */
  readonly receipt: Receipt | null
  /** The approval that the command names. */
  readonly approval: Approval | null
  /** The request for answers that the command names; absent: it names none. */
  readonly question?: QuestionState | null
  /** Whether the receipt of another command has the turn that this command names. */
  readonly isMessage: boolean
}

/** A person's command, decided under the lock of its sandbox. Pure. `E`: the caller's errors. */
export interface Command<E> {
  /** Two commands with the same identity are the same command. */
  identity(sandbox: Sandbox): Uuid
  /** The id of the approval that the command decides, or `null`. */
  readonly approvalId: string | null
  /** The id of the request for answers that the command answers. */
  readonly questionId?: string
  /** The id of the message that the command withdraws: the turn of an earlier command. */
  readonly messageId?: string
  /** Applies the first case of docs/decisions/3 that matches. */
  decide(current: Current): Result.Result<Verdict, E>
}

const applied = (events: ReadonlyArray<SandboxEvent>): Result.Result<Verdict> => Result.succeed({ outcome: "applied", events })
const rejected = (rejection: Rejection): Result.Result<Verdict> => Result.succeed({ outcome: "rejected", rejection })
const duplicate: Result.Result<Verdict> = Result.succeed({ outcome: "duplicate" })

/** The sandbox has ended or is ending: no worker runs it any more. */
const isOver = (sandbox: Sandbox) => sandbox.status === "terminating" || isSettled(sandbox.status)

type Derive = Pick<Ids["Service"], "derive">

/** Ends the sandbox. Never rejected. */
export const terminate = (ids: Derive): Command<never> => ({
  identity: ({ id }) => ids.derive(`${id}/terminate`),
  approvalId: null,
  decide: ({ receipt, sandbox }) =>
    receipt?.outcome === "applied"
      ? duplicate
      // A sandbox that a time limit or a revoked grant is already ending accepts the command: there is nothing left to change.
      : applied(Result.getOrElse(moveTo(sandbox, "terminated"), () => []))
})

/** Ends the active turn. */
export const interrupt = (ids: Derive): Command<never> => ({
  identity: ({ id, revision, turn }) =>
    // Naming an ended turn finds the interrupt that ended it, if any.
    ids.derive(
      turn !== null && (isActive(turn) || turn.interruptRequested)
        ? `${id}/interrupt/${turn.id}`
        : `${id}/interrupt/none/${revision}`
    ),
  approvalId: null,
  decide: ({ receipt, sandbox }) => {
    if (receipt?.outcome === "applied") return duplicate
    if (isOver(sandbox)) return rejected("sandbox_terminal")
    const { turn } = sandbox
    if (!isActive(turn)) return rejected("no_active_turn")
    const asked = { reason: "interrupt", initiator: "user" } as const
    // A pending turn has no agent, so it ends here. Other turns end when their agent answers.
    return applied([
      ...closeRequests(sandbox, "interrupt"),
      turn.state === "pending"
        ? { type: "turn.completed", turn_id: turn.id, data: { state: "cancelled", ...asked } }
        : turnUpdated(turn, "running", asked),
      ...(turn.state === "pending" ? nextTurn(sandbox) : [])
    ])
  }
})

/** The user who decides, and how the sandbox's agent gets the reason of a denial. */
export interface Decider {
  readonly userId: string
  tellingOf(sandbox: Sandbox): DenialTelling
}

/**
 * Approves or denies a pending tool call. With the scope of a turn it also approves the waiting calls of the same kind. A reason that
 * the agent cannot get with the denial becomes a waiting message.
 */
export const decideApproval = (
  ids: Derive,
  approvalId: string,
  { decision, reason, scope }: ApprovalDecision,
  { tellingOf, userId }: Decider
): Command<ApprovalNotFound | QueueFull | ScopeUnsupported> => ({
  // The identity leaves out scope and reason: repeating the decision with others finds it decided.
  identity: ({ id }) => ids.derive(`${id}/approval/${approvalId}/${decision}`),
  approvalId,
  decide: ({ approval, sandbox }) => {
    if (approval === null) return Result.fail(new ApprovalNotFound())
    const outcome = outcomeOf[decision]
    if (approval.by === "user" && approval.outcome === outcome) return duplicate
    if (isOver(sandbox)) return rejected("sandbox_terminal")
    if (approval.by === "timeout") return rejected("approval_expired")
    if (approval.outcome !== null) return rejected("approval_already_resolved")
    const request = sandbox.approvals.find(({ approval_id }) => approval_id === approvalId)
    const kind = scope === "turn" ? coveredKind(request ?? {}) : null
    if (scope === "turn" && kind === null) return Result.fail(new ScopeUnsupported({ isEdit: request?.kind === "edit" }))
    const covered = sandbox.approvals.filter((other) => kind !== null && other.approval_id !== approvalId && coveredKind(other) === kind)
    const resolved = resolveApprovals(sandbox, [
      {
        approval_id: approvalId,
        outcome,
        by: "user",
        ...(scope === undefined ? {} : { scope }),
        ...(reason === undefined ? {} : { reason })
      },
      ...covered.map(({ approval_id }) => ({ approval_id, outcome, by: "policy" as const }))
    ])
    const telling = tellingOf(sandbox)
    if (reason === undefined || telling === "answer") return applied(resolved)
    return Result.map(
      queued(ids, sandbox, denialMessage(request?.tool ?? "", reason), userId, telling === "steer"),
      (message): Verdict => ({ outcome: "applied", events: [...resolved, message] })
    )
  }
})

/** Answers or dismisses an agent's request for answers. The first answer is final. */
export const answerQuestion = (
  ids: Derive,
  questionId: string,
  reply: QuestionReply
): Command<AnswerInvalid | QuestionNotFound> => ({
  identity: ({ id }) => ids.derive(`${id}/question/${questionId}/${replyText(reply)}`),
  approvalId: null,
  questionId,
  decide: ({ question = null, sandbox }) => {
    if (question === null) return Result.fail(new QuestionNotFound())
    if (question.by === "user" && replyText(question) === replyText(reply)) return duplicate
    if (isOver(sandbox)) return rejected("sandbox_terminal")
    if (question.by === "timeout") return rejected("question_expired")
    if (question.by !== null || !isActive(sandbox.turn)) return rejected("question_already_answered")
    const { answers } = reply
    const request = questionsOf(sandbox).find(({ question_id }) => question_id === questionId)
    // A write of an earlier version may have lost the request; its agent waits all the same.
    const misfit = request === undefined || answers === undefined ? null : misfitOf(request, answers)
    if (misfit !== null) return Result.fail(new AnswerInvalid({ detail: misfit }))
    return applied(closeQuestion(sandbox, { question_id: questionId, by: "user", ...(answers === undefined ? {} : { answers }) }))
  }
})

/** The number of prompts that the sandbox has accepted. Each is numbered like the turn that it would get, even if it gets none. */
export const promptsOf = ({ turn, turnless, waiting }: Sandbox): number => (turn?.n ?? 0) + waiting.length + turnless

/** The event of a message that begins to wait. Its id is that of its turn. */
const queued = (
  ids: Derive,
  sandbox: Sandbox,
  text: string,
  authorId: string,
  steers: boolean,
  files: ReadonlyArray<AttachedFile> = []
): Result.Result<SandboxEvent, QueueFull> => {
  if (sandbox.waiting.length >= MAX_WAITING) return Result.fail(new QueueFull())
  return Result.succeed({
    type: "message.queued",
    data: {
      message_id: turnId(ids, sandbox.id, promptsOf(sandbox) + 1),
      position: placeOf(sandbox, steers) + 1,
      text,
      author: { id: authorId },
      steers,
      ...(files.length === 0 ? {} : { files })
    }
  })
}

/** The treatment of a message while a turn is active. */
export interface Busy {
  readonly whenBusy: WhenBusy
  /** Whether the sandbox's agent can be steered. */
  canSteer(sandbox: Sandbox): boolean
}

/** Starts the next turn, or adds the message to the queue. Its id is that of its turn. */
export const sendMessage = (
  ids: Derive,
  prompt: string,
  authorId: string,
  { canSteer, whenBusy }: Busy = { whenBusy: "reject", canSteer: () => false },
  files: ReadonlyArray<AttachedFile> = []
): Command<QueueFull | SandboxNotRunning | SteeringUnsupported | TurnActive> => ({
  identity: (sandbox) => ids.derive(`${sandbox.id}/message/${promptsOf(sandbox) + 1}`),
  approvalId: null,
  decide: ({ sandbox }) => {
    if (sandbox.status !== "running") return Result.fail(new SandboxNotRunning())
    if (!isActive(sandbox.turn)) return applied([turnPending(turnId(ids, sandbox.id, promptsOf(sandbox) + 1), prompt, authorId, files)])
    if (whenBusy === "reject") return Result.fail(new TurnActive())
    const steers = whenBusy === "steer"
    if (steers && !canSteer(sandbox)) return Result.fail(new SteeringUnsupported())
    return Result.map(
      queued(ids, sandbox, prompt, authorId, steers, files),
      (message): Verdict => ({ outcome: "applied", events: [message] })
    )
  }
})

/** Withdraws a waiting message. */
export const cancelMessage = (ids: Derive, messageId: string): Command<MessageNotFound | MessageNotWaiting> => ({
  identity: ({ id }) => ids.derive(`${id}/cancel/${messageId}`),
  approvalId: null,
  messageId,
  decide: ({ isMessage, receipt, sandbox }) => {
    if (receipt?.outcome === "applied") return duplicate
    if (isWaiting(sandbox, messageId)) {
      return applied([{ type: "message.cancelled", data: { message_id: messageId, reason: "command" } }])
    }
    if (sandbox.turn?.id === messageId) return Result.fail(new MessageNotWaiting({ isActive: isActive(sandbox.turn) }))
    // The first prompt came with the creation, which has no receipt.
    const isFirst = () => promptsOf(sandbox) > 0 && turnId(ids, sandbox.id, 1) === messageId
    return Result.fail(isMessage || isFirst() ? new MessageNotWaiting({ isActive: false }) : new MessageNotFound())
  }
})

/**
 * Restores trees and conversation to a checkpoint, between turns; the log continues. `isKept`: its bytes are stored. A worker executes
 * it. The identity counts restores, so a later restore of the same checkpoint is a new command.
 */
export const restore = (ids: Derive, checkpoint: number, isKept: boolean): Command<CheckpointNotFound | SandboxNotRunning> => ({
  identity: ({ id, restores }) => ids.derive(`${id}/restore/${checkpoint}/${restores}`),
  approvalId: null,
  decide: ({ receipt, sandbox }) => {
    if (receipt?.outcome === "applied") return duplicate
    if (isOver(sandbox)) return rejected("sandbox_terminal")
    if (sandbox.status !== "running") return Result.fail(new SandboxNotRunning())
    if (isActive(sandbox.turn)) return rejected("turn_active")
    if (sandbox.restoring !== null) return rejected("restore_active")
    if (!isKept || checkpoint < 1 || checkpoint > sandbox.checkpoint) return Result.fail(new CheckpointNotFound())
    return applied([{ type: "sandbox.restoring", data: { checkpoint } }])
  }
})

/**
 * Makes the host's newest commits of its branches available to the agent's git, between turns. A worker executes it. The identity counts
 * syncs, so the next one is a new command.
 */
export const sync = (ids: Derive): Command<SandboxNotRunning | TurnActive> => ({
  identity: ({ id, syncs }) => ids.derive(`${id}/sync/${syncs}`),
  approvalId: null,
  decide: ({ receipt, sandbox }) => {
    if (receipt?.outcome === "applied") return duplicate
    if (isOver(sandbox)) return rejected("sandbox_terminal")
    if (sandbox.status !== "running") return Result.fail(new SandboxNotRunning())
    if (isActive(sandbox.turn)) return Result.fail(new TurnActive())
    if (sandbox.restoring !== null) return rejected("restore_active")
    return applied([{ type: "sandbox.syncing", data: { repos: sandbox.repos.map(({ fullName }) => fullName) } }])
  }
})

/**
 * Gives the sandbox another title, in any status. Never rejected. The identity counts renames, so the same title after another one is a
 * new command.
 */
export const rename = (ids: Derive, title: string): Command<never> => ({
  identity: ({ id, renames, title: current }) =>
    // Naming the rename that gave the present title finds it.
    ids.derive(`${id}/rename/${title === current ? Math.max(renames - 1, 0) : renames}/${title}`),
  approvalId: null,
  decide: ({ receipt, sandbox }) =>
    receipt?.outcome === "applied"
      ? duplicate
      : applied(title === sandbox.title ? [] : [{ type: "sandbox.renamed", data: { title } }])
})
