/** Signatures of Standard Webhooks. */
import { Redacted } from "effect"
import { createHmac } from "node:crypto"

/** The part of `webhook-signature` for one secret (Standard Webhooks 1.0.0, "Signature scheme"). `timestamp`: whole seconds since 1970. */
export const signatureOf = (
  { body, id, timestamp }: { readonly id: string; readonly timestamp: string; readonly body: string },
  secret: Redacted.Redacted
): string => {
  const key = Buffer.from(Redacted.value(secret).slice("whsec_".length), "base64")
  return `v1,${createHmac("sha256", key).update(`${id}.${timestamp}.${body}`).digest("base64")}`
}
