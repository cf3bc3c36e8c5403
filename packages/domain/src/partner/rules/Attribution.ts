/**
 * Which partner's claim a fact counts for (docs/decisions/11.2). Pure: each decision gets the known facts, read under the attribution
 * lock, and returns what to store and what to add to feeds, in one transaction. Attribution is first touch: a touch never changes once
 * it is set, whatever happens later and in any grant.
 */
import * as Data from "effect/Data"
import type * as DateTime from "effect/DateTime"
import * as Equal from "effect/Equal"
import * as Order from "effect/Order"
import * as Result from "effect/Result"
import type { Ids, Uuid } from "../../ids/Ids.ts"
import { sameRepo } from "../../source/schema/Naming.ts"
import type { Pull } from "../../source/schema/PullRequest.ts"
import type { RepoName } from "../../source/schema/RepoRef.ts"
import * as Instant from "../../time/Instant.ts"
import type { Claimant, ClaimTerms, Invoice, Project } from "../schema/Attribution.ts"
import type { PartnerFact } from "../schema/PartnerEvent.ts"

export type { Claimant, ClaimTerms, Invoice, Project } from "../schema/Attribution.ts"

/** A fact and the grant whose feed gets it. */
export interface Telling {
  readonly grantId: string
  readonly fact: PartnerFact
}

/** A fact with the same id but other content is stored. The stored fact stands; retrying cannot succeed. */
export class FactConflict extends Data.TaggedError("FactConflict")<{ readonly about: string }> {
  override get message() {
    return `${this.about} is known already, with other values.`
  }
}

/** A claim and its claimant. `claimed: null`: pending. */
export interface Claim {
  readonly terms: ClaimTerms
  readonly createdAt: DateTime.Utc
  readonly claimed: (Claimant & { readonly at: DateTime.Utc }) | null
}

/** The first claim that was claimed for a recipient in an organization, or for an organization. It never changes. */
export interface Touch {
  readonly grantId: string
  readonly claimId: Uuid
  readonly leadId: string
  readonly variant: string
  readonly claimedAt: DateTime.Utc
}

/** A sandbox as partners see it. `touch` was looked up at its creation and stays. */
export interface Task {
  readonly taskId: string
  /** The organization's project for the sandbox's first repository. */
  readonly projectId: string | null
  readonly touch: Touch | null
}

/** The result of recording a fact. `known`: an equal fact was recorded before. */
export type Recorded = "new" | "known"

const once = <A>(known: A | null, given: A, about: string): Result.Result<Recorded, FactConflict> =>
  known === null ? Result.succeed("new") : Equal.equals(known, given) ? Result.succeed("known") : Result.fail(new FactConflict({ about }))

const lead = ({ claimId, leadId, variant }: Touch) => ({ claimId, leadId, variant })

const tell = (touch: Touch | null, fact: (of: Touch) => PartnerFact): ReadonlyArray<Telling> =>
  touch === null ? [] : [{ grantId: touch.grantId, fact: fact(touch) }]

/** The touch if the fact happened at or after the moment of the claim; `null` otherwise. */
const since = (touch: Touch | null, at: DateTime.Utc): Touch | null =>
  touch !== null && Instant.isGreaterThanOrEqualTo(at, touch.claimedAt) ? touch : null

/** Makes and reserves a claim. `known` is the existing claim with its id. */
export const createClaim = (
  known: Claim | null,
  terms: ClaimTerms,
  at: DateTime.Utc
): Result.Result<{ readonly recorded: Recorded; readonly claim: Claim; readonly tell: ReadonlyArray<Telling> }, FactConflict> =>
  Result.map(once(known?.terms ?? null, terms, `Claim ${terms.claimId}`), (recorded) => {
    if (known !== null) return { recorded, claim: known, tell: [] }
    const { grantId, ...data } = terms
    return {
      recorded,
      claim: { terms, createdAt: at, claimed: null },
      tell: [{ grantId, fact: { type: "credit_claim.created", data: { ...data, createdAt: at, status: "pending", claimedAt: null } } }]
    }
  })

/** The effects of claiming. */
export interface Claiming {
  readonly recorded: Recorded
  readonly claim: Claim
  /** Credits for the claimant's organization; 0 if they were given before. */
  readonly credits: number
  /** New touches to store, for those that were not set. */
  readonly touch: { readonly recipient: Touch | null; readonly organization: Touch | null }
  readonly tell: ReadonlyArray<Telling>
}

/**
 * Claims a claim. `touches` are the claimant's present ones. `at` is the store's time under the attribution lock, so that claims are in
 * the order of their commits.
 */
export const claim = (
  known: Claim,
  claimant: Claimant,
  touches: { readonly recipient: Touch | null; readonly organization: Touch | null },
  at: DateTime.Utc
): Result.Result<Claiming, FactConflict> => {
  const { claimed, createdAt, terms } = known
  const before = claimed === null ? null : { recipientId: claimed.recipientId, organizationId: claimed.organizationId }
  return Result.map(once(before, claimant, `The claiming of ${terms.claimId}`), (recorded) => {
    if (claimed !== null) return { recorded, claim: known, credits: 0, touch: { recipient: null, organization: null }, tell: [] }
    const { grantId, ...data } = terms
    const touch: Touch = { grantId, claimId: terms.claimId, leadId: terms.leadId, variant: terms.variant, claimedAt: at }
    return {
      recorded,
      claim: { ...known, claimed: { ...claimant, at } },
      credits: terms.creditAmount,
      touch: {
        recipient: touches.recipient === null ? touch : null,
        organization: touches.organization === null ? touch : null
      },
      tell: [{ grantId, fact: { type: "credit_claim.claimed", data: { ...data, createdAt, status: "claimed", claimedAt: at } } }]
    }
  })
}

/** Connects a project. `touch` is that of the recipient in the organization. */
export const connectProject = (
  known: Project | null,
  project: Project,
  touch: Touch | null
): Result.Result<{ readonly recorded: Recorded; readonly tell: ReadonlyArray<Telling> }, FactConflict> =>
  Result.map(once(known, project, `Project ${project.projectId}`), (recorded) => ({
    recorded,
    tell: recorded === "known" ? [] : tell(since(touch, project.connectedAt), (of) => ({
      type: "project.connected",
      data: { ...lead(of), occurredAt: project.connectedAt, projectId: project.projectId }
    }))
  }))

const connectedFirst = Order.make<Project>((a, b) => Instant.Order(a.connectedAt, b.connectedAt) || Order.String(a.projectId, b.projectId))

/** The organization's project for a sandbox whose first repository is `repo`: the first one connected. */
export const projectFor = (projects: Iterable<Project>, organizationId: string, repo: RepoName): string | null =>
  Array.from(projects).filter((project) => project.organizationId === organizationId && sameRepo(project.repo, repo)).sort(
    connectedFirst
  )[0]
    ?.projectId ?? null

/** A sandbox was created at `at`. Runs in the transaction of the creation. */
export const startTask = ({ projectId, taskId, touch }: Task, at: DateTime.Utc): ReadonlyArray<Telling> =>
  tell(touch, (of) => ({ type: "task.started", data: { ...lead(of), occurredAt: at, taskId, projectId } }))

/** A pull request was recorded as opened at `at`, as a draft or not. It counts for the claim of its sandbox. */
export const openPullRequest = ({ projectId, taskId, touch }: Task, id: Uuid, at: DateTime.Utc): ReadonlyArray<Telling> =>
  tell(touch, (of) => ({ type: "pull_request.opened", data: { ...lead(of), occurredAt: at, pullRequestId: id, taskId, projectId } }))

/** Whether the invoice can be an organization's first payment. Other invoices never count and do not use up the conversion. */
const isInitialPayment = ({ amountMinor, kind }: Invoice): boolean => kind === "subscription_initial" && amountMinor > 0

/**
 * Records a paid invoice. `organization`: its touch, and whether an initial payment was recorded before. The first payment counts once,
 * even without a touch.
 */
export const payInvoice = (
  known: Invoice | null,
  invoice: Invoice,
  organization: { readonly touch: Touch | null; readonly paid: boolean },
  id: Uuid
): Result.Result<{ readonly recorded: Recorded; readonly paid: boolean; readonly tell: ReadonlyArray<Telling> }, FactConflict> =>
  Result.map(once(known, invoice, `Invoice ${invoice.invoiceId}`), (recorded) => {
    const first = recorded === "new" && !organization.paid && isInitialPayment(invoice)
    return {
      recorded,
      paid: organization.paid || first,
      tell: first
        ? tell(since(organization.touch, invoice.paidAt), (of) => ({
          type: "conversion.paid",
          data: { ...lead(of), occurredAt: invoice.paidAt, conversionId: id }
        }))
        : []
    }
  })

type Derive = Pick<Ids["Service"], "derive">

/** The id of an organization's conversion. Each organization converts once. */
export const conversionId = (ids: Derive, organizationId: string): Uuid => ids.derive(`conversion/${organizationId}`)

/** The id of a pull request in feeds. */
export const pullRequestId = (ids: Derive, { host, number, repo }: Pull): Uuid => ids.derive(`pr/${host}/${repo}/${number}`)
