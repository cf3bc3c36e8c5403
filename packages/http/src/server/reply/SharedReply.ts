/** Replies that are the same for everybody: their bytes are made once, compressed once, and shared by all who are sent them. */
import { Effect } from "effect"
import { type HttpServerRequest, HttpServerResponse } from "effect/http"
import { createHash } from "node:crypto"
import * as Encodings from "./Encodings.ts"

/** Names the content, in the address of a file that never changes and in its `ETag`. */
export const hashOf = (bytes: Uint8Array): string => createHash("sha256").update(bytes).digest("hex").slice(0, 16)

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
  // Weak: the same tag stands for the bytes as they are and for the compressed ones.
  const etag = `W/"${hashOf(bytes)}"`
  const common = { ...headers, "cache-control": cacheControl, etag, vary: "Accept-Encoding" }
  const plain = HttpServerResponse.uint8Array(bytes, { contentType, headers: common })
  const pack = Effect.fnUntraced(function*(encoding: Encodings.Encoding) {
    const small = yield* Encodings.compressed(bytes, encoding, { kept: true })
    if (small.length >= bytes.length) return plain
    return HttpServerResponse.uint8Array(small, { contentType, headers: { ...common, "content-encoding": encoding } })
  })
  const packed = yield* Effect.all({ br: pack("br"), gzip: pack("gzip") }, { concurrency: 2 })
  const unchanged = HttpServerResponse.empty({ status: 304, headers: common })
  return (request: HttpServerRequest.HttpServerRequest): HttpServerResponse.HttpServerResponse => {
    if (has(request.headers["if-none-match"], etag)) return unchanged
    const encoding = Encodings.preferred(request.headers["accept-encoding"])
    return encoding === null ? plain : packed[encoding]
  }
})
