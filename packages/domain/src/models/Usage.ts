/** What a sandbox has used (docs/interface.md 2.3). Eventually consistent; counters saturate at 2^53−1. */
import { Schema } from "effect"
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
