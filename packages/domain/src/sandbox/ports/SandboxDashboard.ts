/**
 * Port: views of a grant's sandboxes for people, over the rows of a `SandboxStore`: the list, the queue, recent requests, results and
 * costs. It also keeps what each person pinned. Checked by `SandboxDashboardContract`.
 */
import * as Context from "effect/Context"
import type * as DateTime from "effect/DateTime"
import type * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { SecurityEvent } from "../../access/ports/AuditLog.ts"
import type { SandboxId } from "../../ids/SandboxId.ts"
import type { TokenCounts } from "../../models/rules/Usage.ts"
import type { ReasoningEffort } from "../../models/schema/ReasoningEffort.ts"
import type { ToolApprovalMode } from "../../models/schema/ToolApprovalMode.ts"
import { pullStateOf } from "../../source/rules/PullState.ts"
import type { ChangeCounts } from "../../source/schema/ChangeCounts.ts"
import { sameRepo } from "../../source/schema/Naming.ts"
import type { PullState } from "../../source/schema/PullRequest.ts"
import type { RepoName, RepoRef } from "../../source/schema/RepoRef.ts"
import type { StoreUnavailable } from "../../store/StoreUnavailable.ts"
import type { AttentionState } from "../rules/AttentionState.ts"
import type { Publication, Sandbox } from "../rules/Sandbox.ts"
import type { SandboxStatus, StatusReason } from "../rules/SandboxEvent.ts"
import type { ListPosition, SandboxNotFound } from "./SandboxStore.ts"

/** A list examines this many sandboxes from its beginning, so that every search takes a bounded time. */
export const LOOKED_THROUGH = 10_000
/** The first prompts and messages of a sandbox whose words are found. */
export const SEARCHED_MESSAGES = 500
/** The newest creations of a grant in `SandboxDashboard.recent`. */
export const RECENT = 200
/** The waiting sandboxes whose place in the queue is computed. */
export const PLACES = 1000
/** The groups of a {@link Past}, those with the highest cost. */
export const GROUPS = 2000
/** The most sandboxes of one grant that a person can pin. */
export const MAX_PINS = 100

/** The person pinned {@link MAX_PINS} other sandboxes of the grant. A retry helps after one was unpinned. */
export class TooManyPins extends Schema.TaggedError<TooManyPins>()("TooManyPins", {}) {
  override get message() {
    return `You pinned ${MAX_PINS} sandboxes. Unpin one first.`
  }
}

/** A page of a grant's sandboxes, newest first. */
export interface DashboardQuery {
  readonly after: ListPosition | null
  /** At least 1. */
  readonly limit: number
  readonly attention: AttentionState | null
  /** Matches any repository of the sandbox, in any case. */
  readonly repo: RepoName | null
  /** A part of the title in any case, or words of one prompt or message (`hasWords`); empty: all sandboxes. */
  readonly search: string
  /** The id of the user who created them. Absent: anybody. */
  readonly createdBy?: string | null
  /** Pairs that the sandbox's metadata has. */
  readonly metadata?: Readonly<Record<string, string>>
  /** Only sandboxes with a pull request in this state, of `repo` if given. Absent: all sandboxes. */
  readonly pull?: PullState | "any"
  /** Id of a user: only sandboxes that this user pinned. Absent: all sandboxes. */
  readonly pinnedBy?: string
  /** True: only archived sandboxes. Absent: only those that are not archived. */
  readonly archived?: boolean
}

/** A person in a grant. Pins of one person are separate in each grant. */
export interface Pinning {
  readonly grantId: string
  readonly userId: string
}

/** The request of a creation. */
export interface Asked {
  readonly createdBy: string
  readonly createdAt: DateTime.Utc
  /** As requested: the repository of a continued branch has no ref ({@link requestedRepos}). */
  readonly repos: ReadonlyArray<RepoRef>
  readonly model: string
  readonly reasoningEffort: ReasoningEffort | null
  readonly toolApprovalMode: ToolApprovalMode
  /** The sandbox ran, so its repositories were accessible. */
  readonly started: boolean
}

/** The queue for workers, over all grants. */
export interface Queue {
  /** The place in the queue, from 1, of the grant's sandboxes that wait for their boot and are among the first {@link PLACES}. */
  readonly places: ReadonlyMap<SandboxId, number>
  /** Sandboxes of all grants that take a worker's slot. */
  readonly atWork: number
  /** The slots of all present workers that take sandboxes (`Workers`); 0: no such worker. */
  readonly slots: number
}

/** Sandboxes created on one day, with the same values of these fields. */
export interface PastGroup {
  /** The day of creation in UTC: `2026-11-23`. */
  readonly day: string
  /** The sandbox's first repository, in lower case. */
  readonly repo: string
  readonly model: string
  /** The id of the user who created them. */
  readonly createdBy: string
  readonly status: SandboxStatus
  readonly reason: StatusReason | null
  readonly count: number
  readonly costMicroUsd: number
  readonly tokens: TokenCounts
  /** Their pull requests, and those of them that are merged. */
  readonly pulls: number
  readonly merged: number
  /** Milliseconds from the creation of the sandbox to the merge, of all that are merged at a known time; saturates. */
  readonly mergedAfterMs: number
  /** The number of merges in `mergedAfterMs`. */
  readonly timedMerges: number
}

/** Checked by `SandboxDashboardContract`. After `StoreUnavailable`, retrying helps and is safe. */
export class SandboxDashboard extends Context.Service<SandboxDashboard, {
  /** Newest first; stable while sandboxes are created. The limits of a page are those of `pageOf` with the store's `bytesOf.sandbox`. */
  list(grantId: string, query: DashboardQuery): Effect.Effect<ReadonlyArray<Sandbox>, StoreUnavailable>
  /**
   * The newest prompt or message of each that has the words of `search` (`hasWords`), cut to the characters that are searched: among the
   * first {@link SEARCHED_MESSAGES} of a sandbox. A sandbox without a hit is missing.
   */
  said(grantId: string, ids: ReadonlyArray<SandboxId>, search: string): Effect.Effect<ReadonlyMap<SandboxId, string>, StoreUnavailable>
  /** The changes in each sandbox's newest checkpoint, if known. */
  changes(ids: ReadonlyArray<SandboxId>): Effect.Effect<ReadonlyMap<SandboxId, ReadonlyArray<ChangeCounts>>, StoreUnavailable>
  /** Numbers of the newest {@link LOOKED_THROUGH} sandboxes by state. A state without sandboxes may be missing. */
  counts(grantId: string): Effect.Effect<ReadonlyMap<AttentionState, number>, StoreUnavailable>
  /** Numbers of the pull requests of the newest {@link LOOKED_THROUGH} sandboxes by state. A state without pull requests may be missing. */
  pullCounts(grantId: string): Effect.Effect<ReadonlyMap<PullState, number>, StoreUnavailable>
  /** The newest {@link RECENT} creations, newest first. */
  recent(grantId: string): Effect.Effect<ReadonlyArray<Asked>, StoreUnavailable>
  queue(grantId: string): Effect.Effect<Queue, StoreUnavailable>
  /** The sandboxes of the grant that the user pinned: at most {@link MAX_PINS}. */
  pins(by: Pinning): Effect.Effect<ReadonlySet<SandboxId>, StoreUnavailable>
  /** Pins a sandbox of the grant for the user, or unpins it. Safe to repeat. */
  pin(by: Pinning, id: SandboxId, isPinned: boolean): Effect.Effect<void, SandboxNotFound | StoreUnavailable | TooManyPins>
  /**
   * Archives sandboxes of the grant, or undoes it, and returns those that changed. Unknown ids are left out. Lists, counts and searches of
   * this port leave out archived sandboxes unless asked for them; no other port knows of it. Each change is in the audit log.
   */
  archive(grantId: string, ids: ReadonlyArray<SandboxId>, isArchived: boolean, now: DateTime.Utc): Effect.Effect<
    ReadonlyArray<SandboxId>,
    StoreUnavailable
  >
  /** The archived ones of these sandboxes of the grant. */
  archived(grantId: string, ids: ReadonlyArray<SandboxId>): Effect.Effect<ReadonlySet<SandboxId>, StoreUnavailable>
  /** Groups of the newest {@link LOOKED_THROUGH} sandboxes created since then, the highest cost first. */
  past(grantId: string, since: DateTime.Utc): Effect.Effect<ReadonlyArray<PastGroup>, StoreUnavailable>
}>()("@slipway/domain/SandboxDashboard") {
}

/** The security event of archiving a sandbox, or of undoing it. */
export const archiving = (sandboxId: SandboxId, isArchived: boolean, at: DateTime.Utc): SecurityEvent => ({
  action: isArchived ? "sandbox.archived" : "sandbox.unarchived",
  at,
  subjects: { sandboxId }
})

/** The repositories of a request. `continued`: the repository whose branch the sandbox continues; its ref was not requested. */
export const requestedRepos = (repos: ReadonlyArray<RepoRef>, continued: string | null): ReadonlyArray<RepoRef> =>
  continued === null ? repos : repos.map((repo) => sameRepo(repo.fullName, continued) ? { fullName: repo.fullName } : repo)

/** The pull requests of a sandbox in this state, of `repo` if given. */
export const pullsOf = ({ publications }: Sandbox, pull: PullState | "any", repo: RepoName | null): ReadonlyArray<Publication> =>
  publications.filter((publication) =>
    publication.number !== null && (pull === "any" || pullStateOf(publication) === pull) &&
    (repo === null || sameRepo(publication.repo, repo))
  )

/** A repository that the grant used. */
export interface KnownRepository {
  readonly fullName: RepoName
  /** The ref of the newest request; `null`: the default branch. */
  readonly ref: string | null
}

/** Newest first, each once. Spellings that differ in case are one repository. */
export const repositoriesOf = (recent: ReadonlyArray<Asked>): ReadonlyArray<KnownRepository> => {
  const known = new Map<string, KnownRepository>()
  for (const { repos } of recent) {
    for (const { fullName, ref = null } of repos) {
      const key = fullName.toLowerCase()
      if (!known.has(key)) known.set(key, { fullName, ref })
    }
  }
  return Array.from(known.values())
}

/** The accounts, in lower case, of repositories that the grant could access. The grant may know the names of these accounts. */
export const ownersOf = (recent: ReadonlyArray<Asked>): ReadonlySet<string> =>
  new Set(recent.flatMap(({ repos, started }) => started ? repos.map(({ fullName }) => fullName.split("/")[0]?.toLowerCase() ?? "") : []))

/** This person's last request; `null`: none is known. */
export const lastChoice = (recent: ReadonlyArray<Asked>, userId: string): Asked | null =>
  recent.find(({ createdBy }) => createdBy === userId) ?? null

/** The totals of the groups by one of their properties, by descending cost, then descending count, then name. */
export const totalsBy = (
  groups: ReadonlyArray<PastGroup>,
  keyOf: (group: PastGroup) => string | null
): ReadonlyArray<{ readonly key: string; readonly count: number; readonly costMicroUsd: number }> => {
  const totals = new Map<string, { readonly key: string; readonly count: number; readonly costMicroUsd: number }>()
  for (const group of groups) {
    const key = keyOf(group)
    if (key === null) continue
    const known = totals.get(key) ?? { key, count: 0, costMicroUsd: 0 }
    totals.set(key, { key, count: known.count + group.count, costMicroUsd: known.costMicroUsd + group.costMicroUsd })
  }
  return Array.from(totals.values()).sort((a, b) =>
    b.costMicroUsd - a.costMicroUsd || b.count - a.count || (a.key < b.key ? -1 : a.key > b.key ? 1 : 0)
  )
}
