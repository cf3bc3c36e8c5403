/** Rows of automations and runs as the domain's. */
import type { TakenRun } from "@slipway/domain/automation/ports/AutomationStore"
import type { Automation, Run } from "@slipway/domain/automation/rules/Automation"
import { AutomationSettings, type Outcome, PauseReason } from "@slipway/domain/automation/schema/Automation"
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { CreateSandbox } from "@slipway/domain/sandbox/usecases/CreateSandbox"
import { Effect, Option, Schema } from "effect"
import { Instant } from "../sql/Instant.ts"
import { Int8 } from "../sql/Int8.ts"

/** Columns of an automation, of the table as `a`. */
export const AUTOMATION = `a.id, a.grant_id AS "grantId", a.created_by AS "createdBy", a.test, a.created_at AS "createdAt", a.settings,
  a.failures, a.paused_at AS "pausedAt", a.paused_reason AS "pausedReason", a.due_at AS "dueAt"`

const AutomationRow = Schema.Struct({
  id: Schema.String,
  grantId: Schema.String,
  createdBy: Schema.String,
  test: Schema.Boolean,
  createdAt: Instant,
  settings: AutomationSettings,
  failures: Schema.Int,
  pausedAt: Schema.NullOr(Instant),
  pausedReason: Schema.NullOr(PauseReason),
  dueAt: Schema.NullOr(Instant)
})

const toAutomation = ({ pausedAt: at, pausedReason: reason, ...row }: typeof AutomationRow.Type): Automation => ({
  ...row,
  paused: at === null || reason === null ? null : { at, reason }
})

const decodeAutomation = Schema.decodeUnknownEffect(AutomationRow)
const decodeAutomationOption = Schema.decodeUnknownOption(AutomationRow)
const encodeSettings = Schema.encodeSync(AutomationSettings)
const decodeRequest = Schema.decodeUnknownSync(CreateSandbox)
const encodeRequest = Schema.encodeSync(CreateSandbox)

/** Fails for a row that a newer version wrote. */
export const automationOf = (row: unknown) => decodeAutomation(row).pipe(Effect.map(toAutomation))
/** None for a row that a newer version wrote. */
export const readableAutomation = (row: unknown) => Option.map(decodeAutomationOption(row), toAutomation)
export const settingsText = (settings: AutomationSettings): string => JSON.stringify(encodeSettings(settings))
export const requestText = (request: CreateSandbox): string => JSON.stringify(encodeRequest(request))

/** Columns of a run, of the table as `r`. */
export const RUN = `r.id, r.automation_id AS "automationId", r.position, r.trigger_id AS "triggerId", r.at, r.outcome,
  r.sandbox_id AS "sandboxId", r.code, r.message`

export const RunRow = Schema.Struct({
  id: Schema.String,
  automationId: Schema.String,
  position: Int8,
  triggerId: Schema.String,
  at: Instant,
  outcome: Schema.Literals(["starting", "started", "refused", "skipped"]),
  sandboxId: Schema.NullOr(SandboxId),
  code: Schema.NullOr(Schema.String),
  message: Schema.NullOr(Schema.String)
})

const outcomeOf = ({ code, message, outcome, sandboxId }: typeof RunRow.Type): Outcome => {
  if (outcome === "started" && sandboxId !== null) return { type: "started", sandboxId }
  if (outcome === "skipped") return { type: "skipped", limit: code === "day" ? "day" : "running" }
  return outcome === "refused" ? { type: "refused", code: code ?? "", message: message ?? "" } : { type: "starting" }
}

export const toRun = (row: typeof RunRow.Type): Run => {
  const { at, automationId, id, position, triggerId } = row
  return { id, automationId, position, triggerId, at, outcome: outcomeOf(row) }
}

/** The sandbox of a run that booted, and the key of its automation. `status` is `null` for a sandbox that is gone. */
export const BootRow = Schema.Struct({
  id: Schema.String,
  grantId: Schema.String,
  status: Schema.NullOr(Schema.Literals(["queued", "creating", "running", "terminating", "succeeded", "failed", "terminated"])),
  startedAt: Schema.NullOr(Instant)
})

/** A run that was taken. */
export const TakenRow = Schema.Struct({
  id: Schema.String,
  at: Instant,
  request: Schema.Unknown,
  fence: Int8,
  automationId: Schema.String,
  grantId: Schema.String,
  createdBy: Schema.String,
  test: Schema.Boolean
})

export const toTaken = ({ at, automationId, createdBy, fence, grantId, id, request, test }: typeof TakenRow.Type): TakenRun => ({
  id,
  automation: { id: automationId, grantId, createdBy, test },
  at,
  request: decodeRequest(request),
  fence
})

/** The columns of an outcome that ends a run. */
export const columnsOf = (outcome: Exclude<Outcome, { readonly type: "starting" | "skipped" }>) =>
  outcome.type === "started"
    ? { sandboxId: outcome.sandboxId, code: null, message: null }
    : { sandboxId: null, code: outcome.code, message: outcome.message }
