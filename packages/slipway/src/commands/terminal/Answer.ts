/** A person's typed answer to an approval. */

export type Answer =
  /** `covers`: only this call, all of its kind until the turn ends, or all calls of the turn while it is followed. */
  | { readonly decision: "approve"; readonly covers: "nothing" | "kind" | "turn" }
  /** `reason`: the text for the agent; `undefined`: none. */
  | { readonly decision: "deny"; readonly reason: string | undefined }
  | { readonly decision: "none" }

/** `title`: of the call, in one line that is safe for a terminal. `isOfKind`: all calls of its kind can be approved. */
export const question = (title: string, isOfKind: boolean): string =>
  `Approve "${title}"? y: yes, n [WHY]: no, ${isOfKind ? "k: all of its kind this turn, " : ""}a: all of this turn > `

const DENIED = /^(?:n|no)(?:[\s,:]+([^\s,:].*)?)?$/iu

/** Only these words approve, so that no typing error does. An empty line repeats the question. */
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
