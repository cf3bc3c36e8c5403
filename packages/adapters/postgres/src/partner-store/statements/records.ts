/** Projects and invoices that partners told of, each once per natural id. */
import type { Invoice, Project } from "@slipway/domain/partner/rules/Attribution"
import { DateTime, Schema } from "effect"
import { type SqlClient, SqlSchema } from "effect/sql"
import { InvoiceRow, ProjectRow } from "../rows/PartnerRows.ts"

const iso = DateTime.formatIso

/** No row: the id is taken. Waits for another transaction that is inserting it. */
export const insertProject = (
  sql: SqlClient.SqlClient,
  { connectedAt, organizationId, projectId, recipientId, repo }: Project
) =>
  sql`
            INSERT INTO partner_projects (id, recipient_id, organization_id, repo, connected_at)
            VALUES (${projectId}, ${recipientId}, ${organizationId}, ${repo}, ${iso(connectedAt)})
            ON CONFLICT (id) DO NOTHING RETURNING 1`

export const projectRows = (sql: SqlClient.SqlClient) =>
  SqlSchema.findAll({
    Request: Schema.String,
    Result: ProjectRow,
    execute: (id) =>
      sql`
        SELECT id AS "projectId", recipient_id AS "recipientId", organization_id AS "organizationId", repo, connected_at AS "connectedAt"
        FROM partner_projects WHERE id = ${id}`
  })

/** No row: the id is taken. Waits for another transaction that is inserting it. */
export const insertInvoice = (
  sql: SqlClient.SqlClient,
  { amountMinor, currency, invoiceId, kind, organizationId, paidAt }: Invoice
) =>
  sql`
            INSERT INTO paid_invoices (id, organization_id, kind, amount_minor, currency, paid_at)
            VALUES (${invoiceId}, ${organizationId}, ${kind}, ${amountMinor}, ${currency}, ${iso(paidAt)})
            ON CONFLICT (id) DO NOTHING RETURNING 1`

export const invoiceRows = (sql: SqlClient.SqlClient) =>
  SqlSchema.findAll({
    Request: Schema.String,
    Result: InvoiceRow,
    execute: (id) =>
      sql`
        SELECT id AS "invoiceId", organization_id AS "organizationId", kind, amount_minor AS "amountMinor", currency, paid_at AS "paidAt"
        FROM paid_invoices WHERE id = ${id}`
  })

/** A row if the organization has paid before. */
export const selectFirstPayment = (sql: SqlClient.SqlClient, organizationId: string) =>
  sql`SELECT FROM paid_invoices WHERE organization_id = ${organizationId} AND first_payment`

export const markFirstPayment = (sql: SqlClient.SqlClient, invoiceId: string) =>
  sql`UPDATE paid_invoices SET first_payment = true WHERE id = ${invoiceId}`
