/** The worker's job on stores in memory, under a clock that the test moves. */
import { assert, describe, it } from "@effect/vitest"
import { AccessStore } from "@slipway/domain/access/ports/AccessStore"
import { AuditLog } from "@slipway/domain/access/ports/AuditLog"
import { MemberStore } from "@slipway/domain/access/ports/MemberStore"
import type { Principal } from "@slipway/domain/access/schema/Principal"
import { Access } from "@slipway/domain/access/usecases/Access"
import { AutomationStore, CLAIM_TIME } from "@slipway/domain/automation/ports/AutomationStore"
import { type Automation, RUN_RETENTION, STARTING_TIME } from "@slipway/domain/automation/rules/Automation"
import type { AutomationSettings } from "@slipway/domain/automation/schema/Automation"
import { Automations } from "@slipway/domain/automation/usecases/Automations"
import * as Stores from "@slipway/domain/memory/Stores"
import { BeforeCreate, CreationDenied } from "@slipway/domain/sandbox/ports/BeforeCreate"
import { Sandboxes } from "@slipway/domain/sandbox/usecases/Sandboxes"
import { RepoNotAccessible, SourceHost } from "@slipway/domain/source/ports/SourceHost"
import * as RunAutomations from "@slipway/worker/jobs/RunAutomations"
import { Context, DateTime, Duration, Effect, Exit, Layer, Metric, Scope } from "effect"
import { TestClock } from "effect/testing"

const stores = Layer.provideMerge(Access.layer, Stores.layer())
const host = Layer.mock(SourceHost, {
  names: ["test"],
  nameOf: () => Effect.succeed("test"),
  refusal: (repos) => Effect.succeed(repos.includes("acme/gone") ? new RepoNotAccessible({ repo: "acme/gone" }) : null),
  mayWrite: (_repo, { login }) => Effect.succeed(login === "ada")
})
const layer = Automations.layer.pipe(Layer.provideMerge(Sandboxes.layer), Layer.provideMerge(Layer.merge(stores, host)))

const settings: AutomationSettings = {
  name: "Nightly",
  trigger: { type: "schedule", cron: "0 7 * * *", timeZone: "UTC" },
  repos: [{ fullName: "acme/shop" }],
  prompt: "Do it.",
  toolApprovalMode: "auto",
  maxRunning: 20,
  maxPerDay: 200
}
/** The owner in a new grant. */
const owner = Effect.gen(function*() {
  const { organizationId, userId } = yield* (yield* MemberStore).owner
  const { grant } = yield* (yield* Access).createGrant("automations")
  const by: Principal = {
    credential: { _tag: "Key", keyId: "k" },
    grantId: grant.id,
    organizationId,
    userId,
    scopes: new Set(["automations"]),
    test: false
  }
  return by
})
const add = Effect.fnUntraced(function*(by: Principal, more: Partial<AutomationSettings> = {}) {
  return (yield* (yield* Automations).create(by, { ...settings, ...more })).automation
})
const sandboxes = Effect.fnUntraced(function*(by: Principal) {
  return yield* (yield* Sandboxes).list(by, { after: null, limit: 100, status: null, repo: null })
})
const outcomes = Effect.fnUntraced(function*({ grantId, id }: Automation) {
  return (yield* (yield* Automations).runs(grantId, id, { before: null, limit: 100 })).runs.map(({ outcome }) => outcome)
})
/** A process until its scope closes: what it has in `from` replaces what others have. */
const process = Effect.fnUntraced(function*<R = never>(from: Context.Context<R> = Context.empty() as Context.Context<R>) {
  const scope = yield* Scope.fork(yield* Effect.scope)
  const own = Layer.buildWithScope(Layer.fresh(Automations.layer), scope)
  const services = Context.merge(yield* Effect.context<Layer.Services<typeof Automations.layer>>(), from)
  const built = yield* Effect.provideContext(own, services as Context.Context<Layer.Services<typeof Automations.layer>>)
  yield* RunAutomations.start().pipe(Scope.provide(scope), Effect.provideContext(built))
  return { end: Scope.close(scope, Exit.void) }
})
const to = (iso: string) => TestClock.setTime(Date.parse(iso))

describe("the job", () => {
  it.effect("starts a schedule at its time, as its creator, once among many processes", () =>
    Effect.gen(function*() {
      yield* to("2026-11-21T02:41:00Z")
      const by = yield* owner
      const automation = yield* add(by)
      yield* Effect.forEach([1, 2, 3], () => process())
      yield* to("2026-11-21T06:59:54Z")
      assert.deepStrictEqual(yield* sandboxes(by), [])
      yield* to("2026-11-21T07:00:04Z")
      const [sandbox, ...more] = yield* sandboxes(by)
      assert(sandbox !== undefined && more.length === 0)
      assert.deepInclude(sandbox, {
        createdBy: by.userId,
        grantId: by.grantId,
        prompt: "Do it.",
        title: "Nightly",
        metadata: { automation_id: automation.id }
      })
      assert.deepStrictEqual(yield* outcomes(automation), [{ type: "started", sandboxId: sandbox.id }])
      yield* TestClock.adjust("5 minutes")
      assert.lengthOf(yield* sandboxes(by), 1)
    }).pipe(Effect.scoped, Effect.provide(layer)))

  it.effect("begins the times of an outage once", () =>
    Effect.gen(function*() {
      yield* to("2026-11-21T02:41:00Z")
      const by = yield* owner
      yield* add(by)
      yield* to("2026-11-24T12:00:00Z")
      yield* process()
      yield* TestClock.adjust("1 hour")
      assert.lengthOf(yield* sandboxes(by), 1)
    }).pipe(Effect.scoped, Effect.provide(layer)))

  const deaths: ReadonlyArray<readonly [string, (store: AutomationStore["Service"], of: Sandboxes["Service"]) => Context.Context<never>]> =
    [
      ["before it creates the sandbox",
        (_, of) => Context.make(Sandboxes, { ...of, create: () => Effect.interrupt }) as Context.Context<never>],
      ["before it records the sandbox",
        (store) => Context.make(AutomationStore, { ...store, record: () => Effect.interrupt }) as Context.Context<never>],
      ["with a bug before it records",
        (store) => Context.make(AutomationStore, { ...store, record: () => Effect.die("a bug") }) as Context.Context<never>]
    ]
  for (const [when, dying] of deaths) {
    it.effect(`makes one sandbox of a run whose process died ${when}`, () =>
      Effect.gen(function*() {
        yield* to("2026-11-21T02:41:00Z")
        const by = yield* owner
        const automation = yield* add(by)
        const { end } = yield* process(dying(yield* AutomationStore, yield* Sandboxes))
        yield* to("2026-11-21T07:00:04Z")
        assert.deepStrictEqual(yield* outcomes(automation), [{ type: "starting" }])
        yield* end
        yield* process()
        yield* TestClock.adjust(CLAIM_TIME)
        const [sandbox, ...more] = yield* sandboxes(by)
        assert(sandbox !== undefined && more.length === 0)
        assert.deepStrictEqual(yield* outcomes(automation), [{ type: "started", sandboxId: sandbox.id }])
      }).pipe(Effect.scoped, Effect.provide(layer)))
  }

  it.effect("ends a run that a bug keeps from starting", () =>
    Effect.gen(function*() {
      yield* to("2026-11-21T02:41:00Z")
      const by = yield* owner
      const automation = yield* add(by)
      yield* process(Context.make(Sandboxes, { ...(yield* Sandboxes), create: () => Effect.die("a bug") }))
      yield* to("2026-11-21T07:00:04Z")
      assert.deepStrictEqual(yield* outcomes(automation), [{ type: "starting" }])
      for (let i = 0; i <= Duration.toMinutes(STARTING_TIME) + 1; i++) yield* TestClock.adjust(CLAIM_TIME)
      assert.deepInclude((yield* outcomes(automation))[0], { type: "refused", code: "internal_error" })
    }).pipe(Effect.scoped, Effect.provide(layer)))

  it.effect("counts the runs that it started, and those that could not start", () =>
    Effect.gen(function*() {
      yield* to("2026-11-21T02:41:00Z")
      const by = yield* owner
      yield* add(by)
      const gone = yield* add(by)
      yield* (yield* AutomationStore).change(gone, { ...settings, repos: [{ fullName: "acme/gone" }] }, yield* DateTime.now)
      yield* Effect.forEach([1, 2], () => process())
      yield* to("2026-11-21T07:00:04Z")
      const runs = (yield* Metric.snapshot).flatMap(({ attributes, id, state }) =>
        id === "slipway_automation_runs_total" ? [[attributes?.["outcome"], "count" in state ? Number(state.count) : null]] : []
      )
      assert.deepStrictEqual(Object.fromEntries(runs), { started: 1, refused: 1 })
    }).pipe(Effect.scoped, Effect.provide(layer), Effect.provideService(Metric.MetricRegistry, new Map())))

  it.effect("forgets runs after 30 days", () =>
    Effect.gen(function*() {
      yield* to("2026-11-21T02:41:00Z")
      const automation = yield* add(yield* owner)
      yield* (yield* Automations).runNow(automation.grantId, automation.id)
      yield* TestClock.adjust(RUN_RETENTION)
      yield* RunAutomations.purgeLog()
      assert.lengthOf(yield* outcomes(automation), 1)
      yield* TestClock.adjust("1 millis")
      yield* RunAutomations.purgeLog()
      assert.lengthOf(yield* outcomes(automation), 0)
    }).pipe(Effect.provide(layer)))
})

describe("a run that cannot start", () => {
  /** The outcome of a run after the change. */
  const after = <E, R>(change: (by: Principal, automation: Automation) => Effect.Effect<unknown, E, R>) =>
    Effect.gen(function*() {
      const by = yield* owner
      const automation = yield* add(by)
      yield* change(by, automation)
      const { outcome } = yield* (yield* Automations).runNow(by.grantId, automation.id)
      assert.deepStrictEqual(yield* outcomes(automation), [outcome])
      assert.deepStrictEqual(yield* sandboxes(by), [])
      const audited = (yield* (yield* AuditLog).list({ since: null, limit: 100 })).filter(({ action }) =>
        action === "automation_run.refused"
      )
      assert.lengthOf(audited, 1)
      return outcome.type === "refused" ? outcome.code : outcome.type
    })

  it.effect("is refused once its grant is revoked", () =>
    Effect.map(
      after(({ grantId }) =>
        Effect.flatMap(AccessStore, (access) => Effect.flatMap(DateTime.now, (now) => access.revokeGrant(grantId, now)))
      ),
      (code) => assert.strictEqual(code, "grant_revoked")
    ).pipe(Effect.provide(layer)))

  it.effect("is refused once its creator left", () =>
    Effect.map(
      after(({ organizationId, userId }) =>
        Effect.flatMap(MemberStore, (members) => Effect.flatMap(DateTime.now, (now) => members.removeMember(organizationId, userId, now)))
      ),
      (code) => assert.strictEqual(code, "not_a_member")
    ).pipe(Effect.provide(layer)))

  it.effect("is refused while its organization is suspended", () =>
    Effect.map(
      after(({ organizationId }) =>
        Effect.flatMap(MemberStore, (members) => Effect.flatMap(DateTime.now, (now) => members.suspend(organizationId, true, now)))
      ),
      (code) => assert.strictEqual(code, "organization_suspended")
    ).pipe(Effect.provide(layer)))

  it.effect("is refused with the code of the embedder", () =>
    Effect.map(after(() => Effect.void), (code) => assert.strictEqual(code, "plan_expired")).pipe(
      Effect.provide(
        layer.pipe(Layer.provide(Layer.succeed(BeforeCreate, () => new CreationDenied({ code: "plan_expired", reason: "No." }))))
      )
    ))

  it.effect("is refused without its repository", () =>
    Effect.gen(function*() {
      const by = yield* owner
      const automation = yield* add(by)
      const store = yield* AutomationStore
      yield* store.change(automation, { ...settings, repos: [{ fullName: "acme/gone" }] }, yield* DateTime.now)
      const { outcome } = yield* (yield* Automations).runNow(by.grantId, automation.id)
      assert.deepInclude(outcome, { type: "refused", code: "repo_not_accessible" })
      const refused = yield* Effect.flip(add(by, { repos: [{ fullName: "acme/gone" }] }))
      assert.strictEqual(refused._tag, "RepoNotAccessible")
    }).pipe(Effect.provide(layer)))
})

describe("news", () => {
  const news = (id: string, login = "ada", more: object = {}) => ({
    _tag: "Comment" as const,
    id,
    repo: "ACME/Shop",
    number: 12,
    isPull: false,
    title: "Broken",
    body: "@slipway fix it",
    url: "https://github.com/acme/shop/issues/12",
    author: { id: "1", login, isBot: false },
    at: DateTime.makeUnsafe("2026-11-21T02:41:00Z"),
    ...more
  })

  it.effect("start the runs of those that listen, once, if their author may write", () =>
    Effect.gen(function*() {
      const by = yield* owner
      const { onNews } = yield* Automations
      const mention = yield* add(by, { trigger: { type: "mention" }, prompt: "{{comment.body}}" })
      const label = yield* add(by, { trigger: { type: "label", label: "slipway" } })
      const paused = yield* add(by, { trigger: { type: "mention" } })
      yield* (yield* Automations).pause(by.grantId, paused.id)
      yield* onNews(news("1", "eve"))
      yield* onNews(news("1", "ada", { author: { id: "1", login: "ada", isBot: true } }))
      yield* onNews(news("1", "ada", { body: "fix it" }))
      yield* onNews(news("1", "ada", { repo: "acme/other" }))
      assert.deepStrictEqual(yield* sandboxes(by), [])
      yield* Effect.forEach([1, 2, 3], () => onNews(news("1")), { concurrency: "unbounded" })
      const [sandbox, ...more] = yield* sandboxes(by)
      assert(sandbox !== undefined && more.length === 0)
      assert.include(sandbox.prompt, "<data name=\"comment.body\">@slipway fix it</data>")
      assert.lengthOf(yield* outcomes(mention), 1)
      assert.lengthOf(yield* outcomes(label), 0)
      assert.lengthOf(yield* outcomes(paused), 0)
      yield* onNews({ ...news("1"), _tag: "Labelled", label: "Slipway" })
      assert.lengthOf(yield* outcomes(label), 1)
    }).pipe(Effect.provide(layer)))
})
