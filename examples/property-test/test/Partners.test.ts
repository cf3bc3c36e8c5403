/** Partners are told of tasks and pull requests by whatever store keeps the sandboxes: the suite of the feed runs with ours. */
import { Access } from "@slipway/domain/access/usecases/Access"
import { Ids } from "@slipway/domain/ids/Ids"
import * as AccessStoreMemory from "@slipway/domain/memory/access/AccessStoreMemory"
import * as IdsMemory from "@slipway/domain/memory/ids/IdsMemory"
import * as PartnerStoreMemory from "@slipway/domain/memory/partner/PartnerStoreMemory"
import * as SandboxStoreMemory from "@slipway/domain/memory/sandbox/SandboxStoreMemory"
import * as HintsMemory from "@slipway/domain/memory/store/HintsMemory"
import { PartnerFixture, suite } from "@slipway/testing/contracts/partner/PartnerStoreContract"
import { register } from "@slipway/testing/runners/Vitest"
import { Effect, Layer } from "effect"
import * as CachedStore from "../src/CachedStore.ts"

const Fixture = Layer.effect(
  PartnerFixture,
  Effect.gen(function*() {
    const access = yield* Access
    const ids = yield* Ids
    return PartnerFixture.of({
      grant: Effect.orDie(Effect.flatMap(ids.uuid7, (name) => Effect.map(access.createGrant(name), ({ grant }) => grant.id))),
      linger: Effect.yieldNow,
      rolledBack: () => Effect.yieldNow,
      overlapping: (first, second) => Effect.asVoid(Effect.andThen(first, second))
    })
  })
)

register(suite(
  "beside the cached store",
  Layer.merge(CachedStore.layer.pipe(Layer.provide(SandboxStoreMemory.layer)), Fixture).pipe(
    Layer.provideMerge(PartnerStoreMemory.layer),
    Layer.provideMerge(Access.layer),
    Layer.provideMerge(AccessStoreMemory.layer),
    Layer.provideMerge(Layer.mergeAll(HintsMemory.layer, IdsMemory.layer))
  )
))
