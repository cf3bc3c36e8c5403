/** Failures to start a process, by the system's error code. */
import { HostError } from "@slipway/domain/sandbox/ports/SandboxHost"

/** Kernel limits, which pass. */
const PASSING = new Set(["EAGAIN", "ENOMEM", "EMFILE", "ENFILE"])

/** Whether a later try may succeed. */
export const isPassing = (code: string): boolean => PASSING.has(code)

export const ofCommand = (command: string, code: string): HostError =>
  new HostError({
    operation: "spawn",
    detail: code === "ENOENT" ? `${command} was not found.` : `${command} could not be started (${code}).`,
    retryable: isPassing(code)
  })
