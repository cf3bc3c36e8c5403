/**
 * Automations create sandboxes when their trigger fires (docs/decisions/30). Pure: when a schedule is due, which limits hold, and what a
 * run's outcome changes.
 */
import * as Cron from "effect/Cron"
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import type { Ids, Uuid } from "../../ids/Ids.ts"
import { isSettled, type Sandbox } from "../../sandbox/rules/Sandbox.ts"
import { IdempotencyKey } from "../../sandbox/schema/Idempotency.ts"
import type { CreateSandbox } from "../../sandbox/usecases/CreateSandbox.ts"
import * as Instant from "../../time/Instant.ts"
import type { AutomationSettings, Outcome, PauseReason, Trigger } from "../schema/Automation.ts"
import { parseSchedule } from "../schema/Schedule.ts"
import { requestOf } from "./Prompt.ts"

/** Automations of a grant (our choice: each worker looks at all that are due). */
export const MAX_AUTOMATIONS = 50

/** Runs in a row that could not start, or whose sandbox could not, after which an automation is paused (docs/decisions/30). */
export const PAUSED_AFTER = 5

/** How long runs are kept in the log (our choice). A repeated event starts no second run for that time. */
export const RUN_RETENTION = Duration.days(30)

/** Skipped runs of an automation in 24 hours. Further events are refused and not recorded, so that they cannot fill the log. */
export const MAX_SKIPPED = 1000

/** How long a run may be `starting`. Then it is refused. */
export const STARTING_TIME = Duration.minutes(10)

/** The part of an automation that its runs change. */
export interface Progress {
  /** Runs in a row that could not start. */
  readonly failures: number
  /** `null`: it starts runs. */
  readonly paused: { readonly at: DateTime.Utc; readonly reason: PauseReason } | null
}

/** An automation of a grant. */
export interface Automation extends Progress {
  readonly id: Uuid
  readonly grantId: string
  /** The user whose sandboxes its runs are. */
  readonly createdBy: string
  /** Made with a `sbx_test_` key: it can use only models that need no account. */
  readonly test: boolean
  readonly createdAt: DateTime.Utc
  readonly settings: AutomationSettings
  /** The next time of a schedule, also while it is paused; `null`: another trigger. */
  readonly dueAt: DateTime.Utc | null
}

/** A run in the log. */
export interface Run {
  /** UUIDv5 of automation and trigger: a repeated event has the same run. */
  readonly id: Uuid
  readonly automationId: Uuid
  /** Greater than the positions of earlier runs. */
  readonly position: number
  readonly triggerId: string
  readonly at: DateTime.Utc
  readonly outcome: Outcome
}

/** The first time of the schedule after `after`; `null`: another trigger. A time in a gap of the clock counts once, after the gap; a
 * repeated time counts once, at its first occurrence. */
export const nextRun = (trigger: Trigger, after: DateTime.Utc): DateTime.Utc | null => {
  if (trigger.type !== "schedule") return null
  const cron = parseSchedule(trigger.cron, trigger.timeZone)
  // A zone that this machine's data lack: not due until it is changed.
  if (cron === null) return null
  const next = Result.try(() => Cron.next(cron, DateTime.toDate(after)))
  return Result.isSuccess(next) ? Option.getOrNull(DateTime.make(next.success)) : null
}

/** A run that is to begin. */
export interface Beginning {
  readonly triggerId: string
  readonly at: DateTime.Utc
  readonly request: CreateSandbox
}

/**
 * The run of a schedule that is due, and the time of the next one. Times that were missed make one run together. `null`: not due, or
 * paused.
 */
export const dueRun = (
  { dueAt, id, paused, settings }: Pick<Automation, "dueAt" | "id" | "paused" | "settings">,
  now: DateTime.Utc
): { readonly beginning: Beginning; readonly next: DateTime.Utc | null } | null => {
  if (dueAt === null || paused !== null || Instant.isGreaterThan(dueAt, now)) return null
  const triggerId = `schedule/${DateTime.formatIso(dueAt)}`
  const facts = { triggerId, at: now, repo: null, values: {}, payload: null }
  return {
    beginning: { triggerId, at: now, request: requestOf(id, settings, facts, DateTime.formatIso(now)) },
    next: nextRun(settings.trigger, now)
  }
}

/** The limit that keeps a run from starting; `null`: none. `today`: runs of the last 24 hours that were not skipped. */
export const limitOf = (
  { maxPerDay, maxRunning }: Pick<AutomationSettings, "maxPerDay" | "maxRunning">,
  { running, today }: { readonly running: number; readonly today: number }
): "running" | "day" | null => today >= maxPerDay ? "day" : running >= maxRunning ? "running" : null

const afterFailure = ({ failures, paused }: Progress, at: DateTime.Utc): Progress => ({
  failures: failures + 1,
  paused: paused ?? (failures + 1 >= PAUSED_AFTER ? { at, reason: "failures" } : null)
})

/** The progress after a run. Skipped runs change nothing; the boot of a started run's sandbox does, see {@link afterBoot}. */
export const afterRun = (progress: Progress, outcome: Outcome, at: DateTime.Utc): Progress =>
  outcome.type === "refused" ? afterFailure(progress, at) : progress

/** The end of the boot of a run's sandbox; `null`: it boots. `none`: it ended before, and not by itself, or it is deleted. */
export const bootOf = (sandbox: Pick<Sandbox, "startedAt" | "status"> | null): "booted" | "failed" | "none" | null => {
  if (sandbox === null) return "none"
  if (sandbox.startedAt !== null) return "booted"
  return sandbox.status === "failed" ? "failed" : isSettled(sandbox.status) ? "none" : null
}

/** The progress after the boot of a run's sandbox. A run that started before the automation was paused does not enable it. */
export const afterBoot = (progress: Progress, boot: "booted" | "failed" | "none", at: DateTime.Utc): Progress =>
  boot === "failed" ? afterFailure(progress, at) : boot === "booted" ? { ...progress, failures: 0 } : progress

/** Whether a person may enable it: it starts with all attempts, and a schedule with its next time. */
export const enabled = ({ settings }: Pick<Automation, "settings">, at: DateTime.Utc): Progress & Pick<Automation, "dueAt"> => ({
  failures: 0,
  paused: null,
  dueAt: nextRun(settings.trigger, at)
})

/** The id of the run of an event. */
export const runId = (ids: Pick<Ids["Service"], "derive">, automationId: Uuid, triggerId: string): Uuid =>
  ids.derive(`automation/${automationId}/${triggerId}`)

/** The key under which a run creates its sandbox, so that two processes that create it make one. */
export const creationKey = (run: Uuid): IdempotencyKey => IdempotencyKey.make(`automation/${run}`)
