/** Messages of JSON-RPC 2.0 as the Model Context Protocol uses them: one message at a time, no batches. */

export type MessageId = string | number

export interface Request {
  readonly id: MessageId
  readonly method: string
  readonly params: Readonly<Record<string, unknown>>
}

export interface Notification {
  readonly method: string
  readonly params: Readonly<Record<string, unknown>>
}

/** `Other`: an answer to a request of the server, which sends none. */
export type Message =
  | { readonly _tag: "Request"; readonly request: Request }
  | { readonly _tag: "Notification"; readonly notification: Notification }
  | { readonly _tag: "Other" }

/** Codes of JSON-RPC, and `notFound` of the protocol for resources. */
export const code = {
  parse: -32_700,
  invalidRequest: -32_600,
  unknownMethod: -32_601,
  invalidParams: -32_602,
  internal: -32_603,
  notFound: -32_002,
  busy: -32_000
} as const

/** A request fails with an error of the protocol. The message is sent to the client. */
export class RpcError extends Error {
  readonly code: number

  constructor(code: number, message: string) {
    super(message)
    this.code = code
  }
}

export const resultOf = (id: MessageId, result: object): string => JSON.stringify({ jsonrpc: "2.0", id, result })

/** `id`: `null` where the request could not be read. */
export const errorOf = (id: MessageId | null, { code, message }: { readonly code: number; readonly message: string }): string =>
  JSON.stringify({ jsonrpc: "2.0", id, error: { code, message } })

export const notificationOf = (method: string, params: object): string => JSON.stringify({ jsonrpc: "2.0", method, params })

const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value)

const MAX_ID_LENGTH = 200

const isId = (value: unknown): value is MessageId => typeof value === "string" ? value.length <= MAX_ID_LENGTH : Number.isSafeInteger(value)

/** Reads the text of one message. Throws an {@link RpcError}. */
export const read = (text: string): Message => {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    throw new RpcError(code.parse, "The message is not JSON.")
  }
  if (Array.isArray(value)) throw new RpcError(code.invalidRequest, "Batches are not supported: send one message.")
  if (!isRecord(value) || value["jsonrpc"] !== "2.0") throw new RpcError(code.invalidRequest, "The message is not of JSON-RPC 2.0.")
  const { id, method, params = {} } = value
  if (method === undefined && ("result" in value || "error" in value)) return { _tag: "Other" }
  if (typeof method !== "string" || !isRecord(params)) {
    throw new RpcError(code.invalidRequest, "The method is a text, and its parameters are an object.")
  }
  if (id === undefined) return { _tag: "Notification", notification: { method, params } }
  if (!isId(id)) throw new RpcError(code.invalidRequest, `The id is a whole number, or a text of at most ${MAX_ID_LENGTH} characters.`)
  return { _tag: "Request", request: { id, method, params } }
}
