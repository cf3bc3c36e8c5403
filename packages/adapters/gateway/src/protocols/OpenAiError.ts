import type { Protocol } from "./Protocol.ts"

const types: Readonly<Record<number, string>> = { 401: "authentication_error", 402: "insufficient_quota", 429: "rate_limit_error" }

export const openAiError: Protocol["error"] = ({ code, message, status }) => ({
  error: { message, type: types[status] ?? (status < 500 ? "invalid_request_error" : "server_error"), param: null, code }
})
