/** The usage of a sandbox, as it is stored and sent. */
import * as Schema from "effect/Schema"
import { Counter } from "../../text/Text.ts"

/** Totals since the sandbox was created. */
export const Usage = Schema.Struct({
  llmRequestCount: Counter.annotateKey({ description: "Calls to a model." }),
  costMicroUsd: Counter.annotateKey({ description: "Millionths of a US dollar, by the price table of the service." }),
  creditsChargedMicros: Counter.annotateKey({ description: "Millionths of a credit." })
}).annotate({ identifier: "Usage" })
export type Usage = typeof Usage.Type

/**
 * The tokens of the cost. The provider reports them; for an interrupted answer they are estimated. They are not part of {@link Usage},
 * whose members the interface fixes.
 */
export const TokenCounts = Schema.Struct({
  input: Counter.annotateKey({ description: "Input tokens of models." }),
  cachedInput: Counter.annotateKey({ description: "Tokens of `input` from a provider's cache." }),
  output: Counter.annotateKey({ description: "Output tokens of models, reasoning included." })
})
export type TokenCounts = typeof TokenCounts.Type
