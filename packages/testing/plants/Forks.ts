import { type Plants, plantsIn } from "./Plant.ts"

const isGone = "if (origin !== null && !isKept(state, origin)) return yield* new CheckpointNotFound()"
const isKept = "rows.get(sandboxId)?.checkpoints.some((kept) => kept.checkpoint === checkpoint) ?? false"
const bind = "keys.set(scopeOf(creation.grantId, keyed, forkOf), " +
  "{ fingerprint: keyed.fingerprint, id: origin.sandboxId, boundAt: yield* DateTime.now })"
const row = "const row = newRow(creation)"

export const plants: Plants = {
  port: "Forks",
  subject: "packages/testing/test/sandbox/Forks.suites.ts",
  plants: [
    ...plantsIn("packages/domain/memory/sandbox/SandboxStoreMemory.ts", [
      ["forks what is forgotten", isKept, "rows.get(sandboxId)?.sandbox.checkpoint >= checkpoint"],
      ["forks what was never taken", isKept, "(rows.get(sandboxId)?.checkpoints.length ?? 0) > 0"],
      ["forks no sandbox that is over", isKept, `!isSettled(rows.get(sandboxId)?.sandbox.status) && ${isKept.replace(" ?? false", "")}`],
      ["binds the key of a fork that is refused", isGone,
        `if (origin !== null && keyed !== null && !isKept(state, origin)) ${bind}\n        ${isGone}`],
      ["refuses a replay when what it started with is forgotten", "const known = keyed", `${isGone}\n        const known = keyed`],
      ["takes the key of a creation for that of a fork", "`${grantId} ${forkOf ?? \"\"} ${key}`", "`${grantId} ${key}`"],
      ["takes the key of another sandbox's fork for its own", "`${grantId} ${forkOf ?? \"\"} ${key}`",
        "`${grantId} ${forkOf !== null} ${key}`"],
      ["makes a fork for every equal request", "const known = keyed === null ?", "const known = keyed === null || origin !== null ?"],
      ["forgets what a fork starts with", row, "const row = newRow({ ...creation, origin: null })"],
      ["tells that it is a fork before it is queued", "const events = created(creation)", "const events = created(creation).toReversed()"],
      ["does not tell that it is a fork", "const events = created(creation)", "const events = created(creation).slice(0, 1)"],
      ["counts a fork as a change of the other sandbox", row,
        `if (origin !== null) rows.get(origin.sandboxId).sandbox = { ...rows.get(origin.sandboxId).sandbox, revision: 100 }\n${row}`],
      ["does not tell the audit log of forks",
        "if (audit !== null) yield* audit.append(securityEvents(creation.id, events, creation.createdAt))", ""],
      ["tells the audit log of the other sandbox", "securityEvents(creation.id, events",
        "securityEvents(origin?.sandboxId ?? creation.id, events"],
      ["does not tell the audit log who went back", "if (audit !== null) yield* audit.append(securityEvents(row.sandbox.id, events, now))",
        ""]
    ]),
    ...plantsIn("packages/domain/memory/sandbox/CheckpointsMemory.ts", [
      ["forgets what a fork starts with when the other one is over", "if (isStart(state, id, checkpoint)) return true", ""]
    ]),
    ...plantsIn("packages/domain/memory/sandbox/SandboxRows.ts", [
      ["keeps for ever what a fork started with", "own === 0 && !isSettled(status)", "own === 0"]
    ])
  ]
}
