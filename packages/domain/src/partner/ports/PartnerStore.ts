/**
 * Port: the events of partners' feeds, and the credits that partners give (docs/decisions/11). Checked by `PartnerStoreContract`.
 */
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

/** No claim has this id. The claim has to be created first. */
export class ClaimNotFound extends Schema.TaggedError<ClaimNotFound>()("ClaimNotFound", { claimId: Schema.String }) {
  override get message() {
    return `There is no claim ${this.claimId}.`
  }
}

/** A movement of an organization's credits: the credits of a claim that was claimed for it. */
export interface CreditMovement {
  readonly claimId: Uuid
  readonly credits: number
  readonly at: DateTime.Utc
}

/** The credits that the models of one sandbox used, in micros of a credit, saturating. `at`: the last use. */
export interface CreditCharge {
  readonly sandboxId: SandboxId
  readonly micros: number
  readonly at: DateTime.Utc
}

/** An organization's remaining whole credits, with their movements and charges, newest first. */
export interface Credits {
  readonly balance: number
  readonly movements: ReadonlyArray<CreditMovement>
  readonly charges: ReadonlyArray<CreditCharge>
}

/**
 * Checked by `PartnerStoreContract`. Every fact is one transaction: it is stored under its natural id, decided by `Attribution`, and
 * added to feeds. An equal fact that is stored already is `known` and changes nothing, so retries are always safe. Facts about one
 * organization are ordered, and so are their times, which come from the store's clock.
 */
export class PartnerStore extends Context.Service<PartnerStore, {
  /**
   * Events with a `sequence` greater than `after`, ascending. Events become visible in the order of their numbers: a reader who has
   * read up to N finds every later event after N.
   */
  feed(grantId: string, after: number, limit: number): Effect.Effect<ReadonlyArray<PartnerEvent>, StoreUnavailable>
  /**
   * Runs `decide` and adds its events to the feeds, in one transaction. The feeds come last, so that they are locked only until the
   * commit. An error stores nothing. A feed never repeats a fact of the same type and natural id. `at` is the time of recording.
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
  /** Newest first. `grantId` limits the list to one grant. */
  claims(grantId: string | null): Effect.Effect<ReadonlyArray<Claim>, StoreUnavailable>
  /** Empty for an unknown organization. */
  credits(organizationId: string): Effect.Effect<Credits, StoreUnavailable>
}>()("@slipway/domain/PartnerStore") {
}
