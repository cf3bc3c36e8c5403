/**
 * Which sandboxes need a worker, which workers may lease them, and in what order (docs/decisions/15). Rules of `Leases.take`.
 */
import type * as DateTime from "effect/DateTime"
import type * as Duration from "effect/Duration"
import type { SandboxId } from "../../ids/SandboxId.ts"
import { isUnderWay } from "../../source/rules/PullState.ts"
import * as Instant from "../../time/Instant.ts"
import type { Sandbox } from "./Sandbox.ts"
import type { SandboxEvent, SandboxStatus } from "./SandboxEvent.ts"
import { isActive, isAwaiting } from "./Turn.ts"

/**
 * The work that a sandbox needs a worker for. `boot`: booting. `turn`: running its agent. `errand`: work without an agent, such as
 * ending, publishing, bringing commits of the host, and restoring or taking a checkpoint.
 */
export type Work = "boot" | "turn" | "errand"

/** `null`: the sandbox rests or has ended. */
export const workOf = (
  { owesCheckpoint, publications, restoring, status, syncing, turn }: Pick<
    Sandbox,
    "owesCheckpoint" | "publications" | "restoring" | "status" | "syncing" | "turn"
  >
): Work | null => {
  switch (status) {
    case "queued":
    case "creating":
      return "boot"
    case "running":
      return isActive(turn) ? "turn" : restoring !== null || owesCheckpoint || syncing || publications.some(isUnderWay) ? "errand" : null
    case "terminating":
      return "errand"
    case "succeeded":
    case "failed":
      return publications.some(isUnderWay) ? "errand" : null
    case "terminated":
      return null
  }
}

/** Whether running the sandbox takes a slot. Waiting for a person takes none. */
export const takesSlot = (sandbox: Parameters<typeof workOf>[0]): boolean => {
  const work = workOf(sandbox)
  return work === "boot" || work === "turn" && (sandbox.turn === null || !isAwaiting(sandbox.turn.state))
}

/** Whether these events of a lease's holder show that its machine has all of the sandbox's data. */
export const isArrival = (events: ReadonlyArray<SandboxEvent>): boolean =>
  events.some(({ data, type }) => type === "sandbox.restored" && data.checkpoint !== undefined)

/** Whether an agent is working on the turn. */
export const isAtWork = ({ turn }: Pick<Sandbox, "turn">): boolean => isActive(turn) && turn.startedAt !== null

/** Whether no agent has worked in the sandbox yet, nor in the sandbox that it was forked from. */
export const isUntouched = ({ checkpoint, origin, turn }: Pick<Sandbox, "checkpoint" | "origin" | "turn">): boolean =>
  checkpoint === 0 && origin === null && (turn === null || turn.n === 1 && turn.startedAt === null)

/** Whether the sandbox may have data that exists only on its machine. */
export const isUnsaved = (
  sandbox: Pick<Sandbox, "checkpoint" | "origin" | "owesCheckpoint" | "pinned" | "turn">
): boolean =>
  sandbox.turn !== null && !isUntouched(sandbox) &&
  (sandbox.owesCheckpoint || sandbox.pinned || isAtWork(sandbox) || sandbox.checkpoint === 0 && sandbox.origin === null)

/** The facts about a sandbox that decide which worker may lease it. */
export interface Leasable {
  readonly id: SandboxId
  readonly grantId: string
  readonly createdAt: DateTime.Utc
  readonly status: SandboxStatus
  readonly work: Work | null
  /** The time since when it has needed a worker without a break, by the store's clock. `null`: it needs none. */
  readonly workSince: DateTime.Utc | null
  /** `null`: it never had a worker. */
  readonly lease: { readonly machine: string; readonly until: DateTime.Utc } | null
  /** Its machine gave it up, so it need not wait for that machine. */
  readonly drained: boolean
  /** `isUnsaved`: giving it up would lose data. */
  readonly unsaved: boolean
}

/** The worker that asks, and the time. */
export interface Taker {
  readonly machine: string
  readonly now: DateTime.Utc
  /** `Policy.lost`: how long a lost worker's machine may take to return for its sandboxes. */
  readonly lost: Duration.Duration
}

/** The most sandboxes that a worker takes. */
export interface Room {
  /** Boots and turns together. */
  readonly slots: number
  /** Boots among `slots`. */
  readonly boots: number
  /** In addition to `slots`: errands free capacity, so a full worker must still do them. */
  readonly errands: number
}

const isHeld = ({ lease }: Leasable, now: DateTime.Utc) => lease !== null && Instant.isGreaterThan(lease.until, now)
const needsSlot = ({ work }: Leasable) => work === "boot" || work === "turn"

/** Whether any machine may take it at once: its own machine gave it up, and no data would be lost. */
export const isGivenUp = ({ drained, unsaved }: Pick<Leasable, "drained" | "unsaved">): boolean => drained && !unsaved

/**
 * Whether the sandbox needs a worker and has none. The machine it last ran on may take it at once, and so may any machine if the
 * sandbox never had a worker, was given up without unsaved data, or succeeded or failed. Otherwise another machine may take it `lost`
 * after the lease ended or work appeared, whichever is later.
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
  Instant.Order(a.createdAt, b.createdAt) || (a.id < b.id ? -1 : 1)

/**
 * The sandboxes for a worker, in order. A sandbox is ranked by the number of its grant's active sandboxes plus those of its grant that
 * waited longer, so grants take turns. Boots that do not fit take no place from turns.
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
