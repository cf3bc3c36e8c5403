import { AccessStore } from "@slipway/domain/access/ports/AccessStore"
import { Ids } from "@slipway/domain/ids/Ids"
import { ID_ALPHABET, SandboxId } from "@slipway/domain/ids/SandboxId"
import * as HintsMemory from "@slipway/domain/memory/store/HintsMemory"
import { Budgets } from "@slipway/domain/models/rules/Budget"
import { CreditPrice } from "@slipway/domain/models/rules/Credits"
import { offlineDemo } from "@slipway/domain/models/schema/ModelCatalogue"
import { SandboxStore } from "@slipway/domain/sandbox/ports/SandboxStore"
import * as IdsNode from "@slipway/machine/node/IdsNode"
import { CREDIT_PRICE, credited, LIMITS, limited, SpendingFixture, suite } from "@slipway/testing/contracts/models/SpendingContract"
import { register } from "@slipway/testing/runners/Vitest"
import { DateTime, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import * as AccessStorePostgres from "../src/access-store/AccessStorePostgres.ts"
import * as PartnerStorePostgres from "../src/partner-store/PartnerStorePostgres.ts"
import * as SandboxStorePostgres from "../src/sandbox-store/SandboxStorePostgres.ts"
import * as SpendingPostgres from "../src/spending/SpendingPostgres.ts"
import { database } from "./Stores.ts"

const Fixture = Layer.effect(
  SpendingFixture,
  Effect.gen(function*() {
    const access = yield* AccessStore
    const ids = yield* Ids
    const sql = yield* SqlClient.SqlClient
    const store = yield* SandboxStore
    return SpendingFixture.of({
      organization: Effect.orDie(Effect.tap(ids.uuid7, (id) => sql`INSERT INTO organizations (id, name) VALUES (${id}::uuid, ${id})`)),
      grant: Effect.fnUntraced(function*(organizationId) {
        const id = yield* ids.uuid7
        yield* access.createGrant({ id, name: id, organizationId, createdAt: yield* DateTime.now })
        return id
      }, Effect.orDie),
      sandbox: Effect.fnUntraced(function*(grantId) {
        const id = SandboxId.make(`c_${yield* ids.random(ID_ALPHABET, 12)}`)
        yield* store.create({
          creation: {
            id,
            grantId,
            createdBy: "user_1",
            title: "t",
            repos: [{ fullName: "acme/shop" }],
            prompt: "p",
            model: offlineDemo.id,
            agentRuntime: offlineDemo.agentRuntime,
            reasoningEffort: null,
            toolApprovalMode: "auto",
            metadata: {},
            origin: null,
            continues: null,
            createdAt: yield* DateTime.now
          },
          keyed: null
        })
        return id
      }, Effect.orDie)
    })
  })
)

const layer = Layer.mergeAll(SpendingPostgres.layer, Fixture).pipe(
  Layer.provideMerge(Layer.mergeAll(AccessStorePostgres.layer, PartnerStorePostgres.layer, SandboxStorePostgres.layer)),
  Layer.provideMerge(Layer.mergeAll(HintsMemory.layer, IdsNode.layer)),
  Layer.provideMerge(database())
)

register(suite("postgres", layer))
register(limited("postgres", layer.pipe(Layer.provide(Layer.succeed(Budgets, LIMITS)))))
register(
  credited("postgres", layer.pipe(Layer.provide(Layer.mergeAll(Layer.succeed(Budgets, LIMITS), Layer.succeed(CreditPrice, CREDIT_PRICE)))))
)
