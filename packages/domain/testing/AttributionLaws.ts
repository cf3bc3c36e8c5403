/**
 * What holds of attribution whatever facts come in and in which order. The laws run on the pure decisions, kept in maps
 * as simply as can be; `Book` is also a reference to compare a real store with.
 */
import { assert } from "@effect/vitest"
import { DateTime, Result, Schema } from "effect"
import {
  type Claim, claim, type Claimant, connectProject, createClaim, type FactConflict, type Invoice, type Offer, openPullRequest,
  payInvoice, type Project, startTask, type Task, type Touch
} from "../src/partner/Attribution.ts"
import { naturalId } from "../src/partner/PartnerEvent.ts"
import type { Telling } from "../src/partner/PartnerStore.ts"

const few = Schema.Literals([1, 2, 3])
const two = Schema.Literals([1, 2])
const minute = Schema.Literals([0, 10, 20, 60])

/** A fact about few things at few times, so that facts meet. */
export const Incoming = Schema.TaggedUnion({
  CreateClaim: { claim: few, grant: two, amount: two },
  Claim: { claim: few, recipient: two, organization: two },
  Connect: { project: few, recipient: two, organization: two, minute },
  Start: { task: few, recipient: two, organization: two },
  Open: { task: few, pull: few },
  Pay: { invoice: few, organization: two, kind: Schema.Literals(["subscription_initial", "subscription_renewal"]), amount: Schema.Literals([0, 9]), minute }
})
export type Incoming = typeof Incoming.Type

const uuid = (kind: number, n: number) => `00000000-0000-4000-800${kind}-${String(n).padStart(12, "0")}`
const epoch = DateTime.makeUnsafe("2026-11-21T02:00:00.000Z")
const at = (minutes: number) => DateTime.add(epoch, { minutes })
const organizationId = (n: number) => uuid(2, n)
const claimant = (recipient: number, organization: number): Claimant => ({ recipientId: `user-${recipient}`, organizationId: organizationId(organization) })
const keyOf = ({ organizationId, recipientId }: Claimant) => `${recipientId} in ${organizationId}`

/** Everything that attribution knows. Facts are recorded one a minute. */
export class Book {
  readonly claims = new Map<string, Claim>()
  readonly recipients = new Map<string, Touch>()
  readonly organizations = new Map<string, Touch>()
  readonly projects = new Map<string, Project>()
  readonly invoices = new Map<string, Invoice>()
  readonly paid = new Set<string>()
  readonly tasks = new Map<string, Task>()
  readonly pulls = new Set<string>()
  readonly credits = new Map<string, number>()
  readonly told: Array<Telling> = []
  now = 0

  /** `null`: there is nothing it could be about. */
  record(incoming: Incoming): Result.Result<unknown, FactConflict> | null {
    const now = at(this.now++)
    switch (incoming._tag) {
      case "CreateClaim": {
        const offer: Offer = {
          claimId: uuid(0, incoming.claim), grantId: uuid(1, incoming.grant), leadId: `lead-${incoming.claim}`, variant: "a", creditAmount: incoming.amount
        }
        return Result.map(createClaim(this.claims.get(offer.claimId) ?? null, offer, now), ({ claim, tell }) => {
          this.claims.set(offer.claimId, claim)
          this.told.push(...tell)
        })
      }
      case "Claim": {
        const known = this.claims.get(uuid(0, incoming.claim))
        if (known === undefined) return null
        const by = claimant(incoming.recipient, incoming.organization)
        const touches = { recipient: this.recipients.get(keyOf(by)) ?? null, organization: this.organizations.get(by.organizationId) ?? null }
        return Result.map(claim(known, by, touches, now), ({ claim, credits, tell, touch }) => {
          this.claims.set(claim.offer.claimId, claim)
          if (touch.recipient !== null) this.recipients.set(keyOf(by), touch.recipient)
          if (touch.organization !== null) this.organizations.set(by.organizationId, touch.organization)
          this.credits.set(by.organizationId, (this.credits.get(by.organizationId) ?? 0) + credits)
          this.told.push(...tell)
        })
      }
      case "Connect": {
        const by = claimant(incoming.recipient, incoming.organization)
        const project: Project = { projectId: `project-${incoming.project}`, ...by, repo: "acme/shop", connectedAt: at(incoming.minute) }
        const touch = this.recipients.get(keyOf(by)) ?? null
        return Result.map(connectProject(this.projects.get(project.projectId) ?? null, project, touch), ({ tell }) => {
          this.projects.set(project.projectId, project)
          this.told.push(...tell)
        })
      }
      case "Start": {
        const taskId = `task-${incoming.task}`
        if (this.tasks.has(taskId)) return null
        const touch = this.recipients.get(keyOf(claimant(incoming.recipient, incoming.organization))) ?? null
        const task: Task = { taskId, projectId: null, touch }
        this.tasks.set(taskId, task)
        this.told.push(...startTask(task, now))
        return Result.succeed(task)
      }
      case "Open": {
        const task = this.tasks.get(`task-${incoming.task}`)
        const id = uuid(3, incoming.pull)
        if (task === undefined || this.pulls.has(id)) return null
        this.pulls.add(id)
        this.told.push(...openPullRequest(task, id, now))
        return Result.succeed(task)
      }
      case "Pay": {
        const { amount, invoice: n, kind, minute, organization: number } = incoming
        const organization = organizationId(number)
        const invoice: Invoice = { invoiceId: `invoice-${n}`, organizationId: organization, kind, amountMinor: amount, currency: "EUR", paidAt: at(minute) }
        const known = { touch: this.organizations.get(organization) ?? null, paid: this.paid.has(organization) }
        return Result.map(payInvoice(this.invoices.get(invoice.invoiceId) ?? null, invoice, known, uuid(4, number)), ({ paid, tell }) => {
          this.invoices.set(invoice.invoiceId, invoice)
          if (paid) this.paid.add(organization)
          this.told.push(...tell)
        })
      }
    }
  }

  /** All of it but the clock, to compare. */
  get content() {
    const { now: _, ...kept } = this
    return structuredClone(Object.fromEntries(Object.entries(kept).map(([name, value]) => [name, JSON.stringify([...value])])))
  }
}

/** A sentence that holds of every sequence of facts. `holds` throws when it does not. */
export interface AttributionLaw {
  readonly name: string
  holds(facts: ReadonlyArray<Incoming>): void
}

const recorded = (facts: ReadonlyArray<Incoming>) => {
  const book = new Book()
  for (const fact of facts) book.record(fact)
  return book
}

const claimsInOrder = (book: Book) =>
  [...book.claims.values()]
    .flatMap(({ claimed, offer }) => claimed === null ? [] : [{ claimed, offer }])
    .sort((a, b) => DateTime.Order(a.claimed.at, b.claimed.at))

/** Of the pure decisions of attribution. */
export const attributionLaws: ReadonlyArray<AttributionLaw> = [
  {
    name: "a touch is the first claim claimed for its key, of whichever grant, and never changes",
    holds: (facts) => {
      const book = new Book()
      const seen = new Map<string, Touch>()
      for (const fact of facts) {
        book.record(fact)
        for (const [key, touch] of [...book.recipients, ...book.organizations]) {
          assert.strictEqual(touch, seen.get(key) ?? touch)
          seen.set(key, touch)
        }
      }
      const claims = claimsInOrder(book)
      for (const [key, { claimId, grantId }] of book.recipients) {
        assert.deepInclude(claims.find(({ claimed }) => keyOf(claimed) === key)?.offer, { claimId, grantId })
      }
      for (const [key, { claimId, grantId }] of book.organizations) {
        assert.deepInclude(claims.find(({ claimed }) => claimed.organizationId === key)?.offer, { claimId, grantId })
      }
      for (const { claimed } of claims) {
        assert.isTrue(book.recipients.has(keyOf(claimed)))
        assert.isTrue(book.organizations.has(claimed.organizationId))
      }
    }
  },
  {
    name: "a feed hears only of claims of its own grant, and of nothing twice",
    holds: (facts) => {
      const book = recorded(facts)
      for (const { fact, grantId } of book.told) assert.strictEqual(book.claims.get(fact.data.claimId)?.offer.grantId, grantId)
      const told = book.told.map(({ fact }) => `${fact.type} ${naturalId(fact)}`)
      assert.strictEqual(new Set(told).size, told.length)
    }
  },
  {
    name: "a claim is claimed once, and credits its organization once",
    holds: (facts) => {
      const book = recorded(facts)
      const expected = new Map<string, number>()
      for (const { claimed, offer } of claimsInOrder(book)) {
        expected.set(claimed.organizationId, (expected.get(claimed.organizationId) ?? 0) + offer.creditAmount)
      }
      assert.deepStrictEqual(book.credits, expected)
    }
  },
  {
    name: "a fact that is repeated changes nothing",
    holds: (facts) => {
      const book = new Book()
      for (const fact of facts) {
        if (book.record(fact) === null) continue
        const before = book.content
        book.record(fact)
        assert.deepStrictEqual(book.content, before)
      }
    }
  },
  {
    name: "a fact that contradicts an earlier one changes nothing",
    holds: (facts) => {
      const book = new Book()
      for (const fact of facts) {
        const before = book.content
        const result = book.record(fact)
        if (result !== null && Result.isFailure(result)) assert.deepStrictEqual(book.content, before)
      }
    }
  },
  {
    name: "nothing that happened before its claim was claimed counts for it",
    holds: (facts) => {
      const book = recorded(facts)
      for (const { fact: { data } } of book.told) {
        if (!("occurredAt" in data)) continue
        const claimed = book.claims.get(data.claimId)?.claimed
        assert.isTrue(claimed !== undefined && claimed !== null && DateTime.isGreaterThanOrEqualTo(data.occurredAt, claimed.at))
      }
    }
  },
  {
    name: "an organization converts at most once, by the first initial payment that was recorded",
    holds: (facts) => {
      const book = new Book()
      const first = new Map<string, string>()
      for (const fact of facts) {
        const before = book.told.length
        const result = book.record(fact)
        const told = book.told.slice(before).filter(({ fact: { type } }) => type === "conversion.paid")
        if (fact._tag !== "Pay" || result === null || Result.isFailure(result)) {
          assert.strictEqual(told.length, 0)
          continue
        }
        const counts = fact.kind === "subscription_initial" && fact.amount > 0
        const organization = organizationId(fact.organization)
        if (!counts || first.has(organization)) assert.strictEqual(told.length, 0)
        if (counts && !first.has(organization)) first.set(organization, `${fact.invoice}`)
      }
      assert.deepStrictEqual([...first.keys()].sort(), [...book.paid].sort())
    }
  }
]
