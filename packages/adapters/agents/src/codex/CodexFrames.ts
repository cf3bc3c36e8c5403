/** Frames of the agent: its notifications, its requests and its answers to ours. */
import type { PromptImage } from "@slipway/domain/sandbox/ports/AgentRuntime"
import { Effect, Option, Result, Schema } from "effect"
import { type AnswerTelling, type LiveTurn, textsOf } from "../Conversation.ts"
import * as JsonRpc from "../stdio/JsonRpc.ts"
import * as Codex from "./Codex.ts"
import * as CodexReports from "./CodexReports.ts"
import { type CodexThread, concluded, interrupt, nameOf, setToWork, turnOfSubAgent } from "./CodexThread.ts"

const decodeOfThread = Schema.decodeUnknownOption(Codex.OfThread)
const decodeDelta = Schema.decodeUnknownOption(Codex.Delta)
const decodeItemNews = Schema.decodeUnknownOption(Codex.ItemNews)
const decodeTurnStarted = Schema.decodeUnknownOption(Codex.TurnStarted)
const decodeThreadRead = Schema.decodeUnknownOption(Codex.ThreadRead)
const decodeApproval = Schema.decodeUnknownOption(Codex.ApprovalRequest)
const decodeUserInput = Schema.decodeUnknownOption(Codex.UserInputRequest)
const decodePlan = Schema.decodeUnknownOption(Codex.PlanUpdated)
const decodeResolved = Schema.decodeUnknownOption(Codex.RequestResolved)

/** Codex reads images itself, from the box. */
export const inputOf = (text: string, images: ReadonlyArray<Pick<PromptImage, "path">>) => [
  { type: "text", text, text_elements: [] },
  ...images.map(({ path }) => ({ type: "localImage", path }))
]

/**
 * The answer only confirms that the text waits, and an interrupt drops waiting texts. The agent has the text when it shows it as an
 * item, before its next request to the model (0.171.0); it aborts a request that is being answered. A refusal, for example because the
 * turn has ended, needs no reaction: the text was not taken.
 */
export const steer = (thread: CodexThread, id: string, text: string, images: ReadonlyArray<PromptImage>) =>
  Effect.suspend(() => {
    const { rpc, threadId, turnId } = thread
    if (turnId !== null) {
      const about = { threadId, expectedTurnId: turnId, clientUserMessageId: id, input: inputOf(text, images) }
      return Effect.asVoid(rpc.request("turn/steer", about))
    }
    thread.early.push({ id, text, images })
    return Effect.void
  })

/** `isOwn`: the item belongs to the agent itself and not to a sub-agent. */
const ofItem = (thread: CodexThread, turn: LiveTurn, about: string, isOwn: boolean, method: string, params: unknown) => {
  const { asks, conversation, paths } = thread
  const item = Option.getOrNull(decodeItemNews(params))?.item
  if (isOwn && item?.type === "userMessage" && item.clientId != null) return conversation.took(item.clientId)
  if (item === undefined || !Object.hasOwn(Codex.toolKinds, item.type)) return Effect.void
  // A call that may need an approval has not begun.
  const begun = method === "item/started" ? (asks ? "pending" : "running") : "completed"
  const status = method === "item/started" ? begun : (Codex.toolEnds[item.status ?? "completed"] ?? "error")
  const name = nameOf(thread, about, item.id)
  // A later call to the same sub-agent does not adopt its calls.
  for (const their of item.receiverThreadIds ?? []) if (!thread.parents.has(their)) thread.parents.set(their, name)
  const told = turn.emit(turn.events.tool(name, { ...CodexReports.ofItem(paths, item, status), parent: thread.parents.get(about) }))
  return item.type === "collabAgentToolCall" && method === "item/completed" ? Effect.andThen(told, setToWork(thread, item)) : told
}

const notified = (thread: CodexThread, method: string, params: unknown): Effect.Effect<void> => {
  const { asked, conversation, theirTurns, threadId } = thread
  const about = Option.getOrNull(decodeOfThread(params))?.threadId
  if (about === undefined || threadId === null) return Effect.void
  // Other threads are sub-agents. Only their calls are reported, not their texts.
  const isOwn = about === threadId
  if (!isOwn && (method.startsWith("turn/") || method === "thread/closed")) return turnOfSubAgent(thread, about, method, params)
  if (method === "turn/started" && thread.interrupting) return interrupt(thread)
  if (method === "turn/completed") return concluded(thread, params)
  const turn = conversation.live()
  // Frames of a sub-agent after the end of its turn are not watched.
  if (turn === null || !isOwn && !theirTurns.has(about)) return Effect.void
  switch (method) {
    case "item/agentMessage/delta":
    case "item/reasoning/summaryTextDelta":
    case "item/reasoning/textDelta": {
      if (!isOwn) return Effect.void
      const piece = Option.getOrNull(decodeDelta(params))
      const kind = method === "item/agentMessage/delta" ? "text" : "reasoning"
      return piece === null ? Effect.void : turn.emit(turn.events.chunk(kind, piece.itemId, piece.delta))
    }
    case "item/started":
    case "item/completed":
      return ofItem(thread, turn, about, isOwn, method, params)
    case "turn/plan/updated": {
      const plan = isOwn ? Option.getOrNull(decodePlan(params)) : null
      return plan === null ? Effect.void : turn.emit(turn.events.plan(Codex.planOf(plan)))
    }
    case "serverRequest/resolved": {
      const id = Option.getOrNull(decodeResolved(params))?.requestId
      const itemId = id === undefined ? undefined : asked.get(id)
      if (id === undefined || itemId === undefined) return Effect.void
      asked.delete(id)
      return turn.emit(turn.events.tool(itemId, { status: "running" }))
    }
    case "thread/tokenUsage/updated":
      return turn.emit([{ _tag: "UsageReported", llmRequestCount: ++thread.requests, costMicroUsd: 0 }])
    default:
      return Effect.void
  }
}

const inquired = (thread: CodexThread, request: JsonRpc.RequestId, { questions }: Codex.UserInputRequest) => {
  const tell: AnswerTelling = (answers, why) =>
    thread.rpc.reply(request, {
      answers: Object.fromEntries(questions.map(({ id }, index) => [id, { answers: textsOf(answers?.[index] ?? null, why) }]))
    })
  // People's answers are stored and shown.
  if (questions.some(({ isSecret }) => isSecret === true)) return tell(null, "Secrets cannot be asked for here.")
  return thread.conversation.inquire(
    questions.map(({ header, id, isOther, options, question }) => ({
      id,
      text: question,
      ...(header == null ? {} : { header }),
      options: (options ?? []).map(({ description, label }) => ({ label, ...(description == null ? {} : { description }) })),
      multiple: false,
      allows_text: isOther !== false || (options ?? []).length === 0
    })),
    tell
  )
}

const requested = (thread: CodexThread, request: JsonRpc.RequestId, method: string, params: unknown) => {
  const { asked, conversation, paths, rpc } = thread
  const about = method === "item/commandExecution/requestApproval" || method === "item/fileChange/requestApproval"
    ? Option.getOrNull(decodeApproval(params))
    : null
  if (method === "item/tool/requestUserInput") {
    const asked = Option.getOrNull(decodeUserInput(params))
    if (asked !== null) return inquired(thread, request, asked)
  }
  // Logins and tools of the client are not offered.
  if (about === null) return rpc.refuse(request, JsonRpc.METHOD_NOT_FOUND, `method not found: ${method}`)
  const name = nameOf(thread, about.threadId, about.itemId)
  const report = CodexReports.ofApproval(paths, about)
  if (about.grantRoot != null) {
    const why = "It asks for a whole folder, for the rest of the session. Calls are approved one by one."
    return conversation.refuse(name, report, { request }, why)
  }
  asked.set(request, name)
  return conversation.ask(name, report, { request })
}

const started = (thread: CodexThread, answer: Result.Result<unknown, JsonRpc.RpcRefusal>) => {
  if (Result.isFailure(answer)) {
    return Effect.sync(() => thread.subAgents.conclude({ finish: "error", failure: JsonRpc.describe(answer.failure) }))
  }
  thread.turnId = Option.getOrNull(decodeTurnStarted(answer.success))?.turn.id ?? null
  thread.kept = true
  if (thread.interrupting) return interrupt(thread)
  const waiting = thread.early
  thread.early = []
  return thread.turnId === null
    ? Effect.void
    : Effect.forEach(waiting, ({ id, images, text }) => steer(thread, id, text, images), { discard: true })
}

const answered = (thread: CodexThread, id: JsonRpc.RequestId, answer: Result.Result<unknown, JsonRpc.RpcRefusal>) => {
  const { conversation, expected, reads, subAgents } = thread
  if (id === thread.startId) return started(thread, answer)
  const read = reads.get(id)
  if (read !== undefined) {
    reads.delete(id)
    const status = Result.isFailure(answer) ? undefined : Option.getOrUndefined(decodeThreadRead(answer.success))?.thread.status.type
    if (status !== "active" && expected.delete(read)) subAgents.end(read)
    return Effect.void
  }
  // Too early: the turn has an id and has not begun.
  if (id === thread.interruptId && Result.isFailure(answer) && conversation.owes()) thread.interrupting = true
  return Effect.void
}

export const handlersOf = (thread: CodexThread): JsonRpc.Handlers => ({
  notified: (method, params) => notified(thread, method, params),
  requested: (request, method, params) => requested(thread, request, method, params),
  answered: (id, answer) => answered(thread, id, answer)
})
