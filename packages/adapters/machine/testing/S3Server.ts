/**
 * An object store with the API of S3, as far as Slipway uses it, which checks signatures by its own computation: no server on npm or in
 * Debian does. A wrong key, a wrong signature and an unsigned request get 403, a wrong hash 400, a body without a length 411, and a put
 * over an existing object with `If-None-Match: *` gets 412.
 */
import { Effect } from "effect"
import { createHash, createHmac, timingSafeEqual } from "node:crypto"
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"

/** Keys of the example of AWS's documentation. */
export const ACCESS_KEY = "AKIAIOSFODNN7EXAMPLE"
export const SECRET_KEY = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
export const REGION = "eu-central-1"
export const BUCKET = "slipway-blobs"

const sha256 = (data: Uint8Array | string) => createHash("sha256").update(data).digest("hex")
const hmac = (key: Uint8Array | string, data: string) => createHmac("sha256", key).update(data).digest()

/** As S3 spells a name in a signature: all but the unreserved characters of RFC 3986. */
const encoded = (text: string) => encodeURIComponent(text).replace(/[!'()*]/gu, (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`)

/** Signature Version 4 of a request as it came, by the documentation of AWS. */
export const signatureOf = (
  { method, path, query, headers, secretKey, signedHeaders, region }: {
    readonly method: string
    /** As it came, percent-encoded. */
    readonly path: string
    readonly query: URLSearchParams
    readonly headers: Readonly<Record<string, string>>
    readonly signedHeaders: ReadonlyArray<string>
    readonly secretKey: string
    readonly region: string
  }
): string => {
  const at = headers["x-amz-date"] ?? ""
  const day = at.slice(0, 8)
  const canonical = [
    method,
    path.split("/").map((part) => encoded(decodeURIComponent(part))).join("/"),
    Array.from(query, ([name, value]) => `${encoded(name)}=${encoded(value)}`).sort().join("&"),
    ...signedHeaders.map((name) => `${name}:${(headers[name] ?? "").trim().replace(/ +/gu, " ")}`),
    "",
    signedHeaders.join(";"),
    headers["x-amz-content-sha256"] ?? ""
  ].join("\n")
  const scope = `${day}/${region}/s3/aws4_request`
  const key = [region, "s3", "aws4_request"].reduce((key, part) => hmac(key, part), hmac(`AWS4${secretKey}`, day))
  return hmac(key, ["AWS4-HMAC-SHA256", at, scope, sha256(canonical)].join("\n")).toString("hex")
}

const AUTHORIZATION =
  /^AWS4-HMAC-SHA256 Credential=([^/]+)\/(\d{8})\/([^/]+)\/s3\/aws4_request, ?SignedHeaders=([^,]+), ?Signature=([0-9a-f]{64})$/u

/** Headers that must be signed, besides every other `x-amz-` header that came. */
const MUST_SIGN = ["host", "x-amz-content-sha256", "x-amz-date"]

const flat = (headers: IncomingHttpHeaders) => Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, String(value)]))

/** What was wrong with the signature; `null`: nothing. */
const refusalOf = (request: IncomingMessage, { region, sessionToken }: Keys, now: number): string | null => {
  const headers = flat(request.headers)
  const [, key, day, inRegion, names = "", signature = ""] = AUTHORIZATION.exec(headers["authorization"] ?? "") ?? []
  if (key === undefined) return "AccessDenied"
  if (key !== ACCESS_KEY) return "InvalidAccessKeyId"
  if (inRegion !== region) return "AuthorizationHeaderMalformed"
  if ((headers["x-amz-security-token"] ?? null) !== sessionToken) return "InvalidToken"
  const signedHeaders = names.split(";")
  const needed = [...MUST_SIGN, ...Object.keys(headers).filter((name) => name.startsWith("x-amz-"))]
  if (needed.some((name) => !signedHeaders.includes(name))) return "AccessDenied"
  const at = headers["x-amz-date"] ?? ""
  const time = Date.parse(at.replace(/^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/u, "$1-$2-$3T$4:$5:$6Z"))
  if (!(Math.abs(time - now) < 15 * 60_000) || day !== at.slice(0, 8)) return "RequestTimeTooSkewed"
  const { pathname, searchParams } = new URL(request.url ?? "", "http://host")
  const expected = signatureOf({
    method: request.method ?? "",
    path: pathname,
    query: searchParams,
    headers,
    signedHeaders,
    secretKey: SECRET_KEY,
    region
  })
  return timingSafeEqual(Buffer.from(signature), Buffer.from(expected)) ? null : "SignatureDoesNotMatch"
}

interface Keys {
  readonly region: string
  readonly sessionToken: string | null
}

/** An answer instead of the right one. `hang`: none at all; `cut`: half of the body, and then the connection is closed. */
export interface Trouble {
  readonly status?: number
  readonly code?: string
  readonly does?: "hang" | "cut" | "reset"
}

export interface S3Server {
  /** `http://127.0.0.1:port` */
  readonly endpoint: string
  /** By their names without the bucket. */
  readonly objects: Map<string, Uint8Array>
  /** `PUT name`, in order. */
  readonly requests: Array<string>
  readonly headers: Array<Readonly<Record<string, string>>>
  /** What the next requests meet, one each. */
  readonly troubles: Array<Trouble | null>
}

const statusOf: Readonly<Record<string, number>> = { AuthorizationHeaderMalformed: 400, InvalidToken: 400 }

const answer = (
  { objects }: Pick<S3Server, "objects">,
  request: IncomingMessage,
  body: Uint8Array,
  end: (status: number, code: string, bytes?: Uint8Array) => void
) => {
  const { pathname } = new URL(request.url ?? "", "http://host")
  const [, bucket, ...rest] = decodeURIComponent(pathname).split("/")
  const name = rest.join("/")
  if (bucket !== BUCKET) return end(404, "NoSuchBucket")
  if (sha256(body) !== request.headers["x-amz-content-sha256"]) return end(400, "XAmzContentSHA256Mismatch")
  const found = objects.get(name)
  switch (request.method) {
    case "PUT":
      if (request.headers["content-length"] === undefined) return end(411, "MissingContentLength")
      if (request.headers["if-none-match"] === "*" && found !== undefined) return end(412, "PreconditionFailed")
      objects.set(name, body)
      return end(200, "")
    case "GET":
      return found === undefined ? end(404, "NoSuchKey") : end(200, "", found)
    case "DELETE":
      objects.delete(name)
      return end(204, "")
    default:
      return end(405, "MethodNotAllowed")
  }
}

const handle = async (server: S3Server, keys: Keys, request: IncomingMessage, response: ServerResponse) => {
  const { pathname } = new URL(request.url ?? "", "http://host")
  server.requests.push(`${request.method} ${pathname.slice(BUCKET.length + 2)}`)
  server.headers.push(flat(request.headers))
  const trouble = server.troubles.shift() ?? null
  const end = (status: number, code: string, bytes: Uint8Array = Buffer.from(code === "" ? "" : `<Error><Code>${code}</Code></Error>`)) => {
    response.writeHead(status, { "content-length": bytes.length })
    if (trouble?.does === "cut") return response.write(bytes.subarray(0, bytes.length / 2), () => response.destroy())
    return response.end(bytes)
  }
  if (trouble?.does === "hang") return
  if (trouble?.does === "reset") return void request.socket.destroy()
  const refused = refusalOf(request, keys, Date.now())
  if (refused !== null) return void end(statusOf[refused] ?? 403, refused)
  const body = Buffer.concat(await request.toArray())
  if (trouble?.status !== undefined) return void end(trouble.status, trouble.code ?? "")
  answer(server, request, body, end)
}

/** Runs until the scope closes. */
export const make = ({ region = REGION, sessionToken = null }: Partial<Keys> = {}) =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      const state = { objects: new Map(), requests: [], headers: [], troubles: [] }
      const http = createServer((request, response) => {
        request.on("error", () => response.destroy())
        void handle(server, { region, sessionToken }, request, response).catch(() => response.destroy())
      })
      await new Promise<void>((resolve) => http.listen(0, "127.0.0.1", resolve))
      const server: S3Server = { ...state, endpoint: `http://127.0.0.1:${(http.address() as AddressInfo).port}` }
      return { server, http }
    }),
    ({ http }) =>
      Effect.promise(async () => {
        http.closeAllConnections()
        await new Promise((resolve) => http.close(resolve))
      })
  ).pipe(Effect.map(({ server }) => server))
