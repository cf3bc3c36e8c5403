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
import type { AgentError, AgentSession, AgentSessionOptions } from "@slipway/domain/sandbox/ports/AgentRuntime"
import type { BoxProcess } from "@slipway/domain/sandbox/ports/SandboxHost"
import { Effect, Option, Result, Schema, type Scope } from "effect"
import { clientInfo } from "../ClientInfo.ts"
import * as Conversation from "../Conversation.ts"
import type { AcpQuirks } from "../Profile.ts"
import * as JsonLines from "../stdio/JsonLines.ts"
import * as JsonRpc from "../stdio/JsonRpc.ts"
import * as SubAgents from "../SubAgents.ts"
import type { ToolReport } from "../TurnEvents.ts"
import * as WorkspacePaths from "../WorkspacePaths.ts"
import * as Acp from "./Acp.ts"

const cancelled: RequestPermissionResponse = { outcome: { outcome: "cancelled" } }

const initialize: InitializeRequest = {
  protocolVersion: 1,
  clientCapabilities: { fs: { readTextFile: false, writeTextFile: false }, terminal: false },
  clientInfo
}

interface Approval {
  readonly request: JsonRpc.RequestId
  readonly options: (typeof Acp.PermissionRequest.Type)["options"]
}

const decodeUpdate = Schema.decodeUnknownOption(Acp.SessionUpdate)
const decodeExtension = Schema.decodeUnknownOption(Acp.ExtensionUpdate)
const decodeSteered = Schema.decodeUnknownOption(Acp.ExtensionSteered)
const decodePermission = Schema.decodeUnknownOption(Acp.PermissionRequest)
const decodeEnd = Schema.decodeUnknownOption(Acp.PromptEnded)

/** Begins a session over the standard input and output of `process`, which must end with the same scope. */
export const open = Effect.fn("AcpSession.open")(function*(
  process: BoxProcess,
  options: AgentSessionOptions,
  quirks: AcpQuirks = {}
): Effect.fn.Return<AgentSession, AgentError, Scope.Scope> {
  const rpc = JsonRpc.make(yield* JsonLines.make(process))
  const conversation = yield* Conversation.make<Approval>(process, options)
  const paths = WorkspacePaths.of(options.box.workspace)
  const { fail } = conversation
  let promptId: JsonRpc.RequestId | null = null
  let requests = 0
  const subAgents = SubAgents.make(conversation.ended)
  /** Sessions of sub-agents that have not ended, by sub-agent. */
  const theirSessions = new Map<string, string>()
  let stopping = false

  const report = (call: Acp.ToolCall): ToolReport => {
    const { kind, locations, status, title } = call
    const isEdit = typeof kind === "string" && Acp.toolKinds[kind] === "edit"
    const touched = isEdit ? paths.inside(Acp.editedOf(call)) : locations?.flatMap(({ path }) => paths.inside([path]))
    const { command, cwd, url } = Acp.inputOf(call)
    // At its end a call is named once more, by some in fewer words.
    const renamed = kind == null && (status === "completed" || status === "failed")
    return {
      title: title == null || renamed ? undefined : Acp.titleOf(paths.shorten(title), kind, touched?.[0]),
      kind: typeof kind === "string" ? (Acp.toolKinds[kind] ?? "other") : undefined,
      paths: touched,
      command,
      cwd: paths.folder(cwd),
      url,
      removes: Acp.removesOf(call),
      diff: Acp.diffOf(call, (path) => paths.inside([path])[0] ?? path),
      output: Acp.outputOf(call),
      status: typeof status === "string" ? Acp.toolStatuses[status] : undefined
    }
  }

  /** The agent is through with the prompt, in whatever way. */
  const conclude = (answer: Result.Result<unknown, JsonRpc.RpcRefusal>): Conversation.Ended => {
    if (Result.isFailure(answer)) return { finish: "error", failure: JsonRpc.describe(answer.failure) }
    const end = decodeEnd(answer.success)
    if (Option.isNone(end)) return { finish: "error", broken: "the agent answered with something that is not ACP" }
    const { stopReason } = end.value
    const finish = Acp.finishes[stopReason] ?? "error"
    // Some agents cancel a turn because of a denial: that is the turn's way to end, and no failure.
    if (stopReason === "end_turn" || (stopReason === "cancelled" && conversation.live()?.denied === true)) return { finish: "end_turn" }
    return { finish, failure: Acp.failures[stopReason] ?? "The agent ended the turn for an unknown reason." }
  }

  const isTheirs = (session: string) => [...theirSessions.values()].includes(session)
  const cancelSession = (session: string) => rpc.notify("session/cancel", { sessionId: session } satisfies CancelNotification)
  const cancelSubAgents = Effect.suspend(() => {
    stopping = true
    return Effect.forEach(theirSessions.values(), cancelSession, { discard: true })
  })

  /** What an agent says of sub-agents. */
  const heardOfSubAgent = ({ child_session_id, sessionUpdate, subagent_id }: Acp.ExtensionUpdate) => {
    const names = quirks.subAgents
    if (names === undefined || subagent_id == null || !conversation.owes()) return Effect.void
    if (sessionUpdate === names.began && child_session_id != null) {
      subAgents.begin(subagent_id)
      theirSessions.set(subagent_id, child_session_id)
      return stopping ? cancelSession(child_session_id) : Effect.void
    }
    if (sessionUpdate === names.ended) {
      theirSessions.delete(subagent_id)
      subAgents.end(subagent_id)
    }
    return Effect.void
  }

  /** The agent is through with the prompt. Its sub-agents go on as long as it succeeded. */
  const concluded = (ended: Conversation.Ended) => {
    subAgents.conclude(ended)
    return ended.failure === undefined ? Effect.void : cancelSubAgents
  }

  const handlers: JsonRpc.Handlers = {
    notified: (method, params) => {
      const turn = conversation.live()
      const extension = method === quirks.answered?.method || method === quirks.subAgents?.method
        ? Option.getOrNull(decodeExtension(params))
        : null
      if (extension !== null) {
        const { sessionId: about, update } = extension
        const counts = turn !== null && update.sessionUpdate === quirks.answered?.update && (about === sessionId || isTheirs(about))
        return Effect.andThen(
          heardOfSubAgent(update),
          counts ? turn.emit([{ _tag: "UsageReported", llmRequestCount: ++requests, costMicroUsd: 0 }]) : Effect.void
        )
      }
      if (turn === null) return Effect.void
      if (method === quirks.steering?.taken) {
        const { messageId, sessionId: about } = Option.getOrElse(decodeSteered(params), () => ({ messageId: "", sessionId: null }))
        return about === sessionId ? conversation.took(messageId) : Effect.void
      }
      if (method !== "session/update") return Effect.void
      const decoded = decodeUpdate(params)
      // Other updates do not concern a turn.
      if (Option.isNone(decoded)) return Effect.void
      const { sessionId: about, update } = decoded.value
      const isOwn = about === sessionId
      if ("toolCallId" in update) {
        return isOwn || isTheirs(about) ? turn.emit(turn.events.tool(update.toolCallId, report(update))) : Effect.void
      }
      // Of what sub-agents say only their calls are told.
      if (!isOwn) return Effect.void
      const kind = update.sessionUpdate === "agent_message_chunk" ? "text" : "reasoning"
      return turn.emit(turn.events.chunk(kind, update.messageId ?? null, update.content.text ?? ""))
    },
    requested: (request, method, params) => {
      // Also `fs/*`, which some agents try although we say that we have no such thing; they then do it themselves.
      if (method !== "session/request_permission") {
        return rpc.refuse(request, JsonRpc.METHOD_NOT_FOUND, `method not found: ${method}`)
      }
      const decoded = decodePermission(params)
      if (Option.isNone(decoded) || decoded.value.sessionId !== sessionId && !isTheirs(decoded.value.sessionId)) {
        return rpc.reply(request, cancelled)
      }
      const { options: offered, toolCall } = decoded.value
      const { rawInput = null } = toolCall
      const input = rawInput === null ? undefined : JSON.stringify(rawInput, null, 2)
      return conversation.ask(toolCall.toolCallId, { ...report(toolCall), input }, { request, options: offered })
    },
    answered: (id, answer) => id === promptId ? concluded(conclude(answer)) : Effect.void
  }

  const call = (method: string, params: object) =>
    rpc.call(method, params, handlers).pipe(
      Effect.catchTags({
        OutputEnded: conversation.gone("open"),
        RpcRefusal: (refusal) => Effect.fail(fail("open", `${method} was refused: ${JsonRpc.describe(refusal)}`, false))
      })
    )

  const start = Effect.gen(function*() {
    yield* call("initialize", initialize)
    if (quirks.authMethod !== undefined) yield* call("authenticate", { methodId: quirks.authMethod })
    const cwd = options.box.workspace
    const opened = options.resume === null
      ? yield* call("session/new", { cwd, mcpServers: [], ...quirks.newSession?.(options) } satisfies NewSessionRequest)
      : yield* call(
        "session/resume",
        {
          sessionId: options.resume,
          cwd,
          mcpServers: []
        } satisfies ResumeSessionRequest
      )
    const { configOptions, sessionId = options.resume } = yield* Effect.mapError(
      Schema.decodeUnknownEffect(Acp.SessionOpened)(opened),
      () => fail("open", "the agent answered with something that is not ACP", false)
    )
    if (sessionId === null) return yield* fail("open", "the agent opened a session without a name", false)
    const effort = options.reasoningEffort ?? quirks.noEffort ?? null
    if (effort !== null) {
      const option = configOptions?.find(({ category }) => category === "thought_level")
      if (option === undefined) return yield* fail("open", "the agent offers no reasoning effort for this model", false)
      yield* call(
        "session/set_config_option",
        {
          sessionId,
          configId: option.id,
          value: effort
        } satisfies SetSessionConfigOptionRequest
      )
    }
    return sessionId
  })
  const sessionId = yield* conversation.starting(start)

  const steerBy = (method: string) => (messageId: string, text: string) =>
    // Not waited for, as a request is not.
    Effect.asVoid(Effect.forkChild(rpc.notify(method, { sessionId, messageId, text }), { startImmediately: true }))

  return yield* conversation.session({
    sessionId: Effect.succeed(sessionId),
    send: (text) =>
      Effect.gen(function*() {
        requests = 0
        subAgents.reset()
        theirSessions.clear()
        stopping = false
        promptId = yield* rpc.request("session/prompt", { sessionId, prompt: [{ type: "text", text }] } satisfies PromptRequest)
      }),
    next: rpc.next(handlers),
    ...(quirks.steering === undefined ? {} : { steer: steerBy(quirks.steering.method) }),
    cancel: Effect.andThen(cancelSubAgents, cancelSession(sessionId)),
    // Finds the option by its kind, never by its id; `*_always` would take later decisions away from the person.
    answer: ({ options: offered, request }, decision, why) => {
      const kind = decision === "approve" ? "allow_once" : "reject_once"
      const option = decision === "cancel" ? undefined : offered.find((option) => option.kind === kind)
      const response: RequestPermissionResponse = option === undefined
        ? cancelled
        : {
          outcome: { outcome: "selected", optionId: option.optionId },
          ...(why === undefined || quirks.denialReason === undefined ? {} : { _meta: { [quirks.denialReason]: why } })
        }
      return rpc.reply(request, response)
    }
  })
})
