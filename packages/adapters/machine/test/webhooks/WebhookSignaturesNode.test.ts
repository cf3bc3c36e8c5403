import { assert, it } from "@effect/vitest"
import { WebhookSignatures } from "@slipway/domain/automation/ports/WebhookSignatures"
import * as WebhookSignaturesNode from "@slipway/machine/webhooks/WebhookSignaturesNode"
import { Effect, Redacted } from "effect"
import { createHmac } from "node:crypto"
import { Webhook } from "standardwebhooks"

/** The example of the specification (Standard Webhooks 1.0.0). */
const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
const request = {
  id: "msg_p5jXN8AQM9LWM0D4loKWxJek",
  timestamp: "1614265330",
  body: "{\"test\": 2432232314}",
  signature: "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
}

it.effect("takes the signature of the secret alone, among others, for the id, the time and the body that were signed", () =>
  Effect.gen(function*() {
    const signatures = yield* WebhookSignatures
    const matches = (more: Partial<typeof request>, by = secret) => signatures.matches({ ...request, ...more }, Redacted.make(by))
    assert.isTrue(matches({}))
    const now = new Date()
    const signed = new Webhook(secret).sign(request.id, now, "{}")
    assert.isTrue(matches({ body: "{}", timestamp: String(Math.floor(now.getTime() / 1000)), signature: signed }), "the reference's")
    assert.isTrue(matches({ signature: `v1,AAAA v2,${"A".repeat(44)} ${request.signature}` }))
    const other = createHmac("sha256", "other").update("x").digest("base64")
    for (
      const more of [
        { id: "msg_other" },
        { timestamp: "1614265331" },
        { body: "{\"test\":2432232314}" },
        { signature: "" },
        { signature: "v1," },
        { signature: request.signature.replace("v1,", "v2,") },
        { signature: request.signature.slice(0, -1) },
        { signature: `v1,${other}` },
        { signature: `${"v1,AAAA ".repeat(10)}${request.signature}` }
      ]
    ) assert.isFalse(matches(more), JSON.stringify(more))
    assert.isFalse(matches({}, `whsec_${Buffer.from("another secret").toString("base64")}`))
  }).pipe(Effect.provide(WebhookSignaturesNode.layer)))
