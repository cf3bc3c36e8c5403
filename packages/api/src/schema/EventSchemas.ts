/**
 * The events of a sandbox on the wire, one schema for each type, for the OpenAPI document alone. They encode and decode nothing: the
 * log keeps events as they are sent, and clients decode them with the open `EventEnvelope`.
 */
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { TokenCounts } from "@slipway/domain/models/schema/Usage"
import { QuestionRequest } from "@slipway/domain/sandbox/schema/Question"
import { ApprovalRequest, QueuedMessage, SandboxEvent } from "@slipway/domain/sandbox/schema/SandboxEvent"
import { TurnState } from "@slipway/domain/sandbox/schema/Turn"
import { timestamp } from "@slipway/domain/time/Timestamp"
import { Schema } from "effect"
import { HttpApi, HttpApiEndpoint, HttpApiGroup, OpenApi } from "effect/http-api"
import { SandboxResource } from "./SandboxResource.ts"

const event = <const T extends string>(type: T, more: Schema.Struct.Fields, data: Schema.Top) =>
  Schema.Struct({
    object: Schema.Literal("sandbox.event").annotateKey({ description: "Always `sandbox.event`." }),
    version: Schema.Literal("v1").annotateKey({ description: "Always `v1`." }),
    ...more,
    ts: timestamp("When it happened."),
    sandbox_id: SandboxId.annotateKey({ description: "The sandbox it happened in." }),
    type: Schema.Literal(type).annotateKey({ description: "What happened." }),
    data: data.annotateKey({ description: "What there is to know of it." })
  })

const id = Schema.String.annotateKey({ description: "Digits: the cursor that resumes after this event." })

const durable = SandboxEvent.members.map(({ fields: { data, turn_id, type: { literal } } }) => {
  if (literal !== "sandbox.status") return event(literal, { id, turn_id }, data)
  // On connecting, a stream tells the status alone, and that is not in the log.
  const { initiator, previous, reason, status } = SandboxEvent.members[0].fields.data.fields
  return event(
    literal,
    { id: Schema.optionalKey(id), turn_id },
    Schema.Struct({
      status,
      previous: Schema.optionalKey(previous),
      reason: Schema.optionalKey(reason),
      initiator: Schema.optionalKey(initiator)
    })
  )
})

const resumeCursor = Schema.String.annotateKey({ description: "Digits: the cursor that resumes after this event." })

const transient = [
  event(
    "snapshot",
    {},
    Schema.Struct({
      sandbox: SandboxResource.annotateKey({ description: "All of the sandbox." }),
      turn: Schema.NullOr(Schema.Struct({
        id: Schema.String.annotateKey({ description: "Names the turn." }),
        state: TurnState.annotateKey({ description: "Where it is." })
      })).annotateKey({ description: "The newest turn; `null` before the first." }),
      tokens: TokenCounts.annotateKey({ description: "Totals of the sandbox in tokens, as `usage.updated` tells them." }),
      resume_cursor: resumeCursor,
      pending_approvals: Schema.Array(ApprovalRequest).annotateKey({ description: "What waits for a decision." }),
      pending_questions: Schema.Array(QuestionRequest).annotateKey({ description: "What waits for an answer." }),
      waiting_messages: Schema.Array(QueuedMessage).annotateKey({
        description: "Waiting messages in order, with their current `position`."
      })
    })
  ),
  event(
    "stream.resync",
    {},
    Schema.Struct({
      reason: Schema.Literals(["shutdown", "slow_reader"]).annotateKey({ description: "Why the stream ends here." }),
      resume_cursor: resumeCursor
    })
  )
]

const Api = HttpApi.make("events").add(
  HttpApiGroup.make("events").add(
    HttpApiEndpoint.get("event", "/", { success: Schema.Union([...durable, ...transient]).annotate({ identifier: "Event" }) })
  )
)

/** JSON Schema of every event, in the order of the domain. The document already has the schemas that they refer to. */
export const eventSchemas = (): ReadonlyArray<object> => {
  const { Event } = OpenApi.fromApi(Api).components.schemas
  return (Event as { readonly anyOf?: ReadonlyArray<object> } | undefined)?.anyOf ?? []
}
