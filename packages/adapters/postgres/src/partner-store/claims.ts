/** Making and claiming credits. Each is one transaction with what partners are told. */
import { GrantNotFound } from "@slipway/domain/access/ports/AccessStore"
import { ClaimNotFound } from "@slipway/domain/partner/ports/PartnerStore"
import {
  claim as decideClaim,
  type Claimant,
  type ClaimTerms,
  createClaim as decideCreation
} from "@slipway/domain/partner/rules/Attribution"
import { Effect } from "effect"
import { inTransaction } from "../sql/Transaction.ts"
import * as Claims from "./statements/claims.ts"
import type { Store } from "./Store.ts"
import { tell as tellPartners } from "./tell.ts"

/** The time at which the organization's facts are recorded, after those of every other transaction. */
export const attributionTime = ({ lockAttribution }: Store, organizationId: string) =>
  Effect.map(lockAttribution(organizationId), ([row]) => row!.at)

/** Inserts before it decides: that waits for another transaction with this id, and is undone when the decision is against it. */
export const createClaim = Effect.fn("PartnerStore.createClaim")(function*(store: Store, terms: ClaimTerms) {
  const { selectTime, sql } = store
  const at = (yield* selectTime(undefined))[0]!.at
  const inserted = yield* Claims.insertClaim(sql, terms, at)
  const [known = null] = inserted.length > 0 ? [] : yield* Claims.claimOf(sql, terms.claimId)
  if (inserted.length === 0 && known === null) return yield* new GrantNotFound({ grant: terms.grantId })
  const { tell, ...made } = yield* Effect.fromResult(decideCreation(known, terms, at))
  yield* tellPartners(store, tell, at)
  return made
}, inTransaction)

export const claim = Effect.fn("PartnerStore.claim")(function*(store: Store, claimId: string, claimant: Claimant) {
  const { sql } = store
  const [known] = yield* Claims.claimLocked(sql, claimId)
  if (known === undefined) return yield* new ClaimNotFound({ claimId })
  const { organizationId } = claimant
  const at = yield* attributionTime(store, organizationId)
  const touches = {
    recipient: yield* Claims.touchOfRecipient(sql, claimant),
    organization: yield* Claims.touchOfOrganization(sql, organizationId)
  }
  const { credits, recorded, tell, touch, ...made } = yield* Effect.fromResult(decideClaim(known, claimant, touches, at))
  if (recorded === "new") {
    yield* Claims.updateClaimed(sql, claimId, claimant, at)
    yield* Claims.addCredits(sql, organizationId, credits)
    yield* Claims.insertMovement(sql, claimId, organizationId, credits, at)
  }
  if (touch.recipient !== null) yield* Claims.insertRecipientTouch(sql, claimant, claimId)
  if (touch.organization !== null) yield* Claims.insertOrganizationTouch(sql, organizationId, claimId)
  yield* tellPartners(store, tell, at)
  return { recorded, ...made }
}, inTransaction)
