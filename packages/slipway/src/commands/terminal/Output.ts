/** The output of commands: tables and sentences for people, one JSON value for programs. */
import { visible } from "@slipway/domain/text/EscapeInvisible"
import * as Flag from "effect/cli/Flag"
import * as Console from "effect/Console"
import type * as Effect from "effect/Effect"
import { jsonLine } from "./Text.ts"

export { beginning, columns, jsonLine, shellWord } from "./Text.ts"

export const json = Flag.Boolean("json").pipe(
  Flag.withDescription("Print JSON"),
  Flag.withDefault(false)
)

/** `json`: prints exactly one JSON value to standard output. Otherwise prints `text` with control characters made visible. */
export const print = (json: boolean, value: unknown, text: () => string): Effect.Effect<void> =>
  Console.log(json ? jsonLine(value) : visible(text()))

/** The marks of checks. */
export const MARKS = { ok: "✓", note: "!", missing: "✗" } as const
