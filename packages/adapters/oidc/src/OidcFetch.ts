/** Requests to a provider of OpenID Connect: encrypted, without redirects, and small. */
import { Data } from "effect"

/** Metadata have 2 KB, keys 10 KB. Tokens of a person in many groups have 50 KB. */
const MAXIMUM_ANSWER_BYTES = 262_144

/** A request without a usable answer. The detail is a sentence for operators, free of secrets. */
export class OidcFailed extends Data.TaggedError("OidcFailed")<{ readonly detail: string; readonly retryable: boolean }> {
  override get message() {
    return this.detail
  }
}

/** Whether secrets may be sent there: the connection is encrypted, or stays on this machine. */
export const isProtected = (url: string): boolean => {
  if (!URL.canParse(url)) return false
  const { hostname, protocol } = new URL(url)
  return protocol === "https:" || protocol === "http:" && ["127.0.0.1", "[::1]", "localhost"].includes(hostname)
}

/** The error code of a failed connection. Messages may quote received data. */
export const codeOf = (error: unknown): string => {
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    if ("code" in cause && typeof cause.code === "string") return cause.code
  }
  return "no code"
}

const bodyOf = async (response: Response, host: string) => {
  const chunks: Array<Uint8Array> = []
  let bytes = 0
  for await (const chunk of response.body ?? []) {
    bytes += chunk.length
    if (bytes > MAXIMUM_ANSWER_BYTES) throw new OidcFailed({ detail: `The answer of ${host} is too long.`, retryable: false })
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}

/** The same as `fetch`, for the library. Rejects with `OidcFailed`, or with an error of the connection. */
export const request = async (url: string, init: RequestInit): Promise<Response> => {
  const { host } = new URL(url)
  if (!isProtected(url)) {
    throw new OidcFailed({ detail: `${host} names an address that does not start with https:.`, retryable: false })
  }
  // Credentials must not go to other addresses.
  const response = await fetch(url, { ...init, redirect: "manual" })
  const { status } = response
  const body = await bodyOf(response, host)
  if (status >= 500 || status === 429) throw new OidcFailed({ detail: `${host} answers with status ${status}.`, retryable: true })
  if (status >= 300 && status < 400) {
    throw new OidcFailed({ detail: `${host} redirects to another address, which is not followed.`, retryable: false })
  }
  return new Response(status === 204 || status === 205 ? null : body, { status, headers: response.headers })
}
