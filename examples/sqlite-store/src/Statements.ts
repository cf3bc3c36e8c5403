/** The statements of the kit on SQLite. */
import type { EndedBefore, Statements } from "@slipway/domain/sandbox/kit/StoreKit"
import { Effect } from "effect"
import type { Database } from "./Database.ts"

/** Busy, out of memory, a disk that fails or is full, a file that cannot be opened: https://www.sqlite.org/rescode.html */
const TEMPORARY = [5, 7, 10, 13, 14]

const LEASABLE = `SELECT leases.*, grantId, status, createdAt, endedAt, work, workSince, unsaved
  FROM leases JOIN sandboxes USING (id)`

/** A list as one parameter. */
const IN_LIST = "IN (SELECT value FROM json_each(:list))"
const listOf = (values: ReadonlyArray<number | string>) => ({ list: JSON.stringify(values) })

/** The time for the sandbox's grant. */
const BEFORE = "coalesce((SELECT value ->> 'before' FROM json_each(:own) WHERE value ->> 'grantId' = sandboxes.grantId), :before)"
const timesOf = ({ all, own }: EndedBefore) => ({ before: all, own: JSON.stringify(own) })

export const make = (database: Database): Statements => ({
  transaction: (body) => database.transaction(body),
  isTemporary: (cause) => cause instanceof Error && "errcode" in cause && TEMPORARY.includes(Number(cause.errcode) & 0xff),
  save: (table, rows) => database.save(table, rows),

  sandboxes: (ids) => database.all(`SELECT sandboxes.*, fence FROM sandboxes JOIN leases USING (id) WHERE id ${IN_LIST}`, listOf(ids)),
  list: (grantId, { after, limit, repo, status }) =>
    database.iterate(
      `SELECT state FROM sandboxes
        WHERE grantId = :grantId AND deletedAt IS NULL AND (:status IS NULL OR status = :status)
          AND (:repo IS NULL OR instr(repos, ' ' || :repo || ' ') > 0)
          AND (:id IS NULL OR (createdAt, id) < (:createdAt, :id))
        ORDER BY createdAt DESC, id DESC LIMIT :limit`,
      { grantId, status, repo, createdAt: after?.createdAt ?? null, id: after?.id ?? null, limit }
    ),
  publishers: (continues, own, limit) =>
    database.all(
      `SELECT id, grantId, repos FROM sandboxes WHERE continues = :continues OR id = :own ORDER BY createdAt DESC, id DESC LIMIT :limit`,
      { continues, own, limit }
    ),
  countActive: (grantId) =>
    Effect.map(
      database.all<{ readonly n: number }>("SELECT count(*) AS n FROM sandboxes WHERE grantId = :grantId AND endedAt IS NULL", { grantId }),
      ([row]) => row?.n ?? 0
    ),
  // Two ranges of an index, which "<>" would not use.
  outdated: (limits, limit) =>
    database.all("SELECT * FROM sandboxes WHERE endedAt IS NULL AND (limits < :limits OR limits > :limits) LIMIT :limit", {
      limits,
      limit
    }),
  due: (now, after, limit) =>
    database.all(
      `SELECT id, deadlineAt FROM sandboxes
        WHERE deadlineAt <= :now AND (:id IS NULL OR (deadlineAt, id) > (:deadlineAt, :id))
        ORDER BY deadlineAt, id LIMIT :limit`,
      { now, deadlineAt: after?.deadlineAt ?? null, id: after?.id ?? null, limit }
    ),
  endable: (grantIds, limit) =>
    database.all(
      `SELECT id FROM sandboxes WHERE grantId ${IN_LIST} AND status IN ('queued', 'creating', 'running') LIMIT :limit`,
      { ...listOf(grantIds), limit }
    ),
  purgeable: (before, limit) =>
    database.all(`SELECT * FROM sandboxes WHERE endedAt <= ${BEFORE} AND purgedSeq < lastSeq LIMIT :limit`, { ...timesOf(before), limit }),
  heads: (after, limit) =>
    database.all("SELECT id, lastSeq FROM sandboxes WHERE id > :after AND purgedSeq < lastSeq ORDER BY id LIMIT :limit", { after, limit }),
  purge: (ids) =>
    Effect.forEach(
      ["events", "traces", "setups"],
      (table) => database.run(`DELETE FROM ${table} WHERE sandboxId ${IN_LIST}`, listOf(ids)),
      { discard: true }
    ),
  // Keys come before the receipts that they refer to.
  erase: (id) =>
    Effect.forEach(
      ["keys", "events", "messages", "approvals", "questions", "receipts", "traces", "setups"],
      (table) => database.run(`DELETE FROM ${table} WHERE sandboxId = :id ${table === "keys" ? "AND commandId IS NOT NULL" : ""}`, { id }),
      { discard: true }
    ),
  census: (now) =>
    database.all(
      `SELECT status, work IS NOT NULL AS work, coalesce(until > :now, 0) AS held, count(*) AS count, min(createdAt) AS oldest,
          sum(approvals) AS approvals, sum(approvals > 0) AS awaiting
        FROM sandboxes JOIN leases USING (id) WHERE endedAt IS NULL GROUP BY 1, 2, 3`,
      { now }
    ),

  leases: (ids) => database.all(`${LEASABLE} WHERE id ${IN_LIST}`, listOf(ids)),
  leasesOf: (machine) => database.all(`${LEASABLE} WHERE machine = :machine`, { machine }),
  leasesWithWork: database.all(`${LEASABLE} WHERE work IS NOT NULL`, {}),

  events: (id, after, limit, types) =>
    database.iterate(
      `SELECT * FROM events
        WHERE sandboxId = :id AND seq > :after ${types === null ? "" : `AND type IN (${types.map((type) => `'${type}'`)})`}
        ORDER BY seq LIMIT :limit`,
      { id, after, limit }
    ),
  parts: (id, parts) =>
    database.all(
      `SELECT *, max(seq) AS seq FROM events WHERE sandboxId = :id AND part ${IN_LIST} GROUP BY part`,
      { id, ...listOf(parts) }
    ),
  messages: (id, after, limit) =>
    database.iterate("SELECT * FROM messages WHERE sandboxId = :id AND seq > :after ORDER BY seq LIMIT :limit", { id, after, limit }),
  answers: (id, messageIds) =>
    database.all(
      `SELECT * FROM messages WHERE sandboxId = :id AND id ${IN_LIST} AND role = 'assistant' ORDER BY seq`,
      { id, ...listOf(messageIds) }
    ),
  approvals: (id, approvalIds) =>
    database.all(`SELECT * FROM approvals WHERE sandboxId = :id AND approvalId ${IN_LIST}`, { id, ...listOf(approvalIds) }),
  questions: (id, questionIds) =>
    database.all(`SELECT * FROM questions WHERE sandboxId = :id AND questionId ${IN_LIST}`, { id, ...listOf(questionIds) }),

  receipts: (commandId) => database.all("SELECT * FROM receipts WHERE commandId = :commandId", { commandId }),
  receiptsOf: (id, turnId) => database.all("SELECT * FROM receipts WHERE turnId = :turnId AND sandboxId = :id", { id, turnId }),
  keys: ({ grantId, key, route }) =>
    database.all("SELECT * FROM keys WHERE grantId = :grantId AND route = :route AND key = :key", { grantId, route, key }),
  purgeKeys: (boundBefore, limit) =>
    database.run(
      "DELETE FROM keys WHERE rowid IN (SELECT rowid FROM keys WHERE boundAt < :boundBefore ORDER BY boundAt LIMIT :limit)",
      { boundBefore, limit }
    ),
  traces: (id, turnIds) => database.all(`SELECT * FROM traces WHERE sandboxId = :id AND turnId ${IN_LIST}`, { id, ...listOf(turnIds) }),

  contents: (id) => database.all("SELECT * FROM contents WHERE sandboxId = :id ORDER BY put", { id }),
  piece: (id, put, n) => database.all("SELECT data FROM pieces WHERE sandboxId = :id AND put = :put AND n = :n", { id, put, n }),
  purgeContents: (id, puts) =>
    Effect.andThen(
      database.run(`DELETE FROM pieces WHERE sandboxId = :id AND put ${IN_LIST}`, { id, ...listOf(puts) }),
      Effect.asVoid(database.run(`DELETE FROM contents WHERE sandboxId = :id AND put ${IN_LIST}`, { id, ...listOf(puts) }))
    ),
  prunable: (before, limit) =>
    database.all(`SELECT sandboxId FROM prunes JOIN sandboxes ON id = sandboxId WHERE dueAt <= ${BEFORE} ORDER BY dueAt LIMIT :limit`, {
      ...timesOf(before),
      limit
    }),

  setups: (id) => database.all("SELECT * FROM setups WHERE sandboxId = :id", { id }),
  pushes: (id) => database.all("SELECT * FROM pushes WHERE sandboxId = :id", { id }),
  unmerged: (repo, sha) => database.all("SELECT * FROM pushes WHERE sha = :sha AND repo = :repo AND merged = 0 LIMIT 1", { repo, sha }),

  audit: (since, limit) =>
    database.all("SELECT * FROM audit WHERE :since IS NULL OR at >= :since ORDER BY seq DESC LIMIT :limit", { since, limit }),
  auditAfter: (seq) => database.all("SELECT * FROM audit WHERE seq > :seq ORDER BY seq", { seq })
})
