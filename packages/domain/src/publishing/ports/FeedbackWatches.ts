/**
 * Port: which sandboxes with feedback (docs/decisions/24) have to be looked at, and when. A watch of each of their pull requests exists
 * from the moment that it is recorded. Checked by `FeedbackWatchesContract`.
 */
import * as Context from "effect/Context"
import type * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import type * as Effect from "effect/Effect"
import type { SandboxId } from "../../ids/SandboxId.ts"
import type { RepoName } from "../../source/schema/RepoRef.ts"
import type { StoreUnavailable } from "../../store/StoreUnavailable.ts"

/** How long a worker may take for one look. After its death the look is repeated then. */
export const CLAIM_TIME = Duration.minutes(2)

/** A worker's right to look at one pull request of a sandbox, for {@link CLAIM_TIME}. */
export interface TakenWatch {
  readonly sandboxId: SandboxId
  /** As in the sandbox. */
  readonly repo: RepoName
  /** Failed looks since the last success. */
  readonly failures: number
  /** Grows with each claim. A record with an old fence changes nothing. */
  readonly fence: number
  /** The number of notices at the time of the claim. */
  readonly noticed: number
}

/** Checked by `FeedbackWatchesContract`. */
export class FeedbackWatches extends Context.Service<FeedbackWatches, {
  /** Makes all watches of pull requests from this branch due, or with `null` all of the repository, in any case of its name. */
  noticed(repo: RepoName, branch: string | null, at: DateTime.Utc): Effect.Effect<void, StoreUnavailable>
  /**
   * Claims up to `limit` due watches, the longest due first. Watches that other workers hold are left out. A watch is due when its sandbox
   * has changed (feedback, status, turn or publications), when it was noticed, and at the time of its last record.
   */
  take(now: DateTime.Utc, limit: number): Effect.Effect<ReadonlyArray<TakenWatch>, StoreUnavailable>
  /**
   * Ends a claim. `lookAt`: `null`, not before something changes. A change or notice since the claim makes it due at once. `false`:
   * another worker has claimed it since, and nothing was changed.
   */
  record(
    taken: TakenWatch,
    end: { readonly lookAt: DateTime.Utc | null; readonly failures: number }
  ): Effect.Effect<boolean, StoreUnavailable>
}>()("@slipway/domain/FeedbackWatches") {}
