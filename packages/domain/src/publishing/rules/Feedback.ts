/**
 * When feedback on a pull request becomes a message of its sandbox (docs/decisions/24). Pure. Each item is delivered once, by its id at
 * the source host; texts are data that {@link messageOf} quotes.
 */
import type * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Result from "effect/Result"
import type { Ids } from "../../ids/Ids.ts"
import {
  type Command,
  promptsOf,
  type QueueFull,
  type SandboxNotRunning,
  sendMessage,
  type SteeringUnsupported,
  type TurnActive,
  type Verdict
} from "../../sandbox/rules/Command.ts"
import { hasTrees, isSettled, publicationOf, type Sandbox } from "../../sandbox/rules/Sandbox.ts"
import type { FeedbackKind, SandboxEvent, SandboxEventOf } from "../../sandbox/rules/SandboxEvent.ts"
import { turnPending } from "../../sandbox/rules/Transition.ts"
import { isActive, turnId } from "../../sandbox/rules/Turn.ts"
import type { FeedbackItem, HeadChecks, PullFeedback } from "../../source/ports/PullRequestFeedback.ts"
import { delivered, MAX_ITEMS, newFeedback, SERVICE_AUTHOR, sinceOf } from "../../source/rules/FeedbackState.ts"
import { hostWords } from "../../source/rules/HostWords.ts"
import { isUnderWay } from "../../source/rules/PullState.ts"
import type { FeedbackState } from "../../source/schema/FeedbackState.ts"
import { NO_FEEDBACK } from "../../source/schema/NoFeedback.ts"
import type { RepoName } from "../../source/schema/RepoRef.ts"
import * as Instant from "../../time/Instant.ts"

/** How long a pull request has to be quiet before its feedback becomes a message. */
export const QUIET = Duration.seconds(60)
/** How long an item waits for quiet at most. */
export const LONGEST_WAIT = Duration.minutes(10)
/** Logins that an event names. */
const MAX_AUTHORS = 20

const MENTION = /(?<![\w/@-])@slipway(?![\w-])/iu

/** The id of a commit's failing checks. */
export const checksId = (headSha: string): string => `checks:${headSha}`

/** The ids that are remembered as delivered. */
const idsOf = (state: FeedbackState): ReadonlySet<string> => new Set(state.delivered.flatMap(({ ids }) => ids))

/** The commits whose failing checks were delivered. */
export const knownChecks = (state: FeedbackState): ReadonlySet<string> =>
  new Set([...idsOf(state)].flatMap((id) => id.startsWith("checks:") ? [id.slice("checks:".length)] : []))

/** Items of people that were not delivered, oldest first. */
const freshOf = (state: FeedbackState, repo: RepoName, { items }: Pick<PullFeedback, "items">): ReadonlyArray<FeedbackItem> => {
  const [known, since] = [idsOf(state), sinceOf(state, repo)]
  return items
    .filter(({ at, author, id }) => !author.isBot && Instant.isGreaterThan(at, since) && !known.has(id))
    .toSorted((a, b) => Instant.Order(a.at, b.at) || (a.id < b.id ? -1 : 1))
}

/** The authors whose permission decides what the items mean. */
export const authorsToAsk = (
  state: FeedbackState,
  repo: RepoName,
  pull: Pick<PullFeedback, "items">
): ReadonlyArray<FeedbackItem["author"]> => {
  if (state.policy.comments === "off" && !state.paused && state.rounds === 0) return []
  return [...new Map(freshOf(state, repo, pull).map(({ author }) => [author.id, author])).values()]
}

/** A pull request as the host shows it. */
export interface Observed {
  readonly repo: RepoName
  readonly pull: PullFeedback
  /** Ids of the authors who may write to the repository. */
  readonly mayWrite: ReadonlySet<string>
}

/** The feedback of one message. */
export interface Batch {
  readonly items: ReadonlyArray<FeedbackItem>
  /** Failing checks, or `null`. */
  readonly checks: HeadChecks | null
  /** See `Delivery`. */
  readonly round: number
}

/** The next step for a pull request. */
export type Decision =
  /** Nothing, until it or the sandbox changes. */
  | { readonly _tag: "Nothing" }
  /** The sandbox has to end its turn, publication or round first. */
  | { readonly _tag: "Busy" }
  | { readonly _tag: "Wait"; readonly until: DateTime.Utc }
  | { readonly _tag: "Pause"; readonly events: ReadonlyArray<SandboxEvent> }
  /** A message for the sandbox. `isOver`: for a new one, because this one has ended. */
  | { readonly _tag: "Deliver"; readonly batch: Batch; readonly isOver: boolean }

const nothing: Decision = { _tag: "Nothing" }

/** Whether the sandbox can take a message of the service now. An ended one is continued. */
export const readiness = (sandbox: Sandbox, repo: RepoName): "ready" | "busy" | "over" => {
  const { feedback, restoring, status, turn } = sandbox
  if ((feedback?.round ?? null) !== null || isUnderWay(publicationOf(sandbox, repo))) return "busy"
  if (isSettled(status)) return "over"
  return status === "running" && !isActive(turn) && restoring === null ? "ready" : "busy"
}

const lastChange = ({ at, updatedAt }: FeedbackItem) => Instant.max(at, updatedAt)

/** When the batch is due: after quiet, but no item waits for longer than {@link LONGEST_WAIT}. */
const dueAt = (items: ReadonlyArray<FeedbackItem>, checks: HeadChecks | null): DateTime.Utc | null => {
  const changes = [...items.map(lastChange), ...(checks?.at == null ? [] : [checks.at])]
  const begins = [...items.map(({ at }) => at), ...(checks?.at == null ? [] : [checks.at])]
  const [first] = changes
  const [begin] = begins
  if (first === undefined || begin === undefined) return null
  return Instant.min(
    Instant.addDuration(changes.reduce(Instant.max, first), QUIET),
    Instant.addDuration(begins.reduce(Instant.min, begin), LONGEST_WAIT)
  )
}

/** Failing checks that are news. Only of a commit all of whose checks are done. */
const failing = (state: FeedbackState, repo: RepoName, { checks }: PullFeedback): HeadChecks | null =>
  state.policy.checks === "failing" && checks?.state === "failed" && checks.at !== null &&
    Instant.isGreaterThan(checks.at, sinceOf(state, repo)) && !idsOf(state).has(checksId(checks.headSha))
    ? checks
    : null

/** Decides about one pull request of a sandbox with feedback. */
export const decideFeedback = (sandbox: Sandbox, { mayWrite, pull, repo }: Observed, now: DateTime.Utc): Decision => {
  const state = sandbox.feedback
  if (state === null || state.continuedBy !== null || !pull.isOpen) return nothing
  const said = freshOf(state, repo, pull).filter(({ author }) => mayWrite.has(author.id))
  const { comments, rounds } = state.policy
  const wanted = comments === "off" ? [] : said.filter(({ body }) => comments === "all" || MENTION.test(body))
  const checks = failing(state, repo, pull)
  if (wanted.length === 0 && checks === null) return nothing
  const at = readiness(sandbox, repo)
  if (at === "busy") return { _tag: "Busy" }
  const { lastAt } = state
  const isWord = wanted.length > 0 || said.some((item) => lastAt === null || Instant.isGreaterThan(item.at, lastAt))
  if (!isWord && (state.paused || state.rounds >= rounds)) {
    return state.paused ? nothing : { _tag: "Pause", events: [{ type: "feedback.paused", data: { repo, rounds: state.rounds } }] }
  }
  const due = dueAt(wanted, checks)
  if (due !== null && Instant.isGreaterThan(due, now)) return { _tag: "Wait", until: due }
  const items = wanted.slice(0, MAX_ITEMS - (checks === null ? 0 : 1))
  const round = wanted.length > 0 ? 0 : isWord ? 1 : state.rounds + 1
  return { _tag: "Deliver", batch: { items, checks, round }, isOver: at === "over" }
}

const kindOf = ({ items }: Batch): FeedbackKind =>
  items.some(({ kind }) => kind !== "comment") ? "review" : items.length > 0 ? "comment" : "checks"

/** The data of `feedback.received`. */
export type Received = SandboxEventOf<"feedback.received">["data"]

/** The data of the event of a batch. */
export const receivedOf = (repo: RepoName, url: string, batch: Batch, now: DateTime.Utc): Received => {
  const { checks, items, round } = batch
  const last = items.at(-1)
  return {
    repo,
    kind: kindOf(batch),
    url: last?.url ?? checks?.failing[0]?.url ?? url,
    authors: [...new Set(items.map(({ author }) => hostWords(author.login)))].slice(0, MAX_AUTHORS),
    count: items.length + (checks === null ? 0 : 1),
    items: [...items.map(({ id }) => id), ...(checks === null ? [] : [checksId(checks.headSha)])],
    // Other comments may be older than the checks: only the items count where there are any.
    until: last?.at ?? checks?.at ?? now,
    round
  }
}

/** The events with which a running sandbox gets the message. */
export const deliver = (
  ids: Pick<Ids["Service"], "derive">,
  sandbox: Sandbox,
  received: Received,
  text: string
): ReadonlyArray<SandboxEvent> => {
  const id = turnId(ids, sandbox.id, promptsOf(sandbox) + 1)
  return [{ type: "feedback.received", turn_id: id, data: received }, turnPending(id, text, SERVICE_AUTHOR)]
}

/** Feedback that a person gives to a running sandbox. It waits for the active turn. */
export const requestFeedback = (
  ids: Pick<Ids["Service"], "derive">,
  received: Received,
  text: string,
  authorId: string
): Command<QueueFull | SandboxNotRunning | SteeringUnsupported | TurnActive> => {
  const message = sendMessage(ids, text, authorId, { whenBusy: "queue", canSteer: () => false })
  return {
    ...message,
    decide: (current) =>
      Result.map(message.decide(current), (verdict): Verdict => {
        if (verdict.outcome !== "applied") return verdict
        const [first] = verdict.events
        const id = first?.type === "message.queued" ? first.data.message_id : first?.turn_id
        return {
          outcome: "applied",
          events: [{ type: "feedback.received", ...(id === undefined ? {} : { turn_id: id }), data: received }, ...verdict.events]
        }
      })
  }
}

/** More rounds, which a person asks for. Safe to repeat. */
export const resumeFeedback = (ids: Pick<Ids["Service"], "derive">, authorId: string): Command<never> => ({
  identity: ({ feedback, id, revision }) => ids.derive(`${id}/resume-feedback/${feedback?.paused === true ? revision : "none"}`),
  approvalId: null,
  decide: ({ sandbox: { feedback } }) =>
    Result.succeed({
      outcome: "applied",
      events: feedback?.paused === true ? [{ type: "feedback.resumed", data: { author: { id: authorId } } }] : []
    })
})

/** The first state of a sandbox that goes on with the feedback of a finished one: it remembers all that was delivered. */
export const successorState = (
  { createdAt, feedback }: Sandbox,
  received: Received,
  { at, turnId }: { readonly turnId: string; readonly at: DateTime.Utc }
): FeedbackState =>
  delivered(
    { ...(feedback ?? newFeedback(NO_FEEDBACK, createdAt)), round: null, continuedBy: null },
    { ...received, ids: received.items, turnId, sandboxId: null },
    at
  )

/**
 * The event with which a finished sandbox leaves its feedback to `successor`, once. Items that came after the creation of the successor are
 * left out: it delivers them itself.
 */
export const handOver = (
  { feedback }: Sandbox,
  received: Received,
  successor: Pick<Sandbox, "feedback" | "id">
): ReadonlyArray<SandboxEvent> => {
  if (feedback?.continuedBy != null) return []
  const has = successor.feedback === null ? new Set(received.items) : idsOf(successor.feedback)
  const items = received.items.filter((id) => has.has(id))
  return [{ type: "feedback.received", data: { ...received, items, count: items.length, sandbox_id: successor.id } }]
}

/** The event when no new sandbox may go on with the pull request of a finished one. The next attempts say nothing. */
export const pauseFor = ({ feedback }: Sandbox, repo: RepoName, reason: string): ReadonlyArray<SandboxEvent> =>
  feedback === null || feedback.paused || feedback.continuedBy !== null
    ? []
    : [{ type: "feedback.paused", data: { repo, rounds: feedback.rounds, reason: hostWords(reason) } }]

/** The next step of the round under way; `null`: none until the sandbox changes. A sandbox without trees can only reply. */
export const nextStep = (sandbox: Sandbox): "publish" | "reply" | null => {
  const round = sandbox.feedback?.round ?? null
  if (round === null || round.step === "turn" || round.step === "publishing") return null
  if (round.step === "reply") return "reply"
  if (hasTrees(sandbox)) return isUnderWay(publicationOf(sandbox, round.repo)) ? null : "publish"
  return sandbox.status === "terminating" ? null : "reply"
}
