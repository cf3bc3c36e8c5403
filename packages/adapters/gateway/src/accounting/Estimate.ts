/**
 * What a request may cost at most, and what it is charged when its answer was cut off before the provider said what it
 * took. Both err on the dear side: no tokenizer makes more tokens than bytes, and text in its usual scripts has three
 * bytes or more to a token.
 */
import { costOf, type Tokens } from "@slipway/domain/models/rules/Budget"
import type { Upstream } from "@slipway/domain/models/schema/ModelCatalogue"
import type { Prepared } from "../preparation/Preparation.ts"

/** Of requests whose answers were cut off, JSON and framing included. */
const BYTES_PER_TOKEN = 3

/** Faster than models of agents answer, thought that is not shown included (2026-11: 30 to 250). */
const TOKENS_PER_SECOND = 250

/** Reserved before the request goes out. An answer may only exceed it by tokens the provider adds to the prompt itself. */
export const upperBound = ({ prices }: Upstream, { input, outputTokens }: Prepared): number => {
  const dearest = Math.max(prices.input, prices.cachedInput, prices.cacheWrite)
  return costOf({ ...prices, input: dearest }, { input: input.tokens, cachedInput: 0, cacheWrite: 0, output: outputTokens })
}

/** An answer of which the provider has not said what it took. */
interface CutOff {
  /** What it named before. */
  readonly known: Tokens
  readonly receivedBytes: number
  /** Whether nothing of it is missing but its usage. */
  readonly whole: boolean
  /** Since the provider had the request. */
  readonly elapsedMillis: number
}

/**
 * Tokens the provider named, and beyond them by the bytes that went to and fro, and by the time: a model that thinks sends
 * nothing. Of an answer that was to come in one piece nothing tells how far it was.
 */
export const ofCutOff = (
  { body, input, outputTokens, streaming }: Prepared,
  { elapsedMillis, known, receivedBytes, whole }: CutOff
): Tokens => {
  const sent = input.measured ? Math.min(Math.ceil(body.length / BYTES_PER_TOKEN), input.tokens) : input.tokens
  const unseen = whole ? 0 : streaming ? Math.ceil(elapsedMillis / 1000 * TOKENS_PER_SECOND) : outputTokens
  return {
    ...known,
    input: known.input > 0 ? known.input : sent,
    output: Math.max(known.output, Math.min(Math.max(Math.ceil(receivedBytes / BYTES_PER_TOKEN), unseen), outputTokens))
  }
}
