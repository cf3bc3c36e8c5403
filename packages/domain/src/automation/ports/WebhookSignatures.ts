/** Port: checks signatures of Standard Webhooks. Without it no automation has a webhook. */
import * as Context from "effect/Context"
import type * as Redacted from "effect/Redacted"

/** A received request. Its headers are as they came; an absent one is empty. */
export interface SignedRequest {
  readonly id: string
  /** Whole seconds since 1970. */
  readonly timestamp: string
  /** Signatures with their versions, separated by spaces. */
  readonly signature: string
  /** The exact received text, because the signature covers its bytes. */
  readonly body: string
}

/** Computes signatures. */
export class WebhookSignatures extends Context.Service<WebhookSignatures, {
  /** Whether one of the signatures is the secret's, in a time that does not depend on them. The time of the request is not checked. */
  matches(request: SignedRequest, secret: Redacted.Redacted): boolean
}>()("@slipway/domain/WebhookSignatures") {}
