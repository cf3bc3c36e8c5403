/** Instants as the interface writes them. */
import * as Schema from "effect/Schema"
import * as SchemaTransformation from "effect/SchemaTransformation"

const make = (encoded: Schema.String) =>
  encoded.pipe(Schema.decodeTo(Schema.DateTimeUtc, SchemaTransformation.dateTimeUtcFromString)).annotate({ identifier: "Timestamp" })

/** `2026-11-21T02:41:00.123Z` on the wire and in storage: UTC, exactly three fraction digits. `DateTime.Utc` in memory. */
export const Timestamp = make(Schema.String)

/** As {@link Timestamp}, for a property and what it means. Described from outside, the text on the wire would have no description. */
export const timestamp = (description: string) => make(Schema.String.annotateKey({ description }))
