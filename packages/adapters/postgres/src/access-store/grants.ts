/** Making and revoking grants and keys. Each change is one transaction with its entry in the audit log. */
import {
  branchesSet,
  type Grant,
  GrantNotFound,
  KeyNotFound,
  type KeyRecord,
  minted,
  retentionSet
} from "@slipway/domain/access/ports/AccessStore"
import { MintRefused } from "@slipway/domain/access/rules/Minting"
import { type BranchRule, DEFAULT_BRANCH_RULES } from "@slipway/domain/source/schema/BranchRules"
import { type DateTime, Effect, Option } from "effect"
import type { SqlClient } from "effect/sql"
import { guard } from "../sql/SqlFailure.ts"
import { inTransaction } from "../sql/Transaction.ts"
import type { Store } from "./admit.ts"
import * as Grants from "./statements/grants.ts"
import * as Keys from "./statements/keys.ts"

/** `AccessStore.createGrant`: the grant in use that has the name, created if it is missing. */
export const makeCreateGrant = (sql: SqlClient.SqlClient) => {
  const grantNamed = Grants.grantNamed(sql)
  return Effect.fn("AccessStore.createGrant")(function*(asked: Pick<Grant, "createdAt" | "id" | "name" | "organizationId">) {
    for (;;) {
      const made = yield* Grants.insertGrant(sql, asked)
      const grant = yield* grantNamed(asked.name)
      // Revoked between the two statements: the name is free again.
      if (Option.isSome(grant)) return { grant: grant.value, made: made.length > 0 }
    }
  }, guard)
}

/** With the secrets, trusted refs and MCP servers of the grant. */
export const revokeGrant = Effect.fn("AccessStore.revokeGrant")(
  function*({ audit, sql }: Store, idOrName: string, at: DateTime.Utc) {
    const found = yield* Grants.updateRevoked(sql, idOrName, at)
    if (Option.isNone(found)) return yield* new GrantNotFound({ grant: idOrName })
    const { changed, ...grant } = found.value
    if (changed) {
      yield* Grants.deleteSecrets(sql, grant)
      yield* Grants.deleteTrustedRefs(sql, grant)
      yield* Grants.deleteMcpServers(sql, grant)
      yield* audit.append([{ action: "grant.revoked", at, subjects: { grantId: grant.id } }])
    }
    return grant
  },
  inTransaction
)

/** `AccessStore.setRetention`. */
export const setRetention = Effect.fn("AccessStore.setRetention")(
  function*({ audit, sql }: Store, idOrName: string, days: number | null, at: DateTime.Utc) {
    const found = yield* Grants.updateRetention(sql, idOrName, days)
    if (Option.isNone(found)) return yield* new GrantNotFound({ grant: idOrName })
    yield* audit.append([retentionSet(found.value, at)])
    return found.value
  },
  inTransaction
)

/** No row: the grant is unknown or revoked. */
export const rulesOf = (row: Grants.BranchRulesRow | undefined): ReadonlyArray<BranchRule> =>
  row === undefined ? [] : row.branchRules ?? DEFAULT_BRANCH_RULES

export const setBranchRules = Effect.fn("AccessStore.setBranchRules")(
  function*({ audit, sql }: Store, idOrName: string, rules: ReadonlyArray<BranchRule>, at: DateTime.Utc) {
    const [found] = yield* Grants.updateBranchRules(sql, idOrName, rules)
    if (found === undefined) return yield* new GrantNotFound({ grant: idOrName })
    if (JSON.stringify(rulesOf({ branchRules: found.before })) !== JSON.stringify(rules)) {
      yield* audit.append([branchesSet(found.id, rules, at)])
    }
    const grant = (yield* Grants.selectGrants(sql)).find(({ id }) => id === found.id)
    return grant ?? (yield* new GrantNotFound({ grant: idOrName }))
  },
  inTransaction
)

export const createKey = Effect.fn("AccessStore.createKey")(
  function*({ audit, sql }: Store, key: Omit<KeyRecord, "lastUsedAt" | "revokedAt">, digest: string, most: number) {
    yield* Keys.lockUser(sql, key)
    const [found] = yield* Keys.selectFull(sql, key, most)
    if (found?.full === true) return yield* new MintRefused({ because: "too_many_keys" })
    yield* Keys.insertKey(sql, key, digest)
    yield* audit.append([minted(key)])
    return { ...key, lastUsedAt: null, revokedAt: null }
  },
  inTransaction
)

export const revokeKey = Effect.fn("AccessStore.revokeKey")(
  function*({ audit, sql }: Store, id: string, at: DateTime.Utc) {
    const found = yield* Keys.updateRevoked(sql, id, at)
    if (Option.isNone(found)) return yield* new KeyNotFound({ key: id })
    const { changed, ...key } = found.value
    if (changed) yield* audit.append([{ action: "key.revoked", at, subjects: { keyId: id, grantId: key.grantId } }])
    return key
  },
  inTransaction
)
