import { assert, it } from "@effect/vitest"
import { WebhookSender } from "@slipway/domain/partner/ports/WebhookSender"
import { type TakenAttempt, WebhookStore } from "@slipway/domain/partner/ports/WebhookStore"
import type { Secret } from "@slipway/domain/partner/rules/Webhook"
import { attempt } from "@slipway/worker/jobs/DeliverWebhooks"
import { DateTime, Effect, Layer, Redacted } from "effect"
import { TestClock } from "effect/testing"

const id = "0192f5a0-5c3e-4b1c-9b7e-2f4a8c6d1eff"
const epoch = DateTime.makeUnsafe(0)
const secret = (value: string, until: DateTime.Utc | null): Secret => ({ value: Redacted.make(value), until })
const taken: TakenAttempt = {
  endpointId: id,
  url: "https://hooks.example.com/",
  secrets: [secret("new", null), secret("replaced", DateTime.add(epoch, { hours: 24 })), secret("old", DateTime.add(epoch, { hours: 1 }))],
  event: {
    id,
    sequence: 1,
    createdAt: epoch,
    type: "project.connected",
    data: { claimId: id, leadId: "lead", variant: "a", occurredAt: epoch, projectId: "p" }
  },
  attempt: 1,
  manual: false,
  dueAt: epoch,
  fence: 1
}

it.effect("signs with those replaced secrets alone that still sign when the attempt is made", () => {
  const signed: Array<ReadonlyArray<string>> = []
  const Doubles = Layer.merge(
    Layer.mock(WebhookStore, { record: () => Effect.succeed(true) }),
    Layer.mock(WebhookSender, {
      send: ({ secrets }) =>
        Effect.sync(() => {
          signed.push(secrets.map((secret) => Redacted.value(secret)))
          return { _tag: "Answered", status: 204, retryAfter: null, body: null }
        })
    })
  )
  return Effect.gen(function*() {
    // Secrets that were read before may have expired by now.
    for (const hours of ["59 minutes", "1 minute", "22 hours", "1 hour"] as const) {
      yield* TestClock.adjust(hours)
      yield* attempt(taken)
    }
    assert.deepStrictEqual(signed, [["new", "replaced", "old"], ["new", "replaced"], ["new", "replaced"], ["new"]])
  }).pipe(Effect.provide(Doubles))
})
