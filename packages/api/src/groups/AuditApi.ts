/** The audit log of the service, for programs that keep or watch it. Not part of the public interface and its document. */
import { Action, Actor, Origin } from "@slipway/domain/access/schema/SecurityEvent"
import { Timestamp } from "@slipway/domain/time/Timestamp"
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { Authenticated } from "../shared/Middleware.ts"
import { Cursor } from "../shared/Parameters.ts"
import { Area, NeededScope } from "../shared/Routing.ts"

/** Entries of one answer. */
export const MAX_AUDIT_LINES = 100_000

/** One line. Open on purpose: actions and subjects are added over time. */
export const AuditLine = Schema.Struct({
  cursor: Schema.String,
  at: Timestamp,
  actor: Actor,
  action: Action,
  subjects: Schema.Record(Schema.String, Schema.String),
  origin: Schema.NullOr(Origin)
})

/** Exports the log. Needs the scope `audit:read`. */
export class AuditApi extends HttpApiGroup.make("audit", { topLevel: true })
  .add(
    HttpApiEndpoint.get("exportAudit", "/", {
      query: { since: Schema.optionalKey(Timestamp), after: Schema.optionalKey(Cursor) },
      success: HttpApiSchema.StreamUint8Array({ contentType: "application/x-ndjson" })
    }).annotateMerge(OpenApi.annotations({
      summary: "Export the audit log",
      description:
        "The entries of all organizations that are not older than `since`, one JSON object a line, oldest first: `cursor`, `at`, " +
        "`actor`, `action`, `subjects` and `origin`. An answer has at most 100,000 lines: go on with the `cursor` of the last one " +
        "as `after`, until an answer is empty. Entries of the last ten seconds come later."
    }))
  )
  .prefix("/api/internal/v1/audit")
  .middleware(Authenticated)
  .annotate(NeededScope, "audit:read")
  .annotate(Area, "internal")
  .annotateMerge(OpenApi.annotations({ title: "Audit", description: "The audit log of the service. Needs the scope `audit:read`." }))
{}
