/** The laws of the domain, held against Postgres. */
import { Access } from "@slipway/domain/access/usecases/Access"
import { Ids } from "@slipway/domain/ids/Ids"
import * as IdsNode from "@slipway/machine/node/IdsNode"
import { PartnerFixture } from "@slipway/testing/contracts/partner/PartnerStoreContract"
import { StoreFixture } from "@slipway/testing/contracts/sandbox/SandboxStates"
import { checkFeed, checkStore } from "@slipway/testing/laws/Laws"
import { register } from "@slipway/testing/runners/Vitest"
import { Effect, Layer } from "effect"
import * as AccessStorePostgres from "../src/access-store/AccessStorePostgres.ts"
import * as HintsPostgres from "../src/HintsPostgres.ts"
import * as PartnerStorePostgres from "../src/partner-store/PartnerStorePostgres.ts"
import * as SandboxStorePostgres from "../src/sandbox-store/SandboxStorePostgres.ts"
import { database } from "./Stores.ts"

const grant = Effect.gen(function*() {
  const access = yield* Access
  const ids = yield* Ids
  return Effect.orDie(Effect.flatMap(ids.uuid7, (name) => Effect.map(access.createGrant(name), ({ grant }) => grant.id)))
})

const Fixtures = Layer.unwrap(
  Effect.map(grant, (grant) => Layer.merge(Layer.mock(StoreFixture)({ grant }), Layer.mock(PartnerFixture)({ grant })))
)

const layer = Fixtures.pipe(
  Layer.provideMerge(Layer.merge(SandboxStorePostgres.layer, PartnerStorePostgres.layer)),
  Layer.provideMerge(Access.layer),
  Layer.provideMerge(AccessStorePostgres.layer),
  Layer.provideMerge(Layer.mergeAll(HintsPostgres.layer, IdsNode.layer)),
  Layer.provideMerge(database())
)

register(checkStore("postgres", layer, 12))
register(checkFeed("postgres", layer, 12))
