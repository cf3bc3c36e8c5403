/** Port: the repositories whose news are asked for regularly, and how far each was read. Checked by `FollowedRepositoriesContract`. */
import * as Context from "effect/Context"
import type * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import type * as Effect from "effect/Effect"
import type { StoreUnavailable } from "../../store/StoreUnavailable.ts"
import type { RepoName } from "../schema/RepoRef.ts"

/** The longest reason, in characters. */
export const MAX_REASON = 100

/** A worker's right to ask for the news of one repository, for {@link CLAIM_TIME}. */
export interface ClaimedRepository {
  /** The name by which it is followed. */
  readonly repo: RepoName
  /** The answer of the last poll; `null`: the repository was never polled. */
  readonly cursor: string | null
  /** Since when it is followed. */
  readonly followedAt: DateTime.Utc
  /** When the host last sent news of it by itself; `null`: never. */
  readonly heardAt: DateTime.Utc | null
  /** Failed polls since the last success. */
  readonly failures: number
  /** Another one for each claim. A record with an old fence changes nothing. */
  readonly fence: number
}

/** Longer than any poll and the handling of its news. After the death of a worker its repository waits for this time. */
export const CLAIM_TIME = Duration.minutes(5)

/** Names of repositories are compared in any case of letters. */
export class FollowedRepositories extends Context.Service<FollowedRepositories, {
  /**
   * Follows the repository until each reason is taken back, from `now` on. It is due at once. Safe to repeat. `reason`: a unique text of
   * the caller, such as `feedback:` and an id; at most {@link MAX_REASON} characters.
   */
  follow(repo: RepoName, reason: string, now: DateTime.Utc): Effect.Effect<void, StoreUnavailable>
  /** Takes back the reason. Without any, the repository and its cursor are forgotten. Safe to repeat. */
  unfollow(repo: RepoName, reason: string): Effect.Effect<void, StoreUnavailable>
  /** Claims up to `limit` due repositories, the longest due first. Repositories that other callers hold are left out. */
  claim(now: DateTime.Utc, limit: number): Effect.Effect<ReadonlyArray<ClaimedRepository>, StoreUnavailable>
  /**
   * Records the end of a poll and frees the repository. `presentName`: the host's name for it now. `false`: another caller had claimed
   * it, or it is no longer followed; nothing was changed.
   */
  record(
    claimed: ClaimedRepository,
    end: {
      readonly cursor: string | null
      readonly failures: number
      readonly dueAt: DateTime.Utc
      readonly presentName: RepoName
    }
  ): Effect.Effect<boolean, StoreUnavailable>
  /**
   * The host sent news of the repository that it now calls `name`. Gives the names by which that repository is followed: the same, or
   * earlier ones; empty if it is not followed.
   */
  heard(name: RepoName, at: DateTime.Utc): Effect.Effect<ReadonlyArray<RepoName>, StoreUnavailable>
  /** The host renamed or moved a repository. It stays followed by its earlier name. Safe to repeat. */
  renamed(from: RepoName, to: RepoName): Effect.Effect<void, StoreUnavailable>
}>()("@slipway/domain/FollowedRepositories") {}
