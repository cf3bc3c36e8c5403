/** Instants as the interface writes them. */
import * as DateTime from "effect/DateTime"
import * as Schema from "effect/Schema"
import * as SchemaTransformation from "effect/SchemaTransformation"

const make = (encoded: Schema.String) =>
  encoded.pipe(Schema.decodeTo(Schema.DateTimeUtc, SchemaTransformation.dateTimeUtcFromString)).annotate({ identifier: "Timestamp" })

/** `2026-11-21T02:41:00.123Z` on the wire and in storage: UTC, exactly three fraction digits. `DateTime.Utc` in memory. */
export const Timestamp = make(Schema.String)

/** As {@link Timestamp}, for a property and what it means. Described from outside, the text on the wire would have no description. */
export const timestamp = (description: string) => make(Schema.String.annotateKey({ description }))

const DAY_MILLIS = 86_400_000

const padded = (length: number) => Array.from({ length: 10 ** length }, (_, i) => String(i).padStart(length, "0"))
const TWO = padded(2)
const THREE = padded(3)

/** The day that was written last: `2026-11-21T`. Most instants that are written one after the other are of the same. */
let day = Number.NaN
let dayText = ""

/** As {@link Timestamp} encodes it. A list of 100 sandboxes spent a quarter of its JSON on asking for it elsewhere (2026-11-24). */
export const format = (instant: DateTime.Utc): string => {
  const millis = Math.trunc(instant.epochMilliseconds)
  const today = Math.floor(millis / DAY_MILLIS)
  if (today !== day) {
    const text = DateTime.formatIso(instant)
    dayText = text.slice(0, text.indexOf("T") + 1)
    day = today
  }
  const rest = millis - today * DAY_MILLIS
  const seconds = Math.floor(rest / 1000)
  const minutes = Math.floor(seconds / 60)
  return `${dayText}${TWO[Math.floor(minutes / 60)]}:${TWO[minutes % 60]}:${TWO[seconds % 60]}.${THREE[rest % 1000]}Z`
}
