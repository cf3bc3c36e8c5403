/** An agent that speaks claude's stream-json protocol: messages, and control requests in both directions beside them. */
import type { AgentError, AgentSession, AgentSessionOptions, Finish } from "@slipway/domain/sandbox/ports/AgentRuntime"
import type { BoxProcess } from "@slipway/domain/sandbox/ports/SandboxHost"
import { Effect, Option, Schema, type Scope } from "effect"
import * as Conversation from "../Conversation.ts"
import * as JsonLines from "../stdio/JsonLines.ts"
import { reason } from "../stdio/JsonRpc.ts"
import type { ToolReport } from "../TurnEvents.ts"
import * as WorkspacePaths from "../WorkspacePaths.ts"
import * as Claude from "./Claude.ts"

const decode = Schema.decodeUnknownOption(Claude.Message)

interface Approval {
  readonly request: string
  readonly input: Claude.Input
}

const finishes: Readonly<Record<string, Finish>> = { end_turn: "end_turn", max_tokens: "max_tokens", refusal: "refusal" }

const MICROS = 1_000_000

/** Calls of sub-agents that are remembered at once. */
const MAX_UNREPORTED = 1000

const conclude = ({ errors, is_error, result, stop_reason, subtype }: Claude.TurnResult): Conversation.Ended => {
  if (is_error !== true && subtype === "success") return { finish: finishes[stop_reason ?? "end_turn"] ?? "end_turn" }
  const said = reason(result ?? errors?.[0] ?? "")
  return { finish: "error", failure: said === "" ? "The agent ended the turn for an unknown reason." : said }
}

/** What claude says on standard error before it exits. */
const NO_SUCH_SESSION = "No conversation found"

/** Begins a session over the standard input and output of `process`, which must end with the same scope. */
export const open = Effect.fn("ClaudeSession.open")(function*(
  process: BoxProcess,
  options: AgentSessionOptions
): Effect.fn.Return<AgentSession, AgentError, Scope.Scope> {
  const lines = yield* JsonLines.make(process)
  const conversation = yield* Conversation.make<Approval>(process, options)
  const paths = WorkspacePaths.of(options.box.workspace)
  const asks = options.toolApprovalMode === "prompt"

  let sequence = 0
  /** Answers that came to control requests of ours, by request; `null`: it was granted. */
  const answers = new Map<string, string | null>()
  /** Named at the beginning of the first turn only. */
  let sessionId = options.resume
  let messageId = ""
  let requests = 0
  /** Cost of the session at the end of the turn before, in dollars; `null`: of a process that is gone, so not known. */
  let costBefore = options.resume === null ? 0 : null

  /** Of the turn so far, in micro-dollars. */
  let spent = 0
  /**
   * What steers and the model was not told yet. A text that comes while a tool runs is told with its result; one that comes later
   * claude runs as a turn of its own, right behind the `result` of the one it ends (2.1.329). That is the same turn of ours: it goes
   * on until nothing is left untold.
   */
  const untold = new Set<string>()
  /**
   * Calls of sub-agents that were asked about and have no result yet, with the sub-agent. Of one that a sub-agent started no result is
   * told (2.1.329): what it was allowed is done when it has ended.
   */
  const unreported = new Map<string, string>()
  /** The `result` behind which claude still has to say what becomes of what is untold. */
  let provisional: Conversation.Ended | null = null

  const request = (subtype: string, about: object = {}) =>
    Effect.suspend(() => {
      const request_id = `slipway-${++sequence}`
      return Effect.as(
        Effect.forkChild(lines.send({ type: "control_request", request_id, request: { subtype, ...about } }), { startImmediately: true }),
        request_id
      )
    })
  const respond = (request_id: string, response: object) => lines.send({ type: "control_response", response: { request_id, ...response } })

  const report = (name: string, input: Claude.Input, status?: ToolReport["status"]): ToolReport => {
    const { paths: touched, title, ...about } = Claude.describe(name, input, (path) => paths.inside([path])[0] ?? path)
    return { ...about, title: paths.shorten(title), paths: touched === undefined ? undefined : paths.inside(touched), status }
  }

  const control = ({ request, request_id }: Claude.ControlRequest) => {
    const { agent_id, input = {}, subtype, tool_name = "tool", tool_use_id } = request
    // Hooks and tools of ours are not offered.
    if (subtype !== "can_use_tool") return respond(request_id, { subtype: "error", error: `unsupported: ${subtype}` })
    const about = { ...report(tool_name, input), input: JSON.stringify(input, null, 2) }
    const [id, approval] = [tool_use_id ?? request_id, { request: request_id, input }]
    if (agent_id != null && unreported.size < MAX_UNREPORTED) unreported.set(id, agent_id)
    // It is not offered. Allowing it would tell the model that the person gave no answer.
    return tool_name === Claude.QUESTION
      ? conversation.refuse(id, about, approval, "Nobody can answer questions here. Ask in your answer, and end the turn.")
      : conversation.ask(id, about, approval)
  }

  /** With what waits behind the turn, which would be run as the next one. */
  const interrupt = Effect.asVoid(request("interrupt", { cancel_queued: true }))

  /** Not waited for: an agent that is busy writing reads only after we have read. */
  const say = (text: string, about: object = {}) => {
    const message = { role: "user", content: [{ type: "text", text }] }
    const frame = { type: "user", session_id: "", parent_tool_use_id: null, ...about, message }
    return Effect.asVoid(Effect.forkChild(lines.send(frame), { startImmediately: true }))
  }

  const concluded = (ended: Conversation.Ended) => {
    untold.clear()
    provisional = null
    conversation.ended(ended)
  }

  const steered = (id: string, state: string) => {
    if (!untold.has(id) || state === "queued") return Effect.void
    untold.delete(id)
    // Anything else is its end, without the model.
    if (state === "started" || state === "completed") {
      provisional = null
      return conversation.took(id)
    }
    if (untold.size === 0 && provisional !== null) concluded(provisional)
    return Effect.void
  }

  const handle = (message: Claude.Message): Effect.Effect<void> => {
    const turn = conversation.live()
    switch (message.type) {
      case "control_request":
        return control(message)
      case "control_response": {
        const { error = "refused", request_id, subtype } = message.response
        answers.set(request_id, subtype === "success" ? null : error)
        return Effect.void
      }
      case "system":
        if (message.subtype === "task_notification") return turn === null ? Effect.void : turn.emit(endOf(turn, message))
        if (message.subtype !== "init") return Effect.void
        sessionId = message.session_id ?? sessionId
        // An interrupt that came before the turn began was for nothing. A turn that nobody watches was abandoned.
        return turn === null || turn.interrupted ? interrupt : Effect.void
      case "result": {
        const cost = message.total_cost_usd ?? null
        spent += cost === null || costBefore === null ? 0 : Math.max(0, Math.round((cost - costBefore) * MICROS))
        costBefore = cost ?? costBefore
        const end = conclude(message)
        if (untold.size > 0 && turn !== null && !turn.interrupted) provisional = end
        else concluded(end)
        return turn === null || requests === 0
          ? Effect.void
          : turn.emit([{ _tag: "UsageReported", llmRequestCount: requests, costMicroUsd: spent }])
      }
      case "command_lifecycle":
        return steered(message.command_uuid, message.state)
      default: {
        // Of what sub-agents say only their calls are told.
        const isTheirs = typeof message.parent_tool_use_id === "string"
        return turn === null || isTheirs && message.type === "stream_event" ? Effect.void : turn.emit(eventsOf(turn, message))
      }
    }
  }

  /** The end of a sub-agent is that of its calls. */
  const endOf = ({ events }: Conversation.LiveTurn, { status, task_id }: Extract<Claude.Message, { readonly type: "system" }>) => {
    const done = status === "completed" ? [...unreported].filter(([, agent]) => agent === task_id) : []
    return done.flatMap(([id]) => {
      unreported.delete(id)
      return events.tool(id, { status: "completed" })
    })
  }

  type News = Extract<Claude.Message, { readonly type: "stream_event" | "assistant" | "user" }>
  const eventsOf = ({ events }: Conversation.LiveTurn, news: News) => {
    switch (news.type) {
      case "stream_event": {
        const { event } = news
        if (event.type === "message_start") {
          messageId = event.message.id
          return [{ _tag: "UsageReported" as const, llmRequestCount: ++requests, costMicroUsd: 0 }]
        }
        const id = `${messageId}:${event.index}`
        return event.delta.type === "text_delta"
          ? events.chunk("text", id, event.delta.text)
          : events.chunk("reasoning", id, event.delta.thinking)
      }
      case "assistant":
        // What may have to be asked about has not begun.
        return news.message.content.flatMap((block) =>
          "name" in block ? events.tool(block.id, report(block.name, block.input, asks ? "pending" : "running")) : []
        )
      case "user":
        return news.message.content.flatMap((block) => {
          if (!("tool_use_id" in block)) return []
          unreported.delete(block.tool_use_id)
          return events.tool(block.tool_use_id, { status: block.is_error === true ? "error" : "completed", output: Claude.outputOf(block) })
        })
    }
  }

  const next = Effect.flatMap(lines.receive, (value) => Option.match(decode(value), { onNone: () => Effect.void, onSome: handle }))

  /** Before the session began. */
  const gone = Effect.fnUntraced(function*(ended: JsonLines.OutputEnded) {
    const error = yield* Effect.flip(conversation.gone("open")(ended))
    const unknown = options.resume !== null && (yield* process.stderrTail).includes(NO_SUCH_SESSION)
    return yield* unknown ? conversation.fail("open", "there is no such session to resume", false) : error
  })
  const start = Effect.gen(function*() {
    const id = yield* request("initialize")
    while (!answers.has(id)) yield* next.pipe(Effect.catch(gone))
    const refusal = answers.get(id) ?? null
    if (refusal !== null) return yield* conversation.fail("open", `initialize was refused: ${reason(refusal)}`, false)
  })
  yield* conversation.starting(start)

  return yield* conversation.session({
    sessionId: Effect.sync(() => sessionId),
    send: (text) =>
      Effect.suspend(() => {
        requests = spent = 0
        untold.clear()
        unreported.clear()
        provisional = null
        return say(text)
      }),
    next,
    cancel: interrupt,
    steer: (id, text) =>
      Effect.suspend(() => {
        untold.add(id)
        return say(text, { uuid: id })
      }),
    answer: ({ input, request: asked }, decision, why) =>
      // The denial ends the turn, and what waits behind it would begin the next one before the interrupt is read.
      Effect.andThen(
        decision === "cancel"
          ? Effect.forEach(untold, (id) => request("cancel_async_message", { message_uuid: id }), { discard: true })
          : Effect.void,
        respond(asked, {
          subtype: "success",
          response: decision === "approve"
            ? { behavior: "allow", updatedInput: input }
            : decision === "deny"
            ? { behavior: "deny", message: why === undefined ? "Denied by the user." : `Denied. ${why}` }
            : { behavior: "deny", message: "Interrupted.", interrupt: true }
        })
      )
  })
})
