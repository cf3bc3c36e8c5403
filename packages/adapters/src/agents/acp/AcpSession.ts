/**
 * An agent that speaks ACP version 1. Own JSON-RPC instead of the SDK's client, which runs handlers at the same time:
 * here a frame is handled, `onEvent` included, before the next is read. The SDK gives the types of what is sent.
 */
import type {
  CancelNotification,
  InitializeRequest,
  NewSessionRequest,
  PromptRequest,
  RequestPermissionResponse,
  ResumeSessionRequest,
  SetSessionConfigOptionRequest
} from "@agentclientprotocol/sdk"
import { Duration, Effect, Option, Schema, type Scope, Semaphore } from "effect"
import {
  AgentError,
  type AgentEvent,
  type AgentSession,
  type AgentSessionOptions,
  type TurnEnd
} from "@slipway/domain/sandbox/AgentRuntime"
import type { BoxProcess } from "@slipway/domain/sandbox/SandboxHost"
import * as JsonLines from "../stdio/JsonLines.ts"
import * as JsonRpc from "../stdio/JsonRpc.ts"
import * as TurnEvents from "../TurnEvents.ts"
import * as Acp from "./Acp.ts"

/** A cold start of the slowest agent takes 3.5 s, twice that in a cold home (agents.md, section 12). */
const START_WITHIN = Duration.minutes(1)
/** Times of the polite part of the end (agents.md, section 11); what is left after them is the box's to kill. */
const INTERRUPT_WITHIN = Duration.seconds(1)
const EXIT_WITHIN = Duration.seconds(2)

const MAX_REASON_CHARACTERS = 300

const cancelled: RequestPermissionResponse = { outcome: { outcome: "cancelled" } }

const initialize: InitializeRequest = {
  protocolVersion: 1,
  clientCapabilities: { fs: { readTextFile: false, writeTextFile: false }, terminal: false },
  clientInfo: { name: "slipway", title: "Slipway", version: "0.0.0" }
}

interface Approval {
  readonly request: JsonRpc.RequestId
  readonly nativeCallId: string
  readonly options: (typeof Acp.PermissionRequest.Type)["options"]
}

/** One running prompt. */
interface Turn {
  readonly events: TurnEvents.TurnEvents
  readonly emit: (events: ReadonlyArray<AgentEvent>) => Effect.Effect<void>
  readonly approvals: Map<string, Approval>
  /** False before the prompt is on its way: what arrives until then is not about it, and a cancel would be ignored. */
  sent: boolean
  interrupted: boolean
  denied: boolean
}

const describeExit = ({ code, signal }: Effect.Success<BoxProcess["exited"]>) =>
  signal === null ? `the agent exited with code ${code}` : `the agent was ended by ${signal}`

/** Agents put the useful sentence into `data` or into its `message`. */
const describeRefusal = ({ data, message }: JsonRpc.RpcRefusal): string => {
  const detail = typeof data === "string" ? data : Option.getOrElse(decodeMessage(data), () => ({ message })).message
  return detail.toWellFormed().replaceAll("\0", "").slice(0, MAX_REASON_CHARACTERS).toWellFormed()
}
const decodeMessage = Schema.decodeUnknownOption(Schema.Struct({ message: Schema.String }))
const decodeUpdate = Schema.decodeUnknownOption(Acp.SessionUpdate)
const decodePermission = Schema.decodeUnknownOption(Acp.PermissionRequest)

/** Begins a session over the standard input and output of `process`, which must end with the same scope. */
export const open = Effect.fn("AcpSession.open")(function*(
  process: BoxProcess,
  options: AgentSessionOptions
): Effect.fn.Return<AgentSession, AgentError, Scope.Scope> {
  const rpc = JsonRpc.make(yield* JsonLines.make(process))
  /** Held by whoever reads from the agent. */
  const reading = yield* Semaphore.make(1)
  let turn: Turn | null = null

  const fail = (operation: AgentError["operation"], detail: string, retryable: boolean) =>
    new AgentError({ runtime: options.profile, operation, detail, retryable })

  const ended = (operation: AgentError["operation"]) =>
    Effect.fnUntraced(function*({ reason }: JsonLines.OutputEnded) {
      if (reason === "line too long") return yield* fail(operation, "the agent sent a message without end", false)
      // The output usually ends just before the process does.
      const exit = yield* Effect.timeoutOption(process.exited, EXIT_WITHIN)
      yield* Effect.logWarning("agent ended", {
        profile: options.profile,
        sandboxId: options.box.sandboxId,
        stderr: yield* process.stderrTail
      })
      return yield* fail(
        operation,
        Option.match(exit, { onNone: () => "the agent closed its output", onSome: describeExit }),
        true
      )
    })

  const decode = <A>(
    schema: Schema.Decoder<A>,
    operation: AgentError["operation"],
    value: unknown
  ): Effect.Effect<A, AgentError> =>
    Effect.mapError(Schema.decodeUnknownEffect(schema)(value), () =>
      fail(operation, "the agent answered with something that is not ACP", false)
    )

  const prefix = `${options.box.workspace}/`
  const report = ({ kind, locations, status, title }: Acp.ToolCall): TurnEvents.ToolReport => ({
    title: title?.replaceAll(prefix, ""),
    kind: typeof kind === "string" ? (Acp.toolKinds[kind] ?? "other") : undefined,
    // The workspace itself is where a command runs, not what it is about.
    paths: locations
      ?.filter(({ path }) => path !== options.box.workspace)
      .map(({ path }) => (path.startsWith(prefix) ? path.slice(prefix.length) : path)),
    status: typeof status === "string" ? Acp.toolStatuses[status] : undefined
  })

  /** Finds the option by its kind, never by its id; `*_always` would take later decisions away from the person. */
  const answer = ({ options: offered, request }: Approval, decision: "approve" | "deny") => {
    const option = offered.find(({ kind }) => kind === (decision === "approve" ? "allow_once" : "reject_once"))
    const response: RequestPermissionResponse =
      option === undefined ? cancelled : { outcome: { outcome: "selected", optionId: option.optionId } }
    return rpc.reply(request, response)
  }

  const handlers: JsonRpc.Handlers = {
    notified: (method, params) => {
      if (method !== "session/update" || turn === null || !turn.sent) return Effect.void
      const decoded = decodeUpdate(params)
      // Other sessions are sub-agents; other updates do not concern a turn.
      if (Option.isNone(decoded) || decoded.value.sessionId !== sessionId) return Effect.void
      const { update } = decoded.value
      return turn.emit(
        "toolCallId" in update
          ? turn.events.tool(update.toolCallId, report(update))
          : turn.events.chunk(
              update.sessionUpdate === "agent_message_chunk" ? "text" : "reasoning",
              update.messageId ?? null,
              update.content.text ?? ""
            )
      )
    },
    requested: (request, method, params) => {
      // Also `fs/*`, which some agents try although we say that we have no such thing; they then do it themselves.
      if (method !== "session/request_permission") {
        return rpc.refuse(request, JsonRpc.METHOD_NOT_FOUND, `method not found: ${method}`)
      }
      const decoded = decodePermission(params)
      if (
        Option.isNone(decoded) ||
        decoded.value.sessionId !== sessionId ||
        turn === null ||
        !turn.sent ||
        turn.interrupted
      ) {
        return rpc.reply(request, cancelled)
      }
      const { options: offered, toolCall } = decoded.value
      const approval: Approval = { request, nativeCallId: toolCall.toolCallId, options: offered }
      if (options.toolApprovalMode === "auto") return answer(approval, "approve")
      const { approvalId, events } = turn.events.ask(toolCall.toolCallId, report(toolCall))
      turn.approvals.set(approvalId, approval)
      return turn.emit(events)
    }
  }

  const call = (method: string, params: object) =>
    Effect.andThen(rpc.begin(method, params), rpc.outcome(handlers)).pipe(
      Effect.catchTags({
        OutputEnded: ended("open"),
        RpcRefusal: (refusal) => Effect.fail(fail("open", `${method} was refused: ${describeRefusal(refusal)}`, false))
      })
    )

  const start = Effect.gen(function*() {
    yield* call("initialize", initialize)
    const cwd = options.box.workspace
    const opened =
      options.resume === null
        ? yield* call("session/new", { cwd, mcpServers: [] } satisfies NewSessionRequest)
        : yield* call("session/resume", {
            sessionId: options.resume,
            cwd,
            mcpServers: []
          } satisfies ResumeSessionRequest)
    const { configOptions, sessionId = options.resume } = yield* decode(Acp.SessionOpened, "open", opened)
    if (sessionId === null) return yield* fail("open", "the agent opened a session without a name", false)
    if (options.reasoningEffort !== null) {
      const option = configOptions?.find(({ category }) => category === "thought_level")
      if (option === undefined) return yield* fail("open", "the agent offers no reasoning effort for this model", false)
      yield* call("session/set_config_option", {
        sessionId,
        configId: option.id,
        value: options.reasoningEffort
      } satisfies SetSessionConfigOptionRequest)
    }
    return sessionId
  })
  const sessionId = yield* Effect.timeoutOrElse(start, {
    duration: START_WITHIN,
    orElse: () => Effect.fail(fail("open", "the agent did not get ready in time", true))
  })

  const cancel = rpc.notify("session/cancel", { sessionId } satisfies CancelNotification)

  /** Before the cancel, so that no approval stays open and no aborted call is shown as completed. */
  const interrupt = Effect.suspend(() => {
    if (turn === null || turn.interrupted) return Effect.void
    turn.interrupted = true
    turn.events.interrupt()
    const open = [...turn.approvals.values()]
    turn.approvals.clear()
    return Effect.andThen(
      Effect.forEach(open, ({ request }) => rpc.reply(request, cancelled), { discard: true }),
      turn.sent ? cancel : Effect.void
    )
  })

  const conclude = (current: Turn, stopReason: string): TurnEnd => {
    if (current.interrupted) return { state: "interrupted" }
    // Some agents cancel a turn because of a denial: that is the turn's way to end, and no failure.
    if (stopReason === "end_turn" || (stopReason === "cancelled" && current.denied)) return { state: "succeeded" }
    return { state: "failed", reason: Acp.failures[stopReason] ?? "The agent ended the turn for an unknown reason." }
  }

  const prompt = Effect.fn("AcpSession.prompt")(
    function*({ onEvent, text, turnId }: Parameters<AgentSession["prompt"]>[0]) {
      const events = TurnEvents.make(turnId)
      const emit = (news: ReadonlyArray<AgentEvent>) => Effect.forEach(news, onEvent, { discard: true })
      const current: Turn = (turn = {
        events,
        emit,
        approvals: new Map(),
        sent: false,
        interrupted: false,
        denied: false
      })

      // What an interrupted prompt left unread belongs to no turn.
      yield* rpc.settle(handlers).pipe(Effect.catch(ended("prompt")))
      if (current.interrupted) return { state: "interrupted" } satisfies TurnEnd
      yield* rpc.begin("session/prompt", { sessionId, prompt: [{ type: "text", text }] } satisfies PromptRequest)
      current.sent = true
      if (current.interrupted) yield* cancel

      return yield* rpc.outcome(handlers).pipe(
        Effect.catchTag("OutputEnded", ended("prompt")),
        Effect.flatMap((reply) => decode(Acp.PromptEnded, "prompt", reply)),
        Effect.matchEffect({
          onSuccess: ({ stopReason }) =>
            Effect.as(
              emit(events.end(current.interrupted ? "cancelled" : (Acp.finishes[stopReason] ?? "error"))),
              conclude(current, stopReason)
            ),
          onFailure: Effect.fnUntraced(function*(error) {
            yield* emit(events.end(current.interrupted ? "cancelled" : "error"))
            if (error._tag === "AgentError") return yield* error
            const end: TurnEnd = current.interrupted
              ? { state: "interrupted" }
              : { state: "failed", reason: describeRefusal(error) }
            return end
          })
        }),
        // Nobody will hear of this turn any more: not worth going on with.
        Effect.onError(() => (current.interrupted ? Effect.void : cancel))
      )
    },
    Effect.ensuring(
      Effect.sync(() => {
        turn = null
      })
    ),
    reading.withPermit
  )

  const decide = (approvalId: string, decision: "approve" | "deny") =>
    Effect.suspend(() => {
      const approval = turn?.approvals.get(approvalId)
      if (turn === null || approval === undefined) return Effect.void
      turn.approvals.delete(approvalId)
      if (decision === "deny") {
        turn.denied = true
        turn.events.deny(approval.nativeCallId)
      }
      return answer(approval, decision)
    })

  yield* Effect.addFinalizer(() =>
    Effect.gen(function*() {
      yield* interrupt.pipe(
        Effect.andThen(reading.withPermit(rpc.settle(handlers))),
        Effect.ignore,
        Effect.interruptible,
        Effect.timeoutOption(INTERRUPT_WITHIN)
      )
      yield* process.endInput
      yield* Effect.timeoutOption(Effect.interruptible(process.exited), EXIT_WITHIN)
    })
  )

  return {
    sessionId: Effect.succeed(sessionId),
    prompt,
    decide,
    interrupt,
    exited: Effect.map(process.exited, describeExit)
  }
})
