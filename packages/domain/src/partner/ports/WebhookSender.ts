/** Port: sends signed requests to receivers of webhooks, and decides which addresses are allowed. */
import * as Context from "effect/Context"
import type * as DateTime from "effect/DateTime"
import type * as Effect from "effect/Effect"
import type * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import type { Uuid } from "../../ids/Ids.ts"
import type { Outcome } from "../rules/Webhook.ts"

/** The address is not allowed. Another address may be. `reason` is a sentence and never contains the address. */
export class TargetRefused extends Schema.TaggedError<TargetRefused>()("TargetRefused", { reason: Schema.String }) {
  override get message() {
    return this.reason
  }
}

/** One signed request. */
export interface SignedRequest {
  readonly url: string
  /** The id of the event, equal in every attempt. */
  readonly id: Uuid
  /** The time of the signature. */
  readonly at: DateTime.Utc
  /** JSON. The signed bytes are the sent bytes. */
  readonly body: string
  /** Each secret gives one signature, in this order. */
  readonly secrets: ReadonlyArray<Redacted.Redacted>
}

/** Sends webhooks. */
export class WebhookSender extends Context.Service<WebhookSender, {
  /**
   * Returns the address to store, or why it is refused. It must be https, without user and fragment, and public as far as is known now.
   * A name that does not resolve yet is allowed. Every attempt checks again.
   */
  admit(url: string): Effect.Effect<string, TargetRefused>
  /** Sends once, follows no redirect, and ends within `ATTEMPT_TIME`. Every failure is an outcome. */
  send(request: SignedRequest): Effect.Effect<Outcome>
}>()("@slipway/domain/WebhookSender") {}
