/** A piece of a page by itself, for a script that looks again and again: nothing is sent while it stays the same. */
import { hashOf } from "@slipway/http/server/reply/SharedReply"
import { Effect } from "effect"
import { HttpServerRequest, HttpServerResponse } from "effect/http"
import type { Html } from "../html/Html.ts"
import * as Render from "../html/Render.ts"

export const answer = Effect.fnUntraced(function*(piece: Html) {
  const request = yield* HttpServerRequest.HttpServerRequest
  const text = yield* Render.text(piece)
  const etag = `"${hashOf(Buffer.from(text))}"`
  const headers = { etag, "cache-control": "private, no-cache" }
  return request.headers["if-none-match"] === etag
    ? HttpServerResponse.empty({ status: 304, headers })
    : HttpServerResponse.text(text, { headers, contentType: "text/html; charset=utf-8" })
})
