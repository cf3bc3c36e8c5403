/** What a sandbox has used (docs/interface.md 2.3), and in tokens. Eventually consistent; counters saturate at 2^53−1. */
import * as Schema from "effect/Schema"
import { Counter, saturatingAdd } from "../Text.ts"

/** Totals since the sandbox was created. */
export const Usage = Schema.Struct({
  llmRequestCount: Counter.annotateKey({ description: "Calls to a model." }),
  costMicroUsd: Counter.annotateKey({ description: "Millionths of a US dollar, by the price table of the service." }),
  creditsChargedMicros: Counter.annotateKey({ description: "Millionths of a credit." })
}).annotate({ identifier: "Usage" })
export type Usage = typeof Usage.Type

/** Of a sandbox that was just created. */
export const noUsage: Usage = { llmRequestCount: 0, costMicroUsd: 0, creditsChargedMicros: 0 }

/** Each counter by itself; saturates. */
export const addUsage = (a: Usage, b: Usage): Usage => ({
  llmRequestCount: saturatingAdd(a.llmRequestCount, b.llmRequestCount),
  costMicroUsd: saturatingAdd(a.costMicroUsd, b.costMicroUsd),
  creditsChargedMicros: saturatingAdd(a.creditsChargedMicros, b.creditsChargedMicros)
})

/**
 * The tokens that the cost is of: as the provider named them, or for an answer that was cut off as they were estimated. Not part of
 * {@link Usage}, whose members the interface fixes.
 */
export const TokenCounts = Schema.Struct({
  input: Counter.annotateKey({ description: "Tokens that models were given." }),
  cachedInput: Counter.annotateKey({ description: "Those of `input` that a provider had in its cache." }),
  output: Counter.annotateKey({ description: "Tokens that models answered with, reasoning included." })
})
export type TokenCounts = typeof TokenCounts.Type

/** Of a sandbox that asked no model yet. */
export const noTokenCounts: TokenCounts = { input: 0, cachedInput: 0, output: 0 }

/** Each counter by itself; saturates. */
export const addTokenCounts = (a: TokenCounts, b: TokenCounts): TokenCounts => ({
  input: saturatingAdd(a.input, b.input),
  cachedInput: saturatingAdd(a.cachedInput, b.cachedInput),
  output: saturatingAdd(a.output, b.output)
})

/** Totals of a sandbox, as the ledger and the gateway know them. */
export interface Spent {
  readonly usage: Usage
  readonly tokens: TokenCounts
}

/** Of a sandbox that asked no model yet. */
export const nothingSpent: Spent = { usage: noUsage, tokens: noTokenCounts }

/** Whether a reader is told the same by both; credits follow from the cost. */
export const isSameSpent = (a: Spent, b: Spent): boolean =>
  a.usage.costMicroUsd === b.usage.costMicroUsd && a.usage.llmRequestCount === b.usage.llmRequestCount &&
  a.tokens.input === b.tokens.input && a.tokens.cachedInput === b.tokens.cachedInput && a.tokens.output === b.tokens.output
