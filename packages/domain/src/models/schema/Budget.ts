/** Amounts of money in settings and commands. */
import * as Schema from "effect/Schema"
import * as SchemaTransformation from "effect/SchemaTransformation"
import { formatUsd } from "../../text/FormatUsd.ts"
import { Counter } from "../../text/Text.ts"

/** An amount in US dollars in decimal form, e.g. `12.50`: up to 6 decimals, exact. Micro-USD in memory. */
export const Usd = Schema.String.check(Schema.isPattern(/^\d{1,9}(?:\.\d{1,6})?$/u)).pipe(
  Schema.decodeTo(
    Counter,
    SchemaTransformation.transform({
      decode: (text) => {
        const [whole, part = ""] = text.split(".")
        return Number(whole) * 1_000_000 + Number(part.padEnd(6, "0"))
      },
      encode: (microUsd: number) => formatUsd(microUsd)
    })
  )
)
