/** What a sandbox has used (docs/interface.md 2.3), and in tokens. Eventually consistent; counters saturate at 2^53−1. */
import { saturatingAdd } from "../../text/Counters.ts"
import type { TokenCounts, Usage } from "../schema/Usage.ts"

export type { TokenCounts, Usage } from "../schema/Usage.ts"

/** Of a sandbox that was just created. */
export const noUsage: Usage = { llmRequestCount: 0, costMicroUsd: 0, creditsChargedMicros: 0 }

/** Each counter by itself; saturates. */
export const addUsage = (a: Usage, b: Usage): Usage => ({
  llmRequestCount: saturatingAdd(a.llmRequestCount, b.llmRequestCount),
  costMicroUsd: saturatingAdd(a.costMicroUsd, b.costMicroUsd),
  creditsChargedMicros: saturatingAdd(a.creditsChargedMicros, b.creditsChargedMicros)
})

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
