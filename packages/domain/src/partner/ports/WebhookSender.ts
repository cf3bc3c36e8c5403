/** Port: the way to receivers of webhooks. Knows which addresses may be sent to, and how a request is signed and sent. */
import * as Context from "effect/Context"
import type * as DateTime from "effect/DateTime"
import type * as Effect from "effect/Effect"
import type * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import type { Uuid } from "../../ids/Ids.ts"
import type { Outcome } from "../rules/Webhook.ts"

/** Nothing is sent there. Registering again helps only with another address. `reason` is a sentence, and never repeats the address. */
export class TargetRefused extends Schema.TaggedError<TargetRefused>()("TargetRefused", { reason: Schema.String }) {
  override get message() {
    return this.reason
  }
}

/** One signed request. */
export interface SignedRequest {
  readonly url: string
  /** The event's: the same at every attempt. */
  readonly id: Uuid
  /** When it is signed. */
  readonly at: DateTime.Utc
  /** JSON; the bytes that are signed are the bytes that are sent. */
  readonly body: string
  /** Each gives a signature, in this order. */
  readonly secrets: ReadonlyArray<Redacted.Redacted>
}

export class WebhookSender extends Context.Service<WebhookSender, {
  /**
   * The address as it is kept, or why it cannot be a receiver: it must be https, without user and fragment, and public as
   * far as is known now. A name without an address may get one: it is admitted. Every attempt looks again.
   */
  admit(url: string): Effect.Effect<string, TargetRefused>
  /** Sends once, follows no redirect, and ends within `ATTEMPT_TIME`. Whatever goes wrong is an outcome. */
  send(request: SignedRequest): Effect.Effect<Outcome>
}>()("@slipway/domain/WebhookSender") {}
