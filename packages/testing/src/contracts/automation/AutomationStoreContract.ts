/**
 * The rules that every `AutomationStore` must keep. An adapter proves itself by running this suite against its layer; a rule that is
 * missing here is not part of the port. Fresh grants make it repeatable on one database.
 */
import { type AutomationKey, AutomationStore, type TakenRun } from "@slipway/domain/automation/ports/AutomationStore"
import { type Automation, type Beginning, MAX_AUTOMATIONS, MAX_SKIPPED, runId } from "@slipway/domain/automation/rules/Automation"
import type { AutomationSettings, Outcome, Trigger } from "@slipway/domain/automation/schema/Automation"
import { Ids } from "@slipway/domain/ids/Ids"
import { signing } from "@slipway/domain/partner/rules/Webhook"
import { terminate } from "@slipway/domain/sandbox/rules/Command"
import type { SystemCommand } from "@slipway/domain/sandbox/rules/SystemCommand"
import { turnId } from "@slipway/domain/sandbox/rules/Turn"
import * as Context from "effect/Context"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import { assert } from "../../suite/Assert.ts"
import { define, type Writer } from "../../suite/Suite.ts"
import { appended } from "../access/AuditLogContract.ts"
import { command, drive, keyOf, make, StoreFixture, type Stores } from "../sandbox/SandboxStates.ts"

/** Operations that a test needs and the port lacks; the adapter under test provides them. */
export class AutomationFixture extends Context.Service<AutomationFixture, {
  /** Lets all claims run out. */
  readonly expireClaims: Effect.Effect<void>
}>()("@slipway/testing/AutomationFixture") {}

export type Requirements = AutomationStore | AutomationFixture | Stores

const at = DateTime.makeUnsafe("2026-11-21T02:41:00.123Z")
const after = (minutes: number) => DateTime.add(at, { minutes })
const absent = "0192f5a0-5c3e-4b1c-9b7e-2f4a8c6d1eff"
const daily: Trigger = { type: "schedule", cron: "0 7 * * *", timeZone: "Europe/Berlin" }
const webhook: Trigger = { type: "webhook" }
const secretOf = (text: string) => Redacted.make(`whsec_${text}`)
const refused: Outcome & { readonly type: "refused" } = { type: "refused", code: "repo_not_accessible", message: "No 'repository'." }

const settingsOf = (trigger: Trigger, more: Partial<AutomationSettings> = {}): AutomationSettings => ({
  name: "Nïghtly 'quoted' \\ \u{1F680}",
  trigger,
  repos: [{ fullName: "acme/Shop", ref: "main" }, { fullName: "acme/other" }],
  prompt: "Do {{run.time}} \"it\".",
  toolApprovalMode: "auto",
  maxRunning: 20,
  maxPerDay: 200,
  ...more
})
const add = Effect.fnUntraced(function*(trigger: Trigger, more: Partial<AutomationSettings> & { readonly grantId?: string } = {}) {
  const { grantId = yield* (yield* StoreFixture).grant, ...settings } = more
  return yield* (yield* AutomationStore).create({
    id: yield* (yield* Ids).uuid7,
    grantId,
    createdBy: "user_01J00000000000000000000000",
    test: false,
    createdAt: at,
    settings: settingsOf(trigger, settings)
  }, trigger.type === "webhook" ? secretOf("first") : null)
})
const beginning = (triggerId: string, when = at): Beginning => ({
  triggerId,
  at: when,
  request: {
    repos: [{ fullName: "acme/Shop" }],
    prompt: "Do 'it'.",
    toolApprovalMode: "auto",
    title: "T",
    metadata: { automation_id: "x" }
  }
})
const begin = (key: AutomationKey, triggerId: string, when = at, force = false) =>
  AutomationStore.use((store) => store.begin(key, beginning(triggerId, when), force))
const taken = Effect.fnUntraced(function*(key: AutomationKey, triggerId: string, when = at) {
  const { taken } = yield* begin(key, triggerId, when)
  assert(taken !== null, "the run is not the caller's")
  return taken
})
/** Takes free runs and returns those of one automation; those of others are taken too. */
const take = Effect.fnUntraced(function*({ id }: AutomationKey) {
  return (yield* AutomationStore.use((store) => store.take(1000))).filter(({ automation }) => automation.id === id)
})
/** Begins what is due, and returns the runs of one automation. */
const due = Effect.fnUntraced(function*({ id }: AutomationKey, now: DateTime.Utc) {
  return (yield* AutomationStore.use((store) => store.beginDue(now, 1000))).filter(({ run }) => run.automationId === id)
})
const record = (run: TakenRun, outcome: Parameters<AutomationStore["Service"]["record"]>[1], when = at) =>
  AutomationStore.use((store) => store.record(run, outcome, when))
const lost: SystemCommand = { _tag: "Fail", reason: "boot_failed", error: "The image is gone.", retryable: false }
/** Ends the boots of all automations. */
const endBoots = AutomationStore.use((store) => store.endBoots(after(3), 1000))
const find = (key: AutomationKey) => AutomationStore.use((store) => store.find(key))
const log = (key: AutomationKey, before: number | null = null, limit = 100) =>
  AutomationStore.use((store) => store.runs(key, { before, limit }))
const tagOf = <A, R>(effect: Effect.Effect<A, { readonly _tag: string }, R>) => Effect.map(Effect.flip(effect), ({ _tag }) => _tag)

const managing = (it: Writer<Requirements>) => {
  it.effect("gives back an automation as it was made, to its grant alone", () =>
    Effect.gen(function*() {
      const store = yield* AutomationStore
      const { grant } = yield* StoreFixture
      const other = yield* grant
      const first = yield* add(daily, { model: "offline/demo", reasoningEffort: "low" })
      const key = { grantId: first.grantId, id: first.id }
      assert.deepStrictEqual(first, {
        ...key,
        createdBy: "user_01J00000000000000000000000",
        test: false,
        createdAt: at,
        settings: settingsOf(daily, { model: "offline/demo", reasoningEffort: "low" }),
        failures: 0,
        paused: null,
        dueAt: DateTime.makeUnsafe("2026-11-21T06:00:00Z")
      })
      const second = yield* add(webhook, { grantId: first.grantId })
      assert.isNull(second.dueAt)
      assert.deepStrictEqual(yield* find(key), first)
      assert.deepStrictEqual(yield* store.list(first.grantId), [first, second])
      assert.deepStrictEqual(yield* store.list(other), [])
      for (const key of [{ grantId: other, id: first.id }, { grantId: first.grantId, id: absent }]) {
        for (
          const asked of [
            store.find(key),
            store.change(key, settingsOf(daily), at),
            store.remove(key, at),
            store.rotate(key, secretOf("x"), at),
            store.enable(key, at),
            store.pause(key, at),
            store.begin(key, beginning("a"), true),
            store.runs(key, { before: null, limit: 1 })
          ]
        ) assert.strictEqual(yield* tagOf<unknown, never>(asked), "AutomationNotFound")
      }
      assert.deepStrictEqual(yield* find(key), first)
    }))

  it.effect("lets a grant have so many automations and no more, also when many are made at once", () =>
    Effect.gen(function*() {
      const store = yield* AutomationStore
      const grantId = yield* (yield* StoreFixture).grant
      const results = yield* Effect.forEach(Array.from({ length: MAX_AUTOMATIONS + 3 }), () => Effect.result(add(webhook, { grantId })), {
        concurrency: "unbounded"
      })
      assert.lengthOf(results.filter(({ _tag }) => _tag === "Failure"), 3)
      assert.strictEqual(yield* tagOf(add(daily, { grantId })), "TooManyAutomations")
      const [first] = yield* store.list(grantId)
      assert(first !== undefined)
      yield* store.remove(first, at)
      yield* add(daily, { grantId })
      yield* add(daily)
    }))

  it.effect("changes settings, pauses and enables; a schedule goes on with its next time", () =>
    Effect.gen(function*() {
      const store = yield* AutomationStore
      const automation = yield* add(daily)
      const hourly: Trigger = { type: "schedule", cron: "0 * * * *", timeZone: "UTC" }
      const changed = yield* store.change(automation, settingsOf(hourly, { name: "Hourly" }), after(30))
      assert.deepStrictEqual(changed.settings, settingsOf(hourly, { name: "Hourly" }))
      assert.deepStrictEqual(changed.dueAt, DateTime.makeUnsafe("2026-11-21T04:00:00Z"))
      const paused = yield* store.pause(automation, after(31))
      assert.deepStrictEqual(paused, { ...changed, paused: { at: after(31), reason: "paused" } })
      assert.deepStrictEqual(yield* store.pause(automation, after(32)), paused)
      assert.deepStrictEqual(yield* find(automation), paused)
      assert.deepStrictEqual(yield* due(automation, after(24 * 60)), [])
      const enabled = yield* store.enable(automation, after(24 * 60))
      assert.deepStrictEqual(enabled, { ...changed, dueAt: DateTime.makeUnsafe("2026-11-22T03:00:00Z") })
      assert.deepStrictEqual(yield* store.enable(automation, after(48 * 60)), enabled)
      assert.deepStrictEqual(yield* find(automation), enabled)
    }))
}

const details = (it: Writer<Requirements>) => {
  it.effect("keeps the secret of a webhook, and the one before it for a day", () =>
    Effect.gen(function*() {
      const store = yield* AutomationStore
      const automation = yield* add(webhook)
      yield* store.rotate(automation, secretOf("second"), after(1))
      const known = yield* store.secretsOf(automation.id)
      assert.deepStrictEqual(known.automation, automation)
      const signs = (minutes: number) => signing(known.secrets, after(minutes)).map(({ value }) => Redacted.value(value))
      assert.deepStrictEqual(signs(24 * 60), ["whsec_second", "whsec_first"])
      assert.deepStrictEqual(signs(24 * 60 + 1), ["whsec_second"])
      const schedule = yield* add(daily)
      for (const id of [schedule.id, absent]) assert.strictEqual(yield* tagOf(store.secretsOf(id)), "AutomationNotFound")
      yield* store.remove(automation, at)
      assert.strictEqual(yield* tagOf(store.secretsOf(automation.id)), "AutomationNotFound")
    }))

  it.effect("finds those that follow a repository, in any case of letters, and are not paused", () =>
    Effect.gen(function*() {
      const store = yield* AutomationStore
      const name = `acme/Repo-${yield* (yield* Ids).uuid7}`
      const repos = [{ fullName: "acme/other" }, { fullName: name }]
      const mention = yield* add({ type: "mention" }, { repos })
      const label = yield* add({ type: "label", label: "slipway" }, { repos })
      yield* add(daily, { repos })
      yield* add(webhook, { repos })
      yield* add({ type: "mention" }, { repos: [{ fullName: `${name}x` }] })
      const paused = yield* add({ type: "mention" }, { repos })
      yield* store.pause(paused, at)
      assert.sameMembers((yield* store.following(name.toUpperCase(), 10)).map(({ id }) => id), [mention.id, label.id])
      assert.lengthOf(yield* store.following(name, 1), 1)
      yield* store.change(mention, settingsOf({ type: "mention" }), at)
      assert.deepStrictEqual(yield* store.following(name, 10), [label])
    }))

  it.effect("tells the audit log of each change once", () =>
    Effect.gen(function*() {
      const store = yield* AutomationStore
      const grantId = yield* (yield* StoreFixture).grant
      const told = yield* appended(Effect.gen(function*() {
        const automation = yield* add(webhook, { grantId })
        yield* store.change(automation, settingsOf(webhook), after(1))
        yield* store.rotate(automation, secretOf("x"), after(2))
        yield* store.enable(automation, after(3))
        for (const minutes of [4, 5]) yield* store.pause(automation, after(minutes))
        for (const minutes of [6, 7]) yield* store.enable(automation, after(minutes))
        yield* record(yield* taken(automation, "a"), refused, after(8))
        yield* store.remove(automation, after(9))
      }))
      assert.deepStrictEqual(told.map(({ action, at }) => [action, at]), [
        ["automation.created", at],
        ["automation.changed", after(1)],
        ["automation.secret_rotated", after(2)],
        ["automation.paused", after(4)],
        ["automation.enabled", after(6)],
        ["automation_run.refused", after(8)],
        ["automation.deleted", after(9)]
      ])
      for (const { subjects } of told) assert.strictEqual(subjects["grantId"], grantId)
      assert.strictEqual(told[5]?.subjects["reason"], "repo_not_accessible")
    }))
}

const starting = (it: Writer<Requirements>) => {
  it.effect("gives the run of an event to one caller, whole", () =>
    Effect.gen(function*() {
      const ids = yield* Ids
      const automation = yield* add(webhook)
      const { id, grantId, createdBy, test } = automation
      const all = yield* Effect.forEach(Array.from({ length: 5 }), () => begin(automation, "webhook/msg 'x'"), { concurrency: "unbounded" })
      const given = all.flatMap(({ taken }) => taken ?? [])
      assert.lengthOf(given, 1)
      assert.deepStrictEqual({ ...given[0]!, fence: 0 }, {
        id: runId(ids, id, "webhook/msg 'x'"),
        automation: { id, grantId, createdBy, test },
        at,
        request: beginning("").request,
        fence: 0
      })
      assert.strictEqual(new Set(all.map(({ run }) => run.position)).size, 1)
      const [run] = yield* log(automation)
      assert(run !== undefined)
      const { position: _position, ...rest } = run
      assert.deepStrictEqual(rest, {
        id: given[0]!.id,
        automationId: id,
        triggerId: "webhook/msg 'x'",
        at,
        outcome: { type: "starting" }
      })
      // The same event at another automation.
      assert.isNotNull((yield* begin(yield* add(webhook), "webhook/msg 'x'")).taken)
    }))

  it.effect("gives a run to another caller when the claim is over, and takes the record of the newest alone, once", () =>
    Effect.gen(function*() {
      const { expireClaims } = yield* AutomationFixture
      const automation = yield* add(webhook)
      const sandbox = yield* make({ grantId: automation.grantId })
      const started = { type: "started", sandboxId: sandbox.id } as const
      const first = yield* taken(automation, "a")
      assert.deepStrictEqual(yield* take(automation), [])
      yield* expireClaims
      const [second, ...more] = (yield* Effect.forEach([1, 2, 3], () => take(automation), { concurrency: "unbounded" })).flat()
      assert(second !== undefined && more.length === 0)
      assert.deepStrictEqual({ ...second, fence: 0 }, { ...first, fence: 0 })
      assert.isFalse(yield* record(first, refused))
      assert.isTrue(yield* record(second, started))
      assert.isFalse(yield* record(second, refused))
      assert.deepStrictEqual((yield* begin(automation, "a")).run.outcome, started)
      assert.isNull((yield* begin(automation, "a")).taken)
      yield* expireClaims
      assert.deepStrictEqual(yield* take(automation), [])
    }))

  it.effect("of a deleted automation ends nowhere", () =>
    Effect.gen(function*() {
      const store = yield* AutomationStore
      const automation = yield* add(webhook)
      const run = yield* taken(automation, "a")
      yield* store.remove(automation, at)
      assert.isFalse(yield* record(run, refused))
      yield* (yield* AutomationFixture).expireClaims
      assert.deepStrictEqual(yield* take(automation), [])
    }))

  it.effect("begins a schedule that is due once, for all times that were missed, and moves it on", () =>
    Effect.gen(function*() {
      const automation = yield* add(daily)
      const time = DateTime.makeUnsafe("2026-11-21T06:00:00Z")
      assert.deepStrictEqual(yield* due(automation, DateTime.subtract(time, { milliseconds: 1 })), [])
      const late = DateTime.makeUnsafe("2026-11-24T12:00:00Z")
      const begun = (yield* Effect.forEach([1, 2, 3], () => due(automation, late), { concurrency: "unbounded" })).flat()
      assert.deepStrictEqual(begun.map(({ run }) => [run.triggerId, run.at]), [["schedule/2026-11-21T06:00:00.000Z", late]])
      assert.strictEqual(begun[0]?.taken?.request.prompt, "Do 2026-11-24T12:00:00.000Z \"it\".")
      assert.deepStrictEqual((yield* find(automation)).dueAt, DateTime.makeUnsafe("2026-11-25T06:00:00Z"))
      assert.deepStrictEqual(yield* due(automation, late), [])
    }))

  it.effect("begins the schedules that are due for the longest first, so many at once", () =>
    Effect.gen(function*() {
      const store = yield* AutomationStore
      // When nothing of other tests is due.
      const trigger: Trigger = { type: "schedule", cron: "0 0 1 1 *", timeZone: "UTC" }
      const grantId = yield* (yield* StoreFixture).grant
      const early = (year: number) => DateTime.makeUnsafe(`${year}-06-01T00:00:00Z`)
      const made: Array<Automation> = []
      for (const year of [1992, 1990, 1991]) {
        const automation = yield* add(trigger, { grantId })
        made.push(yield* store.change(automation, settingsOf(trigger), early(year)))
      }
      const begun = yield* store.beginDue(early(1993), 2)
      assert.deepStrictEqual(begun.map(({ run }) => run.automationId), [made[1]!.id, made[2]!.id])
      yield* store.beginDue(early(1993), 2)
      assert.lengthOf(yield* log(made[0]!), 1)
    }))
}

const limits = (it: Writer<Requirements>) => {
  it.effect("skips a run while too many of its sandboxes are active, and never starts it later", () =>
    Effect.gen(function*() {
      const automation = yield* add(webhook, { maxRunning: 1 })
      const sandbox = yield* make({ grantId: automation.grantId })
      const run = yield* taken(automation, "a")
      const skipped = { type: "skipped", limit: "running" } as const
      assert.deepStrictEqual((yield* begin(automation, "b")).run.outcome, skipped)
      yield* record(run, { type: "started", sandboxId: sandbox.id })
      assert.deepStrictEqual((yield* begin(automation, "c")).run.outcome, skipped)
      yield* command(keyOf(sandbox), terminate(yield* Ids), at)
      assert.isNull((yield* begin(automation, "c")).taken)
      yield* taken(automation, "d")
      yield* taken(yield* add(webhook, { maxRunning: 1, grantId: automation.grantId }), "d")
    }))

  it.effect("skips runs beyond those of any 24 hours; skipped ones do not count, refused ones do", () =>
    Effect.gen(function*() {
      const automation = yield* add(webhook, { maxPerDay: 2 })
      yield* record(yield* taken(automation, "a"), refused)
      yield* record(yield* taken(automation, "b", after(60)), refused, after(60))
      for (const triggerId of ["c", "d"]) {
        const { run } = yield* begin(automation, triggerId, after(24 * 60 - 1))
        assert.deepStrictEqual(run.outcome, { type: "skipped", limit: "day" })
      }
      yield* taken(automation, "e", after(24 * 60))
      assert.deepStrictEqual((yield* begin(automation, "f", after(24 * 60))).run.outcome, { type: "skipped", limit: "day" })
    }))

  it.effect("lets one of many events at once start where one may", () =>
    Effect.gen(function*() {
      const automation = yield* add(webhook, { maxRunning: 1 })
      const all = yield* Effect.forEach(Array.from({ length: 6 }, (_, i) => `t${i}`), (triggerId) => begin(automation, triggerId), {
        concurrency: "unbounded"
      })
      assert.lengthOf(all.filter(({ taken }) => taken !== null), 1)
    }))

  it.effect("records so many skipped runs of a day and no more", () =>
    Effect.gen(function*() {
      const automation = yield* add(webhook, { maxRunning: 1 })
      yield* taken(automation, "a")
      for (let i = 0; i < MAX_SKIPPED; i++) yield* begin(automation, `skipped/${i}`)
      assert.strictEqual(yield* tagOf(begin(automation, "more")), "TooManyRuns")
      assert.strictEqual((yield* begin(automation, "skipped/0")).run.outcome.type, "skipped")
      assert.strictEqual((yield* begin(automation, "more", after(24 * 60))).run.outcome.type, "skipped")
    }))

  it.effect("pauses an automation after five refused runs in a row; a person may still run it", () =>
    Effect.gen(function*() {
      const store = yield* AutomationStore
      const automation = yield* add(webhook)
      const sandbox = yield* make({ grantId: automation.grantId })
      const fail = Effect.fnUntraced(function*(...triggerIds: ReadonlyArray<string>) {
        for (const triggerId of triggerIds) yield* record(yield* taken(automation, triggerId), refused, after(1))
        return (yield* find(automation)).failures
      })
      assert.strictEqual(yield* fail("1", "2", "3", "4"), 4)
      yield* record(yield* taken(automation, "ok"), { type: "started", sandboxId: sandbox.id })
      assert.strictEqual((yield* find(automation)).failures, 4)
      yield* drive(sandbox, [{ _tag: "StartBoot" }, { _tag: "FinishBoot", turnId: turnId(yield* Ids, sandbox.id, 1) }])
      yield* endBoots
      assert.strictEqual(yield* fail("5", "6", "7", "8"), 4)
      const told = yield* appended(fail("9"))
      assert.deepStrictEqual(told.map(({ action, subjects }) => [action, subjects["reason"]]), [
        ["automation_run.refused", "repo_not_accessible"],
        ["automation.paused", "failures"]
      ])
      assert.deepInclude(yield* find(automation), { failures: 5, paused: { at: after(1), reason: "failures" } })
      assert.strictEqual(yield* tagOf(begin(automation, "10")), "AutomationPaused")
      assert.deepStrictEqual((yield* begin(automation, "9")).run.outcome, refused)
      assert.isNotNull((yield* begin(automation, "manual", at, true)).taken)
      assert.deepInclude(yield* store.enable(automation, after(2)), { failures: 0, paused: null })
      yield* taken(automation, "11")
    }))
}

const booting = (it: Writer<Requirements>) => {
  it.effect("counts a run whose sandbox could not boot like a refused run, once, and no other", () =>
    Effect.gen(function*() {
      const automation = yield* add(webhook)
      const starts = Effect.fnUntraced(function*(triggerId: string, commands: ReadonlyArray<SystemCommand>) {
        const sandbox = yield* make({ grantId: automation.grantId })
        yield* record(yield* taken(automation, triggerId), { type: "started", sandboxId: sandbox.id })
        yield* drive(sandbox, commands)
        return sandbox
      })
      const failures = Effect.andThen(endBoots, Effect.map(find(automation), ({ failures }) => failures))
      const boots = { _tag: "StartBoot" } as const
      for (const triggerId of ["1", "2", "3", "4"]) yield* starts(triggerId, [boots, lost])
      assert.strictEqual(yield* failures, 4)
      assert.strictEqual(yield* failures, 4)
      const terminated = yield* starts("5", [])
      yield* starts("6", [boots])
      yield* command(keyOf(terminated), terminate(yield* Ids), at)
      assert.strictEqual(yield* failures, 4)
      const told = yield* appended(Effect.andThen(starts("7", [boots, lost]), failures))
      assert.deepStrictEqual(told.map(({ action, subjects }) => [action, subjects["reason"]]), [["automation.paused", "failures"]])
      assert.deepInclude(yield* find(automation), { failures: 5, paused: { at: after(3), reason: "failures" } })
    }))
}

const logging = (it: Writer<Requirements>) => {
  it.effect("lists runs newest first, page by page", () =>
    Effect.gen(function*() {
      const automation = yield* add(webhook)
      for (const triggerId of ["a", "b", "c"]) yield* begin(automation, triggerId)
      yield* begin(yield* add(webhook), "other")
      const all = yield* log(automation)
      assert.deepStrictEqual(all.map(({ triggerId }) => triggerId), ["c", "b", "a"])
      const page = yield* log(automation, null, 2)
      assert.deepStrictEqual([...page, ...(yield* log(automation, page.at(-1)!.position, 2))], all)
    }))

  it.effect("purges ended runs that are older, so many at once", () =>
    Effect.gen(function*() {
      const store = yield* AutomationStore
      const automation = yield* add(webhook)
      const early = DateTime.makeUnsafe("2000-01-01T00:00:00.000Z")
      for (const triggerId of ["a", "b", "c"]) yield* record(yield* taken(automation, triggerId, early), refused, early)
      yield* taken(automation, "d", early)
      const later = DateTime.add(early, { milliseconds: 1 })
      yield* record(yield* taken(automation, "e", later), refused, later)
      assert.strictEqual(yield* store.purge(early, 10), 0)
      assert.strictEqual(yield* store.purge(later, 2), 2)
      assert.strictEqual(yield* store.purge(later, 2), 1)
      assert.strictEqual(yield* store.purge(later, 2), 0)
      assert.deepStrictEqual((yield* log(automation)).map(({ triggerId }) => triggerId), ["e", "d"])
    }))
}

/** The suite. */
export const suite = (name: string, layer: Layer.Layer<Requirements, unknown>) =>
  define(`AutomationStore (${name})`, layer, (it) => {
    managing(it)
    details(it)
    starting(it)
    limits(it)
    booting(it)
    logging(it)
  })
