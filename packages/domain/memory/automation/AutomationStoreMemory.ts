/** `AutomationStore` in memory: for tests and for embedding without a database. State dies with the layer. */
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Scheduler from "effect/Scheduler"
import { AuditLog } from "../../src/access/ports/AuditLog.ts"
import {
  type AutomationKey,
  AutomationNotFound,
  AutomationPaused,
  AutomationStore,
  type Begun,
  CLAIM_TIME,
  type TakenRun,
  told,
  TooManyAutomations,
  TooManyRuns
} from "../../src/automation/ports/AutomationStore.ts"
import {
  afterBoot,
  afterRun,
  type Automation,
  type Beginning,
  bootOf,
  dueRun,
  enabled,
  limitOf,
  MAX_AUTOMATIONS,
  MAX_SKIPPED,
  nextRun,
  type Progress,
  type Run,
  runId
} from "../../src/automation/rules/Automation.ts"
import { Ids } from "../../src/ids/Ids.ts"
import { rotated, type Secret } from "../../src/partner/rules/Webhook.ts"
import { SandboxStore } from "../../src/sandbox/ports/SandboxStore.ts"
import { isSettled } from "../../src/sandbox/rules/Sandbox.ts"
import * as AuditLogMemory from "../access/AuditLogMemory.ts"

interface Kept {
  automation: Automation
  secrets: ReadonlyArray<Secret>
}

interface KeptRun {
  run: Run
  readonly request: Beginning["request"]
  fence: number
  until: DateTime.Utc | null
  /** It started, and its sandbox boots as far as is known. */
  boots: boolean
}

/** The state of the layer. */
interface State {
  readonly audit: AuditLog["Service"]
  readonly ids: Ids["Service"]
  /** `null`: no sandbox is active. */
  readonly sandboxes: SandboxStore["Service"] | null
  readonly automations: Map<string, Kept>
  /** By id, oldest first. */
  readonly runs: Map<string, KeptRun>
  position: number
}

const keptIn = ({ automations }: State, { grantId, id }: AutomationKey) =>
  Effect.suspend(() => {
    const found = automations.get(id)
    return found?.automation.grantId === grantId ? Effect.succeed(found) : Effect.fail(new AutomationNotFound())
  })

const runsOf = ({ runs }: State, automationId: string) => Array.from(runs.values()).filter(({ run }) => run.automationId === automationId)

/** Runs whose sandbox is not settled, and those that are starting. */
const running = Effect.fnUntraced(function*(state: State, { grantId, id }: AutomationKey) {
  let count = 0
  for (const { run: { outcome } } of runsOf(state, id)) {
    if (outcome.type === "starting") count++
    if (outcome.type !== "started" || state.sandboxes === null) continue
    const found = yield* Effect.option(state.sandboxes.find({ grantId, id: outcome.sandboxId }))
    if (Option.isSome(found) && !isSettled(found.value.status)) count++
  }
  return count
})

/** Gives the run to the caller. */
const take = (state: State, kept: KeptRun, now: DateTime.Utc): TakenRun => {
  const { automation } = state.automations.get(kept.run.automationId)!
  const { createdBy, grantId, id, test } = automation
  kept.fence++
  kept.until = DateTime.addDuration(now, CLAIM_TIME)
  return { id: kept.run.id, automation: { id, grantId, createdBy, test }, at: kept.run.at, request: kept.request, fence: kept.fence }
}

const begin = Effect.fnUntraced(function*(state: State, { automation }: Kept, beginning: Beginning, force: boolean) {
  const { at, request, triggerId } = beginning
  const id = runId(state.ids, automation.id, triggerId)
  const known = state.runs.get(id)
  if (known !== undefined) return { run: known.run, taken: null }
  if (automation.paused !== null && !force) return yield* new AutomationPaused()
  const since = DateTime.subtract(at, { days: 1 })
  const recent = runsOf(state, automation.id).filter(({ run }) => DateTime.isGreaterThan(run.at, since))
  const skipped = recent.filter(({ run }) => run.outcome.type === "skipped").length
  const limit = limitOf(automation.settings, { running: yield* running(state, automation), today: recent.length - skipped })
  if (limit !== null && skipped >= MAX_SKIPPED) return yield* new TooManyRuns()
  const kept: KeptRun = {
    run: {
      id,
      automationId: automation.id,
      position: ++state.position,
      triggerId,
      at,
      outcome: limit === null ? { type: "starting" } : { type: "skipped", limit }
    },
    request,
    fence: 0,
    until: null,
    boots: false
  }
  state.runs.set(id, kept)
  return { run: kept.run, taken: limit === null ? take(state, kept, yield* DateTime.now) : null }
})

/** Changes the progress of an automation, and tells the audit log if that pauses it. */
const moveOn = Effect.fnUntraced(function*({ audit }: State, owner: Kept, progress: Progress, at: DateTime.Utc) {
  const isPaused = owner.automation.paused === null && progress.paused !== null
  owner.automation = { ...owner.automation, ...progress }
  if (isPaused) yield* audit.append([told("automation.paused", owner.automation, at, { reason: "failures" })])
})

type Managing = "change" | "create" | "enable" | "find" | "following" | "list" | "pause" | "remove" | "rotate" | "secretsOf"

/** The automations and their secrets. */
const managing = (state: State): Pick<AutomationStore["Service"], Managing> => {
  const { audit, automations, runs } = state
  const all = () => Array.from(automations.values(), ({ automation }) => automation)
  return {
    create: Effect.fnUntraced(function*(automation, secret) {
      if (all().filter(({ grantId }) => grantId === automation.grantId).length >= MAX_AUTOMATIONS) return yield* new TooManyAutomations()
      const made = { ...automation, ...enabled(automation, automation.createdAt) }
      automations.set(automation.id, { automation: made, secrets: secret === null ? [] : [{ value: secret, until: null }] })
      yield* audit.append([told("automation.created", automation, automation.createdAt)])
      return made
    }),
    list: (grantId) => Effect.sync(() => all().filter((automation) => automation.grantId === grantId)),
    find: (key) => Effect.map(keptIn(state, key), ({ automation }) => automation),
    change: Effect.fnUntraced(function*(key, settings, at) {
      const kept = yield* keptIn(state, key)
      kept.automation = { ...kept.automation, settings, dueAt: nextRun(settings.trigger, at) }
      yield* audit.append([told("automation.changed", key, at)])
      return kept.automation
    }),
    remove: Effect.fnUntraced(function*(key, at) {
      yield* keptIn(state, key)
      automations.delete(key.id)
      for (const { run } of runsOf(state, key.id)) runs.delete(run.id)
      yield* audit.append([told("automation.deleted", key, at)])
    }),
    rotate: Effect.fnUntraced(function*(key, secret, at) {
      const kept = yield* keptIn(state, key)
      kept.secrets = rotated(kept.secrets, secret, at)
      yield* audit.append([told("automation.secret_rotated", key, at)])
      return kept.automation
    }),
    enable: Effect.fnUntraced(function*(key, at) {
      const kept = yield* keptIn(state, key)
      if (kept.automation.paused === null) return kept.automation
      kept.automation = { ...kept.automation, ...enabled(kept.automation, at) }
      yield* audit.append([told("automation.enabled", key, at)])
      return kept.automation
    }),
    pause: Effect.fnUntraced(function*(key, at) {
      const kept = yield* keptIn(state, key)
      if (kept.automation.paused !== null) return kept.automation
      kept.automation = { ...kept.automation, paused: { at, reason: "paused" } }
      yield* audit.append([told("automation.paused", key, at, { reason: "paused" })])
      return kept.automation
    }),
    secretsOf: (id) =>
      Effect.suspend(() => {
        const kept = automations.get(id)
        return kept === undefined || kept.secrets.length === 0 ? Effect.fail(new AutomationNotFound()) : Effect.succeed(kept)
      }),
    following: (repo, limit) =>
      Effect.sync(() =>
        all().filter(({ paused, settings: { repos, trigger } }) =>
          paused === null && (trigger.type === "mention" || trigger.type === "label") &&
          repos.some(({ fullName }) => fullName.toLowerCase() === repo.toLowerCase())
        ).slice(0, limit)
      )
  }
}

/** The runs and their log. */
const starting = (state: State): Omit<AutomationStore["Service"], Managing> => {
  const { audit, automations, runs } = state
  return {
    begin: Effect.fnUntraced(function*(key, beginning, force) {
      return yield* begin(state, yield* keptIn(state, key), beginning, force)
    }, Effect.provideService(Scheduler.PreventSchedulerYield, true)),
    beginDue: Effect.fnUntraced(function*(now, limit) {
      const begun: Array<Begun> = []
      const due = Array.from(automations.values()).filter(({ automation }) => dueRun(automation, now) !== null)
        .toSorted((a, b) => DateTime.Order(a.automation.dueAt ?? now, b.automation.dueAt ?? now))
      for (const kept of due.slice(0, limit)) {
        const { beginning, next } = dueRun(kept.automation, now)!
        kept.automation = { ...kept.automation, dueAt: next }
        const run = yield* Effect.result(begin(state, kept, beginning, false))
        if (run._tag === "Success") begun.push(run.success)
      }
      return begun
      // No other fiber runs between the check and the take.
    }, Effect.provideService(Scheduler.PreventSchedulerYield, true)),
    take: Effect.fnUntraced(function*(limit) {
      const now = yield* DateTime.now
      return Array.from(runs.values())
        .filter(({ run, until }) => run.outcome.type === "starting" && (until === null || DateTime.isLessThanOrEqualTo(until, now)))
        .slice(0, limit).map((kept) => take(state, kept, now))
    }),
    record: Effect.fnUntraced(function*(taken, outcome, at) {
      const kept = runs.get(taken.id)
      const owner = automations.get(taken.automation.id)
      if (kept === undefined || owner === undefined || kept.fence !== taken.fence || kept.run.outcome.type !== "starting") return false
      kept.run = { ...kept.run, outcome }
      kept.boots = outcome.type === "started"
      if (outcome.type === "refused") {
        yield* audit.append([told("automation_run.refused", owner.automation, at, { runId: taken.id, reason: outcome.code })])
      }
      yield* moveOn(state, owner, afterRun(owner.automation, outcome, at), at)
      return true
    }),
    endBoots: Effect.fnUntraced(function*(at, limit) {
      let ended = 0
      for (const kept of runs.values()) {
        const { automationId, outcome } = kept.run
        const owner = automations.get(automationId)
        if (ended === limit || !kept.boots || outcome.type !== "started" || owner === undefined) continue
        const key = { grantId: owner.automation.grantId, id: outcome.sandboxId }
        const found = state.sandboxes === null ? Option.none() : yield* Effect.option(state.sandboxes.find(key))
        const boot = bootOf(Option.getOrNull(found))
        if (boot === null) continue
        kept.boots = false
        ended++
        yield* moveOn(state, owner, afterBoot(owner.automation, boot, at), at)
      }
      return ended
    }, Effect.provideService(Scheduler.PreventSchedulerYield, true)),
    runs: Effect.fnUntraced(function*(key, { before, limit }) {
      yield* keptIn(state, key)
      return runsOf(state, key.id).map(({ run }) => run).filter(({ position }) => before === null || position < before).toReversed()
        .slice(0, limit)
    }),
    purge: (before, limit) =>
      Effect.sync(() => {
        const old = Array.from(runs.values())
          .filter(({ run }) => run.outcome.type !== "starting" && DateTime.isLessThan(run.at, before)).slice(0, limit)
        for (const { run } of old) runs.delete(run.id)
        return old.length
      })
  }
}

/** Process-local, for tests and for embedding without a database. Asks the `SandboxStore` below it which sandboxes are active. */
export const layer = Layer.effect(
  AutomationStore,
  Effect.gen(function*() {
    const state: State = {
      audit: yield* AuditLog,
      ids: yield* Ids,
      sandboxes: Option.getOrNull(yield* Effect.serviceOption(SandboxStore)),
      automations: new Map(),
      runs: new Map(),
      position: 0
    }
    return AutomationStore.of({ ...managing(state), ...starting(state) })
  })
).pipe(Layer.provideMerge(AuditLogMemory.layer))
