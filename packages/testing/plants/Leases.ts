import { type Plants, plantsIn } from "./Plant.ts"

const example = "examples/sqlite-store/src"

export const plants: Plants = {
  port: "Leases",
  subject: "examples/sqlite-store/test/Leases.suites.ts",
  plants: [
    ...plantsIn(`${example}/LeasesSqlite.ts`, [
      ["gives leases that hold twice as long", "{ seconds: LEASE_SECONDS }", "{ seconds: 2 * LEASE_SECONDS }"],
      ["renews leases for a third of their time", "until: now + LEASE_SECONDS * 1000", "until: now + LEASE_SECONDS * 333"],
      ["gives a lease the fence of the one before", "candidate.fence + 1", "Math.max(candidate.fence, 1)"],
      ["leaves what is taken given up", "lease_until = :until, drained = 0,", "lease_until = :until,"],
      ["tells the last taker why it moved last", "candidate.moved ?? (", "("],
      ["forgets where the files are when another worker takes it", "candidate.movedFrom ?? candidate.lease", "candidate.lease"],
      ["serves who was created first, not who waits longest", "makeUnsafe(Number(workSince))", "makeUnsafe(Number(createdAt))"],
      ["gives away what its machine alone has", "unsaved: unsaved === 1", "unsaved: false"],
      ["gives nothing that was given up to another machine", "drained: drained === 1", "drained: false"],
      ["forgets the agent's session", "agentSession: row?.[\"session\"] as string | null", "agentSession: null"],
      ["takes a stale worker's word for an arrival", "const held = sql.all(`SELECT 1 FROM sandboxes WHERE ${OWN}`, own).length",
        "const held = sql.all(`SELECT 1 FROM sandboxes WHERE id = :sandboxId AND :fence > 0`, own).length"],
      ["lets a stale worker give a sandbox back", "max(drained, :mayMove) WHERE ${OWN}",
        "max(drained, :mayMove) WHERE id = :sandboxId AND :fence > 0"],
      ["takes a sandbox back that was given up", "max(drained, :mayMove)", ":mayMove"],
      ["wakes workers for a stale lease", "released > 0 ?", "released >= 0 ?"],
      ["sends no hint for a returned lease", "released > 0 ? hints.publish([WORK])", "released > 0 ? Effect.void"],
      ["sends no hint for sandboxes that a machine gives up", "isDraining ? hints.publish([WORK])", "isDraining ? Effect.void"],
      ["gives up what a drained machine's workers hold", "AND lease_until <= :now\", {", "AND lease_until <= :now + 3600000\", {"],
      ["gives a machine that is back nothing", "drained: Number(isDraining)", "drained: 1"],
      ["ends the leases of all machines", "WHERE machine = :machine AND lease_until > :now", "WHERE :machine <> '' AND lease_until > :now"],
      ["ends anew what ran out", "AND lease_until > :now\", {", "AND lease_until IS NOT NULL\", {"],
      ["takes a lease back for rest while there is work", "if (row[\"work\"] !== null) return Result.succeed(false)", ""],
      ["remembers a conversation that there is no more", "SET agent_session = :session WHERE",
        "SET agent_session = coalesce(:session, agent_session) WHERE"],
      ["names the machine that worked for fewest", "ORDER BY count(*) DESC", "ORDER BY count(*)"]
    ]),
    ...plantsIn(`${example}/SandboxRow.ts`, [
      ["counts the time before a rest as waiting", "CASE WHEN :work IS NULL THEN NULL ELSE coalesce(work_since, :now) END",
        "coalesce(work_since, CASE WHEN :work IS NULL THEN NULL ELSE :now END)"],
      ["lets a sandbox wait by the clock of the process that decided", "now: now.epochMilliseconds", "now: decidedAt.epochMilliseconds"],
      ["lets every event begin the time for which a sandbox waits", "coalesce(work_since, :now)", ":now"],
      ["takes everybody's word for an arrival", "if (fence !== null && isArrival(events))", "if (isArrival(events))"],
      ["takes no worker's word for an arrival", "if (fence !== null && isArrival(events))", "if (fence === null && isArrival(events))"],
      ["lets a stale worker write", "row?.fence === fence", "row !== null && row.fence >= fence"],
      ["says of an unknown sandbox's lease that it holds", "row?.fence === fence ? Result.succeed(row)",
        "row === null || row.fence === fence ? Result.succeed(row as Row)"],
      ["takes unsaved work for saved", "unsaved: Number(isUnsaved(sandbox))", "unsaved: Number(isUnsaved(before))"]
    ])
  ]
}
