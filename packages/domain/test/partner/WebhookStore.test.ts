import { Access } from "@slipway/domain/access/Access"
import { AccessStore } from "@slipway/domain/access/AccessStore"
import { Hints } from "@slipway/domain/Hints"
import { Ids } from "@slipway/domain/Ids"
import { PartnerStore } from "@slipway/domain/partner/PartnerStore"
import { CLAIM_TIME, WebhookStore } from "@slipway/domain/partner/WebhookStore"
import { suite, WebhookFixture } from "@slipway/domain/testing/WebhookStoreContract"
import { Duration, Layer } from "effect"
import { TestClock } from "effect/testing"

suite(
  "memory",
  Layer.merge(
    WebhookStore.layerMemory,
    Layer.succeed(WebhookFixture, WebhookFixture.of({ expireClaims: TestClock.adjust(Duration.toMillis(CLAIM_TIME)) }))
  ).pipe(
    Layer.provideMerge(PartnerStore.layerMemory),
    Layer.provideMerge(Access.layer),
    Layer.provideMerge(AccessStore.layerMemory),
    Layer.provideMerge(Layer.mergeAll(Hints.layerMemory, Ids.layerMemory))
  )
)
