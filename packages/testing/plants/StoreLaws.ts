import { type Plants, plantsIn } from "./Plant.ts"

/** Faults of a store, for the published laws alone. */
export const plants: Plants = {
  port: "store-laws",
  subject: "packages/testing/test/sandbox/StoreLaws.suites.ts",
  plants: plantsIn("packages/domain/memory/sandbox/SandboxStoreMemory.ts", [
    ["forgets the key of a message", "bound !== undefined && !isExpired(bound, time)", "bound !== undefined && isExpired(bound, time)"],
    ["answers another message with a key", "    yield* Effect.fromResult(resolve(bound.fingerprint, keyed))\n    const result",
      "    const result"],
    ["answers a repeated message with the present revision", "revision: bound.revision,", "revision: before.revision,"],
    ["forgets the turn of a repeated message", "turnId: bound.turnId,", "turnId: null,"],
    ["shows a sandbox to all grants", "const row = yield* rowOf(state, id, grantId)\n  const before",
      "const row = yield* rowOf(state, id)\n  const before"],
    ["keeps no receipts", "if (keep !== null) row.receipts.set(commandId, keep)", ""]
  ])
}
