/**
 * `Spending` on Postgres. The organization's row is locked first, then the grant's, then the sandbox's, so that no two calls
 * wait for each other.
 */
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { Spending } from "@slipway/domain/models/ports/Spending"
import { Budgets } from "@slipway/domain/models/rules/Budget"
import { CreditPrice, creditMicrosOf } from "@slipway/domain/models/rules/Credits"
import { noTokenCounts } from "@slipway/domain/models/rules/Usage"
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { Reads } from "../sql/Clients.ts"
import { guard } from "../sql/SqlFailure.ts"
import { charge, release, reserve } from "./charge.ts"
import * as Read from "./read.ts"
import { purgeCalls, selectReserved } from "./statements/calls.ts"
import type { Store } from "./Store.ts"

export const layer = Layer.effect(
  Spending,
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const reads = (yield* Reads) ?? sql
    const store: Store = { sql, reads, configured: yield* Budgets, price: yield* CreditPrice }
    return Spending.of({
      sandboxLimit: store.configured.sandbox,
      creditMicros: (microUsd) => creditMicrosOf(microUsd, store.price),
      reserve: (call, microUsd) => reserve(store, call, microUsd),
      charge: (call, microUsd, tokens = noTokenCounts) => charge(store, call, microUsd, tokens),
      release: (sandboxId) => release(store, sandboxId),
      reservedFor: Effect.fn("Spending.reservedFor")(function*(after, limit) {
        return (yield* selectReserved(reads, after, limit)).map(({ id }) => SandboxId.make(id))
      }, guard),
      prune: (before, limit) => guard(Effect.map(purgeCalls(sql, before, limit), (rows) => rows.length)),
      refusal: Read.makeRefusal(store),
      setBudget: (grantId, budget) => Read.setBudget(store, grantId, budget),
      of: (grantId) => Read.of(store, grantId)
    })
  })
)
