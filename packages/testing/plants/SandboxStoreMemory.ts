import { type Plants, plantsIn } from "./Plant.ts"

const memory = "packages/domain/memory/sandbox"
const replays = "    if (known !== null) return { sandbox: known, replayed: true }"
const waits = "row.workSince = workOf(sandbox) === null ? null : row.workSince ?? now"
const expires = "DateTime.isLessThan(DateTime.add(boundAt, { days: RETENTION_DAYS }), now)"

/** Faults of the stores in memory. Those of `SandboxStore`, `Leases` and `Maintenance` are of the stores on SQLite. */
export const plants: Plants = {
  port: "SandboxStoreMemory",
  subject: "packages/testing/test/sandbox/SandboxStore.suites.ts",
  plants: [
    ...plantsIn(`${memory}/SandboxStoreMemory.ts`, [
      ["takes the trace of a repeated message", "    const result = { commandId: bound.commandId",
        "    if (trace !== null && bound.turnId !== null && !row.traces.has(bound.turnId)) row.traces.set(bound.turnId, trace)\n" +
        "    const result = { commandId: bound.commandId"],
      ["takes the trace of a repeated creation", replays, "    const kept = known === null ? undefined : rows.get(known.id)?.traces\n" +
        `    if (trace !== null && kept?.has("") === false) kept.set("", trace)\n${replays}`],
      ["lets keys of messages bind for ever", "bound !== undefined && !isExpired(bound, time)", "bound !== undefined"],
      ["gives approvals in the order of their ids", "approvalIds.flatMap((approvalId) => rows.get(id)?.approvals.get(approvalId) ?? [])",
        "approvalIds.toSorted().flatMap((approvalId) => rows.get(id)?.approvals.get(approvalId) ?? [])"],
      ["finds repositories by the beginning of their names", "fullName.toLowerCase() === repo.toLowerCase()",
        "fullName.toLowerCase().startsWith(repo.toLowerCase())"]
    ]),
    ...plantsIn(`${memory}/SandboxRows.ts`, [
      ["frees a key at the last moment at which it binds", expires, expires.replace("isLessThan", "isLessThanOrEqualTo")],
      ["lets a sandbox wait by the clock of the process that decided", waits, waits.replace("now", "decidedAt")],
      ["counts the time before a rest as waiting", waits, "row.workSince ??= workOf(sandbox) === null ? null : now"],
      ["keeps the approvals that wait in the order of their ids", "  row.sandbox = sandbox\n",
        "  row.sandbox = { ...sandbox, approvals: sandbox.approvals.toSorted((a, b) => a.approval_id < b.approval_id ? -1 : 1) }\n"]
    ]),
    ...plantsIn(`${memory}/MaintenanceMemory.ts`, [
      ["purges no keys of messages", "[keys, ...Array.from(rows.values(), (row) => row.keys)]", "[keys]"],
      ["says of sandboxes that live that they are over", "over: ids.filter(isOver)", "over: ids"]
    ]),
    ...plantsIn("packages/domain/src/sandbox/rules/EventProjection.ts", [
      ["dates a message anew that goes on", "else messages[at] = { ...listed, text }", "else messages[at] = { ...listed, text, createdAt }"]
    ])
  ],
  anew: ["packages/domain/src/", "packages/testing/src/"]
}
