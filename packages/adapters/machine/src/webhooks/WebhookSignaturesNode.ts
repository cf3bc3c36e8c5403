/** `WebhookSignatures` on Node's cryptography. */
import { WebhookSignatures } from "@slipway/domain/automation/ports/WebhookSignatures"
import { Layer } from "effect"
import { timingSafeEqual } from "node:crypto"
import { signatureOf } from "./Signature.ts"

/** Signatures that are compared of one request: a sender that rotates its secrets sends a few. */
const MAX_SIGNATURES = 10

const equal = (a: string, b: string) => {
  const [one, other] = [Buffer.from(a), Buffer.from(b)]
  return one.length === other.length && timingSafeEqual(one, other)
}

/** Needs no settings. */
export const layer = Layer.succeed(
  WebhookSignatures,
  WebhookSignatures.of({
    matches: (request, secret) => {
      const expected = signatureOf(request, secret)
      return request.signature.split(" ", MAX_SIGNATURES).some((given) => equal(given, expected))
    }
  })
)
