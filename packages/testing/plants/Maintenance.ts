import { type Plants, plantsIn } from "./Plant.ts"

const example = "examples/sqlite-store/src"
const kit = "packages/domain/src/sandbox/kit"

export const plants: Plants = {
  port: "Maintenance",
  subject: "examples/sqlite-store/test/Maintenance.suites.ts",
  anew: [`${example}/`, `${kit}/`],
  plants: [
    ...plantsIn(`${example}/Statements.ts`, [
      ["finds limits in no certain order", "ORDER BY deadlineAt, id LIMIT", "ORDER BY id LIMIT"],
      ["finds a limit only when it is past", "WHERE deadlineAt <= :now", "WHERE deadlineAt < :now"],
      ["finds more that is due than it is asked for", "ORDER BY deadlineAt, id LIMIT :limit", "ORDER BY deadlineAt, id LIMIT :limit + 1"],
      ["tells the same page again", "(:id IS NULL OR (deadlineAt, id) > (:deadlineAt, :id))", "(:id IS NULL OR :deadlineAt IS NOT NULL)"],
      ["passes over what came due at the moment at which a page ended", "(deadlineAt, id) > (:deadlineAt, :id)",
        "deadlineAt > :deadlineAt"],
      ["leaves the booting sandboxes of revoked grants", "('queued', 'creating', 'running') LIMIT", "('queued', 'running') LIMIT"],
      ["finds more of revoked grants than it is asked for", "'running') LIMIT :limit", "'running') LIMIT :limit + 1"],
      ["purges what ended at the last moment only later", "endedAt <= ${BEFORE}", "endedAt < ${BEFORE}"],
      ["purges more than it is told", "purgedSeq < lastSeq LIMIT :limit", "purgedSeq < lastSeq LIMIT :limit + 1"],
      ["has heads of deleted logs", "> :after AND purgedSeq < lastSeq ORDER", "> :after ORDER"],
      ["says that a log ends before its newest event", "SELECT id, lastSeq FROM", "SELECT id, 1 AS lastSeq FROM"],
      ["repeats the last head of the page before", "WHERE id > :after", "WHERE id >= :after"],
      ["has more heads than it is asked for", "lastSeq ORDER BY id LIMIT :limit", "lastSeq ORDER BY id LIMIT :limit + 1"],
      ["purges a log only once", "AND purgedSeq < lastSeq LIMIT", "AND purgedSeq = 0 LIMIT"],
      ["keeps the traces of what it purges", "[\"events\", \"traces\", \"setups\"]", "[\"events\", \"setups\"]"],
      ["forgets the traces of all with those that it purges", "DELETE FROM ${table} WHERE sandboxId ${IN_LIST}",
        "DELETE FROM ${table} WHERE :list <> ''"],
      ["keeps the events of what it purges", "[\"events\", \"traces\"", "[\"traces\""],
      ["purges in several transactions", "(table) => database.run(`DELETE FROM ${table} WHERE sandboxId ${IN_LIST}`, listOf(ids))",
        "(table) => Effect.andThen(Effect.andThen(database.run(\"COMMIT\"), database.run(\"BEGIN IMMEDIATE\")), " +
        "database.run(`DELETE FROM ${table} WHERE sandboxId ${IN_LIST}`, listOf(ids)))"],
      ["forgets keys that still bind", "boundAt < :boundBefore", "boundAt < :boundBefore + 3600000"],
      ["forgets more keys than it is told", "ORDER BY boundAt LIMIT :limit", "ORDER BY boundAt LIMIT :limit + 1"],
      ["counts leases that are over", "coalesce(until > :now, 0) AS held", "until IS NOT NULL AND :now > 0 AS held"],
      ["counts who was created last", "min(createdAt) AS oldest", "max(createdAt) AS oldest"],
      ["counts sandboxes, not their approvals", "sum(approvals) AS approvals", "sum(approvals > 0) AS approvals"],
      ["counts approvals, not their sandboxes", "sum(approvals > 0) AS awaiting", "sum(approvals) AS awaiting"]
    ]),
    ...plantsIn(`${kit}/MaintenanceKit.ts`, [
      ["uses the limits of the process that wrote the row", "Effect.andThen(recalculate(statements, limits), ",
        "Effect.andThen(Effect.void, "],
      ["takes what a clock ahead created for overdue when limits change", "...deadlineOf(sandboxOf(row), limits) })",
        "...deadlineOf(sandboxOf(row), limits), ...(row.createdAt > 0 && row.createdAt < 1e9 ? { deadlineAt: 0 } : {}) })"],
      ["does not say how far it purged", "purgedSeq: row.lastSeq", "purgedSeq: row.purgedSeq"],
      ["takes all grants for revoked ones", "revokedAt === null ? [] : [id]", "[id]"],
      ["ends no sandbox of a revoked grant", "revokedAt === null ? [] : [id]", "revokedAt === null ? [id] : []"],
      ["says that another machine has what it only takes over", "[row.machine ?? machine, row.movedFrom]", "[row.machine ?? machine]"],
      ["says that another machine has what none ever had", "row.machine ?? machine", "row.machine"],
      ["says that a machine need not keep what lives", "row.endedAt === null ?", "row.endedAt !== null ?"],
      ["says that a publication after the end needs no data", "endedAt === null || work !== null ||", "endedAt === null ||"],
      ["says that a leased sandbox needs no data", " || (until ?? 0) > now ?", " ?"],
      ["says that a live sandbox without work needs no data", "endedAt === null || work !== null", "work !== null"],
      ["counts what a worker holds as resting", "status === \"running\" && work === 0 && held === 0",
        "status === \"running\" && work === 0"],
      ["counts what works as resting", "status === \"running\" && work === 0 && held === 0", "status === \"running\" && held === 0"],
      ["counts boots that a worker has as waiting", "status === \"queued\" && held === 0", "status === \"queued\""],
      ["counts the newest of those queued", "Math.min(...queuedAt)", "Math.max(...queuedAt)"],
      ["counts who was created first, queued or not", "status === \"queued\" ? [oldest] : []", "[oldest]"]
    ]),
    ...plantsIn(`${kit}/Rows.ts`, [
      ["calculates the time limit of a state that is over", "...deadlineOf(sandbox, limits),",
        "...deadlineOf({ ...sandbox, status: \"queued\" }, limits),"],
      ["purges what lives", "isSettled(status) ? statusAt", "status !== \"queued\" ? statusAt"]
    ]),
    ...plantsIn(`${kit}/SandboxStoreKit.ts`, [
      ["frees a key at the last moment at which it binds", "bound.boundAt < keptSince(now)", "bound.boundAt <= keptSince(now)"],
      ["lets keys of messages bind for ever", "bound.boundAt < keptSince(now)",
        "bound.boundAt < keptSince(now) && key.route === \"sandboxes\""],
      ["lets keys bind for ever", " || bound.boundAt < keptSince(now)", ""],
      ["forgets keys a day early", "{ days: RETENTION_DAYS }", "{ days: RETENTION_DAYS - 1 }"],
      ["says of every log that it has all", "row?.purgedSeq ?? 0", "0"]
    ])
  ]
}
