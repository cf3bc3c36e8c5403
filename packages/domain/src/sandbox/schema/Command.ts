/** The inputs and answers of people's commands, as they are sent. */
import * as Schema from "effect/Schema"
import * as SchemaTransformation from "effect/SchemaTransformation"
import { Counter, text } from "../../text/Text.ts"

/** Characters of a prompt. */
export const MAX_PROMPT = 60_000

/** 1 to 60000 characters. */
export const Prompt = text(1, MAX_PROMPT)

/** The id of a sandbox's message: the `turnId` that sending it returned. Case is ignored. */
export const MessageId = Schema.String.check(Schema.isUUID()).pipe(Schema.decode(SchemaTransformation.toLowerCase()))

/** Why a command has no effect (docs/decisions/3). Retrying does not help. */
export const Rejection = Schema.Literals([
  "sandbox_terminal",
  "no_active_turn",
  "approval_expired",
  "approval_already_resolved",
  "turn_active",
  "restore_active"
])
export type Rejection = typeof Rejection.Type

/** The answer to a command (docs/interface.md 2.4). `rejection` is present iff the outcome is `rejected`. */
export const CommandResult = Schema.Struct({
  commandId: Schema.String.check(Schema.isUUID()).annotateKey({ description: "Names the command: repeating it gives the same id." }),
  revision: Counter.annotateKey({ description: "Of the sandbox after the command; unchanged by a rejected one." }),
  outcome: Schema.Literals(["applied", "duplicate", "rejected"]).annotateKey({
    description: "`applied`: this request did it; `duplicate`: an equal one did before; `rejected`: it is not legal now."
  }),
  rejection: Schema.optionalKey(Rejection).annotateKey({ description: "Why, where the outcome is `rejected`; else left out." })
}).annotate({ identifier: "CommandResult" })
export type CommandResult = typeof CommandResult.Type
