/**
 * `Spending` on Postgres. The organization's row is locked first, then the grant's, then the sandbox's, so that no two calls
 * wait for each other.
 */
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { type GrantSpending, type ModelCall, Spending } from "@slipway/domain/models/ports/Spending"
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
} from "@slipway/domain/models/rules/Budget"
import { afterReservingCredits, CreditPrice, creditMicrosOf, creditRefusal, outOfCredits } from "@slipway/domain/models/rules/Credits"
import { noTokenCounts, nothingSpent, type TokenCounts } from "@slipway/domain/models/rules/Usage"
import { saturatingAdd } from "@slipway/domain/text/Counters"
import { DateTime, Effect, Layer, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { Reads } from "../Database.ts"
import * as Batches from "../sql/Batches.ts"
import { Int8 } from "../sql/Int8.ts"
import { guard } from "../sql/SqlFailure.ts"
import { textArray } from "../sql/TextArray.ts"

/** Grants that one statement looks at, and statements at once. */
const AT_ONCE = { most: 32, underWay: 2 }

const AccountColumns = { spent: Int8, reserved: Int8, wanted: Int8 }
const GrantRow = Schema.Struct({ ...AccountColumns, own: Schema.Boolean, budget: Schema.NullOr(Int8) })
type GrantRow = typeof GrantRow.Type
const SandboxRow = Schema.Struct({ ...AccountColumns, grantId: Schema.String, calls: Int8, micros: Int8 })
const TokensRow = Schema.Struct({ input: Int8, cachedInput: Int8, output: Int8 })
const PurseRow = Schema.Struct({ ...AccountColumns, organizationId: Schema.String, credits: Int8 })
type PurseRow = typeof PurseRow.Type
const CallRow = Schema.Struct({ reserved: Int8, micros: Int8, state: Schema.Literals(["open", "released", "charged"]) })

const decode = <S extends Schema.Codec<unknown, unknown>>(schema: S) => Schema.decodeUnknownSync(schema, { disableChecks: true })
const decodeGrant = decode(GrantRow)
const decodeSandbox = decode(SandboxRow)
const decodeTokens = decode(TokensRow)
const decodeCall = decode(CallRow)
const decodePurse = decode(PurseRow)

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
    const price = yield* CreditPrice

    const transaction = <A, E, R>(self: Effect.Effect<A, E, R>) => guard(sql.withTransaction(self))

    const grantColumns = sql.literal("g.spent, g.reserved, g.wanted, g.own, g.budget")

    const standing = (row: GrantRow): GrantSpending => ({
      spent: row.spent,
      reserved: row.reserved,
      budget: limitsOf(row, configured).grant,
      own: row.own
    })

    const purseColumns = sql.literal(`
      o.organization_id AS "organizationId", coalesce(p.spent, 0) AS spent, coalesce(p.reserved, 0) AS reserved,
      coalesce(p.wanted, 0) AS wanted, coalesce(b.credits, 0) AS credits`)

    /** The account of the grant's organization, and its credits, locked; made when it is missing. `null`: they are not enforced. */
    const lockPurse = Effect.fnUntraced(function*(grantId: string) {
      if (price === null) return null
      for (;;) {
        const [row] = yield* sql`
          SELECT ${purseColumns} FROM grants o JOIN credit_spending p ON p.organization_id = o.organization_id
          LEFT JOIN credit_balances b ON b.organization_id = o.organization_id
          WHERE o.id = ${grantId} FOR UPDATE OF p`
        if (row !== undefined) return decodePurse(row)
        yield* sql`
          INSERT INTO credit_spending (organization_id) VALUES ((SELECT organization_id FROM grants WHERE id = ${grantId}))
          ON CONFLICT DO NOTHING`
      }
    })

    const savePurse = ({ organizationId }: PurseRow, { reserved, spent, wanted }: Account) =>
      sql`
      UPDATE credit_spending SET spent = ${spent}, reserved = ${reserved}, wanted = ${wanted} WHERE organization_id = ${organizationId}`

    /** Both accounts and the call, locked; made when they are missing. */
    const lock = Effect.fnUntraced(function*({ grantId, id, sandboxId }: ModelCall) {
      for (;;) {
        const [grant] = yield* sql`SELECT ${grantColumns} FROM grant_spending g WHERE grant_id = ${grantId} FOR UPDATE`
        const [found] = grant === undefined ? [] : yield* sql`
          SELECT s.grant_id AS "grantId", s.calls, s.spent, s.reserved, s.wanted, s.micros,
            c.reserved AS "callReserved", c.micros AS "callMicros", c.state
          FROM sandbox_spending s LEFT JOIN model_calls c ON c.id = ${id}
          WHERE s.sandbox_id = ${sandboxId} FOR UPDATE OF s`
        if (grant !== undefined && found !== undefined) {
          const call = found["state"] === null
            ? null
            : decodeCall({ reserved: found["callReserved"], micros: found["callMicros"], state: found["state"] })
          return { grant: decodeGrant(grant), sandbox: decodeSandbox(found), call }
        }
        yield* sql`INSERT INTO grant_spending (grant_id) VALUES (${grantId}) ON CONFLICT DO NOTHING`
        yield* sql`INSERT INTO sandbox_spending (sandbox_id, grant_id) VALUES (${sandboxId}, ${grantId}) ON CONFLICT DO NOTHING`
      }
    })

    const save = (
      { grantId, sandboxId }: Pick<ModelCall, "grantId" | "sandboxId">,
      { grant, sandbox }: Accounts,
      calls: number,
      { cachedInput, input, output }: TokenCounts = noTokenCounts
    ) =>
      sql`
      WITH g AS (
        UPDATE grant_spending SET spent = ${grant.spent}, reserved = ${grant.reserved}, wanted = ${grant.wanted}
        WHERE grant_id = ${grantId}
      )
      UPDATE sandbox_spending SET spent = ${sandbox.spent}, reserved = ${sandbox.reserved}, wanted = ${sandbox.wanted}, calls = ${calls},
        input_tokens = least(input_tokens + ${input}::bigint, ${Number.MAX_SAFE_INTEGER}::bigint),
        cached_input_tokens = least(cached_input_tokens + ${cachedInput}::bigint, ${Number.MAX_SAFE_INTEGER}::bigint),
        output_tokens = least(output_tokens + ${output}::bigint, ${Number.MAX_SAFE_INTEGER}::bigint)
      WHERE sandbox_id = ${sandboxId}`

    /** How a grant stands, and a sandbox of it; `null`: there is no such grant. */
    const stand = Batches.make({
      client: reads,
      run: (asked: ReadonlyArray<{ readonly grantId: string; readonly sandboxId: string | null }>) =>
        Effect.map(
          reads`
          SELECT k.n, ${grantColumns}, s.spent AS "sandboxSpent", s.wanted AS "sandboxWanted"
          FROM unnest(${textArray(asked.map(({ grantId }) => grantId))}::uuid[],
            ${textArray(asked.map(({ sandboxId }) => sandboxId ?? ""))}::text[]) WITH ORDINALITY AS k(grant_id, sandbox_id, n)
          JOIN grants ON grants.id = k.grant_id LEFT JOIN grant_spending g ON g.grant_id = grants.id
          LEFT JOIN sandbox_spending s ON s.sandbox_id = k.sandbox_id AND s.grant_id = grants.id`,
          (rows) => Batches.placed(asked, rows, (row) => row["n"])
        ),
      ...AT_ONCE
    })

    /** Takes what a call came to from the organization's credits, and gives back what was reserved for it. */
    const draw = Effect.fnUntraced(
      function*(purse: PurseRow, { id, sandboxId }: ModelCall, reserved: number, before: number, micros: number) {
        if (reserved > 0 || micros > 0) yield* savePurse(purse, afterCharging(purse, reserved, micros))
        if (micros === 0) return
        yield* sql`UPDATE sandbox_spending SET micros = ${saturatingAdd(before, micros)} WHERE sandbox_id = ${sandboxId}`
        yield* sql`
        INSERT INTO credit_charges (call_id, organization_id, sandbox_id, micros)
        VALUES (${id}, ${purse.organizationId}, ${sandboxId}, ${micros})`
      }
    )

    return Spending.of({
      creditMicros: (microUsd) => creditMicrosOf(microUsd, price),

      reserve: Effect.fn("Spending.reserve")(function*(call, microUsd) {
        const micros = creditMicrosOf(microUsd, price)
        const refusal = yield* transaction(Effect.gen(function*() {
          const purse = yield* lockPurse(call.grantId)
          const locked = yield* lock(call)
          if (locked.call !== null) return null
          const short = purse === null ? null : creditRefusal(purse, purse.credits, micros)
          const refusal = short ?? refusalOf(locked, limitsOf(locked.grant, configured), microUsd)
          if (purse !== null && refusal === short) yield* savePurse(purse, afterReservingCredits(purse, short, micros))
          if (refusal?._tag !== "NoCredits") yield* save(call, afterReserving(locked, refusal, microUsd), locked.sandbox.calls)
          if (refusal === null) {
            yield* sql`
              INSERT INTO model_calls (id, sandbox_id, reserved, micros, state)
              VALUES (${call.id}, ${call.sandboxId}, ${microUsd}, ${micros}, 'open')`
          }
          return refusal
        }))
        if (refusal !== null) return yield* refusal
      }),

      charge: Effect.fn("Spending.charge")((call, microUsd, tokens = noTokenCounts) =>
        transaction(Effect.gen(function*() {
          const purse = yield* lockPurse(call.grantId)
          const { call: known, grant, sandbox } = yield* lock(call)
          if (known?.state === "charged") return
          const reserved = known?.state === "open" ? known.reserved : 0
          const after = (account: Account) => afterCharging(account, reserved, microUsd ?? 0)
          const accounts = { grant: after(grant), sandbox: after(sandbox) }
          if (microUsd === null) yield* save(call, accounts, sandbox.calls)
          else yield* save(call, accounts, saturatingAdd(sandbox.calls, 1), tokens)
          if (purse !== null) yield* draw(purse, call, known?.micros ?? 0, sandbox.micros, creditMicrosOf(microUsd ?? 0, price))
          // What is reserved of credits that are not enforced here is given back by the next release.
          const left = purse === null ? known?.micros ?? 0 : 0
          yield* sql`
            INSERT INTO model_calls (id, sandbox_id, reserved, micros, state) VALUES (${call.id}, ${call.sandboxId}, 0, ${left}, 'charged')
            ON CONFLICT (id) DO UPDATE SET reserved = 0, micros = excluded.micros, state = 'charged'`
        }))
      ),

      release: Effect.fn("Spending.release")((sandboxId) =>
        transaction(Effect.gen(function*() {
          const columns = sql.literal(`
            grant_id AS "grantId", calls, spent, reserved, wanted, micros,
            input_tokens AS "input", cached_input_tokens AS "cachedInput", output_tokens AS "output"`)
          const [row] = yield* sql`SELECT ${columns} FROM sandbox_spending WHERE sandbox_id = ${sandboxId}`
          if (row === undefined) return nothingSpent
          const { grantId } = decodeSandbox(row)
          const purse = yield* lockPurse(grantId)
          const [grant] = yield* sql`SELECT ${grantColumns} FROM grant_spending g WHERE grant_id = ${grantId} FOR UPDATE`
          const [locked] = yield* sql`SELECT ${columns} FROM sandbox_spending WHERE sandbox_id = ${sandboxId} FOR UPDATE`
          const sandbox = decodeSandbox(locked)
          if (sandbox.reserved > 0) {
            const after = (account: Account) => afterCharging(account, sandbox.reserved, 0)
            yield* save({ grantId, sandboxId }, { grant: after(decodeGrant(grant)), sandbox: after(sandbox) }, sandbox.calls)
          }
          if (purse !== null) {
            const [held] = yield* sql<{ readonly micros: bigint }>`
              SELECT coalesce(sum(micros), 0)::bigint AS micros FROM model_calls WHERE sandbox_id = ${sandboxId} AND micros > 0`
            const micros = Number(held?.micros ?? 0)
            if (micros > 0) {
              yield* savePurse(purse, afterCharging(purse, micros, 0))
              yield* sql`UPDATE model_calls SET micros = 0 WHERE sandbox_id = ${sandboxId} AND micros > 0`
            }
          }
          yield* sql`UPDATE model_calls SET state = 'released', reserved = 0 WHERE sandbox_id = ${sandboxId} AND state = 'open'`
          return {
            usage: { llmRequestCount: sandbox.calls, costMicroUsd: sandbox.spent, creditsChargedMicros: sandbox.micros },
            tokens: decodeTokens(locked)
          }
        }))
      ),

      reservedFor: Effect.fn("Spending.reservedFor")(function*(after, limit) {
        const rows = yield* reads<{ readonly id: string }>`
          SELECT DISTINCT sandbox_id COLLATE "C" AS id FROM model_calls
          WHERE state = 'open' AND sandbox_id COLLATE "C" > ${after ?? ""} ORDER BY 1 LIMIT ${limit}`
        return rows.map(({ id }) => SandboxId.make(id))
      }, guard),

      prune: (before, limit) =>
        guard(Effect.map(
          sql`
            DELETE FROM model_calls WHERE id IN (
              SELECT id FROM model_calls WHERE state <> 'open' AND micros = 0 AND at < ${DateTime.formatIso(before)}::timestamptz
              ORDER BY at LIMIT ${limit} FOR UPDATE SKIP LOCKED
            ) RETURNING 1`,
          (rows) => rows.length
        )),

      refusal: Effect.fn("Spending.refusal")(function*({ grantId, sandboxId }) {
        if (price !== null) {
          const [row] = yield* reads`
            SELECT ${purseColumns} FROM grants o LEFT JOIN credit_spending p ON p.organization_id = o.organization_id
            LEFT JOIN credit_balances b ON b.organization_id = o.organization_id
            WHERE o.id = ${grantId}`
          const purse = row === undefined ? null : decodePurse(row)
          const short = purse === null ? null : outOfCredits(purse, purse.credits)
          if (short !== null) return short
        }
        const row = yield* stand({ grantId, sandboxId })
        const grant = row === null || row["own"] === null ? noGrant : decodeGrant(row)
        const limits = limitsOf(grant, configured)
        const of = isExhausted(grant, limits.grant) ?
          "grant" as const
          : sandboxId !== null && isExhausted(
              { spent: Number(row?.["sandboxSpent"] ?? 0), reserved: 0, wanted: Number(row?.["sandboxWanted"] ?? 0) },
              limits.sandbox
            ) ?
          "sandbox" as const
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
