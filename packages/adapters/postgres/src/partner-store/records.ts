/**
 * Projects and invoices. Each is one transaction with what partners are told. It inserts before it decides: that waits for another
 * transaction with this id, and is undone when the decision is against it.
 */
import {
  connectProject as decideProject,
  conversionId,
  type Invoice,
  payInvoice as decideInvoice,
  type Project
} from "@slipway/domain/partner/rules/Attribution"
import { Effect } from "effect"
import { inTransaction } from "../sql/Transaction.ts"
import { attributionTime } from "./claims.ts"
import { touchOfOrganization, touchOfRecipient } from "./statements/claims.ts"
import { insertInvoice, insertProject, markFirstPayment, selectFirstPayment } from "./statements/records.ts"
import type { Store } from "./Store.ts"
import { tell as tellPartners } from "./tell.ts"

export const connectProject = Effect.fn("PartnerStore.connectProject")(function*(store: Store, project: Project) {
  const { projectRows, sql } = store
  const at = yield* attributionTime(store, project.organizationId)
  const inserted = yield* insertProject(sql, project)
  const [known = null] = inserted.length > 0 ? [] : yield* projectRows(project.projectId)
  const { recorded, tell } = yield* Effect.fromResult(decideProject(known, project, yield* touchOfRecipient(sql, project)))
  yield* tellPartners(store, tell, at)
  return recorded
}, inTransaction)

export const payInvoice = Effect.fn("PartnerStore.payInvoice")(function*(store: Store, invoice: Invoice) {
  const { ids, invoiceRows, sql } = store
  const { invoiceId, organizationId } = invoice
  const at = yield* attributionTime(store, organizationId)
  const inserted = yield* insertInvoice(sql, invoice)
  const [known = null] = inserted.length > 0 ? [] : yield* invoiceRows(invoiceId)
  const first = yield* selectFirstPayment(sql, organizationId)
  const organization = { touch: yield* touchOfOrganization(sql, organizationId), paid: first.length > 0 }
  const { paid, recorded, tell } = yield* Effect.fromResult(
    decideInvoice(known, invoice, organization, conversionId(ids, organizationId))
  )
  if (paid && !organization.paid) yield* markFirstPayment(sql, invoiceId)
  yield* tellPartners(store, tell, at)
  return recorded
}, inTransaction)
