/** A provider whose answers a test writes itself, byte by byte, and an agent that asks it through the gateway. */
import type { ModelAccess } from "@slipway/domain/models/ports/ModelGateway"
import { Deferred, Effect, Redacted, type Scope } from "effect"
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"

export interface Asked {
  readonly method: string
  readonly url: string
  readonly headers: IncomingHttpHeaders
  readonly body: any
  readonly bytes: Buffer
  readonly request: IncomingMessage
  readonly response: ServerResponse
  /** Completes when the connection is gone before the answer was through. */
  readonly aborted: Effect.Effect<void>
}

export interface Provider {
  /** Ends in `/v1`. */
  readonly baseUrl: string
  readonly asked: Array<Asked>
  /** The answer to the next requests. */
  answer: (asked: Asked) => void
  /** The request after those seen so far by `next`. */
  readonly next: Effect.Effect<Asked>
}

export const start: Effect.Effect<Provider, never, Scope.Scope> = Effect.gen(function*() {
  const asked: Array<Asked> = []
  let waiting: Array<Deferred.Deferred<void>> = []
  let seen = 0
  const server = createServer((request, response) => {
    const chunks: Array<Buffer> = []
    request.on("data", (chunk: Buffer) => chunks.push(chunk))
    request.on("end", () => {
      const aborted = Deferred.makeUnsafe<void>()
      const bytes = Buffer.concat(chunks)
      response.on("close", () => {
        if (!response.writableFinished) Deferred.doneUnsafe(aborted, Effect.void)
      })
      response.on("error", () => {})
      const entry: Asked = {
        method: request.method ?? "",
        url: request.url ?? "",
        headers: request.headers,
        body: JSON.parse(bytes.toString("utf8") || "null"),
        bytes,
        request,
        response,
        aborted: Deferred.await(aborted)
      }
      asked.push(entry)
      for (const deferred of waiting) Deferred.doneUnsafe(deferred, Effect.void)
      waiting = []
      provider.answer(entry)
    })
  })
  yield* Effect.acquireRelease(
    Effect.callback<void>((resume) => {
      server.listen(0, "127.0.0.1", () => resume(Effect.void))
    }),
    () =>
      Effect.callback<void>((resume) => {
        server.close(() => resume(Effect.void))
        server.closeAllConnections()
      })
  )
  const provider: Provider = {
    baseUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    asked,
    answer: ({ response }) => json(response, 200, { choices: [] }),
    next: Effect.gen(function*() {
      while (asked.length <= seen) {
        const deferred = yield* Deferred.make<void>()
        waiting.push(deferred)
        yield* Deferred.await(deferred)
      }
      const found = asked[seen++]
      if (found === undefined) return yield* Effect.die("no request")
      return found
    })
  }
  return provider
})

export const json = (response: ServerResponse, status: number, body: unknown, headers: Record<string, string> = {}) => {
  response.writeHead(status, { "content-type": "application/json", ...headers })
  response.end(typeof body === "string" ? body : JSON.stringify(body))
}

export const sse = (...events: ReadonlyArray<object | "[DONE]">) =>
  events.map((event) => `data: ${event === "[DONE]" ? event : JSON.stringify(event)}\n\n`).join("")

export interface Reply {
  readonly status: number
  readonly headers: Headers
  readonly text: string
  /** Whether the connection broke off before the end. */
  readonly broken: boolean
}

/** As an agent asks. `received` is called for each chunk of the answer. */
export const ask = (
  access: ModelAccess,
  path: string,
  body: unknown,
  headers: Record<string, string> = {},
  method = "POST",
  received = () => {}
) =>
  Effect.promise(async (signal): Promise<Reply> => {
    const response = await fetch(`${access.baseUrl}${path}`, {
      method,
      signal,
      headers: { "content-type": "application/json", authorization: `Bearer ${Redacted.value(access.token)}`, ...headers },
      ...(method === "POST" ? { body: typeof body === "string" ? body : JSON.stringify(body) } : {})
    }).catch(() => null)
    if (response === null) return { status: 0, headers: new Headers(), text: "", broken: true }
    let text = ""
    try {
      const decoder = new TextDecoder()
      for await (const chunk of response.body ?? []) {
        text += decoder.decode(chunk, { stream: true })
        received()
      }
      return { status: response.status, headers: response.headers, text, broken: false }
    } catch {
      return { status: response.status, headers: response.headers, text, broken: true }
    }
  })
