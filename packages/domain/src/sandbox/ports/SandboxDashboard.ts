/**
 * Port: what people see of a grant's sandboxes together, over the rows of a `SandboxStore`: the list, who waits, what was asked for
 * last, what came of it and what it cost. Checked by `SandboxDashboardContract`.
 */
import * as Context from "effect/Context"
import type * as DateTime from "effect/DateTime"
import type * as Effect from "effect/Effect"
import type { SandboxId } from "../../ids/SandboxId.ts"
import type { TokenCounts } from "../../models/rules/Usage.ts"
import type { ReasoningEffort } from "../../models/schema/ReasoningEffort.ts"
import type { ToolApprovalMode } from "../../models/schema/ToolApprovalMode.ts"
import type { ChangeCounts } from "../../source/schema/ChangeCounts.ts"
import { sameRepo } from "../../source/schema/Naming.ts"
import { type PullState, pullStateOf } from "../../source/schema/PullRequest.ts"
import type { RepoName, RepoRef } from "../../source/schema/RepoRef.ts"
import type { StoreUnavailable } from "../../store/StoreUnavailable.ts"
import type { AttentionState } from "../rules/AttentionState.ts"
import type { Publication, Sandbox } from "../rules/Sandbox.ts"
import type { SandboxStatus, StatusReason } from "../rules/SandboxEvent.ts"
import type { ListPosition } from "./SandboxStore.ts"

/** A list looks through so many sandboxes after where it begins, and no further: its time has a bound, whatever it searches for. */
export const LOOKED_THROUGH = 10_000
/** Of so many creations of a grant, the newest, `SandboxDashboard.recent` tells. */
export const RECENT = 200
/** Of so many waiting sandboxes the place is known. */
export const PLACES = 1000
/** So many groups of a {@link Past} are told, those that cost most. */
export const GROUPS = 2000

/** Which sandboxes of a grant to list, newest first. */
export interface DashboardQuery {
  readonly after: ListPosition | null
  /** At least 1. */
  readonly limit: number
  readonly attention: AttentionState | null
  /** Matches any of a sandbox's repositories, whatever the case. */
  readonly repo: RepoName | null
  /** Part of the title, whatever the case; empty: any. */
  readonly search: string
  /** Only sandboxes with a pull request that stands so, of `repo` if one is named. Left out: those without any too. */
  readonly pull?: PullState | "any"
}

/** What was asked for. */
export interface Asked {
  readonly createdBy: string
  readonly createdAt: DateTime.Utc
  readonly repos: ReadonlyArray<RepoRef>
  readonly model: string
  readonly reasoningEffort: ReasoningEffort | null
  readonly toolApprovalMode: ToolApprovalMode
  /** It ran, so its repositories could be had. */
  readonly started: boolean
}

/** Who waits for a worker, in all grants together. */
export interface Queue {
  /** Of the grant's sandboxes that wait for their boot, and are among the first {@link PLACES}: which one in line it is, from 1. */
  readonly places: ReadonlyMap<SandboxId, number>
  /** Sandboxes of all grants that take a slot of a worker. */
  readonly atWork: number
  /** Of all workers that are there and take on work (`Workers`); 0: there is none. */
  readonly slots: number
}

/** Sandboxes of one day that have these in common. */
export interface PastGroup {
  /** Of creation, in UTC: `2026-11-23`. */
  readonly day: string
  /** The first of its repositories, in lower case. */
  readonly repo: string
  readonly model: string
  readonly status: SandboxStatus
  readonly reason: StatusReason | null
  readonly count: number
  readonly costMicroUsd: number
  readonly tokens: TokenCounts
}

/** Checked by `SandboxDashboardContract`. `StoreUnavailable`: retrying helps, and is safe everywhere. */
export class SandboxDashboard extends Context.Service<SandboxDashboard, {
  /** Newest first; stable while others are created. A page as `pageOf` makes one by `bytesOf.sandbox` of the store. */
  list(grantId: string, query: DashboardQuery): Effect.Effect<ReadonlyArray<Sandbox>, StoreUnavailable>
  /** What differs in the newest checkpoint of each, where that is known. */
  changes(ids: ReadonlyArray<SandboxId>): Effect.Effect<ReadonlyMap<SandboxId, ReadonlyArray<ChangeCounts>>, StoreUnavailable>
  /** The newest {@link RECENT} creations, newest first. */
  recent(grantId: string): Effect.Effect<ReadonlyArray<Asked>, StoreUnavailable>
  queue(grantId: string): Effect.Effect<Queue, StoreUnavailable>
  /** Of the newest {@link LOOKED_THROUGH} that were created since then, those that cost most first. */
  past(grantId: string, since: DateTime.Utc): Effect.Effect<ReadonlyArray<PastGroup>, StoreUnavailable>
}>()("@slipway/domain/SandboxDashboard") {
}

/** Its pull requests that stand so, of the repository if one is named. */
export const pullsOf = ({ publications }: Sandbox, pull: PullState | "any", repo: RepoName | null): ReadonlyArray<Publication> =>
  publications.filter((publication) =>
    publication.number !== null && (pull === "any" || pullStateOf(publication) === pull) &&
    (repo === null || sameRepo(publication.repo, repo))
  )

/** A repository that the grant worked with. */
export interface KnownRepository {
  readonly fullName: RepoName
  /** The ref that was asked for last; `null`: the default branch. */
  readonly ref: string | null
}

/** Newest first, each once, however it was spelled. */
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

/** Accounts, in lower case, of repositories that the grant could have: whoever has one knows what the account is called. */
export const ownersOf = (recent: ReadonlyArray<Asked>): ReadonlySet<string> =>
  new Set(recent.flatMap(({ repos, started }) => started ? repos.map(({ fullName }) => fullName.split("/")[0]?.toLowerCase() ?? "") : []))

/** What this person asked for last; `null`: nothing that is known. */
export const lastChoice = (recent: ReadonlyArray<Asked>, userId: string): Asked | null =>
  recent.find(({ createdBy }) => createdBy === userId) ?? null

/** What the groups come to by one of their properties, those of the largest cost first, then of the largest count, then by name. */
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
