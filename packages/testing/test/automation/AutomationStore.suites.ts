import { CLAIM_TIME } from "@slipway/domain/automation/ports/AutomationStore"
import * as AutomationStoreMemory from "@slipway/domain/memory/automation/AutomationStoreMemory"
import { AutomationFixture, suite } from "@slipway/testing/contracts/automation/AutomationStoreContract"
import * as Duration from "effect/Duration"
import * as Layer from "effect/Layer"
import { TestClock } from "effect/testing"
import { layer } from "../sandbox/Stores.ts"

export const suites = () => [suite(
  "memory",
  Layer.merge(
    AutomationStoreMemory.layer,
    Layer.succeed(AutomationFixture, AutomationFixture.of({ expireClaims: TestClock.adjust(Duration.toMillis(CLAIM_TIME)) }))
  ).pipe(Layer.provideMerge(layer))
)]
