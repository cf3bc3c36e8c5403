/** Refusals as responses. */
import { HttpServerResponse } from "effect/http"
import type { Refusal } from "../api/Errors.ts"

export const respond = ({ code, headers, message, status }: Refusal): HttpServerResponse.HttpServerResponse =>
  HttpServerResponse.text(JSON.stringify({ error: { code, message } }), { status, contentType: "application/json", headers })
