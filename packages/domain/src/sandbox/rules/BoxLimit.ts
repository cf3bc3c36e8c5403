/**
 * A limit of the sandbox's box that its programs met in a turn, as the kernel counts it. People are told, since what they see else, an
 * agent that is gone or a command that fails without a word, names no cause.
 */
import { admit } from "./OutputLimit.ts"
import type { Sandbox } from "./Sandbox.ts"
import type { SandboxEvent } from "./SandboxEvent.ts"
import { isActive } from "./Turn.ts"

/** How often the kernel kept a box to its limits, since the box was made. */
export interface LimitsMet {
  /** Programs that were ended because memory ran out. */
  readonly outOfMemory: number
  /** Processes and threads that were not started because there were as many as there may be. */
  readonly tooManyProcesses: number
}

/** `code` of the error that tells it, and `reason` of the turn's end where its agent went with it. */
export type BoxLimit = "out_of_memory" | "too_many_processes"

const sentences: Record<BoxLimit, string> = {
  out_of_memory: "The sandbox ran out of memory, so programs of it were ended.",
  too_many_processes: "The sandbox has too many processes: it could start no more of them."
}

/** Those that were met since `before`, the one that ends programs first. */
export const metSince = (before: LimitsMet, now: LimitsMet): ReadonlyArray<BoxLimit> => [
  ...now.outOfMemory > before.outOfMemory ? ["out_of_memory" as const] : [],
  ...now.tooManyProcesses > before.tooManyProcesses ? ["too_many_processes" as const] : []
]

/** Tells of it in the turn; nothing where that is not the active one any more. */
export const tell = (sandbox: Sandbox, turnId: string, limit: BoxLimit): ReadonlyArray<SandboxEvent> =>
  isActive(sandbox.turn) && sandbox.turn.id === turnId
    ? admit(sandbox, [{ type: "sandbox.error", turn_id: turnId, data: { code: limit, message: sentences[limit], retryable: true } }])
    : []
