/** Replies that are the same for everybody: their bytes are made once, compressed once, and shared by all who are sent them. */
import { Effect } from "effect"
import { type HttpServerRequest, HttpServerResponse } from "effect/http"
import { createHash } from "node:crypto"
import { promisify } from "node:util"
import { gzip } from "node:zlib"

const compressed = promisify(gzip)

/** Names the content, in the address of a file that never changes and in its `ETag`. */
export const hashOf = (bytes: Uint8Array): string => createHash("sha256").update(bytes).digest("hex").slice(0, 16)

const takesGzip = (accept: string | undefined): boolean => {
  const [, quality] = /(?:^|,)\s*gzip\s*(?:;\s*q=([\d.]+)\s*)?(?:,|$)/iu.exec(accept ?? "") ?? []
  return quality === undefined ? /(?:^|,)\s*gzip\s*(?:,|$)/iu.test(accept ?? "") : Number(quality) > 0
}

/** RFC 9110, section 13.1.2: compared weakly. */
const has = (given: string | undefined, etag: string): boolean =>
  given !== undefined &&
  (given.trim() === "*" || given.split(",").some((one) => one.trim().replace(/^W\//u, "") === etag.replace(/^W\//u, "")))

/** Kept by caches, which ask each time whether it is still so. */
export const REVALIDATED = "public, no-cache"
/** At an address that names its content. */
export const IMMUTABLE = "public, max-age=31536000, immutable"

/** Makes the answer to a request. */
export const make = Effect.fnUntraced(function*(bytes: Uint8Array, { cacheControl, contentType, headers = {} }: {
  readonly contentType: string
  readonly cacheControl: typeof REVALIDATED | typeof IMMUTABLE
  readonly headers?: Readonly<Record<string, string>>
}) {
  const small = yield* Effect.promise(() => compressed(bytes))
  // Weak: the same tag stands for the bytes as they are and for the compressed ones.
  const etag = `W/"${hashOf(bytes)}"`
  const common = { ...headers, "cache-control": cacheControl, etag, vary: "Accept-Encoding" }
  const plain = HttpServerResponse.uint8Array(bytes, { contentType, headers: common })
  const packed = small.length < bytes.length
    ? HttpServerResponse.uint8Array(small, { contentType, headers: { ...common, "content-encoding": "gzip" } })
    : plain
  const unchanged = HttpServerResponse.empty({ status: 304, headers: common })
  return (request: HttpServerRequest.HttpServerRequest): HttpServerResponse.HttpServerResponse =>
    has(request.headers["if-none-match"], etag) ? unchanged : takesGzip(request.headers["accept-encoding"]) ? packed : plain
})
