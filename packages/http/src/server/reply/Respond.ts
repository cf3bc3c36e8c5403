/** Small JSON replies. */
import type { Refusal } from "@slipway/api/shared/Errors"
import { HttpServerResponse } from "effect/http"

/** JSON that is text already. */
export const json = (
  text: string,
  { headers, status = 200 }: { readonly status?: number; readonly headers?: Readonly<Record<string, string>> } = {}
): HttpServerResponse.HttpServerResponse =>
  HttpServerResponse.text(text, { status, contentType: "application/json", ...(headers === undefined ? {} : { headers }) })

const known = new WeakMap<Refusal, HttpServerResponse.HttpServerResponse>()

/** A refusal that is always the same is encoded once: refusing must cost little. */
export const respond = (refusal: Refusal): HttpServerResponse.HttpServerResponse => {
  const { code, headers, message, status } = refusal
  const response = known.get(refusal) ?? json(JSON.stringify({ error: { code, message } }), { status, headers })
  known.set(refusal, response)
  return response
}
