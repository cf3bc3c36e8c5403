/** `AccessStore` on Postgres. Authentication and the rate slot are one statement. */
import { AccessStore } from "@slipway/domain/access/ports/AccessStore"
import { AuditLog } from "@slipway/domain/access/ports/AuditLog"
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import * as MemberStorePostgres from "../member-store/MemberStorePostgres.ts"
import { Reads } from "../sql/Clients.ts"
import { guard } from "../sql/SqlFailure.ts"
import { makeAdmit, type Store } from "./admit.ts"
import { createKey, makeCreateGrant, revokeGrant, revokeKey, rulesOf, setBranchRules, setRetention } from "./grants.ts"
import { selectGood } from "./statements/admissions.ts"
import { selectAllBranchRules, selectBranchRules, selectGrants } from "./statements/grants.ts"
import { selectKeys } from "./statements/keys.ts"

/** With the `MemberStore` it goes by and the `AuditLog` it tells. */
export const layer = Layer.effect(
  AccessStore,
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const reads = (yield* Reads) ?? sql
    const store: Store = { sql, reads, audit: yield* AuditLog }

    return AccessStore.of({
      admit: makeAdmit(store),
      stillGood: (keyIds) => guard(Effect.map(selectGood(reads, keyIds), (rows) => new Set(rows.map(({ id }) => id)))),
      createGrant: makeCreateGrant(sql),
      listGrants: guard(selectGrants(sql)),
      revokeGrant: (idOrName, at) => revokeGrant(store, idOrName, at),
      setRetention: (idOrName, days, at) => setRetention(store, idOrName, days, at),
      branchRules: (grantId) => guard(Effect.map(selectBranchRules(reads, grantId), ([row]) => rulesOf(row))),
      allBranchRules: guard(Effect.map(selectAllBranchRules(reads), (rows) => [...new Set(rows.flatMap(rulesOf))])),
      setBranchRules: (idOrName, rules, at) => setBranchRules(store, idOrName, rules, at),
      createKey: (key, digest, most) => createKey(store, key, digest, most),
      listKeys: Effect.fn("AccessStore.listKeys")((grantId) => selectKeys(sql, grantId), guard),
      revokeKey: (id, at) => revokeKey(store, id, at)
    })
  })
).pipe(Layer.provideMerge(MemberStorePostgres.layer))
