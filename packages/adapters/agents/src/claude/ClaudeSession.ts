/** An agent that speaks claude's stream-json protocol: messages, and control requests in both directions beside them. */
import type { AgentError, AgentSession, AgentSessionOptions } from "@slipway/domain/sandbox/ports/AgentRuntime"
import type { BoxProcess } from "@slipway/domain/sandbox/ports/SandboxHost"
import { Effect, Option, Schema, type Scope } from "effect"
import * as Conversation from "../Conversation.ts"
import * as JsonLines from "../stdio/JsonLines.ts"
import { reason } from "../stdio/JsonRpc.ts"
import * as WorkspacePaths from "../WorkspacePaths.ts"
import * as Claude from "./Claude.ts"
import { handle } from "./ClaudeFrames.ts"
import { type Approval, type ClaudeState, interrupt, request, reset, respond, say } from "./ClaudeState.ts"

const decode = Schema.decodeUnknownOption(Claude.Message)

/** The text in claude's standard error before it exits. */
const NO_SUCH_SESSION = "No conversation found"

/** For an output that ended before the session began. */
const gone = (process: BoxProcess, { resume }: AgentSessionOptions, conversation: Conversation.Conversation<Approval>) =>
  Effect.fnUntraced(function*(ended: JsonLines.OutputEnded) {
    const error = yield* Effect.flip(conversation.gone("open")(ended))
    const unknown = resume !== null && (yield* process.stderrTail).includes(NO_SUCH_SESSION)
    return yield* unknown ? conversation.fail("open", "there is no such session to resume", false) : error
  })

const start = Effect.fnUntraced(function*(state: ClaudeState, next: Effect.Effect<void, AgentError>) {
  const { answers, conversation } = state
  const id = yield* request(state, "initialize")
  while (!answers.has(id)) yield* next
  const refusal = answers.get(id) ?? null
  if (refusal !== null) return yield* conversation.fail("open", `initialize was refused: ${reason(refusal)}`, false)
})

const answer = (state: ClaudeState, { input, request: asked }: Approval, decision: Conversation.Decision, why?: string) =>
  // The denial ends the turn, and the texts behind it would begin the next one before the interrupt is read.
  Effect.andThen(
    decision === "cancel"
      ? Effect.forEach(state.untold, (id) => request(state, "cancel_async_message", { message_uuid: id }), { discard: true })
      : Effect.void,
    respond(state, asked, {
      subtype: "success",
      response: decision === "approve"
        ? { behavior: "allow", updatedInput: input }
        : decision === "deny"
        ? { behavior: "deny", message: why === undefined ? "Denied by the user." : `Denied. ${why}` }
        : { behavior: "deny", message: "Interrupted.", interrupt: true }
    })
  )

/** Begins a session over the standard input and output of `process`, which must end with the same scope. */
export const open = Effect.fn("ClaudeSession.open")(function*(
  process: BoxProcess,
  options: AgentSessionOptions
): Effect.fn.Return<AgentSession, AgentError, Scope.Scope> {
  const lines = yield* JsonLines.make(process)
  const conversation = yield* Conversation.make<Approval>(process, options)
  const state: ClaudeState = {
    lines,
    conversation,
    paths: WorkspacePaths.of(options.box.workspace),
    asks: options.toolApprovalMode === "prompt",
    sequence: 0,
    answers: new Map(),
    sessionId: options.resume,
    messageId: "",
    requests: 0,
    costBefore: options.resume === null ? 0 : null,
    spent: 0,
    untold: new Set(),
    unreported: new Map(),
    taskCalls: new Map(),
    tasks: new Map(),
    provisional: null
  }
  const next = Effect.flatMap(
    lines.receive,
    (value) => Option.match(decode(value), { onNone: () => Effect.void, onSome: (message) => handle(state, message) })
  )
  yield* conversation.starting(start(state, next.pipe(Effect.catch(gone(process, options, conversation)))))

  return yield* conversation.session({
    sessionId: Effect.sync(() => state.sessionId),
    send: (text, images) =>
      Effect.suspend(() => {
        reset(state)
        return say(state, text, images)
      }),
    next,
    cancel: interrupt(state),
    steer: (id, text, images) =>
      Effect.suspend(() => {
        state.untold.add(id)
        return say(state, text, images, { uuid: id })
      }),
    answer: (approval, decision, why) => answer(state, approval, decision, why)
  })
})
