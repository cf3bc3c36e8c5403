/** Sandboxes and the commands on them (docs/interface.md 4.1 to 4.6). */
import { ApprovalId, Decision } from "@slipway/domain/sandbox/Approval"
import { CommandResult } from "@slipway/domain/sandbox/Command"
import { CreateSandbox } from "@slipway/domain/sandbox/CreateSandbox"
import { IdempotencyKey } from "@slipway/domain/sandbox/Idempotency"
import { SandboxStatus } from "@slipway/domain/sandbox/SandboxEvent"
import { RepoName } from "@slipway/domain/source/RepoRef"
import { characters } from "@slipway/domain/Text"
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import {
  ApprovalNotFound,
  ApprovalsUnsupported,
  BudgetExceeded,
  ConcurrencyLimitExceeded,
  IdempotencyConflict,
  InvalidCursor,
  InvalidIdempotencyKey,
  InvalidModel,
  InvalidReasoningEffort,
  NoCredits,
  RepoNotAccessible,
  SandboxNotFound
} from "./Errors.ts"
import { Authenticated, JsonBody } from "./Middleware.ts"
import { inSandbox, Limit } from "./Parameters.ts"
import { Area, NeededScope } from "./Routing.ts"
import { SandboxResource } from "./SandboxResource.ts"

export const SandboxPage = Schema.Struct({
  data: Schema.Array(SandboxResource).annotateKey({ description: "Newest first." }),
  nextCursor: Schema.NullOr(Schema.String).annotateKey({ description: "The `after` of the next page; `null` on the last page." })
}).annotate({ identifier: "SandboxPage" })

/** The sandbox a creation made. */
export class Created extends Schema.Class<Created>("SandboxCreated")({ sandbox: SandboxResource }) {}
/** The sandbox, as it is now, that an equal creation made before. */
export class Replayed extends Schema.Class<Replayed>("SandboxReplayed")({ sandbox: SandboxResource }) {}

const created = Created.pipe(HttpApiSchema.encodeToWithHeaders({
  body: SandboxResource.pipe(HttpApiSchema.status(201)),
  headers: { location: Schema.String }
}, {
  decode: ({ body }) => new Created({ sandbox: body }),
  encode: ({ sandbox }) => ({ body: sandbox, headers: { location: sandbox.links.self } })
}))

const replayed = Replayed.pipe(HttpApiSchema.encodeToWithHeaders({
  body: SandboxResource,
  headers: { location: Schema.String, "idempotent-replayed": Schema.Literal("true") }
}, {
  decode: ({ body }) => new Replayed({ sandbox: body }),
  encode: ({ sandbox }) => ({ body: sandbox, headers: { location: sandbox.links.self, "idempotent-replayed": "true" as const } })
}))

/** Chosen by the caller; makes a retry safe. */
export const idempotencyHeader = { "idempotency-key": Schema.optionalKey(IdempotencyKey) }

export const ApprovalDecision = Schema.Struct({
  decision: Decision.annotateKey({ description: "Whether the agent may do it." })
}).annotate({ identifier: "ApprovalDecision" })

export class SandboxesApi extends HttpApiGroup.make("sandboxes", { topLevel: true })
  .add(
    HttpApiEndpoint.post("createSandbox", "/", {
      headers: idempotencyHeader,
      payload: CreateSandbox,
      success: [created, replayed],
      error: [
        InvalidIdempotencyKey.schema,
        InvalidModel,
        InvalidReasoningEffort,
        ApprovalsUnsupported,
        NoCredits,
        BudgetExceeded,
        RepoNotAccessible,
        IdempotencyConflict,
        ConcurrencyLimitExceeded
      ]
    }).middleware(JsonBody).annotateMerge(OpenApi.annotations({
      summary: "Create a sandbox",
      description: "Accepts the creation and answers at once; the sandbox boots on its own. With an `Idempotency-Key`, repeating " +
        "the same request gives the same sandbox with status 200, and another request under the same key gives 409."
    })),
    HttpApiEndpoint.get("listSandboxes", "/", {
      query: {
        after: Schema.optionalKey(characters(1, 1000)),
        limit: Schema.optionalKey(Limit),
        status: Schema.optionalKey(SandboxStatus),
        repo: Schema.optionalKey(RepoName)
      },
      success: SandboxPage,
      error: InvalidCursor.schema
    }).annotateMerge(OpenApi.annotations({
      summary: "List sandboxes",
      description: "Sandboxes of the key's grant, newest first. `after` is the `nextCursor` of the page before; it may be " +
        "combined with any filter. `repo` matches any of a sandbox's repositories, whatever the case."
    })),
    HttpApiEndpoint.get("getSandbox", "/:sandboxId", {
      params: inSandbox,
      success: SandboxResource,
      error: SandboxNotFound
    }).annotateMerge(OpenApi.annotations({
      summary: "Get a sandbox",
      description: "The sandbox as it is now. `usage` is eventually consistent."
    })),
    HttpApiEndpoint.post("terminateSandbox", "/:sandboxId/terminate", {
      params: inSandbox,
      success: CommandResult,
      error: SandboxNotFound
    }).middleware(JsonBody).annotateMerge(OpenApi.annotations({
      summary: "Terminate a sandbox",
      description: "Ends the sandbox for good. Safe to repeat: later calls answer `duplicate`."
    })),
    HttpApiEndpoint.post("interruptTurn", "/:sandboxId/interrupt", {
      params: inSandbox,
      success: CommandResult,
      error: SandboxNotFound
    }).middleware(JsonBody).annotateMerge(OpenApi.annotations({
      summary: "Interrupt the active turn",
      description: "The sandbox keeps running. `rejected` with `no_active_turn` or `sandbox_terminal` when there is nothing to interrupt."
    })),
    HttpApiEndpoint.post("decideApproval", "/:sandboxId/approvals/:approvalId", {
      params: { ...inSandbox, approvalId: ApprovalId },
      payload: ApprovalDecision,
      success: CommandResult,
      error: [SandboxNotFound, ApprovalNotFound]
    }).middleware(JsonBody).annotate(Area, "approvals").annotateMerge(OpenApi.annotations({
      summary: "Approve or deny a tool call",
      description: "The first decision wins. `approvalId` is the `approval_id` of the `approval.requested` event."
    }))
  )
  .prefix("/api/public/v1/sandboxes")
  .middleware(Authenticated)
  .annotate(NeededScope, "sandboxes")
  .annotate(Area, "sandboxes")
  .annotateMerge(OpenApi.annotations({ title: "Sandboxes", description: "Sandboxes and the commands on them." }))
{}
