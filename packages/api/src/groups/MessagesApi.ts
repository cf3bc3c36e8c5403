/** The conversation of a sandbox (docs/decisions/8). */
import { CommandResult, MessageId, Prompt } from "@slipway/domain/sandbox/schema/Command"
import { WhenBusy } from "@slipway/domain/sandbox/schema/MessageQueue"
import { AttachedFile, FileRefs } from "@slipway/domain/sandbox/schema/PromptFile"
import { timestamp } from "@slipway/domain/time/Timestamp"
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import {
  BudgetExceeded,
  CursorAhead,
  FilesUnsupported,
  IdempotencyConflict,
  InvalidCursor,
  InvalidIdempotencyKey,
  MessageNotFound,
  MessageNotWaiting,
  NoCredits,
  PromptFileNotFound,
  QueueFull,
  SandboxNotFound,
  SandboxNotRunning,
  SteeringUnsupported,
  TooManyFiles,
  TurnActive
} from "../shared/Errors.ts"
import { Authenticated, JsonBody } from "../shared/Middleware.ts"
import { Cursor, inSandbox, Limit } from "../shared/Parameters.ts"
import { Area, NeededScope } from "../shared/Routing.ts"
import { idempotencyHeader } from "./SandboxesApi.ts"

/** The body of a message to the agent. */
export const SendMessage = Schema.Struct({
  prompt: Prompt.annotateKey({ description: "What the agent is to do next." }),
  whenBusy: Schema.optionalKey(WhenBusy).annotateKey({
    description: "What becomes of it while a turn is active. `reject` (default): 409 `turn_active`. `queue`: it waits for a turn of its " +
      "own, after those that wait already. `steer`: the agent of the active turn has it as soon as it can take it; if the turn ends " +
      "first, it is the next turn."
  }),
  files: Schema.optionalKey(FileRefs).annotateKey({
    description: "Uploaded files for it: at most 10. The agent finds them below its home, and sees images if its model can."
  })
}).annotate({ identifier: "SendMessage" })

/** The answer to a message, and to taking one back. */
export const MessageResult = Schema.Struct({
  ...CommandResult.fields,
  turnId: Schema.String.check(Schema.isUUID()).annotateKey({
    description: "The turn the message starts, or waits for. It names the message too."
  })
}).annotate({ identifier: "MessageResult" })

/** The result of a new message. */
export class Sent extends Schema.Class<Sent>("MessageSent")({ result: MessageResult }) {}
/** The result of an equal message that was sent before. */
export class SentBefore extends Schema.Class<SentBefore>("MessageSentBefore")({ result: MessageResult }) {}

const sent = Sent.pipe(HttpApiSchema.encodeToWithHeaders({
  body: MessageResult.pipe(HttpApiSchema.status(201)),
  headers: {}
}, {
  decode: ({ body }) => new Sent({ result: body }),
  encode: ({ result }) => ({ body: result, headers: {} })
}))

const sentBefore = SentBefore.pipe(HttpApiSchema.encodeToWithHeaders({
  body: MessageResult,
  headers: { "idempotent-replayed": Schema.Literal("true") }
}, {
  decode: ({ body }) => new SentBefore({ result: body }),
  encode: ({ result }) => ({ body: result, headers: { "idempotent-replayed": "true" as const } })
}))

/** A message of the conversation, from a person or the agent. */
export const MessageResource = Schema.Struct({
  id: Schema.String.annotateKey({
    description: "Of a prompt its `prompt_id`; of an answer, and of a message that an agent took into the active turn, its `message_id`."
  }),
  turnId: Schema.String.annotateKey({ description: "The turn it belongs to." }),
  role: Schema.Literals(["user", "assistant"]).annotateKey({ description: "Who said it." }),
  text: Schema.String.annotateKey({ description: "All of it." }),
  files: Schema.Array(AttachedFile).annotateKey({ description: "The files of a prompt; else empty." }),
  createdAt: timestamp("When it was whole.")
}).annotate({ identifier: "Message" })

/** A page of the conversation, oldest message first. */
export const MessagePage = Schema.Struct({
  data: Schema.Array(MessageResource).annotateKey({ description: "Oldest first." }),
  nextCursor: Schema.NullOr(Schema.String).annotateKey({ description: "The `after` of the next page; `null` on the last page." })
}).annotate({ identifier: "MessagePage" })

/** Sends, lists and takes back messages. */
export class MessagesApi extends HttpApiGroup.make("messages", { topLevel: true })
  .add(
    HttpApiEndpoint.post("sendMessage", "/", {
      params: inSandbox,
      headers: idempotencyHeader,
      payload: SendMessage,
      success: [sent, sentBefore],
      error: [
        InvalidIdempotencyKey.schema,
        NoCredits,
        BudgetExceeded,
        SandboxNotFound,
        SandboxNotRunning,
        TurnActive,
        QueueFull,
        SteeringUnsupported,
        FilesUnsupported,
        PromptFileNotFound,
        TooManyFiles,
        IdempotencyConflict
      ]
    }).middleware(JsonBody).annotateMerge(OpenApi.annotations({
      summary: "Send a message",
      description: "Starts the next turn of a running sandbox. While a turn is active, `whenBusy` says what becomes of it; at most 10 " +
        "messages wait."
    })),
    HttpApiEndpoint.delete("cancelMessage", "/:messageId", {
      params: { ...inSandbox, messageId: MessageId },
      success: CommandResult,
      error: [SandboxNotFound, MessageNotFound, MessageNotWaiting]
    }).annotateMerge(OpenApi.annotations({
      summary: "Take back a message that waits",
      description: "`messageId` is the `turnId` that sending it answered. Safe to repeat: later calls answer `duplicate`. 409 " +
        "`message_not_waiting` once its turn began or an agent has it; the message says which."
    })),
    HttpApiEndpoint.get("listMessages", "/", {
      params: inSandbox,
      query: { after: Schema.optionalKey(Cursor), limit: Schema.optionalKey(Limit) },
      success: MessagePage,
      error: [SandboxNotFound, InvalidCursor.schema, CursorAhead]
    }).annotateMerge(OpenApi.annotations({
      summary: "List messages",
      description: "Prompts and the agent's complete messages, oldest first."
    }))
  )
  .prefix("/api/public/v1/sandboxes/:sandboxId/messages")
  .middleware(Authenticated)
  .annotate(NeededScope, "sandboxes")
  .annotate(Area, "messages")
  .annotateMerge(OpenApi.annotations({ title: "Messages", description: "The conversation of a sandbox." }))
{}
