/**
 * Whether a sandbox needs the attention of people, in one word, by which lists and the overview are grouped. Pure functions.
 */
import type { AttentionState } from "../schema/AttentionState.ts"
import { isUnderWay, type Publication, type Sandbox } from "./Sandbox.ts"
import { isActive } from "./Turn.ts"

export type { AttentionState } from "../schema/AttentionState.ts"

const isOpen = ({ state }: Publication) => state === "open"
const isClosed = ({ state }: Publication) => state === "closed"

/**
 * A sandbox at rest is `ready` while a pull request is open. After a successful turn it is `ready` until its pull requests are closed
 * or merged. An ended sandbox is `ready` only while a pull request is open.
 */
export const attentionStateOf = (
  { approvals, publications, restoring, status, turn }: Pick<Sandbox, "approvals" | "publications" | "restoring" | "status" | "turn">
): AttentionState => {
  switch (status) {
    case "queued":
      return "queued"
    case "creating":
      return "working"
    case "failed":
      return "failed"
    case "terminating":
    case "terminated":
      return "over"
    case "succeeded":
      return publications.some(isOpen) ? "ready" : "over"
    case "running":
      if (approvals.length > 0) return "asking"
      if (isActive(turn) || restoring !== null || publications.some(isUnderWay)) return "working"
      if (turn?.state === "failed") return "failed"
      return publications.some(isOpen) || turn?.state === "succeeded" && !publications.some(isClosed) ? "ready" : "resting"
  }
}
