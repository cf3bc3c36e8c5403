import { Duration, Effect, Layer } from "effect"
import { TestClock } from "effect/testing"
import { Hints } from "@slipway/domain/Hints"
import { Ids } from "@slipway/domain/Ids"
import { MaxActiveSandboxes } from "@slipway/domain/sandbox/ActiveSandboxes"
import { RETENTION_DAYS } from "@slipway/domain/sandbox/Idempotency"
import { LEASE_SECONDS, SandboxStore } from "@slipway/domain/sandbox/SandboxStore"
import { limited, MAX_ACTIVE, StoreFixture, suite } from "@slipway/domain/testing/SandboxStoreContract"

const KEPT = Duration.days(RETENTION_DAYS)

const Fixture = Layer.effect(
  StoreFixture,
  Effect.map(Ids, (ids) =>
    StoreFixture.of({
      grant: ids.uuid7,
      expireLease: () => TestClock.adjust(`${LEASE_SECONDS} seconds`),
      ageKeys: (_grantId, until) => TestClock.adjust(until === "before" ? Duration.subtract(KEPT, Duration.minutes(1)) : "2 minutes")
    }))
)

const layer = Layer.mergeAll(SandboxStore.layerMemory, Fixture).pipe(Layer.provideMerge(Layer.mergeAll(Hints.layerMemory, Ids.layerMemory)))

suite("memory", layer)
limited("memory", layer.pipe(Layer.provide(Layer.succeed(MaxActiveSandboxes, MAX_ACTIVE))))
