/** Makes the machine of a sandbox, or finds the existing one. */
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { HostError } from "@slipway/domain/sandbox/ports/SandboxHost"
import { attempt } from "@slipway/machine/host/HostAttempt"
import { Effect } from "effect"
import { isDeepStrictEqual } from "node:util"
import * as MachineRegistry from "./MachineRegistry.ts"
import type { Operation } from "./RunnerErrorMapping.ts"
import { EGRESS, type RunnerHost } from "./RunnerHost.ts"

export const read = ({ known }: Pick<RunnerHost, "known">, operation: Operation, sandboxId: SandboxId) =>
  attempt(operation, "What is known of the sandbox's machine cannot be read.", async () => known.get(sandboxId))

/** Makes or finds the machine, and notes the fence. Refused when a newer fence was noted. */
export const ensure = Effect.fnUntraced(function*(
  host: Pick<RunnerHost, "directory" | "known" | "machines">,
  operation: Operation,
  sandboxId: SandboxId,
  fence: number
) {
  const { directory, known, machines } = host
  const before = (yield* read(host, operation, sandboxId)) ?? MachineRegistry.fresh(fence)
  if (fence < before.fence) {
    return yield* new HostError({
      operation,
      detail: `The sandbox's machine has seen a newer lease (${before.fence}).`,
      retryable: false
    })
  }
  const save = (machine: MachineRegistry.Machine) =>
    attempt(operation, `${directory} cannot be written to.`, async () => known.set(sandboxId, machine))
  // On the disk before the machine is made: otherwise a crash would leave a machine that no worker can dial.
  const machine = { ...before, fence }
  yield* save(machine)
  const address = yield* machines.ensure({ sandboxId, fence, identity: machine.runner, ways: [EGRESS] })
  // A write waits for the disk twice: skip it for an unchanged address.
  if (!isDeepStrictEqual(address, machine.address)) yield* save({ ...machine, address })
})

/** Makes a machine before the first lease is known here. Under the lock of the sandbox. */
export const ensureAny = Effect.fnUntraced(function*(host: RunnerHost, operation: Operation, sandboxId: SandboxId) {
  const machine = yield* read(host, operation, sandboxId)
  if (machine === undefined || machine.address === null) yield* ensure(host, operation, sandboxId, machine?.fence ?? 0)
})

/** The same without the lock: it is taken only when there is no machine yet. */
export const ensureSome = Effect.fnUntraced(function*(host: RunnerHost, operation: Operation, sandboxId: SandboxId) {
  const machine = yield* read(host, operation, sandboxId)
  if (machine === undefined || machine.address === null) yield* host.locked(sandboxId)(ensureAny(host, operation, sandboxId))
})
