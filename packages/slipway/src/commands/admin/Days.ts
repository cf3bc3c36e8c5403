/** Lengths of time on the command line. */
import { Duration, Schema, SchemaTransformation } from "effect"

/** Whole days, such as `90d` on the command line. */
export const Days = Schema.String.check(Schema.isPattern(/^[1-9]\d{0,4}d$/u, { expected: "days such as 90d" })).pipe(
  Schema.decodeTo(
    Schema.Duration,
    SchemaTransformation.transform({
      decode: (text: string) => Duration.days(Number(text.slice(0, -1))),
      encode: (days) => `${Math.floor(Duration.toDays(days))}d`
    })
  )
)
