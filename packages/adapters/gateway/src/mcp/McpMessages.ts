/** JSON-RPC messages between agents and MCP servers: what of them is passed on, and in which form. */
import type { McpPermission } from "@slipway/domain/mcp/schema/McpServer"
import { isObject } from "../protocols/JsonFields.ts"

export type Fields = Readonly<Record<string, unknown>>
export type RpcId = string | number | null

/** A message of an agent. `pass`: its checked form, which is what the server gets. */
export type FromAgent =
  | { readonly _tag: "Invalid"; readonly reason: string }
  /** An answer to a request of the server: none was passed on. */
  | { readonly _tag: "Answer" }
  | { readonly _tag: "Notification"; readonly pass: Fields }
  | { readonly _tag: "Request"; readonly id: RpcId; readonly method: string; readonly pass: Fields }
  | { readonly _tag: "Call"; readonly id: RpcId; readonly tool: string; readonly arguments: unknown; readonly pass: Fields }
  | { readonly _tag: "List"; readonly id: RpcId; readonly isFirstPage: boolean; readonly pass: Fields }

/** A message that may be passed on. */
export type Sent = Exclude<FromAgent, { readonly _tag: "Answer" | "Invalid" }>

/** Our own first request, in a protocol version that all servers know. */
export const INITIALIZE = {
  jsonrpc: "2.0",
  id: 1,
  method: "initialize",
  params: { protocolVersion: "2025-06-18", capabilities: {}, clientInfo: { name: "slipway", version: "1" } }
}

const isId = (id: unknown): id is string | number => typeof id === "string" || typeof id === "number"

const picked = (fields: Fields, names: ReadonlyArray<string>): Fields =>
  Object.fromEntries(names.flatMap((name) => Object.hasOwn(fields, name) ? [[name, fields[name]]] : []))

/** Fields of a call. Others could be read as one of these by a server that ignores case. */
const CALL_FIELDS = ["name", "arguments", "_meta", "task"]

const callOf = (id: RpcId, params: unknown): FromAgent => {
  if (!isObject(params) || typeof params["name"] !== "string") return { _tag: "Invalid", reason: "A call names its tool." }
  const { arguments: given = {}, name } = params
  if (!isObject(given)) return { _tag: "Invalid", reason: "The arguments of a call are an object." }
  const pass = { jsonrpc: "2.0", id, method: "tools/call", params: picked(params, CALL_FIELDS) }
  return { _tag: "Call", id, tool: name, arguments: given, pass }
}

/** Reads a message. Only fields of JSON-RPC are passed on, so that what was checked is what the server reads. */
export const fromAgent = (text: string): FromAgent => {
  let message: unknown
  try {
    message = JSON.parse(text)
  } catch {
    return { _tag: "Invalid", reason: "The message is not JSON." }
  }
  if (!isObject(message)) return { _tag: "Invalid", reason: "One message is expected, as an object." }
  const { id, method, params } = message
  if (method === undefined && isId(id)) return { _tag: "Answer" }
  if (typeof method !== "string") return { _tag: "Invalid", reason: "The message has no method." }
  const more = params === undefined ? {} : { params }
  const isCall = method.toLowerCase() === "tools/call"
  if (id === undefined && !isCall) return { _tag: "Notification", pass: { jsonrpc: "2.0", method, ...more } }
  if (!isId(id)) return { _tag: "Invalid", reason: "The id of a request is a text or a number." }
  if (isCall) {
    return method === "tools/call" ? callOf(id, params) : { _tag: "Invalid", reason: "The method is unknown." }
  }
  const pass: Fields = { jsonrpc: "2.0", id, method, ...more }
  if (method === "tools/list") return { _tag: "List", id, isFirstPage: !isObject(params) || params["cursor"] === undefined, pass }
  // Requests of servers are refused, so none is invited.
  if (method === "initialize" && isObject(params)) {
    return { _tag: "Request", id, method, pass: { ...pass, params: { ...params, capabilities: {} } } }
  }
  return { _tag: "Request", id, method, pass }
}

/** A message of a server. `request`: it wants something from the client. */
export type FromServer =
  | { readonly _tag: "Invalid" }
  | { readonly _tag: "Request"; readonly id: RpcId; readonly isPing: boolean }
  | { readonly _tag: "Pass"; readonly message: Fields }

export const fromServer = (text: string): FromServer => {
  let message: unknown
  try {
    message = JSON.parse(text)
  } catch {
    return { _tag: "Invalid" }
  }
  if (!isObject(message)) return { _tag: "Invalid" }
  const { id, method } = message
  if (method !== undefined && id !== undefined) return { _tag: "Request", id: isId(id) ? id : null, isPing: method === "ping" }
  return { _tag: "Pass", message }
}

/** The answer to a request of a server: sampling, elicitation and roots are not offered. */
export const answerTo = (id: RpcId, isPing: boolean): Fields =>
  isPing
    ? { jsonrpc: "2.0", id, result: {} }
    : { jsonrpc: "2.0", id, error: { code: -32601, message: "This client takes no requests of servers." } }

/** An answer with a list of tools, without those that the agent may not call; its names. Other answers have none. */
export const listed = (
  message: Fields,
  permissionOf: (tool: string) => McpPermission
): { readonly message: Fields; readonly names: ReadonlyArray<string> } => {
  const { result } = message
  if (!isObject(result) || !Array.isArray(result["tools"])) return { message, names: [] }
  const tools = result["tools"].filter((tool: unknown) =>
    isObject(tool) && typeof tool["name"] === "string" && permissionOf(tool["name"]) !== "deny"
  )
  const names = tools.flatMap((tool: Fields) => typeof tool["name"] === "string" ? [tool["name"]] : [])
  return { message: { ...message, result: { ...result, tools } }, names }
}

/** An error of ours. Clients show its message. */
export const errorOf = (id: RpcId, message: string, code = -32_000): Fields => ({ jsonrpc: "2.0", id, error: { code, message } })

/** The result of a call that was not made. The model reads its text. */
export const refusal = (id: RpcId, text: string): Fields => ({
  jsonrpc: "2.0",
  id,
  result: { content: [{ type: "text", text }], isError: true }
})
