/**
 * The calls of an API server that machines need: create, read, list, watch, patch, delete. Each has a limit of time and of bytes. A
 * refusal is a `Status`, whose reason and message are passed on; neither holds a token.
 */
import { codeOf } from "@slipway/domain/files/rules/SystemError"
import { Effect, Redacted, Schema } from "effect"
import type { IncomingMessage } from "node:http"
import { Agent, request as httpsRequest } from "node:https"
import type { SecureContextOptions } from "node:tls"
import type { Cluster } from "./Cluster.ts"

/** The API server refused, or was not reached. `status`: the HTTP status; `null`: there was no answer. */
export class KubernetesFailed extends Schema.TaggedError<KubernetesFailed>()("KubernetesFailed", {
  status: Schema.NullOr(Schema.Int),
  /** The reason of the `Status`, such as `AlreadyExists`; otherwise empty. */
  reason: Schema.String,
  /** A sentence for people. */
  detail: Schema.String,
  retryable: Schema.Boolean
}) {
  override get message() {
    return this.detail
  }
}

export type Query = Readonly<Record<string, string | number | undefined>>

export interface Call {
  readonly method: "GET" | "POST" | "PATCH" | "DELETE"
  /** Below the server's address, each segment encoded. */
  readonly path: string
  readonly query?: Query
  readonly body?: unknown
}

export interface TimeLimits {
  /** The time limit of a whole answer. An overloaded API server delays calls for up to a minute. */
  readonly answerMillis: number
  /** How long a watch may be without a byte: a bookmark comes each minute. */
  readonly silenceMillis: number
}

const LIMITS: TimeLimits = { answerMillis: 30_000, silenceMillis: 180_000 }

/** A page of a list has 100 objects; etcd keeps none of more than 1.5 MiB, ours have 20 KiB. */
const MAX_ANSWER_BYTES = 32 * 2 ** 20
/** An event of a watch holds one object. */
const MAX_LINE_BYTES = 4 * 2 ** 20
const MAX_WORDS = 500

/** Connections of all calls together; watches have their own. */
const MOST_CONNECTIONS = 16

const Status = Schema.Struct({
  kind: Schema.Literal("Status"),
  message: Schema.optionalKey(Schema.String),
  reason: Schema.optionalKey(Schema.String),
  code: Schema.optionalKey(Schema.Int)
})
const decodeStatus = Schema.decodeUnknownOption(Status)

/** The text as one line of limited length. */
export const words = (text: string): string => text.replaceAll(/[\s\p{Cc}]+/gu, " ").trim().slice(0, MAX_WORDS)

const parseOr = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

export interface KubernetesApi {
  /** Such as `10.0.0.1:443`. */
  readonly host: string
  /** The object that the answer holds. */
  readonly call: (call: Call) => Effect.Effect<unknown, KubernetesFailed>
  /** Passes the events of a watch on as they arrive; returns when the server ends it, or the connection breaks. */
  readonly watch: (path: string, query: Query, hear: (event: unknown) => void) => Effect.Effect<void, KubernetesFailed>
}

/** How the API server is reached. */
interface ApiServer extends TimeLimits {
  readonly cluster: Cluster
  readonly host: string
  readonly tls: SecureContextOptions & { readonly servername?: string }
  /** For calls; watches have connections of their own. */
  readonly agent: Agent
}

const unreachable = ({ host }: ApiServer, error: unknown) => {
  const code = codeOf(error)
  return new KubernetesFailed({
    status: null,
    reason: "",
    detail: `The API server at ${host} cannot be reached (${typeof code === "string" ? code : "the connection broke"}).`,
    retryable: true
  })
}

const silent = ({ host }: ApiServer, millis: number) =>
  new KubernetesFailed({
    status: null,
    reason: "",
    detail: `The API server at ${host} did not answer within ${millis / 1000} seconds.`,
    retryable: true
  })

const tooLarge = (server: ApiServer) =>
  new KubernetesFailed({
    status: null,
    reason: "",
    detail: `The API server at ${server.host} answered with more than may be.`,
    retryable: false
  })

const urlOf = ({ cluster }: ApiServer, path: string, query: Query): URL => {
  // An address with a path belongs to a proxy, such as Rancher's.
  const url = new URL(cluster.server.pathname.replace(/\/$/u, "") + path, cluster.server)
  for (const [name, value] of Object.entries(query)) if (value !== undefined) url.searchParams.set(name, String(value))
  return url
}

/** The head of an answer. The rest of it is dropped when the scope closes. */
const send = Effect.fnUntraced(function*(server: ApiServer, { body, method, path, query = {} }: Call, fresh: boolean, own: boolean) {
  const { agent, cluster, tls } = server
  const token = yield* Effect.mapError(
    cluster.token(fresh),
    ({ message }) => new KubernetesFailed({ status: null, reason: "", detail: message, retryable: true })
  )
  let head: IncomingMessage | undefined
  const sent = body === undefined ? undefined : Buffer.from(JSON.stringify(body))
  const request = yield* Effect.acquireRelease(
    Effect.sync(() => {
      const made = httpsRequest(urlOf(server, path, query), {
        method,
        agent: own ? false : agent,
        ...(own ? tls : {}),
        headers: {
          accept: "application/json",
          "user-agent": "slipway",
          ...(token === null ? {} : { authorization: `Bearer ${Redacted.value(token)}` }),
          ...(sent === undefined ? {} : {
            "content-type": method === "PATCH" ? "application/merge-patch+json" : "application/json",
            "content-length": sent.length
          })
        }
      })
      made.on("error", () => {})
      return made
    }),
    (made) => Effect.sync(() => void (head?.complete === true || made.destroy()))
  )
  return yield* Effect.callback<IncomingMessage, KubernetesFailed>((resume) => {
    request.once("error", (error) => resume(Effect.fail(unreachable(server, error))))
    request.once("response", (response) => {
      response.on("error", () => {})
      head = response
      resume(Effect.succeed(response))
    })
    request.end(sent)
  })
})

const textOf = (server: ApiServer, response: IncomingMessage) =>
  Effect.callback<string, KubernetesFailed>((resume) => {
    const chunks: Array<Buffer> = []
    let bytes = 0
    response.on("data", (chunk: Buffer) => {
      bytes += chunk.length
      if (bytes > MAX_ANSWER_BYTES) {
        resume(Effect.fail(tooLarge(server)))
        response.destroy()
      } else chunks.push(chunk)
    })
    response.once("close", () => {
      resume(response.complete ? Effect.succeed(Buffer.concat(chunks).toString("utf8")) : Effect.fail(unreachable(server, undefined)))
    })
  })

const refusal = (server: ApiServer, status: number, text: string) => {
  const { host } = server
  const said = decodeStatus(parseOr(text))
  const { message, reason = "" } = said._tag === "Some" ? said.value : {}
  return new KubernetesFailed({
    status,
    reason,
    detail: message === undefined ? `The API server at ${host} answered with status ${status}.` : words(message),
    // 409: another write came first.
    retryable: status === 401 || status === 409 || status === 429 || status >= 500
  })
}

/** Tries once more with a fresh token, because the cached one may have expired. */
const answered = Effect.fnUntraced(function*(server: ApiServer, call: Call, own: boolean) {
  let response = yield* send(server, call, false, own)
  if (response.statusCode === 401) {
    response.resume()
    response = yield* send(server, call, true, own)
  }
  const status = response.statusCode ?? 0
  if (status < 200 || status > 299) return yield* refusal(server, status, yield* textOf(server, response))
  return response
})

const request = (server: ApiServer, call: Call) =>
  Effect.gen(function*() {
    const text = yield* textOf(server, yield* answered(server, call, false))
    const value = parseOr(text)
    if (value === undefined) {
      return yield* new KubernetesFailed({
        status: null,
        reason: "",
        detail: `What answers at ${server.host} is no API server of Kubernetes.`,
        retryable: false
      })
    }
    return value
  }).pipe(
    Effect.scoped,
    Effect.timeoutOrElse({ duration: server.answerMillis, orElse: () => Effect.fail(silent(server, server.answerMillis)) })
  )

const heard = (server: ApiServer, response: IncomingMessage, hear: (event: unknown) => void) =>
  Effect.callback<void, KubernetesFailed>((resume) => {
    let line = ""
    const decoder = new TextDecoder()
    const fail = (error: KubernetesFailed) => {
      resume(Effect.fail(error))
      response.destroy()
    }
    const waiting = setTimeout(() => fail(silent(server, server.silenceMillis)), server.silenceMillis)
    response.on("data", (chunk: Buffer) => {
      waiting.refresh()
      line += decoder.decode(chunk, { stream: true })
      const lines = line.split("\n")
      line = lines.pop() ?? ""
      for (const one of lines) if (one !== "") hear(parseOr(one))
      if (line.length > MAX_LINE_BYTES) fail(tooLarge(server))
    })
    response.once("close", () => {
      clearTimeout(waiting)
      resume(Effect.void)
    })
    return Effect.sync(() => clearTimeout(waiting))
  })

const watch = (server: ApiServer, path: string, query: Query, hear: (event: unknown) => void): Effect.Effect<void, KubernetesFailed> =>
  answered(server, { method: "GET", path, query: { ...query, watch: "true" } }, true).pipe(
    Effect.timeoutOrElse({ duration: server.answerMillis, orElse: () => Effect.fail(silent(server, server.answerMillis)) }),
    Effect.flatMap((response) => heard(server, response, hear)),
    Effect.scoped
  )

/** Connections are closed with the scope. */
export const make = Effect.fnUntraced(function*(cluster: Cluster, limits: Partial<TimeLimits> = {}) {
  const { answerMillis, silenceMillis } = { ...LIMITS, ...limits }
  const { host } = cluster.server
  const tls = {
    minVersion: "TLSv1.2",
    ...(cluster.ca === null ? {} : { ca: cluster.ca }),
    ...(cluster.servername === null ? {} : { servername: cluster.servername }),
    ...(cluster.certificate === null ? {} : { cert: cluster.certificate.cert, key: Redacted.value(cluster.certificate.key) })
  } as const
  const agent = yield* Effect.acquireRelease(
    Effect.sync(() => new Agent({ ...tls, keepAlive: true, maxSockets: MOST_CONNECTIONS })),
    (agent) => Effect.sync(() => agent.destroy())
  )

  const server: ApiServer = { cluster, host, tls, agent, answerMillis, silenceMillis }
  const api: KubernetesApi = {
    host,
    call: (call) => request(server, call),
    watch: (path, query, hear) => watch(server, path, query, hear)
  }
  return api
})
