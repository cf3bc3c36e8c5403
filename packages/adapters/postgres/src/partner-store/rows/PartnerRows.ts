/** Rows of the feed, of claims and of what is attributed to them. */
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import type { Claim } from "@slipway/domain/partner/rules/Attribution"
import { Invoice, Project } from "@slipway/domain/partner/schema/Attribution"
import { Schema } from "effect"
import { Instant } from "../../sql/Instant.ts"
import { Int8 } from "../../sql/Int8.ts"

export const FeedRow = Schema.Struct({
  id: Schema.String,
  sequence: Int8,
  type: Schema.String,
  data: Schema.Json,
  createdAt: Schema.DateTimeUtcFromDate
})

export const ClaimRow = Schema.Struct({
  claimId: Schema.String,
  grantId: Schema.String,
  leadId: Schema.String,
  variant: Schema.String,
  creditAmount: Int8,
  createdAt: Instant,
  recipientId: Schema.NullOr(Schema.String),
  organizationId: Schema.NullOr(Schema.String),
  claimedAt: Schema.NullOr(Instant)
})

export const toClaim = ({ claimedAt: at, createdAt, organizationId, recipientId, ...terms }: typeof ClaimRow.Type): Claim => ({
  terms,
  createdAt,
  claimed: at === null || organizationId === null || recipientId === null ? null : { organizationId, recipientId, at }
})

export const TouchRow = Schema.Struct({
  claimId: Schema.String,
  grantId: Schema.String,
  leadId: Schema.String,
  variant: Schema.String,
  claimedAt: Instant
})
export const ProjectRow = Schema.Struct({ ...Project.fields, organizationId: Schema.String, connectedAt: Instant })
export const InvoiceRow = Schema.Struct({ ...Invoice.fields, organizationId: Schema.String, amountMinor: Int8, paidAt: Instant })
export const MovementRow = Schema.Struct({ claimId: Schema.String, credits: Int8, at: Instant })
export const ChargeRow = Schema.Struct({ sandboxId: SandboxId, micros: Int8, at: Instant })
export const BalanceRow = Schema.Struct({ credits: Int8, spent: Int8 })
export const At = Schema.Struct({ at: Instant })

/** Columns of a touch, of its claim as `c`. */
export const TOUCH = `c.id AS "claimId", c.grant_id AS "grantId", c.lead_id AS "leadId", c.variant, c.claimed_at AS "claimedAt"`
