/**
 * Requests to the REST API of a source host. Each is sent once, with a timeout and a bound for its answer, and its errors carry the host's
 * text without secrets. Redirects are not followed, because credentials must not go to other addresses.
 */
import { hostWords } from "@slipway/domain/source/rules/HostWords"
import { Duration, Effect, Redacted, Schema } from "effect"

/** A request failed. The caller converts it to the port's error. */
export class RestFailed extends Schema.TaggedError<RestFailed>()("RestFailed", {
  /** `null`: no answer; whether the request took effect is unknown. */
  status: Schema.NullOr(Schema.Int),
  /** A sentence for people with the host's text (`hostWords`), without secrets. */
  detail: Schema.String,
  retryable: Schema.Boolean,
  /** Seconds. */
  retryAfter: Schema.optionalKey(Schema.Int),
  /** The address of a redirection. It is not followed. */
  location: Schema.optionalKey(Schema.String)
}) {
  override get message() {
    return this.detail
  }
}

/** Handles failures with this status. */
export const onStatus =
  <A2, E2>(status: number, handle: (failure: RestFailed) => Effect.Effect<A2, E2>) =>
  <A, E>(self: Effect.Effect<A, E>): Effect.Effect<A | A2, E | E2> =>
    Effect.catchIf(self, (error) => error instanceof RestFailed && error.status === status, (error) => handle(error as E & RestFailed))

/** A server and how its errors look. */
export interface Host {
  /** For people, such as `gitlab.example.com`. */
  readonly name: string
  /** Without a slash at its end, such as `https://gitlab.example.com/api/v4`. */
  readonly apiUrl: string
  /** The server's own text of an error; empty: none. `data`: its parsed body, or its text. */
  readonly said: (data: unknown) => string
  /** Texts that look like the server's secrets. */
  readonly secrets: RegExp
}

type QueryValue = string | number | boolean | ReadonlyArray<string>

/** One request. */
export interface Request {
  readonly method: "DELETE" | "GET" | "PATCH" | "POST" | "PUT"
  /** Below the API's address. Its parts are encoded by the caller (`encodeURIComponent`). */
  readonly path: string
  readonly query?: Readonly<Record<string, QueryValue>>
  /** Sent as JSON. */
  readonly body?: unknown
  readonly headers?: Readonly<Record<string, string>>
  /** Sent as `authorization: Bearer …`; `null`: without. */
  readonly token: Redacted.Redacted | null
  /** Bytes of the answer. Default {@link MAX_ANSWER_BYTES}. */
  readonly answerBytes?: number
}

/** The successful answer. */
export interface Answer {
  readonly status: number
  readonly headers: Headers
  /** Parsed JSON; other bodies as text, an empty one as `undefined`. */
  readonly data: unknown
}

/** A page of a hundred long comments has some MiB. */
export const MAX_ANSWER_BYTES = 16 * 2 ** 20
const READ_TIMEOUT = Duration.seconds(10)
/** A write may have taken effect, so its answer is worth the wait. */
const WRITE_TIMEOUT = Duration.seconds(30)
/** The wait after a rate limit without a time (our choice). */
const UNNAMED_WAIT_SECONDS = 60
/** The longest wait that is believed. */
const MAX_WAIT_SECONDS = 86_400

/** The system's code of a connection error, such as `ECONNREFUSED`; messages would contain addresses. */
const codeOf = (error: unknown): string => {
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    if ("code" in cause && typeof cause.code === "string") return cause.code
  }
  return "no code"
}

/** The address of a request. */
const urlOf = (apiUrl: string, { path, query = {} }: Pick<Request, "path" | "query">): string => {
  const parameters = new URLSearchParams()
  for (const [name, value] of Object.entries(query)) {
    if (Array.isArray(value)) { for (const one of value) parameters.append(name, one) }
    else parameters.append(name, String(value))
  }
  return `${apiUrl}${path}${parameters.size === 0 ? "" : `?${parameters}`}`
}

/** Seconds to wait, if the host refused because of a rate limit or asked for a wait. */
const waitOf = (status: number, headers: Headers): number | undefined => {
  const bounded = (seconds: number) => Math.min(Math.max(Math.ceil(seconds), 0), MAX_WAIT_SECONDS)
  const asked = Number(headers.get("retry-after") ?? Number.NaN)
  if (Number.isFinite(asked)) return bounded(asked)
  if (status !== 429) return undefined
  // The end of the limit in Unix seconds, by the server's own clock.
  const wait = Number(headers.get("ratelimit-reset") ?? Number.NaN) - Date.parse(headers.get("date") ?? "") / 1000
  return Number.isFinite(wait) ? bounded(wait) : UNNAMED_WAIT_SECONDS
}

/** The bytes of the body; `null`: there are more than `most`. */
const bytesOf = async ({ body }: Response, most: number): Promise<Buffer<ArrayBuffer> | null> => {
  const chunks: Array<Uint8Array> = []
  let length = 0
  for await (const chunk of body ?? []) {
    length += chunk.length
    // Leaving the loop cancels the rest.
    if (length > most) return null
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}

/** The answer with the bytes of its body; `null`: there are more than `most`. Rejects as `fetch` does. */
export const received = async (url: string, init: RequestInit, most: number) => {
  const response = await fetch(url, init)
  return { response, bytes: await bytesOf(response, most) }
}

const parsed = (text: string): unknown => {
  if (text === "") return undefined
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

const isRedirection = (status: number): boolean => status >= 300 && status < 400 && status !== 304

/** The failure of an answer that is no success. */
const refusalOf = (host: Host, secret: string, response: Response, data: unknown): RestFailed => {
  const { headers, status } = response
  const own = host.said(data).slice(0, 4_000)
  const said = hostWords((secret.length > 8 ? own.replaceAll(secret, "***") : own).replaceAll(host.secrets, "***"))
  const location = isRedirection(status) ? headers.get("location") : null
  const retryAfter = waitOf(status, headers)
  return new RestFailed({
    status,
    detail: location !== null
      ? `${host.name} redirects to another address, which is not followed.`
      : said === ""
      ? `${host.name} answered with status ${status}.`
      : `${host.name} says: ${said}`,
    retryable: retryAfter !== undefined || status >= 500,
    ...(retryAfter === undefined ? {} : { retryAfter }),
    ...(location === null ? {} : { location })
  })
}

/** Sends the request once. Fails for every status but 2xx. */
export const send = (host: Host, request: Request): Effect.Effect<Answer, RestFailed> => {
  const { answerBytes = MAX_ANSWER_BYTES, body, headers = {}, method, token } = request
  const secret = token === null ? "" : Redacted.value(token)
  const timeout = method === "GET" ? READ_TIMEOUT : WRITE_TIMEOUT
  return Effect.tryPromise({
    try: (signal) =>
      received(urlOf(host.apiUrl, request), {
        method,
        redirect: "manual",
        signal,
        headers: {
          accept: "application/json",
          "user-agent": "slipway",
          ...(secret === "" ? {} : { authorization: `Bearer ${secret}` }),
          ...(body === undefined ? {} : { "content-type": "application/json" }),
          ...headers
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) })
      }, answerBytes),
    catch: (error) => new RestFailed({ status: null, detail: `The connection to ${host.name} failed (${codeOf(error)}).`, retryable: true })
  }).pipe(
    Effect.timeoutOrElse({
      duration: timeout,
      orElse: () =>
        new RestFailed({
          status: null,
          detail: `${host.name} did not answer within ${Duration.toSeconds(timeout)} seconds.`,
          retryable: true
        })
    }),
    Effect.flatMap(({ bytes, response }) => {
      const data = bytes === null ? undefined : parsed(bytes.toString("utf8"))
      if (!response.ok) return refusalOf(host, secret, response, data)
      return bytes === null
        ? new RestFailed({ status: response.status, detail: `The answer of ${host.name} is too large.`, retryable: false })
        : Effect.succeed({ status: response.status, headers: response.headers, data })
    })
  )
}

/** Decodes the answer. An answer of another form is from another server, or incomplete. */
export const decode = <A, I>(host: Host, schema: Schema.Codec<A, I>, { data, status }: Answer): Effect.Effect<A, RestFailed> =>
  Effect.mapError(
    Schema.decodeUnknownEffect(schema)(data),
    () => new RestFailed({ status, detail: `The answer of ${host.name} could not be understood.`, retryable: true })
  )

/** Whether the connection is unencrypted. */
export const isOpenLine = ({ hostname, protocol }: URL): boolean =>
  protocol !== "https:" && !["127.0.0.1", "[::1]", "localhost"].includes(hostname)
