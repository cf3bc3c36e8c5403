/**
 * What holds of every sandbox and of every store, whatever is done and in which order. `historyLaws` are about the pure
 * rules; `storeLaws` and `feedLaws` run against any store: an embedder calls `checkStore` and `checkFeed` with its own
 * layer. A law that does not hold fails with the shrunk input and a replay token.
 */
import { assert, it } from "@effect/vitest"
import { Arbitrary, DateTime, Effect, type Layer, Result, Schema } from "effect"
import { Ids } from "../src/Ids.ts"
import type { PartnerFact } from "../src/partner/PartnerEvent.ts"
import { PartnerStore } from "../src/partner/PartnerStore.ts"
import type { Approval } from "../src/sandbox/Approval.ts"
import { type Command, decideApproval, interrupt, sendMessage, terminate } from "../src/sandbox/Command.ts"
import { IdempotencyKey } from "../src/sandbox/Idempotency.ts"
import { type Creation, evolve, initial, Sandbox } from "../src/sandbox/Sandbox.ts"
import { fromWire, type SandboxEvent, toWire } from "../src/sandbox/SandboxEvent.ts"
import { SandboxStore } from "../src/sandbox/SandboxStore.ts"
import { decide, type SystemCommand } from "../src/sandbox/SystemCommand.ts"
import { TurnOutcome } from "../src/sandbox/Turn.ts"
import { ID_ALPHABET, SandboxId, turnId } from "../src/SandboxId.ts"
import { StorableText } from "../src/Text.ts"
import { creation, type History, isAsked, limits, request } from "./Histories.ts"
import { approvalsResolveOnce, endsForGood, type Log, statusesAreReachable, turnsAreReachable } from "./LogLaws.ts"
import { PartnerFixture } from "./PartnerStoreContract.ts"
import { StoreFixture } from "./SandboxStates.ts"

/** A sentence that holds of every history. `holds` throws when it does not. */
export interface HistoryLaw {
  readonly name: string
  holds(history: History): void
}

/** A sentence that holds of every store that is given `A`. `holds` dies when it does not. */
export interface StoreLaw<A, R> {
  readonly name: string
  readonly given: Arbitrary.Arbitrary<A>
  holds(given: A): Effect.Effect<void, unknown, R>
}

// ---------------------------------------------------------------------------------------------------------------
// Histories

const eventsOf = (history: History): Log => history.log.map(({ event }) => event)
const of = <T extends SandboxEvent["type"]>(type: T) => (event: SandboxEvent): event is Extract<SandboxEvent, { type: T }> =>
  event.type === type

const answered = ({ moments }: History) => moments.flatMap((moment) => moment.result === null ? [] : [{ ...moment, result: moment.result }])

/** Of the pure rules. */
export const historyLaws: ReadonlyArray<HistoryLaw> = [
  {
    name: "changes its status only as docs/decisions.md 2.1 say",
    holds: (history) => statusesAreReachable(eventsOf(history), history.sandbox)
  },
  {
    name: "moves its turns only as docs/decisions.md 2.2 say, one at a time",
    holds: (history) => turnsAreReachable(eventsOf(history), history.sandbox, (n) => `${creation.id}/turn/${n}`)
  },
  {
    name: "once terminated stays terminated",
    holds: (history) => {
      for (const { after, before } of history.moments) if (before.status === "terminated") assert.strictEqual(after.status, "terminated")
      endsForGood(eventsOf(history))
    }
  },
  {
    name: "is the fold of what its log says",
    holds: (history) => {
      const wires = history.log.map(({ at, event }, i) => toWire(creation.id, { seq: i + 1, at, event }))
      const folded = wires.reduce((state, wire) => {
        const { at, event } = fromWire(wire)
        return evolve(state, event, at)
      }, initial(creation))
      assert.deepStrictEqual(folded, history.sandbox)
    }
  },
  {
    name: "resolves every approval once, and only one that was requested",
    holds: (history) => approvalsResolveOnce(eventsOf(history), history.sandbox)
  },
  {
    name: "keeps the first decision on an approval",
    holds: (history) => {
      const resolved = eventsOf(history).filter(of("approval.resolved")).map(({ data }) => data)
      const expected = resolved.map(({ approval_id, by, outcome }): Approval => ({ approvalId: approval_id, outcome, by }))
      assert.sameDeepMembers(history.approvals.filter(({ outcome }) => outcome !== null), expected)
      for (const { before, did, events, result } of history.moments) {
        if (did._tag !== "Decide" || result === null) continue
        const pending = before.approvals.some(({ approval_id }) => approval_id === did.approvalId)
        assert.strictEqual(result.outcome === "applied", pending)
        assert.strictEqual(events.length > 0, pending)
      }
    }
  },
  {
    name: "repeating a command at once changes nothing and finds the first answer",
    holds: (history) => {
      const last = history.moments.at(-1)
      if (last === undefined || last.result === null || !isAsked(last.did)) return
      const again = history.person(last.did)
      assert.strictEqual(again.after, again.before)
      // A message sent again would be the next one; it has to wait for the turn.
      if (last.did._tag === "Send") return assert.strictEqual(again.refused, "TurnActive")
      assert.deepStrictEqual(again.result, last.result.outcome === "applied" ? { ...last.result, outcome: "duplicate" } : last.result)
    }
  },
  {
    name: "applies one identity at most once, and its duplicates carry the first answer",
    holds: (history) => {
      const first = new Map<string, number>()
      for (const { events, result: { commandId, outcome, revision } } of answered(history)) {
        if (outcome === "applied") {
          assert.isFalse(first.has(commandId))
          first.set(commandId, revision)
          continue
        }
        assert.deepStrictEqual(events, [])
        if (outcome === "duplicate") assert.strictEqual(first.get(commandId), revision)
      }
    }
  }
]

// ---------------------------------------------------------------------------------------------------------------
// Sandbox stores

const Deed = Schema.TaggedUnion({
  StartTurn: {},
  RequestApproval: { call: Schema.Literals([1, 2, 3]) },
  EndTurn: { state: TurnOutcome },
  Expire: { minutes: Schema.Literals([0, 30, 120]) },
  Release: {},
  ReportPublication: {},
  Terminate: {},
  Interrupt: {},
  Decide: { call: Schema.Literals([1, 2, 3]), decision: Schema.Literals(["approve", "deny"]) },
  Send: { prompt: Schema.Literals(["And now?", "Go on."]) }
})
type Deed = typeof Deed.Type

/** How far a sandbox has come, and what is tried from there on. */
const Life = Schema.Struct({
  booted: Schema.Literals([0, 1, 2, 3, 4]),
  deeds: Schema.Array(Deed).check(Schema.isMaxLength(24))
})

const Decided = Schema.Literals(["approve", "deny"])

const life = Arbitrary.schema(Life)
const encode = Schema.encodeSync(Sandbox)

const newCreation = Effect.fnUntraced(function*(grantId?: string) {
  const ids = yield* Ids
  const fixture = yield* StoreFixture
  return {
    ...creation,
    id: SandboxId.make(`c_${yield* ids.random(ID_ALPHABET, 12)}`),
    grantId: grantId ?? (yield* fixture.grant)
  } satisfies Creation
})

const boot = (turn: string): ReadonlyArray<SystemCommand> => [
  { _tag: "StartBoot" },
  { _tag: "FinishBoot", turnId: turn },
  { _tag: "StartTurn", turnId: turn },
  request(turn, "call-1")
]

/** Lives one life in the store and tells how it can be taken further. */
const live = Effect.fnUntraced(function*({ booted, deeds }: typeof Life.Type) {
  const store = yield* SandboxStore
  const ids = yield* Ids
  const made = yield* newCreation()
  const key = { grantId: made.grantId, id: made.id }
  yield* store.create({ creation: made, keyed: null, organizationId: null })
  let now = made.createdAt
  const find = store.find(key)
  const system = (command: SystemCommand) =>
    Effect.result(store.change(made.id, "policy", (sandbox) => decide(sandbox, command, { limits, now }), now))
  const person = (command: Command<{ readonly _tag: string }>) =>
    Effect.result(Effect.map(store.command(key, command, now), ({ result }) => result))
  const events = Effect.map(store.log(made.id, 0, 10_000), (entries) => entries.map(({ wire }) => fromWire(wire)))
  const commandOf = (
    deed: Extract<Deed, { readonly _tag: "Terminate" | "Interrupt" | "Decide" | "Send" }>
  ): Command<{ readonly _tag: string }> => {
    switch (deed._tag) {
      case "Terminate":
        return terminate(ids)
      case "Interrupt":
        return interrupt(ids)
      case "Decide":
        return decideApproval(ids, `call-${deed.call}`, deed.decision)
      case "Send":
        return sendMessage(ids, deed.prompt, "user-2")
    }
  }
  const take = Effect.fnUntraced(function*(deed: Deed) {
    const turn = (yield* find).turn?.id ?? turnId(ids, made.id, 1)
    switch (deed._tag) {
      case "Terminate":
      case "Interrupt":
      case "Decide":
      case "Send":
        return yield* person(commandOf(deed))
      case "Expire":
        now = DateTime.add(now, { minutes: deed.minutes })
        return yield* system({ _tag: "Expire" })
      case "StartTurn":
        return yield* system({ _tag: "StartTurn", turnId: turn })
      case "EndTurn":
        return yield* system({ _tag: "EndTurn", turnId: turn, state: deed.state })
      case "RequestApproval": {
        const known = yield* store.approvals(made.id, [`call-${deed.call}`])
        // An agent never gives a new call the id of one that was decided.
        return known.some(({ outcome }) => outcome !== null) ? null : yield* system(request(turn, `call-${deed.call}`))
      }
      case "ReportPublication":
        return yield* system({ _tag: "ReportPublication", data: { repo: "acme/shop", action_state: "idle", number: 7 } })
      case "Release":
        return yield* system({ _tag: "Release" })
    }
  })
  for (const command of boot(turnId(ids, made.id, 1)).slice(0, booted)) yield* system(command)
  for (const deed of deeds) yield* take(deed)
  return { creation: made, key, store, ids, find, events, person, take }
})

type Stored = SandboxStore | Ids | StoreFixture

const law = <A, R>(name: string, given: Arbitrary.Arbitrary<A>, holds: (given: A) => Effect.Effect<void, unknown, R>): StoreLaw<A, R> => ({
  name,
  given,
  holds
})

/** Of every sandbox store. */
export const storeLaws: {
  readonly reachable: StoreLaw<typeof Life.Type, Stored>
  readonly replay: StoreLaw<typeof Life.Type, Stored>
  readonly final: StoreLaw<typeof Life.Type, Stored>
  readonly identity: StoreLaw<typeof Life.Type, Stored>
  readonly firstDecision: StoreLaw<ReadonlyArray<typeof Decided.Type>, Stored>
  readonly idempotency: StoreLaw<{ readonly key: IdempotencyKey; readonly texts: readonly [string, string] }, Stored>
  readonly isolation: StoreLaw<readonly [typeof Life.Type, typeof Life.Type], Stored>
} = {
  reachable: law(
    "only reachable states are stored",
    life,
    Effect.fnUntraced(function*(given) {
      const { creation, events, find, ids } = yield* live(given)
      const log = (yield* events).map(({ event }) => event)
      const sandbox = yield* find
      statusesAreReachable(log, sandbox)
      turnsAreReachable(log, sandbox, (n) => turnId(ids, creation.id, n))
      approvalsResolveOnce(log, sandbox)
    })
  ),

  replay: law(
    "the log counts from 1 without gaps and replays to the stored state",
    life,
    Effect.fnUntraced(function*(given) {
      const { creation, events, find } = yield* live(given)
      const log = yield* events
      assert.deepStrictEqual(log.map(({ seq }) => seq), log.map((_, i) => i + 1))
      const folded = log.reduce((state, { at, event }) => evolve(state, event, at), initial(creation))
      assert.deepStrictEqual(JSON.parse(JSON.stringify(encode(yield* find))), JSON.parse(JSON.stringify(encode(folded))))
    })
  ),

  final: law(
    "what was terminated and released stays as it is, whatever is tried",
    life,
    Effect.fnUntraced(function*(given) {
      const { events, find, take } = yield* live({ ...given, deeds: [] })
      yield* take({ _tag: "Terminate" })
      yield* take({ _tag: "Release" })
      const [before, told] = [yield* find, (yield* events).length]
      assert.strictEqual(before.status, "terminated")
      for (const deed of given.deeds.filter(({ _tag }) => _tag !== "ReportPublication")) yield* take(deed)
      assert.deepStrictEqual(yield* find, before)
      assert.strictEqual((yield* events).length, told)
    })
  ),

  identity: law(
    "a repeated command is answered by its receipt and writes nothing",
    life,
    Effect.fnUntraced(function*(given) {
      const { events, find, ids, person } = yield* live(given)
      for (const command of [decideApproval(ids, "call-1", "approve"), interrupt(ids), terminate(ids)]) {
        const first = yield* person(command)
        const [before, told] = [yield* find, (yield* events).length]
        const again = yield* person(command)
        assert.deepStrictEqual(yield* find, before)
        assert.strictEqual((yield* events).length, told)
        if (Result.isFailure(first)) assert.deepStrictEqual(Result.isFailure(again) && again.failure._tag, first.failure._tag)
        else {
          const { outcome } = first.success
          assert.deepStrictEqual(
            Result.isSuccess(again) ? again.success : again.failure,
            outcome === "applied" ? { ...first.success, outcome: "duplicate" } : first.success
          )
        }
      }
    })
  ),

  firstDecision: law(
    "of many decisions at once on one approval exactly one is applied, and it stays",
    Arbitrary.array(Arbitrary.schema(Decided), { minLength: 1, maxLength: 6 }),
    Effect.fnUntraced(function*(given) {
      const { events, ids, key, person, store } = yield* live({ booted: 4, deeds: [] })
      const answers = yield* Effect.forEach(given, (decision) => person(decideApproval(ids, "call-1", decision)), {
        concurrency: "unbounded"
      })
      const applied = answers.flatMap((answer, i) => Result.isSuccess(answer) && answer.success.outcome === "applied" ? [given[i]] : [])
      assert.strictEqual(applied.length, 1)
      const outcome = applied[0] === "approve" ? "approved" : "denied"
      assert.deepStrictEqual(yield* store.approvals(key.id, ["call-1"]), [{ approvalId: "call-1", outcome, by: "user" }])
      assert.strictEqual((yield* events).filter(({ event }) => event.type === "approval.resolved").length, 1)
    })
  ),

  idempotency: law(
    "a key gives the same sandbox for an equal request, conflicts with a changed one, and is free again after a failure",
    Arbitrary.schema(Schema.Struct({ key: IdempotencyKey, texts: Schema.Tuple([StorableText, StorableText]) })),
    Effect.fnUntraced(function*({ key, texts: [one, two] }) {
      const store = yield* SandboxStore
      const ids = yield* Ids
      const taken = yield* newCreation()
      yield* store.create({ creation: taken, keyed: null, organizationId: null })
      const keyed = { key, fingerprint: `1:${ids.digest(one)}` }
      const failed = yield* Effect.flip(store.create({ creation: taken, keyed, organizationId: null }))
      assert.strictEqual(failed._tag, "SandboxIdTaken")
      const made = yield* newCreation(taken.grantId)
      const first = yield* store.create({ creation: made, keyed, organizationId: null })
      assert.deepStrictEqual([first.replayed, first.sandbox.id], [false, made.id])
      const unused = yield* newCreation(taken.grantId)
      const again = yield* store.create({ creation: unused, keyed, organizationId: null })
      assert.deepStrictEqual([again.replayed, again.sandbox.id], [true, made.id])
      if (one !== two) {
        const conflict = yield* Effect.flip(
          store.create({ creation: unused, keyed: { key, fingerprint: `1:${ids.digest(two)}` }, organizationId: null })
        )
        assert.strictEqual(conflict._tag, "IdempotencyConflict")
      }
      assert.strictEqual((yield* Effect.flip(store.find({ grantId: taken.grantId, id: unused.id })))._tag, "SandboxNotFound")
      const elsewhere = yield* newCreation()
      assert.isFalse(
        (yield* store.create({ creation: elsewhere, keyed: { key, fingerprint: `1:${ids.digest(two)}` }, organizationId: null })).replayed
      )
    })
  ),

  isolation: law(
    "nothing of one grant is visible to another, nor can it be touched",
    Arbitrary.all([life, life]),
    Effect.fnUntraced(function*(given) {
      const [one, other] = [yield* live(given[0]), yield* live(given[1])]
      for (const [mine, theirs] of [[one, other], [other, one]] as const) {
        const [before, told] = [yield* theirs.find, (yield* theirs.events).length]
        const foreign = { grantId: mine.key.grantId, id: theirs.key.id }
        const refusals = [
          yield* Effect.flip(mine.store.find(foreign)),
          yield* Effect.flip(mine.store.command(foreign, terminate(mine.ids), creation.createdAt)),
          yield* Effect.flip(mine.store.change(foreign.id, { grantId: foreign.grantId }, () => Result.succeed([]), creation.createdAt))
        ]
        assert.deepStrictEqual(refusals.map(({ _tag }) => _tag), ["SandboxNotFound", "SandboxNotFound", "SandboxNotFound"])
        const listed = yield* mine.store.list(mine.key.grantId, { after: null, limit: 100, status: null, repo: null })
        assert.deepStrictEqual(listed.map(({ id }) => id), [mine.key.id])
        for (const { wire } of yield* mine.store.log(mine.key.id, 0, 10_000)) assert.notInclude(wire, theirs.key.id)
        assert.deepStrictEqual(yield* theirs.find, before)
        assert.strictEqual((yield* theirs.events).length, told)
      }
    })
  )
}

/** Runs every law of sandbox stores against a layer, with the fixture of the contract suite. */
export const checkStore = (name: string, layer: Layer.Layer<Stored, unknown>, runs = 40) =>
  it.layer(layer)(`Laws of SandboxStore (${name})`, (it) => {
    const check = <A>({ given, holds, name }: StoreLaw<A, Stored>) =>
      it.effect.prop(name, [given], ([value]) => holds(value), { arbitrary: { runs } })
    check(storeLaws.reachable)
    check(storeLaws.replay)
    check(storeLaws.final)
    check(storeLaws.identity)
    check(storeLaws.firstDecision)
    check(storeLaws.idempotency)
    check(storeLaws.isolation)
  })

// ---------------------------------------------------------------------------------------------------------------
// Partner feeds

/** One transaction: what it tells to which of two feeds, and whether it is carried out. */
const Transaction = Schema.Struct({
  tell: Schema.Array(Schema.Struct({ feed: Schema.Literals([0, 1]), task: Schema.Literals([1, 2, 3, 4, 5, 6, 7, 8]) })).check(
    Schema.isMaxLength(5)
  ),
  fails: Schema.Boolean
})
type Transaction = typeof Transaction.Type
type Fed = PartnerStore | Ids | PartnerFixture

const feed = Effect.fnUntraced(function*(transactions: ReadonlyArray<Transaction>, concurrency: 1 | "unbounded") {
  const store = yield* PartnerStore
  const fixture = yield* PartnerFixture
  const claimId = yield* (yield* Ids).uuid7
  const grants = [yield* fixture.grant, yield* fixture.grant] as const
  const at = creation.createdAt
  const fact = (task: number): PartnerFact => ({
    type: "task.started",
    data: { claimId, leadId: "lead", variant: "variant", occurredAt: at, taskId: `${task}`, projectId: null }
  })
  yield* Effect.forEach(transactions, ({ fails, tell }) => {
    const decided = { result: null, tell: tell.map(({ feed, task }) => ({ grantId: grants[feed], fact: fact(task) })) }
    return Effect.result(store.record(fails ? Effect.fail("rolled back") : Effect.succeed(decided), at))
  }, { concurrency })
  const tasks = (events: ReadonlyArray<PartnerFact>) => events.map(({ data }) => "taskId" in data ? Number(data.taskId) : NaN)
  /** What each feed should tell, in the order of the transactions. */
  const told = ([0, 1] as const).map((
    n
  ) => [
    ...new Set(
      transactions.filter(({ fails }) => !fails).flatMap(({ tell }) => tell.filter((one) => one.feed === n).map(({ task }) => task))
    )
  ])
  return { store, grants, tasks, told }
})

const transactions = Arbitrary.array(Arbitrary.schema(Transaction), { maxLength: 12 })

/** Of every partner store. */
const feedLaws: {
  readonly gapless: StoreLaw<ReadonlyArray<Transaction>, Fed>
  readonly concurrent: StoreLaw<ReadonlyArray<Transaction>, Fed>
  readonly pages: StoreLaw<{ readonly transactions: ReadonlyArray<Transaction>; readonly limit: number }, Fed>
} = {
  gapless: law(
    "each feed counts from 1 without gaps, tells a fact once, in order, and nothing of another grant",
    transactions,
    Effect.fnUntraced(function*(given) {
      const { grants, store, tasks, told } = yield* feed(given, 1)
      for (const [n, grantId] of grants.entries()) {
        const events = yield* store.feed(grantId, 0, 1000)
        assert.deepStrictEqual(events.map(({ sequence }) => sequence), events.map((_, i) => i + 1))
        assert.deepStrictEqual(tasks(events), told[n])
      }
    })
  ),
  concurrent: law(
    "transactions at once leave no gap and tell every fact once",
    transactions,
    Effect.fnUntraced(function*(given) {
      const { grants, store, tasks, told } = yield* feed(given, "unbounded")
      for (const [n, grantId] of grants.entries()) {
        const events = yield* store.feed(grantId, 0, 1000)
        assert.deepStrictEqual(events.map(({ sequence }) => sequence), events.map((_, i) => i + 1))
        assert.sameMembers(tasks(events), told[n] ?? [])
      }
    })
  ),
  pages: law(
    "pages of any size put together are the feed",
    Arbitrary.all({ transactions, limit: Arbitrary.schema(Schema.Literals([1, 2, 3, 7])) }),
    Effect.fnUntraced(function*({ limit, transactions }) {
      const { grants: [grantId], store } = yield* feed(transactions, 1)
      const whole = yield* store.feed(grantId, 0, 1000)
      const read: Array<unknown> = []
      for (let after = 0;;) {
        const page = yield* store.feed(grantId, after, limit)
        read.push(...page)
        assert.isAtMost(page.length, limit)
        const last = page.at(-1)
        if (last === undefined) break
        after = last.sequence
      }
      assert.deepStrictEqual(read, [...whole])
    })
  )
}

/** Runs every law of partner feeds against a layer, with the fixture of the contract suite. */
export const checkFeed = (name: string, layer: Layer.Layer<Fed, unknown>, runs = 40) =>
  it.layer(layer)(`Laws of PartnerStore (${name})`, (it) => {
    const check = <A>({ given, holds, name }: StoreLaw<A, Fed>) =>
      it.effect.prop(name, [given], ([value]) => holds(value), { arbitrary: { runs } })
    check(feedLaws.gapless)
    check(feedLaws.concurrent)
    check(feedLaws.pages)
  })
