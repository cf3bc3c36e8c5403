import { type Plants, plantsIn } from "./Plant.ts"

const example = "examples/sqlite-store/src"
const kit = "packages/domain/src/sandbox/kit"

const saving = "save(table: string, rows: ReadonlyArray<object>): Answer<void> {\n    return attempt(() => {"
/** Ends the transaction that is open before rows of this table are written, and goes on in another one. */
const apart = (table: string) => `${saving} if (table === "${table}") this.#connection.exec("COMMIT; BEGIN IMMEDIATE");`

export const plants: Plants = {
  port: "SandboxStore",
  subject: "examples/sqlite-store/test/SandboxStore.suites.ts",
  anew: [`${example}/`, `${kit}/`],
  plants: [
    ...plantsIn(`${example}/Database.ts`, [
      ["keeps nothing", "connect(file)),", "connect(\":memory:\")),"],
      ["forgets the log when a process begins", "connection.exec(TABLES)", "connection.exec(TABLES + \"DELETE FROM events\")"],
      ["forgets the receipts when a process begins", "connection.exec(TABLES)",
        "connection.exec(TABLES + \"PRAGMA foreign_keys = OFF; DELETE FROM receipts\")"],
      ["writes each statement by itself", "return Effect.gen({ self: this }",
        "if (Math.E > 0) return body\n return Effect.gen({ self: this }"],
      ["takes back what it answered", "this.run(\"COMMIT\")", "this.run(\"ROLLBACK\")"],
      ["keeps what a refused decision wrote", "else yield* this.#rollback", "else yield* this.run(\"COMMIT\")"],
      ["lets other fibers write within a transaction", "Effect.provideService(PreventSchedulerYield, true)", "(self) => self"],
      ["writes the state before the transaction of the events", saving, apart("events")],
      ["writes the messages after the events", saving, apart("messages")],
      ["writes how approvals stand after the events", saving, apart("approvals")],
      ["writes how questions stand after the events", saving, apart("questions")],
      ["writes a lease after its sandbox", saving, apart("leases")],
      ["binds the key after what it is for", saving, apart("keys")],
      ["keeps a trace after what it is of", saving, apart("traces")],
      ["keeps the receipt of a command after it", saving, apart("receipts")],
      ["tells the audit log after the command", saving, apart("audit")],
      ["keeps what a row was first", "ON CONFLICT DO UPDATE SET", "ON CONFLICT DO NOTHING --"]
    ]),
    ...plantsIn(`${example}/Statements.ts`, [
      ["lists what a message said first, not what it said last", "SELECT *, max(seq) AS seq", "SELECT *, min(seq) AS seq"],
      ["takes the text of another sandbox's message", "FROM events WHERE sandboxId = :id AND part", "FROM events WHERE :id <> '' AND part"],
      ["goes on with a message of another sandbox", "FROM messages WHERE sandboxId = :id AND id", "FROM messages WHERE :id <> '' AND id"],
      ["keys approvals without their sandbox", "WHERE sandboxId = :id AND approvalId", "WHERE :id <> '' AND approvalId"],
      ["keys questions without their sandbox", "WHERE sandboxId = :id AND questionId", "WHERE :id <> '' AND questionId"],
      ["keeps keys of creations for all grants together", "WHERE grantId = :grantId AND route", "WHERE :grantId <> '' AND route"],
      ["keeps keys of all sandboxes' messages together", "AND route = :route AND key", "AND :route <> '' AND key"],
      ["knows the messages of other sandboxes", "turnId = :turnId AND sandboxId = :id", "turnId = :turnId AND :id <> ''"],
      ["reads all of the log as checkpoints", "types === null ?", "types !== undefined ?"],
      ["counts the sandboxes of all grants against the limit", "WHERE grantId = :grantId AND endedAt IS NULL\", {",
        "WHERE :grantId <> '' AND endedAt IS NULL\", {"],
      ["counts no ending sandbox against the limit", "AND endedAt IS NULL\", {", "AND endedAt IS NULL AND status <> 'terminating'\", {"],
      ["lists in no certain order what was created at once", "  ORDER BY createdAt DESC, id DESC", "  ORDER BY createdAt DESC, id"],
      ["passes over what was created at once with the last of a page", "(createdAt, id) < (:createdAt, :id)", "createdAt < :createdAt"],
      ["finds repositories by the beginning of their names", "' ' || :repo || ' '", "' ' || :repo"],
      ["finds repositories by the end of their names", "' ' || :repo || ' '", ":repo || ' '"],
      ["lists the sandboxes of all grants", "WHERE grantId = :grantId AND deletedAt", "WHERE :grantId <> '' AND deletedAt"]
    ]),
    ...plantsIn(`${kit}/Rows.ts`, [
      ["loses the last of many events", "entries.map((entry)", "entries.slice(0, Math.max(1, Math.min(entries.length, 1000))).map((entry)"],
      ["serves other bytes than it told", "{ ...entry, sandboxId: id }",
        "{ ...entry, sandboxId: id, wire: JSON.stringify(JSON.parse(entry.wire), null, 1) }"],
      ["lists a message again that goes on", "[] : yield* answers(id, spoken)", "[] : []"],
      ["forgets what a message said in an earlier transaction", "texts.set(part, event.data.text)", "texts.size"],
      ["dates messages by the store's clock", "        createdAt: createdAt.epochMilliseconds\n      }))",
        "        createdAt: 0\n      }))"],
      ["dates a message anew that goes on", "known.map(messageOf)", "known.map((row) => ({ ...messageOf(row), createdAt: at }))"],
      ["dates events by the writer's clock alone", "projectionOf(before, events, at)",
        "projectionOf({ ...before, recordedAt: null }, events, at)"],
      ["believes its clock where another clock dated the newest event a day ahead", "projectionOf(before, events, at)", `projectionOf(
          (before.recordedAt ?? at).epochMilliseconds > at.epochMilliseconds + 8e7 ? { ...before, recordedAt: null } : before, events,
          at)`],
      ["loses why an approval was denied", "JSON.stringify(approval)", "JSON.stringify({ ...approval, reason: undefined })"],
      ["keeps when a sandbox was created to the second", "createdAt: createdAt.epochMilliseconds,",
        "createdAt: Math.floor(createdAt.epochMilliseconds / 1000) * 1000,"],
      ["lists repositories only in their own case", "fullName.toLowerCase()", "fullName"],
      ["forgets the texts of what waits", "{ ...sandbox, waitingTexts: JSON.parse(waitingTexts) }", "sandbox"],
      ["lists the texts of what waits", "encode({ ...sandbox, waitingTexts: [] })", "encode(sandbox)"]
    ]),
    ...plantsIn(`${kit}/SandboxStoreKit.ts`, [
      ["ends an approval by the limits of the process that looks", "yield* Effect.fromResult(decide(before)))",
        `yield* Effect.fromResult(decide({ ...before, approvals: before.approvals.map((one) => ({
          ...one, expires_at: DateTime.min(one.expires_at, DateTime.addDuration(before.turn?.startedAt ?? at, limits.approval)) })) })))`],
      ["finds the sandboxes of other grants", "grantId !== undefined && row.grantId !== grantId", "grantId === \"\""],
      ["replays an unequal request", "    yield* Effect.fromResult(resolve(bound.fingerprint, keyed))\n", ""],
      ["replays a sandbox as it was when it was made", "return sandboxOf(row)",
        "return { ...sandboxOf(row), status: \"queued\" as const }"],
      ["knows no message that waits no longer", "command.messageId !== undefined && (", "command.messageId === \"\" && ("],
      ["tells the audit log nothing of commands",
        "yield* AuditLogKit.append(statements, securityEvents(id, events, at))\n      const { keep", "const { keep"],
      ["binds the key of a command that it rejects", "keep?.outcome === \"applied\"", "keep != null"],
      ["answers a repeated message with the turn of now", "outcome: \"duplicate\" as const }, turnId }",
        "outcome: \"duplicate\" as const }, turnId: before.turn?.id ?? null }"],
      ["answers a repeated message with the revision of now", "result: { commandId, revision, outcome",
        "result: { commandId, revision: Math.max(revision, before.revision), outcome"],
      ["forgets the trace of a message", "trace !== null && keep !== null && keep.turnId !== null",
        "trace !== null && keep !== null && keep.turnId === \"\""],
      ["forgets the hint when its caller is interrupted after the commit", "Effect.uninterruptible(Effect.tap(",
        "Effect.suspend(() => Effect.tap("],
      ["takes the trace of a repeated message", "const { commandId, revision, turnId } = first\n",
        "const { commandId, revision, turnId } = first\n" +
        "if (trace !== null && turnId !== null) yield* statements.save(\"traces\", [{ sandboxId: id, turnId, traceparent: trace }])\n"],
      ["gives approvals in the order of their ids", "return approvalIds.flatMap(", "return approvalIds.toSorted().flatMap("],
      ["hints nothing", "written.events.length === 0 ? Effect.void", "written.events.length >= 0 ? Effect.void"],
      ["wakes no worker for what it wrote", "hints.publish(topicsOf(written),", "hints.publish(topicsOf(written).slice(0, 1),"],
      ["hints of a command that changed nothing", "written.events.length === 0 ? Effect.void",
        "written.events.length === 0 ? hints.publish([written.sandbox.id])"],
      ["does not say with the hint what it appended", "new Appended(written.entries)", "undefined"],
      ["lets one more than the limit be made", ">= maxActive", "> maxActive"],
      ["looks for repositories in the case of the question", "repo: repo?.toLowerCase() ?? null", "repo: repo ?? null"],
      ["finds publishers in the case of the question", "repo.toLowerCase()} `) ? [{ id", "repo} `) ? [{ id"],
      ["finds publishers of another repository", "row.repos.includes(` ${repo.toLowerCase()} `) ? [{ id", "true ? [{ id"],
      ["finds any number of publishers", "sandboxOfBranch(branch) ?? null, MAX_PUBLISHERS)", "sandboxOfBranch(branch) ?? null, 1_000)"],
      ["forgets whose branch it is by its form", "sandboxOfBranch(branch) ?? null, MAX", "null, MAX"],
      ["lists pages of any size", "bytesOf.sandbox)", "() => 0)"],
      ["lists pages of summaries of any size", "bytesOf.summary)", "() => 0)"],
      ["reads pages of the log of any size", "statements.events(id, after, limit, null), limit, entryOf, bytesOf.entry",
        "statements.events(id, after, limit, null), limit, entryOf, () => 0"],
      ["reads pages of messages of any size", "bytesOf.message)", "() => 0)"],
      ["lets a grant command another one's sandbox", "rowOf(statements, id, grantId)\n      const before",
        "rowOf(statements, id)\n      const before"],
      ["lets a grant change another one's sandbox", "rowOf(statements, id, by.grantId)", "rowOf(statements, id)"]
    ])
  ]
}
