/** Frames of claude: messages of the turn, and its control requests. */
import type { Finish } from "@slipway/domain/sandbox/ports/AgentRuntime"
import { Effect } from "effect"
import type { Ended, LiveTurn } from "../Conversation.ts"
import { reason } from "../stdio/JsonRpc.ts"
import type { ToolReport } from "../TurnEvents.ts"
import type { WorkspacePaths } from "../WorkspacePaths.ts"
import * as Claude from "./Claude.ts"
import { type ClaudeState, concluded, interrupt, respond } from "./ClaudeState.ts"

const finishes: Readonly<Record<string, Finish>> = { end_turn: "end_turn", max_tokens: "max_tokens", refusal: "refusal" }

const MICROS = 1_000_000

/** Calls of sub-agents that are remembered at once. */
const MAX_UNREPORTED = 1000

const conclude = ({ errors, is_error, result, stop_reason, subtype }: Claude.TurnResult): Ended => {
  if (is_error !== true && subtype === "success") return { finish: finishes[stop_reason ?? "end_turn"] ?? "end_turn" }
  const said = reason(result ?? errors?.[0] ?? "")
  return { finish: "error", failure: said === "" ? "The agent ended the turn for an unknown reason." : said }
}

const report = (paths: WorkspacePaths, name: string, input: Claude.Input, status?: ToolReport["status"]): ToolReport => {
  const { paths: touched, title, ...about } = Claude.describe(name, input, (path) => paths.inside([path])[0] ?? path)
  return { ...about, title: paths.shorten(title), paths: touched === undefined ? undefined : paths.inside(touched), status }
}

const NOT_ANSWERED = "The person did not answer."

const inquired = (state: ClaudeState, request: string, input: Claude.Input) => {
  const answer = (response: object) => respond(state, request, { subtype: "success", response })
  const questions = Claude.questionsOf(input)
  if (questions === null) return answer({ behavior: "deny", message: NOT_ANSWERED })
  return state.conversation.inquire(questions, (answers, why) =>
    answer(
      answers === null || answers.every((one) => one === null)
        ? { behavior: "deny", message: why === undefined ? NOT_ANSWERED : `${NOT_ANSWERED} ${why}` }
        : { behavior: "allow", updatedInput: Claude.answered(input, questions, answers) }
    ))
}

const control = (state: ClaudeState, { request, request_id }: Claude.ControlRequest) => {
  const { conversation, paths, unreported } = state
  const { agent_id, input = {}, subtype, tool_name = "tool", tool_use_id } = request
  // Hooks and tools of the client are not offered.
  if (subtype !== "can_use_tool") return respond(state, request_id, { subtype: "error", error: `unsupported: ${subtype}` })
  const about = { ...report(paths, tool_name, input), input: JSON.stringify(input, null, 2) }
  const [id, approval] = [tool_use_id ?? request_id, { request: request_id, input }]
  if (agent_id != null && unreported.size < MAX_UNREPORTED) unreported.set(id, agent_id)
  return tool_name === Claude.QUESTION ? inquired(state, request_id, input) : conversation.ask(id, about, approval)
}

/** The next state of a text that steers. */
const steered = (state: ClaudeState, id: string, becomes: string) => {
  const { conversation, untold } = state
  if (!untold.has(id) || becomes === "queued") return Effect.void
  untold.delete(id)
  // In any other state the text is dropped, and the model never gets it.
  if (becomes === "started" || becomes === "completed") {
    state.provisional = null
    return conversation.took(id)
  }
  if (untold.size === 0 && state.provisional !== null) concluded(state, state.provisional)
  return Effect.void
}

/** The end of a sub-agent is the end of its calls. */
const endOf = (
  { unreported }: ClaudeState,
  { events }: LiveTurn,
  { status, task_id }: Extract<Claude.Message, { readonly type: "system" }>
) => {
  const done = status === "completed" ? [...unreported].filter(([, agent]) => agent === task_id) : []
  return done.flatMap(([id]) => {
    unreported.delete(id)
    return events.tool(id, { status: "completed" })
  })
}

/** Tasks of a session that are remembered. */
const MAX_TASKS = 1000

/** A call that changes the list of tasks has succeeded. */
const tasksChanged = ({ tasks }: ClaudeState, { events }: LiveTurn, call: Claude.TaskCall, output: string | undefined) => {
  switch (call._tag) {
    case "All":
      return events.plan(call.entries)
    case "New": {
      const id = Claude.newTaskId(output)
      if (id !== undefined && tasks.size < MAX_TASKS) tasks.set(id, { text: call.text, status: "pending" })
      break
    }
    case "Change": {
      const { id, status, text } = call
      const before = tasks.get(id)
      if (status === "deleted") tasks.delete(id)
      else if (before !== undefined) tasks.set(id, { text: text ?? before.text, status: status ?? before.status })
    }
  }
  return events.plan([...tasks.values()])
}

type News = Extract<Claude.Message, { readonly type: "stream_event" | "assistant" | "user" }>

const eventsOf = (state: ClaudeState, turn: LiveTurn, news: News) => {
  const { asks, paths, taskCalls, unreported } = state
  const { events } = turn
  switch (news.type) {
    case "stream_event": {
      const { event } = news
      if (event.type === "message_start") {
        state.messageId = event.message.id
        return [{ _tag: "UsageReported" as const, llmRequestCount: ++state.requests, costMicroUsd: 0 }]
      }
      const id = `${state.messageId}:${event.index}`
      return event.delta.type === "text_delta"
        ? events.chunk("text", id, event.delta.text)
        : events.chunk("reasoning", id, event.delta.thinking)
    }
    case "assistant":
      // A call that may need an approval has not begun.
      return news.message.content.flatMap((block) => {
        if (!("name" in block)) return []
        const task = news.parent_tool_use_id == null ? Claude.taskCallOf(block.name, block.input) : null
        if (task !== null && taskCalls.size < MAX_TASKS) taskCalls.set(block.id, task)
        const parent = news.parent_tool_use_id ?? undefined
        return events.tool(block.id, { ...report(paths, block.name, block.input, asks ? "pending" : "running"), parent })
      })
    case "user":
      return news.message.content.flatMap((block) => {
        if (!("tool_use_id" in block)) return []
        const { is_error, tool_use_id: id } = block
        const [output, task] = [Claude.outputOf(block), taskCalls.get(id)]
        unreported.delete(id)
        taskCalls.delete(id)
        return [
          ...events.tool(id, { status: is_error === true ? "error" : "completed", output }),
          ...(task === undefined || is_error === true ? [] : tasksChanged(state, turn, task, output))
        ]
      })
  }
}

const ended = (state: ClaudeState, turn: LiveTurn | null, message: Claude.TurnResult) => {
  const { costBefore, untold } = state
  const cost = message.total_cost_usd ?? null
  state.spent += cost === null || costBefore === null ? 0 : Math.max(0, Math.round((cost - costBefore) * MICROS))
  state.costBefore = cost ?? costBefore
  const end = conclude(message)
  if (untold.size > 0 && turn !== null && !turn.interrupted) state.provisional = end
  else concluded(state, end)
  return turn === null || state.requests === 0
    ? Effect.void
    : turn.emit([{ _tag: "UsageReported", llmRequestCount: state.requests, costMicroUsd: state.spent }])
}

export const handle = (state: ClaudeState, message: Claude.Message): Effect.Effect<void> => {
  const turn = state.conversation.live()
  switch (message.type) {
    case "control_request":
      return control(state, message)
    case "control_response": {
      const { error = "refused", request_id, subtype } = message.response
      state.answers.set(request_id, subtype === "success" ? null : error)
      return Effect.void
    }
    case "system":
      if (message.subtype === "task_notification") return turn === null ? Effect.void : turn.emit(endOf(state, turn, message))
      if (message.subtype !== "init") return Effect.void
      state.sessionId = message.session_id ?? state.sessionId
      // An interrupt before the turn began has no effect, so it is sent again. A turn without a watcher was abandoned.
      return turn === null || turn.interrupted ? interrupt(state) : Effect.void
    case "result":
      return ended(state, turn, message)
    case "command_lifecycle":
      return steered(state, message.command_uuid, message.state)
    default: {
      // Only calls of sub-agents are reported, not their texts.
      const isTheirs = typeof message.parent_tool_use_id === "string"
      return turn === null || isTheirs && message.type === "stream_event" ? Effect.void : turn.emit(eventsOf(state, turn, message))
    }
  }
}
