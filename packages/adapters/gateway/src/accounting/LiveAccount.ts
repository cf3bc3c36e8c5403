/** The account of one session: the usage of its model, updated while requests run. */
import type { ModelAccount } from "@slipway/domain/models/ports/ModelGateway"
import { costOf, countsOf, type Tokens } from "@slipway/domain/models/rules/Budget"
import { addTokenCounts, addUsage, type Spent, type TokenCounts } from "@slipway/domain/models/rules/Usage"
import type { Upstream } from "@slipway/domain/models/schema/ModelCatalogue"
import { Effect, Queue, Stream } from "effect"

/** The cost and tokens of one request. */
export interface Took {
  readonly microUsd: number
  readonly tokens: TokenCounts
}

export const tookOf = ({ prices }: Upstream, tokens: Tokens): Took => ({ microUsd: costOf(prices, tokens), tokens: countsOf(tokens) })

/** A model account that callbacks change, and its listeners. */
export class LiveAccount {
  /** The usage of finished requests, including earlier sessions. */
  #settled: Spent
  #refusals = 0
  #refusedFor: ModelAccount["refusedFor"] = null
  #trouble: ModelAccount["trouble"]
  /** The usage of running requests, as far as it is known. */
  readonly #open = new Map<string, Took>()
  readonly #listeners = new Set<() => void>()
  readonly #creditMicros: (microUsd: number) => number

  constructor(spent: Spent, creditMicros: (microUsd: number) => number) {
    this.#settled = spent
    this.#creditMicros = creditMicros
  }

  get now(): ModelAccount {
    const { tokens, usage } = Array.from(this.#open.values()).reduce((sum, took) => this.#with(sum, took), this.#settled)
    const trouble = this.#trouble
    return { usage, tokens, refusals: this.#refusals, refusedFor: this.#refusedFor, ...(trouble === undefined ? {} : { trouble }) }
  }

  readonly changes = Stream.callback<ModelAccount>((queue) =>
    Effect.acquireRelease(
      Effect.sync(() => {
        const tell = () => {
          Queue.offerUnsafe(queue, this.now)
        }
        this.#listeners.add(tell)
        tell()
        return tell
      }),
      (tell) => Effect.sync(() => this.#listeners.delete(tell))
    ), { bufferSize: 1, strategy: "sliding" })

  counting(id: string, took: Took): void {
    this.#open.set(id, took)
    this.#tell()
  }

  /** `null`: the request did not count. */
  settle(id: string, took: Took | null): void {
    this.#open.delete(id)
    if (took !== null) this.#settled = this.#with(this.#settled, took)
    this.#tell()
  }

  #with({ tokens, usage }: Spent, took: Took): Spent {
    const { microUsd } = took
    return {
      usage: addUsage(usage, { llmRequestCount: 1, costMicroUsd: microUsd, creditsChargedMicros: this.#creditMicros(microUsd) }),
      tokens: addTokenCounts(tokens, took.tokens)
    }
  }

  refused(reason: "budget_exceeded" | "no_credits"): void {
    this.#refusals++
    this.#refusedFor = reason
    this.#tell()
  }

  /** `undefined`: the provider answers. */
  troubled(trouble: ModelAccount["trouble"]): void {
    this.#trouble = trouble
  }

  #tell(): void {
    for (const tell of this.#listeners) tell()
  }
}
