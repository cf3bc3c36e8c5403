/**
 * Automations (docs/decisions/30) in a simulation: their store as one process has it, the person who keeps them, the sender of their
 * events, and the rules. They share nothing with the rules that begin runs: an event is told from another by the prompt of its sandbox.
 */
import type { AccessStore } from "@slipway/domain/access/ports/AccessStore"
import type { MemberStore } from "@slipway/domain/access/ports/MemberStore"
import type { Principal } from "@slipway/domain/access/schema/Principal"
import { AutomationStore, type Begun } from "@slipway/domain/automation/ports/AutomationStore"
import { type SignedRequest, WebhookSignatures } from "@slipway/domain/automation/ports/WebhookSignatures"
import type { Automation, Run } from "@slipway/domain/automation/rules/Automation"
import type { IssueNews } from "@slipway/domain/automation/rules/Event"
import { AutomationSettings } from "@slipway/domain/automation/schema/Automation"
import { Automations, type WithSecret } from "@slipway/domain/automation/usecases/Automations"
import type { Ids } from "@slipway/domain/ids/Ids"
import { ModelCatalogue } from "@slipway/domain/models/schema/ModelCatalogue"
import type { Sandboxes } from "@slipway/domain/sandbox/usecases/Sandboxes"
import { SourceHost } from "@slipway/domain/source/ports/SourceHost"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { StoreUnavailable } from "@slipway/domain/store/StoreUnavailable"
import * as Clock from "effect/Clock"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { STRANGER } from "../branches/Reviews.ts"
import type { Chance } from "../chance/Chance.ts"
import { Caller } from "../stores/Versions.ts"
import type { Faults, Possible } from "./Faults.ts"
import type { Servers } from "./Servers.ts"
import { atOnce, type Process, type Timeline } from "./Timeline.ts"
import type { Trace } from "./Trace.ts"
import type { Witness } from "./Witness.ts"

const SHOP = RepoName.make("acme/shop")
const MINUTE = 60_000
const DAY = 86_400_000
/** From a time of a schedule to its run, at most: two looks of a worker, and the start of one. */
const PROMPTLY = 20_000

const decodeSettings = Schema.decodeSync(AutomationSettings)

/** The store as one process has it: each call passes a fault. `clock`: the store's own. */
export const automationsOf = (
  process: Process,
  faults: Faults,
  clock: Clock.Clock,
  store: AutomationStore["Service"]
): AutomationStore["Service"] => {
  const call = <A, E>(name: string, self: Effect.Effect<A, E | StoreUnavailable>, more: Possible<E | StoreUnavailable> = {}) =>
    faults.call<A, E | StoreUnavailable>(
      process,
      `automations.${name}`,
      Effect.provideService(Effect.provideService(self, Clock.Clock, clock), Caller, process),
      { error: () => new StoreUnavailable({ cause: "cut" }), ...more }
    )
  return AutomationStore.of({
    ...store,
    create: (automation, secret) => call(`create ${automation.id}`, store.create(automation, secret)),
    secretsOf: (id) => call(`secretsOf ${id}`, store.secretsOf(id), { quiet: true }),
    begin: (key, beginning, force) => call(`begin ${beginning.triggerId}`, store.begin(key, beginning, force), { repeatable: true }),
    // Runs that were begun for a caller who does not learn of them are taken by another, once their claim is over.
    beginDue: (now, limit) => call("beginDue", store.beginDue(now, limit), { quiet: true, repeatable: true }),
    take: (limit) => call("take", store.take(limit), { quiet: true, repeatable: true }),
    record: (taken, outcome, at) => call(`record ${taken.id} ${outcome.type}`, store.record(taken, outcome, at), { repeatable: true }),
    endBoots: (at, limit) => call("endBoots", store.endBoots(at, limit), { quiet: true, repeatable: true }),
    pause: (key, at) => call(`pause ${key.id}`, store.pause(key, at), { repeatable: true }),
    enable: (key, at) => call(`enable ${key.id}`, store.enable(key, at), { repeatable: true }),
    purge: (before, limit) => call("purge", store.purge(before, limit), { quiet: true })
  })
}

/** Stands for the library of signatures. Only the secret's owner can make a signature. */
const signatureOf = ({ body, id, timestamp }: Omit<SignedRequest, "signature">, secret: Redacted.Redacted) =>
  `v1,${Redacted.value(secret)} ${id} ${timestamp} ${body}`
const signatures = WebhookSignatures.of({ matches: (request, secret) => request.signature === signatureOf(request, secret) })

/** The use cases over the ports of the process that this runs in. */
const here = <A, E>(
  use: (automations: Automations["Service"]) => Effect.Effect<A, E>
): Effect.Effect<A, E, AccessStore | Ids | MemberStore | Sandboxes> =>
  Effect.gen(function*() {
    const store = yield* Effect.serviceOption(AutomationStore)
    const catalogue = yield* ModelCatalogue
    const source = yield* Effect.serviceOption(SourceHost)
    if (Option.isNone(store) || Option.isNone(source)) return yield* Effect.die("this seed has no automations")
    return yield* Automations.use(use).pipe(
      Effect.provide(Automations.layer),
      Effect.provideService(AutomationStore, store.value),
      Effect.provideService(ModelCatalogue, catalogue),
      Effect.provideService(SourceHost, source.value),
      Effect.provideService(WebhookSignatures, signatures)
    )
  })

const ACTIVE: ReadonlyArray<string> = ["queued", "creating", "running", "terminating"]

/** Knows the automations of a seed, and which runs and sandboxes they may have. */
export class AutomationWitness {
  /** The store, watched, without faults. */
  readonly store: AutomationStore["Service"]
  readonly #settings = new Map<string, AutomationSettings>()
  /** The time of each schedule's last run; epoch milliseconds. */
  readonly #last = new Map<string, number>()
  /** Runs that a sender was told of, with the event and its automation. */
  readonly #acknowledged = new Map<string, { readonly event: string; readonly key: { readonly grantId: string; readonly id: string } }>()
  readonly #witness: Witness
  readonly #timeline: Timeline
  readonly #trace: Trace
  /** Whether the keeper has paused all automations. */
  isQuiet = false

  constructor(store: AutomationStore["Service"], witness: Witness, timeline: Timeline, trace: Trace) {
    this.#witness = witness
    this.#timeline = timeline
    this.#trace = trace
    const sees = (begun: ReadonlyArray<Begun>) => begun.forEach(({ run }) => this.#begins(run))
    this.store = AutomationStore.of({
      ...store,
      create: (automation, secret) =>
        Effect.tap(store.create(automation, secret), ({ id, settings }) => Effect.sync(() => this.#settings.set(id, settings))).pipe(
          atOnce
        ),
      beginDue: (now, limit) => Effect.tap(store.beginDue(now, limit), (begun) => Effect.sync(() => sees(begun))).pipe(atOnce),
      record: (taken, outcome, at) =>
        Effect.tap(store.record(taken, outcome, at), (isRecorded) =>
          Effect.sync(() => {
            this.#trace.count(isRecorded ? `runs of automations ${outcome.type}` : "runs of automations that another process ended")
          })).pipe(atOnce)
    })
  }

  /** Between two runs of a schedule there is one of its times: those that were missed make one run together. */
  #begins({ at, automationId, outcome: { type } }: Run): void {
    const settings = this.#settings.get(automationId)
    if (settings?.trigger.type !== "schedule") return
    if (type === "skipped") this.#trace.count("runs of automations skipped")
    const every = settings.trigger.cron === "* * * * *" ? MINUTE : DAY
    const [last, now] = [this.#last.get(automationId), at.epochMilliseconds]
    const isOnce = last === undefined || Math.floor(last / every) < Math.floor(now / every)
    this.#rule("the times of a schedule that were missed make one run", isOnce, `${automationId}: ${last} and ${now}`)
    this.#last.set(automationId, now)
  }

  /** A sender was told that its event has this run. */
  acknowledges(event: string, grantId: string, { automationId, id }: Run): void {
    const others = Array.from(this.#acknowledged).filter(([, known]) => known.event === event && known.key.id === automationId)
    this.#rule("an event has one run", others.every(([known]) => known === id), `${event}: ${id}`)
    this.#acknowledged.set(id, { event, key: { grantId, id: automationId } })
  }

  /** Called often: each run has one sandbox, and an automation has no more active ones than it may. */
  check(): void {
    const runs = new Map<string, number>()
    const active = new Map<string, number>()
    for (const [id, { creation, state }] of this.#witness.sandboxes) {
      const automationId = creation.metadata["automation_id"]
      if (automationId === undefined) continue
      const run = `${automationId} ${creation.prompt}`
      runs.set(run, (runs.get(run) ?? 0) + 1)
      this.#rule("a run starts one sandbox", runs.get(run) === 1, `${id} is the second of ${run}`)
      if (ACTIVE.includes(state.status)) active.set(automationId, (active.get(automationId) ?? 0) + 1)
    }
    for (const [id, count] of active) {
      const most = this.#settings.get(id)?.maxRunning ?? 0
      this.#rule("an automation has at most as many active sandboxes as it may", count <= most, `${id}: ${count} of ${most}`)
    }
  }

  /** The last run of the schedule; epoch milliseconds. */
  lastRun(id: string): number {
    return this.#last.get(id) ?? 0
  }

  /** The work of automations that is not over, as a sentence; `null`: none. */
  unsettled(): string | null {
    if (!this.isQuiet) return "automations are not paused yet"
    const left = this.#runs.find(({ outcome }) => outcome.type === "starting")
    return left === undefined ? null : `the run ${left.id} of an automation has not started`
  }

  get #runs(): ReadonlyArray<Run> {
    return Array.from(new Map(Array.from(this.#acknowledged.values(), ({ key }) => [key.id, key])).values()).flatMap((key) =>
      this.#timeline.run(Caller.context(null), Effect.orDie(this.store.runs(key, { before: null, limit: 10_000 })))
    )
  }

  /** Acknowledged events are in the log of runs, and each started run has its sandbox. */
  end(): void {
    this.check()
    const runs = this.#runs
    for (const [id, { event }] of this.#acknowledged) {
      this.#rule("an acknowledged event is in the log of runs", runs.some((run) => run.id === id), event)
    }
    for (const { id, outcome } of runs) {
      if (outcome.type !== "started") continue
      this.#trace.count("events of automations with a sandbox")
      this.#rule("a started run has its sandbox", this.#witness.sandboxes.has(outcome.sandboxId), `${id}: ${outcome.sandboxId}`)
    }
  }

  #rule(rule: string, holds: boolean, detail: string): void {
    if (!holds) this.#trace.breaks(rule, detail)
  }
}

/** The parts of a simulation that automations need. */
export interface Around {
  readonly automations: AutomationWitness
  readonly chance: Chance
  readonly servers: Servers
  readonly trace: Trace
  readonly timeline: Timeline
  readonly grantId: string
  readonly active: () => boolean
  /** Whether the grant is not revoked, nor about to be. */
  readonly isGood: () => boolean
}

const principalOf = (grantId: string): Principal => ({
  credential: { _tag: "Key", keyId: "keeper of automations" },
  grantId,
  organizationId: "",
  userId: "",
  scopes: new Set(["sandboxes"]),
  test: false
})

/** Asks until there is an answer, or the grant is gone: then `null`. */
const askerOf = ({ chance, grantId, isGood, servers }: Around) => {
  const by = principalOf(grantId)
  const ask = <A, E extends { readonly _tag: string }>(
    name: string,
    use: (automations: Automations["Service"], own: Principal) => Effect.Effect<A, E>
  ): Effect.Effect<A | null, E | StoreUnavailable> =>
    Effect.suspend(() =>
      isGood()
        ? Effect.map(
          Effect.timeoutOption(servers.ask(by, name, (own) => here((automations) => use(automations, own))), "20 seconds"),
          Option.getOrNull
        )
        : Effect.succeed(null)
    ).pipe(
      Effect.catchIf(
        (error) => error._tag === "StoreUnavailable",
        () => Effect.andThen(Effect.suspend(() => Effect.sleep(chance.between(1, 1000))), ask(name, use))
      )
    )
  return ask
}

/** Makes automations, sends events, each once or more often, and pauses all automations in the end. */
export const keeper = Effect.fnUntraced(function*(around: Around) {
  const { active, automations, chance, grantId, timeline, trace } = around
  const ask = askerOf(around)
  const make = (name: string, trigger: AutomationSettings["trigger"], prompt: string) =>
    Effect.map(
      ask(`make automation ${name}`, (automations, own) =>
        automations.create(
          own,
          decodeSettings({
            name,
            trigger,
            prompt,
            repos: [{ fullName: "acme/shop" }],
            toolApprovalMode: "auto",
            maxRunning: chance.pick([1, 3])
          })
        )),
      (made) => {
        if (made !== null) trace.count("automations")
        return made
      }
    )
  const webhook = yield* make("on request", { type: "webhook" }, "[[say request {{payload.n}}]]")
  const schedule = yield* make("every minute", { type: "schedule", cron: "* * * * *", timeZone: "UTC" }, "[[say at {{run.time}}]]")
  const mention = yield* make("on mention", { type: "mention" }, "[[say comment {{comment.body}}]]")
  const label = yield* make("on label", { type: "label", label: "slipway" }, "[[say labelled {{issue.number}}]]")
  yield* Effect.all([
    ...webhook === null ? [] : [sender(around, webhook)],
    ...mention === null || label === null ? [] : [poster(around, { Comment: mention.automation, Labelled: label.automation })]
  ], { concurrency: "unbounded", discard: true })
  while (active()) yield* Effect.sleep(500)
  if (schedule !== null && around.isGood()) {
    // The workers run, so the next time of the schedule has its run soon.
    const next = Math.ceil(timeline.now / MINUTE) * MINUTE
    yield* Effect.sleep(next - timeline.now + PROMPTLY)
    const { id } = schedule.automation
    const isPromptly = automations.lastRun(id) >= next || !around.isGood() || !(yield* isEnabled(automations, grantId, id))
    if (!isPromptly) trace.breaks("a schedule runs at its time", `${id}: not since ${automations.lastRun(id)}, due at ${next}`)
  }
  yield* pauseAll(automations, grantId)
  automations.isQuiet = true
})

const isEnabled = ({ store }: AutomationWitness, grantId: string, id: string) =>
  Effect.map(Effect.orDie(store.find({ grantId, id: id as Run["id"] })), ({ paused }) => paused === null)

/** The operator's way, without faults: also those are paused whose maker was not told of them. */
const pauseAll = Effect.fnUntraced(function*({ store }: AutomationWitness, grantId: string) {
  const now = yield* DateTime.now
  for (const { id } of yield* Effect.orDie(store.list(grantId))) yield* Effect.orDie(store.pause({ grantId, id }, now))
})

/** Sends events while people are active. */
const sender = Effect.fnUntraced(function*(around: Around, { automation, secret }: WithSecret) {
  const { active, automations, chance, grantId, isGood, trace } = around
  const ask = askerOf(around)
  const send = Effect.fnUntraced(function*(n: number) {
    const sent = { id: `event-${n}`, timestamp: String(Math.floor((yield* DateTime.now).epochMilliseconds / 1000)), body: `{"n":${n}}` }
    const request = { ...sent, signature: secret === null ? "" : signatureOf(sent, secret) }
    const run = yield* ask(`trigger ${sent.id}`, (automations) => automations.trigger(automation.id, request)).pipe(
      Effect.catchTag("AutomationPaused", () => Effect.succeed(null)),
      Effect.catch(({ _tag }) => {
        trace.breaks("a signed event is accepted", `${sent.id}: ${_tag}`)
        return Effect.succeed(null)
      })
    )
    if (run === null) return
    automations.acknowledges(sent.id, grantId, run)
    automations.check()
  })
  for (let n = 1; active() && isGood(); n++) {
    yield* Effect.sleep(chance.between(1, 9_000))
    const times = Array.from({ length: chance.pick([1, 1, 2, 3]) }, () => send(n))
    if (times.length > 1) trace.count("events that were sent again")
    yield* Effect.all(times, { concurrency: chance.pick([1, 3]), discard: true })
  }
})

/** Tells of comments and labels while people are active, each once or more often, also of those of strangers and programs. */
const poster = Effect.fnUntraced(function*(around: Around, made: Readonly<Record<IssueNews["_tag"], Automation>>) {
  const { active, automations, chance, grantId, isGood, trace } = around
  const ask = askerOf(around)
  /** Whether it was taken. As a poll does, it comes again after a failure of the source host. */
  const tell = (news: IssueNews): Effect.Effect<boolean> =>
    ask(`news ${news.id}`, (automations) => Effect.as(automations.onNews(news), true)).pipe(
      Effect.map((taken) => taken === true),
      Effect.catchTag("SourceHostError", () => Effect.andThen(Effect.suspend(() => Effect.sleep(chance.between(1, 1000))), tell(news))),
      Effect.catch(({ _tag }) => {
        trace.breaks("news of a repository are taken", `${news.id}: ${_tag}`)
        return Effect.succeed(false)
      })
    )
  for (let n = 1; active() && isGood(); n++) {
    yield* Effect.sleep(chance.between(1, 20_000))
    const [login, tag] = [chance.pick(["ada", "ada", STRANGER, "robot"]), chance.pick(["Comment", "Labelled"] as const)]
    const said = {
      id: `news-${n}`,
      repo: SHOP,
      number: n,
      isPull: false,
      title: `Issue ${n}`,
      body: `@slipway fix ${n}`,
      url: `https://host.test/acme/shop/issues/${n}`,
      author: { id: login, login, isBot: login === "robot" },
      at: yield* DateTime.now
    }
    const news: IssueNews = tag === "Comment" ? { _tag: tag, ...said } : { _tag: tag, ...said, label: "Slipway" }
    const { id } = made[tag]
    const wasEnabled = yield* isEnabled(automations, grantId, id)
    const times = Array.from({ length: chance.pick([1, 1, 2, 3]) }, () => tell(news))
    const taken = yield* Effect.all(times, { concurrency: chance.pick([1, 3]) })
    const log = yield* Effect.orDie(automations.store.runs({ grantId, id }, { before: null, limit: 10_000 }))
    const runs = log.filter(({ triggerId }) => triggerId.endsWith(`/${said.id}`))
    if (login !== "ada") {
      trace.count("news of strangers and programs")
      if (runs.length > 0) trace.breaks("news of strangers and programs start nothing", `${said.id} of ${login}`)
      continue
    }
    const isTold = taken.every(Boolean) && wasEnabled && isGood() && (yield* isEnabled(automations, grantId, id))
    if (isTold && runs.length !== 1) trace.breaks("news of a person who may write have one run", `${said.id}: ${runs.length}`)
    for (const run of runs) {
      trace.count("news with a run")
      automations.acknowledges(said.id, grantId, run)
    }
    automations.check()
  }
})

/** Enables a daily schedule, whose times are then missed for weeks. Answers its id; `null`: the grant is gone. */
export const daily = Effect.fnUntraced(function*(around: Around) {
  const settings = decodeSettings({
    name: "every day",
    trigger: { type: "schedule", cron: "0 3 * * *", timeZone: "UTC" },
    prompt: "[[say at {{run.time}}]]",
    repos: [{ fullName: "acme/shop" }],
    toolApprovalMode: "auto"
  })
  const made = yield* askerOf(around)("make automation every day", (automations, own) => automations.create(own, settings))
  return made?.automation.id ?? null
})

/** Pauses the automation that {@link daily} made. It ran once after weeks in which no process looked. */
export const ranOnce = Effect.fnUntraced(function*({ automations, grantId, trace }: Around, id: string, since: number) {
  yield* pauseAll(automations, grantId)
  const runs = yield* Effect.orDie(automations.store.runs({ grantId, id: id as Run["id"] }, { before: null, limit: 100 }))
  trace.count("schedules that were missed for weeks")
  const late = runs.filter(({ at }) => at.epochMilliseconds >= since)
  if (late.length !== 1) trace.breaks("the times of a schedule that were missed make one run", `${id}: ${late.length} runs after weeks`)
})
