/** Labels for the states, reasons and amounts of a sandbox, as pages and the command show them. */
import type { TokenCounts } from "@slipway/domain/models/rules/Usage"
import type { Rejection } from "@slipway/domain/sandbox/rules/Command"
import type { Answers, Question, QuestionResolver } from "@slipway/domain/sandbox/rules/Question"
import type {
  ApprovalOutcome,
  ApprovalResolver,
  SandboxEventOf,
  SandboxStatus,
  StatusReason
} from "@slipway/domain/sandbox/rules/SandboxEvent"
import type { TurnState } from "@slipway/domain/sandbox/rules/Turn"
import type { ActionState } from "@slipway/domain/source/schema/PullRequest"

const grouped = new Intl.NumberFormat("en-US")

/** `12,345 in, 9,000 of them cached, 678 out`; `null`: none were counted. */
export const tokensTold = ({ cachedInput, input, output }: TokenCounts): string | null => {
  if (input === 0 && output === 0) return null
  const cached = cachedInput === 0 ? "" : `, ${grouped.format(cachedInput)} of them cached`
  return `${grouped.format(input)} in${cached}, ${grouped.format(output)} out`
}

/** An amount in US dollars with four decimals: a sandbox often costs less than a cent. */
export const dollars = (microUsd: number): string => `$${(microUsd / 1_000_000).toFixed(4)}`

/** A change of the status, in the log of a sandbox. */
const status: Record<SandboxStatus, string> = {
  queued: "Starting",
  creating: "Starting",
  running: "Started",
  succeeded: "Ended",
  failed: "Failed",
  terminating: "Ending",
  terminated: "Ended"
}

const reason: Record<StatusReason, string> = {
  queue_timeout: "No worker was free in time.",
  boot_timeout: "Starting timed out.",
  boot_failed: "Starting failed.",
  clone_failed: "A repository could not be cloned.",
  repo_not_accessible: "A repository is not accessible.",
  idle_timeout: "Ended after inactivity.",
  last_turn_failed: "Ended after a failed turn.",
  agent_lost: "The agent was lost.",
  host_lost: "The machine was lost.",
  terminated: "Ended by a person.",
  max_lifetime: "Reached its maximum lifetime.",
  grant_revoked: "The grant was revoked.",
  release_failed: "Cleanup was not confirmed."
}

const turn: Record<TurnState, string> = {
  pending: "Working",
  running: "Working",
  awaiting_approval: "Needs you",
  awaiting_answer: "Needs you",
  succeeded: "Done",
  failed: "The turn failed",
  interrupted: "The turn was interrupted",
  cancelled: "The turn was cancelled"
}

/** The reasons for the end of a turn as sentences, by code. */
const turnReason: Readonly<Record<string, string>> = {
  ...reason,
  interrupt: "Stopped by a person.",
  worker_shutdown: "The service was stopped. Send the message again.",
  agent_lost: "The agent was lost. Send the message again.",
  turn_timeout: "Timed out.",
  output_limit: "The turn hit its output limit.",
  out_of_memory: "The sandbox ran out of memory, and its agent was ended. Send the message again.",
  too_many_processes: "The sandbox had too many processes, and its agent was lost. Send the message again.",
  machine_lost: "The machine was lost, and with it what the turn had changed.",
  budget_exceeded: "Budget used up. An administrator can raise it.",
  no_credits: "The credits are used up."
}

const restored: Record<SandboxEventOf<"sandbox.restored">["data"]["cause"], string> = {
  machine_lost: "The machine was lost; the sandbox continues on another one.",
  machine_drained: "The sandbox moved to another machine.",
  command: "Restored to an earlier checkpoint.",
  fork: "Forked from another sandbox."
}

const finish: Record<SandboxEventOf<"message.completed">["data"]["finish"], string> = {
  end_turn: "",
  max_tokens: "The model stopped: its answer became too long.",
  refusal: "The model refused to go on.",
  cancelled: "The answer was cut off.",
  error: "The answer ended with an error."
}

const approval: Record<ApprovalOutcome, string> = { approved: "Approved", denied: "Denied" }

const approvalBy: Record<ApprovalResolver, string> = {
  user: "",
  policy: "automatically, for this turn",
  timeout: "expired without a decision",
  interrupt: "the turn was interrupted",
  terminate: "the sandbox was terminated",
  turn_end: "the turn ended"
}

const approvedForTurn = "with all others of its kind until the turn ends"

/** Why there is no answer to a question. */
const unanswered: Record<QuestionResolver, string> = {
  user: "Dismissed",
  timeout: "Not answered in time",
  interrupt: "Not answered: the turn was interrupted",
  terminate: "Not answered: the sandbox was terminated",
  turn_end: "Not answered: the turn ended"
}

/** A person's answers, a line for each question; without its text if there is one question. */
const answers = (given: Answers, questions: ReadonlyArray<Pick<Question, "id" | "text">> = []): string => {
  const textOf = (id: string) => questions.find((one) => one.id === id)?.text
  const entries = Object.entries(given)
  return entries.map(([id, { labels = [], text }]) => {
    const said = [...labels, ...(text === undefined ? [] : [text])].join(", ")
    const asked = textOf(id)
    return asked === undefined || questions.length === 1 ? said : `${asked} ${said}`
  }).join("\n")
}

const action: Record<ActionState, string> = { idle: "", publishing: "Publishing", updating: "Updating", failed: "Publishing failed" }

const rejection: Record<Rejection, string> = {
  sandbox_terminal: "The sandbox has ended, so nothing was changed.",
  no_active_turn: "The agent isn't working.",
  approval_expired: "This approval expired and was denied.",
  approval_already_resolved: "Already decided; the first decision stands.",
  question_expired: "This question expired; the agent went on without an answer.",
  question_already_answered: "Already answered; the first answer stands.",
  turn_active: "The agent is working. Wait for it or stop it, then restore.",
  restore_active: "Another checkpoint is being restored. Wait for it."
}

const FEEDBACK = { review: "A review", comment: "Comments", checks: "Failing checks" } as const

/** The feedback that became a message of the sandbox. */
const feedback = (
  { authors, kind, repo, sandbox_id }: {
    readonly authors: ReadonlyArray<string>
    readonly kind: keyof typeof FEEDBACK
    readonly repo: string
    readonly sandbox_id?: string
  }
): string => {
  const from = authors.length === 0 ? "" : ` by ${authors.join(", ")}`
  return `${FEEDBACK[kind]} of the pull request of ${repo}${from}${sandbox_id === undefined ? "" : `: ${sandbox_id} goes on with it`}`
}

/** Why feedback waits, and what to do. `reason`: why no new sandbox may go on with a finished one. */
const paused = ({ reason, rounds }: { readonly reason?: string; readonly rounds: number }): string =>
  reason === undefined
    ? `Feedback is paused: ${rounds} ${rounds === 1 ? "round" : "rounds"} without a person's word. Send a message, comment, or continue.`
    : `Feedback is paused, because no new sandbox may go on: ${reason} The service tries again each hour.`

export const labels = {
  status,
  reason,
  turn,
  turnReason,
  restored,
  finish,
  approval,
  approvalBy,
  approvedForTurn,
  unanswered,
  answers,
  feedback,
  paused,
  action,
  rejection
}
