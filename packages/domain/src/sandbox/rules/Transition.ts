/** The sandbox state machine (docs/decisions/2.1): every allowed change of status as data, and the events of each change. */
import * as Data from "effect/Data"
import * as Result from "effect/Result"
import { textOf } from "./MessageQueue.ts"
import { type QuestionResolver, questionsOf } from "./Question.ts"
import type { Sandbox } from "./Sandbox.ts"
import type {
  ApprovalResolver,
  CancelReason,
  Initiator,
  SandboxEvent,
  SandboxEventOf,
  SandboxStatus,
  StatusReason
} from "./SandboxEvent.ts"
import { isActive, isAwaiting, type Turn, type TurnOutcome, type TurnState } from "./Turn.ts"

interface Cause {
  readonly to: SandboxStatus
  readonly from: ReadonlyArray<SandboxStatus>
  readonly initiator: Initiator
}

/** Sandboxes that start or run, for which people may still want something. */
export const live: ReadonlyArray<SandboxStatus> = ["queued", "creating", "running"]

/** Every allowed change of status, by its reason (docs/decisions/2.1). `terminated` is final. */
export const transitions = {
  leased: { from: ["queued"], to: "creating", initiator: "system" },
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
} as const satisfies Record<StatusReason | "leased" | "ready" | "released", Cause>

/** The causes of status changes. */
export type TransitionCause = keyof typeof transitions

/** The command is not allowed in the present state. Retrying it unchanged cannot succeed. */
export class IllegalTransition extends Data.TaggedError("IllegalTransition")<{ readonly command: string; readonly state: string }> {
  override get message() {
    return `${this.command} is not possible while ${this.state}`
  }
}

const statusEvent = (
  sandbox: Pick<Sandbox, "initiator" | "reason" | "status">,
  cause: TransitionCause
): SandboxEventOf<"sandbox.status"> => {
  const { initiator, to } = transitions[cause]
  return {
    type: "sandbox.status",
    data: {
      status: to,
      previous: sandbox.status,
      // A released sandbox keeps the reason and initiator that began its end.
      reason: cause === "released" ? sandbox.reason : cause === "leased" || cause === "ready" ? null : cause,
      initiator: cause === "released" ? sandbox.initiator : initiator
    }
  }
}

/** The events that deny all pending approvals and leave all pending questions without an answer, each oldest first. */
export const closeRequests = (sandbox: Sandbox, by: ApprovalResolver & QuestionResolver): Array<SandboxEvent> => {
  const inTurn = sandbox.turn === null ? {} : { turn_id: sandbox.turn.id }
  return [
    ...sandbox.approvals.map(({ approval_id }): SandboxEvent => ({
      type: "approval.resolved",
      ...inTurn,
      data: { approval_id, outcome: "denied", by }
    })),
    ...questionsOf(sandbox).map(({ question_id }): SandboxEvent => ({ type: "question.answered", ...inTurn, data: { question_id, by } }))
  ]
}

/** The state of a turn whose agent has these pending requests. */
export const stateWith = (approvals: number, questions: number): TurnState =>
  approvals > 0 ? "awaiting_approval" : questions > 0 ? "awaiting_answer" : "running"

/** A step of a turn. The caller has checked it against `turnTransitions`. */
export const turnUpdated = (
  turn: Turn,
  state: TurnState,
  more: { readonly reason?: "interrupt"; readonly initiator?: Initiator } = {}
): SandboxEvent => ({
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

/** The turn of the longest waiting message. Messages wait only while a turn of a running sandbox is active. */
export const nextTurn = (sandbox: Sandbox): Array<SandboxEvent> => {
  const [first] = sandbox.waiting
  return first === undefined ? [] : [turnPending(first.id, textOf(sandbox, first.id), first.authorId)]
}

/** The events that cancel all waiting messages. */
export const cancelWaiting = (sandbox: Sandbox, reason: CancelReason): Array<SandboxEvent> =>
  sandbox.waiting.map(({ id }) => ({ type: "message.cancelled", data: { message_id: id, reason } }))

interface EndOfTurn {
  readonly reason?: string
  readonly initiator?: Initiator
}

/** Like {@link closeTurn}, followed by the beginning of the next turn if a message waits. */
export const endTurn = (sandbox: Sandbox, state: TurnOutcome, more: EndOfTurn): Array<SandboxEvent> => [
  ...closeTurn(sandbox, state, more),
  ...nextTurn(sandbox)
]

/** The end of the active turn, after closing pending approvals and questions. Empty without an active turn. */
export const closeTurn = (
  sandbox: Sandbox,
  state: TurnOutcome,
  more: EndOfTurn
): Array<SandboxEvent> => {
  if (!isActive(sandbox.turn)) return []
  const { id } = sandbox.turn
  // An agent never took a pending turn, so its end is always `cancelled`.
  const outcome = sandbox.turn.state === "pending" ? "cancelled" : state === "cancelled" ? "interrupted" : state
  return [...closeRequests(sandbox, "turn_end"), { type: "turn.completed", turn_id: id, data: { state: outcome, ...more } }]
}

/** A publication that no worker will execute must not stay pending. */
const abandonPublications = (sandbox: Sandbox): Array<SandboxEventOf<"pull_request.updated">> =>
  sandbox.publications
    .filter(({ actionState }) => actionState === "publishing" || actionState === "updating")
    .map(({ repo }) => ({
      type: "pull_request.updated",
      data: { repo, action_state: "failed", error: { code: "sandbox_not_running", message: "The sandbox is not running." } }
    }))

/** The change of status, after the events that must come before it. */
export const moveTo = (sandbox: Sandbox, cause: TransitionCause): Result.Result<Array<SandboxEvent>, IllegalTransition> => {
  const { from, initiator, to } = transitions[cause]
  if (!(from as ReadonlyArray<SandboxStatus>).includes(sandbox.status)) {
    return Result.fail(new IllegalTransition({ command: cause, state: sandbox.status }))
  }
  const before = to === "terminating" ?
    // The worker ends the turn when the agent has ended; a person can no longer decide or answer.
    [
      ...closeRequests(sandbox, "terminate"),
      ...(sandbox.turn !== null && isAwaiting(sandbox.turn.state) ? [turnUpdated(sandbox.turn, "running")] : [])
    ]
    // Whatever the result of the release, a remaining turn ends with the cause of the sandbox's end.
    : sandbox.status === "terminating" ?
    closeTurn(sandbox, "interrupted", { reason: sandbox.reason ?? "terminated", initiator: sandbox.initiator })
    // Among the other changes, only failures find an active turn.
    : closeTurn(sandbox, "failed", { reason: cause, initiator })
  const changed = statusEvent(sandbox, cause)
  return Result.succeed([
    ...(live.includes(to) ? [] : [...abandonPublications(sandbox), ...cancelWaiting(sandbox, "sandbox_ended")]),
    ...before,
    changed,
    // A queued sandbox has no data on any host, so it needs no release.
    ...(sandbox.status === "queued" && to === "terminating" ? [statusEvent(changed.data, "released")] : [])
  ])
}

/** The step of a turn whose agent waits for this many requests from now on. Empty: its state does not change. */
const goOn = (turn: Turn | null, approvals: number, questions: number): Array<SandboxEvent> => {
  const state = stateWith(approvals, questions)
  return turn !== null && isAwaiting(turn.state) && turn.state !== state ? [turnUpdated(turn, state)] : []
}

/** The resolved approvals, and the continuation of the turn if no other request is pending. */
export const resolveApprovals = (
  sandbox: Sandbox,
  resolved: ReadonlyArray<SandboxEventOf<"approval.resolved">["data"]>
): Array<SandboxEvent> => {
  const { turn } = sandbox
  const ids = new Set(resolved.map(({ approval_id }) => approval_id))
  const others = sandbox.approvals.filter(({ approval_id }) => !ids.has(approval_id))
  const inTurn = turn === null ? {} : { turn_id: turn.id }
  return [
    ...resolved.map((data): SandboxEvent => ({ type: "approval.resolved", ...inTurn, data })),
    ...goOn(turn, others.length, questionsOf(sandbox).length)
  ]
}

/** The end of one request for answers, and the continuation of the turn if no other request is pending. */
export const closeQuestion = (sandbox: Sandbox, data: SandboxEventOf<"question.answered">["data"]): Array<SandboxEvent> => {
  const { approvals, turn } = sandbox
  const others = questionsOf(sandbox).filter(({ question_id }) => question_id !== data.question_id)
  return [
    { type: "question.answered", ...(turn === null ? {} : { turn_id: turn.id }), data },
    ...goOn(turn, approvals.length, others.length)
  ]
}
