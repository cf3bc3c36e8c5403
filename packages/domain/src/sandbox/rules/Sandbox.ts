/**
 * The sandbox aggregate: its status, current turn, pending approvals and publications. Pure: `evolve` folds the events of its log with
 * their times, so the same history always gives the same sandbox. `Transition.ts` has the state machine, `TimeLimit.ts` the time
 * limits, `SystemCommand.ts` and `Command.ts` the commands.
 */
import * as Data from "effect/Data"
import type * as DateTime from "effect/DateTime"
import * as Result from "effect/Result"
import { noTokenCounts, noUsage } from "../../models/rules/Usage.ts"
import * as FeedbackState from "../../source/rules/FeedbackState.ts"
import { isUnderWay } from "../../source/rules/PullState.ts"
import { isOwnBranch, sameRepo } from "../../source/schema/Naming.ts"
import { NO_FEEDBACK } from "../../source/schema/NoFeedback.ts"
import type { RepoName } from "../../source/schema/RepoRef.ts"
import { saturatingAdd } from "../../text/Counters.ts"
import * as Instant from "../../time/Instant.ts"
import type { AttachedFile } from "../schema/PromptFile.ts"
import type { Continues, Creation, Publication, Sandbox } from "../schema/Sandbox.ts"
import type { SandboxStatus, StatusReason } from "../schema/SandboxEvent.ts"
import type { Turn } from "../schema/Turn.ts"
import { isWaiting, without, withQueued } from "./MessageQueue.ts"
import { changesRevision, type SandboxEvent, type SandboxEventOf, sizeOf } from "./SandboxEvent.ts"
import { isActive } from "./Turn.ts"

export type { Continues, Creation, Origin, Publication, Sandbox, SetupTime } from "../schema/Sandbox.ts"

/** Whether the sandbox has ended. Workers have nothing left to do, except for a terminate command. */
export const isSettled = (status: SandboxStatus): boolean => status === "succeeded" || status === "failed" || status === "terminated"

/** The sandbox has not ended, so it cannot be deleted. A retry helps after it was terminated. */
export class SandboxNotFinished extends Data.TaggedError("SandboxNotFinished") {
  override get message() {
    return "The sandbox has not finished. Terminate it first."
  }
}

/** Whether the sandbox may be deleted (docs/decisions/29). */
export const mayDelete = ({ status }: Pick<Sandbox, "status">): Result.Result<void, SandboxNotFinished> =>
  isSettled(status) ? Result.void : Result.fail(new SandboxNotFinished())

/** Whether there are trees to read and to publish: live ones, or those of the last checkpoint after a sandbox succeeded or failed. */
export const hasTrees = ({ checkpoint, status }: Pick<Sandbox, "checkpoint" | "status">): boolean =>
  status === "running" || (status === "succeeded" || status === "failed") && checkpoint > 0

/** The time of an event that is recorded `now`: at least that of its predecessor. */
export const dateOf = ({ recordedAt }: Pick<Sandbox, "recordedAt">, now: DateTime.Utc): DateTime.Utc =>
  recordedAt === null ? now : Instant.max(recordedAt, now)

/** A new sandbox before its first event. */
export const initial = (creation: Creation): Sandbox => ({
  ...creation,
  feedback: creation.feedback ?? null,
  budgetMicroUsd: creation.budgetMicroUsd ?? null,
  environment: creation.environment ?? {},
  status: "queued",
  reason: null,
  initiator: "user",
  statusAt: creation.createdAt,
  startedAt: null,
  setupTime: null,
  completedAt: null,
  error: null,
  turn: null,
  waiting: [],
  waitingTexts: [],
  turnless: 0,
  idleSince: null,
  approvals: [],
  publications: [],
  usage: noUsage,
  tokens: noTokenCounts,
  checkpoint: 0,
  owesCheckpoint: false,
  pinned: false,
  restoring: null,
  syncing: false,
  syncs: 0,
  restores: 0,
  renames: 0,
  revision: 0,
  lastSeq: 0,
  recordedAt: null,
  logBytes: 0
})

/** The pull request that a sandbox continues, as far as readers of its events need it. Its head was not pushed by the sandbox. */
const continued = ({ branch, details, pullRequest, repo, sandboxId }: Continues): ReadonlyArray<SandboxEvent> => [
  {
    type: "sandbox.continued",
    data: {
      repo,
      branch,
      ...(pullRequest === null ? {} : { pull_request: pullRequest }),
      ...(sandboxId === undefined ? {} : { sandbox_id: sandboxId })
    }
  },
  ...(details === undefined ? [] : [{
    type: "pull_request.updated" as const,
    data: {
      repo,
      action_state: "idle" as const,
      number: details.number,
      url: details.url,
      state: details.state,
      draft: details.draft,
      merged: details.merged,
      head_ref: details.headRef,
      pull_request: details
    }
  }])
]

/** The first events of a sandbox. */
export const created = ({ continues, origin }: Pick<Creation, "continues" | "origin">): ReadonlyArray<SandboxEvent> => [
  { type: "sandbox.status", data: { status: "queued", previous: null, reason: null, initiator: "user" } },
  ...(origin === null ? [] : [{ type: "sandbox.forked" as const, data: { sandbox_id: origin.sandboxId, checkpoint: origin.checkpoint } }]),
  ...(continues === null ? [] : continued(continues))
]

const sentences: Partial<Record<StatusReason, string>> = {
  queue_timeout: "No worker was free in time.",
  boot_timeout: "The sandbox did not boot in time.",
  last_turn_failed: "The last turn failed and nothing followed it.",
  release_failed: "The host did not confirm that everything of the sandbox is gone."
}

const withoutQuestions = ({ questions: _questions, ...turn }: Turn): Turn => turn
const silent = ({ speaking: _speaking, spokeAt: _spokeAt, ...turn }: Turn): Turn => turn

/** The sandbox with the files of another prompt. */
const withFiles = (sandbox: Sandbox, added: ReadonlyArray<AttachedFile> = []): Sandbox => {
  const { files: known = [] } = sandbox
  const fresh = added.filter(({ id }) => !known.some((file) => file.id === id))
  return fresh.length === 0 ? sandbox : { ...sandbox, files: [...known, ...fresh] }
}

const evolveQueue = (sandbox: Sandbox, event: SandboxEventOf<"message.queued" | "message.steered" | "message.cancelled">): Sandbox => {
  if (event.type === "message.queued") return { ...withFiles(sandbox, event.data.files), ...withQueued(sandbox, event) }
  const { message_id: id } = event.data
  if (!isWaiting(sandbox, id)) return sandbox
  const { turn } = sandbox
  return {
    ...sandbox,
    ...without(sandbox, id),
    // The agent's text so far comes before the message that interrupts it.
    turn: event.type === "message.steered" && turn !== null ? silent(turn) : turn,
    turnless: sandbox.turnless + 1
  }
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
      ...withFiles(sandbox, event.data.files),
      ...without(sandbox, id),
      turn: {
        n: (turn?.n ?? 0) + 1,
        id,
        prompt: event.data.text ?? "",
        ...(event.data.files === undefined ? {} : { files: event.data.files }),
        authorId: event.data.author?.id ?? "",
        state: "pending",
        startedAt: null,
        interruptRequested: false,
        ...(turn === null ? {} : { after: turn.id }),
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
          ...silent(withoutQuestions(turn)),
          state: event.data.state,
          interruptRequested: turn.interruptRequested || event.data.reason === "interrupt"
        },
        // A turn that no agent took has changed nothing.
        owesCheckpoint: sandbox.owesCheckpoint || turn.startedAt !== null,
        idleSince: at
      }
  }
}

/** A text begins or continues. The next message, the next tool call or its own completion ends it. */
const evolveMessage = (
  sandbox: Sandbox,
  event: SandboxEventOf<"message.updated" | "message.completed" | "plan.updated" | "tool.updated">
): Sandbox => {
  const { turn } = sandbox
  if (turn === null || turn.id !== event.turn_id) return sandbox
  switch (event.type) {
    case "message.updated":
      return event.data.kind === "text"
        ? { ...sandbox, turn: { ...turn, speaking: event.data.message_id, spokeAt: sandbox.lastSeq + 1 } }
        : event.data.message_id === turn.speaking
        ? sandbox
        : { ...sandbox, turn: silent(turn) }
    case "message.completed":
      return event.data.message_id === turn.speaking ? { ...sandbox, turn: silent(turn) } : sandbox
    case "plan.updated":
      return sandbox
    case "tool.updated":
      // A new call begins as pending and ends the text. Later updates of calls do not.
      return event.data.status === "pending" ? { ...sandbox, turn: silent(turn) } : sandbox
  }
}

const evolveApproval = (sandbox: Sandbox, { data }: SandboxEventOf<"approval.resolved">): Sandbox => {
  const { approvals, turn } = sandbox
  const kind = approvals.find(({ approval_id }) => approval_id === data.approval_id)?.kind
  return {
    ...sandbox,
    approvals: approvals.filter(({ approval_id }) => approval_id !== data.approval_id),
    turn: data.scope === "turn" && turn !== null && kind !== undefined
      ? { ...turn, approvedKinds: [...turn.approvedKinds ?? [], kind] }
      : turn
  }
}

const evolveQuestion = (sandbox: Sandbox, event: SandboxEventOf<"question.asked" | "question.answered">): Sandbox => {
  const { turn } = sandbox
  if (turn === null || turn.id !== event.turn_id) return sandbox
  const { questions = [] } = turn
  const pending = event.type === "question.asked"
    ? [...questions, event.data]
    : questions.filter(({ question_id }) => question_id !== event.data.question_id)
  return { ...sandbox, turn: { ...withoutQuestions(turn), ...(pending.length === 0 ? {} : { questions: pending }) } }
}

const evolveStatus = (sandbox: Sandbox, { data }: SandboxEventOf<"sandbox.status">, at: DateTime.Utc): Sandbox => ({
  ...sandbox,
  status: data.status,
  reason: data.reason,
  initiator: data.initiator,
  statusAt: at,
  startedAt: sandbox.startedAt ?? (data.status === "running" ? at : null),
  setupTime: null,
  syncing: data.status === "running" && sandbox.syncing,
  completedAt: sandbox.completedAt ?? (isSettled(data.status) ? at : null),
  error: data.status !== "failed" ? null : (data.reason === null ? undefined : sentences[data.reason]) ?? sandbox.error
})

/** The time that setups took until `at`. A run counts for at most its limit. */
const spentMs = ({ setupTime }: Sandbox, at: DateTime.Utc): number => {
  if (setupTime === null) return 0
  const { run, spentMs } = setupTime
  return run === null ? spentMs : spentMs + Math.min(Math.max(at.epochMilliseconds - run.since.epochMilliseconds, 0), run.limitMs)
}

const evolveSetup = (sandbox: Sandbox, { data, type }: SandboxEventOf<"sandbox.boot" | "setup.started">, at: DateTime.Utc): Sandbox => {
  // Setups outside a boot do not count.
  if (sandbox.status !== "creating") return sandbox
  if (type === "setup.started") {
    return { ...sandbox, setupTime: { spentMs: spentMs(sandbox, at), run: { since: at, limitMs: data.limit_ms } } }
  }
  return data.stage !== "setup" || sandbox.setupTime === null
    ? sandbox
    : { ...sandbox, setupTime: { spentMs: spentMs(sandbox, at), run: null } }
}

const evolvePublication = (sandbox: Sandbox, { data }: SandboxEventOf<"pull_request.updated">, at: DateTime.Utc): Sandbox => {
  const same = (publication: Publication) => publication.repo.toLowerCase() === data.repo.toLowerCase()
  const known = sandbox.publications.find(same)
  const url = data.url ?? known?.url
  const pullRequest = data.pull_request ?? known?.pullRequest
  const isPushed = isUnderWay(known) && data.action_state === "idle" && data.error === undefined
  const pushed = isPushed && data.head_ref !== undefined && data.head_sha !== undefined
    ? { headRef: data.head_ref, sha: data.head_sha, merges: data.merges ?? [] }
    : known?.pushed
  const mergedAt = known?.mergedAt ?? (data.merged === true && known?.merged !== true ? at : undefined)
  const next: Publication = {
    repo: known?.repo ?? data.repo,
    actionState: data.action_state,
    number: data.number ?? known?.number ?? null,
    ...(url === undefined ? {} : { url }),
    ...(pullRequest === undefined ? {} : { pullRequest }),
    headSha: data.head_sha ?? known?.headSha ?? null,
    state: data.state ?? known?.state ?? null,
    draft: data.draft ?? known?.draft ?? null,
    merged: data.merged ?? known?.merged ?? null,
    ...(mergedAt === undefined ? {} : { mergedAt }),
    ...(pushed === undefined ? {} : { pushed }),
    error: data.error ?? null
  }
  return {
    ...sandbox,
    // Another machine needs a checkpoint that has the pushed commit.
    owesCheckpoint: sandbox.owesCheckpoint || sandbox.status === "running" && next.headSha !== (known?.headSha ?? null),
    idleSince: isUnderWay(known) && !isUnderWay(next) && !isActive(sandbox.turn) ? at : sandbox.idleSince,
    publications: known === undefined
      ? [...sandbox.publications, next]
      : sandbox.publications.map((publication) => same(publication) ? next : publication)
  }
}

/** The state of feedback after the event. Most sandboxes have none. */
const evolveFeedback = (sandbox: Sandbox, event: SandboxEvent, at: DateTime.Utc): Sandbox["feedback"] => {
  const { feedback } = sandbox
  if (event.type === "feedback.received") {
    const { authors, count, items, round, sandbox_id, until } = event.data
    const repo = sandbox.repos.find(({ fullName }) => fullName.toLowerCase() === event.data.repo.toLowerCase())?.fullName
    const before = feedback ?? FeedbackState.newFeedback(NO_FEEDBACK, sandbox.createdAt)
    return repo === undefined ? feedback : FeedbackState.delivered(
      before,
      { repo, authors, count, ids: items, until, round, turnId: event.turn_id ?? null, sandboxId: sandbox_id ?? null },
      at
    )
  }
  if (feedback === null) return null
  switch (event.type) {
    case "feedback.paused":
      return FeedbackState.paused(feedback, at)
    case "feedback.resumed":
      return FeedbackState.personSpoke(feedback)
    case "feedback.replied":
      return FeedbackState.replied(feedback)
    case "turn.updated":
    case "message.queued": {
      const author = event.data.author?.id
      return author === undefined || author === FeedbackState.SERVICE_AUTHOR ? feedback : FeedbackState.personSpoke(feedback)
    }
    case "message.steered":
    case "message.cancelled":
      return FeedbackState.turnMissed(feedback, event.data.message_id)
    case "turn.completed":
      return FeedbackState.turnEnded(feedback, event.turn_id ?? "", event.data.state)
    case "pull_request.updated": {
      const { action_state: actionState, error, repo } = event.data
      return FeedbackState.publicationChanged(feedback, repo, { isUnderWay: isUnderWay({ actionState }), error: error?.message ?? null })
    }
    case "sandbox.status":
      return isSettled(event.data.status) ? FeedbackState.sandboxEnded(feedback) : feedback
    default:
      return feedback
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
      return evolveApproval(sandbox, event)
    case "question.asked":
    case "question.answered":
      return evolveQuestion(sandbox, event)
    case "pull_request.updated":
      return evolvePublication(sandbox, event, at)
    case "usage.updated":
      return { ...sandbox, usage: event.data.usage, tokens: event.data.tokens ?? sandbox.tokens }
    case "message.queued":
    case "message.steered":
    case "message.cancelled":
      return evolveQueue(sandbox, event)
    case "message.updated":
    case "message.completed":
    case "plan.updated":
    case "tool.updated":
      return evolveMessage(sandbox, event)
    case "sandbox.checkpoint":
      return {
        ...sandbox,
        checkpoint: event.data.checkpoint ?? sandbox.checkpoint,
        owesCheckpoint: false,
        pinned: event.data.checkpoint === undefined
      }
    case "sandbox.restoring":
      return { ...sandbox, restoring: event.data.checkpoint }
    case "sandbox.restored": {
      const { cause, checkpoint } = event.data
      return {
        ...sandbox,
        // The restore after a lost machine does not fulfil the restore that a person requested.
        ...(cause === "command" ? { restoring: null, restores: sandbox.restores + 1 } : {}),
        // The next worker takes the newest checkpoint, which is not the restored one.
        owesCheckpoint: checkpoint === undefined ? sandbox.owesCheckpoint : cause === "fork" || checkpoint !== sandbox.checkpoint,
        pinned: sandbox.pinned && checkpoint === undefined
      }
    }
    case "sandbox.renamed":
      return { ...sandbox, title: event.data.title, renames: sandbox.renames + 1 }
    case "sandbox.boot":
    case "setup.started":
      return evolveSetup(sandbox, event, at)
    case "sandbox.syncing":
      return { ...sandbox, syncing: true }
    case "sandbox.synced":
      return { ...sandbox, syncing: false, syncs: sandbox.syncs + 1 }
    case "sandbox.forked":
    case "feedback.received":
    case "feedback.replied":
    case "feedback.paused":
    case "feedback.resumed":
    case "sandbox.continued":
      return sandbox
  }
}

/** Total: an event without meaning in the present state is only counted. `at`: the time of recording. */
export const evolve = (sandbox: Sandbox, event: SandboxEvent, at: DateTime.Utc): Sandbox => {
  const next = apply(sandbox, event, at)
  return {
    ...next,
    feedback: evolveFeedback(sandbox, event, at),
    revision: sandbox.revision + (changesRevision[event.type] ? 1 : 0),
    lastSeq: sandbox.lastSeq + 1,
    recordedAt: dateOf(sandbox, at),
    logBytes: saturatingAdd(sandbox.logBytes, sizeOf(event))
  }
}

/** Folds events of one time, in order. */
export const evolveAll = (sandbox: Sandbox, events: ReadonlyArray<SandboxEvent>, at: DateTime.Utc): Sandbox =>
  events.reduce((current, event) => evolve(current, event, at), sandbox)

/** The branch of the repository that the sandbox continues; `null`: it publishes to a branch of its own. */
export const continuedBranch = ({ continues }: Pick<Sandbox, "continues">, repo: RepoName): Continues | null =>
  continues !== null && sameRepo(continues.repo, repo) ? continues : null

/** Whether the sandbox publishes to this branch: it continues the branch, or the branch has the form of its own. */
export const publishesTo = (
  { continues, id, repos }: Pick<Sandbox, "continues" | "id" | "repos">,
  repo: RepoName,
  branch: string
): boolean =>
  continues !== null && sameRepo(continues.repo, repo) && continues.branch === branch ||
  isOwnBranch(id, branch) && repos.some(({ fullName }) => sameRepo(fullName, repo))

/** `undefined`: no publication was requested. */
export const publicationOf = (sandbox: Sandbox, repo: RepoName): Publication | undefined =>
  sandbox.publications.find((publication) => sameRepo(publication.repo, repo))
