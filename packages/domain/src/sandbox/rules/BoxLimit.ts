/**
 * A limit of the sandbox's box that its programs reached in a turn, as the kernel counts it. People get it as an error, because a
 * killed agent or command does not name the cause.
 */
import { admit } from "./OutputLimit.ts"
import type { Sandbox } from "./Sandbox.ts"
import type { SandboxEvent } from "./SandboxEvent.ts"
import { isActive } from "./Turn.ts"

/** How often the kernel enforced the limits of a box since the box was made. */
export interface LimitsMet {
  /** Programs that were killed because memory ran out. */
  readonly outOfMemory: number
  /** Processes and threads that could not start because of the limit of processes. */
  readonly tooManyProcesses: number
}

/** `code` of the error, and `reason` of the turn's end if its agent ended because of it. */
export type BoxLimit = "out_of_memory" | "too_many_processes"

const sentences: Record<BoxLimit, string> = {
  out_of_memory: "The sandbox ran out of memory, so programs of it were ended.",
  too_many_processes: "The sandbox has too many processes: it could start no more of them."
}

/** The limits that were reached since `before`. The limit that kills programs comes first. */
export const metSince = (before: LimitsMet, now: LimitsMet): ReadonlyArray<BoxLimit> => [
  ...now.outOfMemory > before.outOfMemory ? ["out_of_memory" as const] : [],
  ...now.tooManyProcesses > before.tooManyProcesses ? ["too_many_processes" as const] : []
]

/** The error event for the turn; empty if that turn is no longer active. */
export const tell = (sandbox: Sandbox, turnId: string, limit: BoxLimit): ReadonlyArray<SandboxEvent> =>
  isActive(sandbox.turn) && sandbox.turn.id === turnId
    ? admit(sandbox, [{ type: "sandbox.error", turn_id: turnId, data: { code: limit, message: sentences[limit], retryable: true } }])
    : []
