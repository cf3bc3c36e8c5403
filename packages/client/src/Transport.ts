/** Requests to one service: addresses, time limits and retries. */
import { Attempt } from "./Attempt.ts"
import { SlipwayError } from "./SlipwayError.ts"

/** The service, and how to connect to it. */
export interface ClientOptions {
  /** The server's address, such as `https://slipway.example`, with its base path if it has one. */
  readonly baseUrl: string
  /** Sent only to `baseUrl`, as a header: redirects are not followed. */
  readonly apiKey: string
  /** Sends requests. Default: the platform's `fetch`. */
  readonly fetch?: typeof globalThis.fetch | undefined
  /** Milliseconds for one attempt, until the whole reply has arrived. Default: 30,000. Does not apply to streams. */
  readonly timeoutMillis?: number | undefined
  /** Milliseconds that a stream or download may go without a byte. Default: 45,000. Idle streams have a heartbeat each 15 s. */
  readonly idleTimeoutMillis?: number | undefined
  /** The number of retries of a request. Default: 3. */
  readonly retries?: number | undefined
  /** Milliseconds before the first retry. The wait doubles with each retry, up to 8 s. Default: 500. */
  readonly backoffMillis?: number | undefined
  /** Milliseconds before a stream is reconnected; longer after failures, up to 30 s. Default: the service's value, which is 2 s. */
  readonly reconnectMillis?: number | undefined
}

/** Options of every call. */
export interface CallOptions {
  /** Ends the call with all its retries: it rejects with the signal's reason. */
  readonly signal?: AbortSignal | undefined
}

/** Query parameters; `undefined` values are left out. */
export type Query = Readonly<Record<string, string | number | undefined>>

interface Ask extends CallOptions {
  readonly method?: "GET" | "POST" | "DELETE"
  /** Made of `segment`s. */
  readonly path: string
  /** The path is of the internal API. */
  readonly isInternal?: boolean
  readonly query?: Query | undefined
  /** Sent as JSON. */
  readonly body?: object | undefined
  /** Sent as it is, with these headers. */
  readonly bytes?: { readonly content: Blob | Uint8Array<ArrayBuffer>; readonly headers: Readonly<Record<string, string>> } | undefined
  readonly idempotencyKey?: string | undefined
  readonly lastEventId?: string | undefined
}

/** A reply whose body is not read yet. `attempt` must be closed. */
interface Opened {
  readonly response: Response
  readonly attempt: Attempt
}

/** Resolves with a successful reply, and fails with any other. */
type Send = (signal: AbortSignal) => Promise<Response>

const MAX_BACKOFF_MILLIS = 8_000
/** The least time for one attempt, even if less is left for a stream, so that a server has a chance to answer. */
const LEAST_ATTEMPT_MILLIS = 1_000
/** Rate limits end within a minute (docs/decisions/10). Longer waits are left to the caller. */
const MAX_RETRY_AFTER_SECONDS = 60

/** Half of the wait is random, so that clients that failed together do not retry together. */
export const backoff = (baseMillis: number, failures: number, mostMillis: number): number =>
  Math.min(baseMillis * 2 ** failures, mostMillis) * (1 + Math.random()) / 2

/** Rejects with the reason when `signal` is aborted. */
export const pause = (millis: number, signal: AbortSignal | undefined): Promise<void> =>
  new Promise((resolve, reject) => {
    signal?.throwIfAborted()
    const stop = () => {
      clearTimeout(timer)
      reject(signal?.reason)
    }
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop)
      resolve()
    }, millis)
    signal?.addEventListener("abort", stop, { once: true })
  })

/** One segment of a path. Refuses dots, encoded or not, because they would leave the path. */
export const segment = (value: string): string => {
  if (/^\.{0,2}$/u.test(value)) throw new TypeError(`${JSON.stringify(value)} is no id.`)
  return encodeURIComponent(value)
}

const root = (baseUrl: string): string => {
  const { hash, origin, password, pathname, protocol, search, username } = new URL(baseUrl)
  if (!/^https?:$/u.test(protocol) || username + password + search + hash !== "") {
    throw new TypeError("`baseUrl` is an address of http or https, without user, query or fragment.")
  }
  return `${origin}${pathname.replace(/(?<!\/)\/+$/u, "")}/api/`
}

const search = (query: Query = {}): string => {
  const pairs = Object.entries(query).flatMap(([name, value]) => value === undefined ? [] : [[name, String(value)]])
  return pairs.length === 0 ? "" : `?${new URLSearchParams(pairs)}`
}

/** Whole seconds, or a date from a proxy (RFC 9110, section 10.2.3). */
const retryAfterOf = (headers: Headers): number | undefined => {
  const value = headers.get("retry-after") ?? ""
  if (/^\d+$/u.test(value)) return Number(value)
  const seconds = Math.ceil((Date.parse(value) - Date.now()) / 1000)
  return Number.isNaN(seconds) ? undefined : Math.max(seconds, 0)
}

const UNREADABLE = "The service could not be reached, or does not allow pages of this origin, which its operator can allow."

/** Whether this runs in a page of another origin, where browsers hide why a request failed. */
const isOfAnotherOrigin = (url: string): boolean => {
  const { location } = globalThis as { readonly location?: { readonly origin?: string } }
  return location?.origin !== undefined && location.origin !== new URL(url).origin
}

const requestIdOf = (response: Response): string | undefined => response.headers.get("x-request-id") ?? undefined

const refusal = async (response: Response): Promise<SlipwayError> => {
  const status = response.status
  if (response.type === "opaqueredirect" || status >= 300 && status < 400) {
    return new SlipwayError("The service redirects, which this client does not follow. Is its address right?", {
      status,
      code: "redirected"
    })
  }
  const body: unknown = await response.json().catch(() => null)
  const { code = "unknown", message = `The service answered with status ${status}.` } =
    (body as { readonly error?: { readonly code?: string; readonly message?: string } } | null)?.error ?? {}
  return new SlipwayError(message, { status, code, requestId: requestIdOf(response), retryAfter: retryAfterOf(response.headers) })
}

/** Sends requests, with retries and time limits, and reads replies. */
export class Transport {
  readonly #root: string
  readonly #apiKey: string
  readonly #fetch: typeof globalThis.fetch
  readonly #timeoutMillis: number
  readonly #retries: number
  readonly #backoffMillis: number
  readonly idleTimeoutMillis: number

  constructor(options: ClientOptions) {
    this.#root = root(options.baseUrl)
    // `Headers` would repeat the key in its error.
    if (!/^[\x21-\x7e]+$/u.test(options.apiKey)) throw new TypeError("`apiKey` is empty, or has characters that no API key has.")
    this.#apiKey = options.apiKey
    this.#fetch = options.fetch ?? globalThis.fetch
    this.#timeoutMillis = options.timeoutMillis ?? 30_000
    this.idleTimeoutMillis = options.idleTimeoutMillis ?? 45_000
    this.#retries = options.retries ?? 3
    this.#backoffMillis = options.backoffMillis ?? 500
  }

  /** The complete reply to a request; `undefined`: 204. */
  json<A>(ask: Ask): Promise<A> {
    return this.#persist(ask, async (attempt, send) => {
      try {
        return await attempt.within(this.#timeoutMillis, async () => {
          const response = await send(attempt.signal)
          const text = await response.text()
          if (response.status === 204) return undefined
          try {
            return JSON.parse(text)
          } catch (cause) {
            const { status } = response
            throw new SlipwayError("The reply is no JSON.", { status, code: "invalid_reply", requestId: requestIdOf(response), cause })
          }
        })
      } finally {
        attempt.close()
      }
    })
  }

  /** The head of a reply. */
  open(ask: Ask): Promise<Opened> {
    return this.#persist(ask, (attempt, send) => this.#head(attempt, send))
  }

  /** Like `open`, for one attempt of at most `millis`. */
  async openOnce(ask: Ask, millis: number): Promise<Opened> {
    return this.#head(new Attempt(ask.signal), this.#prepare(ask), Math.max(millis, LEAST_ATTEMPT_MILLIS))
  }

  async #head(attempt: Attempt, send: Send, millis = Infinity): Promise<Opened> {
    try {
      return { attempt, response: await attempt.within(Math.min(this.#timeoutMillis, millis), () => send(attempt.signal)) }
    } catch (error) {
      attempt.close()
      throw error
    }
  }

  #prepare({ body, bytes, idempotencyKey, isInternal = false, lastEventId, method = "GET", path, query }: Ask): Send {
    const headers = new Headers({ authorization: `Bearer ${this.#apiKey}` })
    if (body !== undefined) headers.set("content-type", "application/json")
    if (idempotencyKey !== undefined) headers.set("idempotency-key", idempotencyKey)
    if (lastEventId !== undefined) headers.set("last-event-id", lastEventId)
    // A separate variable, because browsers' `fetch` refuses to be called as a method of another object.
    const fetch = this.#fetch
    const url = `${this.#root}${isInternal ? "internal" : "public"}/v1${path}${search(query)}`
    for (const [name, value] of Object.entries(bytes?.headers ?? {})) headers.set(name, value)
    const sent = bytes === undefined ? body === undefined ? undefined : JSON.stringify(body) : bytes.content
    const init = { method, headers, redirect: "manual" as const, ...(sent === undefined ? {} : { body: sent }) }
    return async (signal) => {
      const response = await fetch(url, { ...init, signal }).catch((cause: unknown) => {
        if (signal.aborted || !isOfAnotherOrigin(url)) throw cause
        throw new SlipwayError(UNREADABLE, { status: 0, code: "unreachable", cause })
      })
      if (!response.ok) throw await refusal(response)
      return response
    }
  }

  /** Retries until there is an answer, if the request is safe to repeat and the failure is temporary. */
  async #persist<A>(ask: Ask, once: (attempt: Attempt, send: Send) => Promise<A>): Promise<A> {
    const isRepeatable = ask.method !== "POST" || ask.idempotencyKey !== undefined
    const send = this.#prepare(ask)
    for (let failures = 0;; failures++) {
      const attempt = new Attempt(ask.signal)
      try {
        return await once(attempt, send)
      } catch (error) {
        if (!isRepeatable || failures >= this.#retries || !(error instanceof SlipwayError) || !mayHelp(error)) throw error
        const wait = backoff(this.#backoffMillis, failures, MAX_BACKOFF_MILLIS)
        await pause(Math.max(wait, (error.retryAfter ?? 0) * 1000), ask.signal)
      }
    }
  }
}

const mayHelp = ({ code, retryAfter = 0, status }: SlipwayError): boolean =>
  (code === "unreachable" || code === "timeout" || status === 429 || status === 503) && retryAfter <= MAX_RETRY_AFTER_SECONDS
