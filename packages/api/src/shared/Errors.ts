/**
 * How errors look on the wire: `{ error: { code, message } }`, whatever went wrong (docs/interface.md 7; docs/decisions/1).
 * Each domain error gets its status and code here, once; domain classes know neither.
 */
import { GrantNotFound as NoSuchGrant } from "@slipway/domain/access/ports/AccessStore"
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
import { BudgetExceeded as BudgetUsedUp } from "@slipway/domain/models/rules/Budget"
import { NoCredits as CreditsUsedUp } from "@slipway/domain/models/rules/Credits"
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
import {
  BranchMoved as MovedBranch,
  MergeConflict as Conflict,
  NothingToPublish as NothingNew
} from "@slipway/domain/publishing/usecases/Publishing"
import { ConcurrencyLimitExceeded as TooManyActive } from "@slipway/domain/sandbox/ports/ActiveSandboxes"
import { CheckpointNotFound as NoSuchCheckpoint } from "@slipway/domain/sandbox/ports/Checkpoints"
import { SandboxNotFound as NoSuchSandbox } from "@slipway/domain/sandbox/ports/SandboxStore"
import {
  ApprovalNotFound as NoSuchApproval,
  MessageNotFound as NoSuchMessage,
  MessageNotWaiting as NoLongerWaiting,
  QueueFull as TooManyWait,
  SandboxNotRunning as NotRunning,
  ScopeUnsupported as NoScope,
  SteeringUnsupported as NoSteering,
  TurnActive as ActiveTurn
} from "@slipway/domain/sandbox/rules/Command"
import { IdempotencyConflict as KeyConflict } from "@slipway/domain/sandbox/rules/Idempotency"
import { RepoNotFound as NoSuchRepo, RepoRequired as RepoMissing } from "@slipway/domain/sandbox/rules/SelectRepo"
import { NoCheckpoint as NothingToForkFrom } from "@slipway/domain/sandbox/usecases/CreateSandbox"
import { CursorAhead as CursorBeyondHead, CursorExpired as CursorTooOld } from "@slipway/domain/sandbox/usecases/SandboxEvents"
import { RepoNotAccessible as RepoRefused, SourceHostError as HostFailed } from "@slipway/domain/source/ports/SourceHost"
import { InvalidPath as PathInvalid } from "@slipway/domain/source/rules/FileRules"
import { StoreUnavailable as StoreDown } from "@slipway/domain/store/StoreUnavailable"
import { InvalidRequest as Misfit } from "@slipway/domain/text/InvalidRequest"
import { Schema, SchemaTransformation } from "effect"
import { HttpApiSchema } from "effect/http-api"

const envelope = <const C extends string>(code: C) =>
  Schema.Struct({ error: Schema.Struct({ code: Schema.Literal(code), message: Schema.String }) })

/** What a program is refused: the one error of clients, told apart by `code`. `headers`: those that belong to it, in lower case. */
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
// What HTTP itself refuses, before or around a use case

const refusal = <const C extends string, const H extends string = never>(status: number, code: C, _headers: ReadonlyArray<H> = []) => ({
  make: (reason: string, ...[headers]: [H] extends [never] ? [] : [headers: Readonly<Record<H, string>>]) =>
    new Refusal({ status, code, reason, headers: headers ?? {} }),
  schema: encoded(status, code, ofKind(status, code))
})

export const InvalidRequest = refusal(400, "invalid_request")
export const InvalidIdempotencyKey = refusal(400, "invalid_idempotency_key")
export const InvalidCursor = refusal(400, "invalid_cursor")
/** No credential, or one that is not valid. */
export const Unauthorized = refusal(401, "unauthorized", ["www-authenticate"])
export const InsufficientScope = refusal(403, "insufficient_scope", ["www-authenticate"])
/** The key's user is no longer an active member, or the organization is suspended. */
export const Forbidden = refusal(403, "forbidden")
export const NotFound = refusal(404, "not_found")
export const MethodNotAllowed = refusal(405, "method_not_allowed", ["allow"])
export const RequestTimeout = refusal(408, "request_timeout")
export const PayloadTooLarge = refusal(413, "payload_too_large")
export const UnsupportedMediaType = refusal(415, "unsupported_media_type")
export const RateLimited = refusal(429, "rate_limited", ["retry-after"])
export const HeadersTooLarge = refusal(431, "headers_too_large")
export const InternalError = refusal(500, "internal_error")
export const Unavailable = refusal(503, "unavailable", ["retry-after"])

// ---------------------------------------------------------------------------------------------------------------
// Domain errors

/** What HTTP lets through and the domain does not: their schemas are the same, so nothing known. */
export const Misfitting = onWire(400, "invalid_request", Misfit)
export const StoreUnavailable = onWire(503, "unavailable", StoreDown)
export const SandboxNotFound = onWire(404, "not_found", NoSuchSandbox)
export const ApprovalNotFound = onWire(404, "not_found", NoSuchApproval)
export const CheckpointNotFound = onWire(404, "not_found", NoSuchCheckpoint)
/** The sandbox has none yet. */
export const NoCheckpoint = onWire(409, "conflict", NothingToForkFrom)
export const SandboxNotRunning = onWire(409, "sandbox_not_running", NotRunning)
export const TurnActive = onWire(409, "turn_active", ActiveTurn)
export const ScopeUnsupported = onWire(409, "scope_unsupported", NoScope)
export const QueueFull = onWire(409, "queue_full", TooManyWait)
export const SteeringUnsupported = onWire(409, "steering_unsupported", NoSteering)
export const MessageNotFound = onWire(404, "not_found", NoSuchMessage)
export const MessageNotWaiting = onWire(409, "message_not_waiting", NoLongerWaiting)

export const ConcurrencyLimitExceeded = onWire(409, "concurrency_limit_exceeded", TooManyActive)
export const IdempotencyConflict = onWire(409, "idempotency_conflict", KeyConflict)
/** Credits are enforced and used up. */
export const NoCredits = onWire(402, "no_credits", CreditsUsedUp)
/** A spending budget of the grant, or of the sandbox, is used up. */
export const BudgetExceeded = onWire(402, "budget_exceeded", BudgetUsedUp)
export const InvalidModel = onWire(400, "invalid_model", ModelRefused)
export const InvalidReasoningEffort = onWire(400, "invalid_reasoning_effort", EffortRefused)
export const ApprovalsUnsupported = onWire(400, "approvals_unsupported", NoApprovals)

export const CursorAhead = onWire(400, "invalid_cursor", CursorBeyondHead)
export const CursorExpired = onWire(410, "cursor_expired", CursorTooOld)

export const InvalidPath = onWire(400, "invalid_path", PathInvalid)
export const IsDirectory = onWire(400, "is_directory", PathIsDirectory)
export const NotADirectory = onWire(400, "not_a_directory", PathIsNoDirectory)
export const ProtectedFile = onWire(403, "file_protected", FileProtected)
export const FileNotFound = onWire(404, "file_not_found", NoSuchFile)
export const FileTooLarge = onWire(413, "file_too_large", FileAboveLimit)
export const AgentDisconnected = onWire(409, "agent_disconnected", WorkerDisconnected)

export const RepoRequired = onWire(400, "repo_required", RepoMissing)
export const RepoNotFound = onWire(404, "repo_not_found", NoSuchRepo)
export const RepoNotAccessible = onWire(403, "repo_not_accessible", RepoRefused)
export const NothingToPublish = onWire(409, "invalid_request", NothingNew)
/** The branch of the publication is not where Slipway left it. */
export const BranchMoved = onWire(409, "branch_moved", MovedBranch)
/** The changes conflict with the base branch. */
export const MergeConflict = onWire(409, "merge_conflict", Conflict)
export const SourceHostError = onWire(502, "source_host_error", HostFailed)

export const FactConflict = onWire(409, "conflict", Contradiction)
export const ClaimNotFound = onWire(404, "not_found", NoSuchClaim)
export const GrantNotFound = onWire(404, "not_found", NoSuchGrant)

export const TargetRefused = onWire(400, "invalid_request", AddressRefused)
export const TooManyEndpoints = onWire(409, "conflict", EndpointLimit)
export const EndpointNotFound = onWire(404, "not_found", NoSuchEndpoint)
export const TooManyTrustedRefs = onWire(409, "conflict", TrustedRefLimit)
export const TrustedRefNotFound = onWire(404, "not_found", NoSuchTrustedRef)
export const PartnerEventNotFound = onWire(404, "not_found", NoSuchEvent)
