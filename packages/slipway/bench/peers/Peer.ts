/** The measurements of a server that runs agents. */

/** A session that takes prompts. */
export interface Session {
  readonly id: string
  /** From sending the prompt until the stream, open already, has the agent's word. Waits for the turn's end. Milliseconds. */
  readonly prompt: () => Promise<number>
  /** Fulfils when nothing of the last prompt is left to do. */
  readonly rest: () => Promise<void>
  readonly read: () => Promise<void>
  /** Milliseconds until all that was said in it was received, and how much that is. */
  readonly replay: () => Promise<{ readonly took: number; readonly bytes: number }>
  readonly end: () => Promise<void>
}

export interface Peer {
  readonly name: string
  /** Milliseconds until the session was there for its caller, and from the same beginning until its agent's first word. */
  readonly create: () => Promise<{ readonly answered: number; readonly firstWord: number; readonly session: Session }>
  /** Ends its server by SIGKILL, starts it again, and says what is left of a session that had an answer. */
  readonly afterKill: (id: string) => Promise<string>
  readonly stop: () => Promise<void>
}

/** The prompt of every agent. */
export const PROMPT = "[[say hello]]"
