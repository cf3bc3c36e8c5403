/** Port: what partners are told of and the credits they give (docs/decisions/11). Checked by `PartnerStoreContract`. */
import * as Context from "effect/Context"
import type * as DateTime from "effect/DateTime"
import type * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { GrantNotFound } from "../../access/ports/AccessStore.ts"
import type { Uuid } from "../../ids/Ids.ts"
import type { SandboxId } from "../../ids/SandboxId.ts"
import type { StoreUnavailable } from "../../store/StoreUnavailable.ts"
import type { Claim, Claimant, FactConflict, Invoice, ClaimTerms, Project, Recorded } from "../rules/Attribution.ts"
import type { Telling } from "../rules/Attribution.ts"
import type { PartnerEvent } from "../schema/PartnerEvent.ts"

export type { Telling } from "../rules/Attribution.ts"

/** No claim has this id. It has to be created first. */
export class ClaimNotFound extends Schema.TaggedError<ClaimNotFound>()("ClaimNotFound", { claimId: Schema.String }) {
  override get message() {
    return `There is no claim ${this.claimId}.`
  }
}

/** A movement of an organization's credits: those of a claim that was claimed for it. */
export interface CreditMovement {
  readonly claimId: Uuid
  readonly credits: number
  readonly at: DateTime.Utc
}

/** What the models of one sandbox took of them, in micros of a credit, saturating. `at`: the last time. */
export interface CreditCharge {
  readonly sandboxId: SandboxId
  readonly micros: number
  readonly at: DateTime.Utc
}

/** Credits of an organization: what is left of them, whole ones, and what they come from and went to, newest first. */
export interface Credits {
  readonly balance: number
  readonly movements: ReadonlyArray<CreditMovement>
  readonly charges: ReadonlyArray<CreditCharge>
}

/**
 * Checked by `PartnerStoreContract`. Every fact is one transaction: it is kept by its natural id, decided by
 * `Attribution` and told. An equal one that was kept before is `known` and changes nothing; retrying is always safe. Facts
 * about one organization are ordered, and so are their times, which are the store's own.
 */
export class PartnerStore extends Context.Service<PartnerStore, {
  /**
   * Events with a `sequence` greater than `after`, ascending. Numbers become visible in their order: whoever read up to
   * N finds every later event after N.
   */
  feed(grantId: string, after: number, limit: number): Effect.Effect<ReadonlyArray<PartnerEvent>, StoreUnavailable>
  /**
   * Carries out `decide` and adds to the feeds what it tells: one transaction, of which the feeds are the last part, so
   * that what holds them up is only the commit. Nothing is kept when it fails. A feed that has told a fact of this type
   * and natural id already does not tell it again. `at` is when the events are recorded.
   */
  record<A, E>(
    decide: Effect.Effect<{ readonly result: A; readonly tell: ReadonlyArray<Telling> }, E>,
    at: DateTime.Utc
  ): Effect.Effect<A, E | StoreUnavailable>
  createClaim(terms: ClaimTerms): Effect.Effect<
    { readonly recorded: Recorded; readonly claim: Claim },
    FactConflict | GrantNotFound | StoreUnavailable
  >
  /** Also adds the credits to the claimant's organization. */
  claim(claimId: Uuid, claimant: Claimant): Effect.Effect<
    { readonly recorded: Recorded; readonly claim: Claim },
    ClaimNotFound | FactConflict | StoreUnavailable
  >
  connectProject(project: Project): Effect.Effect<Recorded, FactConflict | StoreUnavailable>
  payInvoice(invoice: Invoice): Effect.Effect<Recorded, FactConflict | StoreUnavailable>
  /** Newest first; of one grant when named. */
  claims(grantId: string | null): Effect.Effect<ReadonlyArray<Claim>, StoreUnavailable>
  /** None for an organization that nothing is known of. */
  credits(organizationId: string): Effect.Effect<Credits, StoreUnavailable>
}>()("@slipway/domain/PartnerStore") {
}
