/** The states of a pull request and of its publication. Loads nothing, for the command. */
import type { ActionState, PullRequest, PullState } from "../schema/PullRequest.ts"

/** The state of a pull request in one word. */
export const pullStateOf = (
  { draft, merged, state }: {
    readonly state: PullRequest["state"] | null
    readonly draft: boolean | null
    readonly merged: boolean | null
  }
): PullState => merged === true ? "merged" : state === "closed" ? "closed" : draft === true ? "draft" : "open"

/** Whether a worker still has to execute the publication. */
export const isUnderWay = (publication: { readonly actionState: ActionState } | undefined): boolean =>
  publication?.actionState === "publishing" || publication?.actionState === "updating"
