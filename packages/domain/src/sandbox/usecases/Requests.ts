/** Decodes requests about sandboxes for callers that have no schemas of their own. The first fault is an `InvalidRequest`. */
import * as Effect from "effect/Effect"
import type * as Schema from "effect/Schema"
import { reader } from "../../text/InvalidRequest.ts"
import { Counter } from "../../text/Text.ts"
import { ApprovalDecision, ApprovalId } from "../schema/Approval.ts"
import { MessageId, Prompt } from "../schema/Command.ts"
import { IdempotencyKey } from "../schema/Idempotency.ts"
import { WhenBusy } from "../schema/MessageQueue.ts"
import { CreateSandbox, ForkSandbox } from "./CreateSandbox.ts"

const decoder = <A, I>(schema: Schema.Codec<A, I>, name: string) => {
  const read = reader(schema, name)
  return (given: unknown) => Effect.fromResult(read(given))
}

export const creation = decoder(CreateSandbox, "request")
export const fork = decoder(ForkSandbox, "request")
export const prompt = decoder(Prompt, "prompt")
export const whenBusy = decoder(WhenBusy, "whenBusy")
export const messageId = decoder(MessageId, "messageId")
export const approvalId = decoder(ApprovalId, "approvalId")
export const decision = decoder(ApprovalDecision, "decision")
export const checkpoint = decoder(Counter, "checkpoint")

const readKey = decoder(IdempotencyKey, "idempotency-key")

/** `undefined`: the request has none. */
export const idempotencyKey = (given: unknown) => given === undefined ? Effect.succeedNone : Effect.asSome(readKey(given))
