/** Rows of spending, and what the domain makes of them. */
import type { GrantSpending } from "@slipway/domain/models/ports/Spending"
import { type Limits, noAccount, withOwn } from "@slipway/domain/models/rules/Budget"
import { Schema } from "effect"
import { Int8 } from "../../sql/Int8.ts"

const AccountColumns = { spent: Int8, reserved: Int8, wanted: Int8 }
const GrantRow = Schema.Struct({ ...AccountColumns, own: Schema.Boolean, budget: Schema.NullOr(Int8) })
export type GrantRow = typeof GrantRow.Type
const SandboxRow = Schema.Struct({ ...AccountColumns, grantId: Schema.String, calls: Int8, micros: Int8 })
const TokensRow = Schema.Struct({ input: Int8, cachedInput: Int8, output: Int8 })
const PurseRow = Schema.Struct({ ...AccountColumns, organizationId: Schema.String, credits: Int8 })
/** The credits of an organization, and its account of them. */
export type PurseRow = typeof PurseRow.Type
const CallRow = Schema.Struct({ reserved: Int8, micros: Int8, state: Schema.Literals(["open", "released", "charged"]) })

const decode = <S extends Schema.Codec<unknown, unknown>>(schema: S) => Schema.decodeUnknownSync(schema, { disableChecks: true })
export const decodeGrant = decode(GrantRow)
export const decodeSandbox = decode(SandboxRow)
export const decodeTokens = decode(TokensRow)
export const decodeCall = decode(CallRow)
export const decodePurse = decode(PurseRow)

/** Columns of a grant's account, of the table as `g`. */
export const GRANT_COLUMNS = "g.spent, g.reserved, g.wanted, g.own, g.budget"

/** Columns of a purse, of the grant as `o`, its account as `p` and its credits as `b`. */
export const PURSE_COLUMNS = `
      o.organization_id AS "organizationId", coalesce(p.spent, 0) AS spent, coalesce(p.reserved, 0) AS reserved,
      coalesce(p.wanted, 0) AS wanted, coalesce(b.credits, 0) AS credits`

/** A grant that has spent nothing and has no budget of its own. */
export const noGrant: GrantRow = { ...noAccount, own: false, budget: null }

/** The limits of a grant: its own budget, or the configured one. `ofSandbox`: the own budget of a sandbox. */
export const limitsOf = ({ budget, own }: GrantRow, configured: Limits, ofSandbox: number | null | undefined = null): Limits =>
  withOwn({ sandbox: configured.sandbox, grant: own ? budget : configured.grant }, ofSandbox)

export const spendingOf = (row: GrantRow, configured: Limits): GrantSpending => ({
  spent: row.spent,
  reserved: row.reserved,
  budget: limitsOf(row, configured).grant,
  own: row.own
})
