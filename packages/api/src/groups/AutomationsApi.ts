/**
 * The automations of a key's grant (docs/decisions/30). Not part of the public interface and its document. Requests that start runs of
 * webhooks carry a signature and no key: they are no part of this definition, because the signature covers the body's bytes.
 */
import { AutomationSettings, PauseReason } from "@slipway/domain/automation/schema/Automation"
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { AnyUuid } from "@slipway/domain/partner/schema/Attribution"
import { Counter } from "@slipway/domain/text/Text"
import { Timestamp } from "@slipway/domain/time/Timestamp"
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import {
  ApprovalsUnsupported,
  AutomationNotFound,
  AutomationPaused,
  InvalidCursor,
  InvalidModel,
  InvalidReasoningEffort,
  RepoNotAccessible,
  TooManyAutomations,
  TooManyRuns
} from "../shared/Errors.ts"
import { Authenticated, JsonBody } from "../shared/Middleware.ts"
import { Cursor, Limit } from "../shared/Parameters.ts"
import { Area, NeededScope } from "../shared/Routing.ts"

const automation = {
  id: Schema.String,
  ...AutomationSettings.fields,
  state: Schema.Literals(["enabled", "paused"]),
  /** A person paused it, or five runs in a row could not start. */
  pausedReason: Schema.NullOr(PauseReason),
  pausedAt: Schema.NullOr(Timestamp),
  /** Runs in a row that could not start. */
  failures: Counter,
  /** `null` unless it is an enabled schedule. */
  nextRunAt: Schema.NullOr(Timestamp),
  /** Where signed requests start its runs; `null`: it has no webhook. */
  url: Schema.NullOr(Schema.String),
  createdBy: Schema.String,
  createdAt: Timestamp
}

/** An automation without its secret. */
export const AutomationResource = Schema.Struct(automation).annotate({ identifier: "Automation" })
/** The decoded automation. */
export type AutomationResource = typeof AutomationResource.Type

/** The only reply that holds the secret; `null`: it has no webhook. */
const AutomationWithSecret = Schema.Struct({ ...automation, secret: Schema.NullOr(Schema.String) }).annotate({
  identifier: "AutomationWithSecret"
})

/** One run. Runs are kept for 30 days. */
export const RunResource = Schema.Struct({
  id: Schema.String,
  /** The event: `schedule/`, `webhook/`, `comment/`, `label/` or `manual/`, and its id. */
  trigger: Schema.String,
  at: Timestamp,
  outcome: Schema.Literals(["starting", "started", "refused", "skipped"]),
  /** `null` unless it started. */
  sandboxId: Schema.NullOr(SandboxId),
  /** The error's code and sentence; `null` unless it was refused. */
  code: Schema.NullOr(Schema.String),
  message: Schema.NullOr(Schema.String),
  /** The limit that it met; `null` unless it was skipped. */
  limit: Schema.NullOr(Schema.Literals(["running", "day"]))
}).annotate({ identifier: "AutomationRun" })
/** The decoded run. */
export type RunResource = typeof RunResource.Type

const ofAutomation = { automationId: AnyUuid }
const refused = [ApprovalsUnsupported, InvalidModel, InvalidReasoningEffort, RepoNotAccessible] as const

/** Automations, their secrets and runs. Needs the scope `automations`. */
export class AutomationsApi extends HttpApiGroup.make("automations", { topLevel: true })
  .add(
    HttpApiEndpoint.post("createAutomation", "/", {
      payload: AutomationSettings,
      success: AutomationWithSecret.pipe(HttpApiSchema.status(201)),
      error: [...refused, TooManyAutomations]
    }).middleware(JsonBody).annotateMerge(OpenApi.annotations({
      summary: "Make an automation",
      description: "It is enabled. Its sandboxes are created for the key's user. `secret` is shown only now."
    })),
    HttpApiEndpoint.get("listAutomations", "/", {
      success: Schema.Struct({ data: Schema.Array(AutomationResource) }).annotate({ identifier: "AutomationList" })
    }).annotateMerge(OpenApi.annotations({ summary: "List automations", description: "All of the grant, oldest first." })),
    HttpApiEndpoint.get("getAutomation", "/:automationId", {
      params: ofAutomation,
      success: AutomationResource,
      error: AutomationNotFound
    }).annotateMerge(OpenApi.annotations({ summary: "Get an automation", description: "The automation as it is now." })),
    HttpApiEndpoint.put("changeAutomation", "/:automationId", {
      params: ofAutomation,
      payload: AutomationSettings,
      success: AutomationResource,
      error: [...refused, AutomationNotFound]
    }).middleware(JsonBody).annotateMerge(OpenApi.annotations({
      summary: "Replace an automation",
      description: "All settings at once, from the next run on. The type of the trigger cannot change."
    })),
    HttpApiEndpoint.delete("deleteAutomation", "/:automationId", {
      params: ofAutomation,
      success: HttpApiSchema.NoContent,
      error: AutomationNotFound
    }).annotateMerge(OpenApi.annotations({ summary: "Delete an automation", description: "With its runs. Its sandboxes stay." })),
    HttpApiEndpoint.post("rotateAutomationSecret", "/:automationId/rotate-secret", {
      params: ofAutomation,
      success: AutomationWithSecret,
      error: AutomationNotFound
    }).middleware(JsonBody).annotateMerge(OpenApi.annotations({
      summary: "Replace the secret of an automation",
      description: "`secret` is the new one and shown only now. The one before it counts for 24 more hours."
    })),
    HttpApiEndpoint.post("enableAutomation", "/:automationId/enable", {
      params: ofAutomation,
      success: AutomationResource,
      error: AutomationNotFound
    }).middleware(JsonBody).annotateMerge(OpenApi.annotations({
      summary: "Enable an automation",
      description: "A schedule goes on with its next time. Runs that did not start before do not count any more."
    })),
    HttpApiEndpoint.post("pauseAutomation", "/:automationId/pause", {
      params: ofAutomation,
      success: AutomationResource,
      error: AutomationNotFound
    }).middleware(JsonBody).annotateMerge(OpenApi.annotations({
      summary: "Pause an automation",
      description: "It starts no runs until it is enabled. Its sandboxes go on."
    })),
    HttpApiEndpoint.post("runAutomation", "/:automationId/run", {
      params: ofAutomation,
      success: RunResource,
      error: [AutomationNotFound, AutomationPaused, TooManyRuns]
    }).middleware(JsonBody).annotateMerge(OpenApi.annotations({
      summary: "Run an automation now",
      description: "Also a paused one, within its limits. Placeholders of events are empty."
    })),
    HttpApiEndpoint.get("listAutomationRuns", "/:automationId/runs", {
      params: ofAutomation,
      query: { after: Schema.optionalKey(Cursor), limit: Schema.optionalKey(Limit) },
      success: Schema.Struct({
        data: Schema.Array(RunResource),
        nextCursor: Schema.NullOr(Schema.String)
      }).annotate({ identifier: "AutomationRunPage" }),
      error: [InvalidCursor.schema, AutomationNotFound]
    }).annotateMerge(OpenApi.annotations({
      summary: "List runs",
      description: "Newest first, of the last 30 days. `nextCursor` is the `after` of the next page, `null` on the last one."
    }))
  )
  .prefix("/api/internal/v1/automations")
  .middleware(Authenticated)
  .annotate(NeededScope, "automations")
  .annotate(Area, "internal")
  .annotateMerge(
    OpenApi.annotations({
      title: "Automations",
      description: "What creates sandboxes by itself: schedules, signed requests, mentions and labels. Need the scope `automations`."
    })
  )
{}
