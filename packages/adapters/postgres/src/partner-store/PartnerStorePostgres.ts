/** `PartnerStore` on Postgres. */
import { GrantNotFound } from "@slipway/domain/access/ports/AccessStore"
import { Ids } from "@slipway/domain/ids/Ids"
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { balanceOf } from "@slipway/domain/models/rules/Credits"
import { ClaimNotFound, PartnerStore, type Telling } from "@slipway/domain/partner/ports/PartnerStore"
import {
  type Claim,
  claim,
  type Claimant,
  connectProject,
  conversionId,
  createClaim,
  openPullRequest,
  payInvoice,
  pullRequestId,
  type Touch
} from "@slipway/domain/partner/rules/Attribution"
import { Invoice, Project } from "@slipway/domain/partner/schema/Attribution"
import { naturalId, type PartnerEvent, PartnerFact } from "@slipway/domain/partner/schema/PartnerEvent"
import type { Pull } from "@slipway/domain/source/schema/PullRequest"
import { DateTime, Effect, Layer, Schema } from "effect"
import { SqlClient, SqlSchema, type Statement } from "effect/sql"
import { Instant } from "../sql/Instant.ts"
import { Int8 } from "../sql/Int8.ts"
import { guard } from "../sql/SqlFailure.ts"

const FeedRow = Schema.Struct({
  id: Schema.String,
  sequence: Int8,
  type: Schema.String,
  data: Schema.Json,
  createdAt: Schema.DateTimeUtcFromDate
})

const ClaimRow = Schema.Struct({
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

const toClaim = ({ claimedAt: at, createdAt, organizationId, recipientId, ...terms }: typeof ClaimRow.Type): Claim => ({
  terms,
  createdAt,
  claimed: at === null || organizationId === null || recipientId === null ? null : { organizationId, recipientId, at }
})

const TouchRow = Schema.Struct({
  claimId: Schema.String,
  grantId: Schema.String,
  leadId: Schema.String,
  variant: Schema.String,
  claimedAt: Instant
})
const ProjectRow = Schema.Struct({ ...Project.fields, organizationId: Schema.String, connectedAt: Instant })
const InvoiceRow = Schema.Struct({ ...Invoice.fields, organizationId: Schema.String, amountMinor: Int8, paidAt: Instant })
const MovementRow = Schema.Struct({ claimId: Schema.String, credits: Int8, at: Instant })
const ChargeRow = Schema.Struct({ sandboxId: SandboxId, micros: Int8, at: Instant })
const BalanceRow = Schema.Struct({ credits: Int8, spent: Int8 })
const At = Schema.Struct({ at: Instant })

/** Columns of a touch, of its claim. */
const TOUCH = `c.id AS "claimId", c.grant_id AS "grantId", c.lead_id AS "leadId", c.variant, c.claimed_at AS "claimedAt"`

const iso = DateTime.formatIso

const encodeFact = Schema.encodeSync(PartnerFact)
const decodeFact = Schema.decodeUnknownEffect(PartnerFact)

/**
 * Adds to the feeds within the transaction it runs in, which should commit next: readers and writers of the same feeds
 * wait for it. Fails as a statement does.
 */
const makeTell = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const ids = yield* Ids
  return Effect.fnUntraced(function*(tell: ReadonlyArray<Telling>, at: DateTime.Utc) {
    if (tell.length === 0) return
    const tellings = yield* Effect.forEach(
      tell,
      ({ fact, grantId }) => Effect.map(ids.uuid7, (id) => ({ grant_id: grantId, id, natural_id: naturalId(fact), ...encodeFact(fact) }))
    )
    yield* sql`SELECT tell_partners(${JSON.stringify(tellings)}::jsonb, ${DateTime.formatIso(at)}::timestamptz)`
  })
})

/** Tells, as the last part of the transaction it runs in, that a pull request is there, if its task started under a touch. */
export const makeOpened = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const ids = yield* Ids
  const tell = yield* makeTell
  const tasks = SqlSchema.findAll({
    Request: Schema.String,
    Result: Schema.Struct({ ...TouchRow.fields, projectId: Schema.NullOr(Schema.String) }),
    execute: (sandboxId) =>
      sql`
      SELECT ${sql.literal(TOUCH)}, t.project_id AS "projectId" FROM partner_tasks t JOIN credit_claims c ON c.id = t.claim_id
      WHERE t.sandbox_id = ${sandboxId}`
  })
  return Effect.fnUntraced(function*(taskId: string, pull: Pull, at: DateTime.Utc) {
    for (const { projectId, ...touch } of yield* tasks(taskId)) {
      yield* tell(openPullRequest({ taskId, projectId, touch }, pullRequestId(ids, pull), at), at)
    }
  })
})

export const layer = Layer.effect(
  PartnerStore,
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const ids = yield* Ids
    const tellPartners = yield* makeTell

    const rows = SqlSchema.findAll({
      Request: Schema.Struct({ grantId: Schema.String, after: Schema.Int, limit: Schema.Int }),
      Result: FeedRow,
      execute: ({ after, grantId, limit }) =>
        sql`
        SELECT id, sequence, type, data, created_at AS "createdAt" FROM partner_events
        WHERE grant_id = ${grantId} AND sequence > ${after}::bigint ORDER BY sequence LIMIT ${limit}`
    })

    const claimRows = (where: Statement.Fragment) =>
      Effect.map(
        SqlSchema.findAll({
          Request: Schema.Void,
          Result: ClaimRow,
          execute: () =>
            sql`
            SELECT id AS "claimId", grant_id AS "grantId", lead_id AS "leadId", variant, credit_amount AS "creditAmount",
              created_at AS "createdAt", recipient_id AS "recipientId", organization_id AS "organizationId", claimed_at AS "claimedAt"
            FROM credit_claims ${where}`
        })(undefined),
        (rows) => rows.map(toClaim)
      )
    const claimOf = (id: string) => claimRows(sql`WHERE id = ${id}`)

    const touch = (from: Statement.Fragment) =>
      Effect.map(
        SqlSchema.findAll({
          Request: Schema.Void,
          Result: TouchRow,
          execute: () => sql`SELECT ${sql.literal(TOUCH)} FROM ${from}`
        })(undefined),
        ([row = null]): Touch | null => row
      )
    const touchOfRecipient = ({ organizationId, recipientId }: Claimant) =>
      touch(sql`
        recipient_touches t JOIN credit_claims c ON c.id = t.claim_id
        WHERE t.organization_id = ${organizationId} AND t.recipient_id = ${recipientId}`)
    const touchOfOrganization = (id: string) =>
      touch(sql`organization_touches t JOIN credit_claims c ON c.id = t.claim_id WHERE t.organization_id = ${id}`)

    const projects = SqlSchema.findAll({
      Request: Schema.String,
      Result: ProjectRow,
      execute: (id) =>
        sql`
        SELECT id AS "projectId", recipient_id AS "recipientId", organization_id AS "organizationId", repo, connected_at AS "connectedAt"
        FROM partner_projects WHERE id = ${id}`
    })
    const invoices = SqlSchema.findAll({
      Request: Schema.String,
      Result: InvoiceRow,
      execute: (id) =>
        sql`
        SELECT id AS "invoiceId", organization_id AS "organizationId", kind, amount_minor AS "amountMinor", currency, paid_at AS "paidAt"
        FROM paid_invoices WHERE id = ${id}`
    })
    const movements = SqlSchema.findAll({
      Request: Schema.String,
      Result: MovementRow,
      execute: (organizationId) =>
        sql`
        SELECT claim_id AS "claimId", credits, at FROM credit_ledger
        WHERE organization_id = ${organizationId} ORDER BY at DESC, claim_id DESC`
    })

    const charges = SqlSchema.findAll({
      Request: Schema.String,
      Result: ChargeRow,
      execute: (organizationId) =>
        sql`
        SELECT sandbox_id AS "sandboxId", least(sum(micros), ${Number.MAX_SAFE_INTEGER})::bigint AS micros, max(at) AS at
        FROM credit_charges WHERE organization_id = ${organizationId} GROUP BY sandbox_id ORDER BY max(at) DESC, sandbox_id DESC`
    })
    const balances = SqlSchema.findAll({
      Request: Schema.String,
      Result: BalanceRow,
      execute: (organizationId) =>
        sql`
        SELECT coalesce(b.credits, 0) AS credits, coalesce(s.spent, 0) AS spent FROM (SELECT ${organizationId}::uuid AS id) o
        LEFT JOIN credit_balances b ON b.organization_id = o.id LEFT JOIN credit_spending s ON s.organization_id = o.id`
    })

    const times = SqlSchema.findAll({
      Request: Schema.Void,
      Result: At,
      execute: () => sql`SELECT date_trunc('milliseconds', clock_timestamp()) AS at`
    })
    const locked = SqlSchema.findAll({ Request: Schema.String, Result: At, execute: (id) => sql`SELECT lock_attribution(${id}) AS at` })
    const now = Effect.map(times(undefined), ([row]) => row!.at)
    /** Waits for every other fact about the organization. The time follows theirs. */
    const lockAttribution = (organizationId: string) => Effect.map(locked(organizationId), ([row]) => row!.at)

    const transaction = <A, E, R>(self: Effect.Effect<A, E, R>) => guard(sql.withTransaction(self))

    return PartnerStore.of({
      feed: Effect.fn("PartnerStore.feed")(function*(grantId, after, limit) {
        return yield* Effect.forEach(
          yield* rows({ grantId, after, limit }),
          ({ data, type, ...place }) => Effect.map(decodeFact({ type, data }), (fact): PartnerEvent => ({ ...fact, ...place }))
        )
      }, guard),

      record: Effect.fn("PartnerStore.record")((decide, at) =>
        transaction(Effect.gen(function*() {
          const { result, tell } = yield* decide
          yield* tellPartners(tell, at)
          return result
        }))
      ),

      // What has a natural id is inserted before it is decided: that waits for whoever else is inserting it, and is undone
      // when the decision is against it.
      createClaim: Effect.fn("PartnerStore.createClaim")((terms) =>
        transaction(Effect.gen(function*() {
          const at = yield* now
          const inserted = yield* sql`
            INSERT INTO credit_claims (id, grant_id, lead_id, variant, credit_amount, created_at)
            SELECT ${terms.claimId}::uuid, id, ${terms.leadId}, ${terms.variant}, ${terms.creditAmount}::bigint, ${iso(at)}::timestamptz
            FROM grants WHERE id = ${terms.grantId}
            ON CONFLICT (id) DO NOTHING RETURNING 1`
          const [known = null] = inserted.length > 0 ? [] : yield* claimOf(terms.claimId)
          if (inserted.length === 0 && known === null) return yield* new GrantNotFound({ grant: terms.grantId })
          const { tell, ...made } = yield* Effect.fromResult(createClaim(known, terms, at))
          yield* tellPartners(tell, at)
          return made
        }))
      ),

      claim: Effect.fn("PartnerStore.claim")((claimId, claimant) =>
        transaction(Effect.gen(function*() {
          const [known] = yield* claimRows(sql`WHERE id = ${claimId} FOR NO KEY UPDATE`)
          if (known === undefined) return yield* new ClaimNotFound({ claimId })
          const { organizationId, recipientId } = claimant
          const at = yield* lockAttribution(organizationId)
          const touches = { recipient: yield* touchOfRecipient(claimant), organization: yield* touchOfOrganization(organizationId) }
          const { credits, recorded, tell, touch, ...made } = yield* Effect.fromResult(claim(known, claimant, touches, at))
          if (recorded === "new") {
            yield* sql`
              UPDATE credit_claims SET recipient_id = ${recipientId}, organization_id = ${organizationId}, claimed_at = ${iso(at)}
              WHERE id = ${claimId}`
            yield* sql`
              INSERT INTO credit_balances AS b (organization_id, credits) VALUES (${organizationId}, ${credits})
              ON CONFLICT (organization_id) DO UPDATE SET credits = least(b.credits + excluded.credits, ${Number.MAX_SAFE_INTEGER})`
            yield* sql`
              INSERT INTO credit_ledger (claim_id, organization_id, credits, at)
              VALUES (${claimId}, ${organizationId}, ${credits}, ${iso(at)})`
          }
          if (touch.recipient !== null) {
            yield* sql`
              INSERT INTO recipient_touches (organization_id, recipient_id, claim_id)
              VALUES (${organizationId}, ${recipientId}, ${claimId})`
          }
          if (touch.organization !== null) {
            yield* sql`INSERT INTO organization_touches (organization_id, claim_id) VALUES (${organizationId}, ${claimId})`
          }
          yield* tellPartners(tell, at)
          return { recorded, ...made }
        }))
      ),

      connectProject: Effect.fn("PartnerStore.connectProject")((project) =>
        transaction(Effect.gen(function*() {
          const { connectedAt, organizationId, projectId, recipientId, repo } = project
          const at = yield* lockAttribution(organizationId)
          const inserted = yield* sql`
            INSERT INTO partner_projects (id, recipient_id, organization_id, repo, connected_at)
            VALUES (${projectId}, ${recipientId}, ${organizationId}, ${repo}, ${iso(connectedAt)})
            ON CONFLICT (id) DO NOTHING RETURNING 1`
          const [known = null] = inserted.length > 0 ? [] : yield* projects(projectId)
          const { recorded, tell } = yield* Effect.fromResult(connectProject(known, project, yield* touchOfRecipient(project)))
          yield* tellPartners(tell, at)
          return recorded
        }))
      ),

      payInvoice: Effect.fn("PartnerStore.payInvoice")((invoice) =>
        transaction(Effect.gen(function*() {
          const { amountMinor, currency, invoiceId, kind, organizationId, paidAt } = invoice
          const at = yield* lockAttribution(organizationId)
          const inserted = yield* sql`
            INSERT INTO paid_invoices (id, organization_id, kind, amount_minor, currency, paid_at)
            VALUES (${invoiceId}, ${organizationId}, ${kind}, ${amountMinor}, ${currency}, ${iso(paidAt)})
            ON CONFLICT (id) DO NOTHING RETURNING 1`
          const [known = null] = inserted.length > 0 ? [] : yield* invoices(invoiceId)
          const first = yield* sql`SELECT FROM paid_invoices WHERE organization_id = ${organizationId} AND first_payment`
          const organization = { touch: yield* touchOfOrganization(organizationId), paid: first.length > 0 }
          const { paid, recorded, tell } = yield* Effect.fromResult(
            payInvoice(known, invoice, organization, conversionId(ids, organizationId))
          )
          if (paid && !organization.paid) yield* sql`UPDATE paid_invoices SET first_payment = true WHERE id = ${invoiceId}`
          yield* tellPartners(tell, at)
          return recorded
        }))
      ),

      claims: (grantId) =>
        guard(claimRows(sql`${grantId === null ? sql`` : sql`WHERE grant_id = ${grantId}`} ORDER BY created_at DESC, id DESC`)),

      credits: Effect.fn("PartnerStore.credits")(function*(organizationId) {
        const [{ credits, spent } = { credits: 0, spent: 0 }] = yield* balances(organizationId)
        return {
          balance: balanceOf(credits, spent),
          movements: yield* movements(organizationId),
          charges: yield* charges(organizationId)
        }
      }, guard)
    })
  })
)
