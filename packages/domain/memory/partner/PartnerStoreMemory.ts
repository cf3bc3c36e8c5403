/** `PartnerStore` in memory: for tests and for embedding without a database. State dies with the layer. */
import * as Context from "effect/Context"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Scheduler from "effect/Scheduler"
import { AccessStore, GrantNotFound } from "../../src/access/ports/AccessStore.ts"
import { Ids } from "../../src/ids/Ids.ts"
import type { SandboxId } from "../../src/ids/SandboxId.ts"
import { balanceOf } from "../../src/models/rules/Credits.ts"
import { type Telling, ClaimNotFound, type CreditMovement, type CreditCharge, PartnerStore } from "../../src/partner/ports/PartnerStore.ts"
import {
  type Claim,
  claim,
  type Claimant,
  type Claiming,
  connectProject,
  conversionId,
  createClaim,
  type FactConflict,
  type Invoice,
  openPullRequest,
  payInvoice,
  type Project,
  projectFor,
  pullRequestId,
  startTask,
  type Task,
  type Touch
} from "../../src/partner/rules/Attribution.ts"
import { naturalId, type PartnerEvent } from "../../src/partner/schema/PartnerEvent.ts"
import type { Sandbox } from "../../src/sandbox/rules/Sandbox.ts"
import type { Pull } from "../../src/source/schema/PullRequest.ts"
import type { StoreUnavailable } from "../../src/store/StoreUnavailable.ts"
import { saturatingAdd } from "../../src/text/Counters.ts"
import { make as makeNotifications, MemoryNotifications } from "./MemoryNotifications.ts"

/** The state of the layer. */
interface Partners {
  readonly ids: Ids["Service"]
  /** `null`: every grant exists. */
  readonly access: AccessStore["Service"] | null
  readonly feeds: Map<string, Array<PartnerEvent>>
  readonly claims: Map<string, Claim>
  readonly touches: Map<string, Touch>
  readonly projects: Map<string, Project>
  readonly invoices: Map<string, Invoice>
  /** Organizations that have paid. */
  readonly paid: Set<string>
  readonly tasks: Map<string, Task>
  readonly ledger: Map<string, Array<CreditMovement>>
  readonly charges: Map<string, Map<SandboxId, CreditCharge>>
}

const make = (ids: Ids["Service"], access: AccessStore["Service"] | null): Partners => ({
  ids,
  access,
  feeds: new Map(),
  claims: new Map(),
  touches: new Map(),
  projects: new Map(),
  invoices: new Map(),
  paid: new Set(),
  tasks: new Map(),
  ledger: new Map(),
  charges: new Map()
})

const tellAll = Effect.fnUntraced(function*({ feeds, ids }: Partners, tell: ReadonlyArray<Telling>, at: DateTime.Utc) {
  const drawn = yield* Effect.forEach(tell, (telling) => Effect.map(ids.uuid7, (id) => ({ ...telling, id })))
  for (const { fact, grantId, id } of drawn) {
    const feed = feeds.get(grantId) ?? []
    feeds.set(grantId, feed)
    if (feed.some((told) => told.type === fact.type && naturalId(told) === naturalId(fact))) continue
    feed.push({ ...fact, id, sequence: feed.length + 1, createdAt: at })
  }
})

/** No other fiber runs between reading and writing. */
const decided = <A extends { readonly tell: ReadonlyArray<Telling> }, E>(
  partners: Partners,
  decide: (at: DateTime.Utc) => Result.Result<A, E>,
  keep: (decision: A, at: DateTime.Utc) => void
) =>
  Effect.gen(function*() {
    const at = yield* DateTime.now
    const decision = yield* Effect.fromResult(decide(at))
    keep(decision, at)
    yield* tellAll(partners, decision.tell, at)
    return decision
  }).pipe(Effect.provideService(Scheduler.PreventSchedulerYield, true))

const ofRecipient = ({ organizationId, recipientId }: Claimant) => `${organizationId} ${recipientId}`

const touchOf = ({ touches }: Partners, key: string) => touches.get(key) ?? null

const creditsOf = ({ ledger }: Partners, organizationId: string) =>
  (ledger.get(organizationId) ?? []).reduce((sum, { credits }) => saturatingAdd(sum, credits), 0)

const partnerStore = (partners: Partners): PartnerStore["Service"] => {
  const { access, charges, claims, feeds, ids, invoices, ledger, paid, projects, touches } = partners
  return {
    feed: (grantId, after, limit) => Effect.sync(() => (feeds.get(grantId) ?? []).slice(after, after + limit)),
    record: Effect.fn("PartnerStore.record")(function*(decide, at) {
      const { result, tell } = yield* decide
      yield* tellAll(partners, tell, at)
      return result
    }),
    createClaim: Effect.fn("PartnerStore.createClaim")(function*(terms) {
      const grants = access === null ? null : yield* access.listGrants
      if (grants?.some(({ id }) => id === terms.grantId) === false) return yield* new GrantNotFound({ grant: terms.grantId })
      const { claim, recorded } = yield* decided(
        partners,
        (at) => createClaim(claims.get(terms.claimId) ?? null, terms, at),
        ({ claim }) => claims.set(terms.claimId, claim)
      )
      return { recorded, claim }
    }),
    claim: Effect.fn("PartnerStore.claim")(function*(claimId, claimant) {
      const { organizationId } = claimant
      const recipient = ofRecipient(claimant)
      const made = yield* decided(partners, (at): Result.Result<Claiming, ClaimNotFound | FactConflict> => {
        const known = claims.get(claimId)
        return known === undefined
          ? Result.fail(new ClaimNotFound({ claimId }))
          : claim(known, claimant, { recipient: touchOf(partners, recipient), organization: touchOf(partners, organizationId) }, at)
      }, ({ claim, credits, touch }, at) => {
        claims.set(claimId, claim)
        if (touch.recipient !== null) touches.set(recipient, touch.recipient)
        if (touch.organization !== null) touches.set(organizationId, touch.organization)
        if (credits > 0) ledger.set(organizationId, [{ claimId, credits, at }, ...ledger.get(organizationId) ?? []])
      })
      return { recorded: made.recorded, claim: made.claim }
    }),
    connectProject: (project) =>
      Effect.map(
        decided(
          partners,
          () => connectProject(projects.get(project.projectId) ?? null, project, touchOf(partners, ofRecipient(project))),
          () => projects.set(project.projectId, project)
        ),
        ({ recorded }) => recorded
      ),
    payInvoice: (invoice) =>
      Effect.map(
        decided(partners, () => {
          const { organizationId } = invoice
          const organization = { touch: touchOf(partners, organizationId), paid: paid.has(organizationId) }
          return payInvoice(invoices.get(invoice.invoiceId) ?? null, invoice, organization, conversionId(ids, organizationId))
        }, (decision) => {
          invoices.set(invoice.invoiceId, invoice)
          if (decision.paid) paid.add(invoice.organizationId)
        }),
        ({ recorded }) => recorded
      ),
    claims: (grantId) =>
      Effect.sync(() => Array.from(claims.values()).filter(({ terms }) => grantId === null || terms.grantId === grantId).reverse()),
    credits: (organizationId) =>
      Effect.sync(() => {
        const taken = Array.from(charges.get(organizationId)?.values() ?? []).reverse()
        const spent = taken.reduce((sum, { micros }) => saturatingAdd(sum, micros), 0)
        return {
          balance: balanceOf(creditsOf(partners, organizationId), spent),
          movements: ledger.get(organizationId) ?? [],
          charges: taken
        }
      })
  }
}

const memoryTasks = (partners: Partners): MemoryTasks["Service"] => {
  const { ids, projects, tasks } = partners
  return {
    started: (sandbox, organizationId) =>
      Effect.asVoid(decided(partners, () => {
        const claimant = { recipientId: sandbox.createdBy, organizationId }
        const task: Task = {
          taskId: sandbox.id,
          projectId: projectFor(projects.values(), organizationId, sandbox.repos[0]?.fullName ?? ""),
          touch: touchOf(partners, ofRecipient(claimant))
        }
        return Result.succeed({ task, tell: startTask(task, sandbox.createdAt) })
      }, ({ task }) => tasks.set(sandbox.id, task))),
    opened: (sandboxId, pull, at) => {
      const task = tasks.get(sandboxId)
      return task === undefined ? Effect.void : tellAll(partners, openPullRequest(task, pullRequestId(ids, pull), at), at)
    }
  }
}

const memoryCredits = (partners: Partners): MemoryCredits["Service"] => {
  const { access, charges } = partners
  return {
    organization: Effect.fnUntraced(function*(grantId) {
      const grants = access === null ? [] : yield* access.listGrants
      return grants.find(({ id }) => id === grantId)?.organizationId ?? grantId
    }),
    of: (organizationId) => creditsOf(partners, organizationId),
    charged: (organizationId, { at, micros, sandboxId }) => {
      const taken = charges.get(organizationId) ?? new Map<SandboxId, CreditCharge>()
      const before = taken.get(sandboxId)?.micros ?? 0
      // The most recently charged sandbox comes last.
      taken.delete(sandboxId)
      charges.set(organizationId, taken.set(sandboxId, { sandboxId, micros: saturatingAdd(before, micros), at }))
    }
  }
}

/**
 * Process-local, for tests and for embedding without a database. The `SandboxStore` in memory reports tasks to it, and `Spending` in
 * memory reports used credits, if they are built on it. Without an `AccessStore` every grant exists. Writes of `decide` elsewhere are
 * not rolled back.
 */
export const layer = Layer.effectContext(
  Effect.gen(function*() {
    const partners = make(yield* Ids, Option.getOrNull(yield* Effect.serviceOption(AccessStore)))
    return Context.make(PartnerStore, partnerStore(partners)).pipe(
      Context.add(MemoryTasks, memoryTasks(partners)),
      Context.add(MemoryCredits, memoryCredits(partners)),
      Context.add(MemoryNotifications, makeNotifications())
    )
  })
)

/** Lets the stores in memory share a transaction: the sandbox store calls the partner store within its own. */
export class MemoryTasks extends Context.Service<MemoryTasks, {
  started(sandbox: Sandbox, organizationId: string): Effect.Effect<void>
  opened(sandboxId: string, pull: Pull, at: DateTime.Utc): Effect.Effect<void>
}>()("@slipway/domain/partner/MemoryTasks") {}

/** Lets the ledgers in memory share a balance: `Spending` draws on these credits. */
export class MemoryCredits extends Context.Service<MemoryCredits, {
  /** The grant's organization. An unknown grant is its own organization. */
  organization(grantId: string): Effect.Effect<string, StoreUnavailable>
  /** The credits of claims. */
  of(organizationId: string): number
  charged(organizationId: string, charge: CreditCharge): void
}>()("@slipway/domain/partner/MemoryCredits") {}
