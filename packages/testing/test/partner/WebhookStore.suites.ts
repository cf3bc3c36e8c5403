import { Access } from "@slipway/domain/access/usecases/Access"
import * as AccessStoreMemory from "@slipway/domain/memory/access/AccessStoreMemory"
import * as IdsMemory from "@slipway/domain/memory/ids/IdsMemory"
import * as PartnerStoreMemory from "@slipway/domain/memory/partner/PartnerStoreMemory"
import * as WebhookStoreMemory from "@slipway/domain/memory/partner/WebhookStoreMemory"
import * as SandboxStoreMemory from "@slipway/domain/memory/sandbox/SandboxStoreMemory"
import * as HintsMemory from "@slipway/domain/memory/store/HintsMemory"
import { TAKEN_TIME } from "@slipway/domain/partner/ports/WebhookStore"
import { suite, WebhookFixture } from "@slipway/testing/contracts/partner/WebhookStoreContract"
import * as Duration from "effect/Duration"
import * as Layer from "effect/Layer"
import { TestClock } from "effect/testing"

export const suites = () => [suite(
  "memory",
  Layer.mergeAll(
    WebhookStoreMemory.layer,
    SandboxStoreMemory.layer,
    Layer.succeed(WebhookFixture, WebhookFixture.of({ expireTaken: TestClock.adjust(Duration.toMillis(TAKEN_TIME)) }))
  ).pipe(
    Layer.provideMerge(PartnerStoreMemory.layer),
    Layer.provideMerge(Access.layer),
    Layer.provideMerge(AccessStoreMemory.layer),
    Layer.provideMerge(Layer.mergeAll(HintsMemory.layer, IdsMemory.layer))
  )
)]
