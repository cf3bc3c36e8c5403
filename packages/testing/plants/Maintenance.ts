import { type Plants, plantsIn } from "./Plant.ts"

const example = "examples/sqlite-store/src"

/** Begins another transaction. */
const another = "sql.run(\"COMMIT\"); sql.run(\"BEGIN IMMEDIATE\")\n"

export const plants: Plants = {
  port: "Maintenance",
  subject: "examples/sqlite-store/test/Maintenance.suites.ts",
  plants: [
    ...plantsIn(`${example}/MaintenanceSqlite.ts`, [
      ["finds limits in no certain order", "ORDER BY deadline_at, id LIMIT", "ORDER BY id LIMIT"],
      ["finds a limit only when it is past", "WHERE deadline_at <= :now", "WHERE deadline_at < :now"],
      ["finds more that is due than it is asked for", "ORDER BY deadline_at, id LIMIT :limit", "ORDER BY deadline_at, id LIMIT :limit + 1"],
      ["uses the limits of the process that wrote the row", "setDeadline(sql, decode(state), limits)", "decode(state)"],
      ["tells the same page again", "(:after IS NULL OR (deadline_at, id) > (:after, :id))", "(:after IS NULL OR :id IS NOT NULL)"],
      ["passes over what came due at the moment at which a page ended", "(deadline_at, id) > (:after, :id)",
        "deadline_at > :after AND :id > ''"],
      ["leaves the booting sandboxes of revoked grants", "status IN ('queued', 'creating', 'running') LIMIT",
        "status IN ('queued', 'running') LIMIT"],
      ["finds more of revoked grants than it is asked for", "'running') LIMIT :limit", "'running') LIMIT :limit + 1"],
      ["purges what lives", "WHERE NOT ${LIVE} AND purged_seq", "WHERE purged_seq"],
      ["purges what ended at the last moment only later", "* 1000 <= :endedBefore", "* 1000 < :endedBefore"],
      ["purges more than it is told", "<= :endedBefore LIMIT :limit", "<= :endedBefore LIMIT :limit + 1"],
      ["keeps the traces of what it purges", "sql.run(\"DELETE FROM traces WHERE sandbox_id = :id\", { id })", ""],
      ["forgets the traces of all with those that it purges", "DELETE FROM traces WHERE sandbox_id = :id\"",
        "DELETE FROM traces WHERE :id <> ''\""],
      ["purges the messages too", "sql.run(\"DELETE FROM events WHERE sandbox_id = :id\", { id })",
        "for (const table of [\"events\", \"messages\"]) sql.run(`DELETE FROM ${table} WHERE sandbox_id = :id`, { id })"],
      ["does not say how far it purged", "SET purged_seq = state ->> '$.lastSeq'", "SET purged_seq = purged_seq"],
      ["purges a log only once", "NOT ${LIVE} AND purged_seq < (state ->> '$.lastSeq')", "NOT ${LIVE} AND purged_seq = 0"],
      ["purges in several transactions", "sql.run(\"DELETE FROM traces", `${another}sql.run("DELETE FROM traces`],
      ["forgets keys that still bind", "bound_at < :kept", "bound_at < :kept + 3600000"],
      ["forgets more keys than it is told", "ORDER BY bound_at LIMIT :limit", "ORDER BY bound_at LIMIT :limit + 1"],
      ["says that another machine has what it only takes over", "row[\"machine\"] ?? machine, row[\"movedFrom\"]",
        "row[\"machine\"] ?? machine"],
      ["says that another machine has what none ever had", "row[\"machine\"] ?? machine", "row[\"machine\"]"],
      ["says that a machine need not keep what ends", "const LIVE = \"status IN ('queued', 'creating', 'running', 'terminating')\"",
        "const LIVE = \"status IN ('queued', 'creating', 'running')\""],
      ["says that a publication after the end needs no data", "OR work IS NOT NULL OR coalesce", "OR coalesce"],
      ["says that a leased sandbox needs no data", "OR work IS NOT NULL OR coalesce(lease_until, 0) > :now)", "OR work IS NOT NULL)"],
      ["says that a live sandbox without work needs no data", "AND (${LIVE} OR work IS NOT NULL", "AND (work IS NOT NULL"],
      ["has heads of deleted logs", "AND purged_seq < (state ->> '$.lastSeq') ORDER BY id", "ORDER BY id"],
      ["says that a log ends before its newest event", "state ->> '$.lastSeq' AS seq", "1 AS seq"],
      ["repeats the last head of the page before", "WHERE id > :after AND purged", "WHERE id >= :after AND purged"],
      ["has more heads than it is asked for", "ORDER BY id LIMIT :limit`,\n            { after: after",
        "ORDER BY id`,\n            { after: after"],
      ["counts leases that are over", "FILTER (WHERE lease_until > :now) AS leased", "FILTER (WHERE lease_until IS NOT NULL) AS leased"],
      ["counts what a worker holds as resting", "work IS NULL AND coalesce(lease_until, 0) <= :now) AS resting",
        "work IS NULL) AS resting"],
      ["counts boots that a worker has as waiting", "'queued' AND coalesce(lease_until, 0) <= :now) AS", "'queued') AS"],
      ["counts the newest of those queued", "min(created_at) FILTER", "max(created_at) FILTER"],
      ["counts who was created first, queued or not", "min(created_at) FILTER (WHERE status = 'queued')", "min(created_at)"],
      ["counts sandboxes, not their approvals", "coalesce(sum(json_array_length(state, '$.approvals')), 0) AS pending",
        "count(*) FILTER (WHERE json_array_length(state, '$.approvals') > 0) AS pending"]
    ]),
    ...plantsIn(`${example}/SandboxRow.ts`, [
      ["reckons the limit once and never anew", "SET deadline_at = :deadline", "SET deadline_at = coalesce(deadline_at, :deadline)"],
      ["reckons the limit of the state before", "setDeadline(sql, sandbox, limits)", "setDeadline(sql, before, limits)"]
    ]),
    ...plantsIn(`${example}/SandboxStoreSqlite.ts`, [
      ["frees a key at the last moment at which it binds", "AND bound_at >= :kept", "AND bound_at > :kept"],
      ["lets keys of messages bind for ever", "AND bound_at >= :kept", "AND (bound_at >= :kept OR route LIKE '%/messages')"],
      ["lets keys bind for ever", "AND bound_at >= :kept", "AND :kept > 0"],
      ["says of every log that it has all", "purged_seq AS seq FROM sandboxes", "0 AS seq FROM sandboxes"]
    ])
  ]
}
