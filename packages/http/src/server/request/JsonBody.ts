/** Reads a body once, whole and checked, so that what the schemas see is JSON text of a bearable shape (docs/decisions/1). */
import { InvalidIdempotencyKey, InvalidRequest, PayloadTooLarge, UnsupportedMediaType } from "@slipway/api/shared/Errors"
import { JsonBody } from "@slipway/api/shared/Middleware"
import { ByteSize, Effect, Layer } from "effect"
import { HttpIncomingMessage, HttpServerRequest } from "effect/http"
import { isUtf8 } from "node:buffer"
import * as Wire from "../connection/Wire.ts"
import { isInUtf8 } from "./ContentType.ts"

/** 1 MiB (docs/decisions/12). */
const MAX_BODY = ByteSize.mebibytes(1)
const MAX_BODY_BYTES = ByteSize.toNumberUnsafe(MAX_BODY)

const MAX_NESTING = 32

/**
 * Values in a body, counted by what comes between and before them: ten times what the largest one needs. To parse, decode
 * and describe tens of thousands of them holds the event loop for seconds (measured 2026-11-22: 38,000 repositories, 1.9 s).
 */
const MAX_VALUES = 1000

/** The limit that the text exceeds, which need not be JSON; `null`: none. */
const excessOf = (bytes: Uint8Array): string | null => {
  let depth = 0
  let values = 1
  let inString = false
  for (let i = 0; i < bytes.length; i++) {
    const byte = bytes[i]
    if (inString) {
      if (byte === 0x5c /* \ */) i++
      else if (byte === 0x22 /* " */) inString = false
    } else if (byte === 0x22) inString = true
    else if (byte === 0x5d /* ] */ || byte === 0x7d /* } */) depth--
    else if (byte === 0x5b /* [ */ || byte === 0x7b /* { */ || byte === 0x2c /* , */) {
      if (byte !== 0x2c && ++depth > MAX_NESTING) return `at most ${MAX_NESTING} levels of nesting`
      if (++values > MAX_VALUES) return `at most ${MAX_VALUES} values`
    }
  }
  return null
}

const EMPTY_OBJECT = /^[\t\n\r ]*\{[\t\n\r ]*\}[\t\n\r ]*$/u

const check = Effect.fnUntraced(function*(request: HttpServerRequest.HttpServerRequest, takesBody: boolean) {
  if (Number(request.headers["content-length"]) > MAX_BODY_BYTES) {
    return yield* PayloadTooLarge.make("The body is larger than 1 MiB.")
  }
  // Counts while it reads, so a chunked body is held to the limit too.
  const bytes = new Uint8Array(yield* Effect.provideService(request.arrayBuffer, HttpIncomingMessage.MaxBodySize, MAX_BODY))
  if (Wire.of(request).lines("idempotency-key").length > 1) {
    return yield* InvalidIdempotencyKey.make("Send one Idempotency-Key header.")
  }
  if (bytes.length === 0) return "{}"
  if (!isInUtf8(request.headers["content-type"], "application/json")) {
    return yield* UnsupportedMediaType.make("The body must be application/json in UTF-8.")
  }
  if (!/^(?:identity)?$/iu.test(request.headers["content-encoding"] ?? "")) {
    return yield* UnsupportedMediaType.make("The body must not be encoded.")
  }
  if (!isUtf8(bytes)) return yield* InvalidRequest.make("body: UTF-8 expected")
  const excess = excessOf(bytes)
  if (excess !== null) return yield* InvalidRequest.make(`body: ${excess} expected`)
  const text = Buffer.from(bytes.buffer).toString("utf8")
  if (text.startsWith("\ufeff")) return yield* InvalidRequest.make("body: must not start with a byte order mark")
  if (!takesBody && !EMPTY_OBJECT.test(text)) return yield* InvalidRequest.make("body: nothing or {} expected")
  return text
})

export const layer = Layer.succeed(
  JsonBody,
  (endpoint, { endpoint: { payload } }) =>
    Effect.flatMap(HttpServerRequest.HttpServerRequest, (request) =>
      Effect.flatMap(
        Effect.catchTag(check(request, payload.size > 0), "HttpServerError", Effect.die),
        // The schemas read `text`: the checked text, or `{}` without a body.
        (text) =>
          Effect.provideService(
            endpoint,
            HttpServerRequest.HttpServerRequest,
            Object.create(request, { text: { value: Effect.succeed(text) } })
          )
      ))
)
