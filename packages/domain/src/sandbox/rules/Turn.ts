/** The turn state machine (docs/decisions/2.2): one prompt and what the agent makes of it. A sandbox has one turn at a time. */
import type { Ids, Uuid } from "../../ids/Ids.ts"
import type { SandboxId } from "../../ids/SandboxId.ts"
import type { Finish } from "../schema/AgentEvent.ts"
import type { Turn, TurnOutcome, TurnState } from "../schema/Turn.ts"

export type { Turn, TurnOutcome, TurnState } from "../schema/Turn.ts"

/** Every legal step. The row of an ended turn is empty: a turn never starts again. */
export const turnTransitions: Readonly<Record<TurnState, ReadonlyArray<TurnState>>> = {
  pending: ["running", "cancelled"],
  running: ["running", "awaiting_approval", "succeeded", "failed", "interrupted"],
  awaiting_approval: ["running", "awaiting_approval", "succeeded", "failed", "interrupted"],
  succeeded: [],
  failed: [],
  interrupted: [],
  cancelled: []
}

/** A turn that has not ended. */
export type ActiveTurn = Turn & { readonly state: "pending" | "running" | "awaiting_approval" }

/** Whether a turn in this state has not ended yet. */
export const isUnderWay = (state: Turn["state"]): boolean => turnTransitions[state].length > 0

/** Whether it has not ended yet. */
export const isActive = (turn: Turn | null): turn is ActiveTurn => turn !== null && isUnderWay(turn.state)

/** Id of the sandbox's `n`th turn, counted from 1. Known before the turn exists, so a retried start names the same turn. */
export const turnId = (ids: Pick<Ids["Service"], "derive">, id: SandboxId, n: number): Uuid => ids.derive(`${id}/turn/${n}`)

/** How the last message ends when nothing else is said of it. */
export const finishes: Readonly<Record<TurnOutcome, Finish>> = {
  succeeded: "end_turn",
  interrupted: "cancelled",
  cancelled: "cancelled",
  failed: "error"
}
