/** Frames of the agent: its notifications, its requests and its answers to ours. */
import type { RequestPermissionResponse } from "@agentclientprotocol/sdk"
import { Effect, Option, Result, Schema } from "effect"
import type { Ended } from "../Conversation.ts"
import type { AcpQuestions } from "../Profile.ts"
import * as JsonRpc from "../stdio/JsonRpc.ts"
import type { ToolReport } from "../TurnEvents.ts"
import * as Acp from "./Acp.ts"
import { aboutSubAgent, type AcpState, concluded, isTheirs } from "./AcpState.ts"

export const cancelled: RequestPermissionResponse = { outcome: { outcome: "cancelled" } }

const decodeUpdate = Schema.decodeUnknownOption(Acp.SessionUpdate)
const decodeExtension = Schema.decodeUnknownOption(Acp.ExtensionUpdate)
const decodeSteered = Schema.decodeUnknownOption(Acp.ExtensionSteered)
const decodePermission = Schema.decodeUnknownOption(Acp.PermissionRequest)
const decodeEnd = Schema.decodeUnknownOption(Acp.PromptEnded)

const report = ({ paths, servers }: Pick<AcpState, "paths" | "servers">, call: Acp.ToolCall): ToolReport => {
  const { kind, locations, status, title } = call
  const isEdit = typeof kind === "string" && Acp.toolKinds[kind] === "edit"
  const touched = isEdit ? paths.inside(Acp.editedOf(call)) : locations?.flatMap(({ path }) => paths.inside([path]))
  const mcp = Acp.mcpOf(servers, call)
  const { command, cwd, url } = mcp === undefined ? Acp.inputOf(call) : {}
  // At the end of a call, some agents send a shorter title.
  const renamed = kind == null && (status === "completed" || status === "failed")
  return {
    title: mcp !== undefined
      ? `${mcp.server}: ${mcp.tool}`
      : title == null || renamed
      ? undefined
      : Acp.titleOf(paths.shorten(title), kind, touched?.[0]),
    kind: mcp !== undefined ? "mcp" : typeof kind === "string" ? (Acp.toolKinds[kind] ?? "other") : undefined,
    paths: touched,
    command,
    cwd: paths.folder(cwd),
    url,
    mcp,
    removes: Acp.removesOf(call),
    diff: Acp.diffOf(call, (path) => paths.inside([path])[0] ?? path),
    output: Acp.outputOf(call),
    status: typeof status === "string" ? Acp.toolStatuses[status] : undefined
  }
}

/** How the agent ended the prompt. */
const conclude = ({ conversation }: AcpState, answer: Result.Result<unknown, JsonRpc.RpcRefusal>): Ended => {
  if (Result.isFailure(answer)) return { finish: "error", failure: JsonRpc.describe(answer.failure) }
  const end = decodeEnd(answer.success)
  if (Option.isNone(end)) return { finish: "error", broken: "the agent answered with something that is not ACP" }
  const { stopReason } = end.value
  const finish = Acp.finishes[stopReason] ?? "error"
  // Some agents cancel a turn because of a denial: a normal end of the turn, not a failure.
  if (stopReason === "end_turn" || (stopReason === "cancelled" && conversation.live()?.denied === true)) return { finish: "end_turn" }
  return { finish, failure: Acp.failures[stopReason] ?? "The agent ended the turn for an unknown reason." }
}

const notified = (state: AcpState, method: string, params: unknown): Effect.Effect<void> => {
  const { conversation, quirks, sessionId } = state
  if (method === quirks.mcpStarted) state.mcpStarted = true
  const turn = conversation.live()
  const extension = method === quirks.answered?.method || method === quirks.subAgents?.method
    ? Option.getOrNull(decodeExtension(params))
    : null
  if (extension !== null) {
    const { sessionId: about, update } = extension
    const counts = turn !== null && update.sessionUpdate === quirks.answered?.update && (about === sessionId || isTheirs(state, about))
    return Effect.andThen(
      aboutSubAgent(state, update),
      counts ? turn.emit([{ _tag: "UsageReported", llmRequestCount: ++state.requests, costMicroUsd: 0 }]) : Effect.void
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
    if (!isOwn && !isTheirs(state, about)) return Effect.void
    const task = Acp.taskOf(update)
    if (task !== null && update.sessionUpdate === "tool_call") state.tasks.set(update.toolCallId, task)
    const parent = Acp.parentOf(update) ?? state.parents.get(about)
    return turn.emit(turn.events.tool(update.toolCallId, { ...report(state, update), parent }))
  }
  // Only calls of sub-agents are reported, not their texts and plans.
  if (!isOwn) return Effect.void
  if (update.sessionUpdate === "plan") return turn.emit(turn.events.plan(Acp.planOf(update)))
  const kind = update.sessionUpdate === "agent_message_chunk" ? "text" : "reasoning"
  return turn.emit(turn.events.chunk(kind, update.messageId ?? null, update.content.text ?? ""))
}

const inquired = (state: AcpState, request: JsonRpc.RequestId, of: AcpQuestions, params: unknown): Effect.Effect<void> => {
  const { conversation, rpc, sessionId } = state
  const asked = of.read(params)
  const { questions } = asked ?? { questions: [] }
  if (asked === null || asked.sessionId !== sessionId && !isTheirs(state, asked.sessionId)) {
    return rpc.reply(request, of.result(questions, null))
  }
  return conversation.inquire(questions, (answers, why) => rpc.reply(request, of.result(questions, answers, why)))
}

const requested = (state: AcpState, request: JsonRpc.RequestId, method: string, params: unknown): Effect.Effect<void> => {
  const { conversation, quirks, rpc, servers, sessionId } = state
  if (quirks.questions !== undefined && method === quirks.questions.method) return inquired(state, request, quirks.questions, params)
  // Also `fs/*`, which some agents try although we do not offer it; they then read and write files themselves.
  if (method !== "session/request_permission") {
    return rpc.refuse(request, JsonRpc.METHOD_NOT_FOUND, `method not found: ${method}`)
  }
  const decoded = decodePermission(params)
  if (Option.isNone(decoded) || decoded.value.sessionId !== sessionId && !isTheirs(state, decoded.value.sessionId)) {
    return rpc.reply(request, cancelled)
  }
  const { options: offered, toolCall } = decoded.value
  // The gateway decides about it, and asks the person if need be.
  if (Acp.mcpOf(servers, toolCall) !== undefined) {
    const allowed = offered.find(({ kind }) => kind === "allow_once")
    return rpc.reply(request, allowed === undefined ? cancelled : { outcome: { outcome: "selected", optionId: allowed.optionId } })
  }
  const { rawInput = null } = toolCall
  const input = rawInput === null ? undefined : JSON.stringify(rawInput, null, 2)
  return conversation.ask(toolCall.toolCallId, { ...report(state, toolCall), input }, { request, options: offered })
}

export const handlersOf = (state: AcpState): JsonRpc.Handlers => ({
  notified: (method, params) => notified(state, method, params),
  requested: (request, method, params) => requested(state, request, method, params),
  answered: (id, answer) => id === state.promptId ? concluded(state, conclude(state, answer)) : Effect.void
})
