import { type Plants, plantsIn } from "./Plant.ts"

const example = "examples/sqlite-store/src"

/** Ends the transaction that is open, and goes on in another one. */
const another = "sql.run(\"COMMIT\"); sql.run(\"BEGIN IMMEDIATE\"); "

export const plants: Plants = {
  port: "SandboxStore",
  subject: "examples/sqlite-store/test/SandboxStore.suites.ts",
  plants: [
    ...plantsIn(`${example}/Database.ts`, [
      ["keeps nothing", "open(file)),", "open(\":memory:\")),"],
      ["forgets the log when a process begins", "connection.exec(TABLES)", "connection.exec(TABLES + \"DELETE FROM events\")"],
      ["forgets the receipts when a process begins", "connection.exec(TABLES)",
        "connection.exec(TABLES + \"PRAGMA foreign_keys = OFF; DELETE FROM commands\")"],
      ["writes each statement by itself", "sql.run(\"BEGIN IMMEDIATE\")\n", "if (Math.E > 0) return body(sql)\n"],
      ["takes back what it answered", "? \"COMMIT\" :", "? \"ROLLBACK\" :"]
    ]),
    ...plantsIn(`${example}/SandboxRow.ts`, [
      ["writes the events before the transaction of what follows from them", "for (const approval of approvals) saveApproval",
        `${another}for (const approval of approvals) saveApproval`],
      ["writes how approvals stand before the transaction of the state", "const work = workOf(sandbox)\n",
        `${another}const work = workOf(sandbox)\n`],
      ["loses the last of many events", "of entries) {", "of entries.slice(0, Math.max(1, Math.min(entries.length, 1000)))) {"],
      ["serves other bytes than it told", "{ id, seq, type, part, wire })\n",
        "{ id, seq, type, part, wire: JSON.stringify(JSON.parse(wire), null, 1) })\n"],
      ["keeps the first text of a message that goes on", "SET text = :text WHERE", "SET text = text WHERE :text IS NOT NULL AND"],
      ["lists a message again that goes on", "if (known > 0) return\n", ""],
      ["forgets what a message said in an earlier transaction", "message.text ?? textOf(sql, sandboxId, id)", "message.text"],
      ["lists what a message said first, not what it said last", "ORDER BY seq DESC LIMIT 1", "ORDER BY seq LIMIT 1"],
      ["takes the text of another sandbox's message", "WHERE sandbox_id = :id AND part = :part", "WHERE :id <> '' AND part = :part"],
      ["goes on with a message of another sandbox", "WHERE sandbox_id = :sandboxId AND id = :id AND role",
        "WHERE :sandboxId <> '' AND id = :id AND role"],
      ["dates messages by the store's clock", "text, at: at.epochMilliseconds }", "text, at: 0 }"],
      ["dates events by the writer's clock alone", "projectionOf(before, events, decidedAt)",
        "projectionOf({ ...before, recordedAt: null }, events, decidedAt)"],
      ["loses why an approval was denied", "reason: reason ?? null", "reason: null"],
      ["keeps how an approval stood first", "SET outcome = excluded.outcome,", "SET outcome = coalesce(approvals.outcome, 'denied'),"],
      ["finds the sandboxes of other grants", "(:grantId IS NULL OR grant_id = :grantId)", "(:grantId IS NULL OR grant_id <> '')"],
      ["keeps when a sandbox was created to the second", "createdAt: sandbox.createdAt.epochMilliseconds }",
        "createdAt: Math.floor(sandbox.createdAt.epochMilliseconds / 1000) * 1000 }"]
    ]),
    ...plantsIn(`${example}/SandboxStoreSqlite.ts`, [
      ["keys approvals without their sandbox", "WHERE sandbox_id = :id AND approval_id = :approvalId",
        "WHERE :id <> '' AND approval_id = :approvalId"],
      ["keeps keys of creations for all grants together", "WHERE grant_id = :grantId AND route", "WHERE :grantId <> '' AND route"],
      ["keeps keys of all sandboxes' messages together", "AND route = :route AND key", "AND :route <> '' AND key"],
      ["replays an unequal request for a sandbox", "    yield* resolve(bound.fingerprint, keyed)\n    return", "    return"],
      ["reads all of the log as checkpoints", "{ id, after, limit }, CHECKPOINTS)", "{ id, after, limit })"],
      ["knows the messages of other sandboxes", "turn_id = :turnId AND sandbox_id = :id", "turn_id = :turnId AND :id <> ''"],
      ["knows no message that waits no longer", "hasReceipt(sql, key.id, command.messageId)", "false"],
      ["replays an unequal message", "              yield* resolve(bound.fingerprint, keyed)\n", ""],
      ["replays a sandbox as it was when it was made", "return Result.getOrThrow(rowOf(sql, bound.sandboxId)).sandbox",
        "const { sandbox } = Result.getOrThrow(rowOf(sql, bound.sandboxId)); return { ...sandbox, status: \"queued\" as const }"],
      ["binds the key of a creation after it", "if (keyed !== null) bind(", `${another}if (keyed !== null) bind(`],
      ["keeps the trace of a creation after it", "if (trace !== null) saveTrace(", `${another}if (trace !== null) saveTrace(`],
      ["keeps the receipt of a command after it", "if (keep !== null) {\n", `if (keep !== null) {\n${another}\n`],
      ["tells the audit log after the command", "appendTo(sql, securityEvents(key.id, events, at), by)",
        `${another}appendTo(sql, securityEvents(key.id, events, at), by)`],
      ["tells the audit log nothing of commands", "appendTo(sql, securityEvents(key.id, events, at), by)", ""],
      ["binds the key of a command after it", "bind(sql, key.grantId,", `${another}bind(sql, key.grantId,`],
      ["binds the key of a command that it rejects", "keep?.outcome === \"applied\") {", "keep !== null) {"],
      ["answers a repeated message with the turn of now", "entries: [], result, turnId }",
        "entries: [], result, turnId: before.turn?.id ?? null }"],
      ["answers a repeated message with the revision of now", "const result = { commandId, revision, outcome",
        "const result = { commandId, revision: Math.max(revision, before.revision), outcome"],
      ["forgets the trace of a message", "if (trace !== null && keep !== null && keep.turnId !== null)",
        "if (trace !== null && keep !== null && keep.turnId === \"\")"],
      ["hints nothing after a command", "sandbox, turnId } = yield* committed(", "sandbox, turnId } = yield* Effect.uninterruptible("],
      ["hints nothing after a change", "const { before, events, sandbox } = yield* committed(",
        "const { before, events, sandbox } = yield* Effect.uninterruptible("],
      ["hints nothing after a creation", "const made = yield* committed(", "const made = yield* Effect.uninterruptible("],
      ["wakes no worker for what it wrote", "hints.publish(topicsOf(written),", "hints.publish(topicsOf(written).slice(0, 1),"],
      ["hints of a command that changed nothing", "written.events.length === 0 ? Effect.void :",
        "written.events.length === 0 ? hints.publish([written.sandbox.id]) :"],
      ["does not say with the hint what it appended", "new Appended(written.entries)", "undefined"],
      ["counts no ending sandbox against the limit", "'running', 'terminating')", "'running')"],
      ["counts the sandboxes of all grants against the limit", "\"grant_id = :grantId AND status", "\":grantId <> '' AND status"],
      ["lets one more than the limit be made", "count >= maxActive", "count > maxActive"],
      ["lists in no certain order what was created at once", "ORDER BY created_at DESC, id DESC", "ORDER BY created_at DESC, id"],
      ["passes over what was created at once with the last of a page", "(created_at, id) < (:afterAt, :afterId)", "created_at < :afterAt"],
      ["lists repositories only in their own case", "repo: repo?.toLowerCase() ?? null", "repo: repo ?? null"],
      ["lists the texts of what waits", "json_set(state, '$.waitingTexts', json('[]')) AS state", "state"],
      ["lists pages of any size", "bytesOf.sandbox)", "() => 0)"],
      ["lists pages of summaries of any size", "bytesOf.summary)", "() => 0)"],
      ["reads pages of the log of any size", "bytesOf.entry\n", "() => 0\n"],
      ["reads pages of messages of any size", "bytesOf.message\n", "() => 0\n"],
      ["lets a grant command another one's sandbox", "rowOf(sql, key.id, key.grantId)", "rowOf(sql, key.id)"],
      ["lets a grant change another one's sandbox", "rowOf(sql, id, by.grantId)", "rowOf(sql, id)"]
    ])
  ]
}
