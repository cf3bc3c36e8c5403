import { type Plants, plantsIn } from "./Plant.ts"

const example = "examples/sqlite-store/src"
const kit = "packages/domain/src/sandbox/kit"

const erased = (without: string) =>
  ["keys", "events", "messages", "approvals", "questions", "receipts", "traces", "setups"]
    .filter((table) => table !== without).map((table) => `"${table}"`).join(", ")
const tables = erased("")
const forks = "flatMap(({ forks, put }) => forks > 0 ? [] : [put])"

export const plants: Plants = {
  port: "Deletion",
  subject: "examples/sqlite-store/test/Checkpoints.suites.ts",
  anew: [`${example}/`, `${kit}/`],
  plants: [
    ...plantsIn(`${example}/Statements.ts`, [
      ["leaves the events of a deleted sandbox", tables, erased("events")],
      ["leaves its messages", tables, erased("messages")],
      ["leaves its approvals", tables, erased("approvals")],
      ["leaves its questions", tables, erased("questions")],
      ["leaves its traces", tables, erased("traces")],
      ["leaves its setup", tables, erased("setups")],
      ["leaves it in lists", " AND deletedAt IS NULL", ""],
      ["forgets the key that made it", "table === \"keys\" ? \"AND commandId IS NOT NULL\" : \"\"", "\"\""],
      ["has one retention for all grants", "coalesce((SELECT value ->> 'before' FROM json_each(:own) WHERE value ->> 'grantId' = " +
        "sandboxes.grantId), :before)", "iif(json_array_length(:own) < 0, 0, :before)"],
      ["has the retention of one grant for all", "WHERE value ->> 'grantId' = sandboxes.grantId", ""]
    ]),
    ...plantsIn(`${kit}/SandboxStoreKit.ts`, [
      ["deletes a running sandbox", "      yield* Effect.fromResult(mayDelete(row))\n", ""],
      ["deletes sandboxes of other grants", "const row = yield* rowOf(statements, id, grantId)\n      yield* Effect.fromResult(mayDelete",
        "const row = yield* rowOf(statements, id)\n      yield* Effect.fromResult(mayDelete"],
      ["finds what is deleted", "row === undefined || row.deletedAt !== null ||", "row === undefined ||"],
      ["keeps the key usable", "() => Effect.fail(new SandboxDeleted()))",
        "() => Effect.succeed(null))\n    if (row === null) return null"],
      ["leaves the checkpoints", "yield* purgeContents(id, (yield* contents(id))." + forks + ")", ""],
      ["frees the checkpoint of a fork", "forks > 0 ? [] : [put]", "[put]"],
      ["leaves the lease to the worker that holds it", "fence: fence + 1", "fence"],
      ["does not tell the audit log", "yield* AuditLogKit.append(statements, [deleted(id, at)])", ""],
      ["wakes no reader", ", hints.publish([id])))", ", Effect.void))"]
    ]),
    ...plantsIn(`${kit}/CheckpointRows.ts`, [
      ["forks what is deleted", "if (sandbox?.deletedAt !== null) return", "if (sandbox === undefined) return"]
    ]),
    ...plantsIn(`${kit}/CheckpointsKit.ts`, [
      ["lists the checkpoint that a fork of a deleted sandbox starts with", "sandbox?.deletedAt !== null ? [] : ", ""],
      ["keeps for ever what a fork of a deleted sandbox started with", ": { checkpoint: 0, restoring", ": { checkpoint: 1, restoring"]
    ]),
    ...plantsIn(`${kit}/Rows.ts`, [
      ["leaves a head of a deleted log", "purgedSeq: row.lastSeq,", "purgedSeq: row.purgedSeq,"],
      ["leaves a publication to do", "  work: null,\n  workSince: null,\n  unsaved: 0",
        "  work: row.work,\n  workSince: row.workSince,\n  unsaved: 0"]
    ])
  ]
}
