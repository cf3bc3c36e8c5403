/** What a person types when an approval is asked for. */

export type Answer =
  /** `covers`: beside what is asked for, the others of its kind until the turn ends, or all that the turn asks for while it is followed. */
  | { readonly decision: "approve"; readonly covers: "nothing" | "kind" | "turn" }
  /** `reason`: what the agent is told; `undefined`: nothing. */
  | { readonly decision: "deny"; readonly reason: string | undefined }
  | { readonly decision: "none" }

/** `title`: of what is asked for, in one line that is safe for a terminal. `isOfKind`: all of its kind can be approved. */
export const question = (title: string, isOfKind: boolean): string =>
  `Approve "${title}"? y: yes, n [WHY]: no, ${isOfKind ? "k: all of its kind this turn, " : ""}a: all of this turn > `

const DENIED = /^(?:n|no)(?:[\s,:]+([^\s,:].*)?)?$/iu

/** Nothing typed by mistake approves: only these words do, and an empty line is asked again. */
export const read = (line: string): Answer => {
  const typed = line.trim()
  const denied = DENIED.exec(typed)
  if (denied !== null) return { decision: "deny", reason: denied[1] }
  switch (typed.toLowerCase()) {
    case "y":
    case "yes":
      return { decision: "approve", covers: "nothing" }
    case "k":
    case "kind":
      return { decision: "approve", covers: "kind" }
    case "a":
    case "all":
      return { decision: "approve", covers: "turn" }
    default:
      return { decision: "none" }
  }
}
