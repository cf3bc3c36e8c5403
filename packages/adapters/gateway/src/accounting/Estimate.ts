/**
 * Upper bounds of a request's cost, and the charge of an answer that ended before the provider reported its usage. Both err on the high
 * side: no tokenizer makes more tokens than bytes, and text in common scripts has at least three bytes per token.
 */
import { costOf, type Tokens } from "@slipway/domain/models/rules/Budget"
import type { Upstream } from "@slipway/domain/models/schema/ModelCatalogue"
import type { Prepared } from "../preparation/Preparation.ts"

/** For requests with unfinished answers, including JSON and framing. */
const BYTES_PER_TOKEN = 3

/** Faster than agents' models answer, including hidden thoughts (2026-11: 30 to 250). */
const TOKENS_PER_SECOND = 250

/** The reservation before the request is sent. Only tokens that the provider itself adds to the prompt can exceed it. */
export const upperBound = ({ prices }: Upstream, { input, outputTokens }: Prepared): number => {
  const dearest = Math.max(prices.input, prices.cachedInput, prices.cacheWrite)
  return costOf({ ...prices, input: dearest }, { input: input.tokens, cachedInput: 0, cacheWrite: 0, output: outputTokens })
}

/** An answer whose usage the provider has not reported. */
interface CutOff {
  /** The usage that it reported before. */
  readonly known: Tokens
  readonly receivedBytes: number
  /** Whether only its usage is missing. */
  readonly whole: boolean
  /** Milliseconds since the provider got the request. */
  readonly elapsedMillis: number
}

/**
 * The reported tokens plus an estimate by bytes and time: a model that thinks sends no bytes. For an answer without streaming, only the
 * time counts.
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
