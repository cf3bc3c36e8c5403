/**
 * The rules that every `SandboxDashboard` must keep, beside the `SandboxStore` of the same rows. An adapter proves itself by running this
 * suite against its layer; a rule that is missing here is not part of the port. Fresh ids make it repeatable on one database.
 */
import { Ids } from "@slipway/domain/ids/Ids"
import { Checkpoints } from "@slipway/domain/sandbox/ports/Checkpoints"
import { type DashboardQuery, MAX_PINS, RECENT, SandboxDashboard, SEARCHED_MESSAGES } from "@slipway/domain/sandbox/ports/SandboxDashboard"
import { SandboxStore } from "@slipway/domain/sandbox/ports/SandboxStore"
import { attentionStateOf } from "@slipway/domain/sandbox/rules/AttentionState"
import { answerQuestion, decideApproval, interrupt, terminate } from "@slipway/domain/sandbox/rules/Command"
import { Policy } from "@slipway/domain/sandbox/rules/Policy"
import type { Sandbox } from "@slipway/domain/sandbox/rules/Sandbox"
import { partId, type SandboxEvent, type SandboxEventOf } from "@slipway/domain/sandbox/rules/SandboxEvent"
import { decide } from "@slipway/domain/sandbox/rules/SystemCommand"
import { turnId } from "@slipway/domain/sandbox/rules/Turn"
import { AttentionState } from "@slipway/domain/sandbox/schema/AttentionState"
import type { ChangeCounts } from "@slipway/domain/source/schema/ChangeCounts"
import { PullState } from "@slipway/domain/source/schema/PullRequest"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { PAGE_BYTES } from "@slipway/domain/store/Page"
import { SEARCHED_CHARACTERS, WORD } from "@slipway/domain/text/SearchText"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import * as Result from "effect/Result"
import * as Stream from "effect/Stream"
import { decider, inquiry } from "../../histories/Histories.ts"
import { assert } from "../../suite/Assert.ts"
import { define, type Writer } from "../../suite/Suite.ts"
import { appended } from "../access/AuditLogContract.ts"
import { at, atRest, command, creationOf, creator, drive, keyOf, leased, make, StoreFixture, type Stores } from "./SandboxStates.ts"

const all: DashboardQuery = { after: null, limit: 1000, attention: null, repo: null, search: "" }

const grant = Effect.flatMap(StoreFixture, (fixture) => fixture.grant)

const list = (grantId: string, query: Partial<DashboardQuery> = {}) =>
  Effect.flatMap(SandboxDashboard, (dashboard) => dashboard.list(grantId, { ...all, ...query }))

const titles = (sandboxes: ReadonlyArray<Sandbox>) => sandboxes.map(({ title }) => title)

const record = Effect.fnUntraced(function*(sandbox: Sandbox, events: ReadonlyArray<SandboxEvent>, now = at) {
  const store = yield* SandboxStore
  return (yield* store.change(sandbox.id, "policy", () => Result.succeed(events), now)).sandbox
})

const booted = Effect.fnUntraced(function*(sandbox: Sandbox, state: "succeeded" | "failed" | "interrupted" | null = null) {
  const turn = turnId(yield* Ids, sandbox.id, 1)
  const running = yield* drive(sandbox, [
    { _tag: "StartBoot" },
    { _tag: "FinishBoot", turnId: turn },
    { _tag: "StartTurn", turnId: turn }
  ])
  return state === null ? running : yield* drive(running, [{ _tag: "EndTurn", turnId: turn, state }])
})

const fail = Effect.fnUntraced(function*(sandbox: Sandbox, reason: "boot_failed" | "clone_failed" = "boot_failed") {
  const limits = yield* Policy
  const store = yield* SandboxStore
  const failed = { _tag: "Fail", reason, error: "No.", retryable: false } as const
  return (yield* store.change(sandbox.id, "policy", (state) => decide(state, failed, { now: at, limits }), at)).sandbox
})

const attention = (it: Writer<SandboxDashboard | Checkpoints | Stores>) => {
  const pull = (state: "open" | "closed", action_state: "idle" | "updating" = "idle"): SandboxEvent => ({
    type: "pull_request.updated",
    data: { repo: RepoName.make("acme/Shop"), action_state, number: 1, state }
  })

  it.effect("lists by what sandboxes want of people, as the domain says of each of them", () =>
    Effect.gen(function*() {
      const grantId = yield* grant
      const ids = yield* Ids
      const queued = yield* make({ grantId, title: "queued" })
      yield* drive(yield* make({ grantId, title: "creating" }), [{ _tag: "StartBoot" }])
      yield* booted(yield* make({ grantId, title: "running" }))
      for (const state of ["succeeded", "failed", "interrupted"] as const) yield* booted(yield* make({ grantId, title: state }), state)
      const asking = yield* booted(yield* make({ grantId, title: "asking" }))
      const approval = { approval_id: "call-1", tool: "write", kind: "edit" as const, paths: ["a.txt"] }
      yield* drive(asking, [{ _tag: "RequestApproval", turnId: asking.turn?.id ?? "", approval }])
      const inquiring = yield* booted(yield* make({ grantId, title: "inquiring" }))
      yield* drive(inquiring, [inquiry(inquiring.turn?.id ?? "", "question-1")])
      for (const [title, event] of [["open", pull("open")], ["merged", pull("closed")], ["pushing", pull("open", "updating")]] as const) {
        yield* record(yield* booted(yield* make({ grantId, title }), "succeeded"), [event])
      }
      yield* record(yield* booted(yield* make({ grantId, title: "open, then failed" }), "failed"), [pull("open")])
      yield* record(yield* booted(yield* make({ grantId, title: "open, then interrupted" }), "interrupted"), [pull("open")])
      yield* record(yield* atRest(yield* make({ grantId, title: "restoring" })), [{ type: "sandbox.restoring", data: { checkpoint: 1 } }])
      yield* fail(yield* drive(yield* make({ grantId, title: "failed to boot" }), [{ _tag: "StartBoot" }]))
      yield* command(keyOf(yield* make({ grantId, title: "terminated" })), terminate(ids), at)
      const ended = (title: string, ...events: ReadonlyArray<SandboxEvent>) =>
        Effect.flatMap(make({ grantId, title }), (sandbox) =>
          Effect.flatMap(booted(sandbox, "succeeded"), (running) =>
            record(running, [
              ...events,
              {
                type: "sandbox.status",
                data: { status: "succeeded", previous: "running", reason: "idle_timeout", initiator: "policy" }
              }
            ])))
      yield* ended("ended")
      yield* ended("ended with a pull request", pull("open"))

      const every = yield* list(grantId)
      assert.strictEqual(every.length, 18)
      const by = new Map<AttentionState, ReadonlyArray<string>>()
      for (const attention of AttentionState.literals) {
        const found = titles(yield* list(grantId, { attention }))
        by.set(attention, found)
        assert.deepStrictEqual(found, titles(every.filter((sandbox) => attentionStateOf(sandbox) === attention)), attention)
      }
      const counts = yield* (yield* SandboxDashboard).counts(grantId)
      for (const attention of AttentionState.literals) {
        assert.strictEqual(counts.get(attention) ?? 0, by.get(attention)?.length, `the count of ${attention}`)
      }
      const sorted = (attention: AttentionState) => [...by.get(attention) ?? []].sort()
      assert.deepStrictEqual(sorted("asking"), ["asking", "inquiring"])
      assert.deepStrictEqual(sorted("starting"), ["creating", "queued"])
      assert.deepStrictEqual(sorted("working"), ["pushing", "restoring", "running"])
      assert.deepStrictEqual(sorted("failed"), ["failed", "failed to boot", "open, then failed"])
      assert.deepStrictEqual(sorted("ready"), ["ended with a pull request", "open", "open, then interrupted", "succeeded"])
      assert.deepStrictEqual(sorted("idle"), ["interrupted", "merged"])
      assert.deepStrictEqual(sorted("ended"), ["ended", "terminated"].sort())
      yield* command(keyOf(asking), decideApproval(ids, "call-1", { decision: "deny" }, decider), at)
      yield* command(keyOf(asking), interrupt(ids), at)
      assert.deepStrictEqual(titles(yield* list(grantId, { attention: "asking" })), ["inquiring"])
      yield* command(keyOf(inquiring), answerQuestion(ids, "question-1", { dismiss: true }), at)
      assert.deepStrictEqual(titles(yield* list(grantId, { attention: "asking" })), [])
      yield* command(keyOf(queued), terminate(ids), at)
    }))
}

const pulls = (it: Writer<SandboxDashboard | Checkpoints | Stores>) => {
  it.effect("finds and counts sandboxes by the state of their pull requests, of one repository if it is named", () =>
    Effect.gen(function*() {
      const grantId = yield* grant
      const told = (repo: string, more: Partial<SandboxEventOf<"pull_request.updated">["data"]>): SandboxEvent => ({
        type: "pull_request.updated",
        data: { repo: RepoName.make(repo), action_state: "idle", number: 1, ...more }
      })
      const states = {
        draft: told("acme/Shop", { state: "open", draft: true, merged: false }),
        open: told("acme/Shop", { state: "open", draft: false }),
        closed: told("acme/Shop", { state: "closed", draft: true, merged: false }),
        merged: told("acme/Shop", { state: "closed", draft: true, merged: true })
      }
      yield* booted(yield* make({ grantId, title: "none" }))
      const asked: SandboxEvent = { type: "pull_request.updated", data: { repo: RepoName.make("acme/Shop"), action_state: "publishing" } }
      yield* record(yield* booted(yield* make({ grantId, title: "asked for" })), [asked])
      for (const [title, event] of Object.entries(states)) yield* record(yield* booted(yield* make({ grantId, title })), [event])
      yield* record(yield* booted(yield* make({ grantId, title: "both" })), [states.closed,
        told("acme/other", { state: "open", draft: true })])
      const found = (pull: PullState | "any", repo: string | null = null) =>
        Effect.map(list(grantId, { pull, repo: repo === null ? null : RepoName.make(repo) }), (found) => titles(found).toSorted())
      assert.deepStrictEqual(yield* found("any"), ["both", "closed", "draft", "merged", "open"])
      assert.deepStrictEqual(yield* found("draft"), ["both", "draft"])
      assert.deepStrictEqual(yield* found("open"), ["open"])
      assert.deepStrictEqual(yield* found("closed"), ["both", "closed"])
      assert.deepStrictEqual(yield* found("merged"), ["merged"])
      assert.deepStrictEqual(yield* found("draft", "ACME/other"), ["both"])
      assert.deepStrictEqual(yield* found("draft", "acme/shop"), ["draft"])
      const counts = yield* (yield* SandboxDashboard).pullCounts(grantId)
      assert.deepStrictEqual(PullState.literals.map((state) => [state, counts.get(state)]), [
        ["draft", 2],
        ["open", 1],
        ["merged", 1],
        ["closed", 2]
      ])
      assert.strictEqual((yield* (yield* SandboxDashboard).pullCounts(yield* grant)).size, 0)
    }))
}

const archive = (it: Writer<SandboxDashboard | Stores>) => {
  it.effect("an archived sandbox is left out of lists, searches, counts and pins until it is asked for; other ports show it", () =>
    Effect.gen(function*() {
      const [dashboard, store] = [yield* SandboxDashboard, yield* SandboxStore]
      const grantId = yield* grant
      const [one, two] = [yield* make({ grantId, title: "one" }), yield* make({ grantId, title: "two" })]
      const by = { grantId, userId: "ada" }
      yield* dashboard.pin(by, one.id, true)
      const counted = Effect.map(dashboard.counts(grantId), (counts) => Array.from(counts.values()).reduce((sum, n) => sum + n, 0))
      assert.strictEqual(yield* counted, 2)
      assert.deepStrictEqual(yield* dashboard.archive(grantId, [one.id], true, at), [one.id])
      for (const query of [{}, { search: "one" }, { pinnedBy: "ada" }, { attention: "starting" as const }]) {
        assert.notInclude(titles(yield* list(grantId, query)), "one")
        assert.deepStrictEqual(titles(yield* list(grantId, { ...query, archived: true })), ["one"])
      }
      assert.strictEqual(yield* counted, 1)
      assert.deepStrictEqual(yield* dashboard.archived(grantId, [one.id, two.id]), new Set([one.id]))
      assert.deepStrictEqual(yield* store.find(keyOf(one)), one)
      assert.lengthOf(yield* store.list(grantId, { after: null, limit: 10, status: null, repo: null }), 2)
      assert.lengthOf(yield* dashboard.recent(grantId), 2)
      assert.deepStrictEqual(yield* dashboard.archive(grantId, [one.id], false, at), [one.id])
      assert.sameMembers(titles(yield* list(grantId)), ["one", "two"])
      assert.deepStrictEqual(titles(yield* list(grantId, { archived: true })), [])
    }))

  it.effect("archives many at once, those of the grant alone, and tells the audit log of each change once", () =>
    Effect.gen(function*() {
      const dashboard = yield* SandboxDashboard
      const [grantId, elsewhere] = [yield* grant, yield* grant]
      const [one, two, theirs] = [yield* make({ grantId }), yield* make({ grantId }), yield* make({ grantId: elsewhere })]
      const ids = [one.id, two.id, theirs.id, (yield* creationOf()).id, one.id]
      const archiving = Effect.forEach([1, 2, 3], () => dashboard.archive(grantId, ids, true, at), { concurrency: "unbounded" })
      const entries = yield* appended(Effect.map(archiving, (changed) => assert.sameMembers([...changed.flat()], [one.id, two.id])))
      const told = (action: "sandbox.archived" | "sandbox.unarchived", of: ReadonlyArray<Sandbox>) =>
        of.map(({ id }) => ({ action, at, subjects: { sandboxId: id } }))
      assert.sameDeepMembers([...entries], told("sandbox.archived", [one, two]))
      assert.deepStrictEqual(yield* dashboard.archived(elsewhere, ids), new Set())
      assert.deepStrictEqual(yield* appended(dashboard.archive(grantId, [two.id], false, at)), told("sandbox.unarchived", [two]))
      assert.deepStrictEqual(yield* dashboard.archived(grantId, ids), new Set([one.id]))
    }))

  it.effect("nothing of a deleted sandbox is listed, counted, found, pinned or archived", () =>
    Effect.gen(function*() {
      const [dashboard, store] = [yield* SandboxDashboard, yield* SandboxStore]
      const grantId = yield* grant
      const by = { grantId, userId: "ada" }
      const made = yield* make({ grantId, title: "gone", prompt: "an unusual word" })
      yield* drive(made, [{ _tag: "StartBoot" }])
      yield* fail(made)
      yield* dashboard.pin(by, made.id, true)
      const seen = Effect.all([
        Effect.map(list(grantId), titles),
        Effect.map(list(grantId, { search: "unusual" }), titles),
        Effect.map(dashboard.said(grantId, [made.id], "unusual"), ({ size }) => size),
        Effect.map(dashboard.counts(grantId), ({ size }) => size),
        Effect.map(dashboard.recent(grantId), ({ length }) => length),
        Effect.map(dashboard.past(grantId, at), ({ length }) => length),
        Effect.map(dashboard.pins(by), ({ size }) => size)
      ])
      assert.deepStrictEqual(yield* seen, [["gone"], ["gone"], 1, 1, 1, 1, 1])
      yield* store.delete(keyOf(made), at)
      assert.deepStrictEqual(yield* seen, [[], [], 0, 0, 0, 0, 0])
      assert.strictEqual((yield* Effect.flip(dashboard.pin(by, made.id, true)))._tag, "SandboxNotFound")
      assert.deepStrictEqual(yield* dashboard.archive(grantId, [made.id], true, at), [])
      assert.deepStrictEqual(yield* dashboard.archived(grantId, [made.id]), new Set())
      assert.deepStrictEqual(yield* list(grantId, { archived: true }), [])
    }))
}

const pins = (it: Writer<SandboxDashboard | Stores>) => {
  it.effect("keeps what each person pinned in each grant, and lists these sandboxes alone, newest first", () =>
    Effect.gen(function*() {
      const dashboard = yield* SandboxDashboard
      const [grantId, elsewhere] = [yield* grant, yield* grant]
      const ada = { grantId, userId: "ada" }
      const made = yield* Effect.forEach(["one", "two", "three"], (title, i) =>
        make({ grantId, title, createdAt: DateTime.add(at, { seconds: i }) }))
      const [one, two, three] = made.map(({ id }) =>
        id
      )
      const other = yield* make({ grantId: elsewhere, title: "elsewhere" })
      if (one === undefined || two === undefined || three === undefined) return assert.fail("three were made")
      for (const id of [three, one, one]) yield* dashboard.pin(ada, id, true)
      yield* dashboard.pin({ grantId, userId: "bob" }, two, true)
      yield* dashboard.pin({ grantId: elsewhere, userId: "ada" }, other.id, true)
      const pinned = (query: Partial<DashboardQuery> = {}) => Effect.map(list(grantId, { pinnedBy: "ada", ...query }), titles)
      assert.deepStrictEqual(yield* dashboard.pins(ada), new Set([one, three]))
      assert.deepStrictEqual(yield* pinned(), ["three", "one"])
      assert.deepStrictEqual(yield* pinned({ search: "THREE" }), ["three"])
      assert.deepStrictEqual(yield* pinned({ after: made[2] ?? null }), ["one"])
      assert.deepStrictEqual(titles(yield* list(grantId)), ["three", "two", "one"])
      for (const id of [three, three, two]) yield* dashboard.pin(ada, id, false)
      assert.deepStrictEqual(yield* dashboard.pins(ada), new Set([one]))
      assert.deepStrictEqual(yield* Effect.map(list(grantId, { pinnedBy: "bob" }), titles), ["two"])
    }))

  it.effect("pins no sandbox of another grant, and no unknown one", () =>
    Effect.gen(function*() {
      const dashboard = yield* SandboxDashboard
      const by = { grantId: yield* grant, userId: "ada" }
      const theirs = yield* make()
      const unknown = (yield* creationOf()).id
      for (const id of [theirs.id, unknown]) {
        for (const isPinned of [true, false]) {
          assert.strictEqual((yield* Effect.flip(dashboard.pin(by, id, isPinned)))._tag, "SandboxNotFound")
        }
      }
      assert.deepStrictEqual(yield* dashboard.pins(by), new Set())
    }))

  it.effect(`lets a person pin ${MAX_PINS} sandboxes of a grant, also many at once`, () =>
    Effect.gen(function*() {
      const dashboard = yield* SandboxDashboard
      const by = { grantId: yield* grant, userId: "ada" }
      const made = yield* Effect.forEach(Array.from({ length: MAX_PINS + 1 }), () => make({ grantId: by.grantId }))
      const attempts = yield* Effect.forEach(made, ({ id }) => Effect.result(dashboard.pin(by, id, true)), { concurrency: 8 })
      const refused = attempts.flatMap((attempt) => Result.isFailure(attempt) ? [attempt.failure._tag] : [])
      assert.deepStrictEqual(refused, ["TooManyPins"])
      const kept = yield* dashboard.pins(by)
      assert.strictEqual(kept.size, MAX_PINS)
      const [first] = kept
      const left = made.find(({ id }) => !kept.has(id))
      if (first === undefined || left === undefined) return assert.fail("one was refused")
      yield* dashboard.pin(by, first, true)
      yield* dashboard.pin(by, first, false)
      yield* dashboard.pin(by, left.id, true)
      assert.isTrue((yield* dashboard.pins(by)).has(left.id))
    }))
}

const searchAndPages = (it: Writer<SandboxDashboard | Checkpoints | Stores>) => {
  it.effect("tells how much differs in the newest checkpoint of each, where it was counted", () =>
    Effect.gen(function*() {
      const dashboard = yield* SandboxDashboard
      const checkpoints = yield* Checkpoints
      const taken = Effect.fnUntraced(function*(...counts: ReadonlyArray<ReadonlyArray<ChangeCounts> | undefined>) {
        const { id } = yield* booted(yield* make())
        const { lease } = yield* leased(id)
        const store = yield* SandboxStore
        for (const [i, changes] of counts.entries()) {
          const checkpoint = i + 1
          const bytes = yield* checkpoints.put(lease, checkpoint, Stream.make(new Uint8Array(1)), changes)
          const event: SandboxEvent = { type: "sandbox.checkpoint", data: { checkpoint, bytes, ms: 1, repos: [] } }
          yield* store.change(id, lease, () => Result.succeed([event]), at)
        }
        return id
      })
      const of = (additions: number): ReadonlyArray<ChangeCounts> => [
        { repo: RepoName.make("acme/Shop"), additions, deletions: 1, changedFiles: 2 }
      ]
      const [twice, none, uncounted] = [yield* taken(of(5), of(7)), yield* taken(), yield* taken(of(5), undefined)]
      assert.deepStrictEqual([...yield* dashboard.changes([twice, none, uncounted])], [[twice, of(7)]])
      assert.deepStrictEqual([...yield* dashboard.changes([])], [])
    }))

  it.effect("finds part of a title and a repository in any case of letters, and takes what is typed as it is", () =>
    Effect.gen(function*() {
      const grantId = yield* grant
      const other = RepoName.make("acme/Docs")
      yield* make({ grantId, title: "100% of É_x\\", repos: [{ fullName: other }] })
      yield* make({ grantId, title: "100 of them" })
      yield* make({ title: "100% elsewhere" })
      const found = (search: string, repo: RepoName | null = null) => Effect.map(list(grantId, { search, repo }), (found) => found.length)
      assert.deepStrictEqual(
        [
          yield* found(""),
          yield* found("OF"),
          yield* found("100%"),
          yield* found("é_X\\"),
          yield* found("1.0"),
          yield* found("elsewhere"),
          yield* found("", RepoName.make("ACME/docs")),
          yield* found("them", other)
        ],
        [2, 2, 1, 1, 0, 0, 1, 0]
      )
    }))

  it.effect("pages are newest first, and go on where the one before ended", () =>
    Effect.gen(function*() {
      const grantId = yield* grant
      for (const n of [0, 1, 2, 3, 4]) yield* make({ grantId, title: `${n}`, createdAt: DateTime.add(at, { seconds: n >> 1 }) })
      const whole = yield* list(grantId)
      assert.deepStrictEqual(titles(whole).map((title) => Number(title) >> 1), [2, 1, 1, 0, 0])
      const first = yield* list(grantId, { limit: 2 })
      const rest = yield* list(grantId, { after: first.at(-1) ?? null })
      assert.deepStrictEqual(titles([...first, ...rest]), titles(whole))
    }))

  it.effect("pages end after their bytes too", () =>
    Effect.gen(function*() {
      const grantId = yield* grant
      const prompt = "p".repeat(PAGE_BYTES / 2 - 2000)
      yield* Effect.forEach([1, 2, 3, 4], () => make({ grantId, prompt }))
      const first = yield* list(grantId)
      const second = yield* list(grantId, { after: first.at(-1) ?? null })
      assert.deepStrictEqual([first.length, second.length], [3, 1])
    }))

  it.effect("tells of the newest creations and no more", () =>
    Effect.gen(function*() {
      const grantId = yield* grant
      yield* Effect.forEach(
        Array.from({ length: RECENT + 2 }, (_, i) => i),
        (i) => make({ grantId, createdAt: DateTime.add(at, { seconds: i }) }),
        { concurrency: 8 }
      )
      const recent = yield* (yield* SandboxDashboard).recent(grantId)
      assert.lengthOf(recent, RECENT)
      const ends = [recent[0], recent.at(-1)].map((asked) => asked?.createdAt)
      assert.deepStrictEqual(ends, [DateTime.add(at, { seconds: RECENT + 1 }), DateTime.add(at, { seconds: 2 })])
    }), { timeout: 300_000 })
}

/** The agent says this. */
const say = (sandbox: Sandbox, ...texts: ReadonlyArray<string>) =>
  record(
    sandbox,
    texts.flatMap((text, i): ReadonlyArray<SandboxEvent> => [
      {
        type: "message.updated",
        turn_id: sandbox.turn?.id ?? "",
        data: { part_id: partId.text(`m${i}`), message_id: `m${i}`, kind: "text", text }
      },
      { type: "message.completed", turn_id: sandbox.turn?.id ?? "", data: { message_id: `m${i}`, finish: "end_turn" } }
    ])
  )

const words = (it: Writer<SandboxDashboard | Checkpoints | Stores>) => {
  const found = (grantId: string, search: string) => Effect.map(list(grantId, { search }), (sandboxes) => titles(sandboxes).toSorted())

  it.effect("finds words of a prompt or message by their beginnings, in any case and order, and those of the grant alone", () =>
    Effect.gen(function*() {
      const [grantId, elsewhere] = [yield* grant, yield* grant]
      yield* make({ grantId, title: "asked", prompt: "Mend the Checkout in src/cart/Total.test.ts" })
      yield* say(
        yield* booted(yield* make({ grantId, title: "said", prompt: "Hello" })),
        "I will look.",
        "The checkout_total was ÜBERALL wrong."
      )
      yield* say(yield* booted(yield* make({ grantId: elsewhere, title: "elsewhere", prompt: "the checkout" })), "überall total")
      const cases: ReadonlyArray<readonly [string, ReadonlyArray<string>]> = [
        ["CHECK", ["asked", "said"]],
        ["total checkout", ["asked", "said"]],
        ["total.test", ["asked"]],
        ["überall", ["said"]],
        ["look wrong", []],
        ["heckout", []],
        ["hello", ["said"]]
      ]
      for (const [search, expected] of cases) assert.deepStrictEqual(yield* found(grantId, search), expected, search)
      assert.deepStrictEqual(yield* found(elsewhere, "CHECKOUT"), ["elsewhere"])
      assert.deepStrictEqual(yield* found(yield* grant, "checkout"), [])
    }))

  it.effect("shows the newest text with the words, of sandboxes of the grant alone", () =>
    Effect.gen(function*() {
      const [grantId, elsewhere] = [yield* grant, yield* grant]
      const { said } = yield* SandboxDashboard
      const asked = yield* make({ grantId, prompt: `Count ${"x".repeat(SEARCHED_CHARACTERS)}` })
      const answered = yield* say(yield* booted(yield* make({ grantId, prompt: "Count" })), "I count.", "Counting: 2", "Done.")
      const other = yield* make({ grantId: elsewhere, prompt: "Count" })
      const ids = [asked.id, answered.id, other.id]
      const texts = yield* said(grantId, ids, "count")
      assert.deepStrictEqual([...texts.keys()].toSorted(), [asked.id, answered.id].toSorted())
      assert.strictEqual(texts.get(answered.id), "Counting: 2")
      assert.lengthOf(texts.get(asked.id) ?? "", SEARCHED_CHARACTERS)
      assert.deepStrictEqual([...yield* said(elsewhere, ids, "count")], [[other.id, "Count"]])
      for (const nothing of ["", "...", "absent"]) assert.strictEqual((yield* said(grantId, ids, nothing)).size, 0, nothing)
      assert.strictEqual((yield* said(grantId, [], "count")).size, 0)
    }))

  it.effect("finds a message that went on by its newest text", () =>
    Effect.gen(function*() {
      const grantId = yield* grant
      const sandbox = yield* booted(yield* make({ grantId, title: "a" }))
      yield* say(yield* say(sandbox, "Before"), "Before and afterwards")
      assert.deepStrictEqual(yield* found(grantId, "afterwards"), ["a"])
    }))

  it.effect("finds the first words of the first messages, however many there are", () =>
    Effect.gen(function*() {
      const grantId = yield* grant
      const sandbox = yield* booted(yield* make({ grantId, title: "a" }))
      // The prompt is the first of them.
      const texts = Array.from({ length: SEARCHED_MESSAGES }, (_, i) =>
        `text${i} ${"\u{1F680}".repeat(i === 0 ? SEARCHED_CHARACTERS - 11 : 0)} end more`)
      yield* say(sandbox, ...texts)
      for (const search of ["text0 end", `text${SEARCHED_MESSAGES - 2} more`]) {
        assert.deepStrictEqual(yield* found(grantId, search), ["a"], search)
      }
      for (const search of ["text0 more", `text${SEARCHED_MESSAGES - 1}`]) {
        assert.deepStrictEqual(yield* found(grantId, search), [], search)
      }
    }))

  it.effect("takes every search as text, and indexes every text", () =>
    Effect.gen(function*() {
      const grantId = yield* grant
      const hostile = ["'", "''", "\\", "a'b\\c", "' | ':*", "a & !b", "(a <-> b)", ":*", "\u202e\u200b", "%_", "\u{1F680}", "\ufffd",
        "é".repeat(5000), "w".repeat(10_000), "v".repeat(WORD), "<!-- a&b; -->", "https://a.test/?q=1#x", "-1e99", "\u0001"]
      yield* say(yield* booted(yield* make({ grantId, title: "t", prompt: hostile.join(" ") })), ...hostile)
      for (const search of hostile) {
        assert.isAtMost((yield* found(grantId, search)).length, 1, search)
        assert.deepStrictEqual(yield* found(yield* grant, search), [], search)
      }
      for (const search of ["a'b", "v".repeat(WORD), "a.test/?q=1", `${"w".repeat(WORD + 1)} https`]) {
        assert.deepStrictEqual(yield* found(grantId, search), ["t"], search)
      }
      for (const search of ["w", "w".repeat(WORD + 1)]) assert.deepStrictEqual(yield* found(grantId, search), [], "a long word")
    }))
}

const filters = (it: Writer<SandboxDashboard | Checkpoints | Stores>) => {
  it.effect("finds by the person who created a sandbox and by its metadata, together with everything else", () =>
    Effect.gen(function*() {
      const grantId = yield* grant
      const other = `user_${yield* (yield* Ids).ulid}`
      const metadata = { ticket: "SHOP-42", "a.b": "%'\"", constructor: "x" }
      yield* make({ grantId, title: "one", metadata })
      yield* make({ grantId, title: "two", metadata: { ticket: "shop-42" }, createdBy: other })
      const by = (query: Partial<DashboardQuery>) => Effect.map(list(grantId, query), (found) => titles(found).toSorted())
      assert.deepStrictEqual(yield* by({ createdBy: other }), ["two"])
      assert.deepStrictEqual(yield* by({ createdBy: "user_nobody" }), [])
      assert.deepStrictEqual(yield* by({ createdBy: null, metadata: {} }), ["one", "two"])
      assert.deepStrictEqual(yield* by({ metadata: { ticket: "SHOP-42" } }), ["one"])
      assert.deepStrictEqual(yield* by({ metadata }), ["one"])
      assert.deepStrictEqual(yield* by({ metadata: { ticket: "SHOP-42", toString: "x" } }), [])
      assert.deepStrictEqual(yield* by({ metadata: { ticket: "SHOP" } }), [])
      assert.deepStrictEqual(yield* by({ createdBy: other, metadata: { ticket: "SHOP-42" } }), [])
      assert.deepStrictEqual(yield* by({ createdBy: other, search: "line", attention: "starting" }), ["two"])
    }))
}

const overview = (it: Writer<SandboxDashboard | Checkpoints | Stores>) => {
  it.effect("tells what was asked for last, of this grant alone, and whether it ran", () =>
    Effect.gen(function*() {
      const grantId = yield* grant
      const dashboard = yield* SandboxDashboard
      assert.deepStrictEqual(yield* dashboard.recent(grantId), [])
      yield* booted(yield* make({ grantId }))
      yield* make({
        grantId,
        createdBy: "user_other",
        reasoningEffort: "high",
        toolApprovalMode: "auto",
        createdAt: DateTime.add(at, { seconds: 1 })
      })
      yield* make()
      const [second, first, ...more] = yield* dashboard.recent(grantId)
      assert.deepStrictEqual(more, [])
      assert.deepInclude(first, { started: true, reasoningEffort: null, toolApprovalMode: "prompt", createdAt: at })
      assert.deepStrictEqual(first?.repos, [{ fullName: RepoName.make("acme/Shop"), ref: "main" }, {
        fullName: RepoName.make("acme/other")
      }])
      assert.deepInclude(second, { started: false, reasoningEffort: "high", toolApprovalMode: "auto", createdBy: "user_other" })
    }))

  it.effect("knows which in line each of the grant's sandboxes is, behind those of others, and not those that somebody holds", () =>
    Effect.gen(function*() {
      const grantId = yield* grant
      const dashboard = yield* SandboxDashboard
      const fixture = yield* StoreFixture
      // The last one of the line was created first.
      const created = (millis: number) => ({ createdAt: DateTime.add(at, { milliseconds: millis }) })
      const [stranger, first, second] = [
        yield* make(created(2)),
        yield* make({ grantId, ...created(1) }),
        yield* make({ grantId, ...created(0) })
      ]
      // Its turn needs a worker, its boot is over.
      const working = yield* booted(yield* make({ grantId }))
      yield* fixture.ageWork([working.id], 1_000_000_004)
      yield* fixture.ageWork([stranger.id], 1_000_000_003)
      yield* fixture.ageWork([first.id], 1_000_000_002)
      yield* fixture.ageWork([second.id], 1_000_000_001)
      const { places } = yield* dashboard.queue(grantId)
      assert.deepStrictEqual([...places], [[first.id, 2], [second.id, 3]])
      const before = (yield* dashboard.queue(grantId)).atWork
      yield* leased(stranger.id)
      const after = yield* dashboard.queue(grantId)
      assert.isAbove(after.atWork, before)
      assert.deepStrictEqual([...after.places], [])
      for (const sandbox of [stranger, first, second, working]) yield* command(keyOf(sandbox), terminate(yield* Ids), at)
    }))

  it.effect("adds up what was created since a moment, by day, repository, model, person and state", () =>
    Effect.gen(function*() {
      const grantId = yield* grant
      const dashboard = yield* SandboxDashboard
      const tokens = (n: number) => ({ input: 10 * n, cachedInput: 5 * n, output: n })
      const cost = (costMicroUsd: number): SandboxEvent => ({
        type: "usage.updated",
        data: { usage: { llmRequestCount: 1, costMicroUsd, creditsChargedMicros: 0 }, tokens: tokens(costMicroUsd) }
      })
      const late = DateTime.makeUnsafe("2026-11-21T23:59:59.999Z")
      yield* record(yield* booted(yield* make({ grantId })), [cost(3)])
      yield* record(yield* booted(yield* make({ grantId, createdAt: late })), [cost(4)])
      yield* record(yield* booted(yield* make({ grantId, createdAt: DateTime.add(late, { milliseconds: 1 }) })), [cost(5)])
      yield* fail(yield* drive(yield* make({ grantId }), [{ _tag: "StartBoot" }]))
      yield* record(yield* booted(yield* make({ grantId, createdAt: DateTime.subtract(at, { milliseconds: 1 }) })), [cost(100)])
      yield* make()
      yield* record(yield* booted(yield* make({ grantId, model: "another/model" })), [cost(2)])
      yield* record(yield* booted(yield* make({ grantId, repos: [{ fullName: RepoName.make("acme/other") }] })), [cost(1)])
      yield* record(yield* fail(yield* drive(yield* make({ grantId }), [{ _tag: "StartBoot" }]), "clone_failed"), [cost(6)])
      const of = { ...unpublished, repo: "acme/shop", model: "offline/demo", createdBy: creator }
      assert.deepStrictEqual(yield* dashboard.past(grantId, at), [
        { ...of, day: "2026-11-21", status: "running", reason: null, count: 2, costMicroUsd: 7, tokens: tokens(7) },
        { ...of, day: "2026-11-21", status: "failed", reason: "clone_failed", count: 1, costMicroUsd: 6, tokens: tokens(6) },
        { ...of, day: "2026-11-22", status: "running", reason: null, count: 1, costMicroUsd: 5, tokens: tokens(5) },
        {
          ...of,
          model: "another/model",
          day: "2026-11-21",
          status: "running",
          reason: null,
          count: 1,
          costMicroUsd: 2,
          tokens: tokens(2)
        },
        { ...of, repo: "acme/other", day: "2026-11-21", status: "running", reason: null, count: 1, costMicroUsd: 1, tokens: tokens(1) },
        { ...of, day: "2026-11-21", status: "failed", reason: "boot_failed", count: 1, costMicroUsd: 0, tokens: tokens(0) }
      ])
    }))
}

/** The counts of a group without pull requests. */
const unpublished = { pulls: 0, merged: 0, mergedAfterMs: 0, timedMerges: 0 }

const requests = (it: Writer<SandboxDashboard | Stores>) => {
  it.effect("tells of a continued branch's repository without a ref, and of the others with theirs, as they were asked for", () =>
    Effect.gen(function*() {
      const grantId = yield* grant
      const [shop, other] = [RepoName.make("acme/Shop"), RepoName.make("acme/other")]
      yield* make({
        grantId,
        repos: [{ fullName: shop, ref: "feature/cart" }, { fullName: other, ref: "develop" }],
        continues: { repo: shop, branch: "feature/cart", pullRequest: null, headSha: "a".repeat(40) }
      })
      const [asked] = yield* (yield* SandboxDashboard).recent(grantId)
      assert.deepStrictEqual(asked?.repos, [{ fullName: shop }, { fullName: other, ref: "develop" }])
    }))
}

const merges = (it: Writer<SandboxDashboard | Checkpoints | Stores>) => {
  it.effect("counts pull requests, those that are merged, and how long it took from the creation to the merge", () =>
    Effect.gen(function*() {
      const grantId = yield* grant
      const pulled = (repo: string, merged: boolean): SandboxEvent => ({
        type: "pull_request.updated",
        data: { repo: RepoName.make(repo), action_state: "idle", number: 7, state: merged ? "closed" : "open", draft: false, merged }
      })
      const begun: SandboxEvent = { type: "pull_request.updated", data: { repo: RepoName.make("acme/shop"), action_state: "publishing" } }
      const [slow, fast, open, pending] = [
        yield* booted(yield* make({ grantId })),
        yield* booted(yield* make({ grantId })),
        yield* booted(yield* make({ grantId })),
        yield* booted(yield* make({ grantId }))
      ]
      const after = (hours: number) => DateTime.add(at, { hours })
      yield* record(slow, [pulled("acme/shop", false)], after(1))
      yield* record(slow, [pulled("acme/shop", true)], after(5))
      // Seen again later: it was merged before.
      yield* record(slow, [pulled("acme/shop", true)], after(50))
      yield* record(fast, [pulled("acme/shop", true), pulled("acme/other", true)], after(2))
      yield* record(open, [pulled("acme/shop", false)], after(1))
      yield* record(pending, [begun], after(1))
      const [group, ...more] = yield* (yield* SandboxDashboard).past(grantId, at)
      assert.deepStrictEqual(more, [])
      assert.deepInclude(group, { count: 4, pulls: 4, merged: 3, timedMerges: 3, mergedAfterMs: (5 + 2 + 2) * 3_600_000 })
    }))

  it.effect("adds up what each person created apart", () =>
    Effect.gen(function*() {
      const grantId = yield* grant
      const other = `user_${yield* (yield* Ids).ulid}`
      yield* make({ grantId })
      yield* make({ grantId, createdBy: other })
      yield* make({ grantId, createdBy: other })
      const groups = yield* (yield* SandboxDashboard).past(grantId, at)
      assert.deepStrictEqual(new Map(groups.map(({ count, createdBy }) => [createdBy, count])), new Map([[other, 2], [creator, 1]]))
    }))
}

const saturation = (it: Writer<SandboxDashboard | Checkpoints | Stores>) => {
  it.effect("a sum of costs or tokens saturates", () =>
    Effect.gen(function*() {
      const grantId = yield* grant
      const most = Number.MAX_SAFE_INTEGER
      const all: SandboxEvent = {
        type: "usage.updated",
        data: {
          usage: { llmRequestCount: most, costMicroUsd: most, creditsChargedMicros: most },
          tokens: { input: most, cachedInput: most, output: most }
        }
      }
      for (const _ of [1, 2]) yield* record(yield* booted(yield* make({ grantId })), [all])
      const [group] = yield* (yield* SandboxDashboard).past(grantId, at)
      assert.deepInclude(group, { count: 2, costMicroUsd: most, tokens: { input: most, cachedInput: most, output: most } })
    }))
}

/** For every store. */
export const suite = (name: string, layer: Layer.Layer<SandboxDashboard | Checkpoints | Stores, unknown>) =>
  define(`SandboxDashboard (${name})`, layer, (it) => {
    attention(it)
    pulls(it)
    archive(it)
    pins(it)
    searchAndPages(it)
    words(it)
    filters(it)
    overview(it)
    requests(it)
    merges(it)
    saturation(it)
  })
