/** Which sandboxes a worker may lease, and which of them first. Rules of `Leases.take`. */
import { DateTime, type Duration } from "effect"
import type { SandboxId } from "../SandboxId.ts"
import type { SandboxStatus } from "./SandboxEvent.ts"

/** What of a sandbox decides who may lease it. */
export interface Leasable {
  readonly id: SandboxId
  readonly grantId: string
  readonly createdAt: DateTime.Utc
  readonly status: SandboxStatus
  /** `null`: no worker ever had it. */
  readonly lease: { readonly machine: string; readonly until: DateTime.Utc } | null
}

/** Who asks, and when. */
export interface Taker {
  readonly machine: string
  readonly now: DateTime.Utc
  /** `Policy.lost`: how long a lost worker's machine may take to come back for what it has. */
  readonly lost: Duration.Duration
}

const isLive = ({ status }: Leasable) => status === "queued" || status === "creating" || status === "running"
const isEnding = ({ status }: Leasable) => status === "terminating"

/** Whether it needs a worker and has none: a lost worker's own machine may have it at once, any other one only later. */
export const mayLease = (sandbox: Leasable, { lost, machine, now }: Taker): boolean => {
  if (!isLive(sandbox) && !isEnding(sandbox)) return false
  if (sandbox.lease === null) return true
  const { machine: last, until } = sandbox.lease
  return DateTime.isLessThanOrEqualTo(last === machine ? until : DateTime.addDuration(until, lost), now)
}

const longestFirst = (a: Leasable, b: Leasable) => DateTime.Order(a.createdAt, b.createdAt) || (a.id < b.id ? -1 : a.id > b.id ? 1 : 0)

/**
 * What a worker is given that has room for `limit`, and for `ending` of those that end: these, then the others. Grants take turns:
 * a sandbox comes behind as many as workers hold of its grant, and behind those of its grant that waited longer.
 */
export const leaseOrder = (
  sandboxes: ReadonlyArray<Leasable>,
  taker: Taker,
  { ending, limit }: { readonly limit: number; readonly ending: number }
): ReadonlyArray<SandboxId> => {
  const oldest = [...sandboxes].sort(longestFirst)
  const turns = new Map<string, number>()
  const takeTurn = ({ grantId }: Leasable) => {
    const turn = (turns.get(grantId) ?? 0) + 1
    turns.set(grantId, turn)
    return turn
  }
  for (const sandbox of oldest) {
    if (isLive(sandbox) && sandbox.lease !== null && DateTime.isGreaterThan(sandbox.lease.until, taker.now)) takeTurn(sandbox)
  }
  const free = oldest.filter((sandbox) => mayLease(sandbox, taker))
  const waiting = free.filter(isLive).map((sandbox) => ({ sandbox, turn: takeTurn(sandbox) })).sort((a, b) => a.turn - b.turn)
  return [...free.filter(isEnding).slice(0, ending), ...waiting.slice(0, limit).map(({ sandbox }) => sandbox)].map(({ id }) => id)
}
