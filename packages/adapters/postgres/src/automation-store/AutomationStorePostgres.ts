/** `AutomationStore` on Postgres. */
import { AuditLog } from "@slipway/domain/access/ports/AuditLog"
import {
  type AutomationKey,
  AutomationNotFound,
  AutomationPaused,
  AutomationStore,
  type Begun,
  type TakenRun,
  told,
  TooManyAutomations,
  TooManyRuns
} from "@slipway/domain/automation/ports/AutomationStore"
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
  runId
} from "@slipway/domain/automation/rules/Automation"
import type { AutomationSettings, Outcome } from "@slipway/domain/automation/schema/Automation"
import { Ids } from "@slipway/domain/ids/Ids"
import { rotated } from "@slipway/domain/partner/rules/Webhook"
import { DateTime, Effect, Layer, Option, type Redacted } from "effect"
import { SqlClient } from "effect/sql"
import * as AuditLogPostgres from "../audit-log/AuditLogPostgres.ts"
import { type Key, SecretsKey } from "../secret-store/SecretsKey.ts"
import { guard } from "../sql/SqlFailure.ts"
import { inTransaction } from "../sql/Transaction.ts"
import { decodeSecrets, openable, secretsText } from "../webhook-store/rows/Secrets.ts"
import { automationOf, columnsOf, readableAutomation, toRun, toTaken } from "./AutomationRows.ts"
import * as Statements from "./statements.ts"

interface Store {
  readonly sql: SqlClient.SqlClient
  readonly audit: AuditLog["Service"]
  readonly ids: Ids["Service"]
  /** Dies when the key cannot be used: the operator is told at the start. */
  readonly key: Effect.Effect<Key>
}

const automations = <E, R>(rows: Effect.Effect<ReadonlyArray<unknown>, E, R>) =>
  Effect.flatMap(rows, (found) => Effect.forEach(found, automationOf))

const create = Effect.fn("AutomationStore.create")(
  function*(
    { audit, key, sql }: Store,
    automation: Omit<Automation, "failures" | "paused" | "dueAt">,
    secret: Redacted.Redacted | null
  ) {
    const { createdAt, grantId, id } = automation
    yield* Statements.lockGrant(sql, grantId)
    if ((yield* Statements.selectOfGrant(sql, grantId)).length >= MAX_AUTOMATIONS) return yield* new TooManyAutomations()
    const made: Automation = { ...automation, ...enabled(automation, createdAt) }
    yield* Statements.insertAutomation(
      sql,
      made,
      secret === null ? null : secretsText([{ value: secret, until: null }], id, yield* key)
    )
    yield* audit.append([told("automation.created", automation, createdAt)])
    return made
  },
  inTransaction
)

const change = Effect.fn("AutomationStore.change")(
  function*({ audit, sql }: Store, key: AutomationKey, settings: AutomationSettings, at: DateTime.Utc) {
    const automation = yield* Statements.findLocked(sql, key)
    const dueAt = nextRun(settings.trigger, at)
    yield* Statements.updateSettings(sql, key.id, settings, dueAt)
    yield* audit.append([told("automation.changed", key, at)])
    return { ...automation, settings, dueAt }
  },
  inTransaction
)

const remove = Effect.fn("AutomationStore.remove")(
  function*({ audit, sql }: Store, key: AutomationKey, at: DateTime.Utc) {
    yield* Statements.findLocked(sql, key)
    yield* Statements.deleteAutomation(sql, key.id)
    yield* audit.append([told("automation.deleted", key, at)])
  },
  inTransaction
)

/** A stored secret that no key opens is worthless: rotating replaces it. */
const rotate = Effect.fn("AutomationStore.rotate")(
  function*({ audit, key, sql }: Store, of: AutomationKey, secret: Redacted.Redacted, at: DateTime.Utc) {
    const automation = yield* Statements.findLocked(sql, of)
    const [known] = yield* Statements.selectSecrets(sql, of.id)
    const sealing = yield* key
    const stored = Option.getOrElse(decodeSecrets(known?.secrets), () => [])
    yield* Statements.updateSecrets(sql, of.id, secretsText(rotated(openable(stored, of.id, sealing), secret, at), of.id, sealing))
    yield* audit.append([told("automation.secret_rotated", of, at)])
    return automation
  },
  inTransaction
)

const enable = Effect.fn("AutomationStore.enable")(
  function*({ audit, sql }: Store, key: AutomationKey, at: DateTime.Utc) {
    const automation = yield* Statements.findLocked(sql, key)
    if (automation.paused === null) return automation
    const again = { ...automation, ...enabled(automation, at) }
    yield* Statements.updateProgress(sql, key.id, again)
    yield* Statements.updateDue(sql, key.id, again.dueAt)
    yield* audit.append([told("automation.enabled", key, at)])
    return again
  },
  inTransaction
)

const pause = Effect.fn("AutomationStore.pause")(
  function*({ audit, sql }: Store, key: AutomationKey, at: DateTime.Utc) {
    const automation = yield* Statements.findLocked(sql, key)
    if (automation.paused !== null) return automation
    const paused: Automation = { ...automation, paused: { at, reason: "paused" } }
    yield* Statements.updateProgress(sql, key.id, paused)
    yield* audit.append([told("automation.paused", key, at, { reason: "paused" })])
    return paused
  },
  inTransaction
)

const secretsOf = Effect.fn("AutomationStore.secretsOf")(function*({ key, sql }: Store, id: string) {
  const [row] = yield* Statements.selectSecrets(sql, id)
  if (row === undefined) return yield* new AutomationNotFound()
  const stored = Option.getOrElse(decodeSecrets(row.secrets), () => [])
  return { automation: yield* automationOf(row), secrets: openable(stored, id, yield* key) }
}, guard)

/** Begins a run of an automation that is locked. */
const beginLocked = Effect.fnUntraced(function*({ ids, sql }: Store, automation: Automation, beginning: Beginning, force: boolean) {
  const { createdBy, grantId, id: automationId, paused, settings, test } = automation
  const id = runId(ids, automationId, beginning.triggerId)
  const [known] = yield* Statements.selectRun(sql, id)
  if (known !== undefined) return { run: toRun(known), taken: null }
  if (paused !== null && !force) return yield* new AutomationPaused()
  const [counts = { running: 0, skipped: 0, today: 0 }] = yield* Statements.countRuns(sql, automationId, beginning.at)
  const limit = limitOf(settings, counts)
  if (limit !== null && counts.skipped >= MAX_SKIPPED) return yield* new TooManyRuns()
  const [row] = yield* Statements.insertRun(sql, { id, automationId }, beginning, limit)
  if (row === undefined) return yield* Effect.die("a row was inserted and not returned")
  const taken: TakenRun = {
    id,
    automation: { id: automationId, grantId, createdBy, test },
    at: beginning.at,
    request: beginning.request,
    fence: 1
  }
  return { run: toRun(row), taken: limit === null ? taken : null }
})

const begin = Effect.fn("AutomationStore.begin")(
  function*(store: Store, key: AutomationKey, beginning: Beginning, force: boolean) {
    return yield* beginLocked(store, yield* Statements.findLocked(store.sql, key), beginning, force)
  },
  inTransaction
)

const beginDue = Effect.fn("AutomationStore.beginDue")(
  function*(store: Store, now: DateTime.Utc, limit: number) {
    const { sql } = store
    const begun: Array<Begun> = []
    for (const row of yield* Statements.selectDue(sql, now, limit)) {
      const automation = readableAutomation(row)
      if (Option.isNone(automation)) {
        // Written by a newer version. It must not keep others from their turn.
        yield* Effect.logError("the settings of an automation cannot be read").pipe(Effect.annotateLogs({ automationId: row.id }))
        yield* Statements.updateDue(sql, row.id, DateTime.add(now, { hours: 1 }))
        continue
      }
      const due = dueRun(automation.value, now)
      if (due === null) continue
      yield* Statements.updateDue(sql, row.id, due.next)
      const run = yield* Effect.catchTags(beginLocked(store, automation.value, due.beginning, false), {
        AutomationPaused: Effect.die,
        TooManyRuns: () => Effect.succeed(null)
      })
      if (run !== null) begun.push(run)
    }
    return begun
  },
  inTransaction
)

/** Changes the progress of a locked automation, and tells the audit log if that pauses it. */
const moveOn = Effect.fnUntraced(function*({ audit, sql }: Store, automation: Automation, progress: Progress, at: DateTime.Utc) {
  yield* Statements.updateProgress(sql, automation.id, progress)
  if (automation.paused === null && progress.paused !== null) {
    yield* audit.append([told("automation.paused", automation, at, { reason: "failures" })])
  }
})

const record = Effect.fn("AutomationStore.record")(
  function*(
    store: Store,
    taken: TakenRun,
    outcome: Exclude<Outcome, { readonly type: "starting" | "skipped" }>,
    at: DateTime.Utc
  ) {
    const { audit, sql } = store
    const found = yield* Effect.catchTag(
      Statements.findLocked(sql, taken.automation),
      "AutomationNotFound",
      () => Effect.succeed(null)
    )
    if (found === null) return false
    if ((yield* Statements.endRun(sql, taken, outcome.type, columnsOf(outcome))).length === 0) return false
    if (outcome.type === "refused") {
      yield* audit.append([told("automation_run.refused", taken.automation, at, { runId: taken.id, reason: outcome.code })])
    }
    yield* moveOn(store, found, afterRun(found, outcome, at), at)
    return true
  },
  inTransaction
)

const endBoots = Effect.fn("AutomationStore.endBoots")(
  function*(store: Store, at: DateTime.Utc, limit: number) {
    const ended = yield* Statements.takeBoots(store.sql, limit)
    // In the order of their ids, as every transaction that locks several automations.
    for (const row of ended.toSorted((a, b) => a.id < b.id ? -1 : a.id > b.id ? 1 : 0)) {
      const boot = bootOf(row.status === null ? null : { status: row.status, startedAt: row.startedAt })
      if (boot === null || boot === "none") continue
      const found = yield* Effect.catchTag(Statements.findLocked(store.sql, row), "AutomationNotFound", () => Effect.succeed(null))
      if (found !== null) yield* moveOn(store, found, afterBoot(found, boot, at), at)
    }
    return ended.length
  },
  inTransaction
)

const runs = Effect.fn("AutomationStore.runs")(
  function*({ sql }: Store, key: AutomationKey, { before, limit }: { readonly before: number | null; readonly limit: number }) {
    yield* Statements.find(sql, key)
    return (yield* Statements.selectRuns(sql, key.id, before, limit)).map(toRun)
  },
  guard
)

export const layer = Layer.effect(
  AutomationStore,
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const store: Store = {
      sql,
      audit: yield* AuditLog,
      ids: yield* Ids,
      key: Effect.catchTag((yield* SecretsKey).get, "SecretsKeyUnusable", Effect.die)
    }
    return AutomationStore.of({
      create: (automation, secret) => create(store, automation, secret),
      list: Effect.fn("AutomationStore.list")((grantId: string) => automations(Statements.selectOfGrant(sql, grantId)), guard),
      find: Effect.fn("AutomationStore.find")((key: AutomationKey) => Statements.find(sql, key), guard),
      change: (key, settings, at) => change(store, key, settings, at),
      remove: (key, at) => remove(store, key, at),
      rotate: (key, secret, at) => rotate(store, key, secret, at),
      enable: (key, at) => enable(store, key, at),
      pause: (key, at) => pause(store, key, at),
      secretsOf: (id) => secretsOf(store, id),
      following: Effect.fn("AutomationStore.following")(
        (repo: string, limit: number) => automations(Statements.selectFollowing(sql, repo, limit)),
        guard
      ),
      begin: (key, beginning, force) => begin(store, key, beginning, force),
      beginDue: (now, limit) => beginDue(store, now, limit),
      take: Effect.fn("AutomationStore.take")(function*(limit: number) {
        return (yield* Statements.takeRuns(sql, limit)).map(toTaken)
      }, guard),
      record: (taken, outcome, at) => record(store, taken, outcome, at),
      endBoots: (at, limit) => endBoots(store, at, limit),
      runs: (key, page) => runs(store, key, page),
      purge: Effect.fn("AutomationStore.purge")(function*(before: DateTime.Utc, limit: number) {
        return (yield* Statements.purgeRuns(sql, before, limit)).length
      }, guard)
    })
  })
).pipe(Layer.provideMerge(AuditLogPostgres.layer))
