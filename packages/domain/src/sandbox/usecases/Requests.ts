/**
 * Decodes requests about sandboxes for callers without schemas of their own. The first invalid field gives an `InvalidRequest`.
 */
import * as Effect from "effect/Effect"
import type * as Schema from "effect/Schema"
import { reader } from "../../text/InvalidRequest.ts"
import { Counter } from "../../text/Text.ts"
import { ApprovalDecision, ApprovalId } from "../schema/Approval.ts"
import { MessageId, Prompt, Title } from "../schema/Command.ts"
import { IdempotencyKey } from "../schema/Idempotency.ts"
import { WhenBusy } from "../schema/MessageQueue.ts"
import { QuestionId, QuestionReply } from "../schema/Question.ts"
import { CreateSandbox, ForkSandbox } from "./CreateSandbox.ts"

const decoder = <A, I>(schema: Schema.Codec<A, I>, name: string) => {
  const read = reader(schema, name)
  return (given: unknown) => Effect.fromResult(read(given))
}

/** The body of a creation. */
export const creation = decoder(CreateSandbox, "request")
/** The body of a fork. */
export const fork = decoder(ForkSandbox, "request")
/** The text of a message. */
export const prompt = decoder(Prompt, "prompt")
/** The title of a sandbox. */
export const title = decoder(Title, "title")
/** The treatment of a message while a turn is active. */
export const whenBusy = decoder(WhenBusy, "whenBusy")
/** The id of a message, in any case. */
export const messageId = decoder(MessageId, "messageId")
/** The id of an approval. */
export const approvalId = decoder(ApprovalId, "approvalId")
/** The body of a decision. */
export const decision = decoder(ApprovalDecision, "decision")
/** The id of a request for answers. */
export const questionId = decoder(QuestionId, "questionId")
/** The body of a reply to a request for answers. */
export const questionReply = decoder(QuestionReply, "reply")
/** The number of a checkpoint. */
export const checkpoint = decoder(Counter, "checkpoint")

const readKey = decoder(IdempotencyKey, "idempotency-key")

/** Decodes an Idempotency-Key. `undefined`: the request has none. */
export const idempotencyKey = (given: unknown) => given === undefined ? Effect.succeedNone : Effect.asSome(readKey(given))
