/** How far a sandbox is with the feedback on its pull requests. The rules are in `../rules/FeedbackState.ts`. */
import * as Schema from "effect/Schema"
import { SandboxId } from "../../ids/SandboxId.ts"
import { Counter } from "../../text/Text.ts"
import { Timestamp } from "../../time/Timestamp.ts"
import { FeedbackPolicy } from "./FeedbackPolicy.ts"
import { RepoName } from "./RepoRef.ts"

/** The items that one message had. All other allowed items that the host showed then are at or after `until`. */
export const DeliveredItems = Schema.Struct({ repo: RepoName, ids: Schema.Array(Schema.String), until: Timestamp })
export type DeliveredItems = typeof DeliveredItems.Type

/**
 * A message made of feedback and what follows from it. `turn`: its turn has not ended; `publish`: the changes have to be published;
 * `publishing`: a worker does it; `reply`: the pull request has to be told.
 */
export const FeedbackRound = Schema.Struct({
  repo: RepoName,
  turnId: Schema.String,
  /** Items of the message. */
  count: Counter,
  authors: Schema.Array(Schema.String),
  step: Schema.Literals(["turn", "publish", "publishing", "reply"]),
  /** How its turn ended; `null`: it has not. */
  outcome: Schema.NullOr(Schema.Literals(["succeeded", "failed", "interrupted", "cancelled"])),
  /** `null`: nothing was published yet. An empty text: the publication succeeded. Else why it failed. */
  published: Schema.NullOr(Schema.String)
})
export type FeedbackRound = typeof FeedbackRound.Type

/** The state of feedback. */
export const FeedbackState = Schema.Struct({
  policy: FeedbackPolicy,
  /** Items at or before this time are not delivered, unless a person asks for it. */
  since: Timestamp,
  /** The same for single repositories, of whose deliveries the oldest are not remembered. Later than `since`. */
  passed: Schema.Array(Schema.Struct({ repo: RepoName, until: Timestamp })),
  /** The newest deliveries, oldest first: at most `MAX_DELIVERED` ids. */
  delivered: Schema.Array(DeliveredItems),
  /** Rounds since the last word of a person. */
  rounds: Counter,
  paused: Schema.Boolean,
  /** The last delivery or pause. A comment after it is a new word. */
  lastAt: Schema.NullOr(Timestamp),
  /** `null`: no round is under way. */
  round: Schema.NullOr(FeedbackRound),
  /** The sandbox that goes on with the pull request. */
  continuedBy: Schema.NullOr(SandboxId)
})
export type FeedbackState = typeof FeedbackState.Type
