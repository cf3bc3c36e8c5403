/** Sandboxes and the commands on them (docs/interface.md 4.1 to 4.6). */
import { SetupStatus } from "@slipway/domain/sandbox/ports/Setups"
import { ApprovalDecision as Decision, ApprovalId } from "@slipway/domain/sandbox/schema/Approval"
import { CommandResult } from "@slipway/domain/sandbox/schema/Command"
import { IdempotencyKey } from "@slipway/domain/sandbox/schema/Idempotency"
import { SandboxStatus } from "@slipway/domain/sandbox/schema/SandboxEvent"
import { CreateSandbox, ForkSandbox } from "@slipway/domain/sandbox/usecases/CreateSandbox"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { characters, Counter } from "@slipway/domain/text/Text"
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { SandboxResource } from "../schema/SandboxResource.ts"
import {
  ApprovalNotFound,
  ApprovalsUnsupported,
  BudgetExceeded,
  CheckpointNotFound,
  ConcurrencyLimitExceeded,
  CreationDenied,
  IdempotencyConflict,
  InvalidCursor,
  InvalidIdempotencyKey,
  InvalidModel,
  InvalidReasoningEffort,
  Misfitting,
  NoCheckpoint,
  NoCredits,
  PullRequestNotWritable,
  QueueFull,
  RepoNotAccessible,
  SandboxDeleted,
  SandboxNotFound,
  SandboxNotRunning,
  ScopeUnsupported,
  TurnActive
} from "../shared/Errors.ts"
import { Authenticated, JsonBody } from "../shared/Middleware.ts"
import { inSandbox, Limit } from "../shared/Parameters.ts"
import { Area, NeededScope } from "../shared/Routing.ts"

/** A page of a grant's sandboxes, newest first. */
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

/** The body of a decision on an approval. */
export const ApprovalDecision = Decision.annotate({ identifier: "ApprovalDecision" })

/** The body of a restore. */
export const RestoreCheckpoint = Schema.Struct({
  checkpoint: Counter.annotateKey({ description: "Number of a checkpoint of the sandbox that is kept." })
}).annotate({ identifier: "RestoreCheckpoint" })

/** Why a request for a sandbox is refused, whatever it is to start with. */
const refusedCreation = [
  InvalidIdempotencyKey.schema,
  Misfitting,
  InvalidModel,
  InvalidReasoningEffort,
  ApprovalsUnsupported,
  NoCredits,
  BudgetExceeded,
  RepoNotAccessible,
  IdempotencyConflict,
  SandboxDeleted,
  ConcurrencyLimitExceeded,
  // Its code is any, so it comes last.
  CreationDenied
] as const

/** Sandboxes, and the commands on one of them. */
export class SandboxesApi extends HttpApiGroup.make("sandboxes", { topLevel: true })
  .add(
    HttpApiEndpoint.post("createSandbox", "/", {
      headers: idempotencyHeader,
      payload: CreateSandbox,
      success: [created, replayed],
      error: [PullRequestNotWritable, ...refusedCreation]
    }).middleware(JsonBody).annotateMerge(OpenApi.annotations({
      summary: "Create a sandbox",
      description: "Accepts the creation and answers at once; the sandbox boots on its own. With an `Idempotency-Key`, repeating " +
        "the same request gives the same sandbox with status 200, and another request under the same key gives 409. With `continue` the " +
        "source host is asked once: 503 `unavailable` if it does not answer within 10 seconds."
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
    HttpApiEndpoint.get("getSetup", "/:sandboxId/setup", {
      params: inSandbox,
      success: SetupStatus,
      error: SandboxNotFound
    }).annotateMerge(OpenApi.annotations({
      summary: "Get a sandbox's setup",
      description: "How the commands went by which the repositories make the sandbox ready, and what they wrote. The newest run; while " +
        "it runs, as it was at most two seconds ago."
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
    HttpApiEndpoint.post("restoreCheckpoint", "/:sandboxId/restore", {
      params: inSandbox,
      payload: RestoreCheckpoint,
      success: CommandResult,
      error: [SandboxNotFound, CheckpointNotFound, SandboxNotRunning]
    }).middleware(JsonBody).annotateMerge(OpenApi.annotations({
      summary: "Go back to a checkpoint",
      description: "Trees and conversation become those of the checkpoint; the log goes on. Between turns only, else `rejected` with " +
        "`turn_active`; `restore_active` while another checkpoint is being restored. `sandbox.restored` tells what came of it."
    })),
    HttpApiEndpoint.post("syncSandbox", "/:sandboxId/sync", {
      params: inSandbox,
      success: CommandResult,
      error: [SandboxNotFound, SandboxNotRunning, TurnActive]
    }).middleware(JsonBody).annotateMerge(OpenApi.annotations({
      summary: "Get the newest commits of the source host",
      description:
        "Makes the newest commits of the base branch and of the branch that the sandbox publishes to available to the agent's git " +
        "as `origin/…`, so that it can merge or rebase. Between turns only. `duplicate` while it is under way; `sandbox.synced` tells " +
        "what came of it."
    })),
    HttpApiEndpoint.post("forkSandbox", "/:sandboxId/fork", {
      params: inSandbox,
      headers: idempotencyHeader,
      payload: ForkSandbox,
      success: [created, replayed],
      error: [...refusedCreation, SandboxNotFound, CheckpointNotFound, NoCheckpoint]
    }).middleware(JsonBody).annotateMerge(OpenApi.annotations({
      summary: "Fork a sandbox",
      description: "A new sandbox of the same repositories, whose trees start as a checkpoint of this one; it may be finished. With the " +
        "same runtime its conversation goes on; another one is told the messages so far. This sandbox stays as it is. Answers as a " +
        "creation does, also to a repeated `Idempotency-Key`."
    })),
    HttpApiEndpoint.post("decideApproval", "/:sandboxId/approvals/:approvalId", {
      params: { ...inSandbox, approvalId: ApprovalId },
      payload: ApprovalDecision,
      success: CommandResult,
      error: [SandboxNotFound, ApprovalNotFound, ScopeUnsupported, QueueFull]
    }).middleware(JsonBody).annotate(Area, "approvals").annotateMerge(OpenApi.annotations({
      summary: "Approve or deny a tool call",
      description:
        "The first decision wins. `approvalId` is the `approval_id` of the `approval.requested` event. The agent is told the `reason` of " +
        "a denial with it, where its runtime can be; else it waits for the agent as a message does, which is refused when ten wait. " +
        "`scope` needs a request of the `kind` `edit`, `command` or `network`."
    }))
  )
  .prefix("/api/public/v1/sandboxes")
  .middleware(Authenticated)
  .annotate(NeededScope, "sandboxes")
  .annotate(Area, "sandboxes")
  .annotateMerge(OpenApi.annotations({ title: "Sandboxes", description: "Sandboxes and the commands on them." }))
{}
