/** The turn state machine (docs/decisions/2.2): one prompt and the agent's work on it. A sandbox has one turn at a time. */
import type { Ids, Uuid } from "../../ids/Ids.ts"
import type { SandboxId } from "../../ids/SandboxId.ts"
import type { Finish } from "../schema/AgentEvent.ts"
import type { Turn, TurnOutcome, TurnState } from "../schema/Turn.ts"

export type { Turn, TurnOutcome, TurnState } from "../schema/Turn.ts"

/** Every allowed step. Ended turns have no steps: a turn never restarts. */
export const turnTransitions: Readonly<Record<TurnState, ReadonlyArray<TurnState>>> = {
  pending: ["running", "cancelled"],
  running: ["running", "awaiting_approval", "awaiting_answer", "succeeded", "failed", "interrupted"],
  awaiting_approval: ["running", "awaiting_approval", "awaiting_answer", "succeeded", "failed", "interrupted"],
  awaiting_answer: ["running", "awaiting_approval", "awaiting_answer", "succeeded", "failed", "interrupted"],
  succeeded: [],
  failed: [],
  interrupted: [],
  cancelled: []
}

/** A turn that has not ended. */
export type ActiveTurn = Turn & { readonly state: "pending" | "running" | "awaiting_approval" | "awaiting_answer" }

/** Whether a turn in this state has not ended yet. */
export const isUnderWay = (state: Turn["state"]): boolean => turnTransitions[state].length > 0

/** Whether the agent of a turn in this state waits for a person. */
export const isAwaiting = (state: TurnState): boolean => state === "awaiting_approval" || state === "awaiting_answer"

/** Whether the turn has not ended yet. */
export const isActive = (turn: Turn | null): turn is ActiveTurn => turn !== null && isUnderWay(turn.state)

/** The id of the sandbox's `n`th turn, counted from 1. It is known before the turn exists, so that a retried start has the same id. */
export const turnId = (ids: Pick<Ids["Service"], "derive">, id: SandboxId, n: number): Uuid => ids.derive(`${id}/turn/${n}`)

/** The default end of a turn's last message. */
export const finishes: Readonly<Record<TurnOutcome, Finish>> = {
  succeeded: "end_turn",
  interrupted: "cancelled",
  cancelled: "cancelled",
  failed: "error"
}
