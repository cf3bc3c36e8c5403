/** Names that sandboxes may reach, each with its port. Exact: no patterns, no addresses. */
import { destination } from "@slipway/domain/environment/rules/Destination"
import * as Result from "effect/Result"

/** `name:port`, lower case. */
export type AllowList = ReadonlySet<string>

/** Reads `registry.npmjs.org:443, pypi.org:443`. Fails with the first entry that names no destination. */
export const parse = (text: string): Result.Result<AllowList, string> => {
  const entries = text.split(",").map((entry) => entry.trim()).filter((entry) => entry !== "")
  const wrong = entries.find((entry) => destination(entry) === undefined)
  return wrong === undefined ? Result.succeed(new Set(entries.map((entry) => entry.toLowerCase()))) : Result.fail(wrong)
}
