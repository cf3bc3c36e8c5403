/** What a sandbox wants of people, in one word: what lists and the overview go by. Pure functions. */
import type { Standing } from "../schema/AttentionState.ts"
import { isUnderWay, type Publication, type Sandbox } from "./Sandbox.ts"
import { isActive } from "./Turn.ts"

export type { Standing } from "../schema/AttentionState.ts"

const isOpen = ({ state }: Publication) => state === "open"
const isClosed = ({ state }: Publication) => state === "closed"

/**
 * Of what is at rest there is something to review where a pull request is open, and after a turn that succeeded, until the pull requests
 * that came of it are closed or merged. Of what has ended only an open pull request counts.
 */
export const standingOf = (
  { approvals, publications, restoring, status, turn }: Pick<Sandbox, "approvals" | "publications" | "restoring" | "status" | "turn">
): Standing => {
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
