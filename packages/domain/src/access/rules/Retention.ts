/** How long data of ended sandboxes is kept, where a grant has its own time. */
import * as DateTime from "effect/DateTime"
import type { Grant } from "../schema/Grant.ts"

/** The least and the most days of a retention. */
export const RETENTION_BOUNDS = { least: 1, most: 3650 } as const

/** Whether a number is a retention in days. */
export const isRetention = (days: number): boolean =>
  Number.isInteger(days) && days >= RETENTION_BOUNDS.least && days <= RETENTION_BOUNDS.most

/** By grant with its own retention: the end up to which its sandboxes lose their data at `now`. */
export const ownTimes = (
  grants: ReadonlyArray<Pick<Grant, "id" | "retentionDays">>,
  now: DateTime.Utc
): ReadonlyMap<string, DateTime.Utc> =>
  new Map(
    grants.flatMap(({ id, retentionDays }) =>
      retentionDays === null ? [] : [[id, DateTime.subtract(now, { days: retentionDays })] as const]
    )
  )
