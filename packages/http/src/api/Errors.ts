/**
 * How errors look on the wire: `{ error: { code, message } }`, whatever went wrong (interface 7; decisions, section 1).
 * Each domain error gets its status and code here, once; domain classes know neither.
 */
import { GrantNotFound as NoSuchGrant } from "@slipway/domain/access/AccessStore"
import { AgentDisconnected as WorkerDisconnected } from "@slipway/domain/files/Files"
import {
  FileNotFound as NoSuchFile,
  FileTooLarge as FileAboveLimit,
  IsDirectory as PathIsDirectory,
  NotADirectory as PathIsNoDirectory
} from "@slipway/domain/files/WorkingTrees"
import { BudgetExceeded as BudgetUsedUp } from "@slipway/domain/models/Budget"
import { NoCredits as CreditsUsedUp } from "@slipway/domain/models/Credits"
import {
  ApprovalsUnsupported as NoApprovals,
  InvalidModel as ModelRefused,
  InvalidReasoningEffort as EffortRefused
} from "@slipway/domain/models/ModelCatalogue"
import { FactConflict as Contradiction } from "@slipway/domain/partner/Attribution"
import { ClaimNotFound as NoSuchClaim } from "@slipway/domain/partner/PartnerStore"
import { TargetRefused as AddressRefused } from "@slipway/domain/partner/WebhookSender"
import {
  EndpointNotFound as NoSuchEndpoint,
  PartnerEventNotFound as NoSuchEvent,
  TooManyEndpoints as EndpointLimit
} from "@slipway/domain/partner/WebhookStore"
import { NothingToPublish as NothingNew } from "@slipway/domain/publishing/Publishing"
import { ConcurrencyLimitExceeded as TooManyActive } from "@slipway/domain/sandbox/ActiveSandboxes"
import {
  ApprovalNotFound as NoSuchApproval,
  SandboxNotRunning as NotRunning,
  TurnActive as ActiveTurn
} from "@slipway/domain/sandbox/Command"
import { IdempotencyConflict as KeyConflict } from "@slipway/domain/sandbox/Idempotency"
import { CursorAhead as CursorBeyondHead, CursorExpired as CursorTooOld } from "@slipway/domain/sandbox/SandboxEvents"
import { SandboxNotFound as NoSuchSandbox } from "@slipway/domain/sandbox/SandboxStore"
import { RepoNotFound as NoSuchRepo, RepoRequired as RepoMissing } from "@slipway/domain/sandbox/SelectRepo"
import { FileProtected, InvalidPath as PathInvalid } from "@slipway/domain/source/FileRules"
import { RepoNotAccessible as RepoRefused, SourceHostError as HostFailed } from "@slipway/domain/source/SourceHost"
import { StoreUnavailable as StoreDown } from "@slipway/domain/StoreUnavailable"
import { Schema, SchemaTransformation } from "effect"
import { HttpApiSchema } from "effect/http-api"

const envelope = <const C extends string>(code: C) =>
  Schema.Struct({ error: Schema.Struct({ code: Schema.Literal(code), message: Schema.String }) })

/** A domain error on the wire. `decode` is for clients: it makes the error again from its message. */
const onWire =
  <const C extends string, E extends Error>(status: number, code: C, decode: (message: string) => E) =>
  <S extends Schema.Codec<E, unknown>>(self: S) =>
    envelope(code).pipe(
      Schema.decodeTo(
        Schema.toType(self),
        SchemaTransformation.transform({
          decode: ({ error }) => decode(error.message) as S["Type"],
          encode: (e) => ({ error: { code, message: e.message } })
        })
      ),
      HttpApiSchema.status(status)
    )

// ---------------------------------------------------------------------------------------------------------------
// What HTTP itself refuses, before or around a use case

/** A request that no use case was asked about. `headers`: those that belong to the refusal, in lower case. */
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

const refusal = <const C extends string, const H extends string = never>(status: number, code: C, _headers: ReadonlyArray<H> = []) => {
  const ofThisKind = Schema.toType(Refusal).check(Schema.makeFilter((e: Refusal) => e.status === status && e.code === code))
  return {
    make: (reason: string, ...[headers]: [H] extends [never] ? [] : [headers: Readonly<Record<H, string>>]) =>
      new Refusal({ status, code, reason, headers: headers ?? {} }),
    schema: ofThisKind.pipe(onWire(status, code, (reason) => new Refusal({ status, code, reason, headers: {} })))
  }
}

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

export const StoreUnavailable = StoreDown.pipe(onWire(503, "unavailable", (cause) => new StoreDown({ cause })))
export const SandboxNotFound = NoSuchSandbox.pipe(onWire(404, "not_found", () => new NoSuchSandbox()))
export const ApprovalNotFound = NoSuchApproval.pipe(onWire(404, "not_found", () => new NoSuchApproval()))
export const SandboxNotRunning = NotRunning.pipe(onWire(409, "sandbox_not_running", () => new NotRunning()))
export const TurnActive = ActiveTurn.pipe(onWire(409, "turn_active", () => new ActiveTurn()))

export const ConcurrencyLimitExceeded = TooManyActive.pipe(
  onWire(409, "concurrency_limit_exceeded", () => new TooManyActive({ limit: 0 }))
)
export const IdempotencyConflict = KeyConflict.pipe(onWire(409, "idempotency_conflict", () => new KeyConflict()))
/** Credits are enforced and used up. */
export const NoCredits = CreditsUsedUp.pipe(onWire(402, "no_credits", () => new CreditsUsedUp({ held: false })))
/** A spending budget of the grant, or of the sandbox, is used up. */
export const BudgetExceeded = BudgetUsedUp.pipe(onWire(402, "budget_exceeded", () => new BudgetUsedUp({ of: "grant", held: false })))
export const InvalidModel = ModelRefused.pipe(onWire(400, "invalid_model", (reason) => new ModelRefused({ reason })))
export const InvalidReasoningEffort = EffortRefused.pipe(
  onWire(400, "invalid_reasoning_effort", (model) => new EffortRefused({ model, efforts: [] }))
)
export const ApprovalsUnsupported = NoApprovals.pipe(onWire(400, "approvals_unsupported", (model) => new NoApprovals({ model })))

export const CursorAhead = CursorBeyondHead.pipe(onWire(400, "invalid_cursor", () => new CursorBeyondHead()))
export const CursorExpired = CursorTooOld.pipe(onWire(410, "cursor_expired", () => new CursorTooOld()))

export const InvalidPath = PathInvalid.pipe(onWire(400, "invalid_path", () => new PathInvalid()))
export const IsDirectory = PathIsDirectory.pipe(onWire(400, "is_directory", () => new PathIsDirectory()))
export const NotADirectory = PathIsNoDirectory.pipe(onWire(400, "not_a_directory", () => new PathIsNoDirectory()))
export const ProtectedFile = FileProtected.pipe(onWire(403, "file_protected", () => new FileProtected()))
export const FileNotFound = NoSuchFile.pipe(onWire(404, "file_not_found", () => new NoSuchFile()))
export const FileTooLarge = FileAboveLimit.pipe(onWire(413, "file_too_large", () => new FileAboveLimit({ maximumBytes: 0 })))
export const AgentDisconnected = WorkerDisconnected.pipe(onWire(409, "agent_disconnected", () => new WorkerDisconnected()))

export const RepoRequired = RepoMissing.pipe(onWire(400, "repo_required", () => new RepoMissing()))
export const RepoNotFound = NoSuchRepo.pipe(onWire(404, "repo_not_found", () => new NoSuchRepo()))
export const RepoNotAccessible = RepoRefused.pipe(onWire(403, "repo_not_accessible", (repo) => new RepoRefused({ repo })))
export const NothingToPublish = NothingNew.pipe(onWire(409, "invalid_request", () => new NothingNew()))
export const SourceHostError = HostFailed.pipe(
  onWire(502, "source_host_error", (detail) => new HostFailed({ operation: "answer", detail, retryable: true }))
)

export const FactConflict = Contradiction.pipe(onWire(409, "conflict", (about) => new Contradiction({ about })))
export const ClaimNotFound = NoSuchClaim.pipe(onWire(404, "not_found", (claimId) => new NoSuchClaim({ claimId })))
export const GrantNotFound = NoSuchGrant.pipe(onWire(404, "not_found", (grant) => new NoSuchGrant({ grant })))

export const TargetRefused = AddressRefused.pipe(onWire(400, "invalid_request", (reason) => new AddressRefused({ reason })))
export const TooManyEndpoints = EndpointLimit.pipe(onWire(409, "conflict", () => new EndpointLimit()))
export const EndpointNotFound = NoSuchEndpoint.pipe(onWire(404, "not_found", () => new NoSuchEndpoint()))
export const PartnerEventNotFound = NoSuchEvent.pipe(onWire(404, "not_found", () => new NoSuchEvent()))
