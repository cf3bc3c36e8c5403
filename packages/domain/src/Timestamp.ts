/** Instants as the interface writes them. */
import { Schema, SchemaTransformation } from "effect"

/** `2026-11-21T02:41:00.123Z` on the wire and in storage: UTC, exactly three fraction digits. `DateTime.Utc` in memory. */
export const Timestamp = Schema.String.pipe(
  Schema.decodeTo(Schema.DateTimeUtc, SchemaTransformation.dateTimeUtcFromString)
).annotate({ identifier: "Timestamp" })
