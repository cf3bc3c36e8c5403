/** How events change the state of feedback. Pure; `evolve` of sandboxes calls these functions. */
import type * as DateTime from "effect/DateTime"
import type { SandboxId } from "../../ids/SandboxId.ts"
import * as Instant from "../../time/Instant.ts"
import type { FeedbackPolicy } from "../schema/FeedbackPolicy.ts"
import type { DeliveredItems, FeedbackRound, FeedbackState } from "../schema/FeedbackState.ts"
import { sameRepo } from "../schema/Naming.ts"
import type { RepoName } from "../schema/RepoRef.ts"

/** Author of the messages that the service sends. No user has this id. */
export const SERVICE_AUTHOR = "service"

/** Items of one message. More wait for the next one. */
export const MAX_ITEMS = 50
/** Ids that are remembered. Older items are told by their time. */
export const MAX_DELIVERED = 200

/** The state of a new sandbox. */
export const newFeedback = (policy: FeedbackPolicy, since: DateTime.Utc): FeedbackState => ({
  policy,
  since,
  passed: [],
  delivered: [],
  rounds: 0,
  paused: false,
  lastAt: null,
  round: null,
  continuedBy: null
})

/** Whether any feedback is delivered without a person's request. */
export const isOn = ({ policy }: Pick<FeedbackState, "policy">): boolean => policy.comments !== "off" || policy.checks !== "off"

/** A delivery: the items of one message and the turn that has it. */
export interface Delivery extends DeliveredItems {
  readonly repo: RepoName
  readonly authors: ReadonlyArray<string>
  readonly count: number
  /** Rounds since the last word of a person, with this one; 0: a person's word is in it. */
  readonly round: number
  /** `null`: another sandbox has it. */
  readonly turnId: string | null
  readonly sandboxId: SandboxId | null
}

/** Items of a repository at or before this time are not delivered. */
export const sinceOf = ({ passed, since }: Pick<FeedbackState, "passed" | "since">, repo: RepoName): DateTime.Utc =>
  passed.find((one) => sameRepo(one.repo, repo))?.until ?? since

/**
 * Drops the oldest deliveries beyond {@link MAX_DELIVERED} ids: their items are no newer than {@link sinceOf} then. Other repositories may
 * have older items that were not delivered yet.
 */
const bounded = (state: FeedbackState): FeedbackState => {
  let [passed, kept] = [state.passed, state.delivered]
  for (let count = kept.reduce((sum, { ids }) => sum + ids.length, 0); count > MAX_DELIVERED; kept = kept.slice(1)) {
    const [oldest] = kept
    if (oldest === undefined) break
    count -= oldest.ids.length
    const until = Instant.max(sinceOf({ passed, since: state.since }, oldest.repo), oldest.until)
    passed = [...passed.filter((one) => !sameRepo(one.repo, oldest.repo)), { repo: oldest.repo, until }]
  }
  return { ...state, passed, delivered: kept }
}

/** A message has the items. */
export const delivered = (
  state: FeedbackState,
  { authors, count, ids, repo, round, sandboxId, turnId, until }: Delivery,
  at: DateTime.Utc
): FeedbackState =>
  bounded({
    ...state,
    delivered: ids.length === 0 ? state.delivered : [...state.delivered, { repo, ids, until }],
    rounds: round,
    paused: false,
    lastAt: at,
    round: turnId === null ? null : { repo, turnId, count, authors, step: "turn", outcome: null, published: null },
    continuedBy: sandboxId ?? state.continuedBy
  })

/** No more rounds until a person says something. */
export const paused = (state: FeedbackState, at: DateTime.Utc): FeedbackState => ({ ...state, paused: true, lastAt: at })

/** A person said something: rounds are counted anew. */
export const personSpoke = (state: FeedbackState): FeedbackState =>
  state.rounds === 0 && !state.paused ? state : { ...state, rounds: 0, paused: false }

const inRound = (state: FeedbackState, change: (round: FeedbackRound) => FeedbackRound | null): FeedbackState =>
  state.round === null ? state : { ...state, round: change(state.round) }

/** A turn ended. A message that waited and was withdrawn has no turn: `cancelled`. */
export const turnEnded = (state: FeedbackState, turnId: string, outcome: NonNullable<FeedbackRound["outcome"]>): FeedbackState =>
  inRound(state, (round) =>
    round.turnId !== turnId || round.step !== "turn"
      ? round
      : { ...round, outcome, step: outcome === "succeeded" && state.policy.publish ? "publish" : "reply" })

/** A message got no turn of its own: an agent took it into another turn, or it was withdrawn. */
export const turnMissed = (state: FeedbackState, messageId: string): FeedbackState =>
  inRound(state, (round) => round.turnId === messageId ? null : round)

/** A publication began, or ended with `error` or without one. */
export const publicationChanged = (
  state: FeedbackState,
  repo: RepoName,
  publication: { readonly isUnderWay: boolean; readonly error: string | null }
): FeedbackState =>
  inRound(state, (round) =>
    !sameRepo(round.repo, repo)
      ? round
      : round.step === "publish" && publication.isUnderWay
      ? { ...round, step: "publishing" }
      : round.step === "publishing" && !publication.isUnderWay
      ? { ...round, step: "reply", published: publication.error ?? "" }
      : round)

/** The sandbox ended. Whatever its round waited for does not come. */
export const sandboxEnded = (state: FeedbackState): FeedbackState =>
  inRound(state, (round) => round.step === "turn" ? { ...round, step: "reply", outcome: round.outcome ?? "cancelled" } : round)

/** The pull request was told of the round. */
export const replied = (state: FeedbackState): FeedbackState => ({ ...state, round: null })
