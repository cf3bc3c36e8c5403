import { Access } from "@slipway/domain/access/usecases/Access"
import * as AccessStoreMemory from "@slipway/domain/memory/access/AccessStoreMemory"
import * as IdsMemory from "@slipway/domain/memory/ids/IdsMemory"
import * as PartnerStoreMemory from "@slipway/domain/memory/partner/PartnerStoreMemory"
import * as WebhookStoreMemory from "@slipway/domain/memory/partner/WebhookStoreMemory"
import * as SandboxStoreMemory from "@slipway/domain/memory/sandbox/SandboxStoreMemory"
import * as HintsMemory from "@slipway/domain/memory/store/HintsMemory"
import { TAKEN_TIME } from "@slipway/domain/partner/ports/WebhookStore"
import { suite, WebhookFixture } from "@slipway/testing/contracts/partner/WebhookStoreContract"
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { TestClock } from "effect/testing"

export const suites = () => [suite(
  "memory",
  Layer.mergeAll(
    WebhookStoreMemory.layer,
    SandboxStoreMemory.layer,
    Layer.effect(
      WebhookFixture,
      Effect.as(
        TestClock.setTime(Date.parse("2027-06-01T00:00:00.000Z")),
        WebhookFixture.of({ expireTaken: TestClock.adjust(Duration.toMillis(TAKEN_TIME)), now: DateTime.now })
      )
    )
  ).pipe(
    Layer.provideMerge(PartnerStoreMemory.layer),
    Layer.provideMerge(Access.layer),
    Layer.provideMerge(AccessStoreMemory.layer),
    Layer.provideMerge(Layer.mergeAll(HintsMemory.layer, IdsMemory.layer))
  )
)]
