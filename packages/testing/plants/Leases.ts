import { type Plants, plantsIn } from "./Plant.ts"

const example = "examples/sqlite-store/src"
const kit = "packages/domain/src/sandbox/kit"

export const plants: Plants = {
  port: "Leases",
  subject: "examples/sqlite-store/test/Leases.suites.ts",
  anew: [`${example}/`, `${kit}/`],
  plants: [
    ...plantsIn(`${kit}/LeasesKit.ts`, [
      ["gives leases that hold twice as long", "now + LEASE_SECONDS * 1000", "now + LEASE_SECONDS * 2000"],
      ["renews leases for a third of their time", "?? []), { until: until(now) })", "?? []), { until: now + LEASE_SECONDS * 333 })"],
      ["gives a lease the fence of the one before", "row.fence + 1", "Math.max(row.fence, 1)"],
      ["leaves what is taken given up", "            drained: 0,\n", ""],
      ["tells the last taker why it moved last", "row.moved ?? (", "("],
      ["forgets where the files are when another worker takes it", "row.movedFrom ?? row.machine", "row.machine"],
      ["takes a stale worker's word", "row?.fence === fence ? row :", "row !== undefined ? row :"],
      ["takes a sandbox back that was given up", "mayMove ? 1 : row.drained", "mayMove ? 1 : 0"],
      ["wakes workers for a stale lease", "Effect.catchTag(\"StaleLease\", () => Effect.void)",
        "Effect.catchTag(\"StaleLease\", () => hints.publish([WORK]))"],
      ["sends no hint for a returned lease", "        Effect.andThen(hints.publish([WORK])),\n", ""],
      ["sends no hint for sandboxes that a machine gives up", "isDraining ? hints.publish([WORK])", "isDraining ? Effect.void"],
      ["gives up what a drained machine's workers hold", "rows.filter((row) => !isHeld(row, now))", "rows"],
      ["gives a machine that is back nothing", "drained: Number(isDraining)", "drained: 1"],
      ["ends anew what ran out", "rows.filter((row) => isHeld(row, now))", "rows"],
      ["takes a lease back for rest while there is work", "if (row.work !== null) return false\n", ""],
      ["remembers a conversation that there is no more", "set([row], { agentSession })",
        "set([row], { agentSession: agentSession ?? row.agentSession })"],
      ["leases nothing that a clock far behind created", "(yield* leasesWithWork).map(",
        "(yield* leasesWithWork).filter(({ createdAt }) => createdAt > now - 1e10).map("],
      ["names the machine that worked for fewest", "b - a)", "a - b)"]
    ]),
    ...plantsIn(`${kit}/Rows.ts`, [
      ["serves who was created first, not who waits longest", "null : DateTime.makeUnsafe(workSince)",
        "null : DateTime.makeUnsafe(createdAt)"],
      ["gives away what its machine alone has", "unsaved: unsaved === 1", "unsaved: false"],
      ["gives nothing that was given up to another machine", "drained: drained === 1", "drained: false"],
      ["lets every event begin the time for which a sandbox waits", "null : workSince ?? now", "null : now"],
      ["lets a sandbox wait by the clock of the process that decided", "rowOf(sandbox, row, now, limits)",
        "rowOf(sandbox, row, at, limits)"],
      ["lets rest count as waiting", "work === null ? null : workSince ?? now", "work === null ? workSince : workSince ?? now"],
      ["takes everybody's word for an arrival", "if (fence !== null && isArrival(events))", "if (isArrival(events))"],
      ["takes no worker's word for an arrival", "if (fence !== null && isArrival(events))", "if (fence === null && isArrival(events))"],
      ["ends a lease when a process of other limits writes", "yield* statements.save(\"sandboxes\", [rowOf(sandbox, row, now, limits)])\n",
        `yield* statements.save("sandboxes", [rowOf(sandbox, row, now, limits)])
         if ("limits" in row && row.limits !== limitsText(limits)) {
           yield* statements.save("leases", (yield* statements.leases([id])).map((lease) => ({ ...leaseOf(lease), until: null })))
         }\n`],
      ["takes unsaved work for saved", "Number(isUnsaved(sandbox))", "0"]
    ]),
    ...plantsIn(`${kit}/SandboxStoreKit.ts`, [
      ["lets a stale worker write", "row?.fence === by.fence ?", "row !== undefined && row.fence >= by.fence ?"],
      ["takes every event for a worker's", "\"fence\" in by ? row.fence : null", "\"fence\" in by ? null : row.fence"]
    ]),
    ...plantsIn(`${example}/Statements.ts`, [
      ["ends the leases of all machines", "WHERE machine = :machine", "WHERE :machine <> ''"]
    ])
  ]
}
