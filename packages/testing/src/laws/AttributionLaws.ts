/**
 * The laws of attribution, for any facts in any order. The laws run on the pure decisions, kept in maps as simply as can be; `Book` is also
 * a reference to compare a real store with.
 */
import { Ids } from "@slipway/domain/ids/Ids"
import { ID_ALPHABET, SandboxId } from "@slipway/domain/ids/SandboxId"
import { PartnerStore, type Telling } from "@slipway/domain/partner/ports/PartnerStore"
import {
  type Claim,
  claim,
  type Claimant,
  connectProject,
  conversionId,
  createClaim,
  type FactConflict,
  type Invoice,
  type ClaimTerms,
  openPullRequest,
  payInvoice,
  type Project,
  projectFor,
  pullRequestId,
  type Recorded,
  startTask,
  type Task,
  type Touch
} from "@slipway/domain/partner/rules/Attribution"
import { naturalId, type PartnerFact } from "@slipway/domain/partner/schema/PartnerEvent"
import { OpenedPull, TaskOrganization } from "@slipway/domain/sandbox/ports/SandboxFacts"
import { SandboxStore } from "@slipway/domain/sandbox/ports/SandboxStore"
import type { Pull } from "@slipway/domain/source/schema/PullRequest"
import * as Arbitrary from "effect/Arbitrary"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { PartnerFixture } from "../contracts/partner/PartnerStoreContract.ts"
import { creation } from "../histories/Histories.ts"
import { assert } from "../suite/Assert.ts"
import { define } from "../suite/Suite.ts"

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
  Pay: {
    invoice: few,
    organization: two,
    kind: Schema.Literals(["subscription_initial", "subscription_renewal"]),
    amount: Schema.Literals([0, 9]),
    minute
  }
})
export type Incoming = typeof Incoming.Type

/** The ids behind the small numbers of the facts, and the times behind their minutes. */
export interface World {
  readonly ids: Pick<Ids["Service"], "derive">
  readonly claim: (n: number) => string
  readonly grant: (n: number) => string
  readonly organization: (n: number) => string
  readonly recipient: (n: number) => string
  readonly project: (n: number) => string
  readonly task: (n: number) => SandboxId
  readonly invoice: (n: number) => string
  readonly at: (minute: number) => DateTime.Utc
}

const uuid = (kind: number, n: number) => `00000000-0000-4000-800${kind}-${String(n).padStart(12, "0")}`
const epoch = DateTime.makeUnsafe("2026-11-21T02:00:00.000Z")

/** Each is recorded a minute after the one before. */
const plain: World = {
  ids: { derive: (name) => name },
  claim: (n) => uuid(0, n),
  grant: (n) => uuid(1, n),
  organization: (n) => uuid(2, n),
  recipient: (n) => `user-${n}`,
  project: (n) => `project-${n}`,
  task: (n) => SandboxId.make(`c_aaaaaaaaaaa${"xyz"[n - 1]}`),
  invoice: (n) => `invoice-${n}`,
  at: (minute) => DateTime.add(epoch, { minutes: minute })
}

const keyOf = ({ organizationId, recipientId }: Claimant) => `${recipientId} in ${organizationId}`
const REPO = "acme/shop"

/** The facts as the decisions and the stores take them. */
const translate = (world: World) => ({
  terms: ({ amount, claim: n, grant }: Extract<Incoming, { readonly _tag: "CreateClaim" }>): ClaimTerms => ({
    claimId: world.claim(n),
    grantId: world.grant(grant),
    leadId: `lead-${n}`,
    variant: "a",
    creditAmount: amount
  }),
  claimant: ({ organization, recipient }: { readonly organization: number; readonly recipient: number }): Claimant => ({
    recipientId: world.recipient(recipient),
    organizationId: world.organization(organization)
  }),
  project: (fact: Extract<Incoming, { readonly _tag: "Connect" }>): Project => ({
    projectId: world.project(fact.project),
    ...translate(world).claimant(fact),
    repo: fact.project === 3 ? "acme/docs" : "Acme/Shop",
    connectedAt: world.at(fact.minute)
  }),
  pull: ({ pull, task }: Extract<Incoming, { readonly _tag: "Open" }>): Pull => ({
    host: "memory",
    repo: `${REPO}-${world.task(task)}`,
    number: pull
  }),
  invoice: ({ amount, invoice, kind, minute, organization }: Extract<Incoming, { readonly _tag: "Pay" }>): Invoice => ({
    invoiceId: world.invoice(invoice),
    organizationId: world.organization(organization),
    kind,
    amountMinor: amount,
    currency: "EUR",
    paidAt: world.at(minute)
  })
})

/** Everything that attribution knows. */
class Book {
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
  readonly #world: World

  constructor(world: World = plain) {
    this.#world = world
  }

  /** `null`: there is nothing it could be about. */
  record(incoming: Incoming): Result.Result<Recorded, FactConflict> | null {
    const world = this.#world
    const as = translate(world)
    const now = DateTime.add(epoch, { minutes: this.now++ })
    switch (incoming._tag) {
      case "CreateClaim": {
        const terms = as.terms(incoming)
        return Result.map(createClaim(this.claims.get(terms.claimId) ?? null, terms, now), ({ claim, recorded, tell }) => {
          this.claims.set(terms.claimId, claim)
          this.told.push(...tell)
          return recorded
        })
      }
      case "Claim": {
        const known = this.claims.get(world.claim(incoming.claim))
        if (known === undefined) return null
        const by = as.claimant(incoming)
        const touches = {
          recipient: this.recipients.get(keyOf(by)) ?? null,
          organization: this.organizations.get(by.organizationId) ?? null
        }
        return Result.map(claim(known, by, touches, now), ({ claim, credits, recorded, tell, touch }) => {
          this.claims.set(claim.terms.claimId, claim)
          if (touch.recipient !== null) this.recipients.set(keyOf(by), touch.recipient)
          if (touch.organization !== null) this.organizations.set(by.organizationId, touch.organization)
          this.credits.set(by.organizationId, (this.credits.get(by.organizationId) ?? 0) + credits)
          this.told.push(...tell)
          return recorded
        })
      }
      case "Connect": {
        const project = as.project(incoming)
        const touch = this.recipients.get(keyOf(project)) ?? null
        return Result.map(connectProject(this.projects.get(project.projectId) ?? null, project, touch), ({ recorded, tell }) => {
          this.projects.set(project.projectId, project)
          this.told.push(...tell)
          return recorded
        })
      }
      case "Start": {
        const taskId = world.task(incoming.task)
        if (this.tasks.has(taskId)) return null
        const by = as.claimant(incoming)
        const task: Task = {
          taskId,
          projectId: projectFor(this.projects.values(), by.organizationId, REPO),
          touch: this.recipients.get(keyOf(by)) ?? null
        }
        this.tasks.set(taskId, task)
        this.told.push(...startTask(task, now))
        return Result.succeed("new")
      }
      case "Open": {
        const task = this.tasks.get(world.task(incoming.task))
        const id = pullRequestId(world.ids, as.pull(incoming))
        if (task === undefined || this.pulls.has(id)) return null
        this.pulls.add(id)
        this.told.push(...openPullRequest(task, id, now))
        return Result.succeed("new")
      }
      case "Pay": {
        const invoice = as.invoice(incoming)
        const { organizationId } = invoice
        const known = { touch: this.organizations.get(organizationId) ?? null, paid: this.paid.has(organizationId) }
        const id = conversionId(world.ids, organizationId)
        return Result.map(payInvoice(this.invoices.get(invoice.invoiceId) ?? null, invoice, known, id), ({ paid, recorded, tell }) => {
          this.invoices.set(invoice.invoiceId, invoice)
          if (paid) this.paid.add(organizationId)
          this.told.push(...tell)
          return recorded
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
    .flatMap(({ claimed, terms }) => claimed === null ? [] : [{ claimed, terms }])
    .sort((a, b) => DateTime.Order(a.claimed.at, b.claimed.at))

/** Laws of the pure decisions of attribution. */
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
        assert.deepInclude(claims.find(({ claimed }) => keyOf(claimed) === key)?.terms, { claimId, grantId })
      }
      for (const [key, { claimId, grantId }] of book.organizations) {
        assert.deepInclude(claims.find(({ claimed }) => claimed.organizationId === key)?.terms, { claimId, grantId })
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
      for (const { fact, grantId } of book.told) assert.strictEqual(book.claims.get(fact.data.claimId)?.terms.grantId, grantId)
      const told = book.told.map(({ fact }) => `${fact.type} ${naturalId(fact)}`)
      assert.strictEqual(new Set(told).size, told.length)
    }
  },
  {
    name: "a claim is claimed once, and credits its organization once",
    holds: (facts) => {
      const book = recorded(facts)
      const expected = new Map<string, number>()
      for (const { claimed, terms } of claimsInOrder(book)) {
        expected.set(claimed.organizationId, (expected.get(claimed.organizationId) ?? 0) + terms.creditAmount)
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
        const organization = plain.organization(fact.organization)
        if (!counts || first.has(organization)) assert.strictEqual(told.length, 0)
        if (counts && !first.has(organization)) first.set(organization, `${fact.invoice}`)
      }
      assert.deepStrictEqual([...first.keys()].sort(), [...book.paid].sort())
    }
  }
]

// ---------------------------------------------------------------------------------------------------------------
// Stores

type Attributing = PartnerStore | SandboxStore | PartnerFixture | Ids

/**
 * Ids of its own for every run. A store may have a clock of tests, which begins in 1970: whatever has a minute up to 10 happened
 * before any claim, the rest after all of them.
 */
const newWorld = Effect.gen(function*() {
  const ids = yield* Ids
  const fixture = yield* PartnerFixture
  const grants = [yield* fixture.grant, yield* fixture.grant]
  const tasks = yield* Effect.forEach([1, 2, 3], () => Effect.map(ids.random(ID_ALPHABET, 12), (id) => SandboxId.make(`c_${id}`)))
  const run = yield* ids.uuid7
  const named = (kind: string) => (n: number) => ids.derive(`${run} ${kind} ${n}`)
  const of = <A>(all: ReadonlyArray<A>, n: number) => all[n - 1] ?? assert.fail(`there is no ${n}`)
  const world: World = {
    ids,
    claim: named("claim"),
    grant: (n) => of(grants, n),
    organization: named("organization"),
    recipient: named("recipient"),
    project: named("project"),
    task: (n) => of(tasks, n),
    invoice: named("invoice"),
    at: (minute) => DateTime.makeUnsafe(minute <= 10 ? "1960-01-01T00:00:00.500Z" : "2190-01-01T00:00:00.500Z")
  }
  return world
})

/** Tells a store what a `Book` would be told. Comes to the same words as {@link said}. */
const tellStore = Effect.fnUntraced(function*(world: World, incoming: Incoming) {
  const partners = yield* PartnerStore
  const sandboxes = yield* SandboxStore
  const as = translate(world)
  const recorded = Effect.gen(function*() {
    switch (incoming._tag) {
      case "CreateClaim":
        return (yield* partners.createClaim(as.terms(incoming))).recorded
      case "Claim":
        return (yield* partners.claim(world.claim(incoming.claim), as.claimant(incoming))).recorded
      case "Connect":
        return yield* partners.connectProject(as.project(incoming))
      case "Pay":
        return yield* partners.payInvoice(as.invoice(incoming))
      case "Start": {
        const { organizationId, recipientId } = as.claimant(incoming)
        const task = {
          ...creation,
          id: world.task(incoming.task),
          grantId: world.grant(1),
          createdBy: recipientId,
          repos: [{ fullName: REPO }]
        }
        yield* Effect.provideService(sandboxes.create({ creation: task, keyed: null }), TaskOrganization, organizationId)
        return "new"
      }
      case "Open": {
        const pull = as.pull(incoming)
        const data = { repo: REPO, action_state: "idle" as const, number: pull.number }
        yield* sandboxes.change(
          world.task(incoming.task),
          "policy",
          () => Result.succeed([{ type: "pull_request.updated", data }]),
          epoch
        ).pipe(Effect.provideService(OpenedPull, pull))
        return "new"
      }
    }
  })
  return yield* recorded.pipe(
    Effect.catchTag("FactConflict", () => Effect.succeed("conflict")),
    Effect.catchTag(["ClaimNotFound", "SandboxIdTaken", "SandboxNotFound"], () => Effect.succeed("nothing"))
  )
})

/** A repeated pull request is nothing new to the book, and a change like any other to the sandbox. */
const said = (incoming: Incoming, result: ReturnType<Book["record"]>): string =>
  result === null ? incoming._tag === "Open" ? "new or nothing" : "nothing" : Result.isFailure(result) ? "conflict" : result.success
const fits = (word: string, expected: string) =>
  word === expected || expected === "new or nothing" && (word === "new" || word === "nothing")

/** The content of a feed, without ids and times of its own. */
const gist = ({ data, type }: PartnerFact) => ({
  type,
  about: naturalId({ data, type } as PartnerFact),
  claimId: data.claimId,
  project: "projectId" in data ? data.projectId : null
})

const TWO: ReadonlyArray<number> = [1, 2]

const outcomeOf = Effect.fnUntraced(function*(world: World) {
  const store = yield* PartnerStore
  return {
    feeds: yield* Effect.forEach(TWO, (n) =>
      Effect.map(store.feed(world.grant(n), 0, 1000), (events) => {
        assert.deepStrictEqual(events.map(({ sequence }) => sequence), events.map((_, i) => i + 1))
        return events.map(gist)
      })),
    credits: yield* Effect.forEach(TWO, (n) =>
      Effect.map(store.credits(world.organization(n)), ({ balance, movements }) => {
        assert.strictEqual(movements.reduce((sum, { credits }) => sum + credits, 0), balance)
        return balance
      })),
    claimed: yield* Effect.forEach(
      TWO,
      (n) =>
        Effect.map(
          store.claims(world.grant(n)),
          (claims) => claims.map(({ claimed, terms }) => `${terms.claimId} ${claimed === null ? null : keyOf(claimed)}`).sort()
        )
    )
  }
})
const expectedOf = (world: World, book: Book): Effect.Success<ReturnType<typeof outcomeOf>> => ({
  feeds: TWO.map((n) => book.told.filter(({ grantId }) => grantId === world.grant(n)).map(({ fact }) => gist(fact))),
  credits: TWO.map((n) => book.credits.get(world.organization(n)) ?? 0),
  claimed: TWO.map((n) =>
    Array.from(book.claims.values()).filter(({ terms }) => terms.grantId === world.grant(n))
      .map(({ claimed, terms }) => `${terms.claimId} ${claimed === null ? null : keyOf(claimed)}`).sort()
  )
})

const orders = <A>(all: ReadonlyArray<A>): ReadonlyArray<ReadonlyArray<A>> =>
  all.length === 0 ? [[]] : all.flatMap((first, i) => orders(all.toSpliced(i, 1)).map((rest) => [first, ...rest]))

const Facts = (maximum: number) => Arbitrary.array(Arbitrary.schema(Incoming), { maxLength: maximum })

/** Runs the laws of attribution against a layer, with the fixture of the contract suite. */
export const checkAttribution = (name: string, layer: Layer.Layer<Attributing, unknown>, runs = 40) =>
  define(`Laws of attribution (${name})`, layer, (it) => {
    it.effect.prop("facts one after the other give what the decisions give", [Facts(25)], ([facts]) =>
      Effect.gen(function*() {
        const world = yield* newWorld
        const book = new Book(world)
        for (const fact of facts) {
          const word = yield* tellStore(world, fact)
          const expected = said(fact, book.record(fact))
          assert.isTrue(fits(word, expected), `${JSON.stringify(fact)} was ${word} and not ${expected}`)
        }
        assert.deepStrictEqual(yield* outcomeOf(world), expectedOf(world, book))
      }), { arbitrary: { runs } })

    it.effect.prop(
      "facts at once give what the decisions give in some order",
      [Facts(10), Facts(5)],
      ([before, together]) =>
        Effect.gen(function*() {
          const world = yield* newWorld
          for (const fact of before) yield* tellStore(world, fact)
          const words = yield* Effect.forEach(together, (fact) => tellStore(world, fact), { concurrency: "unbounded" })
          const outcome = JSON.stringify(yield* outcomeOf(world))
          const explained = orders(together.map((fact, i) => ({ fact, word: words[i] ?? "" }))).some((order) => {
            const book = new Book(world)
            for (const fact of before) book.record(fact)
            return order.every(({ fact, word }) => fits(word, said(fact, book.record(fact)))) &&
              JSON.stringify(expectedOf(world, book)) === outcome
          })
          assert.isTrue(explained, `no order gives ${outcome} with ${words.join(", ")}`)
        }),
      { arbitrary: { runs } }
    )
  })
