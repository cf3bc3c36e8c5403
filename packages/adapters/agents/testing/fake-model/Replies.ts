/** An answer in the words of each protocol, streamed or whole. */
import { randomUUID } from "node:crypto"
import type { ServerResponse } from "node:http"
import { type Answer, type Usage, words } from "./Answer.ts"
import type { Call, Protocol } from "./Call.ts"
import type { ToolUse } from "./Tools.ts"

interface Reply {
  readonly response: ServerResponse
  readonly call: Call
  readonly answer: Answer
  /** Waits; aborted, it ends at once. */
  readonly pause: (millis: number) => Promise<void>
  readonly aborted: () => boolean
  /** The usage is on its way to the client. */
  readonly served: (usage: Usage) => void
}

const freshId = (prefix: string) => `${prefix}_${randomUUID().replaceAll("-", "").slice(0, 20)}`
const seconds = () => Math.floor(Date.now() / 1000)

export const json = (response: ServerResponse, status: number, body: object, headers: Record<string, string> = {}) => {
  response.writeHead(status, { "content-type": "application/json", ...headers })
  response.end(JSON.stringify(body))
}

const stream = (response: ServerResponse) => {
  response.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-cache" })
}

/** Sends the words of the answer. False: nothing more may follow. */
const speak = async ({ aborted, answer, pause }: Reply, send: (word: string) => void): Promise<boolean> => {
  for (const word of words(answer.text)) {
    if (aborted()) return false
    send(word)
    if (answer.pauseMillis > 0) await pause(answer.pauseMillis)
  }
  if (answer.hangs) await pause(Infinity)
  return !aborted() && !answer.hangs
}

const payload = (use: ToolUse) => ("input" in use ? use.input : JSON.stringify(use.arguments))
const argumentsOf = (use: ToolUse) => ("input" in use ? { input: use.input } : use.arguments)

const chat = async (reply: Reply) => {
  const { answer, call, response, served } = reply
  const { cached, input, output, reasoning } = answer.usage
  const usage = {
    prompt_tokens: input,
    completion_tokens: output,
    total_tokens: input + output,
    prompt_tokens_details: { cached_tokens: cached },
    completion_tokens_details: { reasoning_tokens: reasoning }
  }
  const head = { id: freshId("chatcmpl"), created: seconds(), model: call.model }
  const finish_reason = answer.tools.length > 0 ? "tool_calls" : "stop"
  const tool_calls = answer.tools.map((use, index) => ({
    index,
    id: freshId("call"),
    type: "function",
    function: { name: use.tool.name, arguments: JSON.stringify(argumentsOf(use)) }
  }))
  if (!call.streaming) {
    const message = {
      role: "assistant",
      content: answer.text,
      ...(answer.reasoning === "" ? {} : { reasoning_content: answer.reasoning }),
      ...(tool_calls.length === 0 ? {} : { tool_calls })
    }
    if (!(await speak(reply, () => {}))) return
    served(answer.usage)
    return json(response, 200, { ...head, object: "chat.completion", choices: [{ index: 0, message, finish_reason }], usage })
  }
  stream(response)
  const send = (frame: object) => response.write(`data: ${JSON.stringify({ ...head, object: "chat.completion.chunk", ...frame })}\n\n`)
  const delta = (delta: object, finish_reason: string | null = null) => send({ choices: [{ index: 0, delta, finish_reason }] })
  delta({ role: "assistant", content: "" })
  for (const word of words(answer.reasoning)) delta({ reasoning_content: word })
  if (!(await speak(reply, (content) => delta({ content })))) return
  for (const tool of tool_calls) {
    delta({ tool_calls: [{ ...tool, function: { name: tool.function.name, arguments: "" } }] })
    delta({ tool_calls: [{ index: tool.index, function: { arguments: tool.function.arguments } }] })
  }
  delta({}, finish_reason)
  served(answer.usage)
  send({ choices: [], usage })
  response.end("data: [DONE]\n\n")
}

const responses = async (reply: Reply) => {
  const { answer, call, response, served } = reply
  const { cached, input, output, reasoning } = answer.usage
  const usage = {
    input_tokens: input,
    input_tokens_details: { cached_tokens: cached },
    output_tokens: output,
    output_tokens_details: { reasoning_tokens: reasoning },
    total_tokens: input + output
  }
  const head = { id: freshId("resp"), object: "response", created_at: seconds(), model: call.model, error: null, incomplete_details: null }
  const done: Array<object> = []
  let sequence_number = 0
  if (call.streaming) stream(response)
  const send = (type: string, fields: object) => {
    if (call.streaming) {
      response.write(`event: ${type}\ndata: ${JSON.stringify({ type, sequence_number: sequence_number++, ...fields })}\n\n`)
    }
  }
  const place = () => ({ output_index: done.length })
  const begin = (item: object) => send("response.output_item.added", { ...place(), item })
  const end = (item: object) => {
    send("response.output_item.done", { ...place(), item })
    done.push(item)
  }

  send("response.created", { response: { ...head, status: "in_progress", output: [] } })
  if (answer.reasoning !== "") {
    const item = { id: freshId("rs"), type: "reasoning", summary: [] as Array<object> }
    const where = { item_id: item.id, ...place(), summary_index: 0 }
    const part = { type: "summary_text", text: answer.reasoning }
    begin(item)
    send("response.reasoning_summary_part.added", { ...where, part: { ...part, text: "" } })
    for (const delta of words(answer.reasoning)) send("response.reasoning_summary_text.delta", { ...where, delta })
    send("response.reasoning_summary_text.done", { ...where, text: answer.reasoning })
    send("response.reasoning_summary_part.done", { ...where, part })
    end({ ...item, summary: [part], encrypted_content: "ZmFrZQ==" })
  }
  if (answer.text !== "" || answer.hangs) {
    const item = { id: freshId("msg"), type: "message", role: "assistant" }
    const where = { item_id: item.id, ...place(), content_index: 0 }
    const part = { type: "output_text", text: answer.text, annotations: [] }
    begin({ ...item, status: "in_progress", content: [] })
    send("response.content_part.added", { ...where, part: { ...part, text: "" } })
    if (!(await speak(reply, (delta) => send("response.output_text.delta", { ...where, delta })))) return
    send("response.output_text.done", { ...where, text: answer.text })
    send("response.content_part.done", { ...where, part })
    end({ ...item, status: "completed", content: [part] })
  }
  for (const use of answer.tools) {
    const { name, namespace } = use.tool
    const free = "input" in use
    const item = {
      id: freshId(free ? "ctc" : "fc"),
      type: free ? "custom_tool_call" : "function_call",
      status: "completed",
      call_id: freshId("call"),
      name,
      ...(namespace === undefined ? {} : { namespace }),
      [free ? "input" : "arguments"]: payload(use)
    }
    const event = `response.${free ? "custom_tool_call_input" : "function_call_arguments"}`
    begin({ ...item, status: "in_progress", [free ? "input" : "arguments"]: "" })
    send(`${event}.delta`, { item_id: item.id, ...place(), delta: payload(use) })
    send(`${event}.done`, { item_id: item.id, ...place(), [free ? "input" : "arguments"]: payload(use) })
    end(item)
  }
  served(answer.usage)
  const whole = { ...head, status: "completed", output: done, usage }
  if (!call.streaming) return json(response, 200, whole)
  send("response.completed", { response: whole })
  response.end()
}

const messages = async (reply: Reply) => {
  const { answer, call, response, served } = reply
  const { cached, input, output } = answer.usage
  // Here the input leaves out what was cached.
  const usage = { input_tokens: input - cached, cache_creation_input_tokens: 0, cache_read_input_tokens: cached }
  const message = { id: freshId("msg"), type: "message", role: "assistant", model: call.model, stop_sequence: null }
  const stop_reason = answer.tools.length > 0 ? "tool_use" : "end_turn"
  const uses = answer.tools.map((use) => ({ type: "tool_use", id: freshId("toolu"), name: use.tool.name, input: argumentsOf(use) }))
  if (!call.streaming) {
    if (!(await speak(reply, () => {}))) return
    served(answer.usage)
    return json(response, 200, {
      ...message,
      content: [...(answer.text === "" ? [] : [{ type: "text", text: answer.text }]), ...uses],
      stop_reason,
      usage: { ...usage, output_tokens: output }
    })
  }
  stream(response)
  const send = (type: string, fields: object = {}) => response.write(`event: ${type}\ndata: ${JSON.stringify({ type, ...fields })}\n\n`)
  let index = 0
  const begin = (content_block: object) => send("content_block_start", { index, content_block })
  const delta = (delta: object) => send("content_block_delta", { index, delta })
  const end = () => send("content_block_stop", { index: index++ })

  served({ ...answer.usage, output: 1, reasoning: 0 })
  send("message_start", { message: { ...message, content: [], stop_reason: null, usage: { ...usage, output_tokens: 1 } } })
  if (answer.reasoning !== "") {
    begin({ type: "thinking", thinking: "", signature: "" })
    for (const thinking of words(answer.reasoning)) delta({ type: "thinking_delta", thinking })
    delta({ type: "signature_delta", signature: "ZmFrZQ==" })
    end()
  }
  if (answer.text !== "" || answer.hangs) {
    begin({ type: "text", text: "" })
    if (!(await speak(reply, (text) => delta({ type: "text_delta", text })))) return
    end()
  }
  for (const use of uses) {
    begin({ ...use, input: {} })
    delta({ type: "input_json_delta", partial_json: JSON.stringify(use.input) })
    end()
  }
  served(answer.usage)
  send("message_delta", { delta: { stop_reason, stop_sequence: null }, usage: { ...usage, output_tokens: output } })
  send("message_stop")
  response.end()
}

/** Each resolves when the answer is out, or the client is gone. */
export const repliers: Record<Protocol, (reply: Reply) => Promise<void>> = {
  "openai-chat": chat,
  "openai-responses": responses,
  "anthropic-messages": messages
}
