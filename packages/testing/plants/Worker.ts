import { type Plants, plantsIn } from "./Plant.ts"

/** Faults of the worker, and of rules that no law sees, which their own tests must notice. */
export const plants: Plants = {
  port: "worker",
  subject: [
    "packages/testing/test/sandbox/Limits.test.ts",
    "packages/worker/test/jobs/Attempts.test.ts",
    "packages/worker/test/jobs/ReleaseReservations.test.ts",
    "packages/worker/test/checkpoint/Checkpoint.test.ts",
    "packages/worker/test/shared/LeasedSandbox.test.ts",
    "packages/worker/test/boot/BootBreaker.test.ts",
    "packages/worker/test/turn/Models.test.ts",
    "packages/worker/test/Takeover.test.ts"
  ],
  plants: [
    ...plantsIn("packages/domain/src/sandbox/rules/Sandbox.ts", [
      ["takes time from a boot whose setup ended by an earlier clock", "Math.max(at.epochMilliseconds - run.since.epochMilliseconds, 0)",
        "at.epochMilliseconds - run.since.epochMilliseconds"]
    ]),
    ...plantsIn("packages/worker/src/jobs/DeliverWebhooks.ts", [
      ["signs with replaced secrets for ever", "signing(secrets, at).map", "secrets.map"]
    ]),
    ...plantsIn("packages/worker/src/jobs/ReleaseReservations.ts", [
      ["gives back what is reserved for sandboxes that live", "const { over } = yield* maintenance.left(machine, ids)", "const over = ids"]
    ]),
    ...plantsIn("packages/worker/src/jobs/ReapOrphans.ts", [
      ["gives back at the gateway what the new worker of a sandbox has reserved", "(moved.has(id) ? removeHere(id) : giveBack(id))",
        "giveBack(id)"]
    ]),
    ...plantsIn("packages/worker/src/checkpoint/Checkpoint.ts", [
      ["takes files for a checkpoint that it read while an agent worked", "workedTurns: workedTurns(sandbox) }",
        "workedTurns: workedTurns((yield* leased.view).sandbox) }"]
    ]),
    ...plantsIn("packages/worker/src/shared/LeasedSandbox.ts", [
      ["repeats a write whose answer was lost", "if (tried !== null && isWritten(",
        "if (tried !== null && tried.events.length === 0 && isWritten("]
    ]),
    ...plantsIn("packages/worker/src/boot/BootBreaker.ts", [
      ["ends one pause only when a boot went through", "      pauses = 0\n", "      pauses = Math.max(0, pauses - 1)\n"]
    ]),
    ...plantsIn("packages/worker/src/turn/RunTurn.ts", [
      ["ends each turn for a refusal of an earlier one, while it runs", "refusals > (before?.refusals ?? 0)),", "refusals > 0),"],
      ["ends each turn for a refusal of an earlier one, when it ends", "if (account.refusals > (before?.refusals ?? 0)) running",
        "if (account.refusals > 0) running"]
    ]),
    ...plantsIn("packages/worker/src/WorkerNode.ts", [
      ["leaves an agent no time to end before its lease does", "const KILL_MILLIS = 2000", "const KILL_MILLIS = 0"],
      ["counts a renewal from its answer", "session.validUntil = isKept ? asked + LEASE_MILLIS : 0",
        "session.validUntil = isKept ? (yield* elapsedMillis) + LEASE_MILLIS : 0"],
      ["counts a lease from its answer", "begin(node, one, asked + LEASE_MILLIS,",
        "begin(node, one, (yield* elapsedMillis) + LEASE_MILLIS,"]
    ])
  ]
}
