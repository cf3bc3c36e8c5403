/**
 * Episodes of a sandbox's life: a boot that runs out of time, an approval that its turn's end denies, a message that waits. Each is a few
 * actions that make sense in the present state, so that a short list of them is a long life.
 */
import { coveredKind } from "@slipway/domain/sandbox/rules/Approval"
import { MAX_WAITING } from "@slipway/domain/sandbox/rules/MessageQueue"
import { type QuestionReply, questionsOf } from "@slipway/domain/sandbox/rules/Question"
import type { SystemCommand } from "@slipway/domain/sandbox/rules/SystemCommand"
import type { ToolKind } from "@slipway/domain/sandbox/rules/ToolCall"
import { turnId } from "@slipway/domain/sandbox/rules/Turn"
import * as Duration from "effect/Duration"
import {
  type Asked,
  decisionOf,
  type Deciding,
  type History,
  ids,
  inquiry,
  limits,
  recordCheckpoint,
  REPLY,
  request,
  synced,
  TITLES
} from "./History.ts"

/** Plays one episode. `n` chooses among its variants. */
export type Episode = (history: History, n: number) => void

const REPO = "acme/shop"
const SHA = "0123456789abcdef0123456789abcdef01234567"

const system = (command: SystemCommand): Episode => (history) => void history.system(command)
const person = (asked: Asked): Episode => (history) => void history.person(asked)
const inOrder = (...episodes: ReadonlyArray<Episode>): Episode => (history, n) => {
  for (const episode of episodes) episode(history, n)
}
/** Episodes that end the life are many, so that those by which it goes on must be likely. */
const often = (episode: Episode, times = 3): ReadonlyArray<Episode> => Array.from({ length: times }, () => episode)
const oneOf = <A>(n: number, options: readonly [A, ...ReadonlyArray<A>]): A => options[n % options.length] ?? options[0]
const any = (...options: readonly [Episode, ...ReadonlyArray<Episode>]): Episode => (history, n) =>
  oneOf(n, options)(history, Math.floor(n / options.length))
const passes = (limit: Duration.Input): Episode => (history) => void history.wait(limit).system({ _tag: "Expire" })

/** The `n`th call, or the next undecided one: an agent never reuses the id of a decided call. */
export const freshCall = (history: History, n: number): string => {
  const known = history.approvals.find(({ approvalId }) => approvalId === `call-${n}`)
  return known === undefined || known.outcome === null ? `call-${n}` : freshCall(history, n + 1)
}

/** The `n`th question, or the next question that is not over: an agent never reuses the id of such a question. */
export const freshQuestion = (history: History, n: number): string => {
  const known = history.questions.find(({ questionId }) => questionId === `question-${n}`)
  return known === undefined || known.by === null ? `question-${n}` : freshQuestion(history, n + 1)
}

// ---------------------------------------------------------------------------------------------------------------
// Boots

const setup: Episode = (history, n) => {
  history.system({ _tag: "StartSetup", limit: Duration.minutes(oneOf(n, [20, 40, 90])) })
  history.wait(oneOf(n, ["3 minutes", "5 minutes"]))
  history.system({ _tag: "ReportBoot", data: { stage: "setup", ms: 180_000, cache: oneOf(n, ["hit", "miss", "none"]) } })
}
const leased = system({ _tag: "StartBoot" })
const clones = inOrder(
  system({ _tag: "ReportBoot", data: { stage: "provision", ms: 7 } }),
  system({ _tag: "ReportBoot", data: { stage: "clone", ms: 12, repo: REPO } })
)
const ready: Episode = (history) => {
  history.system({ _tag: "ReportBoot", data: { stage: "mcp", ms: 3, server: "docs" } })
  history.system({ _tag: "ReportBoot", data: { stage: "agent_start", ms: 30 } })
  history.system({ _tag: "ReportBoot", data: { stage: "ready", ms: 50 } })
  history.system({ _tag: "FinishBoot", turnId: history.turn })
}
const starts: Episode = (history) => {
  if (history.sandbox.turn?.state === "pending") history.system({ _tag: "StartTurn", turnId: history.turn })
}
const boots = inOrder(clones, setup, ready, starts)
const fails = (reason: Extract<SystemCommand, { readonly _tag: "Fail" }>["reason"]) =>
  system({ _tag: "Fail", reason, error: `It was ${reason}.`, retryable: false })
const forks: Episode = (history) => {
  const { checkpoint } = history.sandbox.origin ?? { checkpoint: 1 }
  history.system({ _tag: "RecordRestore", data: { checkpoint, cause: "fork" } })
}

const terminates = person({ _tag: "Terminate" })
const revoked = system({ _tag: "RevokeGrant" })
const ages = passes(limits.lifetime)
const released: Episode = (history) => {
  if (history.sandbox.status === "terminating") history.system({ _tag: "Release" })
}

const queued: ReadonlyArray<Episode> = [
  ...often(inOrder(leased, boots), 8),
  leased,
  leased,
  passes(limits.queue),
  terminates,
  revoked,
  ages
]

const creating: ReadonlyArray<Episode> = [
  ...often(boots, 4),
  // Another worker boots it again after the first was lost.
  inOrder(clones, leased, boots),
  inOrder(forks, ready, starts),
  passes(limits.boot),
  inOrder(clones, setup, passes("2 hours")),
  fails("boot_failed"),
  fails("clone_failed"),
  fails("repo_not_accessible"),
  inOrder(terminates, released),
  inOrder(revoked, released),
  inOrder(ages, released)
]

// ---------------------------------------------------------------------------------------------------------------
// Turns

const ends = (state: "succeeded" | "failed" | "interrupted", more: { readonly reason?: string } = {}): Episode => (history) =>
  void history.system({ _tag: "EndTurn", turnId: history.turn, state, ...more })

const sends = (whenBusy: "queue" | "steer"): Episode => (history) => {
  if (history.sandbox.waiting.length < MAX_WAITING) history.person({ _tag: "Send", prompt: `And ${whenBusy}?`, whenBusy })
}
const fillsQueue: Episode = (history) => {
  while (history.sandbox.waiting.length < MAX_WAITING) history.person({ _tag: "Send", prompt: "And?", whenBusy: "queue" })
}
const cancelsLast: Episode = (history) => {
  const last = history.sandbox.waiting.at(-1)
  if (last !== undefined) history.person({ _tag: "Cancel", messageId: last.id })
}
const takesSteer: Episode = (history) => {
  const [first] = history.sandbox.waiting
  if (first?.steers === true) history.system({ _tag: "RecordSteer", turnId: history.turn, messageId: first.id })
}

const works: Episode = (history, n) => {
  const turn = history.turn
  const message = (part: string, kind: "reasoning" | "text", text: string) => ({
    type: "message.updated" as const,
    data: { part_id: `m1:${part}`, message_id: "m1", kind, text }
  })
  const tool = (status: "pending" | "running" | "completed" | "error") => ({
    type: "tool.updated" as const,
    data: {
      part_id: "tool:1",
      message_id: `turn-tools:${turn}`,
      call_id: "1",
      tool: "write",
      status,
      ...(n % 3 === 0 ? { kind: "mcp" as const } : {})
    }
  })
  const finish = oneOf(n, ["end_turn", "max_tokens", "refusal", "cancelled", "error"] as const)
  history.system({ _tag: "RecordWork", turnId: turn, events: [message("thought", "reasoning", "Hm"), message("text", "text", "Hello")] })
  history.system({ _tag: "RecordWork", turnId: turn, events: [tool("pending"), tool("running"), tool(oneOf(n, ["completed", "error"]))] })
  if (n % 2 === 1) {
    const entries = [{ text: "Write it", status: "completed" as const }]
    history.system({ _tag: "RecordWork", turnId: turn, events: [{ type: "plan.updated", data: { part_id: `plan:${turn}`, entries } }] })
  }
  history.system({
    _tag: "ReportUsage",
    usage: { llmRequestCount: 3 + n, costMicroUsd: 1200 + n, creditsChargedMicros: 0 },
    ...(n % 2 === 0 ? { tokens: { input: 900 + n, cachedInput: 300, output: 77 } } : {})
  })
  history.system({ _tag: "RecordWork", turnId: turn, events: [{ type: "message.completed", data: { message_id: "m1", finish } }] })
}

const KINDS = ["edit", "command", "network", "mcp"] as const
const asks = (kind?: ToolKind): Episode => (history, n) =>
  void history.system(request(history.turn, freshCall(history, history.approvals.length + 1), kind ?? oneOf(n, KINDS)))
/** Decides the oldest request, by `by` if the rules allow that now. */
export const decides = (by: typeof Deciding.Type): Episode => (history) => {
  const [oldest] = history.sandbox.approvals
  if (oldest === undefined) return
  const isAllowed = by === "deny because"
    ? history.sandbox.waiting.length < MAX_WAITING
    : by !== "approve all" || coveredKind(oldest) !== null
  const decision = decisionOf(isAllowed ? by : by === "approve all" ? "approve" : "deny")
  history.person({ _tag: "Decide", approvalId: oldest.approval_id, ...decision })
}
/** Someone decides what is decided already. */
const disagrees = (by: "approve" | "deny"): Episode => (history, n) => {
  const decided = history.approvals.filter(({ outcome }) => outcome !== null)
  const approval = decided[n % decided.length]
  if (approval !== undefined) history.person({ _tag: "Decide", approvalId: approval.approvalId, decision: by })
}
const inquires: Episode = (history) => void history.system(inquiry(history.turn, freshQuestion(history, history.questions.length + 1)))
/** Replies to the oldest request for answers. */
export const replies = (reply: QuestionReply): Episode => (history) => {
  const [oldest] = questionsOf(history.sandbox)
  if (oldest !== undefined) history.person({ _tag: "Answer", questionId: oldest.question_id, reply })
}
const dismisses = replies({ dismiss: true })
/** Someone answers what is over. */
const answersLate: Episode = (history, n) => {
  const over = history.questions.filter(({ by }) => by !== null)
  const question = over[n % over.length]
  if (question !== undefined) {
    history.person({ _tag: "Answer", questionId: question.questionId, reply: n % 2 === 0 ? REPLY : { dismiss: true } })
  }
}
const interrupts = person({ _tag: "Interrupt" })
const limited: Episode = (history, n) =>
  void history.system({
    _tag: "ReportBoxLimit",
    turnId: history.turn,
    limit: oneOf(n, ["out_of_memory", "too_many_processes"])
  })
const outOf = (reason: "budget_exceeded" | "no_credits"): Episode => (history) =>
  void history.system({ _tag: "EndTurn", turnId: history.turn, state: "failed", reason, initiator: "policy" })
const stopsWorker: Episode = (history) =>
  void history.system({ _tag: "EndTurn", turnId: history.turn, state: "interrupted", reason: "worker_shutdown", initiator: "system" })
const loses: Episode = (history, n) => {
  const { checkpoint } = history.sandbox
  if (checkpoint > 0) history.system({ _tag: "RecordRestore", data: { checkpoint, cause: oneOf(n, ["machine_lost", "machine_drained"]) } })
}
const gone = any(fails("agent_lost"), fails("host_lost"))
const winds = inOrder(ends("interrupted"), released)

const pending: ReadonlyArray<Episode> = [
  ...often(starts, 8),
  interrupts,
  inOrder(sends("queue"), interrupts, starts),
  loses,
  gone,
  inOrder(terminates, released),
  inOrder(revoked, released)
]

const working: ReadonlyArray<Episode> = [
  inOrder(works, ends("succeeded")),
  inOrder(asks(), decides("approve"), works),
  inOrder(asks(), decides("deny"), ends("succeeded")),
  inOrder(asks(), decides("deny because"), takesSteer),
  inOrder(asks("command"), decides("approve all"), asks("command"), works),
  inOrder(asks(), asks(), asks("other"), decides("approve all")),
  asks(),
  ...often(inOrder(asks(), passes(limits.approval), disagrees("approve")), 2),
  inOrder(asks(), ends("succeeded")),
  inOrder(asks(), interrupts, asks(), ends("interrupted")),
  inOrder(asks(), terminates, winds),
  inOrder(asks(), decides("approve"), disagrees("deny")),
  inOrder(inquires, replies(REPLY), works),
  inOrder(inquires, dismisses, answersLate),
  ...often(inOrder(inquires, passes(limits.approval), answersLate), 2),
  inOrder(inquires, asks(), replies(REPLY), decides("approve"), works),
  inOrder(asks(), inquires, decides("deny"), replies(REPLY)),
  inOrder(inquires, inquires, replies(REPLY), ends("succeeded")),
  inOrder(inquires, interrupts, inquires, answersLate, ends("interrupted")),
  ...often(inOrder(inquires, terminates, answersLate, winds), 2),
  ...often(inOrder(inquires, stopsWorker), 3),
  inquires,
  inOrder(sends("queue"), sends("queue"), cancelsLast),
  inOrder(sends("steer"), takesSteer),
  inOrder(sends("queue"), sends("steer"), ends("succeeded")),
  inOrder(fillsQueue, ends("succeeded")),
  ...often(inOrder(sends("queue"), outOf("budget_exceeded")), 2),
  ...often(inOrder(sends("queue"), outOf("no_credits")), 2),
  passes(limits.turn),
  inOrder(ends("failed", { reason: "The model refused." }), passes(limits.idle)),
  ends("failed", { reason: "The model refused." }),
  inOrder(limited, works),
  ...often((history) => void history.system({ _tag: "RefuseMessage", turnId: history.turn }), 2),
  inOrder(loses, starts),
  gone,
  ...often(stopsWorker, 2),
  interrupts,
  (history) => void history.person({ _tag: "Restore", checkpoint: Math.max(history.sandbox.checkpoint, 1) }),
  inOrder(sends("queue"), terminates, winds),
  inOrder(revoked, winds),
  inOrder(ages, winds)
]

const asking: ReadonlyArray<Episode> = [
  ...often(decides("approve")),
  decides("deny"),
  decides("deny because"),
  decides("approve all"),
  asks(),
  inOrder(passes(limits.approval), disagrees("deny")),
  ends("succeeded"),
  ...often(ends("failed", { reason: "The model refused." }), 2),
  interrupts,
  inOrder(terminates, winds),
  inOrder(sends("steer"), takesSteer),
  loses,
  gone
]

const inquiring: ReadonlyArray<Episode> = [
  ...often(replies(REPLY)),
  dismisses,
  replies({ answers: { 1: { text: "MariaDB" } } }),
  inquires,
  inOrder(asks(), decides("approve")),
  inOrder(asks(), asks(), replies(REPLY)),
  inOrder(passes(limits.approval), answersLate),
  ...often(ends("succeeded"), 2),
  ...often(ends("failed", { reason: "The model refused." }), 2),
  ...often(inOrder(interrupts, ends("interrupted")), 2),
  ...often(ends("interrupted"), 2),
  inOrder(terminates, winds),
  inOrder(sends("steer"), takesSteer),
  loses,
  gone
]

const interrupting: ReadonlyArray<Episode> = [...often(ends("interrupted")), asks(), inquires, works, passes(limits.turn), gone,
  inOrder(terminates, winds)]

// ---------------------------------------------------------------------------------------------------------------
// Between turns

const checkpoint: Episode = (history) => void history.system(recordCheckpoint(history.sandbox.checkpoint + 1))
const noCheckpoint = system({ _tag: "RecordCheckpoint", data: { error: "It is too large." } })
const restores: Episode = (history) => {
  if (history.sandbox.checkpoint > 0) history.person({ _tag: "Restore", checkpoint: history.sandbox.checkpoint })
}
const restored: Episode = (history) => {
  const { restoring } = history.sandbox
  if (restoring !== null) history.system({ _tag: "RecordRestore", data: { checkpoint: restoring, cause: "command" } })
}
const notRestored = system({ _tag: "FailRestore", error: "It is cut.", damaged: [1] })
/** Publishes a repository, for the first time or again. `n` chooses which, and how it ends. */
const publishes: Episode = (history, n) => {
  const repo = oneOf(n, [REPO, "acme/other", "Acme/Shop"])
  const report = (data: Omit<Extract<SystemCommand, { readonly _tag: "ReportPublication" }>["data"], "repo">) =>
    history.system({ _tag: "ReportPublication", data: { repo, ...data } })
  const isKnown = history.sandbox.publications.some((known) => known.repo.toLowerCase() === repo.toLowerCase())
  report({ action_state: isKnown ? "updating" : "publishing", head_ref: "slipway/abc" })
  history.wait("2 minutes")
  if (n % 4 === 3) report({ action_state: "failed", error: { code: "source_host_error", message: "It answered 502." } })
  else report({ action_state: "idle", number: 7, state: "open", draft: true, merged: false, head_ref: "slipway/abc", head_sha: SHA })
  if (n % 4 === 2) report({ action_state: "idle", number: 7, state: "closed", draft: false, merged: true, head_sha: SHA })
}
const syncs = person({ _tag: "Sync" })
const syncEnds = any(system(synced), system({ _tag: "RecordSync", data: { branches: [], error: "It cannot be reached." } }))
const renames: Episode = (history, n) => void history.person({ _tag: "Rename", title: oneOf(n, TITLES) })
const continues = inOrder(person({ _tag: "Send", prompt: "And now?" }), starts)

const idle: ReadonlyArray<Episode> = [
  ...often(continues, 8),
  inOrder(checkpoint, continues),
  inOrder(checkpoint, publishes),
  inOrder(renames, renames, continues),
  inOrder(checkpoint, restores, restored),
  ...often(inOrder(checkpoint, restores, notRestored), 2),
  // Another person wants another checkpoint back.
  ...often(inOrder(checkpoint, checkpoint, restores, person({ _tag: "Restore", checkpoint: 1 }), restored), 2),
  ...often(inOrder(checkpoint, loses), 2),
  inOrder(checkpoint, continues, works, loses),
  inOrder(continues, works, ends("succeeded")),
  inOrder(checkpoint, restores, continues, ends("succeeded")),
  // Somebody asks again before it is over.
  inOrder(syncs, syncs, syncEnds, continues),
  inOrder(syncs, continues, syncEnds),
  noCheckpoint,
  publishes,
  setup,
  interrupts,
  any(
    system({ _tag: "ReportPublication", data: { repo: REPO, action_state: "publishing" } }),
    system({ _tag: "ReportPublication", data: { repo: REPO, action_state: "updating", number: 7 } })
  ),
  passes(limits.idle),
  inOrder(ages, released),
  inOrder(terminates, checkpoint, released),
  inOrder(revoked, released)
]

// ---------------------------------------------------------------------------------------------------------------
// Ends

const isLate: ReadonlyArray<Episode> = [
  renames,
  interrupts,
  terminates,
  disagrees("deny"),
  disagrees("approve"),
  person({ _tag: "Restore", checkpoint: 1 }),
  publishes,
  system({ _tag: "ReportUsage", usage: { llmRequestCount: 9, costMicroUsd: 9, creditsChargedMicros: 9 } })
]

const terminating: ReadonlyArray<Episode> = [
  ...often(winds),
  inOrder(ends("interrupted"), checkpoint, released),
  passes(limits.release),
  ...isLate
]

/** The episodes that make sense now, the likely ones several times and the simplest first; never empty. */
export const episodesOf = ({ sandbox }: History): ReadonlyArray<Episode> => {
  switch (sandbox.status) {
    case "queued":
      return queued
    case "creating":
      return creating
    case "running":
      switch (sandbox.turn?.state) {
        case "pending":
          return pending
        case "running":
          return sandbox.turn.interruptRequested ? interrupting : working
        case "awaiting_approval":
          return asking
        case "awaiting_answer":
          return inquiring
        default:
          return idle
      }
    case "terminating":
      return terminating
    case "succeeded":
    case "failed":
      return [...often(publishes), inOrder(terminates, released), inOrder(terminates, passes(limits.release)), ...isLate]
    case "terminated":
      return isLate
  }
}

/** Commands about nothing, about what is over, or too early. Most are refused. */
export const misuses: ReadonlyArray<Episode> = [
  person({ _tag: "Send", prompt: "Now!" }),
  person({ _tag: "Send", prompt: "Now!", whenBusy: "steer", steerable: false }),
  person({ _tag: "Decide", approvalId: "none", decision: "approve" }),
  person({ _tag: "Answer", questionId: "none", reply: REPLY }),
  ...often(inOrder(starts, inquires, replies({ answers: { 4: { text: "Yes." } } })), 2),
  inquires,
  inOrder(starts, asks("other"), (history) => {
    const other = history.sandbox.approvals.find(({ kind }) => kind === "other")
    history.person({ _tag: "Decide", approvalId: other?.approval_id ?? "none", ...decisionOf("approve all") })
  }),
  (history) => {
    for (let i = 0; i <= MAX_WAITING; i++) history.person({ _tag: "Send", prompt: "And?", whenBusy: "queue" })
  },
  person({ _tag: "Cancel", messageId: "none" }),
  (history) => void history.person({ _tag: "Cancel", messageId: history.turn }),
  inOrder(ends("succeeded"), (history) => void history.person({ _tag: "Restore", checkpoint: history.sandbox.checkpoint + 1 })),
  leased,
  inOrder(clones, setup, ready),
  (history) => void history.system({ _tag: "StartTurn", turnId: history.turn }),
  any(fails("boot_failed"), fails("agent_lost")),
  asks(),
  ...often(inOrder(starts, asks(), ends("interrupted")), 2),
  (history) => void history.system({ _tag: "EndTurn", turnId: turnId(ids, history.sandbox.id, 99), state: "failed" }),
  (history) => void history.system(recordCheckpoint(history.sandbox.checkpoint + 2)),
  (history) => void history.system({ _tag: "RecordRestore", data: { checkpoint: history.sandbox.checkpoint + 1, cause: "machine_lost" } }),
  inOrder(restores, notRestored),
  syncs,
  system(synced),
  system({ _tag: "Release" })
]
