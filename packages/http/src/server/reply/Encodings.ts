/** Compression of replies: which encoding a client takes, and the bytes in it. It runs on threads of Node's pool. */
import { Effect } from "effect"
import { HttpBody, HttpServerResponse } from "effect/http"
import { promisify } from "node:util"
import { brotliCompress, constants, gzip } from "node:zlib"

export type Encoding = "br" | "gzip"

const brotli = promisify(brotliCompress)
const gzipped = promisify(gzip)

/** From this size on a reply is compressed: a smaller one takes few packets either way. */
const LARGE_BYTES = 32 * 1024
/** Brotli's best quality takes half a second for 256 KiB; of more, 9 takes as long for 3 MiB. */
const BEST_QUALITY_BYTES = 256 * 1024
/** As fast as gzip, and smaller. */
const FAST_QUALITY = 4

const qualityOf = (accept: string, encoding: Encoding): number => {
  for (const one of accept.split(",")) {
    const [name, ...parameters] = one.split(";").map((part) => part.trim().toLowerCase())
    if (name !== encoding) continue
    const given = parameters.find((parameter) => parameter.startsWith("q="))
    const quality = given === undefined ? 1 : Number(given.slice(2))
    return Number.isNaN(quality) ? 0 : quality
  }
  return 0
}

/** The encoding for a client with this `Accept-Encoding`; Brotli where it likes both equally. `null`: bytes as they are. */
export const preferred = (accept: string | undefined): Encoding | null => {
  if (accept === undefined) return null
  const [br, plain] = [qualityOf(accept, "br"), qualityOf(accept, "gzip")]
  return br > 0 && br >= plain ? "br" : plain > 0 ? "gzip" : null
}

/** `kept`: made once and sent often, so it may take a second. */
export const compressed = (bytes: Uint8Array, encoding: Encoding, { kept }: { readonly kept: boolean }): Effect.Effect<Uint8Array> =>
  Effect.promise(() => {
    if (encoding === "gzip") return gzipped(bytes)
    const quality = kept ? bytes.length > BEST_QUALITY_BYTES ? 9 : constants.BROTLI_MAX_QUALITY : FAST_QUALITY
    return brotli(bytes, { params: { [constants.BROTLI_PARAM_QUALITY]: quality, [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length } })
  })

/**
 * A large reply in JSON or plain text as this client takes it. HTML is sent as it is: our pages hold a secret of their reader beside
 * text of others, whose size after compression tells how much of the secret that text repeats (BREACH).
 */
export const pack = (
  response: HttpServerResponse.HttpServerResponse,
  accept: string | undefined
): Effect.Effect<HttpServerResponse.HttpServerResponse> => {
  const { body } = response
  if (body._tag !== "Uint8Array" || body.contentLength < LARGE_BYTES || response.headers["content-encoding"] !== undefined) {
    return Effect.succeed(response)
  }
  const { contentType } = body
  if (!contentType.startsWith("application/json") && !contentType.startsWith("text/plain")) return Effect.succeed(response)
  const { vary } = response.headers
  // A shared document names it already.
  const names = vary === undefined ? [] : vary.split(", ")
  const varied = HttpServerResponse.setHeader(response, "vary", [...new Set([...names, "Accept-Encoding"])].join(", "))
  const encoding = preferred(accept)
  if (encoding === null) return Effect.succeed(varied)
  return Effect.map(compressed(body.body, encoding, { kept: false }), (bytes) =>
    HttpServerResponse.setHeader(
      HttpServerResponse.setBody(varied, HttpBody.uint8Array(bytes, contentType)),
      "content-encoding",
      encoding
    ))
}
