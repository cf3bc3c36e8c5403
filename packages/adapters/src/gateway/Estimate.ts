/**
 * What a request may cost at most, and what it is charged when its answer was cut off before the provider said what it
 * took. Both err on the dear side: no tokenizer makes more tokens than bytes, and text in its usual scripts has three
 * bytes or more to a token.
 */
import { costOf, type Tokens } from "@slipway/domain/sandbox/Budget"
import type { Upstream } from "@slipway/domain/sandbox/ModelCatalogue"

/** Of requests whose answers were cut off, JSON and framing included. */
const BYTES_PER_TOKEN = 3

/** The provider fetches it, whatever its size. */
const REMOTE = /"(?:url|image_url|file_url)"\s*:\s*"https?:|"file_id"\s*:/u

/** Reserved before the request goes out. An answer may only exceed it by tokens the provider adds to the prompt itself. */
export const upperBound = ({ contextTokens, outputTokens, prices }: Upstream, body: string, outputLimit: number | undefined): number => {
  const input = REMOTE.test(body) ? contextTokens : Math.min(Buffer.byteLength(body), contextTokens)
  const dearest = Math.max(prices.input, prices.cachedInput, prices.cacheWrite)
  return costOf({ ...prices, input: dearest }, {
    input, cachedInput: 0, cacheWrite: 0, output: Math.min(outputLimit ?? outputTokens, outputTokens)
  })
}

/** The tokens of an answer that was cut off: those the provider named, and beyond them by the bytes that went to and fro. */
export const ofCutOff = ({ contextTokens, outputTokens }: Upstream, known: Tokens, sentBytes: number, receivedBytes: number): Tokens => ({
  ...known,
  input: known.input > 0 ? known.input : Math.min(Math.ceil(sentBytes / BYTES_PER_TOKEN), contextTokens),
  output: Math.max(known.output, Math.min(Math.ceil(receivedBytes / BYTES_PER_TOKEN), outputTokens))
})
