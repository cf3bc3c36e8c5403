/** `timestamptz` column, `DateTime.Utc` in memory. */
import { Schema } from "effect"

export const Instant = Schema.DateTimeUtcFromDate
