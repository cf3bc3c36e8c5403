/** `Workers` in memory, beside the rows of `SandboxStoreMemory`. */
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import { FORGOTTEN_SECONDS, GONE_SECONDS, type KnownWorker, MAX_WORKERS, Workers } from "../../src/sandbox/ports/Workers.ts"
import type { SandboxRows } from "./SandboxRows.ts"

/** The workers at `now`. */
export const known = ({ workers }: SandboxRows, now: DateTime.Utc): ReadonlyArray<KnownWorker> =>
  Array.from(workers.values()).flatMap(({ report, seenAt }) => {
    const since = (seconds: number) => DateTime.isGreaterThan(seenAt, DateTime.subtract(now, { seconds }))
    return since(FORGOTTEN_SECONDS) ? [{ ...report, seenAt, isThere: since(GONE_SECONDS) }] : []
  }).sort((a, b) => a.machine < b.machine || a.machine === b.machine && a.worker < b.worker ? -1 : 1).slice(0, MAX_WORKERS)

/** `Workers` beside these rows. */
export const make = (rows: SandboxRows): Workers["Service"] =>
  Workers.of({
    report: (report) => Effect.map(DateTime.now, (seenAt) => void rows.workers.set(report.worker, { report, seenAt })),
    leave: (worker) => Effect.sync(() => void rows.workers.delete(worker)),
    list: Effect.map(DateTime.now, (now) => known(rows, now))
  })
