/** Sends the bytes of an artifact, all of them or a range, so that nothing in them can act in the origin of the service. */
import type { ByteRange, OpenArtifact } from "@slipway/domain/files/usecases/Artifacts"
import { HttpServerResponse } from "effect/http"
import { attachment } from "./ContentDisposition.ts"

/** Whatever a browser takes it for: no script, no request, no frame, no other type than the one sent. */
const INERT = {
  "content-security-policy": "default-src 'none'; sandbox; frame-ancestors 'none'",
  "cross-origin-resource-policy": "same-origin",
  "x-content-type-options": "nosniff"
}

/** One range of bytes; `null`: all bytes. Several ranges, other units and ranges outside of the bytes are ignored (RFC 9110, 14.2). */
export const rangeOf = (header: string | undefined, size: number): ByteRange | null => {
  const [, first, last] = /^bytes=(\d{0,15})-(\d{0,15})$/u.exec((header ?? "").trim()) ?? []
  if (first === undefined || last === undefined || first === "" && last === "") return null
  const start = first === "" ? Math.max(0, size - Number(last)) : Number(first)
  const end = first === "" || last === "" ? size : Math.min(size, Number(last) + 1)
  return start < end ? { start, end } : null
}

/** `headers`: of the request, for its range. `shownAs`: the media type for a browser that shows it; `null`: it is saved. */
export const reply = (
  { artifact: { name, sha256, size }, read }: OpenArtifact,
  headers: Readonly<Record<string, string | undefined>>,
  shownAs: string | null
) => {
  const etag = `"${sha256}"`
  const isCurrent = headers["if-range"] === undefined || headers["if-range"] === etag
  const range = isCurrent ? rangeOf(headers.range, size) : null
  const { end, start } = range ?? { start: 0, end: size }
  return HttpServerResponse.stream(read({ start, end }), {
    status: range === null ? 200 : 206,
    contentType: shownAs ?? "application/octet-stream",
    contentLength: end - start,
    headers: {
      ...INERT,
      "accept-ranges": "bytes",
      etag,
      "content-disposition": shownAs === null ? attachment(name) : "inline",
      ...(range === null ? {} : { "content-range": `bytes ${start}-${end - 1}/${size}` })
    }
  })
}
