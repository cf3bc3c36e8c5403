/** The gateway's own errors to requests of a session. */
import type { SpendingRefused } from "@slipway/domain/models/ports/Spending"
import { codeOf } from "@slipway/domain/models/ports/Spending"
import type { Fetching } from "../preparation/Preparation.ts"

export interface Refusal {
  readonly status: number
  readonly code: string
  readonly message: string
  readonly headers?: Readonly<Record<string, string>>
}

/** For clients of both companies: the same request may succeed soon. */
const AGAIN = { "retry-after": "1", "x-should-retry": "true" }

export const compressed: Refusal = {
  status: 415,
  code: "unsupported_encoding",
  message: "The model gateway takes no compressed requests."
}

export const unreadBody = (why: "too large" | "too much" | "too slow", maximumBytes: number): Refusal => {
  if (why === "too large") return { status: 413, code: "request_too_large", message: `A request may have ${maximumBytes} bytes.` }
  if (why === "too much") {
    return {
      status: 429,
      code: "too_many_requests",
      message: "The requests under way have too many bytes. Try again when one of them is over.",
      headers: AGAIN
    }
  }
  return { status: 408, code: "request_timeout", message: "The request did not arrive in time.", headers: { connection: "close" } }
}

/** `null`: the body cannot be read. `addresses`: the name of the option that allows addresses. */
export const unprepared = (why: Fetching | "too busy" | null, addresses: string): Refusal => {
  if (why === "too busy") {
    return {
      status: 429,
      code: "too_many_requests",
      message: "Too many requests are waiting. Try again in a moment.",
      headers: AGAIN
    }
  }
  if (why === null) return { status: 400, code: "invalid_request", message: "The request is not a JSON object that can be read." }
  const what = `The model's provider would have to fetch an address (${why.field.slice(0, 50)}).`
  const help = `Send the content itself as a data URL. The operator can allow addresses with ${addresses}.`
  return { status: 400, code: "address_not_allowed", message: `${what} ${help}` }
}

export const tooExpensive = (refusal: SpendingRefused): Refusal => ({ status: 402, code: codeOf(refusal), message: refusal.message })

export const unaccountable: Refusal = {
  status: 503,
  code: "unavailable",
  message: "The model gateway cannot account for requests just now.",
  headers: AGAIN
}

/** Not `AGAIN`: only a new session of the agent can use another account. */
export const noAccount: Refusal = {
  status: 403,
  code: "no_account",
  message: "The service's account with the model's provider was removed or changed. Send the message again in a moment."
}

/** Not `AGAIN`: agents would repeat it until they give up, and a person reads nothing meanwhile. */
export const noCredentials: Refusal = {
  status: 503,
  code: "no_credentials",
  message: "The service has no valid credentials for the model's provider at present. Send the message again later."
}

export const unknownToken: Refusal = { status: 401, code: "invalid_api_key", message: "The token is not valid here." }

export const unknownAddress: Refusal = { status: 404, code: "not_found", message: "The model gateway has no such address." }

export const tooManyUnderWay: Refusal = {
  status: 429,
  code: "too_many_requests",
  message: "Too many requests are under way.",
  headers: AGAIN
}

export const tooManyRefused = (waitMillis: number): Refusal => ({
  status: 429,
  code: "too_many_requests",
  message: "Too many requests of this session were refused. Try again later.",
  headers: { ...AGAIN, "retry-after": String(Math.ceil(waitMillis / 1000)) }
})
