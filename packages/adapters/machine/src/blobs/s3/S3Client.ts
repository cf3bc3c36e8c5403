/** Signed requests to an object store: bounded in time, repeated after trouble that passes, and with errors that operators understand. */
import type { StoreUnavailable } from "@slipway/domain/store/StoreUnavailable"
import { AwsV4Signer } from "aws4fetch"
import { type Duration, Effect, Redacted, Schedule } from "effect"
import { unavailable } from "../Advice.ts"
import { type S3Address, urlOf } from "./S3Address.ts"
import type { CredentialsUnusable, S3Credentials } from "./S3Credentials.ts"

export interface Options {
  readonly address: S3Address
  /** Asked for each attempt. */
  readonly credentials: Effect.Effect<S3Credentials, CredentialsUnusable>
  /** The pauses between attempts, for tests. Default: three, of about 0.2, 0.4 and 0.8 seconds. */
  readonly pauses?: Schedule.Schedule<unknown>
}

/** How long an answer is waited for, from the beginning of an attempt. With a body of 32 MiB a line of 1 Mbit/s takes 4.5 minutes. */
const ANSWER: Duration.Input = "30 seconds"
const ANSWER_TO_BODY: Duration.Input = "5 minutes"

/** Characters of an error that are read: it has a code near its beginning. */
const MAX_ERROR = 4096

/** SHA-256 of no bytes. */
const NOTHING = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

/** Advice for operators, by error code of the store or of the connection. */
const advice: Readonly<Record<string, string>> = {
  AccessDenied: "the credentials may not do this. They need s3:GetObject, s3:PutObject, s3:DeleteObject and s3:ListBucket",
  InvalidAccessKeyId: "it does not know the access key. Check AWS_ACCESS_KEY_ID",
  SignatureDoesNotMatch: "the secret key is wrong. Check AWS_SECRET_ACCESS_KEY",
  ExpiredToken: "the session token has expired. Renew the credentials",
  InvalidToken: "the session token is invalid. Renew the credentials",
  NoSuchBucket: "the bucket does not exist. Make it",
  PermanentRedirect: "the bucket is in another region. Set region in SLIPWAY_BLOBS",
  AuthorizationHeaderMalformed: "the region is wrong. Set region in SLIPWAY_BLOBS",
  RequestTimeTooSkewed: "the clock of this machine is wrong. Set it",
  NotImplemented: "it does not support what Slipway needs, such as If-None-Match. Use another store or a newer version",
  ENOTFOUND: "its name is unknown. Check the endpoint in SLIPWAY_BLOBS",
  ECONNREFUSED: "it refuses connections. Check the endpoint in SLIPWAY_BLOBS, and start it"
}

/** An attempt that failed. `code`: of the store, or of the connection. */
interface Failure {
  readonly _tag: "Failure"
  readonly code: string
  readonly retryable: boolean
}
const failure = (code: string, retryable: boolean): Failure => ({ _tag: "Failure", code, retryable })

/** Statuses that pass: too many requests, a conflict with another put of the same object, trouble of the server. */
const PASSING: ReadonlyArray<number> = [408, 409, 429, 500, 502, 503, 504]
/** Codes that come with other statuses. */
const PASSING_CODES: ReadonlyArray<string> = ["RequestTimeout", "SlowDown", "InternalError", "XAmzContentSHA256Mismatch", "BadDigest"]

/** The code of a failed connection. The reason is below `fetch failed`. */
const codeOf = (error: unknown): string => {
  if (!(error instanceof Error)) return "no connection"
  if ("code" in error && typeof error.code === "string") return error.code
  return codeOf(error instanceof AggregateError ? error.errors[0] : error.cause)
}

export interface Request {
  readonly method: "GET" | "PUT" | "DELETE"
  /** Of the object, below the prefix. */
  readonly name: string
  readonly headers?: Readonly<Record<string, string>>
  /** With the SHA-256 and the number of its bytes. A stream is sent once: then nothing is repeated. */
  readonly body?: { readonly bytes: Uint8Array | ReadableStream<Uint8Array>; readonly sha256: string; readonly size: number }
  /** Statuses besides 2xx that the caller understands. */
  readonly known?: ReadonlyArray<number>
}

/** The code in the body of an error, which is XML; empty: it has none. */
const codeIn = (response: Response) =>
  Effect.map(
    Effect.orElseSucceed(Effect.tryPromise(() => response.text()), () => ""),
    (text) => /<Code>(\w{1,100})<\/Code>/u.exec(text.slice(0, MAX_ERROR))?.[1] ?? ""
  )

/** Lets go of the connection without reading the rest. */
export const discard = (response: Response) => Effect.promise(async () => response.body?.cancel().catch(() => undefined))

/** The headers of a signed request. `at`: the time of the signature, as `20260102T030405Z`; without it, now. */
export const signed = async (
  { address, at, credentials: { accessKeyId, secretAccessKey, sessionToken }, headers = {}, method, sha256, url }: {
    readonly address: S3Address
    readonly credentials: S3Credentials
    readonly method: string
    readonly url: string
    readonly headers?: Readonly<Record<string, string>>
    readonly sha256: string
    readonly at?: string
  }
): Promise<Headers> => {
  const signer = new AwsV4Signer({
    method,
    url,
    headers: { ...headers, "x-amz-content-sha256": sha256 },
    accessKeyId,
    secretAccessKey: Redacted.value(secretAccessKey),
    ...(sessionToken === null ? {} : { sessionToken: Redacted.value(sessionToken) }),
    service: "s3",
    region: address.region,
    ...(at === undefined ? {} : { datetime: at })
  })
  return (await signer.sign()).headers
}

/** Sends requests of one store. Answers a response with a 2xx or a known status, whose body the caller reads or discards. */
export const make = ({ address, credentials, pauses }: Options) => {
  const schedule = pauses ?? Schedule.max([Schedule.jittered(Schedule.exponential("200 millis")), Schedule.recurs(3)])

  const attempt = Effect.fnUntraced(function*({ body, headers = {}, known = [], method, name }: Request) {
    const url = urlOf(address, name)
    const keys = yield* Effect.mapError(credentials, ({ problem }) => failure(problem, false))
    const response = yield* Effect.tryPromise({
      try: async (signal) => {
        const all = await signed({ address, credentials: keys, method, url, headers, sha256: body?.sha256 ?? NOTHING })
        if (body !== undefined) {
          all.set("content-length", String(body.size))
          all.set("content-type", "application/octet-stream")
        }
        return await fetch(url, {
          method,
          headers: all,
          redirect: "manual",
          signal,
          ...(body === undefined ? {} : { body: body.bytes as Uint8Array<ArrayBuffer>, duplex: "half" })
        })
      },
      catch: (error) => failure(codeOf(error), true)
    }).pipe(Effect.timeoutOrElse({
      duration: body === undefined ? ANSWER : ANSWER_TO_BODY,
      orElse: () => Effect.fail(failure("no answer in time", true))
    }))
    if (response.ok) return response
    const code = yield* codeIn(response)
    if (known.includes(response.status) && code !== "NoSuchBucket") return response
    const isPassing = PASSING.includes(response.status) || PASSING_CODES.includes(code)
    return yield* Effect.fail(failure(code === "" ? `status ${response.status}` : code, isPassing))
  })

  return (request: Request): Effect.Effect<Response, StoreUnavailable> => {
    const isOnce = request.body?.bytes instanceof ReadableStream
    return attempt(request).pipe(
      Effect.retry({ schedule, while: ({ retryable }: Failure) => retryable && !isOnce }),
      Effect.catch(({ code }: Failure) =>
        unavailable(`Blobs cannot be kept in ${new URL(urlOf(address, "")).host}, bucket ${address.bucket}: ${advice[code] ?? code}.`, code)
      )
    )
  }
}
