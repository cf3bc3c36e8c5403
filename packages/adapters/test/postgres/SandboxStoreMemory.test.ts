/** The memory layer of the domain needs real ids, so its suite runs here. */
import { Effect, Layer } from "effect"
import { TestClock } from "effect/testing"
import * as IdsNode from "@slipway/adapters/node/IdsNode"
import { Hints } from "@slipway/domain/Hints"
import { Ids } from "@slipway/domain/Ids"
import { LEASE_SECONDS, SandboxStore } from "@slipway/domain/sandbox/SandboxStore"
import { StoreFixture, suite } from "@slipway/domain/testing/SandboxStoreContract"

const Fixture = Layer.effect(
  StoreFixture,
  Effect.map(Ids, (ids) =>
    StoreFixture.of({ grant: ids.uuid7, expireLease: () => TestClock.adjust(`${LEASE_SECONDS} seconds`) }))
)

suite(
  "memory",
  Layer.mergeAll(SandboxStore.layerMemory, Fixture).pipe(Layer.provideMerge(Layer.mergeAll(Hints.layerMemory, IdsNode.layer)))
)
