/** The sub-agents of one turn. The turn lasts until all have ended, so that files do not change after it. */
import type { Ended } from "./Conversation.ts"

/** Open sub-agents. An agent that starts more is out of control. */
const MAX_OPEN = 256

export interface SubAgents {
  /** A sub-agent began, or is about to. */
  begin(id: string): void
  end(id: string): void
  /** The agent itself has finished its prompt. */
  conclude(ended: Ended): void
  /** How the agent ended its prompt; `null`: not yet. */
  readonly concluded: () => Ended | null
  readonly open: () => ReadonlyArray<string>
  /** For the next prompt. */
  reset(): void
}

/** `ended` is called once, when the agent has concluded and all sub-agents have ended. */
export const make = (ended: (ended: Ended) => void): SubAgents => {
  const open = new Set<string>()
  let conclusion: Ended | null = null
  let isOver = false
  const settle = () => {
    if (isOver || conclusion === null || open.size > 0) return
    isOver = true
    ended(conclusion)
  }
  return {
    begin: (id) => {
      if (isOver || open.has(id)) return
      if (open.size < MAX_OPEN) open.add(id)
      else {
        isOver = true
        ended({ finish: "error", broken: `the agent runs more than ${MAX_OPEN} sub-agents at once` })
      }
    },
    end: (id) => {
      open.delete(id)
      settle()
    },
    conclude: (ended) => {
      conclusion ??= ended
      settle()
    },
    concluded: () => conclusion,
    open: () => [...open],
    reset: () => {
      open.clear()
      conclusion = null
      isOver = false
    }
  }
}
