/** The facts that partners and operators report, as they are sent and stored. */
import * as DateTime from "effect/DateTime"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as SchemaTransformation from "effect/SchemaTransformation"
import { RepoName } from "../../source/schema/RepoRef.ts"
import { text } from "../../text/Text.ts"
import { CreditAmount, Uuid as UuidSchema } from "./PartnerEvent.ts"

/** Any UUID. Lower case in memory, so that other spellings are the same id. */
export const AnyUuid = UuidSchema.pipe(Schema.decode(SchemaTransformation.toLowerCase()))

const isAsWritten = Schema.makeFilter(
  (text: string) => /^(?:19[7-9]|[2-9])/u.test(text) && Option.exists(DateTime.make(text), (at) => DateTime.formatIso(at) === text),
  { expected: "an instant from 1970 on, such as 2026-11-21T02:41:00.123Z", toJsonSchema: () => [{ format: "date-time" }, true] }
)
/** From 1970 to 9999, in exactly our format: UTC and three fraction digits. `DateTime.Utc` in memory. */
const Instant = Schema.String.check(isAsWritten).pipe(
  Schema.decodeTo(Schema.DateTimeUtc, SchemaTransformation.dateTimeUtcFromString)
)

/** The user of the sandboxes, as in our keys. */
const RecipientId = text(1, 200)
const OrganizationId = AnyUuid

/** The offer of a claim: credits, reserved for its claimant (docs/decisions/11.1). */
export const ClaimTerms = Schema.Struct({
  claimId: AnyUuid,
  grantId: AnyUuid,
  leadId: text(1, 200),
  variant: text(1, 200),
  /** Credits, at least 1. */
  creditAmount: CreditAmount
})
export type ClaimTerms = typeof ClaimTerms.Type

/** The recipient and organization of a claim. */
export const Claimant = Schema.Struct({ recipientId: RecipientId, organizationId: OrganizationId })
export type Claimant = typeof Claimant.Type

/** A repository connected to an organization. */
export const Project = Schema.Struct({
  projectId: text(1, 200),
  recipientId: RecipientId,
  organizationId: OrganizationId,
  repo: RepoName,
  connectedAt: Instant
})
export type Project = typeof Project.Type

/** A paid invoice. `amountMinor` is in the currency's smallest unit; 0 if credits covered it. */
export const Invoice = Schema.Struct({
  invoiceId: text(1, 200),
  organizationId: OrganizationId,
  kind: Schema.Literals(["subscription_initial", "subscription_renewal", "other"]),
  amountMinor: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER })),
  /** ISO 4217, upper case. */
  currency: Schema.String.check(Schema.isPattern(/^[A-Z]{3}$/u)),
  paidAt: Instant
})
export type Invoice = typeof Invoice.Type
