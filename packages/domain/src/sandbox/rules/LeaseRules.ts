/** Which sandboxes need a worker, who may lease them, and which of them first (docs/decisions/15). Rules of `Leases.take`. */
import type * as DateTime from "effect/DateTime"
import type * as Duration from "effect/Duration"
import type { SandboxId } from "../../ids/SandboxId.ts"
import * as Instant from "../../time/Instant.ts"
import { isUnderWay, type Sandbox } from "./Sandbox.ts"
import type { SandboxEvent, SandboxStatus } from "./SandboxEvent.ts"
import { isActive } from "./Turn.ts"

/**
 * What a sandbox needs a worker for. `boot`: to get ready. `turn`: for its agent. `errand`: for what no agent is needed for: to
 * end, to publish, to go back to a checkpoint, to take one.
 */
export type Work = "boot" | "turn" | "errand"

/** `null`: it is at rest, or over. */
export const workOf = (
  { owesCheckpoint, publications, restoring, status, turn }: Pick<
    Sandbox,
    "owesCheckpoint" | "publications" | "restoring" | "status" | "turn"
  >
): Work | null => {
  switch (status) {
    case "queued":
    case "creating":
      return "boot"
    case "running":
      return isActive(turn) ? "turn" : restoring !== null || owesCheckpoint || publications.some(isUnderWay) ? "errand" : null
    case "terminating":
      return "errand"
    case "succeeded":
    case "failed":
      return publications.some(isUnderWay) ? "errand" : null
    case "terminated":
      return null
  }
}

/** Whether a worker that works for it has one slot less: to wait for a person takes none. */
export const takesSlot = (sandbox: Parameters<typeof workOf>[0]): boolean => {
  const work = workOf(sandbox)
  return work === "boot" || work === "turn" && sandbox.turn?.state !== "awaiting_approval"
}

/** Whether what a lease's holder recorded says that its machine has all of the sandbox, wherever that was before. */
export const isArrival = (events: ReadonlyArray<SandboxEvent>): boolean =>
  events.some(({ data, type }) => type === "sandbox.restored" && data.checkpoint !== undefined)

/** An agent is at it. */
export const isAtWork = ({ turn }: Pick<Sandbox, "turn">): boolean => isActive(turn) && turn.startedAt !== null

/** No agent has done anything in it yet, nor in what it was forked from. */
export const isUntouched = ({ checkpoint, origin, turn }: Pick<Sandbox, "checkpoint" | "origin" | "turn">): boolean =>
  checkpoint === 0 && origin === null && (turn === null || turn.n === 1 && turn.startedAt === null)

/** Something of it may be on its machine alone. */
export const isUnsaved = (
  sandbox: Pick<Sandbox, "checkpoint" | "origin" | "owesCheckpoint" | "pinned" | "turn">
): boolean =>
  sandbox.turn !== null && !isUntouched(sandbox) &&
  (sandbox.owesCheckpoint || sandbox.pinned || isAtWork(sandbox) || sandbox.checkpoint === 0 && sandbox.origin === null)

/** What of a sandbox decides who may lease it. */
export interface Leasable {
  readonly id: SandboxId
  readonly grantId: string
  readonly createdAt: DateTime.Utc
  readonly status: SandboxStatus
  readonly work: Work | null
  /** When it began to need a worker, by the store's clock; it has needed one ever since. `null`: it needs none. */
  readonly workSince: DateTime.Utc | null
  /** `null`: no worker ever had it. */
  readonly lease: { readonly machine: string; readonly until: DateTime.Utc } | null
  /** Its machine gave it up: it need not wait for that one to come back. */
  readonly drained: boolean
  /** `isUnsaved`: giving it up would lose something. */
  readonly unsaved: boolean
}

/** Who asks, and when. */
export interface Taker {
  readonly machine: string
  readonly now: DateTime.Utc
  /** `Policy.lost`: how long a lost worker's machine may take to come back for what it has. */
  readonly lost: Duration.Duration
}

/** How many a worker takes at most. */
export interface Room {
  /** Boots and turns together. */
  readonly slots: number
  /** Of these, boots. */
  readonly boots: number
  /** On top: they free room, and a full worker must not keep them from it. */
  readonly errands: number
}

const isHeld = ({ lease }: Leasable, now: DateTime.Utc) => lease !== null && Instant.isGreaterThan(lease.until, now)
const needsSlot = ({ work }: Leasable) => work === "boot" || work === "turn"

/** Any machine may have it at once: its own gave it up, and had nothing that would be lost. */
export const isGivenUp = ({ drained, unsaved }: Pick<Leasable, "drained" | "unsaved">): boolean => drained && !unsaved

/**
 * Whether it needs a worker and has none. Its own machine may have it at once, any other one only when that machine had its time
 * to come for it. What was given up, and what is over, of which no machine has anything, may go anywhere; but what its machine alone
 * has waits for that one however it was given up.
 */
export const mayLease = (sandbox: Leasable, { lost, machine, now }: Taker): boolean => {
  const { lease, status, work, workSince } = sandbox
  if (work === null || isHeld(sandbox, now)) return false
  if (lease === null || lease.machine === machine || isGivenUp(sandbox) || status === "succeeded" || status === "failed") return true
  const last = workSince === null ? lease.until : Instant.max(lease.until, workSince)
  return Instant.isLessThanOrEqualTo(Instant.addDuration(last, lost), now)
}

const longestFirst = (a: Leasable, b: Leasable) =>
  (a.workSince === null || b.workSince === null ? 0 : Instant.Order(a.workSince, b.workSince)) ||
  Instant.Order(a.createdAt, b.createdAt) || (a.id < b.id ? -1 : a.id > b.id ? 1 : 0)

/**
 * What a worker is given. Grants take turns: a sandbox comes behind as many as workers hold at work of its grant, and behind those
 * of its grant that waited longer. Boots that find no room keep no turn from its place.
 */
export const leaseOrder = (sandboxes: ReadonlyArray<Leasable>, taker: Taker, room: Room): ReadonlyArray<SandboxId> => {
  const held = new Map<string, number>()
  for (const sandbox of sandboxes) {
    if (needsSlot(sandbox) && isHeld(sandbox, taker.now)) held.set(sandbox.grantId, (held.get(sandbox.grantId) ?? 0) + 1)
  }
  const inTurns = (waiting: ReadonlyArray<Leasable>) => {
    const turns = new Map(held)
    return [...waiting].sort(longestFirst).map((sandbox) => {
      const turn = (turns.get(sandbox.grantId) ?? 0) + 1
      turns.set(sandbox.grantId, turn)
      return { sandbox, turn }
    }).sort((a, b) => a.turn - b.turn).map(({ sandbox }) => sandbox)
  }
  const free = sandboxes.filter((sandbox) => mayLease(sandbox, taker))
  const of = (work: Work) => free.filter((sandbox) => sandbox.work === work)
  return [
    ...of("errand").sort(longestFirst).slice(0, room.errands),
    ...inTurns([...inTurns(of("boot")).slice(0, room.boots), ...of("turn")]).slice(0, room.slots)
  ].map(({ id }) => id)
}
