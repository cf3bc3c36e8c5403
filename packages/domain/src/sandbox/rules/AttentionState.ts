/**
 * The state of a sandbox for people, in one word: every page, every notification and the command use it.
 * Pure functions.
 */
import { isUnderWay } from "../../source/rules/PullState.ts"
import type { AttentionState } from "../schema/AttentionState.ts"
import type { Publication, Sandbox } from "./Sandbox.ts"
import * as Turn from "./Turn.ts"

export type { AttentionState } from "../schema/AttentionState.ts"

/** The parts of a sandbox that decide its state. Clients of the API have them without the whole sandbox. */
export interface StateFacts extends Pick<Sandbox, "restoring" | "status"> {
  readonly approvals: ReadonlyArray<unknown>
  readonly publications: ReadonlyArray<Pick<Publication, "actionState" | "state">>
  readonly turn: { readonly state: Turn.TurnState } | null
}

const isOpen = ({ state }: Pick<Publication, "state">) => state === "open"
const isClosed = ({ state }: Pick<Publication, "state">) => state === "closed"

/**
 * A sandbox at rest is `ready` while a pull request is open. After a successful turn it is `ready` until its pull requests are closed
 * or merged. An ended sandbox is `ready` only while a pull request is open.
 */
export const attentionStateOf = ({ approvals, publications, restoring, status, turn }: StateFacts): AttentionState => {
  switch (status) {
    case "queued":
    case "creating":
      return "starting"
    case "failed":
      return "failed"
    case "terminating":
    case "terminated":
      return "ended"
    case "succeeded":
      return publications.some(isOpen) ? "ready" : "ended"
    case "running":
      if (approvals.length > 0 || turn?.state === "awaiting_answer") return "asking"
      if (turn !== null && Turn.isUnderWay(turn.state) || restoring !== null || publications.some(isUnderWay)) return "working"
      if (turn?.state === "failed") return "failed"
      return publications.some(isOpen) || turn?.state === "succeeded" && !publications.some(isClosed) ? "ready" : "idle"
  }
}

/** The word that people read for each state. */
export const stateWords: Readonly<Record<AttentionState, string>> = {
  starting: "Starting",
  working: "Working",
  asking: "Needs you",
  ready: "Ready",
  failed: "Failed",
  idle: "Idle",
  ended: "Ended"
}

/** The state of a sandbox in the word that people read. */
export const stateWordOf = (facts: StateFacts): string => stateWords[attentionStateOf(facts)]
