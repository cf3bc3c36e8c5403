/** The usage of a sandbox (docs/interface.md 2.3), and its tokens. Eventually consistent; counters saturate at 2^53−1. */
import { saturatingAdd } from "../../text/Counters.ts"
import type { TokenCounts, Usage } from "../schema/Usage.ts"

export type { TokenCounts, Usage } from "../schema/Usage.ts"

/** The usage of a new sandbox. */
export const noUsage: Usage = { llmRequestCount: 0, costMicroUsd: 0, creditsChargedMicros: 0 }

/** Adds each counter. Saturates. */
export const addUsage = (a: Usage, b: Usage): Usage => ({
  llmRequestCount: saturatingAdd(a.llmRequestCount, b.llmRequestCount),
  costMicroUsd: saturatingAdd(a.costMicroUsd, b.costMicroUsd),
  creditsChargedMicros: saturatingAdd(a.creditsChargedMicros, b.creditsChargedMicros)
})

/** The tokens of a sandbox before its first request. */
export const noTokenCounts: TokenCounts = { input: 0, cachedInput: 0, output: 0 }

/** Adds each counter. Saturates. */
export const addTokenCounts = (a: TokenCounts, b: TokenCounts): TokenCounts => ({
  input: saturatingAdd(a.input, b.input),
  cachedInput: saturatingAdd(a.cachedInput, b.cachedInput),
  output: saturatingAdd(a.output, b.output)
})

/** The totals of a sandbox in the ledger and the gateway. */
export interface Spent {
  readonly usage: Usage
  readonly tokens: TokenCounts
}

/** The totals of a sandbox before its first request. */
export const nothingSpent: Spent = { usage: noUsage, tokens: noTokenCounts }

/** Whether both look the same to a reader. Credits follow from the cost. */
export const isSameSpent = (a: Spent, b: Spent): boolean =>
  a.usage.costMicroUsd === b.usage.costMicroUsd && a.usage.llmRequestCount === b.usage.llmRequestCount &&
  a.tokens.input === b.tokens.input && a.tokens.cachedInput === b.tokens.cachedInput && a.tokens.output === b.tokens.output
