/** A worker's capacity: the operator's setting, otherwise computed from its machine. */
import { availableParallelism, totalmem } from "node:os"
import type { Settings } from "../../settings/Settings.ts"

const GIB = 2 ** 30

/** Bytes that this process and its boxes may use. A limit of the control group counts. */
const memory = () => {
  const constrained = process.constrainedMemory()
  return constrained > 0 ? Math.min(constrained, totalmem()) : totalmem()
}

/** The limits of a worker (docs/decisions/15). */
export const of = (
  { workerSlots }: Pick<Settings, "workerSlots">,
  machine = { memory: memory(), processors: availableParallelism() }
) => {
  const slots = workerSlots ?? Math.min(32, Math.max(4, Math.round(machine.memory / GIB)))
  return { slots, agents: 4 * slots, boots: 2 * machine.processors }
}
