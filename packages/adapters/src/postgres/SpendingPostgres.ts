/** `Spending` on Postgres. The grant's row is locked first, then the sandbox's, so that no two calls wait for each other. */
import { Effect, Layer, Schema } from "effect"
import { SqlClient } from "effect/sql"
import {
  type Account,
  type Accounts,
  afterCharging,
  afterReserving,
  BudgetExceeded,
  Budgets,
  isExhausted,
  type Limits,
  noAccount,
  refusalOf
} from "@slipway/domain/sandbox/Budget"
import { type GrantSpending, type ModelCall, Spending } from "@slipway/domain/sandbox/Spending"
import { noUsage } from "@slipway/domain/sandbox/Usage"
import { saturatingAdd } from "@slipway/domain/Text"
import { Reads } from "./Database.ts"
import { Int8 } from "./Int8.ts"
import { guard } from "./SqlFailure.ts"

const AccountColumns = { spent: Int8, reserved: Int8, wanted: Int8 }
const GrantRow = Schema.Struct({ ...AccountColumns, own: Schema.Boolean, budget: Schema.NullOr(Int8) })
type GrantRow = typeof GrantRow.Type
const SandboxRow = Schema.Struct({ ...AccountColumns, grantId: Schema.String, calls: Int8 })
const CallRow = Schema.Struct({ reserved: Int8, state: Schema.Literals(["open", "released", "charged"]) })

const decode = <S extends Schema.Codec<unknown, unknown>>(schema: S) => Schema.decodeUnknownSync(schema, { disableChecks: true })
const decodeGrant = decode(GrantRow)
const decodeSandbox = decode(SandboxRow)
const decodeCall = decode(CallRow)

const noGrant: GrantRow = { ...noAccount, own: false, budget: null }

/** Of a grant, for the domain. */
const limitsOf = ({ budget, own }: GrantRow, configured: Limits): Limits => ({
  sandbox: configured.sandbox,
  grant: own ? budget : configured.grant
})

export const layer = Layer.effect(
  Spending,
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const reads = (yield* Reads) ?? sql
    const configured = yield* Budgets

    const transaction = <A, E, R>(self: Effect.Effect<A, E, R>) => guard(sql.withTransaction(self))

    const grantColumns = sql.literal("g.spent, g.reserved, g.wanted, g.own, g.budget")

    const standing = (row: GrantRow): GrantSpending => ({
      spent: row.spent,
      reserved: row.reserved,
      budget: limitsOf(row, configured).grant,
      own: row.own
    })

    /** Both accounts and the call, locked; made when they are missing. */
    const lock = Effect.fnUntraced(function*({ grantId, id, sandboxId }: ModelCall) {
      for (;;) {
        const [grant] = yield* sql`SELECT ${grantColumns} FROM grant_spending g WHERE grant_id = ${grantId} FOR UPDATE`
        const [found] = grant === undefined ? [] : yield* sql`
          SELECT s.grant_id AS "grantId", s.calls, s.spent, s.reserved, s.wanted, c.reserved AS "callReserved", c.state
          FROM sandbox_spending s LEFT JOIN model_calls c ON c.id = ${id}
          WHERE s.sandbox_id = ${sandboxId} FOR UPDATE OF s`
        if (grant !== undefined && found !== undefined) {
          const call = found["state"] === null ? null : decodeCall({ reserved: found["callReserved"], state: found["state"] })
          return { grant: decodeGrant(grant), sandbox: decodeSandbox(found), call }
        }
        yield* sql`INSERT INTO grant_spending (grant_id) VALUES (${grantId}) ON CONFLICT DO NOTHING`
        yield* sql`INSERT INTO sandbox_spending (sandbox_id, grant_id) VALUES (${sandboxId}, ${grantId}) ON CONFLICT DO NOTHING`
      }
    })

    const save = ({ grantId, sandboxId }: Pick<ModelCall, "grantId" | "sandboxId">, { grant, sandbox }: Accounts, calls: number) => sql`
      WITH g AS (
        UPDATE grant_spending SET spent = ${grant.spent}, reserved = ${grant.reserved}, wanted = ${grant.wanted}
        WHERE grant_id = ${grantId}
      )
      UPDATE sandbox_spending SET spent = ${sandbox.spent}, reserved = ${sandbox.reserved}, wanted = ${sandbox.wanted}, calls = ${calls}
      WHERE sandbox_id = ${sandboxId}`

    return Spending.of({
      reserve: Effect.fn("Spending.reserve")(function*(call, microUsd) {
        const refusal = yield* transaction(Effect.gen(function*() {
          const locked = yield* lock(call)
          if (locked.call !== null) return null
          const refusal = refusalOf(locked, limitsOf(locked.grant, configured), microUsd)
          yield* save(call, afterReserving(locked, refusal, microUsd), locked.sandbox.calls)
          if (refusal === null) {
            yield* sql`
              INSERT INTO model_calls (id, sandbox_id, reserved, state) VALUES (${call.id}, ${call.sandboxId}, ${microUsd}, 'open')`
          }
          return refusal
        }))
        if (refusal !== null) return yield* refusal
      }),

      charge: Effect.fn("Spending.charge")((call, microUsd) =>
        transaction(Effect.gen(function*() {
          const { call: known, grant, sandbox } = yield* lock(call)
          if (known?.state === "charged") return
          const reserved = known?.state === "open" ? known.reserved : 0
          const after = (account: Account) => afterCharging(account, reserved, microUsd ?? 0)
          yield* save(call, { grant: after(grant), sandbox: after(sandbox) }, saturatingAdd(sandbox.calls, microUsd === null ? 0 : 1))
          yield* sql`
            INSERT INTO model_calls (id, sandbox_id, reserved, state) VALUES (${call.id}, ${call.sandboxId}, 0, 'charged')
            ON CONFLICT (id) DO UPDATE SET reserved = 0, state = 'charged'`
          yield* sql`
            DELETE FROM model_calls
            WHERE sandbox_id = ${call.sandboxId} AND state <> 'open' AND at < now() - interval '1 day'`
        }))
      ),

      release: Effect.fn("Spending.release")((sandboxId) =>
        transaction(Effect.gen(function*() {
          const [row] = yield* sql`SELECT grant_id AS "grantId", calls, spent, reserved, wanted FROM sandbox_spending WHERE sandbox_id = ${sandboxId}`
          if (row === undefined) return noUsage
          const { grantId } = decodeSandbox(row)
          const [grant] = yield* sql`SELECT ${grantColumns} FROM grant_spending g WHERE grant_id = ${grantId} FOR UPDATE`
          const [locked] = yield* sql`
            SELECT grant_id AS "grantId", calls, spent, reserved, wanted FROM sandbox_spending WHERE sandbox_id = ${sandboxId} FOR UPDATE`
          const sandbox = decodeSandbox(locked)
          if (sandbox.reserved > 0) {
            const after = (account: Account) => afterCharging(account, sandbox.reserved, 0)
            yield* save({ grantId, sandboxId }, { grant: after(decodeGrant(grant)), sandbox: after(sandbox) }, sandbox.calls)
            yield* sql`UPDATE model_calls SET state = 'released', reserved = 0 WHERE sandbox_id = ${sandboxId} AND state = 'open'`
          }
          return { ...noUsage, llmRequestCount: sandbox.calls, costMicroUsd: sandbox.spent }
        }))
      ),

      refusal: Effect.fn("Spending.refusal")(function*({ grantId, sandboxId }) {
        const [row] = yield* reads`
          SELECT ${grantColumns}, s.spent AS "sandboxSpent", s.wanted AS "sandboxWanted"
          FROM grants LEFT JOIN grant_spending g ON g.grant_id = grants.id
          LEFT JOIN sandbox_spending s ON s.sandbox_id = ${sandboxId}::text AND s.grant_id = grants.id
          WHERE grants.id = ${grantId}`
        const grant = row === undefined || row["own"] === null ? noGrant : decodeGrant(row)
        const limits = limitsOf(grant, configured)
        const of = isExhausted(grant, limits.grant) ? "grant" as const
          : sandboxId !== null && isExhausted(
              { spent: Number(row?.["sandboxSpent"] ?? 0), reserved: 0, wanted: Number(row?.["sandboxWanted"] ?? 0) },
              limits.sandbox
            ) ? "sandbox" as const
          : null
        return of === null ? null : new BudgetExceeded({ of, held: false })
      }, guard),

      setBudget: Effect.fn("Spending.setBudget")(function*(grantId, budget) {
        const own = budget !== "default"
        const [row] = yield* sql`
          INSERT INTO grant_spending AS g (grant_id, own, budget) VALUES (${grantId}, ${own}, ${own ? budget : null})
          ON CONFLICT (grant_id) DO UPDATE SET own = excluded.own, budget = excluded.budget
          RETURNING ${grantColumns}`
        return standing(decodeGrant(row))
      }, guard),

      of: Effect.fn("Spending.of")(function*(grantId) {
        const [row] = yield* reads`SELECT ${grantColumns} FROM grant_spending g WHERE grant_id = ${grantId}`
        return standing(row === undefined ? noGrant : decodeGrant(row))
      }, guard)
    })
  })
)
