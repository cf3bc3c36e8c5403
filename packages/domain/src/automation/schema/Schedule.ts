/** Times of schedules: a cron expression in a time zone. */
import * as Cron from "effect/Cron"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"

/** Characters of an expression. */
const MAX_CRON = 200
/** Characters of a time zone. The longest of the tz database has 32. */
const MAX_ZONE = 64

/** The number of days that every year's month has, by month from 1. */
const DAYS = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]

/**
 * Whether some month of every year has a day of the expression. Looking for the next time of another expression takes seconds or does not
 * end, so it is refused. If both days of month and days of week are named without `*`, a day of either kind counts.
 */
const hasTimes = ({ days, months, weekdays }: Cron.Cron, [, , ofMonth = "", , ofWeek = ""]: ReadonlyArray<string>): boolean => {
  if (days.size === 0 || weekdays.size > 0 && !ofMonth.startsWith("*") && !ofWeek.startsWith("*")) return true
  const first = Math.min(...days)
  return DAYS.some((last, i) => (months.size === 0 || months.has(i + 1)) && first <= last)
}

/** The times of a schedule; `null`: the expression or the zone is invalid, or the expression has no times. */
export const parseSchedule = (cron: string, timeZone: string): Cron.Cron | null => {
  const fields = cron.split(" ")
  const parsed = Cron.parse(cron, timeZone, { onDstOverlap: "earlier" })
  return fields.length === 5 && Result.isSuccess(parsed) && hasTimes(parsed.success, fields) ? parsed.success : null
}

/** Five fields: minute, hour, day of month, month, day of week. */
export const CronText = Schema.String.check(
  Schema.isMaxLength(MAX_CRON),
  Schema.makeFilter((cron: string) => parseSchedule(cron, "UTC") !== null, {
    expected: "five cron fields, such as 0 7 * * 1-5, whose days exist in every year",
    toJsonSchema: () => [{}, true],
    arbitraryConstraint: { patterns: [{ source: "^[0-5]?[0-9] 1?[0-9] (\\*|[1-9]) \\* (\\*|[0-6]|1-5)$", flags: "" }] }
  })
)

/** A name of the tz database, such as `Europe/Berlin`. */
export const ZoneText = Schema.String.check(
  Schema.isMaxLength(MAX_ZONE),
  Schema.isPattern(/^[A-Za-z][A-Za-z0-9_+/-]*$/u),
  Schema.makeFilter((zone: string) => parseSchedule("* * * * *", zone) !== null, {
    expected: "a time zone, such as Europe/Berlin",
    toJsonSchema: () => [{}, true],
    arbitraryConstraint: { patterns: [{ source: "^(UTC|Europe/Berlin|America/New_York|Asia/Kolkata|Australia/Lord_Howe)$", flags: "" }] }
  })
)
