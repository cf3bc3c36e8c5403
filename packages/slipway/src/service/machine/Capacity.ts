/** How much a worker may take on: what the operator says, else what its machine has. */
import { availableParallelism, totalmem } from "node:os"
import type { Settings } from "../../settings/Settings.ts"

const GIB = 2 ** 30

/** Bytes that this process and its boxes may use: of the control group where one sets a limit. */
const memory = () => {
  const constrained = process.constrainedMemory()
  return constrained > 0 ? Math.min(constrained, totalmem()) : totalmem()
}

/** The bounds of a worker (docs/decisions/15). */
export const of = (
  { workerAgents, workerBoots, workerSlots }: Pick<Settings, "workerAgents" | "workerBoots" | "workerSlots">,
  machine = { memory: memory(), processors: availableParallelism() }
) => {
  const slots = workerSlots ?? Math.min(32, Math.max(4, Math.round(machine.memory / GIB)))
  return {
    slots,
    agents: Math.max(slots, workerAgents ?? 4 * slots),
    boots: workerBoots ?? 2 * machine.processors
  }
}
