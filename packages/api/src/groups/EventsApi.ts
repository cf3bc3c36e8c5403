/** The event log of a sandbox, by page and live (docs/interface.md 4.8, 4.9; docs/decisions/5). */
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { CursorAhead, CursorExpired, InvalidCursor, SandboxNotFound } from "../shared/Errors.ts"
import { Authenticated } from "../shared/Middleware.ts"
import { Cursor, inSandbox, Limit } from "../shared/Parameters.ts"
import { Area, NeededScope, WithoutHead } from "../shared/Routing.ts"

/**
 * An event as clients read it. Open on purpose: event types and `data` fields are added over time, and a client must
 * ignore those it does not know.
 */
export const EventEnvelope = Schema.Struct({
  object: Schema.Literal("sandbox.event"),
  version: Schema.Literal("v1"),
  /** Set on durable events: the cursor that resumes after this one. */
  id: Schema.optionalKey(Schema.String),
  ts: Schema.String,
  sandbox_id: SandboxId,
  type: Schema.String,
  /** Set inside a turn. */
  turn_id: Schema.optionalKey(Schema.String),
  data: Schema.Record(Schema.String, Schema.Json)
}).annotate({ identifier: "SandboxEventEnvelope" })
/** The event as it is on the wire: nothing is decoded. */
export type EventEnvelope = typeof EventEnvelope.Type

/** A page of durable events. */
export const EventPage = Schema.Struct({
  data: Schema.Array(EventEnvelope).annotateKey({ description: "In the order they happened." }),
  nextCursor: Schema.String.annotateKey({ description: "The id of the last event, or `after` when there was none." })
}).annotate({ identifier: "SandboxEventPage" })

/** The event log, by page and as a stream. */
export class EventsApi extends HttpApiGroup.make("events", { topLevel: true })
  .add(
    HttpApiEndpoint.get("listEvents", "/", {
      params: inSandbox,
      query: { after: Schema.optionalKey(Cursor), limit: Schema.optionalKey(Limit) },
      success: EventPage,
      error: [SandboxNotFound, InvalidCursor.schema, CursorAhead, CursorExpired]
    }).annotateMerge(OpenApi.annotations({
      summary: "List events",
      description: "Durable events after a cursor, oldest first: for what a stream missed."
    })),
    HttpApiEndpoint.get("streamEvents", "/stream", {
      params: inSandbox,
      query: { since: Schema.optionalKey(Cursor) },
      headers: { "last-event-id": Schema.optionalKey(Cursor) },
      success: [HttpApiSchema.StreamUint8Array({ contentType: "text/event-stream" }), HttpApiSchema.NoContent],
      error: [SandboxNotFound, InvalidCursor.schema, CursorAhead, CursorExpired]
    }).annotate(Area, "stream").annotate(WithoutHead, true).annotateMerge(OpenApi.annotations({
      summary: "Stream events",
      description: "Server-Sent Events; the `data` of each is a `SandboxEventEnvelope`. A fresh connection gets a snapshot and " +
        "then what happens next. With a cursor it gets everything after it, and no snapshot. Durable events carry an `id`; " +
        "`Last-Event-ID` wins over `since`. The stream of a finished sandbox ends; resuming it at its end gives 204."
    }))
  )
  .prefix("/api/public/v1/sandboxes/:sandboxId/events")
  .middleware(Authenticated)
  .annotate(NeededScope, "sandboxes")
  .annotate(Area, "events")
  .annotateMerge(OpenApi.annotations({ title: "Events", description: "What happens in a sandbox, by page and live." }))
{}
