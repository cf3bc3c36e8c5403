/** `SandboxDashboard` in memory, over the rows of `SandboxStoreMemory`. */
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import type { AuditLog } from "../../src/access/ports/AuditLog.ts"
import type { SandboxId } from "../../src/ids/SandboxId.ts"
import { addTokenCounts, noTokenCounts } from "../../src/models/rules/Usage.ts"
import {
  archiving,
  type Asked,
  type DashboardQuery,
  SandboxDashboard,
  GROUPS,
  LOOKED_THROUGH,
  MAX_PINS,
  type PastGroup,
  type Pinning,
  PLACES,
  pullsOf,
  RECENT,
  requestedRepos,
  SEARCHED_MESSAGES,
  TooManyPins
} from "../../src/sandbox/ports/SandboxDashboard.ts"
import { bytesOf, SandboxNotFound } from "../../src/sandbox/ports/SandboxStore.ts"
import { type AttentionState, attentionStateOf } from "../../src/sandbox/rules/AttentionState.ts"
import { takesSlot, workOf } from "../../src/sandbox/rules/LeaseRules.ts"
import type { Sandbox } from "../../src/sandbox/rules/Sandbox.ts"
import { pullStateOf } from "../../src/source/rules/PullState.ts"
import type { PullState } from "../../src/source/schema/PullRequest.ts"
import { pageOf } from "../../src/store/Page.ts"
import { saturatingAdd } from "../../src/text/Counters.ts"
import { hasWords, SEARCHED_CHARACTERS } from "../../src/text/SearchText.ts"
import { isHeld, newestFirst, type Row, type SandboxRows } from "./SandboxRows.ts"
import * as WorkersMemory from "./WorkersMemory.ts"

const nothing = { count: 0, costMicroUsd: 0, tokens: noTokenCounts, pulls: 0, merged: 0, mergedAfterMs: 0, timedMerges: 0 }

const pullCounts = (sandboxes: ReadonlyArray<Sandbox>): ReadonlyMap<PullState, number> => {
  const numbers = new Map<PullState, number>()
  for (const sandbox of sandboxes.slice(0, LOOKED_THROUGH)) {
    for (const state of pullsOf(sandbox, "any", null).map(pullStateOf)) numbers.set(state, (numbers.get(state) ?? 0) + 1)
  }
  return numbers
}

/** The newest searched text with the words. */
const hitIn = ({ messages, sandbox }: Row, search: string): string | undefined =>
  [sandbox.prompt, ...messages.slice(0, SEARCHED_MESSAGES).map(({ text }) => text)].findLast((text) => hasWords(text, search))

const hasPairs = ({ metadata }: Sandbox, pairs: Readonly<Record<string, string>>): boolean =>
  Object.entries(pairs).every(([key, value]) => Object.hasOwn(metadata, key) && metadata[key] === value)

const saidIn = ({ rows }: SandboxRows, grantId: string, ids: ReadonlyArray<SandboxId>, search: string): ReadonlyMap<SandboxId, string> =>
  new Map(ids.flatMap((id) => {
    const row = rows.get(id)
    const text = row?.sandbox.grantId === grantId ? hitIn(row, search) : undefined
    return text === undefined ? [] : [[id, Array.from(text).slice(0, SEARCHED_CHARACTERS).join("")] as const]
  }))

const isFound = (
  row: Row,
  { attention, createdBy = null, metadata = {}, pull, repo, search }: DashboardQuery
): boolean => {
  const { sandbox } = row
  return (attention === null || attentionStateOf(sandbox) === attention) &&
    (repo === null || sandbox.repos.some(({ fullName }) => fullName.toLowerCase() === repo.toLowerCase())) &&
    (createdBy === null || sandbox.createdBy === createdBy) && hasPairs(sandbox, metadata) &&
    (sandbox.title.toLowerCase().includes(search.toLowerCase()) || hitIn(row, search) !== undefined) &&
    (pull === undefined || pullsOf(sandbox, pull, repo).length > 0)
}

const askedOf = (sandbox: Sandbox): Asked => ({
  createdBy: sandbox.createdBy,
  createdAt: sandbox.createdAt,
  repos: requestedRepos(sandbox.repos, sandbox.continues?.repo ?? null),
  model: sandbox.model,
  reasoningEffort: sandbox.reasoningEffort,
  toolApprovalMode: sandbox.toolApprovalMode,
  started: sandbox.startedAt !== null
})

/** The sandboxes that people pinned. */
const pinning = ({ rows }: SandboxRows) => {
  const pins = new Map<string, ReadonlySet<SandboxId>>()
  const nameOf = ({ grantId, userId }: Pinning) => `${grantId} ${userId}`
  const pinsOf = (by: Pinning): ReadonlySet<SandboxId> => new Set(Array.from(pins.get(nameOf(by)) ?? []).filter((id) => rows.has(id)))
  const pin: SandboxDashboard["Service"]["pin"] = Effect.fnUntraced(function*(by, id, isPinned) {
    if (rows.get(id)?.sandbox.grantId !== by.grantId) return yield* new SandboxNotFound()
    const others = Array.from(pinsOf(by)).filter((other) => other !== id)
    if (isPinned && others.length >= MAX_PINS) return yield* new TooManyPins()
    pins.set(nameOf(by), new Set(isPinned ? [...others, id] : others))
  })
  return { pin, pinsOf }
}

/** The places of the grant's sandboxes in the line of those that wait for their boot, and the use of the workers. */
const queueAt = (state: SandboxRows, grantId: string, now: DateTime.Utc) => {
  const working = Array.from(state.rows.values()).filter(({ sandbox }) => workOf(sandbox) !== null)
  const waiting = working
    .filter((row) => workOf(row.sandbox) === "boot" && !isHeld(row, now))
    .sort((a, b) =>
      DateTime.Order(a.workSince ?? now, b.workSince ?? now) || DateTime.Order(a.sandbox.createdAt, b.sandbox.createdAt) ||
      (a.sandbox.id < b.sandbox.id ? -1 : 1)
    )
    .slice(0, PLACES)
  const places = new Map<SandboxId, number>()
  for (const [i, { sandbox }] of waiting.entries()) if (sandbox.grantId === grantId) places.set(sandbox.id, i + 1)
  const present = WorkersMemory.known(state, now).filter(({ isDraining, isThere }) => isThere && !isDraining)
  return {
    places,
    atWork: working.filter((row) => isHeld(row, now) && takesSlot(row.sandbox)).length,
    slots: present.reduce((sum, { slots }) => sum + slots.all, 0)
  }
}

/** The sandboxes by day, repository, model, creator and result: the groups with the highest costs. */
const pastGroups = (sandboxes: ReadonlyArray<Sandbox>): ReadonlyArray<PastGroup> => {
  const groups = new Map<string, PastGroup>()
  for (
    const { createdAt, createdBy, model, publications, reason, repos, status, tokens, usage } of sandboxes.slice(0, LOOKED_THROUGH)
  ) {
    const day = DateTime.formatIsoDateUtc(createdAt)
    const repo = repos[0]?.fullName.toLowerCase() ?? ""
    const key = JSON.stringify([day, repo, model, createdBy, status, reason])
    const known = groups.get(key) ?? { ...nothing, day, repo, model, createdBy, status, reason }
    const merges = publications.flatMap(({ mergedAt }) => mergedAt === undefined ? [] : [mergedAt])
    const waits = merges.map((mergedAt) => DateTime.toEpochMillis(mergedAt) - DateTime.toEpochMillis(createdAt))
    groups.set(key, {
      ...known,
      count: known.count + 1,
      costMicroUsd: saturatingAdd(known.costMicroUsd, usage.costMicroUsd),
      tokens: addTokenCounts(known.tokens, tokens),
      pulls: known.pulls + publications.filter(({ number }) => number !== null).length,
      merged: known.merged + publications.filter(({ merged }) => merged === true).length,
      mergedAfterMs: waits.reduce(saturatingAdd, known.mergedAfterMs),
      timedMerges: known.timedMerges + waits.length
    })
  }
  return Array.from(groups.values()).sort((a, b) => b.costMicroUsd - a.costMicroUsd).slice(0, GROUPS)
}

/** `SandboxDashboard` over these rows. */
export const make = (state: SandboxRows, audit: AuditLog["Service"] | null): SandboxDashboard["Service"] => {
  const { rows } = state
  const { pin, pinsOf } = pinning(state)
  const isArchived = (id: SandboxId) => rows.get(id)?.archivedAt != null
  const all = (grantId: string) =>
    Array.from(rows.values(), ({ sandbox }) => sandbox).filter((sandbox) => sandbox.grantId === grantId).sort(newestFirst)
  const of = (grantId: string, archived = false) => all(grantId).filter(({ id }) => isArchived(id) === archived)

  return SandboxDashboard.of({
    pins: (by) => Effect.sync(() => pinsOf(by)),
    pin,

    archive: Effect.fnUntraced(function*(grantId, ids, isArchiving, now) {
      const changed = [...new Set(ids)].filter((id) => rows.get(id)?.sandbox.grantId === grantId && isArchived(id) !== isArchiving)
      for (const id of changed) rows.get(id)!.archivedAt = isArchiving ? now : null
      if (audit !== null) yield* audit.append(changed.map((id) => archiving(id, isArchiving, now)))
      return changed
    }),

    archived: (grantId, ids) => Effect.sync(() => new Set(ids.filter((id) => rows.get(id)?.sandbox.grantId === grantId && isArchived(id)))),

    list: (grantId, query) =>
      Effect.sync(() => {
        const { after, archived, limit, pinnedBy: userId } = query
        const isPinned = (id: SandboxId) => userId === undefined || pinsOf({ grantId, userId }).has(id)
        const looked = of(grantId, archived).filter((sandbox) =>
          (after === null || newestFirst(after, sandbox) < 0) && isPinned(sandbox.id)
        )
          .slice(0, LOOKED_THROUGH)
        const found = looked.filter(({ id }) => {
          const row = rows.get(id)
          return row !== undefined && isFound(row, query)
        })
        return pageOf(found, limit, bytesOf.sandbox)
      }),

    counts: (grantId) =>
      Effect.sync(() => {
        const counts = new Map<AttentionState, number>()
        for (const sandbox of of(grantId).slice(0, LOOKED_THROUGH)) {
          const state = attentionStateOf(sandbox)
          counts.set(state, (counts.get(state) ?? 0) + 1)
        }
        return counts
      }),

    pullCounts: (grantId) => Effect.sync(() => pullCounts(of(grantId))),

    said: (grantId, ids, search) => Effect.sync(() => saidIn(state, grantId, ids, search)),

    changes: (ids) =>
      Effect.sync(() =>
        new Map(ids.flatMap((id) => {
          const changes = rows.get(id)?.checkpoints.findLast(({ checkpoint }) => checkpoint === rows.get(id)?.sandbox.checkpoint)?.changes
          return changes === undefined ? [] : [[id, changes] as const]
        }))
      ),

    recent: (grantId) => Effect.sync(() => all(grantId).slice(0, RECENT).map(askedOf)),

    queue: (grantId) => Effect.map(DateTime.now, (now) => queueAt(state, grantId, now)),

    past: (grantId, since) =>
      Effect.sync(() => pastGroups(all(grantId).filter(({ createdAt }) => DateTime.isGreaterThanOrEqualTo(createdAt, since))))
  })
}
