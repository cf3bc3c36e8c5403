import { type Plants, plantsIn } from "./Plant.ts"

const save = "row.setup = record"
const find = "state.rows.get(id)?.setup ?? null"

export const plants: Plants = {
  port: "Setups",
  subject: "packages/testing/test/sandbox/Setups.suites.ts",
  plants: [
    ...plantsIn("packages/domain/memory/sandbox/SetupsMemory.ts", [
      ["takes what a worker saves whose lease is another's", "leased(state, lease)", "Effect.sync(() => state.rows.get(lease.sandboxId))"],
      ["keeps the first record", save, "row.setup ??= record"],
      ["keeps when the first run began", save, "row.setup = { ...record, startedAt: row.setup?.startedAt ?? record.startedAt }"],
      ["keeps the first MiB less a little", save, "row.setup = { ...record, output: record.output.slice(0, 2 ** 20 - 64) }"],
      ["takes control characters out of the output", save,
        "row.setup = { ...record, output: record.output.replaceAll(\"\\u001b\", \"\") }"],
      ["adds to the output of the run before", save, "row.setup = { ...record, output: (row.setup?.output ?? \"\") + record.output }"],
      ["forgets what agents are told", save, "row.setup = { ...record, told: null }"],
      ["takes no exit code for 0", save, "row.setup = { ...record, exitCode: record.exitCode ?? 0 }"],
      ["takes a run that goes on for one of no time", save, "row.setup = { ...record, ms: record.ms ?? 0 }"],
      ["forgets whether what it fills was there", save, "row.setup = { ...record, cache: \"none\" }"],
      ["tells of a run that was broken off as failed", find,
        "state.rows.get(id)?.sandbox.status === \"terminated\" ? { ...state.rows.get(id).setup, state: \"failed\" } : " + find],
      ["finds what was saved of another sandbox", find,
        "Array.from(state.rows.values()).find(({ setup }) => setup !== null)?.setup ?? null"]
    ]),
    ...plantsIn("packages/domain/memory/sandbox/SandboxRows.ts", [
      ["remembers the head that was pushed last alone", "row.pushed = [...row.pushed, {", "row.pushed = [{"],
      ["does not notice that a pull request was merged", "if (merged === true) row.pushed", "if (false) row.pushed"],
      ["takes all that a sandbox pushed for merged", "one.repo === name ? { ...one, merged: true } : one", "({ ...one, merged: true })"],
      ["takes for merged what is pushed after that", "{ repo: name, sha: headSha, merged: false }",
        "{ repo: name, sha: headSha, merged: row.pushed.some(({ merged }) => merged) }"],
      ["knows repositories in one case of letters", "const name = repo.toLowerCase()", "const name = repo"]
    ]),
    ...plantsIn("packages/domain/memory/sandbox/MaintenanceMemory.ts", [
      ["keeps the record when the events are forgotten", "row.setup = null", ""],
      ["forgets the records of all with the events of one", "row.setup = null", "for (const other of rows.values()) other.setup = null"]
    ]),
    ...plantsIn("packages/domain/memory/sandbox/SandboxRows.ts", [
      ["takes a lease that is another's by now", "row?.fence === fence", "row !== undefined && row.fence >= fence"],
      ["takes a lease that no worker had yet", "row?.fence === fence", "row !== undefined && row.fence <= fence"]
    ])
  ]
}
