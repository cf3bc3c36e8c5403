import { DateTime, Effect, Layer } from "effect"
import * as IdsNode from "@slipway/adapters/node/IdsNode"
import * as AccessStorePostgres from "@slipway/adapters/postgres/AccessStorePostgres"
import * as Migrations from "@slipway/adapters/postgres/Migrations"
import * as SandboxStorePostgres from "@slipway/adapters/postgres/SandboxStorePostgres"
import * as SpendingPostgres from "@slipway/adapters/postgres/SpendingPostgres"
import * as TestPostgres from "@slipway/adapters/testing/TestPostgres"
import { Access } from "@slipway/domain/access/Access"
import { Hints } from "@slipway/domain/Hints"
import { Ids } from "@slipway/domain/Ids"
import { Budgets } from "@slipway/domain/sandbox/Budget"
import { offlineDemo } from "@slipway/domain/sandbox/ModelCatalogue"
import { ID_ALPHABET, SandboxId } from "@slipway/domain/sandbox/SandboxId"
import { SandboxStore } from "@slipway/domain/sandbox/SandboxStore"
import { LIMITS, limited, SpendingFixture, suite } from "@slipway/domain/testing/SpendingContract"

const Fixture = Layer.effect(
  SpendingFixture,
  Effect.gen(function*() {
    const access = yield* Access
    const ids = yield* Ids
    const store = yield* SandboxStore
    return SpendingFixture.of({
      grant: Effect.orDie(Effect.flatMap(ids.uuid7, (name) => Effect.map(access.createGrant(name), ({ grant }) => grant.id))),
      sandbox: Effect.fnUntraced(function*(grantId) {
        const id = SandboxId.make(`c_${yield* ids.random(ID_ALPHABET, 12)}`)
        yield* store.create({
          id, grantId, createdBy: "user_1", title: "t", repos: [{ fullName: "acme/shop" }], prompt: "p", model: offlineDemo.id,
          agentRuntime: offlineDemo.agentRuntime, reasoningEffort: null, toolApprovalMode: "auto", metadata: {},
          createdAt: yield* DateTime.now
        }, null)
        return id
      }, Effect.orDie)
    })
  })
)

const layer = Layer.mergeAll(SpendingPostgres.layer, Fixture).pipe(
  Layer.provideMerge(Access.layer),
  Layer.provideMerge(Layer.mergeAll(AccessStorePostgres.layer, SandboxStorePostgres.layer)),
  Layer.provideMerge(Layer.mergeAll(Hints.layerMemory, IdsNode.layer)),
  Layer.provide(TestPostgres.layer(Migrations.layer))
)

suite("postgres", layer)
limited("postgres", layer.pipe(Layer.provide(Layer.succeed(Budgets, LIMITS))))
