import { type Plants, plantsIn } from "./Plant.ts"

const report = "rows.workers.set(report.worker, { report, seenAt })"
const leave = "rows.workers.delete(worker)"

export const plants: Plants = {
  port: "Workers",
  subject: "packages/testing/test/sandbox/Workers.suites.ts",
  plants: plantsIn("packages/domain/memory/sandbox/WorkersMemory.ts", [
    ["keeps the first report", report, `(rows.workers.has(report.worker) || ${report})`],
    ["keeps when a worker was heard of first", report,
      report.replace("seenAt }", "seenAt: rows.workers.get(report.worker)?.seenAt ?? seenAt }")],
    ["knows one worker of a machine", report, report.replace("report.worker", "report.machine")],
    ["forgets that a worker ends", report, report.replace("report,", "report: { ...report, isDraining: false },")],
    ["tells of no more taken than there is", report, report.replace(
      "report,",
      "report: { ...report, slots: { ...report.slots, taken: Math.min(report.slots.all, report.slots.taken) } },"
    )],
    ["takes boots for slots", report, report.replace("report,", "report: { ...report, boots: report.slots },")],
    ["lists a worker that left", leave, "undefined"],
    ["forgets a whole machine with one worker", leave,
      "rows.workers.forEach((one, name) => one.report.machine === rows.workers.get(worker)?.report.machine && rows.workers.delete(name))"],
    ["holds none for gone", "isThere: since(GONE_SECONDS)", "isThere: true"],
    ["holds one for gone too early", "isThere: since(GONE_SECONDS)", "isThere: since(GONE_SECONDS / 2)"],
    ["goes on telling of what is long gone", "return since(FORGOTTEN_SECONDS) ?", "return true ?"],
    ["tells nothing of those that are gone", "return since(FORGOTTEN_SECONDS) ?", "return since(GONE_SECONDS) ?"],
    ["tells that each was heard of now", "{ ...report, seenAt, isThere", "{ ...report, seenAt: now, isThere"],
    ["lists by worker", "a.machine < b.machine || a.machine === b.machine && a.worker < b.worker", "a.worker < b.worker"],
    ["lists by machine alone", " || a.machine === b.machine && a.worker < b.worker", ""],
    ["tells of all that there are", ".slice(0, MAX_WORKERS)", ""]
  ])
}
