/** Work of a host that the machine may refuse. */
import { codeTextOf } from "@slipway/domain/files/rules/SystemError"
import { HostError } from "@slipway/domain/sandbox/ports/SandboxHost"
import { Effect } from "effect"
import * as DiskErrors from "../node/DiskErrors.ts"

/** Why: in sentences where it is the disk, else in the system's word for it. */
export const reason = (error: unknown): string => DiskErrors.of(error)?.detail ?? codeTextOf(error)

/** Files and processes of the machine: what fails now may go well later. */
export const attempt = <A>(operation: HostError["operation"], detail: string, run: () => Promise<A>): Effect.Effect<A, HostError> =>
  Effect.tryPromise({
    try: run,
    catch: (error) => new HostError({ operation, detail: `${detail} (${reason(error)})`, retryable: true })
  })
