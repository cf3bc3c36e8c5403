/**
 * The rules that every `SandboxStore` must keep. An adapter proves itself by running this suite against its layer; a rule that is missing
 * here is not part of the port. Fresh ids make it repeatable on one database.
 */
import { Ids } from "@slipway/domain/ids/Ids"
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { LEASE_SECONDS, Leases } from "@slipway/domain/sandbox/ports/Leases"
import {
  Appended,
  bytesOf,
  type LogEntry,
  MAX_PUBLISHERS,
  SandboxStore,
  type SandboxSummary,
  summaryOf,
  type Writer
} from "@slipway/domain/sandbox/ports/SandboxStore"
import { cancelMessage, decideApproval, interrupt, rename, sendMessage, sync, terminate } from "@slipway/domain/sandbox/rules/Command"
import { PART_BYTES, TURN_EVENTS } from "@slipway/domain/sandbox/rules/OutputLimit"
import { Policy } from "@slipway/domain/sandbox/rules/Policy"
import { evolve, initial, type Sandbox } from "@slipway/domain/sandbox/rules/Sandbox"
import { partId } from "@slipway/domain/sandbox/rules/SandboxEvent"
import { decide, type SystemCommand } from "@slipway/domain/sandbox/rules/SystemCommand"
import { turnId } from "@slipway/domain/sandbox/rules/Turn"
import { IdempotencyKey } from "@slipway/domain/sandbox/schema/Idempotency"
import { fromWire } from "@slipway/domain/sandbox/schema/SandboxEvent"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { Hints, WORK } from "@slipway/domain/store/Hints"
import { PAGE_BYTES } from "@slipway/domain/store/Page"
import type { StoreUnavailable } from "@slipway/domain/store/StoreUnavailable"
import * as DateTime from "effect/DateTime"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import type * as Layer from "effect/Layer"
import * as Result from "effect/Result"
import * as Scheduler from "effect/Scheduler"
import { decider, request } from "../../histories/Histories.ts"
import { assert } from "../../suite/Assert.ts"
import { define, type Writer as Rules } from "../../suite/Suite.ts"
import { appended } from "../access/AuditLogContract.ts"
import { writtenByOthers } from "./OtherPolicies.ts"
import {
  StoreFixture,
  ample,
  at,
  atRest,
  machine,
  creationOf,
  make,
  drive,
  keyOf,
  leased,
  running,
  asking,
  command,
  eventsOf,
  type Stores
} from "./SandboxStates.ts"
import { storedQuestions } from "./StoredQuestions.ts"

/** The `MaxActiveSandboxes` of the layer that {@link limited} is given. */
export const MAX_ACTIVE = 3

/** The limit of active sandboxes, for a store that was built with it. */
export const limited = (name: string, layer: Layer.Layer<SandboxStore | Ids | StoreFixture, unknown>) =>
  define(`SandboxStore with a limit of active sandboxes (${name})`, layer, (it) => {
    const keyed = (key: string) => ({ key: IdempotencyKey.make(key), fingerprint: "1:a" })
    const create = (grantId: string, key: string | null = null) =>
      Effect.gen(function*() {
        const store = yield* SandboxStore
        return yield* store.create({
          creation: yield* creationOf({ grantId }),
          keyed: key === null ? null : keyed(key)
        })
      })
    /** The grant and its sandboxes, as many as it may have. */
    const full = Effect.gen(function*() {
      const grantId = yield* (yield* StoreFixture).grant
      const made = yield* Effect.forEach(Array.from({ length: MAX_ACTIVE }, (_, i) => `${i}`), (key) => create(grantId, key))
      return { grantId, sandboxes: made.map(({ sandbox }) => sandbox) }
    })
    const change = Effect.fnUntraced(function*({ id }: Sandbox, commands: ReadonlyArray<SystemCommand>) {
      const store = yield* SandboxStore
      const limits = yield* Policy
      for (const command of commands) {
        yield* store.change(id, "policy", (state) => decide(state, command, { now: at, limits }), at)
      }
    })

    it.effect("of one more than may be created at once exactly the limit is made", () =>
      Effect.gen(function*() {
        const store = yield* SandboxStore
        for (const extra of [1, 20]) {
          const grantId = yield* (yield* StoreFixture).grant
          const attempts = yield* Effect.forEach(
            Array.from({ length: MAX_ACTIVE + extra }, (_, i) => i),
            (i) => Effect.result(create(grantId, i % 2 === 0 ? null : `${i}`)),
            { concurrency: "unbounded" }
          )
          const refused = attempts.flatMap((attempt) => Result.isFailure(attempt) ? [attempt.failure._tag] : [])
          assert.deepStrictEqual(refused, Array.from({ length: extra }, () => "ConcurrencyLimitExceeded"))
          assert.strictEqual((yield* store.list(grantId, { after: null, limit: 100, status: null, repo: null })).length, MAX_ACTIVE)
        }
      }))

    it.effect("a replay is answered whatever is active, also many at once", () =>
      Effect.gen(function*() {
        const { grantId, sandboxes } = yield* full
        const replays = yield* Effect.forEach(Array.from({ length: 12 }), () => create(grantId, "1"), { concurrency: "unbounded" })
        assert.ok(replays.every(({ replayed, sandbox }) => replayed && sandbox.id === sandboxes[1]?.id))
        assert.strictEqual((yield* Effect.flip(create(grantId, "new")))._tag, "ConcurrencyLimitExceeded")
      }))

    it.effect("many at once of several grants: each has its own limit, and what is replayed takes no room", () =>
      Effect.gen(function*() {
        const store = yield* SandboxStore
        const grants = yield* Effect.forEach([0, 1, 2], () => full)
        const open = yield* Effect.forEach([0, 1], () => Effect.flatMap(StoreFixture, ({ grant }) => grant))
        const attempts = yield* Effect.forEach(
          Array.from({ length: MAX_ACTIVE + 1 }, (_, i) => i).flatMap((i) => [
            ...grants.flatMap(({ grantId }) => [{ grantId, key: `${i % MAX_ACTIVE}` }, { grantId, key: `new-${i}` }]),
            ...open.map((grantId) => ({ grantId, key: `${i}` }))
          ]),
          ({ grantId, key }) => Effect.map(Effect.result(create(grantId, key)), (result) => ({ grantId, key, result })),
          { concurrency: "unbounded" }
        )
        for (const { grantId, key, result } of attempts) {
          if (open.includes(grantId)) continue
          const told = Result.isSuccess(result) ? result.success.replayed : result.failure._tag
          assert.strictEqual(told, key.startsWith("new") ? "ConcurrencyLimitExceeded" : true)
        }
        for (const grantId of open) {
          const refused = attempts.filter((attempt) => attempt.grantId === grantId && Result.isFailure(attempt.result))
          assert.strictEqual(refused.length, 1)
          assert.strictEqual((yield* store.list(grantId, { after: null, limit: 100, status: null, repo: null })).length, MAX_ACTIVE)
        }
      }))

    it.effect("a refused creation leaves its key free", () =>
      Effect.gen(function*() {
        const { grantId, sandboxes: [first] } = yield* full
        assert.isDefined(first)
        assert.deepInclude(yield* Effect.flip(create(grantId, "later")), { _tag: "ConcurrencyLimitExceeded", limit: MAX_ACTIVE })
        yield* change(first as Sandbox, [{ _tag: "StartBoot" }, { _tag: "Fail", reason: "boot_failed", error: "No.", retryable: false }])
        assert.isFalse((yield* create(grantId, "later")).replayed)
      }))

    it.effect("counts what is queued, booting, running or ending, and nothing that is over or another grant's", () =>
      Effect.gen(function*() {
        const ids = yield* Ids
        const { grantId, sandboxes: [a, b, c] } = yield* full
        assert(a !== undefined && b !== undefined && c !== undefined)
        yield* change(a, [{ _tag: "StartBoot" }])
        yield* change(b, [{ _tag: "StartBoot" }, { _tag: "FinishBoot", turnId: turnId(ids, b.id, 1) }])
        yield* change(c, [{ _tag: "StartBoot" }])
        yield* command(c, terminate(ids), at)
        assert.strictEqual((yield* Effect.flip(create(grantId)))._tag, "ConcurrencyLimitExceeded")
        yield* create(yield* (yield* StoreFixture).grant)
        yield* change(c, [{ _tag: "Release" }])
        yield* create(grantId)
        assert.strictEqual((yield* Effect.flip(create(grantId)))._tag, "ConcurrencyLimitExceeded")
      }))
  })

const creation = (it: Rules<Stores>) => {
  it.effect("says what a key made, as it is now, of a free key nothing, and makes nothing", () =>
    Effect.gen(function*() {
      const store = yield* SandboxStore
      const creation = yield* creationOf()
      const keyed = (key: string) => ({ key: IdempotencyKey.make(key), fingerprint: "1:a" })
      const { sandbox } = yield* store.create({ creation, keyed: keyed("made") })
      assert.deepStrictEqual(yield* store.replay(creation.grantId, keyed("made"), null), sandbox)
      yield* command(keyOf(sandbox), terminate(yield* Ids), at)
      assert.strictEqual((yield* store.replay(creation.grantId, keyed("made"), null))?.status, "terminated")
      const another = { ...keyed("made"), fingerprint: "1:b" }
      assert.strictEqual((yield* Effect.flip(store.replay(creation.grantId, another, null)))._tag, "IdempotencyConflict")
      assert.isNull(yield* store.replay(yield* (yield* StoreFixture).grant, keyed("made"), null))
      assert.isNull(yield* store.replay(creation.grantId, keyed("new"), null))
      assert.isFalse(
        (yield* store.create({ creation: yield* creationOf({ grantId: creation.grantId }), keyed: keyed("new") }))
          .replayed
      )
    }))

  it.effect("says what each write recorded: as it was, what happened, as it is", () =>
    Effect.gen(function*() {
      const store = yield* SandboxStore
      const limits = yield* Policy
      const ids = yield* Ids
      const sandbox = yield* make()
      const booted = yield* store.change(sandbox.id, "policy", (state) => decide(state, { _tag: "StartBoot" }, { now: at, limits }), at)
      assert.deepStrictEqual(booted.before, sandbox)
      assert.deepStrictEqual(booted.events.map(({ type }) => type), ["sandbox.status"])
      assert.deepStrictEqual(booted.sandbox, yield* store.find(sandbox))
      const ended = yield* store.command(keyOf(sandbox), terminate(ids), at)
      assert.deepStrictEqual(ended.before, booted.sandbox)
      assert.deepStrictEqual(ended.events.map(({ type }) => type), ["sandbox.status"])
      assert.deepStrictEqual(ended.sandbox, yield* store.find(sandbox))
      const again = yield* store.command(keyOf(sandbox), terminate(ids), at)
      const nothing = yield* store.change(sandbox.id, "policy", () => Result.succeed([]), at)
      for (const { before, events, sandbox } of [again, nothing]) {
        assert.deepStrictEqual([before, events, sandbox], [ended.sandbox, [], ended.sandbox])
      }
    }))

  it.effect("a created sandbox is found by its grant, with every field as it was given", () =>
    Effect.gen(function*() {
      const store = yield* SandboxStore
      const creation = yield* creationOf()
      const made = yield* store.create({ creation, keyed: null })
      assert.isFalse(made.replayed)
      const found = yield* store.find(creation)
      assert.deepStrictEqual(found, made.sandbox)
      assert.deepStrictEqual({ ...found, metadata: { ...found.metadata } }, {
        ...initial(creation),
        metadata: { ...creation.metadata },
        revision: 1,
        lastSeq: 1,
        recordedAt: at,
        logBytes: found.logBytes
      })
      assert.deepStrictEqual((yield* eventsOf(creation.id)).map(({ event, seq }) => [seq, event.type]), [[1, "sandbox.status"]])
    }))

  it.effect("another grant's sandbox and an unknown one are the same error", () =>
    Effect.gen(function*() {
      const store = yield* SandboxStore
      const sandbox = yield* make()
      const other = yield* (yield* StoreFixture).grant
      const unknown = SandboxId.make("c_222222222222")
      for (const key of [{ grantId: other, id: sandbox.id }, { grantId: sandbox.grantId, id: unknown }]) {
        const found = yield* Effect.flip(store.find(key))
        const commanded = yield* Effect.flip(command(key, terminate(yield* Ids), at))
        const changed = yield* Effect.flip(store.change(key.id, { grantId: key.grantId }, () => Result.succeed([]), at))
        assert.deepStrictEqual([found._tag, commanded._tag, changed._tag], ["SandboxNotFound", "SandboxNotFound", "SandboxNotFound"])
      }
    }))

  it.effect("an id that is taken is refused and changes nothing", () =>
    Effect.gen(function*() {
      const store = yield* SandboxStore
      const sandbox = yield* make()
      const error = yield* Effect.flip(
        store.create({ creation: yield* creationOf({ id: sandbox.id, grantId: sandbox.grantId }), keyed: null })
      )
      assert.strictEqual(error._tag, "SandboxIdTaken")
      assert.deepStrictEqual(yield* store.find(sandbox), sandbox)
    }))
}

const idempotentCreation = (it: Rules<Stores>) => {
  it.effect("one key makes one sandbox: equal requests replay it as it is now, another request conflicts", () =>
    Effect.gen(function*() {
      const store = yield* SandboxStore
      const creation = yield* creationOf()
      const keyed = { key: IdempotencyKey.make("order-1"), fingerprint: "1:a" }
      const first = yield* store.create({ creation, keyed })
      yield* command(keyOf(first.sandbox), terminate(yield* Ids), at)
      const again = yield* store.create({ creation: yield* creationOf({ grantId: creation.grantId }), keyed })
      assert.isTrue(again.replayed)
      assert.strictEqual(again.sandbox.id, creation.id)
      assert.strictEqual(again.sandbox.status, "terminated")
      const changed = yield* Effect.flip(
        store.create({
          creation: yield* creationOf({ grantId: creation.grantId }),
          keyed: { ...keyed, fingerprint: "1:b" }
        })
      )
      assert.strictEqual(changed._tag, "IdempotencyConflict")
      const elsewhere = yield* store.create({ creation: yield* creationOf(), keyed })
      assert.isFalse(elsewhere.replayed)
    }))

  it.effect("of many equal requests at once exactly one makes the sandbox", () =>
    Effect.gen(function*() {
      const store = yield* SandboxStore
      const grantId = yield* (yield* StoreFixture).grant
      const keyed = { key: IdempotencyKey.make("storm"), fingerprint: "1:a" }
      const made = yield* Effect.forEach(
        Array.from({ length: 20 }),
        () => Effect.flatMap(creationOf({ grantId }), (creation) => store.create({ creation, keyed })),
        { concurrency: "unbounded" }
      )
      assert.strictEqual(made.filter(({ replayed }) => !replayed).length, 1)
      assert.strictEqual(new Set(made.map(({ sandbox }) => sandbox.id)).size, 1)
      assert.strictEqual((yield* store.list(grantId, { after: null, limit: 100, status: null, repo: null })).length, 1)
    }))

  it.effect("of unequal requests at once under one key one makes the sandbox: its equals replay it, the others conflict", () =>
    Effect.gen(function*() {
      const store = yield* SandboxStore
      const grantId = yield* (yield* StoreFixture).grant
      const outcomes = yield* Effect.forEach(
        Array.from({ length: 20 }, (_, i) => ({ key: IdempotencyKey.make("which"), fingerprint: `1:${i % 2}` })),
        (keyed) =>
          Effect.flatMap(creationOf({ grantId }), (creation) =>
            Effect.map(
              Effect.result(store.create({ creation, keyed })),
              (result) => ({ ...keyed, result })
            )),
        { concurrency: "unbounded" }
      )
      const made = outcomes.filter(({ result }) => Result.isSuccess(result) && !result.success.replayed)
      assert.strictEqual(made.length, 1)
      for (const { fingerprint, result } of outcomes) {
        const told = Result.isSuccess(result) ? "made" : result.failure._tag
        assert.strictEqual(told, fingerprint === made[0]?.fingerprint ? "made" : "IdempotencyConflict")
      }
      assert.strictEqual((yield* store.list(grantId, { after: null, limit: 100, status: null, repo: null })).length, 1)
    }))
}

const concurrentCreation = (it: Rules<Stores>) => {
  it.effect("each of many requests at once has its own outcome, and a refused request leaves the others alone", () =>
    Effect.gen(function*() {
      const store = yield* SandboxStore
      const known = yield* creationOf()
      const { grantId } = known
      const keyOfKnown = { key: IdempotencyKey.make("known"), fingerprint: "1:a" }
      const { sandbox } = yield* store.create({ creation: known, keyed: keyOfKnown })
      const kinds = ["keyed", "unkeyed", "replayed", "IdempotencyConflict", "SandboxIdTaken", "elsewhere"] as const
      const trace = (n: number) => `00-${n.toString(16).padStart(32, "0")}-00000000000000aa-01`
      const outcomes = yield* Effect.forEach(
        Array.from({ length: 48 }, (_, n) => ({ n, kind: kinds[n % kinds.length] ?? "keyed" })),
        Effect.fnUntraced(function*({ kind, n }) {
          const creation = yield* creationOf({
            ...(kind === "elsewhere" ? {} : { grantId }),
            ...(kind === "SandboxIdTaken" ? { id: known.id } : {}),
            title: `${n}`,
            createdAt: DateTime.add(at, { seconds: n })
          })
          const keyed = kind === "replayed"
            ? keyOfKnown
            : kind === "IdempotencyConflict"
            ? { ...keyOfKnown, fingerprint: "1:b" }
            : kind === "unkeyed"
            ? null
            : { key: IdempotencyKey.make(kind === "elsewhere" ? "known" : `own-${n}`), fingerprint: "1:a" }
          const result = yield* Effect.result(
            store.create({ creation, keyed, trace: n % 4 === 0 ? null : trace(n) })
          )
          return { kind, n, creation, result }
        }),
        { concurrency: "unbounded" }
      )
      for (const { creation, kind, n, result } of outcomes) {
        if (kind === "IdempotencyConflict" || kind === "SandboxIdTaken") {
          assert(Result.isFailure(result))
          assert.strictEqual(result.failure._tag, kind)
        } else {
          assert(Result.isSuccess(result))
          assert.strictEqual(result.success.replayed, kind === "replayed")
          if (kind === "replayed") assert.deepStrictEqual(result.success.sandbox, sandbox)
          else {
            assert.deepStrictEqual(result.success.sandbox, yield* store.find(creation))
            assert.deepStrictEqual([result.success.sandbox.id, result.success.sandbox.title], [creation.id, `${n}`])
            assert.deepStrictEqual((yield* eventsOf(creation.id)).map(({ at, seq }) => [seq, at]), [[1, creation.createdAt]])
            assert.strictEqual((yield* store.traces(creation.id, null)).creation, n % 4 === 0 ? null : trace(n))
          }
        }
      }
      assert.deepStrictEqual(yield* store.find(known), sandbox)
    }))

  it.effect("a caller that stops waiting for a creation takes nothing from others, and leaves no half of a sandbox", () =>
    Effect.gen(function*() {
      const store = yield* SandboxStore
      const grantId = yield* (yield* StoreFixture).grant
      const creations = yield* Effect.forEach(Array.from({ length: 24 }), () => creationOf({ grantId }))
      const fibers = yield* Effect.forEach(creations, (creation, n) =>
        Effect.forkChild(
          store.create({ creation, keyed: { key: IdempotencyKey.make(`${n}`), fingerprint: "1:a" } }),
          { startImmediately: true }
        ))
      const [stopped, waiting] = [fibers.filter((_, n) => n % 3 === 0), fibers.filter((_, n) => n % 3 !== 0)]
      yield* Effect.forEach(stopped, Fiber.interrupt, { concurrency: "unbounded" })
      const made = yield* Effect.forEach(waiting, Fiber.join)
      assert.deepStrictEqual(
        made.map(({ replayed, sandbox }) => [replayed, sandbox.id]),
        creations.filter((_, n) => n % 3 !== 0).map(({ id }) => [false, id])
      )
      // Asked for again, each is there under its key, once, with its log.
      const again = yield* Effect.forEach(creations, (_, n) =>
        Effect.flatMap(
          creationOf({ grantId }),
          (creation) => store.create({ creation, keyed: { key: IdempotencyKey.make(`${n}`), fingerprint: "1:a" } })
        ))
      for (const { sandbox } of again) assert.deepStrictEqual((yield* eventsOf(sandbox.id)).map(({ seq }) => seq), [1])
      assert.sameMembers(
        (yield* store.list(grantId, { after: null, limit: 100, status: null, repo: null })).map(({ id }) => id),
        again.map(({ sandbox }) => sandbox.id)
      )
    }))
}

const listing = (it: Rules<Stores>) => {
  it.effect("of many reads at once each finds its own sandbox, or none", () =>
    Effect.gen(function*() {
      const store = yield* SandboxStore
      const made = yield* Effect.forEach(Array.from({ length: 6 }), () => make())
      const other = yield* (yield* StoreFixture).grant
      const keys = made.flatMap((sandbox) => [
        { sandbox, key: keyOf(sandbox) },
        { sandbox: null, key: { grantId: other, id: sandbox.id } },
        { sandbox: null, key: { grantId: sandbox.grantId, id: SandboxId.make("c_222222222222") } },
        { sandbox, key: keyOf(sandbox) }
      ])
      const found = yield* Effect.forEach(keys, ({ key }) => Effect.result(store.find(key)), { concurrency: "unbounded" })
      assert.deepStrictEqual(
        found.map((result) => Result.isSuccess(result) ? result.success : result.failure._tag),
        keys.map(({ sandbox }) => sandbox ?? "SandboxNotFound")
      )
    }))

  it.effect("lists a grant's sandboxes newest first, page by page, each once", () =>
    Effect.gen(function*() {
      const store = yield* SandboxStore
      const grantId = yield* (yield* StoreFixture).grant
      const made = yield* Effect.forEach([0, 1, 1, 1, 2], (seconds) => make({ grantId, createdAt: DateTime.add(at, { seconds }) }))
      yield* make()
      const query = { limit: 2, status: null, repo: null }
      const seen: Array<Sandbox> = []
      for (let after: Sandbox | null = null;;) {
        const page: ReadonlyArray<Sandbox> = yield* store.list(grantId, { ...query, after })
        seen.push(...page)
        const last = page.at(-1)
        if (last === undefined) break
        after = last
      }
      const expected = [...made].sort((a, b) => DateTime.Order(b.createdAt, a.createdAt) || (a.id < b.id ? 1 : -1))
      assert.deepStrictEqual(seen.map(({ id }) => id), expected.map(({ id }) => id))
    }))

  it.effect("gives summaries of what it lists, in its order, page by page, with the same filters", () =>
    Effect.gen(function*() {
      const store = yield* SandboxStore
      const grantId = yield* (yield* StoreFixture).grant
      yield* make({ grantId, metadata: { ticket: "T-1" } })
      const { sandbox } = yield* running
      const failing = yield* make({ grantId, createdAt: DateTime.add(at, { seconds: 1 }), repos: [{ fullName: "acme/third" }] })
      yield* drive(failing, [{ _tag: "StartBoot" }, { _tag: "Fail", reason: "boot_failed", error: "No disk.", retryable: false }])
      yield* make({ grantId, createdAt: DateTime.add(at, { seconds: 2 }) })
      const all = { after: null, limit: 100, status: null, repo: null }
      const listed = yield* store.list(grantId, all)
      assert.deepStrictEqual(yield* store.summaries(grantId, all), listed.map(summaryOf))
      // One whose turn is under way.
      assert.deepStrictEqual(
        yield* store.summaries(sandbox.grantId, all),
        (yield* store.list(sandbox.grantId, all)).map(summaryOf)
      )
      for (const query of [{ after: listed[0] ?? null, limit: 1 }, { status: "failed" as const }, { repo: "ACME/third" }]) {
        const asked = { ...all, ...query }
        assert.deepStrictEqual(yield* store.summaries(grantId, asked), (yield* store.list(grantId, asked)).map(summaryOf))
      }
    }))

  it.effect("filters the list by status and by any of the repositories, whatever the case", () =>
    Effect.gen(function*() {
      const store = yield* SandboxStore
      const grantId = yield* (yield* StoreFixture).grant
      const one = yield* make({ grantId })
      const two = yield* make({ grantId, repos: [{ fullName: "acme/third" }] })
      yield* drive(two, [{ _tag: "StartBoot" }])
      yield* command(two, terminate(yield* Ids), at)
      const list = (query: { status?: "queued" | "terminating"; repo?: string }) =>
        Effect.map(
          store.list(grantId, { after: null, limit: 100, status: query.status ?? null, repo: query.repo ?? null }),
          (found) => found.map(({ id }) => id)
        )
      assert.deepStrictEqual(yield* list({ status: "queued" }), [one.id])
      assert.deepStrictEqual(yield* list({ status: "terminating" }), [two.id])
      assert.deepStrictEqual(yield* list({ repo: "ACME/shop" }), [one.id])
      assert.deepStrictEqual(yield* list({ repo: "acme/OTHER", status: "terminating" }), [])
      // A part of a name is another name.
      for (const repo of ["acme/sho", "acme/shop2", "cme/shop", "acme/sh_p"]) assert.deepStrictEqual(yield* list({ repo }), [], repo)
    }))
}

const pages = (it: Rules<Stores>) => {
  it.effect("the log numbers events from 1 without a gap and serves them after a cursor", () =>
    Effect.gen(function*() {
      const store = yield* SandboxStore
      const { sandbox } = yield* running
      const all = yield* store.log(sandbox.id, 0, 100)
      assert.deepStrictEqual(all.map(({ seq }) => seq), Array.from({ length: sandbox.lastSeq }, (_, i) => i + 1))
      assert.deepStrictEqual(yield* store.log(sandbox.id, 2, 1), all.slice(2, 3))
      assert.deepStrictEqual(yield* store.log(sandbox.id, sandbox.lastSeq, 100), [])
      for (const { seq, type, wire } of all) {
        const json = JSON.parse(wire)
        assert.deepStrictEqual([json.id, json.type, json.sandbox_id], [String(seq), type, sandbox.id])
      }
    }))

  it.effect("pages end after their bytes too, have at least one item, and none is missed or told twice", () =>
    Effect.gen(function*() {
      const store = yield* SandboxStore
      const { sandbox, turn } = yield* running
      const say = (text: string, i: number): SystemCommand => ({
        _tag: "RecordWork",
        turnId: turn,
        events: [
          { type: "message.updated", data: { part_id: `m${i}:text`, message_id: `m${i}`, kind: "text", text } },
          { type: "message.completed", data: { message_id: `m${i}`, finish: "end_turn" } }
        ]
      })
      // Characters of more than one byte each, such that Postgres compresses them together.
      const large = Array.from({ length: 12 }, (_, i) => say("é".repeat(PART_BYTES / 2), i))
      yield* drive(sandbox, [...large, say("small", 12)])

      const read = Effect.fnUntraced(function*<A extends { readonly seq: number }>(
        page: (after: number) => Effect.Effect<ReadonlyArray<A>, StoreUnavailable>,
        bytes: (item: A) => number
      ) {
        const pages: Array<ReadonlyArray<A>> = []
        for (let after = 0;;) {
          const items = yield* page(after)
          const last = items.at(-1)
          if (last === undefined) break
          assert.isTrue(items.slice(0, -1).reduce((sum, item) => sum + bytes(item), 0) < PAGE_BYTES)
          pages.push(items)
          after = last.seq
        }
        return pages
      })
      const { lastSeq } = yield* store.find(sandbox)
      const log = yield* read((after) => store.log(sandbox.id, after, 100), bytesOf.entry)
      assert.deepStrictEqual(log.flat().map(({ seq }) => seq), Array.from({ length: lastSeq }, (_, i) => i + 1))
      assert.isTrue(log.length >= 4 && log.length <= 7, String(log.length))
      const messages = yield* read((after) => store.messages(sandbox.id, after, 100), bytesOf.message)
      assert.deepStrictEqual(messages.flat().slice(1).map(({ id }) => id), Array.from({ length: 13 }, (_, i) => `m${i}`))
      assert.isTrue(messages.length >= 4 && messages.length <= 7, String(messages.length))
      assert.strictEqual((yield* store.log(sandbox.id, 0, 3)).length, 3)
    }))

  it.effect("pages of the list end after their bytes too: prompts may be large", () =>
    Effect.gen(function*() {
      const store = yield* SandboxStore
      const grantId = yield* (yield* StoreFixture).grant
      const made = yield* Effect.forEach(
        Array.from({ length: 20 }, (_, seconds) => DateTime.add(at, { seconds })),
        (createdAt) => make({ grantId, createdAt, prompt: "\u{1F680}".repeat(60_000) })
      )
      const seen: Array<string> = []
      for (let after: Sandbox | null = null;;) {
        const page: ReadonlyArray<Sandbox> = yield* store.list(grantId, { after, limit: 100, status: null, repo: null })
        after = page.at(-1) ?? null
        if (after === null) {
          break
        }
        assert.isTrue(
          page.slice(0, -1).reduce((sum, sandbox) => sum + bytesOf.sandbox(sandbox), 0) < PAGE_BYTES
        )
        seen.push(...page.map(({ id }) => id))
      }
      assert.deepStrictEqual(seen, made.map(({ id }) => id).reverse())
    }))
}

const outputLimits = (it: Rules<Stores>) => {
  it.effect("pages of summaries end after their bytes too, and their prompts do not count", () =>
    Effect.gen(function*() {
      const store = yield* SandboxStore
      const grantId = yield* (yield* StoreFixture).grant
      const query = { limit: 100, status: null, repo: null }
      // As much of both as a request may have.
      const metadata = Object.fromEntries(Array.from({ length: 16 }, (_, i) => [`${i}`, "\u{1F680}".repeat(1000)]))
      const made = yield* Effect.forEach(
        Array.from({ length: 24 }, (_, seconds) => DateTime.add(at, { seconds })),
        (createdAt, i) => make({ grantId, createdAt, ...(i < 20 ? { metadata } : { prompt: "\u{1F680}".repeat(60_000) }) })
      )
      const pages: Array<ReadonlyArray<string>> = []
      for (let after: SandboxSummary | null = null;;) {
        const page: ReadonlyArray<SandboxSummary> = yield* store.summaries(grantId, { ...query, after })
        after = page.at(-1) ?? null
        if (after === null) break
        assert.isTrue(page.slice(0, -1).reduce((sum, summary) => sum + bytesOf.summary(summary), 0) < PAGE_BYTES)
        pages.push(page.map(({ id }) => id))
      }
      assert.deepStrictEqual(pages.flat(), made.map(({ id }) => id).reverse())
      // Four with a large prompt, and those that fit beside them.
      assert.deepStrictEqual(pages.map(({ length }) => length), [17, 7])
    }))

  it.effect("what a turn and a sandbox record is bounded, also when another worker goes on", () =>
    Effect.gen(function*() {
      const store = yield* SandboxStore
      const leases = yield* Leases
      const { sandbox, turn } = yield* running
      const [lease] = yield* leases.take(machine, ample).pipe(Effect.map((all) => all.filter(({ sandbox: { id } }) => id === sandbox.id)))
      const flood: SystemCommand = {
        _tag: "RecordWork",
        turnId: turn,
        events: Array.from(
          { length: 2000 },
          (_, i) => ({ type: "message.updated", data: { part_id: `m${i}:text`, message_id: `m${i}`, kind: "text", text: "x" } })
        )
      }
      const half = Array.from({ length: TURN_EVENTS / 2000 / 2 }, () => flood)
      yield* drive(sandbox, half, lease?.lease)
      yield* (yield* StoreFixture).ageLease(sandbox.id, LEASE_SECONDS)
      const [taken] = yield* leases.take({ worker: "worker-2", machine: "machine-1" }, ample).pipe(
        Effect.map((all) => all.filter(({ sandbox: { id } }) => id === sandbox.id))
      )
      const after = yield* drive(sandbox, [...half, flood], taken?.lease)
      assert.strictEqual(after.turn?.state, "failed")
      const told = (yield* store.log(sandbox.id, after.lastSeq - 2, 10)).map(({ wire }) => fromWire(wire).event)
      assert.deepStrictEqual(told.map(({ type }) => type), ["sandbox.error", "turn.completed"])
      assert.deepInclude(told[1]?.data, { state: "failed", reason: "output_limit", initiator: "policy" })
      assert.strictEqual(after.lastSeq, (sandbox.turn?.began?.seq ?? 0) + TURN_EVENTS + 2)
      assert.strictEqual((yield* store.find(sandbox)).logBytes, after.logBytes)
    }))

  it.effect("dates no event before its predecessor, whenever the writer read its clock", () =>
    Effect.gen(function*() {
      const store = yield* SandboxStore
      const limits = yield* Policy
      const ids = yield* Ids
      const later = DateTime.add(at, { milliseconds: 3 })
      const write = (id: SandboxId, by: Writer, command: SystemCommand, now: DateTime.Utc) =>
        store.change(id, by, (state) => decide(state, command, { now, limits }), now)
      const sandbox = yield* make({ createdAt: later })
      const { lease } = yield* leased(sandbox.id)
      // Under its lease, and by a rule: each of them read the clock before the newest event was recorded.
      yield* write(sandbox.id, lease, { _tag: "StartBoot" }, at)
      const boot = yield* write(sandbox.id, "policy", { _tag: "ReportBoot", data: { stage: "provision", ms: 1 } }, at)
      assert.deepStrictEqual(boot.sandbox.statusAt, later)
      yield* write(sandbox.id, lease, { _tag: "ReportBoot", data: { stage: "clone", ms: 1 } }, DateTime.add(later, { milliseconds: 4 }))
      yield* write(sandbox.id, lease, { _tag: "FinishBoot", turnId: turnId(ids, sandbox.id, 1) }, later)
      yield* write(sandbox.id, lease, { _tag: "StartTurn", turnId: turnId(ids, sandbox.id, 1) }, later)
      yield* command(keyOf(sandbox), terminate(ids), at)
      const dated = (yield* eventsOf(sandbox.id)).map((event) => event.at.epochMilliseconds - at.epochMilliseconds)
      assert.deepStrictEqual(dated, [3, 3, 3, 7, 7, 7, 7, 7])
      const [prompt] = yield* store.messages(sandbox.id, 0, 10)
      assert.deepStrictEqual(prompt?.createdAt, DateTime.add(at, { milliseconds: 7 }))
    }))
}

const ordering = (it: Rules<Stores>) => {
  it.effect("replaying the log gives the stored state", () =>
    Effect.gen(function*() {
      const store = yield* SandboxStore
      const { ids, sandbox } = yield* asking
      yield* command(keyOf(sandbox), decideApproval(ids, "call-1", { decision: "approve" }, decider), at)
      yield* command(keyOf(sandbox), interrupt(ids), at)
      const stored = yield* store.find(sandbox)
      const { lastSeq: _, ...expected } = stored
      const { lastSeq: __, ...replayed } = (yield* eventsOf(sandbox.id)).reduce(
        (state, { at, event }) => evolve(state, event, at),
        initial({ ...stored, createdAt: at })
      )
      assert.deepStrictEqual(replayed, expected)
    }))

  it.effect("concurrent writers are ordered: no event is lost and none has another's number", () =>
    Effect.gen(function*() {
      const store = yield* SandboxStore
      const { sandbox, turn } = yield* running
      const limits = yield* Policy
      yield* Effect.forEach(Array.from({ length: 12 }), (_, i) =>
        store.change(sandbox.id, "policy", (state) =>
          decide(state, {
            _tag: "RecordWork",
            turnId: turn,
            events: [{
              type: "tool.updated",
              data: { part_id: `tool:${i}`, message_id: "m", call_id: `${i}`, tool: "t", status: "pending" }
            }]
          }, { now: at, limits }), at), { concurrency: "unbounded" })
      const after = yield* eventsOf(sandbox.id)
      assert.deepStrictEqual(after.map(({ seq }) => seq), Array.from({ length: sandbox.lastSeq + 12 }, (_, i) => i + 1))
      assert.strictEqual((yield* store.find(sandbox)).lastSeq, sandbox.lastSeq + 12)
    }))

  it.effect("of many terminates at once one is applied; the others are its duplicates", () =>
    Effect.gen(function*() {
      const ids = yield* Ids
      const sandbox = yield* make()
      const results = yield* Effect.forEach(
        Array.from({ length: 12 }),
        () => command(keyOf(sandbox), terminate(ids), at),
        { concurrency: "unbounded" }
      )
      assert.strictEqual(results.filter(({ outcome }) => outcome === "applied").length, 1)
      assert.strictEqual(results.filter(({ outcome }) => outcome === "duplicate").length, 11)
      assert.strictEqual(new Set(results.map(({ commandId, revision }) => `${commandId} ${revision}`)).size, 1)
    }))

  it.effect("the first decision on an approval wins, and repeating it finds the first answer", () =>
    Effect.gen(function*() {
      const store = yield* SandboxStore
      const { ids, sandbox } = yield* asking
      const send = (decision: "approve" | "deny", id = "call-1") =>
        command(keyOf(sandbox), decideApproval(ids, id, { decision }, decider), at)
      assert.strictEqual((yield* Effect.flip(send("approve", "other")))._tag, "ApprovalNotFound")
      const approved = yield* send("approve")
      assert.strictEqual(approved.outcome, "applied")
      assert.deepStrictEqual(yield* send("approve"), { ...approved, outcome: "duplicate" })
      const denied = yield* send("deny")
      assert.deepStrictEqual([denied.outcome, denied.rejection], ["rejected", "approval_already_resolved"])
      assert.deepStrictEqual(yield* store.approvals(sandbox.id, ["call-1", "unknown"]), [
        { approvalId: "call-1", outcome: "approved", by: "user" }
      ])
    }))
}

const commandResults = (it: Rules<Stores>) => {
  it.effect("why an approval was denied is kept with it, and what was approved for the turn with the turn", () =>
    Effect.gen(function*() {
      const store = yield* SandboxStore
      const { ids, sandbox } = yield* asking
      const turnId = (yield* store.find(keyOf(sandbox))).turn?.id ?? ""
      const limits = yield* Policy
      const ask = (call: string, kind?: "command") =>
        store.change(sandbox.id, "policy", (now) => decide(now, request(turnId, call, kind), { limits, now: at }), at)
      const denial = decideApproval(ids, "call-1", { decision: "deny", reason: "Not there\u2028— 'yet'." }, decider)
      yield* command(keyOf(sandbox), denial, at)
      yield* ask("call-2")
      yield* command(keyOf(sandbox), decideApproval(ids, "call-2", { decision: "approve", scope: "turn" }, decider), at)
      yield* ask("call-3")
      yield* ask("call-4", "command")
      assert.sameDeepMembers(Array.from(yield* store.approvals(sandbox.id, ["call-1", "call-2", "call-3", "call-4"])), [
        { approvalId: "call-1", outcome: "denied", by: "user", reason: "Not there\u2028— 'yet'." },
        { approvalId: "call-2", outcome: "approved", by: "user" },
        { approvalId: "call-3", outcome: "approved", by: "policy" },
        { approvalId: "call-4", outcome: null, by: null }
      ])
      assert.deepStrictEqual((yield* store.find(keyOf(sandbox))).turn?.approvedKinds, ["edit"])
    }))

  it.effect("the audit log has who decided an approval, once", () =>
    Effect.gen(function*() {
      const { ids, sandbox } = yield* asking
      const send = (decision: "approve" | "deny") => command(keyOf(sandbox), decideApproval(ids, "call-1", { decision }, decider), at)
      assert.deepStrictEqual(yield* appended(Effect.all([send("deny"), send("deny"), send("approve")])), [
        { action: "approval.decided", at, subjects: { sandboxId: sandbox.id, approvalId: "call-1", outcome: "denied" } }
      ])
      const other = yield* asking
      assert.deepStrictEqual(yield* appended(command(keyOf(other.sandbox), terminate(ids), at)), [])
    }))

  it.effect("a rejected command is answered again and never hides what was applied", () =>
    Effect.gen(function*() {
      const ids = yield* Ids
      const sandbox = yield* make()
      const early = yield* command(keyOf(sandbox), interrupt(ids), at)
      assert.deepStrictEqual([early.outcome, early.rejection, early.revision], ["rejected", "no_active_turn", 1])
      assert.deepStrictEqual(yield* command(keyOf(sandbox), interrupt(ids), at), early)
    }))

  it.effect("interrupting twice is one command, also after the turn has ended", () =>
    Effect.gen(function*() {
      const { ids, sandbox, turn } = yield* running
      const first = yield* command(keyOf(sandbox), interrupt(ids), at)
      assert.strictEqual(first.outcome, "applied")
      yield* drive(sandbox, [{ _tag: "EndTurn", turnId: turn, state: "interrupted" }])
      assert.deepStrictEqual(yield* command(keyOf(sandbox), interrupt(ids), at), { ...first, outcome: "duplicate" })
    }))

  it.effect("keeps the title that a command gave, also of a sandbox that ended, and shows it in lists and summaries", () =>
    Effect.gen(function*() {
      const store = yield* SandboxStore
      const ids = yield* Ids
      const made = yield* make({ title: "First" })
      const asked = (title: string) => Effect.map(command(made, rename(ids, title), at), ({ outcome }) => outcome)
      assert.deepStrictEqual([yield* asked("2nd \u{1F680}"), yield* asked("2nd \u{1F680}")], ["applied", "duplicate"])
      yield* command(made, terminate(ids), at)
      assert.strictEqual(yield* asked("Third"), "applied")
      const query = { after: null, limit: 10, status: null, repo: null }
      const found = yield* store.find(keyOf(made))
      const shown = [found, ...yield* store.list(made.grantId, query), ...yield* store.summaries(made.grantId, query)]
      assert.deepStrictEqual(shown.map(({ title }) => title), ["Third", "Third", "Third"])
      assert.strictEqual(found.renames, 2)
    }))

  it.effect("keeps prompts and whole messages, oldest first", () =>
    Effect.gen(function*() {
      const store = yield* SandboxStore
      const { ids, sandbox, turn } = yield* running
      const update = (id: string, kind: "text" | "reasoning", text: string) =>
        ({
          type: "message.updated",
          data: { part_id: `${id}:${kind === "text" ? "text" : "thought"}`, message_id: id, kind, text }
        }) as const
      const end = (id: string) => ({ type: "message.completed", data: { message_id: id, finish: "end_turn" } }) as const
      yield* drive(sandbox, [
        { _tag: "RecordWork", turnId: turn, events: [update("m1", "text", "Hel")] },
        { _tag: "RecordWork", turnId: turn, events: [update("m1", "text", "Hello"), update("m2", "reasoning", "hm"), end("m2")] },
        { _tag: "RecordWork", turnId: turn, events: [end("m1")] },
        { _tag: "EndTurn", turnId: turn, state: "succeeded" }
      ])
      const sent = yield* command(keyOf(sandbox), sendMessage(ids, "And now?", "user-2"), at)
      assert.strictEqual(sent.outcome, "applied")
      yield* drive(sandbox, [{ _tag: "StartTurn", turnId: turnId(ids, sandbox.id, 2) }])
      const messages = yield* store.messages(sandbox.id, 0, 100)
      assert.deepStrictEqual(messages.map(({ role, text, turnId }) => [role, text, turnId]), [
        ["user", sandbox.prompt, turn],
        ["assistant", "Hello", turn],
        ["user", "And now?", turnId(ids, sandbox.id, 2)]
      ])
      assert.deepStrictEqual(yield* store.messages(sandbox.id, messages[0]?.seq ?? 0, 1), messages.slice(1, 2))
    }))
}

const approvals = (it: Rules<Stores>) => {
  it.effect("gives approvals in the order in which they are asked for, and keeps those that wait in the order of their requests", () =>
    Effect.gen(function*() {
      const store = yield* SandboxStore
      const { ids, sandbox, turn } = yield* running
      const calls = ["call-2", "call-9", "call-1", "call-10"]
      yield* drive(sandbox, calls.map((call) => request(turn, call)))
      const waiting = (yield* store.find(keyOf(sandbox))).approvals.map(({ approval_id }) => approval_id)
      assert.deepStrictEqual(waiting, calls)
      const given = (asked: ReadonlyArray<string>) =>
        Effect.map(store.approvals(sandbox.id, asked), (all) => all.map(({ approvalId }) => approvalId))
      for (const asked of [calls, calls.toReversed(), ["call-9", "unknown", "call-10", "call-2"]]) {
        assert.deepStrictEqual(yield* given(asked), asked.filter((id) => id !== "unknown"))
      }
      yield* command(keyOf(sandbox), interrupt(ids), at)
      const denied = (yield* eventsOf(sandbox.id)).flatMap(({ event }) =>
        event.type === "approval.resolved" ? [event.data.approval_id] : []
      )
      assert.deepStrictEqual(denied, calls)
    }))
}

const messages = (it: Rules<Stores>) => {
  it.effect("lists a message of the agent as soon as it is whole: at the next part of the turn, or at the turn's end", () =>
    Effect.gen(function*() {
      const store = yield* SandboxStore
      const { sandbox, turn } = yield* running
      const record = (...events: Extract<SystemCommand, { readonly _tag: "RecordWork" }>["events"]) =>
        drive(sandbox, [{ _tag: "RecordWork", turnId: turn, events }])
      const update = (id: string, text: string, kind: "text" | "reasoning" = "text") =>
        ({
          type: "message.updated",
          data: { part_id: `${id}:${kind === "text" ? "text" : "thought"}`, message_id: id, kind, text }
        }) as const
      const tool = (status: "pending" | "completed") =>
        ({
          type: "tool.updated",
          data: { part_id: "tool:t1", message_id: `turn-tools:${turn}`, call_id: "t1", tool: "ls", status }
        }) as const
      const listed = Effect.map(
        store.messages(sandbox.id, 0, 100),
        (all) => all.slice(1).map(({ id, role, text, turnId }) => [id, role, text, turnId])
      )
      const m1 = ["m1", "assistant", "I look.", turn]

      yield* record(update("m1", "hm", "reasoning"), update("m1", "I"))
      yield* record(update("m1", "I look."))
      assert.deepStrictEqual(yield* listed, [])
      yield* record(tool("pending"))
      assert.deepStrictEqual(yield* listed, [m1])
      // A call that ends beside a text says nothing of it; a thought is no message.
      yield* record(update("m2", "hm", "reasoning"), update("m2", "And"), tool("completed"))
      assert.deepStrictEqual(yield* listed, [m1])
      yield* record(update("m2", "And now."), update("m3", "Two in one"), update("m4", "Done"))
      assert.deepStrictEqual((yield* listed).map(([id]) => id), ["m1", "m2", "m3"])
      yield* record(update("m4", "Done."))
      yield* drive(sandbox, [{ _tag: "EndTurn", turnId: turn, state: "succeeded" }])
      const messages = yield* store.messages(sandbox.id, 0, 100)
      assert.deepStrictEqual(messages.slice(1).map(({ id, text }) => `${id} ${text}`), ["m1 I look.", "m2 And now.", "m3 Two in one",
        "m4 Done."])
      messages.reduce((last, { id, seq }) => (assert.isAbove(seq, last, `${id} comes after the one before it`), seq), 0)
    }))

  it.effect("lists a message that went on after the next one began once, with all of its text", () =>
    Effect.gen(function*() {
      const store = yield* SandboxStore
      const { sandbox, turn } = yield* running
      const update = (id: string, text: string) =>
        ({ type: "message.updated", data: { part_id: `${id}:text`, message_id: id, kind: "text", text } }) as const
      yield* drive(sandbox, [
        { _tag: "RecordWork", turnId: turn, events: [update("m1", "One"), update(turn, "Two")] },
        {
          _tag: "RecordWork",
          turnId: turn,
          events: [update("m1", "One more"), { type: "message.completed", data: { message_id: "m1", finish: "end_turn" } }]
        },
        { _tag: "EndTurn", turnId: turn, state: "succeeded" }
      ])
      const messages = yield* store.messages(sandbox.id, 0, 100)
      // A message may have the id of its turn, as the prompt has.
      assert.deepStrictEqual(messages.map(({ id, role, text }) => [id, role, text]), [
        [turn, "user", sandbox.prompt],
        ["m1", "assistant", "One more"],
        [turn, "assistant", "Two"]
      ])
    }))
}

const messageKeys = (it: Rules<Stores>) => {
  it.effect("lists a message the same, in however many transactions it came", () =>
    Effect.gen(function*() {
      const store = yield* SandboxStore
      const say = (id: string, kind: "text" | "reasoning", text: string) =>
        ({ type: "message.updated", data: { part_id: partId[kind](id), message_id: id, kind, text } }) as const
      const end = (id: string) => ({ type: "message.completed", data: { message_id: id, finish: "end_turn" } }) as const
      const begun = [say("m1", "text", "One"), say("m2", "reasoning", "hm"), end("m2"), say("m3", "text", "Three")]
      const rest = [end("m1"), say("m1", "text", "One more"), end("m1"), say("m2", "text", "Two"), end("m2")]
      const listed = (...transactions: ReadonlyArray<Extract<SystemCommand, { readonly _tag: "RecordWork" }>["events"]>) =>
        Effect.gen(function*() {
          const { sandbox, turn } = yield* running
          yield* drive(sandbox, transactions.map((events) => ({ _tag: "RecordWork", turnId: turn, events })))
          const messages = yield* store.messages(sandbox.id, 0, 100)
          return messages.slice(1).map(({ id, seq, text }) => [id, seq - sandbox.lastSeq, text])
        })
      const expected = [["m1", 1, "One more"], ["m3", 4, "Three"], ["m2", 8, "Two"]]
      assert.deepStrictEqual(yield* listed(...[...begun, ...rest].map((event) => [event])), expected)
      assert.deepStrictEqual(yield* listed(begun, rest), expected)
      assert.deepStrictEqual(yield* listed([...begun, ...rest]), expected)
      assert.deepStrictEqual(yield* listed(begun.slice(0, 1), [...begun.slice(1), ...rest]), expected)
      assert.deepStrictEqual(
        yield* listed([say("m4", "text", "One")], [end("m4"), say("m4", "text", "One more"), end("m4")]),
        [["m4", 1, "One more"]]
      )
    }))

  it.effect("one key sends one message: equal requests find it, another request conflicts, other sandboxes do not see it", () =>
    Effect.gen(function*() {
      const { ids, sandbox, turn } = yield* running
      yield* drive(sandbox, [{ _tag: "EndTurn", turnId: turn, state: "succeeded" }])
      const keyed = { key: IdempotencyKey.make("message-1"), fingerprint: "1:a" }
      const send = (to: Sandbox, request = keyed) => command(keyOf(to), sendMessage(ids, "Go on", "user-2"), at, request)
      const first = yield* send(sandbox)
      assert.strictEqual(first.outcome, "applied")
      assert.deepStrictEqual(yield* send(sandbox), { ...first, outcome: "duplicate" })
      assert.strictEqual((yield* Effect.flip(send(sandbox, { ...keyed, fingerprint: "1:b" })))._tag, "IdempotencyConflict")
      assert.strictEqual((yield* Effect.flip(send(sandbox, { ...keyed, key: IdempotencyKey.make("message-2") })))._tag, "TurnActive")
      const other = yield* running
      yield* drive(other.sandbox, [{ _tag: "EndTurn", turnId: other.turn, state: "succeeded" }])
      assert.strictEqual((yield* send(other.sandbox)).outcome, "applied")
    }))

  it.effect("keys of messages are each sandbox's alone, and apart from those of creations", () =>
    Effect.gen(function*() {
      const store = yield* SandboxStore
      const ids = yield* Ids
      const keyed = { key: IdempotencyKey.make("order-1"), fingerprint: "1:a" }
      const grantId = yield* (yield* StoreFixture).grant
      const { sandbox: made } = yield* store.create({ creation: yield* creationOf({ grantId }), keyed })
      for (const sandbox of [made, yield* make({ grantId })]) {
        const turn = turnId(ids, sandbox.id, 1)
        yield* drive(sandbox, [
          { _tag: "StartBoot" },
          { _tag: "FinishBoot", turnId: turn },
          { _tag: "StartTurn", turnId: turn },
          { _tag: "EndTurn", turnId: turn, state: "succeeded" }
        ])
        for (const outcome of ["applied", "duplicate"] as const) {
          assert.strictEqual((yield* command(keyOf(sandbox), sendMessage(ids, "Go on", "user-2"), at, keyed)).outcome, outcome)
        }
      }
      assert.strictEqual((yield* store.replay(grantId, keyed, null))?.id, made.id)
    }))

  it.effect("a command that is rejected leaves its key free", () =>
    Effect.gen(function*() {
      const { ids, sandbox, turn } = yield* running
      yield* drive(sandbox, [{ _tag: "EndTurn", turnId: turn, state: "succeeded" }])
      const keyed = { key: IdempotencyKey.make("stop-1"), fingerprint: "1:a" }
      const stop = command(keyOf(sandbox), interrupt(ids), at, keyed)
      assert.deepInclude(yield* stop, { outcome: "rejected", rejection: "no_active_turn" })
      yield* command(keyOf(sandbox), sendMessage(ids, "Go on", "user-2"), at)
      assert.deepStrictEqual([(yield* stop).outcome, (yield* stop).outcome], ["applied", "duplicate"])
    }))
}

const queuedMessages = (it: Rules<Stores>) => {
  it.effect("a repeated message is answered with the turn that the first one started, also after later turns", () =>
    Effect.gen(function*() {
      const store = yield* SandboxStore
      const { ids, sandbox, turn } = yield* running
      const ended = (turnId: string) => ({ _tag: "EndTurn", turnId, state: "succeeded" }) as const
      yield* drive(sandbox, [ended(turn)])
      const revisions = new Set<number>()
      const send = (key: string) =>
        Effect.map(
          store.command(keyOf(sandbox), sendMessage(ids, "Go on", "user-2"), at, { key: IdempotencyKey.make(key), fingerprint: "1:a" }),
          ({ result: { revision }, turnId }) => (revisions.add(revision), turnId)
        )
      const second = turnId(ids, sandbox.id, 2)
      assert.strictEqual(yield* send("a"), second)
      assert.strictEqual(yield* send("a"), second)
      yield* drive(sandbox, [{ _tag: "StartTurn", turnId: second }, ended(second)])
      const third = turnId(ids, sandbox.id, 3)
      assert.strictEqual(yield* send("b"), third)
      // It ends a turn, and starts none.
      for (const outcome of ["applied", "duplicate"]) {
        const interrupted = yield* store.command(keyOf(sandbox), interrupt(ids), at)
        assert.deepStrictEqual([interrupted.result.outcome, interrupted.turnId], [outcome, null])
      }
      assert.strictEqual(yield* send("c"), turnId(ids, sandbox.id, 4))
      yield* command(keyOf(sandbox), terminate(ids), at)
      assert.strictEqual(yield* send("a"), second)
      assert.strictEqual(yield* send("b"), third)
      // Each says the revision that it came to, as its first answer did.
      assert.lengthOf([...revisions], 3)
    }))

  it.effect("keeps what waits with its texts, in its order, and lists sandboxes without them", () =>
    Effect.gen(function*() {
      const store = yield* SandboxStore
      const { ids, sandbox, turn } = yield* running
      const [one, two, three] = [2, 3, 4].map((n) => turnId(ids, sandbox.id, n))
      assert(one !== undefined && two !== undefined && three !== undefined)
      const large = "\u00e9".repeat(60_000)
      const wait = (prompt: string, whenBusy: "queue" | "steer") =>
        store.command(keyOf(sandbox), sendMessage(ids, prompt, "user-2", { whenBusy, canSteer: () => true }), at)
      assert.strictEqual((yield* wait(large, "queue")).turnId, one)
      assert.strictEqual((yield* wait("Then this.", "queue")).turnId, two)
      assert.strictEqual((yield* wait("No, so.", "steer")).turnId, three)
      const found = yield* store.find(keyOf(sandbox))
      assert.deepStrictEqual(found.waiting.map(({ id, steers }) => [id, steers]), [[three, true], [one, false], [two, false]])
      assert.deepStrictEqual(
        found.waiting.map(({ id }) => found.waitingTexts.find((text) => text.id === id)?.text),
        ["No, so.", large, "Then this."]
      )
      const [listed] = yield* store.list(sandbox.grantId, { after: null, limit: 10, status: null, repo: null })
      assert.deepStrictEqual([listed?.waiting, listed?.waitingTexts], [found.waiting, []])

      // Other events leave them as they are.
      assert.deepStrictEqual((yield* drive(found, [{ _tag: "Expire" }])).waitingTexts, found.waitingTexts)
      const steered = yield* drive(found, [{ _tag: "RecordSteer", turnId: turn, messageId: three }])
      assert.deepStrictEqual(steered.waiting.map(({ id }) => id), [one, two])
      assert.deepInclude((yield* store.messages(sandbox.id, 0, 10)).at(-1), { id: three, turnId: turn, role: "user", text: "No, so." })
      const went = yield* drive(steered, [{ _tag: "EndTurn", turnId: turn, state: "succeeded" }])
      assert.deepInclude(went.turn, { id: one, state: "pending", prompt: large, authorId: "user-2" })
      assert.strictEqual((yield* store.command(keyOf(sandbox), cancelMessage(ids, two), at)).result.outcome, "applied")
      assert.strictEqual((yield* store.command(keyOf(sandbox), cancelMessage(ids, two), at)).result.outcome, "duplicate")
      const last = yield* store.find(keyOf(sandbox))
      assert.deepStrictEqual([last.waiting, last.waitingTexts, last.turnless], [[], [], 2])
      const whyNot = (of: Sandbox, id: string) =>
        Effect.map(Effect.flip(store.command(keyOf(of), cancelMessage(ids, id), at)), ({ _tag }) => _tag)
      for (const gone of [turn, one, three]) assert.strictEqual(yield* whyNot(sandbox, gone), "MessageNotWaiting")
      const other = yield* make()
      for (const id of [turn, three]) assert.strictEqual(yield* whyNot(other, id), "MessageNotFound")
    }))

  it.effect("finds the message that a denial became once it waits no longer", () =>
    Effect.gen(function*() {
      const store = yield* SandboxStore
      const { ids, sandbox, turn } = yield* asking
      yield* command(keyOf(sandbox), decideApproval(ids, "call-1", { decision: "deny", reason: "Not now." }, decider), at)
      const waiting = (yield* store.find(sandbox)).waiting[0]?.id ?? ""
      yield* drive(sandbox, [{ _tag: "RecordSteer", turnId: turn, messageId: waiting }])
      const refused = yield* Effect.flip(store.command(keyOf(sandbox), cancelMessage(ids, waiting), at))
      assert.strictEqual(refused._tag, "MessageNotWaiting")
    }))
}

const conversations = (it: Rules<Stores>) => {
  it.effect("reads checkpoints and what was restored out of a log, page by page", () =>
    Effect.gen(function*() {
      const store = yield* SandboxStore
      const rested = yield* atRest(yield* make())
      yield* drive(rested, [{ _tag: "RecordCheckpoint", data: { checkpoint: 2, bytes: 1, ms: 1, repos: [] } }])
      yield* drive(yield* make(), [{ _tag: "StartBoot" }])
      const log = (yield* store.log(rested.id, 0, 1000)).filter(({ type }) => type === "sandbox.checkpoint")
      assert.lengthOf(log, 2)
      const first = yield* store.checkpointLog(rested.id, 0, 1)
      assert.deepStrictEqual(first, log.slice(0, 1))
      assert.deepStrictEqual(yield* store.checkpointLog(rested.id, first[0]?.seq ?? 0, 10), log.slice(1))
      assert.deepStrictEqual(yield* store.checkpointLog(rested.id, log[1]?.seq ?? 0, 10), [])
    }))

  it.effect("lists what an agent was saying before the message that it took then, and goes on from either", () =>
    Effect.gen(function*() {
      const store = yield* SandboxStore
      const { ids, sandbox, turn } = yield* running
      const say = (id: string, text: string) =>
        ({
          _tag: "RecordWork",
          turnId: turn,
          events: [{ type: "message.updated", data: { part_id: partId.text(id), message_id: id, kind: "text", text } }]
        }) as const
      const wait = (prompt: string) =>
        store.command(keyOf(sandbox), sendMessage(ids, prompt, "user-2", { whenBusy: "steer", canSteer: () => true }), at)
      const steer = turnId(ids, sandbox.id, 2)
      const more = turnId(ids, sandbox.id, 3)
      yield* wait("No, so.")
      yield* wait("And so.")
      yield* drive(yield* store.find(keyOf(sandbox)), [say("m1", "I look."), say("m2", "I beg")])
      const listed = Effect.map(store.messages(sandbox.id, 0, 100), (all) => all.slice(1))
      assert.deepStrictEqual((yield* listed).map(({ id }) => id), ["m1"])
      const found = yield* store.find(keyOf(sandbox))
      yield* drive(found, [{ _tag: "RecordSteer", turnId: turn, messageId: steer }, {
        _tag: "RecordSteer",
        turnId: turn,
        messageId: more
      }])
      const before = yield* listed
      assert.deepStrictEqual(before.map(({ id, text }) => [id, text]), [["m1", "I look."], ["m2", "I beg"], [steer, "No, so."], [
        more,
        "And so."
      ]])
      before.reduce((last, { id, seq }) => (assert.isAbove(seq, last, `${id} comes after the one before it`), seq), 0)
      // Text that the agent says afterwards comes after it; the text in progress stays in its place.
      yield* drive(yield* store.find(keyOf(sandbox)), [say("m2", "I began."), say("m3", "So."), {
        _tag: "EndTurn",
        turnId: turn,
        state: "succeeded"
      }])
      assert.deepStrictEqual((yield* listed).map(({ text }) => text), ["I look.", "I began.", "No, so.", "And so.", "So."])
      for (const [i, { seq }] of before.entries()) {
        assert.deepStrictEqual(
          (yield* store.messages(sandbox.id, seq, 100)).map(({ text }) => text),
          [
            "I began.",
            "No, so.",
            "And so.",
            "So."
          ].slice(i)
        )
      }
    }))

  it.effect("of many messages that want to wait at once ten do, each with a turn of its own", () =>
    Effect.gen(function*() {
      const store = yield* SandboxStore
      const { ids, sandbox } = yield* running
      const busy = { whenBusy: "queue", canSteer: () => false } as const
      const attempts = yield* Effect.forEach(
        Array.from({ length: 14 }, (_, i) => `Message ${i}`),
        (prompt) => Effect.result(store.command(keyOf(sandbox), sendMessage(ids, prompt, "user-2", busy), at)),
        { concurrency: "unbounded" }
      )
      const turns = attempts.flatMap((attempt) => Result.isSuccess(attempt) ? [attempt.success.turnId] : [])
      assert.sameMembers(turns, Array.from({ length: 10 }, (_, i) => turnId(ids, sandbox.id, i + 2)))
      assert.strictEqual((yield* store.find(keyOf(sandbox))).waiting.length, 10)
    }))
}

const traces = (it: Rules<Stores>) => {
  it.effect("the trace of the caller is kept with the request, and a repeated request changes nothing of it", () =>
    Effect.gen(function*() {
      const store = yield* SandboxStore
      const trace = (n: number) => `00-${String(n).repeat(32)}-${String(n).repeat(16)}-01`
      const creation = yield* creationOf({ grantId: yield* (yield* StoreFixture).grant })
      const keyed = { key: IdempotencyKey.make("traced"), fingerprint: "1:a" }
      const create = (n: number) => store.create({ creation, keyed, trace: trace(n) })
      const { sandbox } = yield* create(1)
      yield* create(2)
      const ids = yield* Ids
      const first = turnId(ids, sandbox.id, 1)
      yield* drive(sandbox, [
        { _tag: "StartBoot" },
        { _tag: "FinishBoot", turnId: first },
        { _tag: "StartTurn", turnId: first },
        { _tag: "EndTurn", turnId: first, state: "succeeded" }
      ])
      const send = (n: number, prompt: string) =>
        store.command(
          keyOf(sandbox),
          sendMessage(ids, prompt, "user-2", { whenBusy: "queue", canSteer: () => false }),
          at,
          { key: IdempotencyKey.make(prompt), fingerprint: "1:a" },
          trace(n)
        )
      const second = (yield* send(3, "now")).turnId
      yield* send(4, "now")
      const third = (yield* send(5, "later")).turnId
      for (const [turn, n] of [[first, null], [second, 3], [third, 5], [null, null]] as const) {
        assert.deepStrictEqual(yield* store.traces(sandbox.id, turn), { creation: trace(1), turn: n === null ? null : trace(n) })
      }
      assert.deepStrictEqual(yield* store.traces((yield* make()).id, first), { creation: null, turn: null })
      const untraced = yield* running
      yield* drive(untraced.sandbox, [{ _tag: "EndTurn", turnId: untraced.turn, state: "succeeded" }])
      const sent = yield* store.command(keyOf(untraced.sandbox), sendMessage(ids, "Go on", "user-2"), at)
      assert.deepStrictEqual(yield* store.traces(untraced.sandbox.id, sent.turnId), { creation: null, turn: null })
    }))

  it.effect("a message that was refused leaves its key free", () =>
    Effect.gen(function*() {
      const { ids, sandbox, turn } = yield* running
      const keyed = { key: IdempotencyKey.make("early"), fingerprint: "1:a" }
      const send = command(keyOf(sandbox), sendMessage(ids, "Go on", "user-2"), at, keyed)
      assert.strictEqual((yield* Effect.flip(send))._tag, "TurnActive")
      yield* drive(sandbox, [{ _tag: "EndTurn", turnId: turn, state: "succeeded" }])
      assert.strictEqual((yield* send).outcome, "applied")
    }))

  it.effect("what was committed is what the next read finds", () =>
    Effect.gen(function*() {
      const store = yield* SandboxStore
      const sandbox = yield* make()
      yield* store.find(sandbox)
      const changed = yield* drive(sandbox, [{ _tag: "StartBoot" }])
      assert.deepStrictEqual(yield* store.find(sandbox), changed)
      yield* command(keyOf(sandbox), terminate(yield* Ids), at)
      assert.strictEqual((yield* store.find(sandbox)).status, "terminating")
      const [listed] = yield* store.list(sandbox.grantId, { after: null, limit: 1, status: null, repo: null })
      assert.strictEqual(listed?.status, "terminating")
    }))

  it.effect("a refused change writes nothing", () =>
    Effect.gen(function*() {
      const store = yield* SandboxStore
      const sandbox = yield* make()
      const error = yield* Effect.flip(drive(sandbox, [{ _tag: "FinishBoot", turnId: "t" }]))
      assert.strictEqual(error._tag, "IllegalTransition")
      assert.deepStrictEqual(yield* store.find(sandbox), sandbox)
    }))

  it.effect("a committed change is hinted to every watcher of the sandbox", () =>
    Effect.gen(function*() {
      const hints = yield* Hints
      const sandbox = yield* make()
      const watching = yield* Deferred.make<void>()
      const fiber = yield* Effect.forkChild(Effect.scoped(Effect.gen(function*() {
        const changed = yield* hints.watch(sandbox.id)
        yield* Deferred.succeed(watching, undefined)
        yield* changed
      })))
      yield* Deferred.await(watching)
      yield* drive(sandbox, [{ _tag: "StartBoot" }])
      yield* Fiber.join(fiber)
    }))
}

const repetitions = (it: Rules<Stores>) => {
  it.effect("a request without a trace has none either after it was repeated with one", () =>
    Effect.gen(function*() {
      const store = yield* SandboxStore
      const ids = yield* Ids
      const repeated = [null, `00-${"2".repeat(32)}-${"2".repeat(16)}-01`]
      const keyed = { key: IdempotencyKey.make("untraced"), fingerprint: "1:a" }
      const creation = yield* creationOf()
      for (const trace of repeated) yield* store.create({ creation, keyed, trace })
      const { sandbox, turn } = yield* running
      yield* drive(sandbox, [{ _tag: "EndTurn", turnId: turn, state: "succeeded" }])
      const sent: Array<string | null> = []
      for (const trace of repeated) {
        sent.push((yield* store.command(keyOf(sandbox), sendMessage(ids, "Go on", "user-2"), at, keyed, trace)).turnId)
      }
      assert.strictEqual(sent[1], sent[0])
      assert.deepStrictEqual(yield* store.traces(creation.id, null), { creation: null, turn: null })
      assert.deepStrictEqual(yield* store.traces(sandbox.id, sent[0] ?? null), { creation: null, turn: null })
    }))

  it.effect("what was committed is hinted, however early its caller was interrupted", () =>
    Effect.gen(function*() {
      const store = yield* SandboxStore
      const hints = yield* Hints
      const ids = yield* Ids
      const boot = (id: SandboxId) =>
        Effect.flatMap(Policy, (limits) =>
          store.change(id, "policy", (state) => decide(state, { _tag: "StartBoot" }, { now: at, limits }), at))
      let committed = 0
      // A call is interrupted after each number of its steps.
      for (let steps = 0; steps < 48; steps++) {
        const creation = yield* creationOf()
        const kind = (["create", "command", "change"] as const)[steps % 3]
        if (kind !== "create") {
          yield* store.create({ creation, keyed: null })
        }
        const before = (yield* store.log(creation.id, 0, 10)).length
        const hinted = yield* hints.watch(creation.id)
        const call: Effect.Effect<unknown, unknown> = kind === "create" ?
          store.create({ creation, keyed: null })
          : kind === "command" ?
          store.command(creation, terminate(ids), at)
          : boot(creation.id)
        const fiber = yield* Effect.forkChild(Effect.provideService(call, Scheduler.MaxOpsBeforeYield, 3))
        for (let step = 0; step < steps; step++) {
          yield* Effect.yieldNow
        }
        yield* Fiber.interrupt(fiber)
        if ((yield* store.log(creation.id, 0, 10)).length === before) {
          continue
        }
        committed++
        // Does not end if the hint was lost. A store that commits for several callers may hint after this one is gone.
        yield* hinted
      }
      assert.isAbove(committed, 0)
    }).pipe(Effect.scoped))
}

const hints = (it: Rules<Stores>) => {
  it.effect("what a creation, a command or a change wrote is hinted, also to workers where it may need one, and nothing else is", () =>
    Effect.gen(function*() {
      const store = yield* SandboxStore
      const hints = yield* Hints
      const ids = yield* Ids
      const creation = yield* creationOf()
      const heard: Array<string> = []
      yield* hints.listen(creation.id, () => heard.push("sandbox"))
      yield* hints.listen(WORK, () => heard.push("work"))
      const hinted = <A, E, R>(call: Effect.Effect<A, E, R>) => Effect.map(call, () => heard.splice(0).sort())
      const create = store.create({
        creation,
        keyed: { key: IdempotencyKey.make("hinted"), fingerprint: "1:a" }
      })
      const turn = turnId(ids, creation.id, 1)
      const drives = (...commands: ReadonlyArray<SystemCommand>) => Effect.flatMap(store.find(creation), (now) => drive(now, commands))
      assert.deepStrictEqual(yield* hinted(create), ["sandbox", "work"])
      assert.deepStrictEqual(yield* hinted(create), [])
      assert.deepStrictEqual(yield* hinted(drives({ _tag: "StartBoot" })), ["sandbox", "work"])
      yield* hinted(drives({ _tag: "FinishBoot", turnId: turn }))
      assert.deepStrictEqual(yield* hinted(drives({ _tag: "StartTurn", turnId: turn })), ["sandbox"])
      assert.deepStrictEqual(yield* hinted(command(creation, interrupt(ids), at)), ["sandbox"])
      assert.deepStrictEqual(yield* hinted(command(creation, interrupt(ids), at)), [])
      assert.deepStrictEqual(yield* hinted(store.change(creation.id, "policy", () => Result.succeed([]), at)), [])
      assert.deepStrictEqual(yield* hinted(command(creation, terminate(ids), at)), ["sandbox", "work"])
    }).pipe(Effect.scoped))

  it.effect("a message has the time at which it was recorded", () =>
    Effect.gen(function*() {
      const store = yield* SandboxStore
      const limits = yield* Policy
      const { sandbox, turn } = yield* running
      const later = DateTime.add(at, { minutes: 1, milliseconds: 7 })
      const said: SystemCommand = {
        _tag: "RecordWork",
        turnId: turn,
        events: [
          { type: "message.updated", data: { part_id: partId.text("m1"), message_id: "m1", kind: "text", text: "So." } },
          { type: "message.completed", data: { message_id: "m1", finish: "end_turn" } }
        ]
      }
      yield* store.change(sandbox.id, "policy", (state) => decide(state, said, { now: later, limits }), later)
      assert.deepStrictEqual((yield* store.messages(sandbox.id, 0, 10)).map(({ createdAt }) => createdAt), [at, later])
      // A message that goes on has a longer text since then, and the same time.
      const longer: SystemCommand = {
        _tag: "RecordWork",
        turnId: turn,
        events: [
          { type: "message.updated", data: { part_id: partId.text("m1"), message_id: "m1", kind: "text", text: "So. And so." } },
          { type: "message.completed", data: { message_id: "m1", finish: "end_turn" } }
        ]
      }
      const latest = DateTime.add(later, { minutes: 1 })
      yield* store.change(sandbox.id, "policy", (state) => decide(state, longer, { now: latest, limits }), latest)
      const messages = yield* store.messages(sandbox.id, 0, 10)
      assert.deepStrictEqual(messages.map(({ createdAt, text }) => [text, createdAt]), [[sandbox.prompt, at], ["So. And so.", later]])
    }))

  it.effect("who listens in this process is told what a change appended, as the log has it", () =>
    Effect.gen(function*() {
      const store = yield* SandboxStore
      const hints = yield* Hints
      const sandbox = yield* make()
      const told: Array<LogEntry> = []
      yield* hints.listen(sandbox.id, (note) => told.push(...(note instanceof Appended ? note.entries : [])))
      yield* drive(sandbox, [{ _tag: "StartBoot" }])
      yield* command(keyOf(sandbox), terminate(yield* Ids), at)
      const logged = yield* store.log(sandbox.id, sandbox.lastSeq, 100)
      assert.isAbove(logged.length, 1)
      assert.deepStrictEqual(
        told.map(({ seq, type, wire }) => ({ seq, type, wire })),
        logged.map(({ seq, type, wire }) => ({ seq, type, wire }))
      )
    }).pipe(Effect.scoped))
}

const headSha = "1".repeat(40)

/** Docs/decisions/12 and 17. */
const inputs = (it: Rules<Stores>) => {
  it.effect("keeps the budget and the variables that a creation names, through changes too", () =>
    Effect.gen(function*() {
      const store = yield* SandboxStore
      const grantId = yield* (yield* StoreFixture).grant
      const given = { budgetMicroUsd: Number.MAX_SAFE_INTEGER, environment: { REGION: "\u{1F680} 'eu' \\", EMPTY: "" } }
      const sandbox = yield* make({ grantId, ...given })
      assert.deepInclude(sandbox, given)
      yield* drive(sandbox, [{ _tag: "StartBoot" }])
      const list = { after: null, limit: 10, status: null, repo: null }
      for (const found of [yield* store.find(keyOf(sandbox)), ...yield* store.list(grantId, list)]) assert.deepInclude(found, given)
      const plain = yield* make({ grantId })
      assert.deepInclude(yield* store.find(keyOf(plain)), { budgetMicroUsd: null, environment: {} })
    }))
}

/** Docs/decisions/24. */
const continued = (it: Rules<Stores>) => {
  it.effect("keeps the branch that a sandbox continues, and tells of it in its first events", () =>
    Effect.gen(function*() {
      const store = yield* SandboxStore
      const grantId = yield* (yield* StoreFixture).grant
      const details = {
        id: 7,
        nodeId: "n",
        number: 12,
        url: "https://host.invalid/12",
        title: "Tïtle",
        state: "open",
        draft: true,
        merged: false,
        baseRef: "main",
        headRef: "feature/x",
        headSha,
        createdAt: at,
        updatedAt: at,
        additions: 1,
        deletions: 2,
        changedFiles: 3
      } as const
      const continues = { repo: RepoName.make("acme/Shop"), branch: "feature/x", pullRequest: 12, headSha, details }
      const sandbox = yield* make({ grantId, repos: [{ fullName: RepoName.make("acme/Shop"), ref: "feature/x" }], continues })
      const found = yield* store.find(keyOf(sandbox))
      assert.deepStrictEqual(found.continues, continues)
      assert.deepStrictEqual(found.publications.map(({ headSha, number, state }) => ({ headSha, number, state })), [
        { headSha: null, number: 12, state: "open" }
      ])
      assert.deepStrictEqual((yield* store.log(sandbox.id, 0, 10)).map(({ type }) => type), [
        "sandbox.status",
        "sandbox.continued",
        "pull_request.updated"
      ])
      assert.isNull((yield* store.find(keyOf(yield* make({ grantId })))).continues)
    }))
}

/** A sandbox that continues the branch, made `minutes` after `at`. */
const continuing = (grantId: string, repo: string, branch: string, minutes = 0) =>
  make({
    grantId,
    repos: [{ fullName: RepoName.make(repo), ref: branch }],
    createdAt: DateTime.add(at, { minutes }),
    continues: { repo: RepoName.make(repo), branch, pullRequest: 12, headSha }
  })

/** Docs/decisions/24. */
const publishers = (it: Rules<Stores>) => {
  it.effect("finds the sandboxes that publish to a branch, of all grants, newest first", () =>
    Effect.gen(function*() {
      const store = yield* SandboxStore
      const ids = yield* Ids
      const [one, other] = [yield* (yield* StoreFixture).grant, yield* (yield* StoreFixture).grant]
      const name = yield* ids.random("abcdefghijk", 10)
      const [repo, branch] = [`acme/R${name}`, "feature/x"]
      const first = yield* continuing(one, repo, branch)
      const second = yield* continuing(other, repo.toUpperCase(), branch, 1)
      yield* continuing(one, `${repo}2`, branch)
      yield* continuing(one, repo, `${branch}2`)
      yield* continuing(one, repo, branch.toUpperCase())
      const found = [{ id: second.id, grantId: other }, { id: first.id, grantId: one }]
      for (const spelling of [repo, repo.toLowerCase()]) {
        assert.deepStrictEqual(yield* store.publishers(RepoName.make(spelling), branch), found)
      }
      assert.deepStrictEqual(yield* store.publishers(RepoName.make(repo), "feature"), [])
    }))

  it.effect("a branch of a sandbox's own form is its own and that of those that continue it", () =>
    Effect.gen(function*() {
      const store = yield* SandboxStore
      const grantId = yield* (yield* StoreFixture).grant
      const [repo, more] = [RepoName.make("acme/Shop"), RepoName.make("acme/more")]
      const own = yield* make({ grantId, repos: [{ fullName: repo }] })
      const branch = `slipway/${own.id}`
      assert.deepStrictEqual(yield* store.publishers(repo, branch), [{ id: own.id, grantId }])
      assert.deepStrictEqual(yield* store.publishers(repo, `${branch}-2`), [{ id: own.id, grantId }])
      assert.deepStrictEqual(yield* store.publishers(more, branch), [])
      const next = yield* continuing(grantId, "acme/Shop", branch, 1)
      assert.deepStrictEqual(yield* store.publishers(repo, branch), [{ id: next.id, grantId }, { id: own.id, grantId }])
      assert.deepStrictEqual(yield* store.publishers(repo, "slipway/c_222222222222x"), [])
    }))

  it.effect("finds at most the newest publishers of a branch", () =>
    Effect.gen(function*() {
      const store = yield* SandboxStore
      const grantId = yield* (yield* StoreFixture).grant
      const repo = `acme/r${yield* (yield* Ids).random("abcdefghijk", 10)}`
      const made = yield* Effect.forEach(
        Array.from({ length: MAX_PUBLISHERS + 2 }, (_, n) => n),
        (n) => continuing(grantId, repo, "feature/x", n)
      )
      assert.deepStrictEqual(
        (yield* store.publishers(RepoName.make(repo), "feature/x")).map(({ id }) => id),
        made.toReversed().slice(0, MAX_PUBLISHERS).map(({ id }) => id)
      )
    }))
}

/** Docs/decisions/24. */
const syncs = (it: Rules<Stores>) => {
  it.effect("a sync is asked for between turns, once until a worker has done it", () =>
    Effect.gen(function*() {
      const store = yield* SandboxStore
      const { ids, sandbox, turn } = yield* running
      const ask = command(keyOf(sandbox), sync(ids), at)
      assert.strictEqual((yield* Effect.flip(ask))._tag, "TurnActive")
      assert.isFalse((yield* store.find(keyOf(sandbox))).syncing)
      yield* drive(sandbox, [{ _tag: "EndTurn", turnId: turn, state: "succeeded" }])
      const result = yield* ask
      assert.strictEqual(result.outcome, "applied")
      assert.isTrue((yield* store.find(keyOf(sandbox))).syncing)
      assert.deepStrictEqual(yield* ask, { ...result, outcome: "duplicate" })
      yield* drive(sandbox, [{
        _tag: "RecordSync",
        data: { branches: [{ repo: RepoName.make("acme/shop"), branch: "main", sha: headSha }] }
      }])
      const done = yield* store.find(keyOf(sandbox))
      assert.deepStrictEqual([done.syncing, done.syncs], [false, 1])
      yield* drive(sandbox, [{ _tag: "RecordSync", data: { branches: [] } }])
      assert.strictEqual((yield* store.find(keyOf(sandbox))).lastSeq, done.lastSeq)
      const again = yield* ask
      assert.strictEqual(again.outcome, "applied")
      assert.notStrictEqual(again.commandId, result.commandId)
    }))
}

/** For every store. */
export const suite = (name: string, layer: Layer.Layer<Stores, unknown>) =>
  define(`SandboxStore (${name})`, layer, (it) => {
    creation(it)
    idempotentCreation(it)
    concurrentCreation(it)
    listing(it)
    pages(it)
    outputLimits(it)
    ordering(it)
    commandResults(it)
    approvals(it)
    storedQuestions(it)
    messages(it)
    messageKeys(it)
    queuedMessages(it)
    conversations(it)
    traces(it)
    repetitions(it)
    hints(it)
    writtenByOthers(it)
    inputs(it)
    continued(it)
    publishers(it)
    syncs(it)
  })
