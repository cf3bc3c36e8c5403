/**
 * A model server on a loopback port: OpenAI chat completions and Responses, Anthropic Messages. The prompt is the script,
 * in the language of the offline agent; `[[error 429 TEXT]]` answers with that status, `[[usage input=… output=…]]` says
 * what an answer costs. What was asked and served is kept in a journal.
 */
import { Effect, type Scope } from "effect"
import { once } from "node:events"
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from "node:http"
import { answer, type Refusal, type Usage } from "./Answer.ts"
import { type Call, type Protocol, read } from "./Call.ts"
import { json, repliers } from "./Replies.ts"
import type { Workspace } from "./Tools.ts"

interface Options {
  /** Bearer token or `x-api-key` every request must carry; absent: any or none. */
  readonly token?: string
  /** Where relative paths of scripts lead. */
  readonly workspace?: Workspace
  /** Listed at `/v1/models`. */
  readonly models?: ReadonlyArray<string>
  /** The usage of every answer whose script does not set it. */
  readonly usage?: Usage
}

/** One request to a model. */
interface ModelRequest {
  readonly protocol: Protocol
  readonly path: string
  readonly headers: IncomingHttpHeaders
  readonly body: unknown
  readonly call: Call
  /** On the clock of `performance.now`. */
  readonly receivedAtMillis: number
  /** `null` until the answer begins. */
  readonly status: number | null
  /** The usage that the client was told so far; `null`: nothing. */
  readonly usage: Usage | null
  readonly state: "answering" | "answered" | "aborted"
}

export interface FakeModel {
  /** Without `/v1` and without a slash at its end. */
  readonly url: string
  /** Requests to a model, oldest first. */
  readonly requests: ReadonlyArray<ModelRequest>
  /** Method and path of everything else that was asked for. */
  readonly others: ReadonlyArray<string>
  /** Refuses the next `times` model requests, whatever their script says. */
  refuse(refusal: Refusal, times?: number): void
}

const protocols: Readonly<Record<string, Protocol>> = {
  "/v1/chat/completions": "openai-chat",
  "/v1/responses": "openai-responses",
  "/v1/messages": "anthropic-messages"
}

const NOWHERE: Workspace = { path: "/", repositories: [] }

const ERROR_TYPES: Readonly<Record<number, string>> = {
  401: "authentication_error",
  429: "rate_limit_error"
}

/** Waits of real clients would take a minute; some of them take this header instead. */
const RETRY_AFTER_MILLIS = "50"

/** Both companies' shapes at once: each client reads the fields it knows. */
const refuseWith = (response: ServerResponse, { message, retryAfter, status }: Refusal) => {
  const type = ERROR_TYPES[status] ?? (status < 500 ? "invalid_request_error" : "api_error")
  const headers = retryAfter === undefined ? { "retry-after-ms": RETRY_AFTER_MILLIS } : { "retry-after": String(retryAfter) }
  json(response, status, { type: "error", error: { type, message, code: type } }, headers)
}

const readBody = async (request: IncomingMessage): Promise<unknown> => {
  const chunks: Array<Buffer> = []
  for await (const chunk of request) chunks.push(chunk)
  try {
    return JSON.parse(Buffer.concat(chunks).toString("utf8"))
  } catch {
    return undefined
  }
}

/** Resolves after `millis`, or when the client goes away. */
const pauseOf = (gone: AbortSignal) => (millis: number) =>
  new Promise<void>((resolve) => {
    const end = () => {
      clearTimeout(timer)
      gone.removeEventListener("abort", end)
      resolve()
    }
    const timer = millis === Infinity ? undefined : setTimeout(end, millis)
    gone.addEventListener("abort", end)
    if (gone.aborted) end()
  })

/** Listens until the scope closes; what is still being answered is cut off then. */
export const start = (options: Options = {}): Effect.Effect<FakeModel, never, Scope.Scope> =>
  Effect.gen(function*() {
    const { models = ["fake-model"], token, workspace = NOWHERE } = options
    const requests: Array<{ -readonly [K in keyof ModelRequest]: ModelRequest[K] }> = []
    const others: Array<string> = []
    const refusals: Array<Refusal> = []

    const allowed = ({ authorization, "x-api-key": key }: IncomingHttpHeaders) =>
      token === undefined || authorization === `Bearer ${token}` || key === token

    const respond = async (request: IncomingMessage, response: ServerResponse) => {
      const receivedAtMillis = performance.now()
      const { pathname: path } = new URL(request.url ?? "/", "http://fake")
      const body = await readBody(request)
      const protocol = request.method === "POST" ? protocols[path] : undefined
      if (protocol === undefined) {
        others.push(`${request.method} ${path}`)
        if (path === "/v1/models") {
          return json(response, 200, { object: "list", data: models.map((id) => ({ id, object: "model", created: 1, owned_by: "fake" })) })
        }
        if (path === "/v1/messages/count_tokens") return json(response, 200, { input_tokens: 1000 })
        return refuseWith(response, { status: 404, message: `the fake model has no ${path}` })
      }

      const gone = new AbortController()
      const call = read(protocol, body)
      const entry: (typeof requests)[number] = {
        protocol,
        path,
        headers: request.headers,
        body,
        call,
        receivedAtMillis,
        status: null,
        usage: null,
        state: "answering"
      }
      requests.push(entry)
      response.once("close", () => {
        entry.state = response.writableFinished ? "answered" : "aborted"
        gone.abort()
      })

      const planned = !allowed(request.headers)
        ? { status: 401, message: "the key is not valid" }
        : (refusals.shift() ?? answer(call, workspace, options.usage))
      if ("status" in planned) {
        entry.status = planned.status
        return refuseWith(response, planned)
      }
      entry.status = 200
      await repliers[protocol]({
        response,
        call,
        answer: planned,
        pause: pauseOf(gone.signal),
        aborted: () => gone.signal.aborted,
        served: (usage) => {
          entry.usage = usage
        }
      })
    }

    const server = createServer((request, response) => void respond(request, response))
    yield* Effect.acquireRelease(
      Effect.promise(() => once(server.listen(0, "127.0.0.1"), "listening")),
      () =>
        Effect.callback<void>((resume) => {
          server.close(() => resume(Effect.void))
          server.closeAllConnections()
        })
    )
    const address = server.address()
    return {
      url: `http://127.0.0.1:${address !== null && typeof address === "object" ? address.port : 0}`,
      requests,
      others,
      refuse: (refusal, times = 1) => refusals.push(...Array.from({ length: times }, () => refusal))
    }
  })
