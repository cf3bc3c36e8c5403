/** Port: automations, the secrets of their webhooks, and the log of their runs. Checked by `AutomationStoreContract`. */
import * as Context from "effect/Context"
import type * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import type * as Effect from "effect/Effect"
import type * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import type { Action, SecurityEvent } from "../../access/ports/AuditLog.ts"
import type { Uuid } from "../../ids/Ids.ts"
import type { Secret } from "../../partner/rules/Webhook.ts"
import type { RepoName } from "../../source/schema/RepoRef.ts"
import type { StoreUnavailable } from "../../store/StoreUnavailable.ts"
import { type Automation, type Beginning, MAX_AUTOMATIONS, MAX_SKIPPED, type Run } from "../rules/Automation.ts"
import type { AutomationSettings, Outcome } from "../schema/Automation.ts"

/** The grant has no automation with this id. An automation of another grant gives the same error. */
export class AutomationNotFound extends Schema.TaggedError<AutomationNotFound>()("AutomationNotFound", {}) {
  override get message() {
    return "There is no such automation."
  }
}

/** The grant is at its limit of automations. Deleting one helps. */
export class TooManyAutomations extends Schema.TaggedError<TooManyAutomations>()("TooManyAutomations", {}) {
  override get message() {
    return `A grant may have ${MAX_AUTOMATIONS} automations.`
  }
}

/** The automation starts no runs. Enabling it helps. */
export class AutomationPaused extends Schema.TaggedError<AutomationPaused>()("AutomationPaused", {}) {
  override get message() {
    return "The automation is paused. Enable it first."
  }
}

/** The automation skipped too many runs of late, so this one is not recorded. A retry on another day helps. */
export class TooManyRuns extends Schema.TaggedError<TooManyRuns>()("TooManyRuns", {}) {
  override get message() {
    return `The automation skipped ${MAX_SKIPPED} runs in 24 hours at its limits. Send fewer events, or raise its limits.`
  }
}

/** The name of an automation in its grant. */
export interface AutomationKey {
  readonly grantId: string
  readonly id: Uuid
}

/** A caller's right to start a run, for {@link CLAIM_TIME}. */
export interface TakenRun {
  readonly id: Uuid
  readonly automation: Pick<Automation, "id" | "grantId" | "createdBy" | "test">
  /** The beginning of the run. */
  readonly at: DateTime.Utc
  /** As it was when the run began, so that a repeated creation is the same one. */
  readonly request: Beginning["request"]
  /** Grows with each take. A record with an old fence changes nothing. */
  readonly fence: number
}

/** Longer than any creation. A run whose process died is started by another one after this time. */
export const CLAIM_TIME = Duration.minutes(1)

/** A run that an event has. */
export interface Begun {
  readonly run: Run
  /** `null`: an equal event has this run already, or it is skipped. */
  readonly taken: TakenRun | null
}

/** The security event for a change of an automation. */
export const told = (
  action: Action,
  { grantId, id }: AutomationKey,
  at: DateTime.Utc,
  more: Readonly<Record<string, string>> = {}
): SecurityEvent => ({ action, at, subjects: { automationId: id, grantId, ...more } })

/**
 * Checked by `AutomationStoreContract`. Each call is one transaction. A run begins as `starting` with the caller's claim, or is skipped
 * at a limit; `record` ends it. Changes of automations and refused runs are in the audit log. The store's clock ends claims.
 */
export class AutomationStore extends Context.Service<AutomationStore, {
  /** `secret`: of a webhook. */
  create(
    automation: Omit<Automation, "failures" | "paused" | "dueAt">,
    secret: Redacted.Redacted | null
  ): Effect.Effect<Automation, TooManyAutomations | StoreUnavailable>
  /** Oldest first. */
  list(grantId: string): Effect.Effect<ReadonlyArray<Automation>, StoreUnavailable>
  find(key: AutomationKey): Effect.Effect<Automation, AutomationNotFound | StoreUnavailable>
  /** Replaces the settings; the kind of the trigger stays. A schedule goes on with its next time after `at`. */
  change(key: AutomationKey, settings: AutomationSettings, at: DateTime.Utc): Effect.Effect<
    Automation,
    AutomationNotFound | StoreUnavailable
  >
  /** Removes the automation and its log. Its sandboxes stay. */
  remove(key: AutomationKey, at: DateTime.Utc): Effect.Effect<void, AutomationNotFound | StoreUnavailable>
  /** Replaces the secret of a webhook. Earlier secrets are valid for a time, see `rotated`. */
  rotate(key: AutomationKey, secret: Redacted.Redacted, at: DateTime.Utc): Effect.Effect<Automation, AutomationNotFound | StoreUnavailable>
  /** See `enabled`. Safe to repeat. */
  enable(key: AutomationKey, at: DateTime.Utc): Effect.Effect<Automation, AutomationNotFound | StoreUnavailable>
  /** A person pauses it. Pausing twice keeps the first time and reason. */
  pause(key: AutomationKey, at: DateTime.Utc): Effect.Effect<Automation, AutomationNotFound | StoreUnavailable>
  /** An automation with its secrets, whatever its grant; none without a webhook. */
  secretsOf(id: Uuid): Effect.Effect<
    { readonly automation: Automation; readonly secrets: ReadonlyArray<Secret> },
    AutomationNotFound | StoreUnavailable
  >
  /** Those that are not paused and follow the repository for mentions or labels, at most `limit`, oldest first. */
  following(repo: RepoName, limit: number): Effect.Effect<ReadonlyArray<Automation>, StoreUnavailable>
  /**
   * Begins the run of an event. A repeated event has the run that it had, also when the automation is paused. `force`: a person asks, so
   * a paused automation runs too.
   */
  begin(
    key: AutomationKey,
    beginning: Beginning,
    force: boolean
  ): Effect.Effect<Begun, AutomationNotFound | AutomationPaused | TooManyRuns | StoreUnavailable>
  /** Begins the runs of up to `limit` schedules that are due, and moves those on; see `dueRun`. */
  beginDue(now: DateTime.Utc, limit: number): Effect.Effect<ReadonlyArray<Begun>, StoreUnavailable>
  /** Takes up to `limit` runs that are `starting` and have no claim, oldest first. */
  take(limit: number): Effect.Effect<ReadonlyArray<TakenRun>, StoreUnavailable>
  /**
   * Ends a run, and moves its automation on as `afterRun` says. `false`: another caller had taken it, or the automation is deleted;
   * nothing was changed. A started run boots from then on.
   */
  record(
    taken: TakenRun,
    outcome: Exclude<Outcome, { readonly type: "starting" | "skipped" }>,
    at: DateTime.Utc
  ): Effect.Effect<boolean, StoreUnavailable>
  /**
   * Ends the boots of up to `limit` runs whose sandboxes have started or ended, oldest first, each once, and moves their automations on as
   * `afterBoot` says. Returns the number of runs.
   */
  endBoots(at: DateTime.Utc, limit: number): Effect.Effect<number, StoreUnavailable>
  /** The log, newest first, below the position `before`; `null`: from the end. */
  runs(
    key: AutomationKey,
    page: { readonly before: number | null; readonly limit: number }
  ): Effect.Effect<ReadonlyArray<Run>, AutomationNotFound | StoreUnavailable>
  /** Deletes up to `limit` ended runs that began before `before`, and returns their number. */
  purge(before: DateTime.Utc, limit: number): Effect.Effect<number, StoreUnavailable>
}>()("@slipway/domain/AutomationStore") {
}
