/** Requests to authorization servers: checked like those to MCP servers, without redirects, and small. */
import { McpAuthorizationError } from "@slipway/domain/mcp/ports/McpAuthorizer"
import { destinationOf } from "@slipway/domain/mcp/rules/McpDestination"
import { type Destinations, LIMITS, send, textOf, Unreachable } from "../McpUpstream.ts"

/** Bytes of an answer: metadata, a registration, or tokens. */
const MAX_BYTES = 256 * 1024

/** Without a byte of an answer. */
const SILENT_MILLIS = 15_000

export interface FetchOptions extends Destinations {
  /** Milliseconds for all requests of one step. */
  readonly stepMillis: number
}

/** The detail is a sentence for people. `isFinal`: the same request succeeds at no later time. */
export const failed = (detail: string, isFinal = false) => new McpAuthorizationError({ detail, isFinal })

/** Whether a person's browser or the service may be sent there. */
export const isAllowed = (text: unknown, { privates }: Destinations): text is string => {
  if (typeof text !== "string" || text.length > 2000 || !URL.canParse(text)) return false
  const { hash, password, protocol, username } = new URL(text)
  return username === "" && password === "" && hash === "" &&
    (protocol === "https:" || (protocol === "http:" && privates.has(destinationOf(text))))
}

/** The same as `fetch`, for the library. Fails with a sentence about the host. */
export const fetchWithin = (options: FetchOptions, signal: AbortSignal) =>
async (
  url: string,
  init: { readonly method: string; readonly headers: Record<string, string>; readonly body?: unknown }
): Promise<Response> => {
  const { host } = new URL(url)
  const { body, headers, method } = init
  try {
    const answer = await send({
      url,
      method: method === "POST" ? "POST" : "GET",
      headers,
      ...(typeof body === "string" || body instanceof URLSearchParams ? { body: String(body) } : {}),
      limits: { ...LIMITS, firstByteMillis: SILENT_MILLIS, idleMillis: SILENT_MILLIS },
      destinations: options,
      signal
    })
    const { headers: got, statusCode: status = 502 } = answer
    if (status >= 300 && status < 400) {
      answer.destroy()
      throw failed(`${host} redirects to another address, which is not followed.`)
    }
    if (status >= 500) {
      answer.destroy()
      throw failed(`${host} answers with status ${status}.`)
    }
    const text = await textOf(answer, MAX_BYTES)
    const shown = ["content-type", "www-authenticate"].flatMap((name) => typeof got[name] === "string" ? [[name, got[name]]] : [])
    return new Response(status === 204 || status === 205 ? null : text, {
      status: status < 200 ? 502 : status,
      headers: Object.fromEntries(shown)
    })
  } catch (error) {
    if (error instanceof McpAuthorizationError) throw error
    if (signal.aborted) throw failed(`${host} does not answer in time.`)
    throw failed(`${host} cannot be used. ${error instanceof Unreachable ? error.message : "It cannot be reached."}`)
  }
}
