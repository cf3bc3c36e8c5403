/**
 * How errors look on the wire: `{ error: { code, message } }`, whatever went wrong (docs/interface.md 7; docs/decisions/1).
 * Each domain error gets its status and code here, once; domain classes know neither.
 */
import { GrantNotFound as NoSuchGrant } from "@slipway/domain/access/ports/AccessStore"
import {
  AutomationNotFound as NoSuchAutomation,
  AutomationPaused as PausedAutomation,
  TooManyAutomations as AutomationLimit,
  TooManyRuns as RunLimit
} from "@slipway/domain/automation/ports/AutomationStore"
import {
  TooManyTrustedRefs as TrustedRefLimit,
  TrustedRefNotFound as NoSuchTrustedRef
} from "@slipway/domain/environment/ports/SecretStore"
import { AgentDisconnected as WorkerDisconnected } from "@slipway/domain/files/ports/RemoteTrees"
import {
  FileNotFound as NoSuchFile,
  FileProtected,
  FileTooLarge as FileAboveLimit,
  IsDirectory as PathIsDirectory,
  NotADirectory as PathIsNoDirectory
} from "@slipway/domain/files/ports/WorkingTrees"
import { ArtifactNotFound as NoSuchArtifact } from "@slipway/domain/files/usecases/Artifacts"
import { UploadTooLarge as UploadAboveLimit } from "@slipway/domain/files/usecases/Uploads"
import { McpServerNotFound as NoSuchServer, McpServerRefused as ServerRefused } from "@slipway/domain/mcp/ports/McpServerStore"
import { ProviderNotFound as NoSuchProvider } from "@slipway/domain/models/ports/ModelProviderStore"
import { BudgetExceeded as BudgetUsedUp } from "@slipway/domain/models/rules/Budget"
import { NoCredits as CreditsUsedUp } from "@slipway/domain/models/rules/Credits"
import { FilesUnsupported as ImagesUnsupported } from "@slipway/domain/models/rules/Images"
import { IncompleteProvider as ProviderIncomplete } from "@slipway/domain/models/rules/ModelProviders"
import {
  ApprovalsUnsupported as NoApprovals,
  InvalidModel as ModelRefused,
  InvalidReasoningEffort as EffortRefused
} from "@slipway/domain/models/schema/ModelCatalogue"
import { ClaimNotFound as NoSuchClaim } from "@slipway/domain/partner/ports/PartnerStore"
import { TargetRefused as AddressRefused } from "@slipway/domain/partner/ports/WebhookSender"
import {
  EndpointNotFound as NoSuchEndpoint,
  PartnerEventNotFound as NoSuchEvent,
  TooManyEndpoints as EndpointLimit
} from "@slipway/domain/partner/ports/WebhookStore"
import { FactConflict as Contradiction } from "@slipway/domain/partner/rules/Attribution"
import { NoFailingChecks as NothingFails } from "@slipway/domain/publishing/usecases/Feedback"
import {
  BranchMoved as MovedBranch,
  MergeConflict as Conflict,
  NothingToPublish as NothingNew
} from "@slipway/domain/publishing/usecases/Publishing"
import { ConcurrencyLimitExceeded as TooManyActive } from "@slipway/domain/sandbox/ports/ActiveSandboxes"
import { CreationDenied as DeniedByEmbedder } from "@slipway/domain/sandbox/ports/BeforeCreate"
import { CheckpointNotFound as NoSuchCheckpoint } from "@slipway/domain/sandbox/ports/Checkpoints"
import {
  PromptFileNotFound as NoSuchUpload,
  TooManyFiles as SandboxFileLimit,
  TooManyUnusedFiles as UnusedFileLimit
} from "@slipway/domain/sandbox/ports/PromptFiles"
import { SandboxNotFound as NoSuchSandbox } from "@slipway/domain/sandbox/ports/SandboxStore"
import {
  AnswerInvalid as AnswerMisfits,
  ApprovalNotFound as NoSuchApproval,
  MessageNotFound as NoSuchMessage,
  MessageNotWaiting as NoLongerWaiting,
  QuestionNotFound as NoSuchQuestion,
  QueueFull as TooManyWait,
  SandboxNotRunning as NotRunning,
  ScopeUnsupported as NoScope,
  SteeringUnsupported as NoSteering,
  TurnActive as ActiveTurn
} from "@slipway/domain/sandbox/rules/Command"
import { IdempotencyConflict as KeyConflict, SandboxDeleted as KeyOfDeleted } from "@slipway/domain/sandbox/rules/Idempotency"
import { SandboxNotFinished as Unfinished } from "@slipway/domain/sandbox/rules/Sandbox"
import { RepoNotFound as NoSuchRepo, RepoRequired as RepoMissing } from "@slipway/domain/sandbox/rules/SelectRepo"
import { NoCheckpoint as NothingToForkFrom } from "@slipway/domain/sandbox/usecases/CreateSandbox"
import { CursorAhead as CursorBeyondHead, CursorExpired as CursorTooOld } from "@slipway/domain/sandbox/usecases/SandboxEvents"
import { SettingsRefused } from "@slipway/domain/source/ports/RepositorySettings"
import { RepoNotAccessible as RepoRefused, SourceHostError as HostFailed } from "@slipway/domain/source/ports/SourceHost"
import { InvalidPath as PathInvalid } from "@slipway/domain/source/rules/FileRules"
import { PullRequestNotWritable as BranchRefused } from "@slipway/domain/source/schema/WritableBranch"
import { StoreUnavailable as StoreDown } from "@slipway/domain/store/StoreUnavailable"
import { InvalidRequest as Misfit } from "@slipway/domain/text/InvalidRequest"
import { Schema, SchemaTransformation } from "effect"
import { HttpApiSchema } from "effect/http-api"

const envelope = <const C extends string>(code: C) =>
  Schema.Struct({ error: Schema.Struct({ code: Schema.Literal(code), message: Schema.String }) })

/** The only error that clients get. Its `code` says which one it is; `headers` are the reply's own, with names in lower case. */
export class Refusal extends Schema.TaggedError<Refusal>()("Refusal", {
  status: Schema.Int,
  code: Schema.String,
  reason: Schema.String,
  headers: Schema.Record(Schema.String, Schema.String)
}) {
  override get message() {
    return this.reason
  }
}

const ofKind = (status: number, code: string) =>
  Schema.toType(Refusal).check(Schema.makeFilter((e: Refusal) => e.status === status && e.code === code))

const encoded = <const C extends string, E extends Error>(status: number, code: C, error: Schema.Codec<E>) =>
  envelope(code).pipe(
    Schema.decodeTo(
      Schema.Union([ofKind(status, code), error]),
      SchemaTransformation.transform({
        decode: ({ error: { message } }): Refusal | E => new Refusal({ status, code, reason: message, headers: {} }),
        encode: (e: Refusal | E) => ({ error: { code, message: e.message } })
      })
    ),
    HttpApiSchema.status(status)
  )

/** An error with its status and code. Servers fail with it, or with the refusal that clients make of it: they are told no more. */
const onWire = <const C extends string, E extends Error>(status: number, code: C, error: abstract new(...args: never) => E) =>
  encoded(status, code, Schema.instanceOf(error))

// ---------------------------------------------------------------------------------------------------------------
// Refused by the server itself, before or around a use case

const refusal = <const C extends string, const H extends string = never>(status: number, code: C, _headers: ReadonlyArray<H> = []) => ({
  make: (reason: string, ...[headers]: [H] extends [never] ? [] : [headers: Readonly<Record<H, string>>]) =>
    new Refusal({ status, code, reason, headers: headers ?? {} }),
  schema: encoded(status, code, ofKind(status, code))
})

/** The request cannot be read: syntax, a header, a value of the wrong shape. A retry needs another request. */
export const InvalidRequest = refusal(400, "invalid_request")
/** The `Idempotency-Key` is not 1 to 255 printable ASCII characters. */
export const InvalidIdempotencyKey = refusal(400, "invalid_idempotency_key")
/** The cursor of a list or a log was not issued by this service for it. */
export const InvalidCursor = refusal(400, "invalid_cursor")
/** The credential is missing or invalid. */
export const Unauthorized = refusal(401, "unauthorized", ["www-authenticate"])
/** The key is good and lacks the scope that `www-authenticate` names. */
export const InsufficientScope = refusal(403, "insufficient_scope", ["www-authenticate"])
/** The key's user is no longer an active member, or the organization is suspended. */
export const Forbidden = refusal(403, "forbidden")
/** No endpoint has this address. */
export const NotFound = refusal(404, "not_found")
/** The address exists; the header `allow` lists the methods that it answers to. */
export const MethodNotAllowed = refusal(405, "method_not_allowed", ["allow"])
/** The headers or the body of the request did not arrive in time. The server closes the connection. */
export const RequestTimeout = refusal(408, "request_timeout")
/** The body has more than 1 MiB. */
export const PayloadTooLarge = refusal(413, "payload_too_large")
/** The body is not declared as JSON in UTF-8. */
export const UnsupportedMediaType = refusal(415, "unsupported_media_type")
/** Too many requests, streams or downloads; a retry may succeed after `retry-after` seconds. */
export const RateLimited = refusal(429, "rate_limited", ["retry-after"])
/** The headers have more than 16 KiB. */
export const HeadersTooLarge = refusal(431, "headers_too_large")
/** An unexpected failure. The log of the service has it under the `x-request-id` of the reply. */
export const InternalError = refusal(500, "internal_error")
/** The service is shutting down, or a part that it needs does not answer; a retry after `retry-after` seconds helps. */
export const Unavailable = refusal(503, "unavailable", ["retry-after"])

// ---------------------------------------------------------------------------------------------------------------
// Domain errors

/** Input that the endpoint accepts and the domain refuses. None is known: both use the same schemas. */
export const Misfitting = onWire(400, "invalid_request", Misfit)
/** The database cannot be reached or takes no writes. A retry helps once it does. */
export const StoreUnavailable = onWire(503, "unavailable", StoreDown)
/** The grant has no such sandbox. */
export const SandboxNotFound = onWire(404, "not_found", NoSuchSandbox)
/** The sandbox never asked for this approval. */
export const ApprovalNotFound = onWire(404, "not_found", NoSuchApproval)
/** The sandbox never asked this question. */
export const QuestionNotFound = onWire(404, "not_found", NoSuchQuestion)
/** The answers do not fit the questions: an unknown question or option, too many options, a text where none is taken. */
export const AnswerInvalid = onWire(400, "invalid_answer", AnswerMisfits)
/** The sandbox has no such checkpoint, or it is no longer kept. */
export const CheckpointNotFound = onWire(404, "not_found", NoSuchCheckpoint)
/** The sandbox has none yet. */
export const NoCheckpoint = onWire(409, "conflict", NothingToForkFrom)
/** The sandbox is not running, so it cannot take a message, show files or publish. */
export const SandboxNotRunning = onWire(409, "sandbox_not_running", NotRunning)
/** A turn is active. The message may be queued, or sent again after the turn. */
export const TurnActive = onWire(409, "turn_active", ActiveTurn)
/** Calls like this one cannot be approved for the rest of the turn: approve it alone. */
export const ScopeUnsupported = onWire(409, "scope_unsupported", NoScope)
/** Ten messages wait already. A retry helps once one of them has begun. */
export const QueueFull = onWire(409, "queue_full", TooManyWait)
/** The runtime of the agent cannot take messages within a turn. */
export const SteeringUnsupported = onWire(409, "steering_unsupported", NoSteering)
/** The sandbox has no such message. */
export const MessageNotFound = onWire(404, "not_found", NoSuchMessage)
/** The message cannot be taken back any more: its turn began, or the agent has it, or it was cancelled. */
export const MessageNotWaiting = onWire(409, "message_not_waiting", NoLongerWaiting)

/** The grant has as many active sandboxes as it may have. A retry helps once one of them has ended. */
export const ConcurrencyLimitExceeded = onWire(409, "concurrency_limit_exceeded", TooManyActive)
/**
 * The server that embeds the API refused the creation. The code is its own, such as `plan_expired`, so the documents cannot list it.
 * Nothing was created, and the `Idempotency-Key` is free.
 */
export const CreationDenied = Schema.Struct({ error: Schema.Struct({ code: Schema.String, message: Schema.String }) }).pipe(
  Schema.decodeTo(
    Schema.Union([Schema.toType(Refusal).check(Schema.makeFilter(({ status }: Refusal) => status === 403)),
      Schema.instanceOf(DeniedByEmbedder)]),
    SchemaTransformation.transform({
      decode: ({ error: { code, message } }): Refusal | DeniedByEmbedder =>
        new Refusal({ status: 403, code, reason: message, headers: {} }),
      encode: ({ code, message }: Refusal | DeniedByEmbedder) => ({ error: { code, message } })
    })
  ),
  HttpApiSchema.status(403)
)
/** No check of the pull request fails, or some still run. */
export const NoFailingChecks = onWire(409, "no_failing_checks", NothingFails)
/** The `Idempotency-Key` was used for another request. */
export const IdempotencyConflict = onWire(409, "idempotency_conflict", KeyConflict)
/** The sandbox that the `Idempotency-Key` made was deleted. */
export const SandboxDeleted = onWire(409, "sandbox_deleted", KeyOfDeleted)
/** The sandbox has not ended, so it cannot be deleted. */
export const SandboxNotFinished = onWire(409, "sandbox_not_finished", Unfinished)
/** Credits are enforced and used up. */
export const NoCredits = onWire(402, "no_credits", CreditsUsedUp)
/** A spending budget of the grant, or of the sandbox, is used up. */
export const BudgetExceeded = onWire(402, "budget_exceeded", BudgetUsedUp)
/** The key may use no such model, or the request names none and there is no default. */
export const InvalidModel = onWire(400, "invalid_model", ModelRefused)
/** The model does not take this reasoning effort. */
export const InvalidReasoningEffort = onWire(400, "invalid_reasoning_effort", EffortRefused)
/** The runtime of the model cannot wait for approvals. */
export const ApprovalsUnsupported = onWire(400, "approvals_unsupported", NoApprovals)

/** The cursor is beyond the last event of the log. */
export const CursorAhead = onWire(400, "invalid_cursor", CursorBeyondHead)
/** The events after the cursor are no longer kept: read the sandbox, and go on from its present state. */
export const CursorExpired = onWire(410, "cursor_expired", CursorTooOld)

/** The model takes no images: choose another one, or leave them out. */
export const FilesUnsupported = onWire(400, "files_unsupported", ImagesUnsupported)
/** The grant has no such uploaded file, or it is no longer kept. */
export const PromptFileNotFound = onWire(404, "file_not_found", NoSuchUpload)
/** The sandbox has no artifact of this name, or it is no longer kept. */
export const ArtifactNotFound = onWire(404, "file_not_found", NoSuchArtifact)
/** The sandbox has as many files as it may have. */
export const TooManyFiles = onWire(409, "files_limit_exceeded", SandboxFileLimit)
/** The unused files of the grant take all the room that they may. A retry helps once some were used or have expired. */
export const TooManyUnusedFiles = onWire(409, "files_limit_exceeded", UnusedFileLimit)
/** The file has more than 20 MiB. */
export const UploadTooLarge = onWire(413, "file_too_large", UploadAboveLimit)

/** The path leaves the repository, is absolute, or cannot be a path. */
export const InvalidPath = onWire(400, "invalid_path", PathInvalid)
/** A file is needed, and the path is a directory. */
export const IsDirectory = onWire(400, "is_directory", PathIsDirectory)
/** A directory is needed, and the path is a file. */
export const NotADirectory = onWire(400, "not_a_directory", PathIsNoDirectory)
/** The name of the file is protected, or it is no plain file. Its content is never shown. */
export const ProtectedFile = onWire(403, "file_protected", FileProtected)
/** The repository has no such file or directory. */
export const FileNotFound = onWire(404, "file_not_found", NoSuchFile)
/** The file, or the patch, is above the limit of the endpoint. */
export const FileTooLarge = onWire(413, "file_too_large", FileAboveLimit)
/** The worker with the trees did not answer. A retry may succeed after `retry-after` seconds. */
export const AgentDisconnected = onWire(409, "agent_disconnected", WorkerDisconnected)

/** The sandbox has several repositories, and the request names none. */
export const RepoRequired = onWire(400, "repo_required", RepoMissing)
/** The sandbox has no such repository. */
export const RepoNotFound = onWire(404, "repo_not_found", NoSuchRepo)
/** The source host does not show the repository to this service, or does not let it push. */
export const RepoNotAccessible = onWire(403, "repo_not_accessible", RepoRefused)
/** The working tree has no changes to publish. */
export const NothingToPublish = onWire(409, "invalid_request", NothingNew)
/** The branch of the publication is not where Slipway left it. */
export const BranchMoved = onWire(409, "branch_moved", MovedBranch)
/** The changes conflict with the base branch. */
export const MergeConflict = onWire(409, "merge_conflict", Conflict)
/** The pull request or branch cannot be continued. The message says why. */
export const PullRequestNotWritable = onWire(409, "pull_request_not_writable", BranchRefused)
/** The source host failed or refused. A retry may help. */
export const SourceHostError = onWire(502, "source_host_error", HostFailed)

/** Another fact was told under this id before. */
export const FactConflict = onWire(409, "conflict", Contradiction)
/** No such claim was created. */
export const ClaimNotFound = onWire(404, "not_found", NoSuchClaim)
/** No such grant exists. */
export const GrantNotFound = onWire(404, "not_found", NoSuchGrant)

/** The repository has as many MCP servers as it may have, or the server lacks its credential. */
export const McpServerRefused = onWire(409, "conflict", ServerRefused)
/** The repository has no such MCP server. */
export const McpServerNotFound = onWire(404, "not_found", NoSuchServer)

/** The grant has settings for as many repositories as it may have. */
export const TooManyRepositorySettings = onWire(409, "conflict", SettingsRefused)

/** The address of the endpoint is invalid or not allowed, such as a private one. */
export const TargetRefused = onWire(400, "invalid_request", AddressRefused)
/** The grant has as many webhook endpoints as it may have. */
export const TooManyEndpoints = onWire(409, "conflict", EndpointLimit)
/** The grant has no such webhook endpoint. */
export const EndpointNotFound = onWire(404, "not_found", NoSuchEndpoint)
/** The grant has as many trusted refs as it may have. */
export const TooManyTrustedRefs = onWire(409, "conflict", TrustedRefLimit)
/** The ref is not listed. */
export const TrustedRefNotFound = onWire(404, "not_found", NoSuchTrustedRef)
/** The provider needs a key, an address or a model that the request leaves out. */
export const IncompleteProvider = onWire(400, "invalid_request", ProviderIncomplete)
/** Nothing is stored for the provider. */
export const ProviderNotFound = onWire(404, "not_found", NoSuchProvider)
/** The feed of the grant has no such event. */
export const PartnerEventNotFound = onWire(404, "not_found", NoSuchEvent)
/** The grant has no such automation. */
export const AutomationNotFound = onWire(404, "not_found", NoSuchAutomation)
/** The automation starts no runs until it is enabled. */
export const AutomationPaused = onWire(409, "automation_paused", PausedAutomation)
/** The grant has as many automations as a grant may have. */
export const TooManyAutomations = onWire(409, "conflict", AutomationLimit)
/** The automation met its limits too often today. */
export const TooManyRuns = onWire(409, "conflict", RunLimit)
