/**
 * The rules that every `PartnerStore` must keep. An adapter proves itself by running this suite against its layer; a rule that is missing
 * here is not part of the port. Fresh ids make it repeatable on one database.
 */
import { Ids } from "@slipway/domain/ids/Ids"
import { ID_ALPHABET, SandboxId } from "@slipway/domain/ids/SandboxId"
import { PartnerStore, type Telling } from "@slipway/domain/partner/ports/PartnerStore"
import {
  type Claimant,
  conversionId,
  type Invoice,
  type ClaimTerms,
  type Project,
  pullRequestId
} from "@slipway/domain/partner/rules/Attribution"
import type { PartnerFact } from "@slipway/domain/partner/schema/PartnerEvent"
import { OpenedPull, TaskOrganization } from "@slipway/domain/sandbox/ports/SandboxFacts"
import { type CreationRequest, SandboxStore } from "@slipway/domain/sandbox/ports/SandboxStore"
import { IdempotencyKey } from "@slipway/domain/sandbox/schema/Idempotency"
import * as Context from "effect/Context"
import * as DateTime from "effect/DateTime"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import type * as Layer from "effect/Layer"
import * as Result from "effect/Result"
import { creation } from "../../histories/Histories.ts"
import { assert } from "../../suite/Assert.ts"
import { define, type Writer } from "../../suite/Suite.ts"

/** Operations that a test needs and the port lacks; the adapter under test provides them. */
export class PartnerFixture extends Context.Service<PartnerFixture, {
  /** Id of a new grant that may have a feed. */
  readonly grant: Effect.Effect<string>
  /** Keeps the transaction it is part of open for a moment. */
  readonly linger: Effect.Effect<void>
  /** Records in a transaction that is rolled back afterwards. */
  rolledBack(tell: ReadonlyArray<Telling>): Effect.Effect<void>
  /** Does `second` in a transaction that begins while the one of `first` is open, and commits after it. */
  overlapping<E, R>(first: Effect.Effect<unknown, E, R>, second: Effect.Effect<unknown, E, R>): Effect.Effect<void, E, R>
}>()("@slipway/testing/PartnerFixture") {}

const WRITERS = 16

/** An event as a reader saw it: its number, and which fact it is. */
export interface Seen {
  readonly sequence: number
  readonly n: number
}

/** Follows a feed until it `isOver` and nothing comes any more. Says what it saw, in that order. */
export type Reader<E> = (isOver: Effect.Effect<boolean>) => Effect.Effect<ReadonlyArray<Seen>, E>

/** Keeps its cursor in memory. */
export const reader = <E>(read: (after: number) => Effect.Effect<ReadonlyArray<Seen>, E>): Reader<E> =>
  Effect.fnUntraced(function*(isOver) {
    const seen: Array<Seen> = []
    for (;;) {
      const last = yield* isOver
      const page = yield* read(seen.at(-1)?.sequence ?? 0)
      seen.push(...page)
      if (last && page.length === 0) return seen
      yield* Effect.yieldNow
    }
  })

/** One feed under fire. `write(n, kept)` commits the fact `n`, or rolls it back. */
export interface Contested<E> {
  write(n: number, kept: boolean): Effect.Effect<void, E>
  readonly readers: ReadonlyArray<Reader<E>>
}

/**
 * Many write at once and a tenth of it is rolled back, while readers follow by their cursor until the writers have
 * ended and nothing comes any more. What is wrong with what they saw, in words; `null`: nothing.
 */
export const faultOf = Effect.fnUntraced(function*<E>({ readers, write }: Contested<E>, each = 10) {
  const over = yield* Deferred.make<void>()
  const isKept = (n: number) => n % 10 !== 3
  const reading = yield* Effect.forEach(readers, (reader) => Effect.forkChild(reader(Deferred.isDone(over))))
  yield* Effect.forEach(
    Array.from({ length: WRITERS }, (_, w) => w),
    (w) => Effect.forEach(Array.from({ length: each }, (_, i) => w * each + i), (n) => write(n, isKept(n))),
    { concurrency: "unbounded" }
  )
  yield* Deferred.succeed(over, undefined)
  const expected = Array.from({ length: WRITERS * each }, (_, n) => n).filter(isKept)
  for (const seen of yield* Effect.forEach(reading, Fiber.join)) {
    const numbers = seen.map(({ n }) => n)
    const known = new Set(numbers)
    const missed = expected.filter((n) => !known.has(n))
    if (missed.length > 0) return `a reader missed ${missed.join(", ")}`
    if (numbers.length > expected.length) return "a reader saw what was rolled back, or one event twice"
    if (seen.some(({ sequence }, i) => sequence !== i + 1)) return `the numbers are ${seen.map(({ sequence }) => sequence).join(", ")}`
    const last = new Map<number, number>()
    for (const n of numbers) {
      const writer = Math.floor(n / each)
      if (n < (last.get(writer) ?? 0)) return `${n} came after what its writer wrote later`
      last.set(writer, n)
    }
  }
  return null
})

const at = DateTime.makeUnsafe("2026-11-21T02:41:00.123Z")
/** After any claim. */
const later = DateTime.makeUnsafe("2190-01-01T00:00:00.123Z")

/** A new claim and somebody who may claim it, none of whom anything is known of. */
const strangers = Effect.gen(function*() {
  const ids = yield* Ids
  const claimant: Claimant = { recipientId: `user \u{1F680} ${yield* ids.ulid}`, organizationId: yield* ids.uuid7 }
  return { terms: yield* newTerms(), claimant }
})
const newTerms = Effect.fnUntraced(function*(more: Partial<ClaimTerms> = {}) {
  const terms: ClaimTerms = {
    claimId: yield* (yield* Ids).uuid7,
    grantId: more.grantId ?? (yield* (yield* PartnerFixture).grant),
    leadId: "lead \u{1F680}",
    variant: "a 'quoted' \\ variant",
    creditAmount: 500,
    ...more
  }
  return terms
})
/** The claimant of a new claim that was claimed. */
const attributed = Effect.gen(function*() {
  const store = yield* PartnerStore
  const { claimant, terms } = yield* strangers
  yield* store.createClaim(terms)
  const { claim } = yield* store.claim(terms.claimId, claimant)
  return { claimant, terms, claimedAt: claim.claimed?.at ?? at }
})
const projectOf = Effect.fnUntraced(function*(by: Claimant, more: Partial<Project> = {}) {
  const project: Project = { projectId: yield* (yield* Ids).uuid7, ...by, repo: "acme/shop", connectedAt: later, ...more }
  return project
})
const invoiceOf = Effect.fnUntraced(function*({ organizationId }: Claimant, more: Partial<Invoice> = {}) {
  const invoice: Invoice = {
    invoiceId: yield* (yield* Ids).uuid7,
    organizationId,
    kind: "subscription_initial",
    amountMinor: 900,
    currency: "EUR",
    paidAt: later,
    ...more
  }
  return invoice
})
/** Creates a sandbox of that user in that organization; on a grant of its own. */
const start = Effect.fnUntraced(function*({ organizationId, recipientId }: Claimant, key: string | null = null, grantId?: string) {
  const store = yield* SandboxStore
  const task = {
    ...creation,
    id: SandboxId.make(`c_${yield* (yield* Ids).random(ID_ALPHABET, 12)}`),
    grantId: grantId ?? (yield* (yield* PartnerFixture).grant),
    createdBy: recipientId,
    repos: [{ fullName: "Acme/Shop" }, { fullName: "acme/docs" }]
  }
  yield* store.create({
    creation: task,
    keyed: key === null ? null : { key: IdempotencyKey.make(key), fingerprint: "1:a" }
  }).pipe(Effect.provideService(TaskOrganization, organizationId))
  return task
})
const open = Effect.fnUntraced(function*(id: SandboxId, number: number, told = true) {
  const store = yield* SandboxStore
  const data = { repo: "acme/shop", action_state: "idle" as const, number }
  const pull = { host: "memory", repo: "acme/shop", number }
  yield* store.change(id, "policy", () => Result.succeed(told ? [{ type: "pull_request.updated", data }] : []), at).pipe(
    Effect.provideService(OpenedPull, pull)
  )
  return pullRequestId(yield* Ids, pull)
})
/** The feed but for what {@link attributed} put there. */
const toldOf = Effect.fnUntraced(function*({ grantId }: ClaimTerms) {
  const events = yield* (yield* PartnerStore).feed(grantId, 0, 1000)
  return events.filter(({ type }) => !type.startsWith("credit_claim")).map(({ data, type }) => ({ type, data }))
})

const lead = ({ claimId, leadId, variant }: ClaimTerms) => ({ claimId, leadId, variant })

const terms = { leadId: "lead \u{1F680}", variant: "a 'quoted' \\ variant" }

const factOf = (ids: Ids["Service"], n: number | string): PartnerFact => ({
  type: "task.started",
  data: { ...terms, claimId: ids.derive("claim"), occurredAt: at, taskId: `${n}`, projectId: null }
})

const tell = Effect.fnUntraced(function*(...tell: ReadonlyArray<Telling>) {
  const store = yield* PartnerStore
  yield* store.record(Effect.succeed({ result: undefined, tell }), at)
})

const feedOf = (grantId: string, after = 0, limit = 100) => Effect.flatMap(PartnerStore, (store) => store.feed(grantId, after, limit))

const claims = (it: Writer<PartnerStore | SandboxStore | Ids | PartnerFixture>) => {
  it.effect("a claim is created once: an equal one is known, another one is a conflict", () =>
    Effect.gen(function*() {
      const store = yield* PartnerStore
      const terms = yield* newTerms({ creditAmount: Number.MAX_SAFE_INTEGER })
      const made = yield* store.createClaim(terms)
      assert.deepStrictEqual([made.recorded, made.claim.terms, made.claim.claimed], ["new", terms, null])
      assert.deepStrictEqual(yield* store.createClaim({ ...terms }), { ...made, recorded: "known" })
      for (const change of [{ leadId: "x" }, { variant: "x" }, { creditAmount: 1 }, { grantId: yield* (yield* PartnerFixture).grant }]) {
        assert.strictEqual((yield* Effect.flip(store.createClaim({ ...terms, ...change })))._tag, "FactConflict")
      }
      const { createdAt } = made.claim
      assert.deepStrictEqual((yield* store.feed(terms.grantId, 0, 10)).map(({ createdAt, data, type }) => ({ createdAt, data, type })), [{
        createdAt,
        type: "credit_claim.created",
        data: { ...lead(terms), creditAmount: terms.creditAmount, createdAt, status: "pending", claimedAt: null }
      }])
    }))

  it.effect("a claim of a grant that is not there is refused and leaves its id free", () =>
    Effect.gen(function*() {
      const store = yield* PartnerStore
      const terms = yield* newTerms()
      const unknown = yield* (yield* Ids).uuid7
      assert.deepInclude(yield* Effect.flip(store.createClaim({ ...terms, grantId: unknown })), { _tag: "GrantNotFound", grant: unknown })
      assert.strictEqual((yield* store.createClaim(terms)).recorded, "new")
    }))

  it.effect("a claim is claimed once, with its credits and a movement of them; repeating it changes nothing", () =>
    Effect.gen(function*() {
      const store = yield* PartnerStore
      const { claimant, terms } = yield* strangers
      assert.deepInclude(yield* Effect.flip(store.claim(terms.claimId, claimant)), { _tag: "ClaimNotFound" })
      const { claim: { createdAt } } = yield* store.createClaim(terms)
      assert.deepStrictEqual(yield* store.credits(claimant.organizationId), { balance: 0, movements: [], charges: [] })
      const claimings = yield* Effect.forEach(Array.from({ length: 6 }), () => store.claim(terms.claimId, claimant), {
        concurrency: "unbounded"
      })
      assert.deepStrictEqual(claimings.map(({ recorded }) => recorded).sort(), ["known", "known", "known", "known", "known", "new"])
      const [claim] = yield* store.claims(terms.grantId)
      const claimedAt = claim?.claimed?.at ?? at
      assert.isTrue(DateTime.isGreaterThanOrEqualTo(claimedAt, createdAt))
      assert.deepStrictEqual(claim, { terms, createdAt, claimed: { ...claimant, at: claimedAt } })
      for (const claiming of claimings) assert.deepStrictEqual(claiming.claim, claim)
      for (const other of [{ recipientId: "x" }, { organizationId: terms.claimId }]) {
        assert.strictEqual((yield* Effect.flip(store.claim(terms.claimId, { ...claimant, ...other })))._tag, "FactConflict")
      }
      assert.deepStrictEqual(yield* store.credits(claimant.organizationId), {
        balance: 500,
        movements: [{ claimId: terms.claimId, credits: 500, at: claimedAt }],
        charges: []
      })
      assert.deepStrictEqual((yield* store.feed(terms.grantId, 1, 10)).map(({ createdAt, data }) => ({ createdAt, data })), [{
        createdAt: claimedAt,
        data: { ...lead(terms), creditAmount: 500, createdAt, status: "claimed", claimedAt }
      }])
    }))

  it.effect("the first of many claims is the touch, and all of them give their credits", () =>
    Effect.gen(function*() {
      const store = yield* PartnerStore
      const { claimant } = yield* strangers
      const offers = yield* Effect.forEach(Array.from({ length: 12 }), () => newTerms({ creditAmount: 7 }))
      yield* Effect.forEach(offers, (terms) => store.createClaim(terms))
      yield* Effect.forEach(offers, ({ claimId }) => store.claim(claimId, claimant), { concurrency: "unbounded" })
      const { balance, movements } = yield* store.credits(claimant.organizationId)
      assert.deepStrictEqual([balance, movements.length], [84, 12])
      yield* store.connectProject(yield* projectOf(claimant))
      yield* store.payInvoice(yield* invoiceOf(claimant))
      const winners = yield* Effect.filter(offers, (terms) => Effect.map(toldOf(terms), (told) => told.length > 0))
      assert.strictEqual(winners.length, 1)
      const [winner] = winners
      assert.deepStrictEqual((yield* toldOf(winner as ClaimTerms)).map(({ data, type }) => [type, data.claimId]), [
        ["project.connected", winner?.claimId],
        ["conversion.paid", winner?.claimId]
      ])
    }))

  it.effect("lists claims newest first, all of them or a grant's", () =>
    Effect.gen(function*() {
      const store = yield* PartnerStore
      const offers = [yield* newTerms(), yield* newTerms()]
      for (const terms of offers) yield* store.createClaim(terms)
      assert.deepStrictEqual((yield* store.claims(offers[1]?.grantId ?? "")).map(({ terms }) => terms), offers.slice(1))
      const mine = new Set(offers.map(({ claimId }) => claimId))
      const listed = (yield* store.claims(null)).filter(({ terms }) => mine.has(terms.claimId))
      assert.deepStrictEqual(listed.map(({ terms }) => terms), offers.toReversed())
    }))
}

const conversions = (it: Writer<PartnerStore | SandboxStore | Ids | PartnerFixture>) => {
  it.effect("a later claim gives its credits and takes no touch from the first", () =>
    Effect.gen(function*() {
      const store = yield* PartnerStore
      const { claimant, terms } = yield* attributed
      const second = yield* newTerms()
      yield* store.createClaim(second)
      yield* store.claim(second.claimId, claimant)
      assert.strictEqual((yield* store.credits(claimant.organizationId)).balance, 1000)
      yield* store.connectProject(yield* projectOf(claimant))
      yield* store.payInvoice(yield* invoiceOf(claimant))
      assert.deepStrictEqual((yield* toldOf(terms)).map(({ type }) => type), ["project.connected", "conversion.paid"])
      assert.deepStrictEqual(yield* toldOf(second), [])
    }))

  it.effect("credits saturate", () =>
    Effect.gen(function*() {
      const store = yield* PartnerStore
      const { claimant } = yield* strangers
      for (const creditAmount of [Number.MAX_SAFE_INTEGER, 5]) {
        const terms = yield* newTerms({ creditAmount })
        yield* store.createClaim(terms)
        yield* store.claim(terms.claimId, claimant)
      }
      const { balance, movements } = yield* store.credits(claimant.organizationId)
      assert.strictEqual(balance, Number.MAX_SAFE_INTEGER)
      // Newest first.
      assert.deepStrictEqual(movements.map(({ credits }) => credits), [5, Number.MAX_SAFE_INTEGER])
    }))

  it.effect("a project is connected once and counts for the recipient's touch in the organization", () =>
    Effect.gen(function*() {
      const store = yield* PartnerStore
      const { claimant, claimedAt, terms } = yield* attributed
      const project = yield* projectOf(claimant, { connectedAt: claimedAt })
      assert.strictEqual(yield* store.connectProject(project), "new")
      assert.strictEqual(yield* store.connectProject({ ...project }), "known")
      for (const change of [{ recipientId: "x" }, { organizationId: terms.claimId }, { repo: "acme/x" }, { connectedAt: at }]) {
        assert.strictEqual((yield* Effect.flip(store.connectProject({ ...project, ...change })))._tag, "FactConflict")
      }
      for (
        const change of [{ recipientId: "x" }, { organizationId: terms.claimId }, {
          connectedAt: DateTime.subtract(claimedAt, { milliseconds: 1 })
        }]
      ) {
        assert.strictEqual(yield* store.connectProject(yield* projectOf(claimant, change)), "new")
      }
      assert.deepStrictEqual(yield* toldOf(terms), [
        { type: "project.connected", data: { ...lead(terms), occurredAt: claimedAt, projectId: project.projectId } }
      ])
    }))

  it.effect("an organization converts once, by its first initial payment", () =>
    Effect.gen(function*() {
      const store = yield* PartnerStore
      const { claimant, terms } = yield* attributed
      for (const change of [{ kind: "other" }, { kind: "subscription_renewal" }, { amountMinor: 0 }, {}, {}] as const) {
        const invoice = yield* invoiceOf(claimant, change)
        assert.strictEqual(yield* store.payInvoice(invoice), "new")
        assert.strictEqual(yield* store.payInvoice({ ...invoice }), "known")
        for (const other of [{ amountMinor: 1 }, { currency: "USD" }, { paidAt: at }, { organizationId: terms.claimId }]) {
          assert.strictEqual((yield* Effect.flip(store.payInvoice({ ...invoice, ...other })))._tag, "FactConflict")
        }
      }
      const id = conversionId(yield* Ids, claimant.organizationId)
      assert.deepStrictEqual(yield* toldOf(terms), [{
        type: "conversion.paid",
        data: { ...lead(terms), occurredAt: later, conversionId: id }
      }])
    }))

  it.effect("a first payment before any claim is used up, however many come at once afterwards", () =>
    Effect.gen(function*() {
      const store = yield* PartnerStore
      const { claimant, terms } = yield* strangers
      const invoices = yield* Effect.forEach(Array.from({ length: 8 }), () => invoiceOf(claimant))
      yield* store.payInvoice(invoices[0] as Invoice)
      yield* store.createClaim(terms)
      yield* store.claim(terms.claimId, claimant)
      yield* Effect.forEach(invoices, (invoice) => store.payInvoice(invoice), { concurrency: "unbounded" })
      assert.deepStrictEqual(yield* toldOf(terms), [])
    }))
}

const sandboxFacts = (it: Writer<PartnerStore | SandboxStore | Ids | PartnerFixture>) => {
  it.effect("a sandbox is told when its creator has a touch in the organization, with the first project of its first repository", () =>
    Effect.gen(function*() {
      const store = yield* PartnerStore
      const { claimant, terms } = yield* attributed
      const first = yield* start(claimant)
      yield* start({ ...claimant, recipientId: "x" })
      yield* start({ ...claimant, organizationId: terms.claimId })
      const projects = [
        yield* projectOf(claimant, { repo: "acme/docs", connectedAt: at }),
        yield* projectOf(claimant, { repo: "acme/shop" }),
        yield* projectOf({ ...claimant, recipientId: "x" }, { repo: "ACME/shop", connectedAt: at })
      ]
      for (const project of projects) yield* store.connectProject(project)
      const second = yield* start(claimant)
      const data = { ...lead(terms), occurredAt: creation.createdAt }
      assert.deepStrictEqual((yield* toldOf(terms)).filter(({ type }) => type === "task.started"), [
        { type: "task.started", data: { ...data, taskId: first.id, projectId: null } },
        { type: "task.started", data: { ...data, taskId: second.id, projectId: projects[2]?.projectId ?? "" } }
      ])
    }))

  it.effect("a creation that is replayed or refused tells nothing", () =>
    Effect.gen(function*() {
      const store = yield* SandboxStore
      const { claimant, terms } = yield* attributed
      const grantId = yield* (yield* PartnerFixture).grant
      const task = yield* start(claimant, "key", grantId)
      yield* start(claimant, "key", grantId)
      const create = (request: CreationRequest) => Effect.provideService(store.create(request), TaskOrganization, claimant.organizationId)
      yield* Effect.flip(create({ creation: task, keyed: null }))
      const changed = { key: IdempotencyKey.make("key"), fingerprint: "1:b" }
      const another = { ...task, id: SandboxId.make("c_aaaaaaaaaaaa") }
      yield* Effect.flip(create({ creation: another, keyed: changed }))
      assert.strictEqual((yield* toldOf(terms)).length, 1)
    }))

  it.effect("a pull request is told once, and counts for whom its task counted when it started", () =>
    Effect.gen(function*() {
      const store = yield* PartnerStore
      const { claimant, terms } = yield* strangers
      const early = yield* start(claimant)
      yield* store.createClaim(terms)
      yield* store.claim(terms.claimId, claimant)
      const { id } = yield* start(claimant)
      yield* open(id, 1, false)
      for (const number of [7, 7, 8]) yield* open(id, number)
      yield* open(early.id, 9)
      const data = { ...lead(terms), occurredAt: at, taskId: id, projectId: null }
      assert.deepStrictEqual((yield* toldOf(terms)).slice(1), [
        { type: "pull_request.opened", data: { ...data, pullRequestId: yield* open(id, 7) } },
        { type: "pull_request.opened", data: { ...data, pullRequestId: yield* open(id, 8) } }
      ])
    }))

  it.effect("what commits after a claim counts for it, also when it began before", () =>
    Effect.gen(function*() {
      const store = yield* PartnerStore
      const { overlapping } = yield* PartnerFixture
      const facts: Record<string, (by: Claimant) => Effect.Effect<unknown, unknown, PartnerStore | SandboxStore | PartnerFixture | Ids>> = {
        "task.started": start,
        "project.connected": (by) => Effect.flatMap(projectOf(by), (project) => store.connectProject(project)),
        "conversion.paid": (by) => Effect.flatMap(invoiceOf(by), (invoice) => store.payInvoice(invoice))
      }
      for (const [type, fact] of Object.entries(facts)) {
        const { claimant, terms } = yield* strangers
        yield* store.createClaim(terms)
        yield* overlapping<unknown, PartnerStore | SandboxStore | PartnerFixture | Ids>(
          store.claim(terms.claimId, claimant),
          fact(claimant)
        )
        assert.deepStrictEqual((yield* toldOf(terms)).map(({ type }) => type), [type])
      }
    }))
}

const feed = (it: Writer<PartnerStore | SandboxStore | Ids | PartnerFixture>) => {
  it.effect("tells every type of event with its payload as it was given, in its order", () =>
    Effect.gen(function*() {
      const ids = yield* Ids
      const grantId = yield* (yield* PartnerFixture).grant
      const claim = { ...terms, claimId: yield* ids.uuid7, creditAmount: Number.MAX_SAFE_INTEGER, createdAt: at }
      const attributed = { ...terms, claimId: claim.claimId, occurredAt: DateTime.subtract(at, { days: 1 }) }
      const facts: ReadonlyArray<PartnerFact> = [
        { type: "credit_claim.created", data: { ...claim, status: "pending", claimedAt: null } },
        { type: "credit_claim.claimed", data: { ...claim, status: "claimed", claimedAt: at } },
        { type: "project.connected", data: { ...attributed, projectId: "p" } },
        { type: "task.started", data: { ...attributed, taskId: "t", projectId: null } },
        { type: "pull_request.opened", data: { ...attributed, pullRequestId: "r", taskId: "t", projectId: "p" } },
        { type: "conversion.paid", data: { ...attributed, conversionId: "c" } }
      ]
      yield* tell(...facts.map((fact) => ({ grantId, fact })))
      const events = yield* feedOf(grantId)
      assert.deepStrictEqual(
        events.map(({ createdAt, data, sequence, type }) => ({ createdAt, data, sequence, type })),
        facts.map((fact, i) => ({ ...fact, createdAt: at, sequence: i + 1 }))
      )
      assert.ok(events.every(({ id }) => /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/u.test(id)))
      assert.strictEqual(new Set(events.map(({ id }) => id)).size, events.length)
      assert.deepStrictEqual(yield* feedOf(grantId), events)
    }))

  it.effect("serves what comes after a cursor, up to a limit, and nothing at the head or beyond it", () =>
    Effect.gen(function*() {
      const ids = yield* Ids
      const grantId = yield* (yield* PartnerFixture).grant
      assert.deepStrictEqual(yield* feedOf(grantId), [])
      yield* tell(...[1, 2, 3, 4].map((n) => ({ grantId, fact: factOf(ids, n) })))
      const all = yield* feedOf(grantId)
      assert.deepStrictEqual(all.map(({ sequence }) => sequence), [1, 2, 3, 4])
      assert.deepStrictEqual(yield* feedOf(grantId, 1, 2), all.slice(1, 3))
      for (const after of [4, 5, Number.MAX_SAFE_INTEGER]) assert.deepStrictEqual(yield* feedOf(grantId, after), [])
    }))

  it.effect("gives the result of what it recorded", () =>
    Effect.gen(function*() {
      const store = yield* PartnerStore
      assert.strictEqual(yield* store.record(Effect.succeed({ result: "done", tell: [] }), at), "done")
    }))

  it.effect("a decision that fails tells nothing and takes no number, nor does a decision that is rolled back later", () =>
    Effect.gen(function*() {
      const store = yield* PartnerStore
      const ids = yield* Ids
      const fixture = yield* PartnerFixture
      const grantId = yield* fixture.grant
      assert.strictEqual(yield* Effect.flip(store.record(Effect.fail("no"), at)), "no")
      yield* fixture.rolledBack([{ grantId, fact: factOf(ids, 1) }])
      assert.deepStrictEqual(yield* feedOf(grantId), [])
      yield* tell({ grantId, fact: factOf(ids, 1) })
      assert.deepStrictEqual((yield* feedOf(grantId)).map(({ sequence }) => sequence), [1])
    }))

  it.effect("tells each type once of one thing, the first time, and other feeds of it too", () =>
    Effect.gen(function*() {
      const ids = yield* Ids
      const fixture = yield* PartnerFixture
      const [a, b] = [yield* fixture.grant, yield* fixture.grant]
      const fact = factOf(ids, 1)
      yield* tell({ grantId: a, fact })
      const [first] = yield* feedOf(a)
      yield* tell(
        { grantId: a, fact: factOf(ids, 2) },
        { grantId: a, fact },
        { grantId: a, fact: factOf(ids, 3) },
        { grantId: b, fact },
        { grantId: a, fact: factOf(ids, 3) }
      )
      const events = yield* feedOf(a)
      assert.deepStrictEqual(events[0], first)
      assert.deepStrictEqual(events.map(({ data, sequence }) => ["taskId" in data && data.taskId, sequence]), [["1", 1], ["2", 2], ["3",
        3]])
      assert.deepStrictEqual((yield* feedOf(b)).map(({ sequence }) => sequence), [1])
    }))

  it.effect("of many who tell one fact at once exactly one does", () =>
    Effect.gen(function*() {
      const ids = yield* Ids
      const grantId = yield* (yield* PartnerFixture).grant
      yield* Effect.forEach(Array.from({ length: 12 }), () => tell({ grantId, fact: factOf(ids, 1) }), { concurrency: "unbounded" })
      assert.deepStrictEqual((yield* feedOf(grantId)).map(({ sequence }) => sequence), [1])
    }))
}

const concurrentWriters = (it: Writer<PartnerStore | SandboxStore | Ids | PartnerFixture>) => {
  it.effect("a reader misses nothing and sees 1 to n, however many write at once and are rolled back", () =>
    Effect.gen(function*() {
      const store = yield* PartnerStore
      const ids = yield* Ids
      const { grant, linger, rolledBack } = yield* PartnerFixture
      const grantId = yield* grant
      const fault = yield* faultOf({
        write: (n, kept) => {
          const tell = [{ grantId, fact: factOf(ids, n) }]
          return kept ? store.record(Effect.as(linger, { result: undefined, tell }), at) : rolledBack(tell)
        },
        readers: Array.from({ length: 4 }, () =>
          reader((after) =>
            Effect.map(store.feed(grantId, after, 7), (events) =>
              events.map(({ data, sequence }) => ({ sequence, n: "taskId" in data ? Number(data.taskId) : NaN })))
          ))
      })
      assert.isNull(fault)
    }), { timeout: 300_000 })

  it.effect("writers of several feeds never wait for each other in a circle", () =>
    Effect.gen(function*() {
      const ids = yield* Ids
      const fixture = yield* PartnerFixture
      const grants = [yield* fixture.grant, yield* fixture.grant, yield* fixture.grant]
      yield* Effect.forEach(Array.from({ length: 30 }, (_, n) => n), (n) => {
        const order = n % 2 === 0 ? grants : [...grants].reverse()
        return tell(...order.map((grantId) => ({ grantId, fact: factOf(ids, n) })))
      }, { concurrency: "unbounded" })
      for (const grantId of grants) {
        assert.deepStrictEqual((yield* feedOf(grantId)).map(({ sequence }) => sequence), Array.from({ length: 30 }, (_, i) => i + 1))
      }
    }))
}

/** For every store. */
export const suite = (name: string, layer: Layer.Layer<PartnerStore | SandboxStore | Ids | PartnerFixture, unknown>) =>
  define(`PartnerStore (${name})`, layer, (it) => {
    claims(it)
    conversions(it)
    sandboxFacts(it)
    feed(it)
    concurrentWriters(it)
  })
