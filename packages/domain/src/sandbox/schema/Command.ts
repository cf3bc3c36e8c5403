/** The inputs and answers of people's commands, as they are sent. */
import * as Schema from "effect/Schema"
import * as SchemaTransformation from "effect/SchemaTransformation"
import { Counter, text } from "../../text/Text.ts"

/** Characters of a prompt. */
export const MAX_PROMPT = 60_000

/** 1 to 60000 characters. */
export const Prompt = text(1, MAX_PROMPT)

/** Characters of a title. */
export const MAX_TITLE = 120

/** The title of a sandbox for people: 1 to 120 characters. */
export const Title = text(1, MAX_TITLE)

/** The id of a sandbox's message: the `turnId` that sending it returned. Case is ignored. */
export const MessageId = Schema.String.check(Schema.isUUID()).pipe(Schema.decode(SchemaTransformation.toLowerCase()))

/** Why a command has no effect (docs/decisions/3). Retrying does not help. */
export const Rejection = Schema.Literals([
  "sandbox_terminal",
  "no_active_turn",
  "approval_expired",
  "approval_already_resolved",
  "question_expired",
  "question_already_answered",
  "turn_active",
  "restore_active"
])
export type Rejection = typeof Rejection.Type

/** The answer to a command (docs/interface.md 2.4). `rejection` is present iff the outcome is `rejected`. */
export const CommandResult = Schema.Struct({
  commandId: Schema.String.check(Schema.isUUID()).annotateKey({ description: "The id of the command; a repetition has the same id." }),
  revision: Counter.annotateKey({ description: "The revision of the sandbox after the command. A rejected command does not change it." }),
  outcome: Schema.Literals(["applied", "duplicate", "rejected"]).annotateKey({
    description: "`applied`: this request did it; `duplicate`: an equal one had done it; `rejected`: not allowed now."
  }),
  rejection: Schema.optionalKey(Rejection).annotateKey({ description: "The reason; present exactly if the outcome is `rejected`." })
}).annotate({ identifier: "CommandResult" })
export type CommandResult = typeof CommandResult.Type
